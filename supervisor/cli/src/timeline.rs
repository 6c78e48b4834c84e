//! Jobs over time, as text: a bar each, with its part in the queue and its part at work, and marks below. Columns fit a
//! screen of 80; it knows no store.

use std::io::{self, Write};

use console::{Alignment, pad_str};
use fanin_protocol::{JobInfo, Status, text};

use crate::ps;
use crate::show::Marks;

/// Columns of a label.
const LABEL: usize = 18;
/// Columns of time.
const BAR: usize = 29;
/// Columns of how it stands.
const STATE: usize = 30;

/// One job over time, in milliseconds since the Unix epoch.
#[derive(Debug)]
pub(crate) struct Span {
    label: String,
    state: String,
    queued_ms: u64,
    started_ms: Option<u64>,
    ended_ms: Option<u64>,
    /// Where it has not ended: how long that is known.
    until_ms: u64,
    /// It ran when its owner died: when it ended nobody knows.
    is_lost: bool,
}

impl Span {
    /// That of a job, in a store of which all is known up to `until_ms`.
    pub(crate) fn of(job: &JobInfo, until_ms: u64) -> Self {
        let label = job.label.as_ref().map_or_else(|| job.job.to_string(), |label| text::one_line(label));
        Self {
            label,
            state: state(job, until_ms),
            queued_ms: job.queued_at_ms,
            started_ms: job.started_at_ms,
            ended_ms: job.ended_at_ms,
            until_ms,
            is_lost: ps::is_lost(job),
        }
    }

    fn last_ms(&self) -> u64 {
        self.ended_ms.unwrap_or(self.until_ms)
    }
}

/// How a job stands, and for how long it has been at work where it still is.
fn state(job: &JobInfo, until_ms: u64) -> String {
    let state = ps::state(job);
    match ps::took_ms(job, until_ms).filter(|_| job.status == Status::Running) {
        Some(took) => format!("{state} {}", text::duration(took)),
        None => state,
    }
}

/// Jobs over time.
#[derive(Debug)]
pub(crate) struct Timeline {
    spans: Vec<Span>,
    marks: Marks,
    begun_ms: u64,
    /// Not 0.
    width_ms: u64,
}

impl Timeline {
    /// All of them on one scale. What has not ended lasts to its right edge.
    pub(crate) fn new(spans: Vec<Span>, marks: Option<Marks>) -> Self {
        let marks = marks.unwrap_or_default();
        let begun_ms = spans.iter().map(|span| span.queued_ms).min().unwrap_or(0);
        let last =
            spans.iter().map(Span::last_ms).chain([marks.barrier_ms, marks.wake_ms].into_iter().flatten());
        let width_ms = last.max().unwrap_or(0).saturating_sub(begun_ms).max(1);
        Self { spans, marks, begun_ms, width_ms }
    }

    /// Writes a line for each, then the marks.
    ///
    /// # Errors
    ///
    /// The writer's.
    pub(crate) fn write(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        for span in &self.spans {
            let label = pad_str(&span.label, LABEL, Alignment::Left, Some("…"));
            let state = console::truncate_str(&span.state, STATE, "…");
            writeln!(out, "{label} {}│ {state}", self.bar(span))?;
        }
        if !self.spans.is_empty() {
            let key = "· queued  ━ at work  ? lost";
            writeln!(out, "{} {key}, over {}", " ".repeat(LABEL), text::duration(self.width_ms))?;
        }
        for (name, sign, at) in [("barrier", "▲", self.marks.barrier_ms), ("wake", "△", self.marks.wake_ms)]
        {
            let Some(at) = at else { continue };
            let label = pad_str(name, LABEL, Alignment::Right, None);
            let (column, after) = (self.column(at).min(BAR - 1), at.saturating_sub(self.begun_ms));
            let rest = " ".repeat(BAR - 1 - column);
            writeln!(out, "{label} {}{sign}{rest}│ at {}", " ".repeat(column), text::duration(after))?;
        }
        Ok(())
    }

    fn bar(&self, span: &Span) -> String {
        let from = self.column(span.queued_ms).min(BAR - 1);
        let until = span.ended_ms.map_or(BAR, |at| self.column(at)).clamp(from + 1, BAR);
        let started = match span.started_ms {
            Some(at) => self.column(at).clamp(from, until - 1),
            None => until,
        };
        let sign = |column: usize| match column {
            column if column < from || column >= until => ' ',
            column if column < started => '·',
            column if span.is_lost && column + 1 == until => '?',
            _ => '━',
        };
        (0..BAR).map(sign).collect()
    }

    /// The column of a moment, [`BAR`] for the right edge.
    fn column(&self, at_ms: u64) -> usize {
        let after = u128::from(at_ms.saturating_sub(self.begun_ms));
        usize::try_from(after * BAR as u128 / u128::from(self.width_ms)).unwrap_or(BAR).min(BAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn span(label: &str, queued: u64, started: Option<u64>, ended: Option<u64>, is_lost: bool) -> Span {
        let (queued_ms, started_ms, ended_ms) = (queued, started, ended);
        let (label, state, until_ms) = (label.into(), "state".into(), 200);
        Span { label, state, queued_ms, started_ms, ended_ms, until_ms, is_lost }
    }

    fn shown(spans: Vec<Span>, marks: Option<Marks>) -> String {
        let mut out = Vec::new();
        Timeline::new(spans, marks).write(&mut out).unwrap();
        let shown = String::from_utf8(out).unwrap();
        assert!(shown.lines().all(|line| console::measure_text_width(line) <= 80), "{shown}");
        shown
    }

    #[test]
    fn each_job_has_a_bar_and_the_marks_stand_below() {
        let marks = Marks { barrier_ms: Some(900), wake_ms: Some(1_000) };
        let spans = vec![
            span("whole", 0, Some(0), Some(900), false),
            span("second half", 0, Some(500), Some(900), false),
            span("never started", 0, None, Some(100), false),
            span("a label that is longer than its column", 0, Some(999), Some(999), false),
        ];
        expect![[r#"
            whole              ━━━━━━━━━━━━━━━━━━━━━━━━━━   │ state
            second half        ··············━━━━━━━━━━━━   │ state
            never started      ··                           │ state
            a label that is l… ···························━ │ state
                               · queued  ━ at work  ? lost, over 1.0s
                       barrier                           ▲  │ at 900ms
                          wake                             △│ at 1.0s
        "#]]
        .assert_eq(&shown(spans, Some(marks)));
    }

    #[test]
    fn what_was_lost_ends_in_a_question_and_no_time_at_all_is_shown_too() {
        let lost = vec![span("lost", 0, Some(100), None, true), span("over", 0, Some(0), Some(200), false)];
        expect![[r#"
            lost               ··············━━━━━━━━━━━━━━?│ state
            over               ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━│ state
                               · queued  ━ at work  ? lost, over 200ms
        "#]]
        .assert_eq(&shown(lost, None));
        expect![[r#"
            at once            ━                            │ state
                               · queued  ━ at work  ? lost, over 1ms
        "#]]
        .assert_eq(&shown(vec![span("at once", 5, Some(5), Some(5), false)], None));
        expect![[r#""#]].assert_eq(&shown(Vec::new(), None));
    }
}
