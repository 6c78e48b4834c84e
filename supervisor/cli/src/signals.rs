//! Signals that ask a run to end, and what each asks for (SH-2). It decides; what follows is done elsewhere.

use std::io;

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

/// The three signals, caught from the moment this exists.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
}

impl Signals {
    /// Catches the signals. Made before anything is launched, so that an early one cannot end the program unasked.
    ///
    /// # Errors
    ///
    /// The system's, where it refuses.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hang_up: unix::signal(SignalKind::hangup())?,
        })
    }

    /// The next signal.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a signal that came stays until it is returned.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Signal::Interrupt,
            Some(()) = self.terminate.recv() => Signal::Terminate,
            Some(()) = self.hang_up.recv() => Signal::HangUp,
            // Only where the runtime is gone, and nobody polls then.
            else => std::future::pending().await,
        }
    }
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
#[derive(Debug, Default)]
pub(crate) struct Escalation {
    reached: Option<Demand>,
}

impl Escalation {
    /// What `signal` asks for, after all that came before; `None` where nothing is left to ask for.
    pub(crate) fn raise(&mut self, signal: Signal) -> Option<Demand> {
        let demand = match (self.reached, signal) {
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
    fn three_signals_drain_stop_and_kill_and_more_ask_for_nothing() {
        use Signal::{Interrupt, Terminate};
        let asked = demands(&[Interrupt, Terminate, Interrupt, Interrupt]);
        assert_eq!(asked, [Some(Demand::Drain), Some(Demand::Stop), Some(Demand::Kill), None]);
    }

    #[test]
    fn a_hang_up_is_like_a_second_signal() {
        use Signal::{HangUp, Interrupt};
        assert_eq!(demands(&[HangUp, HangUp, Interrupt]), [Some(Demand::Stop), None, Some(Demand::Kill)]);
        assert_eq!(demands(&[Interrupt, HangUp]), [Some(Demand::Drain), Some(Demand::Stop)]);
    }
}
