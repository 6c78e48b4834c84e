//! The result for people: what became of each task, in launch order, and what the failed ones said, last of all.
//!
//! Text of tasks is made harmless and set in, so that a task can neither move the cursor nor write an entry of its own.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use fanin_protocol::limits::{SHOWN_LINE_BYTES_MAX, SHOWN_LINES_MAX};
use fanin_protocol::{CombinedResult, Policy, ResultEntry, Status, Threshold, text};

use crate::duration::show;
use crate::style::{Mark, Style};
use crate::tasks::Member;
use crate::words::{End, Words};

/// Labels longer than this do not push the column behind them further out.
const LABEL_COLUMNS: usize = 40;

/// Tasks that fit a screen. Above it the first line is said again at the end.
const SCREEN_TASKS: u32 = 20;

/// What is said, and how; the tasks themselves come apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report<'r> {
    /// What the run is about.
    pub(crate) description: Option<&'r str>,
    /// What came of it. Its entries are not looked at.
    pub(crate) result: &'r CombinedResult,
    /// The rule that may have stopped the rest.
    pub(crate) policy: Policy,
    pub(crate) words: &'r Words,
    pub(crate) style: Style,
    /// The tasks, where some completed in an earlier run.
    pub(crate) members: &'r [Member],
}

/// What was kept of a task's output.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) text: String,
    /// False where the task put out more.
    pub(crate) is_whole: bool,
}

impl Report<'_> {
    /// Writes the result with these tasks, which are gone through three times. `kept` gives all that was kept of a
    /// task's output; it is asked only where the entry has not all of it.
    ///
    /// # Errors
    ///
    /// The writer's.
    pub(crate) fn write<'e>(
        &self,
        out: &mut impl Write,
        entries: impl Iterator<Item = Cow<'e, ResultEntry>> + Clone,
        kept: impl Fn(&ResultEntry) -> Option<Kept>,
    ) -> io::Result<()> {
        let launched = self.result.counts.launched;
        if let Some(description) = self.description {
            writeln!(out, "{}", text::one_line(description))?;
        }
        let header = self.header();
        writeln!(out, "{header}")?;
        // A task that is alone has its output where it stands.
        let is_later = |entry: &ResultEntry| launched > 1 && entry.status == Status::Error;
        self.write_list(out, &entries, |entry| !is_later(entry), &kept)?;
        for entry in entries.filter(|entry| is_later(entry)) {
            writeln!(out, "\n{}", self.title(&entry))?;
            write_output(out, &entry, &kept)?;
        }
        if launched > SCREEN_TASKS {
            writeln!(out, "\n{header}")?;
        }
        Ok(())
    }

    /// Writes the list of these tasks, without what they put out.
    ///
    /// # Errors
    ///
    /// The writer's.
    pub(crate) fn write_all_but_output<'e>(
        &self,
        out: &mut impl Write,
        entries: impl Iterator<Item = Cow<'e, ResultEntry>> + Clone,
    ) -> io::Result<()> {
        if let Some(description) = self.description {
            writeln!(out, "{}", text::one_line(description))?;
        }
        writeln!(out, "{}", self.header())?;
        self.write_list(out, &entries, |_| false, |_| None)
    }

    /// Writes the last lines of a task's output. Where a failed task has none, that is said.
    ///
    /// # Errors
    ///
    /// The writer's.
    pub(crate) fn write_output(
        &self,
        out: &mut impl Write,
        entry: &ResultEntry,
        kept: impl Fn(&ResultEntry) -> Option<Kept>,
    ) -> io::Result<()> {
        write_output(out, entry, kept)
    }

    /// A task and how it ended, in one line.
    pub(crate) fn title(&self, entry: &ResultEntry) -> String {
        let mark = self.style.mark(Mark::of(entry.status));
        format!("{mark} {}: {}", label(entry), self.said(entry, Words::brief))
    }

    /// The list in launch order, with the output of the tasks that have it here.
    fn write_list<'e>(
        &self,
        out: &mut impl Write,
        entries: &(impl Iterator<Item = Cow<'e, ResultEntry>> + Clone),
        has_output: impl Fn(&ResultEntry) -> bool,
        kept: impl Fn(&ResultEntry) -> Option<Kept>,
    ) -> io::Result<()> {
        let width = entries.clone().map(|entry| console::measure_text_width(&label(&entry))).max();
        let width = width.unwrap_or(0).min(LABEL_COLUMNS);
        let (mut listed, mut unreaped) = (0, 0);
        for entry in entries.clone() {
            (listed, unreaped) = (listed + 1, unreaped + u32::from(entry.unreaped));
            writeln!(out, "{}", self.line(&entry, width))?;
            if has_output(&entry) {
                write_output(out, &entry, &kept)?;
            }
        }
        for (all, listed, what) in [
            (self.result.counts.launched, listed, "not listed"),
            (self.result.unreaped, unreaped, "not listed, did not end in time and may still be alive"),
        ] {
            match all.saturating_sub(listed) {
                0 => {}
                n => writeln!(out, "({what}: {})", tasks(n))?,
            }
        }
        Ok(())
    }

    /// What came of all tasks, in one line.
    pub(crate) fn header(&self) -> String {
        let counts = self.result.counts;
        let mut header = format!("{}: {} completed", tasks(counts.launched), counts.completed);
        for (n, word) in [(counts.error, "failed"), (counts.cancelled, "cancelled")] {
            if n > 0 {
                header.push_str(&format!(", {n} {word}"));
            }
        }
        header.push_str(&format!(", in {}", text::duration(self.result.duration_ms)));
        if counts.cancelled > 0 {
            header.push_str(&self.why_stopped());
        }
        let used = self.result.spent();
        if !used.is_none() {
            header.push_str(&format!("; {used}"));
        }
        header
    }

    fn why_stopped(&self) -> String {
        match (self.result.stopped_by, self.policy) {
            (None, _) => String::new(),
            (Some(Threshold::Ok), Policy { ok: Some(n @ 2..), .. }) => {
                format!("; the rest was stopped once {n} had completed")
            }
            (Some(Threshold::Ok), _) => "; the rest was stopped after the first that completed".to_owned(),
            (Some(Threshold::NotOk), Policy { not_ok: Some(n @ 2..), .. }) => {
                format!("; the rest was stopped after {n} failures")
            }
            (Some(Threshold::NotOk), _) => "; the rest was stopped after the first failure".to_owned(),
            (Some(Threshold::Deadline), Policy { at_ms: Some(ms), .. }) => {
                format!("; the rest was stopped at the deadline of {}", show(Duration::from_millis(ms)))
            }
            (Some(Threshold::Dependency), _) => {
                "; the rest was stopped, since a task that it needs could not be started".to_owned()
            }
            (Some(Threshold::Deadline), _) => "; the rest was stopped at the deadline".to_owned(),
        }
    }

    fn line(&self, entry: &ResultEntry, width: usize) -> String {
        let mark = self.style.mark(Mark::of(entry.status));
        let label = label(entry);
        let label = console::pad_str(&label, width, console::Alignment::Left, None);
        let ran = |start: u64| text::duration(entry.ended_at_ms.unwrap_or(start).saturating_sub(start));
        let took = entry.started_at_ms.map_or_else(|| "-".to_owned(), ran);
        format!("{mark} {label}  {took:>7}  {}", self.said(entry, Words::of))
    }

    /// How a task ended, and what is not sure about it.
    fn said(&self, entry: &ResultEntry, words: impl Fn(&Words, &End<'_>) -> String) -> String {
        let end = End::from(entry);
        let mut said = words(self.words, &end);
        let is_carried = self.members.get(end.place).is_some_and(|member| member.carried_from().is_some());
        for (flag, words) in [
            (is_carried, " in an earlier run"),
            (entry.completed_anyway, "; it had done its work when it was stopped"),
            (entry.unreaped, "; it did not end in time and may still be alive"),
        ] {
            if flag {
                said.push_str(words);
            }
        }
        said
    }
}

fn tasks(n: u32) -> String {
    if n == 1 { "1 task".to_owned() } else { format!("{n} tasks") }
}

fn label(entry: &ResultEntry) -> String {
    entry.label.as_ref().map_or_else(|| entry.job.to_string(), |label| text::one_line(label))
}

/// The last lines of an output, set in. Where a failed task has none, that is said.
fn write_output(
    out: &mut impl Write,
    entry: &ResultEntry,
    kept: impl Fn(&ResultEntry) -> Option<Kept>,
) -> io::Result<()> {
    let Some(output) = &entry.output else {
        return if entry.status == Status::Error { writeln!(out, "    (no output)") } else { Ok(()) };
    };
    let (all, is_whole): (Cow<'_, str>, bool) = match output.truncated.then(|| kept(entry)).flatten() {
        Some(kept) => (kept.text.into(), kept.is_whole),
        None => (output.text.as_ref().into(), !output.truncated),
    };
    let shown = text::printable(&all);
    let lines: Vec<_> = shown.trim_end().lines().collect();
    let first = lines.len().saturating_sub(SHOWN_LINES_MAX);
    if first > 0 {
        // How many lines there were in all is known only where nothing was left out.
        let of = match is_whole {
            true => format!("of {} lines", lines.len()),
            false => format!("lines of {} bytes", output.bytes_total),
        };
        writeln!(out, "    [... the last {SHOWN_LINES_MAX} {of} ...]")?;
    }
    for line in lines.iter().skip(first) {
        let line = line.trim_end();
        let cut = text::cut(line, SHOWN_LINE_BYTES_MAX);
        match line.len() - cut.len() {
            0 if line.is_empty() => writeln!(out)?,
            0 => writeln!(out, "    {line}")?,
            more => writeln!(out, "    {cut} [... {more} bytes more]")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
