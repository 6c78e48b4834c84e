//! Live progress on standard error: a block of lines on a terminal, plain lines elsewhere. It never writes to standard
//! output, and what it cannot write is no reason to fail: the result does not depend on it.

use std::io::{self, IsTerminal, Write};

use console::{Alignment, Term};
use fanin_protocol::text;

use crate::style::{self, Mark, Style};
use crate::view::{Change, Line, View};

/// Columns of a job's label in the block; what a task says needs the rest.
const LABEL_COLUMNS: usize = 24;

/// How progress is shown.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Only what the program itself has to say.
    Quiet,
    /// A line when a task starts and when it is over.
    Plain,
    /// One block that is drawn again and again.
    Live(Block),
}

/// The block on a terminal.
#[derive(Debug)]
pub(crate) struct Block {
    term: Term,
    style: Style,
    drawn: usize,
}

impl Progress {
    /// The kind that fits standard error.
    pub(crate) fn new(quiet: bool) -> Self {
        let stderr = io::stderr();
        match (quiet, stderr.is_terminal() && !style::is_dumb()) {
            (true, _) => Self::Quiet,
            (false, false) => Self::Plain,
            (false, true) => Self::Live(Block { term: Term::stderr(), style: Style::of(&stderr), drawn: 0 }),
        }
    }

    /// True where [`Progress::draw`] shows something.
    pub(crate) const fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    /// Says what happened to a job.
    pub(crate) fn changed(&self, view: &View, change: Change) {
        match self {
            Self::Quiet | Self::Live(_) => {}
            Self::Plain => say(&plain(view, change)),
        }
    }

    /// Draws the block anew. `last` gives the last line a job put out.
    pub(crate) fn draw(&mut self, view: &View, now_ms: u64, last: impl Fn(&Line) -> Option<String>) {
        let Self::Live(block) = self else { return };
        let (rows, columns) = block.term.size();
        let size = (usize::from(rows), usize::from(columns));
        let lines = frame(view, size, now_ms, block.style, last);
        block.replace(&lines);
    }

    /// Says something of the program's own, above the block.
    pub(crate) fn note(&mut self, words: &str) {
        self.clear();
        say(&format!("fanin: {words}"));
    }

    /// Takes the block away.
    pub(crate) fn clear(&mut self) {
        if let Self::Live(block) = self {
            block.replace(&[]);
        }
    }
}

impl Block {
    fn replace(&mut self, lines: &[String]) {
        let mut text = String::new();
        if self.drawn > 0 {
            // Up to the first line of the block, then nothing below.
            text.push_str(&format!("\r\x1b[{}A\x1b[J", self.drawn));
        }
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        self.drawn = lines.len();
        // A terminal that is gone ends the run by its hang-up, not by this.
        let _ = self.term.write_str(&text);
    }
}

/// Writes one line to standard error, which may be closed.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

fn plain(view: &View, change: Change) -> String {
    let (word, place) = match change {
        Change::Started(place) => ("start", place),
        Change::Ended(place) => ("done ", place),
    };
    let Some(line) = view.get(place) else { return word.to_owned() };
    match (change, line.took_ms(0)) {
        (Change::Started(_), _) => format!("{word}  {}", line.label),
        (Change::Ended(_), Some(ms)) => {
            format!("{word}  {}: {} in {}", line.label, line.words(), text::duration(ms))
        }
        (Change::Ended(_), None) => format!("{word}  {}: {}, not started", line.label, line.words()),
    }
}

/// The block for a terminal of `(rows, columns)`: a line for each job, or the running ones where there are more jobs
/// than rows, and a summary.
fn frame(
    view: &View,
    (rows, columns): (usize, usize),
    now_ms: u64,
    style: Style,
    last: impl Fn(&Line) -> Option<String>,
) -> Vec<String> {
    // One row for the summary and one for the cursor below it.
    let room = rows.saturating_sub(2);
    let all = view.lines().len();
    let shown: Vec<&Line> = if all <= room {
        view.lines().iter().collect()
    } else {
        view.running().take(room).filter_map(|place| view.get(place)).collect()
    };
    let width = shown.iter().map(|line| console::measure_text_width(&line.label)).max();
    let width = width.unwrap_or(0).min(LABEL_COLUMNS);
    let mut lines: Vec<_> = shown.into_iter().map(|line| row(line, width, now_ms, style, &last)).collect();
    let running = view.running().len();
    let queued = all.saturating_sub(running).saturating_sub(view.ended());
    lines.push(format!("{running} running, {queued} queued, {} of {all} done", view.ended()));
    // A line as wide as the terminal would wrap on some of them.
    let columns = columns.saturating_sub(1);
    lines.iter().map(|line| console::truncate_str(line, columns, "…").into_owned()).collect()
}

fn row(
    line: &Line,
    width: usize,
    now_ms: u64,
    style: Style,
    last: impl Fn(&Line) -> Option<String>,
) -> String {
    let mark = style.mark(Mark::of(line.status));
    let label = console::pad_str(&line.label, width, Alignment::Left, Some("…"));
    let took = line.took_ms(now_ms).map(text::duration).unwrap_or_default();
    let said = if line.status.is_terminal() { None } else { last(line) };
    let said = said.map(|said| format!("  {}", text::one_line(&said))).unwrap_or_default();
    format!("{mark} {label}  {took:>7}  {}{said}", line.words())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use fanin_protocol::{Cause, JobInfo, Status};

    use super::*;
    use crate::testing::job;

    fn jobs() -> Vec<JobInfo> {
        let mut jobs: Vec<_> = ["one", "a-rather-long-name-of-a-task", "three", "four"]
            .iter()
            .zip(0..)
            .map(|(id, index)| job(id, index))
            .collect();
        (jobs[0].status, jobs[0].started_at_ms, jobs[0].ended_at_ms) = (Status::Error, Some(0), Some(450));
        jobs[0].cause = Some(Cause::Failed);
        for (running, start) in [(1, 0), (3, 2_000)] {
            (jobs[running].status, jobs[running].started_at_ms) = (Status::Running, Some(start));
        }
        jobs
    }

    fn check(size: (usize, usize), expected: &Expect) {
        let said = |line: &Line| (line.label != "four").then(|| "Compiling\x1b[2J\tcrate 7".to_owned());
        let lines = frame(&View::new(jobs()), size, 62_000, Style::PLAIN, said);
        assert!(lines.iter().all(|line| console::measure_text_width(line) < size.1), "{lines:?}");
        expected.assert_eq(&format!("{}\n", lines.join("\n")));
    }

    #[test]
    fn each_job_has_a_line_with_state_time_and_what_it_said_last() {
        check(
            (24, 80),
            &expect![[r#"
            ✗ one                         450ms  error{failed}
            » a-rather-long-name-of-a…    1m02s  running  Compiling crate 7
            · three                              queued  Compiling crate 7
            » four                        1m00s  running
            2 running, 1 queued, 1 of 4 done
        "#]],
        );
    }

    #[test]
    fn a_narrow_terminal_cuts_lines_to_its_width() {
        check(
            (24, 30),
            &expect![[r#"
            ✗ one                       …
            » a-rather-long-name-of-a…  …
            · three                     …
            » four                      …
            2 running, 1 queued, 1 of 4 …
        "#]],
        );
    }

    #[test]
    fn with_more_jobs_than_rows_the_running_ones_are_shown() {
        check(
            (5, 80),
            &expect![[r#"
            » a-rather-long-name-of-a…    1m02s  running  Compiling crate 7
            » four                        1m00s  running
            2 running, 1 queued, 1 of 4 done
        "#]],
        );
        check(
            (3, 80),
            &expect![[r#"
            » a-rather-long-name-of-a…    1m02s  running  Compiling crate 7
            2 running, 1 queued, 1 of 4 done
        "#]],
        );
    }

    #[test]
    fn a_terminal_without_rows_gets_the_summary_alone() {
        assert_eq!(frame(&View::new(jobs()), (0, 1), 0, Style::PLAIN, |_| None), ["…"]);
    }

    #[test]
    fn plain_lines_tell_starts_and_ends() {
        let view = View::new(jobs());
        assert_eq!(plain(&view, Change::Started(3)), "start  four");
        assert_eq!(plain(&view, Change::Ended(0)), "done   one: error{failed} in 450ms");
    }
}
