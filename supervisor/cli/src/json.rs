//! What `--json` writes for programs: the result as `fanin.result/1`, an error as `fanin.error/1`.

use std::borrow::Cow;
use std::io::{self, Write};

use fanin_protocol::{CombinedResult, Fault, GroupId, ParentMark};
use serde::Serialize;

use crate::exit::Exit;
use crate::tasks::Member;

#[derive(Debug, Serialize)]
struct Document<'r> {
    schema: &'static str,
    exit: ExitOf,
    parent: Option<&'r ParentMark>,
    again_of: Option<&'r GroupId>,
    tasks: Vec<TaskOf<'r>>,
    #[serde(flatten)]
    result: &'r CombinedResult,
}

/// What stands beside the entry of a task: the result itself knows only jobs, and nothing of other runs.
#[derive(Debug, Serialize)]
struct TaskOf<'r> {
    index: u32,
    id: Cow<'r, str>,
    carried_from: Option<&'r GroupId>,
}

#[derive(Debug, Serialize)]
struct ExitOf {
    code: u8,
    name: &'static str,
}

/// What a document says beside the result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beside<'r> {
    /// The tasks in launch order.
    pub(crate) members: &'r [Member],
    /// The job that this run is nested in.
    pub(crate) parent: Option<&'r ParentMark>,
    /// The run that this one ran again.
    pub(crate) again_of: Option<&'r GroupId>,
    /// How the program ends.
    pub(crate) exit: Exit,
}

/// Writes the document and a line feed.
///
/// # Errors
///
/// The writer's.
pub(crate) fn write(out: &mut impl Write, result: &CombinedResult, beside: Beside<'_>) -> io::Result<()> {
    let Beside { members, parent, again_of, exit } = beside;
    let exit = ExitOf { code: exit.code(), name: exit.name() };
    let of = |index: u32| {
        let member = members.get(usize::try_from(index).ok()?)?;
        Some(TaskOf { index, id: member.name(index), carried_from: member.carried_from() })
    };
    let tasks = result.entries.iter().filter_map(|entry| of(entry.index)).collect();
    let document = Document { schema: "fanin.result/1", exit, parent, again_of, tasks, result };
    serde_json::to_writer(&mut *out, &document)?;
    out.write_all(b"\n")
}

/// The document of an error, in one line. `hint` is the way out.
pub(crate) fn error(code: &str, message: &str, hint: Option<&str>) -> String {
    let hint = hint.map(ToOwned::to_owned);
    fault(&Fault { code: code.to_owned(), message: message.to_owned(), hint, retryable: false })
}

/// The same of an error that says all of itself.
pub(crate) fn fault(fault: &Fault) -> String {
    #[derive(Debug, Serialize)]
    struct Document<'f> {
        schema: &'static str,
        #[serde(flatten)]
        fault: &'f Fault,
    }
    // Some texts and a flag: there is nothing in it that could not be written.
    serde_json::to_string(&Document { schema: "fanin.error/1", fault }).unwrap_or_default()
}

/// The document of a command line that is none: the parser's sentence, and its tip as the way out, else the help of
/// `command`.
pub(crate) fn usage(error: &clap::Error, command: &str) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let ends = ["\n\n  tip: ", "\n\nUsage: ", "\n\nFor more information"].map(|end| text.find(end));
    let (message, rest) = text.split_at(ends.into_iter().flatten().min().unwrap_or(text.len()));
    let tip = rest.lines().find_map(|line| line.strip_prefix("  tip: "));
    let examples = if matches!(command, "fanin" | "fanin run") { ", with examples" } else { "" };
    let help = format!("`{command} --help` shows every word{examples}");
    self::error(Exit::Usage.name(), message.trim_end(), Some(tip.unwrap_or(&help)))
}

#[cfg(test)]
mod tests;
