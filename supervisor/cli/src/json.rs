//! What `--json` writes for programs: the result as `fanin.result/1`, an error as `fanin.error/1`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use fanin_protocol::{CombinedResult, Fault};
use serde::Serialize;

use crate::exit::Exit;
use crate::plan::generated_id;

#[derive(Debug, Serialize)]
struct Document<'r> {
    schema: &'static str,
    exit: ExitOf,
    tasks: Vec<TaskOf<'r>>,
    #[serde(flatten)]
    result: &'r CombinedResult,
}

/// What the task of an entry is called in the manifest, beside the entry: the result itself knows only jobs.
#[derive(Debug, Serialize)]
struct TaskOf<'r> {
    index: u32,
    id: Cow<'r, str>,
}

#[derive(Debug, Serialize)]
struct ExitOf {
    code: u8,
    name: &'static str,
}

/// Writes the document and a line feed. `ids` are those that somebody gave to tasks, by their index.
///
/// # Errors
///
/// The writer's.
pub(crate) fn write(
    out: &mut impl Write,
    result: &CombinedResult,
    ids: &BTreeMap<u32, String>,
    exit: Exit,
) -> io::Result<()> {
    let exit = ExitOf { code: exit.code(), name: exit.name() };
    let id = |index: u32| match ids.get(&index) {
        Some(id) => Cow::Borrowed(id.as_str()),
        None => Cow::Owned(generated_id(index as usize)),
    };
    let tasks =
        result.entries.iter().map(|entry| TaskOf { index: entry.index, id: id(entry.index) }).collect();
    serde_json::to_writer(&mut *out, &Document { schema: "fanin.result/1", exit, tasks, result })?;
    out.write_all(b"\n")
}

/// The document of an error, in one line. `hint` is the way out.
pub(crate) fn error(code: &str, message: &str, hint: Option<&str>) -> String {
    #[derive(Debug, Serialize)]
    struct Document {
        schema: &'static str,
        #[serde(flatten)]
        fault: Fault,
    }
    let hint = hint.map(ToOwned::to_owned);
    let fault = Fault { code: code.to_owned(), message: message.to_owned(), hint, retryable: false };
    // Some texts and a flag: there is nothing in it that could not be written.
    serde_json::to_string(&Document { schema: "fanin.error/1", fault }).unwrap_or_default()
}

/// The document of a command line that is none: the parser's sentence, and its tip as the way out.
pub(crate) fn usage(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let ends = ["\n\n  tip: ", "\n\nUsage: ", "\n\nFor more information"].map(|end| text.find(end));
    let (message, rest) = text.split_at(ends.into_iter().flatten().min().unwrap_or(text.len()));
    let tip = rest.lines().find_map(|line| line.strip_prefix("  tip: "));
    let hint = tip.unwrap_or("`fanin run --help` shows every word, with examples");
    self::error(Exit::Usage.name(), message.trim_end(), Some(hint))
}

#[cfg(test)]
mod tests;
