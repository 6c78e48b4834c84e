//! Time, read in one place. Limits run on the runtime's clock, which tests can pause; records carry the wall clock.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use fanin_machine::{Mono, Now};
use tokio::time::Instant;

/// A wall clock. It may jump, and nothing but the time in records depends on it.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Milliseconds since the Unix epoch.
    fn wall_ms(&self) -> u64;
}

/// The system's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall_ms(&self) -> u64 {
        system_ms()
    }
}

/// The system's wall clock.
pub(crate) fn system_ms() -> u64 {
    // A clock before 1970 is a broken one; records then carry the last time that made sense.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Both clocks of a supervisor.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// `None` for the system's.
    wall: Option<Box<dyn Clock>>,
    /// The monotonic clock counts from here. It stands still while the machine sleeps (SC-16).
    origin: Instant,
}

impl Clocks {
    pub(crate) fn new(wall: Option<Box<dyn Clock>>) -> Self {
        Self { wall, origin: Instant::now() }
    }

    /// The time, behind the gate. `last` is what was read before.
    pub(crate) fn now(&self, last: &mut Option<Now>) -> Now {
        let mono = self.mono();
        let wall_ms = match (&self.wall, &last) {
            (Some(clock), _) => clock.wall_ms(),
            // The system's clock is read once a millisecond: many steps fit into one, and a read is a part of a step.
            (None, Some(last)) if last.mono == mono => last.wall_ms,
            (None, _) => system_ms(),
        };
        *last.insert(Now { wall_ms, mono })
    }

    /// The time on the machine's clock.
    pub(crate) fn mono(&self) -> Mono {
        Mono(u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// The moment of a machine's time.
    pub(crate) fn moment(&self, at: Mono) -> Instant {
        self.origin + std::time::Duration::from_millis(at.0)
    }
}

/// A moment on a clock that nothing pauses, for threads that work for a disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment(std::time::Instant);

impl Moment {
    /// Now.
    pub(crate) fn now() -> Self {
        Self(std::time::Instant::now())
    }

    /// What is left of this time since then.
    pub(crate) fn left_of(self, time: std::time::Duration) -> std::time::Duration {
        time.saturating_sub(self.0.elapsed())
    }
}

/// Now, on the runtime's clock.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// True where the runtime's clock is paused.
#[cfg(feature = "testing")]
pub(crate) fn is_paused() -> bool {
    let (before, real) = (Instant::now(), std::time::Instant::now());
    // Between the two looks at the runtime's clock real time has passed, so only a paused one shows the same.
    while std::time::Instant::now() == real {
        std::hint::spin_loop();
    }
    Instant::now() == before
}
