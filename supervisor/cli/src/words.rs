//! How a task ended, in words for people. Documents have the names of the wire instead; neither is made from the
//! other.

use std::time::Duration;

use fanin_protocol::{Cause, Code, JobLimits, ResultEntry, Status, text};

use crate::duration::show;
use crate::signals::Signal;

/// What is known of a task's end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End<'e> {
    /// Its place in launch order, from 0.
    pub(crate) place: usize,
    pub(crate) status: Status,
    pub(crate) cause: Option<Cause>,
    pub(crate) code: Option<Code>,
    /// The failure in the words of who ran it.
    pub(crate) message: Option<&'e str>,
    pub(crate) is_started: bool,
}

impl<'e> From<&'e ResultEntry> for End<'e> {
    fn from(entry: &'e ResultEntry) -> Self {
        Self {
            place: usize::try_from(entry.index).unwrap_or(usize::MAX),
            status: entry.status,
            cause: entry.cause,
            code: entry.code,
            message: entry.message.as_deref(),
            is_started: entry.started_at_ms.is_some(),
        }
    }
}

/// What the words need beside a task's end.
#[derive(Debug, Default)]
pub(crate) struct Words {
    limits: Vec<JobLimits>,
    signal: Option<Signal>,
}

impl Words {
    /// Words for tasks with these limits, in launch order.
    pub(crate) const fn new(limits: Vec<JobLimits>) -> Self {
        Self { limits, signal: None }
    }

    /// These words for other tasks: those with these limits.
    pub(crate) const fn about(&self, limits: Vec<JobLimits>) -> Self {
        Self { limits, signal: self.signal }
    }

    /// From now on tasks are stopped because of this signal.
    pub(crate) const fn stopped_by(&mut self, signal: Signal) {
        self.signal = Some(signal);
    }

    /// How it ended, or its status where it has not.
    pub(crate) fn of(&self, end: &End<'_>) -> String {
        let mut words = match end.cause {
            None => end.status.to_string(),
            Some(cause) => self.cause(cause, end),
        };
        if end.status == Status::Cancelled && !end.is_started {
            words.push_str("; never started");
        }
        if let Some(more) = left_behind(end) {
            words.push_str(&format!("; {more}"));
        }
        words
    }

    /// [`Words::of`] where something else says already whether it failed.
    pub(crate) fn brief(&self, end: &End<'_>) -> String {
        let words = self.of(end);
        words.strip_prefix("failed: ").map_or_else(|| words.clone(), ToOwned::to_owned)
    }

    fn cause(&self, cause: Cause, end: &End<'_>) -> String {
        let limits = self.limits.get(end.place);
        let after = |words: &str, limit: Option<u64>| {
            limit.map(|ms| format!("{words} {}", show(Duration::from_millis(ms))))
        };
        match cause {
            Cause::Failed | Cause::Panic => because("failed", end.message),
            Cause::Spawn => because("not started", end.message),
            Cause::Timeout if end.code == Some(Code::Queue) => {
                let limit = limits.and_then(|limits| limits.queue_ms);
                after("not started within", limit).unwrap_or_else(|| "not started in time".to_owned())
            }
            // The first clause of the message names the limit; what its process did then follows from the stop.
            Cause::Timeout => match end.message.and_then(|message| message.split("; ").next()) {
                Some(told) => because("timed out", Some(told)),
                None => after("timed out after", limits.and_then(|limits| limits.run_ms))
                    .unwrap_or_else(|| "timed out".to_owned()),
            },
            Cause::Budget => "its budget is used up".to_owned(),
            Cause::Dependency => because("skipped", end.message),
            Cause::Interrupted => "interrupted".to_owned(),
            Cause::User => "cancelled".to_owned(),
            Cause::Parent => "cancelled with its parent".to_owned(),
            Cause::ClientGone => "cancelled with its client".to_owned(),
            Cause::Group => "stopped with the rest of the group".to_owned(),
            Cause::Shutdown => match self.signal {
                None => "cancelled".to_owned(),
                Some(Signal::Interrupt) => "cancelled (Ctrl-C)".to_owned(),
                Some(Signal::Terminate) => "cancelled (TERM)".to_owned(),
                Some(Signal::HangUp) => "cancelled (hang-up)".to_owned(),
            },
            Cause::Unknown => end.status.to_string(),
        }
    }
}

fn because(what: &str, message: Option<&str>) -> String {
    message.map_or_else(|| what.to_owned(), |message| format!("{what}: {}", text::one_line(message)))
}

/// What the message of a stopped task says beyond how its process left, which follows from the stop.
fn left_behind(end: &End<'_>) -> Option<String> {
    // Where a limit stopped it, the message begins with the limit.
    let clauses = match (end.status, end.cause) {
        (_, Some(Cause::Timeout)) => 2,
        (Status::Cancelled, _) => 1,
        _ => return None,
    };
    let more = end.message?.splitn(clauses + 1, "; ").nth(clauses)?;
    Some(text::one_line(more))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(status: Status, cause: Cause, message: Option<&str>) -> End<'_> {
        End { place: 0, status, cause: Some(cause), code: None, message, is_started: true }
    }

    #[test]
    fn each_way_to_end_has_words_without_the_names_of_the_wire() {
        let limits = JobLimits { queue_ms: Some(5_000), ..JobLimits::NONE };
        let mut words = Words::new(vec![limits]);
        words.stopped_by(Signal::Interrupt);
        let (error, cancelled) = (Status::Error, Status::Cancelled);
        let queue = Some(Code::Queue);
        let told = Some("`timeout` of 1.0s passed; killed by signal 15");
        let killed =
            Some("`timeout` of 1.0s passed; killed by signal 9 (SIGKILL); still alive after SIGKILL: x");
        for (end, expected) in [
            (end(error, Cause::Failed, Some("exit status 3")), "failed: exit status 3"),
            (end(error, Cause::Failed, None), "failed"),
            (end(error, Cause::Spawn, Some("no `x`")), "not started: no `x`"),
            (end(error, Cause::Timeout, told), "timed out: `timeout` of 1.0s passed"),
            (
                end(error, Cause::Timeout, killed),
                "timed out: `timeout` of 1.0s passed; still alive after SIGKILL: x",
            ),
            (
                end(
                    cancelled,
                    Cause::User,
                    Some("killed by signal 9 (SIGKILL); still alive after SIGKILL: x"),
                ),
                "cancelled; still alive after SIGKILL: x",
            ),
            (End { code: queue, ..end(error, Cause::Timeout, None) }, "not started within 5s"),
            (end(error, Cause::Interrupted, None), "interrupted"),
            (end(cancelled, Cause::Shutdown, Some("exit status 0")), "cancelled (Ctrl-C)"),
            (end(cancelled, Cause::User, None), "cancelled"),
            (end(cancelled, Cause::Group, None), "stopped with the rest of the group"),
            (
                End { is_started: false, ..end(cancelled, Cause::Group, None) },
                "stopped with the rest of the group; never started",
            ),
            (End { cause: None, ..end(Status::Completed, Cause::User, None) }, "completed"),
        ] {
            assert_eq!(words.of(&end), expected);
        }
        assert_eq!(words.brief(&end(error, Cause::Failed, Some("exit status 3"))), "exit status 3");
    }

    #[test]
    fn a_limit_that_is_not_known_is_not_named() {
        let words = Words::default();
        assert_eq!(words.of(&end(Status::Error, Cause::Timeout, None)), "timed out");
        assert_eq!(words.of(&end(Status::Cancelled, Cause::Shutdown, None)), "cancelled");
    }
}
