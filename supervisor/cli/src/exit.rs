//! The exit codes of `fanin run`, `fanin exec` and `fanin team` (SH-5) and which of them a run deserves. It never looks at anything but the result.

use fanin_protocol::{Cause, CombinedResult, Threshold};

use crate::plan::FailOn;
use crate::signals::Signal;

/// How the program ends. Each has a number for the shell and a name for people and documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All that was asked is done.
    Done,
    /// Work that did not complete.
    SomeNotCompleted,
    /// The closing turn of a hosted parent did not come to its end.
    TurnFailed,
    /// The command line or the manifest is wrong; nothing was started.
    Usage,
    /// The deadline of the whole run ended it.
    Deadline,
    /// A hosted parent was woken as often as it may be without a word of its user (W-7).
    Autonomy,
    /// The limit of a wait passed; what is waited for goes on.
    WaitTimedOut,
    /// fanin could not keep its word.
    Internal,
    /// A process may still be alive after its forced stop.
    Unreaped,
    /// Another process is at work there; nothing was started.
    Owned,
    /// The other side has refused: nothing was sent or received.
    Refused,
    /// No mail came in time.
    Empty,
    /// The same may succeed in a moment.
    TryAgain,
    /// A signal ended work.
    Signal(Signal),
}

impl Exit {
    /// The number for the shell. A hang-up shares the number of an interrupt: the codes are seven.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::SomeNotCompleted | Self::TurnFailed | Self::Refused | Self::Empty => 1,
            Self::Usage => 2,
            Self::Deadline | Self::Autonomy | Self::WaitTimedOut => 3,
            Self::Internal | Self::Unreaped => 70,
            Self::Owned | Self::TryAgain => 75,
            Self::Signal(Signal::Interrupt | Signal::HangUp) => 130,
            Self::Signal(Signal::Terminate) => 143,
        }
    }

    /// The exact name, where one number stands for several reasons.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::SomeNotCompleted => "some_not_completed",
            Self::TurnFailed => "turn_failed",
            Self::Usage => "usage",
            Self::Deadline => "deadline",
            Self::Autonomy => "autonomy",
            Self::WaitTimedOut => "wait_timed_out",
            Self::Internal => "internal",
            Self::Unreaped => "unreaped",
            Self::Owned => "owned",
            Self::Refused => "refused",
            Self::Empty => "empty",
            Self::TryAgain => "try_again",
            Self::Signal(Signal::Interrupt) => "signal_int",
            Self::Signal(Signal::HangUp) => "signal_hup",
            Self::Signal(Signal::Terminate) => "signal_term",
        }
    }

    /// What a fired group deserves: the first that applies of 70, 130 or 143, 3, 1, 0.
    ///
    /// Without a word on when to fail, work that did not complete is a failure, unless the release of the group was
    /// reached and only the rest was stopped. `signal` is the last one that came in; it counts only where it ended a task. A signal whose drain let all
    /// work complete changed nothing.
    pub(crate) fn of(result: &CombinedResult, fail_on: Option<FailOn>, signal: Option<Signal>) -> Self {
        if result.unreaped > 0 {
            return Self::Unreaped;
        }
        // Of a large group the entries leave some out: then any cancelled one may have been shut down.
        let unlisted = result.entries_omitted > 0 && result.counts.cancelled > 0;
        let shut_down = unlisted || result.entries.iter().any(|entry| entry.cause == Some(Cause::Shutdown));
        match signal {
            Some(signal) if shut_down => return Self::Signal(signal),
            _ => {}
        }
        if result.stopped_by == Some(Threshold::Deadline) {
            return Self::Deadline;
        }
        let all = result.counts.completed == result.counts.launched;
        let enough = match fail_on {
            // Whoever asked for the first so many has got what was asked for.
            None => all || result.stopped_by == Some(Threshold::Ok),
            Some(FailOn::Partial) => all,
            Some(FailOn::NoneOk) => result.counts.completed > 0,
        };
        if enough { Self::Done } else { Self::SomeNotCompleted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{entry, result};
    use fanin_protocol::{Code, Status};

    /// One member that completed and one that ended as told.
    fn exit(status: Status, cause: Cause, fail_on: FailOn, signal: Option<Signal>) -> Exit {
        let members = vec![entry("a", Status::Completed, None), entry("b", status, Some((cause, None)))];
        Exit::of(&result(members), Some(fail_on), signal)
    }

    #[test]
    fn a_member_that_did_not_complete_is_1_unless_one_is_enough() {
        let failed = |fail_on| exit(Status::Error, Cause::Failed, fail_on, None);
        assert_eq!(failed(FailOn::Partial), Exit::SomeNotCompleted);
        assert_eq!(failed(FailOn::NoneOk), Exit::Done);
        let none = result(vec![entry("a", Status::Error, Some((Cause::Timeout, Some(Code::Run))))]);
        assert_eq!(Exit::of(&none, Some(FailOn::NoneOk), None), Exit::SomeNotCompleted);
    }

    #[test]
    fn a_release_that_was_reached_is_done_unless_every_task_was_asked_for() {
        let cancelled = entry("b", Status::Cancelled, Some((Cause::Group, None)));
        let mut any = result(vec![entry("a", Status::Completed, None), cancelled]);
        assert_eq!(Exit::of(&any, None, None), Exit::SomeNotCompleted);
        any.stopped_by = Some(Threshold::Ok);
        assert_eq!(Exit::of(&any, None, None), Exit::Done);
        assert_eq!(Exit::of(&any, Some(FailOn::Partial), None), Exit::SomeNotCompleted);
        any.stopped_by = Some(Threshold::NotOk);
        assert_eq!(Exit::of(&any, None, None), Exit::SomeNotCompleted);
    }

    #[test]
    fn a_signal_counts_only_where_it_ended_work() {
        let term = Some(Signal::Terminate);
        assert_eq!(
            exit(Status::Cancelled, Cause::Shutdown, FailOn::NoneOk, term),
            Exit::Signal(Signal::Terminate)
        );
        assert_eq!(exit(Status::Error, Cause::Failed, FailOn::Partial, term), Exit::SomeNotCompleted);
        let done = result(vec![entry("a", Status::Completed, None)]);
        assert_eq!(Exit::of(&done, None, term), Exit::Done);
    }

    #[test]
    fn a_cancelled_task_that_is_not_listed_may_have_been_shut_down() {
        let mut large = result(vec![entry("a", Status::Error, Some((Cause::Failed, None)))]);
        (large.entries_omitted, large.counts.launched, large.counts.cancelled) = (1, 2, 1);
        let term = Some(Signal::Terminate);
        assert_eq!(Exit::of(&large, None, term), Exit::Signal(Signal::Terminate));
        assert_eq!(Exit::of(&large, None, None), Exit::SomeNotCompleted);
    }

    #[test]
    fn the_first_that_applies_wins() {
        let mut all = result(vec![
            entry("a", Status::Cancelled, Some((Cause::Shutdown, None))),
            entry("b", Status::Cancelled, Some((Cause::Group, None))),
        ]);
        all.stopped_by = Some(Threshold::Deadline);
        assert_eq!(Exit::of(&all, None, None), Exit::Deadline);
        let interrupted = Some(Signal::Interrupt);
        assert_eq!(Exit::of(&all, None, interrupted), Exit::Signal(Signal::Interrupt));
        all.unreaped = 1;
        assert_eq!(Exit::of(&all, None, interrupted), Exit::Unreaped);
    }

    #[test]
    fn the_numbers_are_the_seven_of_sh_5() {
        let signals = [Signal::Interrupt, Signal::Terminate, Signal::HangUp].map(Exit::Signal);
        let others = [
            Exit::Done,
            Exit::SomeNotCompleted,
            Exit::Usage,
            Exit::Deadline,
            Exit::Internal,
            Exit::Unreaped,
            Exit::Owned,
        ];
        let codes: Vec<u8> = others.into_iter().chain(signals).map(Exit::code).collect();
        assert_eq!(codes, [0, 1, 2, 3, 70, 70, 75, 130, 143, 130]);
    }
}
