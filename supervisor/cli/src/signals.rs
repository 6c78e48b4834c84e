//! Signals that ask a run to end, and what each asks for (SH-2). It decides; what follows is done elsewhere.

use std::{fs, io};

use tokio::signal::unix::{self, SignalKind};

/// A signal that asks the program to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// A request of another program.
    Terminate,
    /// The terminal is gone.
    HangUp,
}

/// The signals, caught from the moment this exists. `None` is one that is ignored.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Option<unix::Signal>,
    terminate: unix::Signal,
    hang_up: Option<unix::Signal>,
}

impl Signals {
    /// Catches the signals. Made before all else, so that an early one cannot end the program unasked.
    ///
    /// An interrupt or a hang-up that was ignored when the program started stays ignored, here and in its tasks:
    /// `nohup` and a script's `&` say so that way. A TERM is always caught: somebody must be able to end it.
    ///
    /// # Errors
    ///
    /// The system's, where it refuses.
    pub(crate) fn catch() -> io::Result<Self> {
        // Where there is no such file nothing is known, and all are caught.
        let ignored = fs::read_to_string("/proc/self/status").map_or(0, |status| ignored(&status));
        let caught = |kind: SignalKind| match ignored >> (kind.as_raw_value() - 1) & 1 {
            0 => unix::signal(kind).map(Some),
            _ => Ok(None),
        };
        Ok(Self {
            interrupt: caught(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hang_up: caught(SignalKind::hangup())?,
        })
    }

    /// The next signal.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a signal that came stays until it is returned.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            Some(()) = came(self.interrupt.as_mut()) => Signal::Interrupt,
            Some(()) = self.terminate.recv() => Signal::Terminate,
            Some(()) = came(self.hang_up.as_mut()) => Signal::HangUp,
            // Only where the runtime is gone, and nobody polls then.
            else => std::future::pending().await,
        }
    }
}

async fn came(signal: Option<&mut unix::Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

/// The signals that a process ignores, from its `status` in `/proc`: one bit each, from signal 1.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Demand {
    /// Start nothing more; let running tasks finish.
    Drain,
    /// Stop all, with a short grace.
    Stop,
    /// Kill all.
    Kill,
}

/// Counts signals: drain, stop, kill. A hang-up stops at once, since nobody is left to send a second one, and never
/// kills: kernel and shell may both send it for one closed terminal.
///
/// A TERM to a nested run comes from the run outside, which has told it to stop and will kill it: it stops at once.
#[derive(Debug, Default)]
pub(crate) struct Escalation {
    reached: Option<Demand>,
    is_nested: bool,
}

impl Escalation {
    /// Of a run, or of one that is nested in another.
    pub(crate) const fn new(is_nested: bool) -> Self {
        Self { reached: None, is_nested }
    }

    /// What `signal` asks for, after all that came before; `None` where nothing is left to ask for.
    pub(crate) fn raise(&mut self, signal: Signal) -> Option<Demand> {
        let demand = match (self.reached, signal) {
            (None, Signal::Terminate) if self.is_nested => Demand::Stop,
            (None, Signal::Interrupt | Signal::Terminate) => Demand::Drain,
            (None | Some(Demand::Drain), _) => Demand::Stop,
            (Some(Demand::Stop), Signal::Interrupt | Signal::Terminate) => Demand::Kill,
            (Some(Demand::Stop), Signal::HangUp) | (Some(Demand::Kill), _) => return None,
        };
        self.reached = Some(demand);
        Some(demand)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a series of signals asks for, one after the other.
    fn demands(signals: &[Signal]) -> Vec<Option<Demand>> {
        let mut escalation = Escalation::default();
        signals.iter().map(|signal| escalation.raise(*signal)).collect()
    }

    #[test]
    fn the_ignored_signals_are_read_from_the_mask() {
        assert_eq!(ignored("Name:\tfanin\nSigIgn:\t0000000000001003\nSigCgt:\t0000000000000004\n"), 0x1003);
        assert_eq!(ignored("Name:\tfanin\n"), 0);
    }

    #[test]
    fn three_signals_drain_stop_and_kill_and_more_ask_for_nothing() {
        use Signal::{Interrupt, Terminate};
        let asked = demands(&[Interrupt, Terminate, Interrupt, Interrupt]);
        assert_eq!(asked, [Some(Demand::Drain), Some(Demand::Stop), Some(Demand::Kill), None]);
    }

    #[test]
    fn a_nested_run_stops_at_the_first_term() {
        use Signal::{Interrupt, Terminate};
        let asked = |signals: [Signal; 2]| {
            let mut escalation = Escalation::new(true);
            signals.map(|signal| escalation.raise(signal))
        };
        assert_eq!(asked([Terminate, Terminate]), [Some(Demand::Stop), Some(Demand::Kill)]);
        assert_eq!(asked([Interrupt, Terminate]), [Some(Demand::Drain), Some(Demand::Stop)]);
    }

    #[test]
    fn a_hang_up_is_like_a_second_signal() {
        use Signal::{HangUp, Interrupt};
        assert_eq!(demands(&[HangUp, HangUp, Interrupt]), [Some(Demand::Stop), None, Some(Demand::Kill)]);
        assert_eq!(demands(&[Interrupt, HangUp]), [Some(Demand::Drain), Some(Demand::Stop)]);
    }
}
