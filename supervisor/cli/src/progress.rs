//! Live progress on standard error: a block of lines on a terminal, plain lines elsewhere. It never writes to standard
//! output, and what it cannot write is no reason to fail: the result does not depend on it.

use std::io::{self, IsTerminal};

use console::{Alignment, Term};
use fanin_protocol::{Cause, Status, text};

use crate::signals::Signal;
use crate::stderr::Stderr;
use crate::style::{self, Mark, Style};
use crate::view::{Change, Line, View};
use crate::words::Words;

/// Columns of a job's label in the block; what a task says needs the rest.
const LABEL_COLUMNS: usize = 24;

/// Progress and the words it is told in.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: Shown,
    words: Words,
    out: Stderr,
}

/// How progress is shown.
#[derive(Debug)]
enum Shown {
    /// Only what the program itself has to say.
    Quiet,
    /// A line when a task starts and when it is over.
    Plain,
    /// One block that is drawn again and again.
    Live(Block),
}

/// The block on a terminal.
#[derive(Debug)]
struct Block {
    term: Term,
    style: Style,
}

impl Progress {
    /// The kind that fits standard error.
    pub(crate) fn new(quiet: bool, words: Words, out: Stderr) -> Self {
        let stderr = io::stderr();
        let shown = match (quiet, stderr.is_terminal() && !style::is_dumb()) {
            (true, _) => Shown::Quiet,
            (false, false) => Shown::Plain,
            (false, true) => Shown::Live(Block { term: Term::stderr(), style: Style::of(&stderr) }),
        };
        Self { shown, words, out }
    }

    /// The words for how tasks end.
    pub(crate) const fn words(&self) -> &Words {
        &self.words
    }

    /// True where [`Progress::draw`] shows something.
    pub(crate) const fn is_live(&self) -> bool {
        matches!(self.shown, Shown::Live(_))
    }

    /// Says what happened to a job.
    pub(crate) fn changed(&self, view: &View, change: Change) {
        match &self.shown {
            Shown::Quiet | Shown::Live(_) => {}
            Shown::Plain => {
                if let Some(line) = plain(view, change, &self.words) {
                    self.out.progress(&line);
                }
            }
        }
    }

    /// Draws the block anew. `last` gives the last line a job put out.
    pub(crate) fn draw(&self, view: &View, now_ms: u64, last: impl Fn(&Line) -> Option<String>) {
        let Shown::Live(block) = &self.shown else { return };
        let (rows, columns) = block.term.size();
        let size = (usize::from(rows), usize::from(columns));
        let lines = frame(view, size, now_ms, (block.style, &self.words), last);
        self.out.draw(lines);
    }

    /// Says something of the program's own, as it is.
    pub(crate) fn say(&self, words: &str) {
        self.out.say(words);
    }

    /// Says something of the program's own, above the block. A signal that stops tasks is remembered for the words
    /// about them.
    pub(crate) fn note(&mut self, words: &str, signal: Option<Signal>) {
        if let Some(signal) = signal {
            self.words.stopped_by(signal);
        }
        self.out.say(&format!("fanin: {words}"));
    }

    /// Takes the block away.
    pub(crate) fn clear(&self) {
        if self.is_live() {
            self.out.draw(Vec::new());
        }
    }
}

/// The line of a change: what became of it first, so that failures are found by their first word.
fn plain(view: &View, change: Change, words: &Words) -> Option<String> {
    let place = match change {
        Change::Started(place) => return Some(format!("start {}", view.get(place)?.label)),
        Change::Ended(place) => place,
    };
    let line = view.get(place)?;
    let (label, end) = (&line.label, line.end(place));
    let said = words.brief(&end);
    let took = line.took_ms(0).map(text::duration);
    let after = |word: &str| took.map(|took| format!(" {word} {took}")).unwrap_or_default();
    Some(match (end.status, end.cause) {
        (Status::Completed, _) => format!("ok    {label}{}", after("in")),
        (Status::Cancelled, _) => format!("stop  {label}: {said}{}", after("after")),
        (_, Some(Cause::Failed)) => format!("FAIL  {label}: {said}{}", after("in")),
        _ => format!("FAIL  {label}: {said}"),
    })
}

/// The block for a terminal of `(rows, columns)`: a line for each job, or the running ones where there are more jobs
/// than rows, and a summary.
fn frame(
    view: &View,
    (rows, columns): (usize, usize),
    now_ms: u64,
    (style, words): (Style, &Words),
    last: impl Fn(&Line) -> Option<String>,
) -> Vec<String> {
    // One row for the summary and one for the cursor below it.
    let room = rows.saturating_sub(2);
    let all = view.lines().len();
    let shown: Vec<(usize, &Line)> = if all <= room {
        view.lines().iter().enumerate().collect()
    } else {
        view.running().take(room).filter_map(|place| Some((place, view.get(place)?))).collect()
    };
    let width = shown.iter().map(|(_, line)| console::measure_text_width(&line.label)).max();
    let width = width.unwrap_or(0).min(LABEL_COLUMNS);
    let mut lines: Vec<_> = shown
        .into_iter()
        .map(|(place, line)| {
            let said = if line.stopping { "stopping".to_owned() } else { words.of(&line.end(place)) };
            row(line, &said, width, now_ms, style, &last)
        })
        .collect();
    lines.push(footer(view, now_ms));
    // A line as wide as the terminal would wrap on some of them.
    let columns = columns.saturating_sub(1);
    lines.iter().map(|line| console::truncate_str(line, columns, "…").into_owned()).collect()
}

/// How many jobs are where, and how long all of it has taken.
fn footer(view: &View, now_ms: u64) -> String {
    let (running, ended) = (view.running().len(), view.ended());
    let queued = view.lines().len().saturating_sub(running).saturating_sub(ended.all());
    let mut footer = format!("{running} running, {queued} queued, {} ok", ended.completed);
    for (n, word) in [(ended.failed, "failed"), (ended.cancelled, "stopped")] {
        if n > 0 {
            footer.push_str(&format!(", {n} {word}"));
        }
    }
    // Tenths of a second would only flicker here.
    let took = match view.age_ms(now_ms) {
        ms @ 0..60_000 => format!("{}s", ms / 1_000),
        ms => text::duration(ms),
    };
    format!("{footer}, {took}")
}

fn row(
    line: &Line,
    words: &str,
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
    format!("{mark} {label}  {took:>7}  {words}{said}")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use fanin_protocol::JobInfo;

    use super::*;
    use crate::testing::job;

    fn jobs() -> Vec<JobInfo> {
        let mut jobs: Vec<_> = ["one", "a-rather-long-name-of-a-task", "three", "four"]
            .iter()
            .zip(0..)
            .map(|(id, index)| job(id, index))
            .collect();
        (jobs[0].status, jobs[0].started_at_ms, jobs[0].ended_at_ms) = (Status::Error, Some(0), Some(450));
        (jobs[0].cause, jobs[0].message) = (Some(Cause::Failed), Some("exit status 3".into()));
        for (running, start) in [(1, 0), (3, 2_000)] {
            (jobs[running].status, jobs[running].started_at_ms) = (Status::Running, Some(start));
        }
        jobs
    }

    fn check(size: (usize, usize), expected: &Expect) {
        let said = |line: &Line| (line.label != "four").then(|| "Compiling\x1b[2J\tcrate 7".to_owned());
        let lines = frame(&View::new(jobs()), size, 62_000, (Style::PLAIN, &Words::default()), said);
        assert!(lines.iter().all(|line| console::measure_text_width(line) < size.1), "{lines:?}");
        expected.assert_eq(&format!("{}\n", lines.join("\n")));
    }

    #[test]
    fn each_job_has_a_line_with_state_time_and_what_it_said_last() {
        check(
            (24, 80),
            &expect![[r#"
                ✗ one                         450ms  failed: exit status 3
                » a-rather-long-name-of-a…    1m02s  running  Compiling crate 7
                · three                              queued  Compiling crate 7
                » four                        1m00s  running
                2 running, 1 queued, 0 ok, 1 failed, 1m02s
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
                2 running, 1 queued, 0 ok, 1…
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
                2 running, 1 queued, 0 ok, 1 failed, 1m02s
            "#]],
        );
        check(
            (3, 80),
            &expect![[r#"
                » a-rather-long-name-of-a…    1m02s  running  Compiling crate 7
                2 running, 1 queued, 0 ok, 1 failed, 1m02s
            "#]],
        );
    }

    #[test]
    fn a_terminal_without_rows_gets_the_summary_alone() {
        let words = Words::default();
        assert_eq!(frame(&View::new(jobs()), (0, 1), 0, (Style::PLAIN, &words), |_| None), ["…"]);
    }

    #[test]
    fn plain_lines_tell_starts_and_ends_by_their_first_word() {
        let mut jobs = jobs();
        (jobs[1].status, jobs[1].ended_at_ms) = (Status::Completed, Some(2));
        (jobs[2].status, jobs[2].cause) = (Status::Cancelled, Some(Cause::Group));
        (jobs[3].status, jobs[3].cause, jobs[3].ended_at_ms) =
            (Status::Error, Some(Cause::Timeout), Some(3_000));
        let view = View::new(jobs);
        let plain = |change| plain(&view, change, &Words::default()).unwrap();
        assert_eq!(plain(Change::Started(3)), "start four");
        assert_eq!(plain(Change::Ended(0)), "FAIL  one: exit status 3 in 450ms");
        assert_eq!(plain(Change::Ended(1)), "ok    a-rather-long-name-of-a-task in 2ms");
        assert_eq!(plain(Change::Ended(2)), "stop  three: stopped with the rest of the group; never started");
        assert_eq!(plain(Change::Ended(3)), "FAIL  four: timed out");
    }
}
