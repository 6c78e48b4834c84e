//! What a run says to the runner of GitHub Actions: groups in its log, annotations, a summary of the step. Text of tasks
//! never becomes a command: the runner takes a line for one that begins with `::`, after any blanks, or that has `##[`
//! anywhere in it.

mod summary;

use std::borrow::Cow;
use std::env;
use std::io::{self, Write};
use std::path::PathBuf;

use fanin_protocol::limits::{ANNOTATIONS_MAX, SHOWN_LINE_BYTES_MAX};
use fanin_protocol::{ResultEntry, Status, text};

use crate::over::Over;

pub(crate) use summary::summary;

/// Lines at the end of an output that an annotation shows.
const LINES: usize = 5;

/// A runner that reads what is written.
#[derive(Debug)]
pub(crate) struct GitHub {
    /// Where the summary of the step goes.
    pub(crate) summary: Option<PathBuf>,
    /// By chance, and made once all tasks are over: none of them can write it.
    token: String,
}

/// True where GitHub's runner reads standard output and standard error.
pub(crate) fn is_there() -> bool {
    env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

impl GitHub {
    /// The runner of this process.
    pub(crate) fn of_environment() -> Option<Self> {
        let summary = env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()).map(PathBuf::from);
        is_there().then(|| Self { summary, token: format!("fanin-{}", uuid::Uuid::new_v4().simple()) })
    }

    /// Writes the result for people: the list, then a group for each task that has something to show, then an annotation
    /// for each that failed.
    ///
    /// # Errors
    ///
    /// The writer's.
    pub(crate) fn write(&self, out: &mut Vec<u8>, over: &Over<'_>) -> io::Result<()> {
        let report = over.report_of();
        self.hush(out, |out| report.write_all_but_output(out, over.tasks.entries()))?;
        for entry in over.tasks.entries() {
            if entry.output.is_none() && entry.status != Status::Error {
                continue;
            }
            writeln!(out, "::group::{}", data(&report.title(&entry)))?;
            self.hush(out, |out| report.write_output(out, &entry, |entry| over.tasks.kept(&entry.job)))?;
            writeln!(out, "::endgroup::")?;
        }
        annotations(over).iter().try_for_each(|annotation| writeln!(out, "{annotation}"))
    }

    /// Writes what may hold text of tasks, between marks that make the runner pass over commands.
    fn hush(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
        let token = &self.token;
        writeln!(out, "::stop-commands::{token}")?;
        write(out)?;
        writeln!(out, "::{token}::")
    }
}

/// An annotation for each task that failed: the first ones, since more are not shown, and how many there are.
pub(crate) fn annotations(over: &Over<'_>) -> Vec<String> {
    let is_failed = |entry: &Cow<'_, ResultEntry>| entry.status == Status::Error;
    let failed = over.tasks.entries().filter(is_failed);
    let all = usize::try_from(over.tasks.result.counts.error).unwrap_or(usize::MAX);
    let room = if all > ANNOTATIONS_MAX { ANNOTATIONS_MAX - 1 } else { ANNOTATIONS_MAX };
    let mut annotations: Vec<_> = failed.take(room).map(|entry| annotation(over, &entry)).collect();
    if all > room {
        let more = all - annotations.len();
        annotations.push(format!("::error title=fanin::and {more} tasks more that failed"));
    }
    annotations
}

fn annotation(over: &Over<'_>, entry: &ResultEntry) -> String {
    let label = entry.label.as_ref().map_or_else(|| entry.job.to_string(), |label| text::one_line(label));
    let mut message = over.words.of(&entry.into());
    let kept = over.tasks.kept(&entry.job).map(|kept| kept.text);
    let said = kept.or_else(|| entry.output.as_ref().map(|output| output.text.to_string()));
    let said = text::printable(said.as_deref().unwrap_or_default()).trim_end().to_owned();
    let lines: Vec<_> = said.lines().collect();
    for line in lines.iter().skip(lines.len().saturating_sub(LINES)) {
        message.push('\n');
        message.push_str(text::cut(line, SHOWN_LINE_BYTES_MAX));
    }
    format!("::error title={}::{}", property(&label), data(&message))
}

/// Text as the data of a command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Text as a property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Text that is no command, line by line, and looks nearly as it was.
pub(crate) fn defused(text: &str) -> Cow<'_, str> {
    let begins = |line: &str| line.trim_start().starts_with("::");
    if !text.contains("##[") && !text.lines().any(begins) {
        return Cow::Borrowed(text);
    }
    let line = |line: &str| {
        let line = line.replace("##[", "## [");
        if begins(&line) { line.replacen("::", ": :", 1) } else { line }
    };
    Cow::Owned(text.split('\n').map(line).collect::<Vec<_>>().join("\n"))
}

/// A JSON document that is no command and says the same: what would be one can stand in a string alone.
pub(crate) fn defused_json(document: Vec<u8>) -> Vec<u8> {
    match String::from_utf8(document) {
        Ok(text) => text.replace("##[", "#\\u0023[").into_bytes(),
        // Ours are text.
        Err(error) => error.into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_properties_are_escaped_and_read_back_as_they_were() {
        assert_eq!(data("100%\r\n::error::"), "100%25%0D%0A::error::");
        assert_eq!(property("a,b: 5%"), "a%2Cb%3A 5%25");
        // What looks escaped already must not become what it names.
        assert_eq!(data("%0A"), "%250A");
    }

    #[test]
    fn no_line_of_defused_text_is_a_command() {
        for text in [
            "::error::x",
            "  \t::stop-commands::x",
            "a\n::set-env name=x::y",
            "::::",
            "a ##[error]b",
            "###[x]",
        ] {
            let defused = defused(text);
            assert!(!defused.contains("##["), "{defused}");
            assert!(!defused.lines().any(|line| line.trim_start().starts_with("::")), "{defused}");
        }
        for text in ["", "a::b", "# [x]", "a\nb\n"] {
            assert_eq!(defused(text), text);
        }
    }

    #[test]
    fn a_defused_document_says_the_same() {
        let value = serde_json::json!({ "a": "##[error]x ###[y] ##", "b": ["##["] });
        let defused = defused_json(value.to_string().into_bytes());
        assert!(!String::from_utf8(defused.clone()).unwrap().contains("##["));
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&defused).unwrap(), value);
    }
}
