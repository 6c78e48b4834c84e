//! The summary of a step on GitHub: a table in Markdown, within what GitHub takes. Text of tasks is text in it, never
//! markup.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use fanin_protocol::limits::SUMMARY_BYTES_MAX;
use fanin_protocol::{ResultEntry, Status, text};

use crate::over::Over;

/// Room for what is said below a table that is not whole.
const LAST_LINE_BYTES: usize = 100;

/// The parts of a summary, to be fitted into the room that is left.
#[derive(Debug)]
pub(crate) struct Summary {
    head: String,
    /// A line for each task in launch order, and whether it completed.
    rows: Vec<(bool, String)>,
}

/// The summary of a run.
pub(crate) fn summary(over: &Over<'_>) -> Summary {
    let description = over.description.map(|text| format!("{}\n\n", cell(text))).unwrap_or_default();
    let header = cell(&over.report_of().header());
    let head = format!("### {header}\n\n{description}| task | status | time | cause |\n|---|---|---|---|\n");
    let rows = over.tasks.entries().map(|entry| (entry.status == Status::Completed, row(over, &entry)));
    Summary { head, rows: rows.collect() }
}

fn row(over: &Over<'_>, entry: &ResultEntry) -> String {
    let label = entry.label.as_ref().map_or_else(|| entry.job.to_string(), |label| text::one_line(label));
    let status = match entry.status {
        Status::Completed => "✓ completed",
        Status::Error => "✗ failed",
        Status::Cancelled => "– cancelled",
        Status::Queued | Status::Running => "not over",
    };
    let ran = |start: u64| text::duration(entry.ended_at_ms.unwrap_or(start).saturating_sub(start));
    let took = entry.started_at_ms.map_or_else(String::new, ran);
    let is_carried = over.tasks.member(entry).is_some_and(|member| member.carried_from().is_some());
    let cause = match (entry.status, is_carried) {
        (Status::Completed, true) => "in an earlier run".to_owned(),
        (Status::Completed, false) => String::new(),
        (_, _) => over.words.brief(&entry.into()),
    };
    format!("| {} | {status} | {took} | {} |\n", cell(&label), cell(&cause))
}

/// Text as the content of a cell: Markdown takes a backslash before any sign of ASCII.
fn cell(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    for c in text::one_line(text).chars() {
        if c.is_ascii_punctuation() {
            cell.push('\\');
        }
        cell.push(c);
    }
    cell
}

impl Summary {
    /// Adds it to what is at `path`.
    ///
    /// # Errors
    ///
    /// The system's, or that the step has no room left; then nothing was added.
    pub(crate) fn append(&self, path: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        let there = file.metadata()?.len();
        // What stands there may end inside a line.
        let begin = if there > 0 { "\n" } else { "" };
        let room = SUMMARY_BYTES_MAX.saturating_sub(there + begin.len() as u64);
        let text =
            self.fit(usize::try_from(room).unwrap_or(usize::MAX)).ok_or(io::ErrorKind::FileTooLarge)?;
        file.write_all(format!("{begin}{text}").as_bytes())
    }

    /// The summary in at most so many bytes: whole, else with the tasks that did not complete, as many as fit.
    fn fit(&self, room: usize) -> Option<String> {
        let whole = self.head.len() + self.rows.iter().map(|(_, row)| row.len()).sum::<usize>();
        let mut text = self.head.clone();
        if whole <= room {
            text.extend(self.rows.iter().map(|(_, row)| row.as_str()));
            return Some(text);
        }
        let room = room.checked_sub(LAST_LINE_BYTES).filter(|room| text.len() <= *room)?;
        let mut listed = 0;
        for (_, row) in self.rows.iter().filter(|(is_completed, _)| !is_completed) {
            if text.len() + row.len() > room {
                break;
            }
            text.push_str(row);
            listed += 1;
        }
        text.push_str(&format!("\n{} tasks are not listed.\n", self.rows.len() - listed));
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sign_of_a_cell_is_markup() {
        assert_eq!(
            cell("a|b <b>*x*</b> `y`\n# [z](u) @me"),
            r"a\|b \<b\>\*x\*\<\/b\> \`y\` \# \[z\]\(u\) \@me"
        );
        assert_eq!(cell("größe 1"), "größe 1");
    }

    #[test]
    fn what_does_not_fit_is_counted_and_what_failed_comes_first() {
        let rows = (0..100).map(|n| (n % 10 != 0, format!("| {n} |\n"))).collect();
        let summary = Summary { head: "head\n".to_owned(), rows };
        assert_eq!(summary.fit(100_000).unwrap().lines().count(), 101);
        let some = summary.fit(LAST_LINE_BYTES + 60).unwrap();
        assert!(some.len() <= LAST_LINE_BYTES + 60);
        assert!(some.contains("| 0 |\n| 10 |\n| 20 |") && !some.contains("| 1 |"), "{some}");
        assert!(some.ends_with("\n\n92 tasks are not listed.\n"), "{some}");
        assert!(summary.fit(LAST_LINE_BYTES).is_none());
    }
}
