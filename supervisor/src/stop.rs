//! How a run learns that it shall stop: first politely, then by force.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

/// How far a stop has gone. It only goes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum StopStage {
    /// Nobody asked for a stop.
    None = 0,
    /// Asked politely; the grace runs.
    Polite = 1,
    /// The grace is over: end at once.
    Forced = 2,
}

/// One run's stop signal, shared between the driver and the run.
#[derive(Debug, Default)]
pub struct StopSignal {
    stage: AtomicU8,
    changed: Notify,
}

impl StopSignal {
    /// A signal that nobody has raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// How far the stop has gone.
    pub fn stage(&self) -> StopStage {
        match self.stage.load(Ordering::Acquire) {
            0 => StopStage::None,
            1 => StopStage::Polite,
            _ => StopStage::Forced,
        }
    }

    /// Raises the signal; it never falls.
    pub fn raise(&self, stage: StopStage) {
        if self.stage.fetch_max(stage as u8, Ordering::AcqRel) < stage as u8 {
            self.changed.notify_waiters();
        }
    }

    /// Waits until the stop has gone at least as far as `stage`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn reached(&self, stage: StopStage) {
        loop {
            // Registered before the look, so that a raise between look and wait is not missed.
            let changed = self.changed.notified();
            if self.stage() >= stage {
                return;
            }
            changed.await;
        }
    }
}
