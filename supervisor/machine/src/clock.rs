//! Time as the machine is told it. It reads no clock.

use std::fmt;

use fanin_protocol::limits::CLOCK_JUMP;

/// Milliseconds of a clock that never falls and that stands still while the machine sleeps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mono(pub u64);

// `@12`: the state search tells times from other numbers by this mark.
impl fmt::Debug for Mono {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl Mono {
    /// The time `ms` later.
    #[must_use]
    pub const fn after(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` until this time; 0 where it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The time of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Wall clock, milliseconds since the Unix epoch. It may jump.
    pub wall_ms: u64,
    /// Monotonic clock: limits run on it.
    pub mono: Mono,
}

/// What the machine remembers of time between steps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    last: Option<Now>,
}

impl Clock {
    /// Takes in the time of a step; a step of the wall clock against the monotonic one of more than
    /// [`CLOCK_JUMP`], or a wall clock that far behind the last record, is returned in milliseconds (C-8).
    pub(crate) fn advance(&mut self, now: Now, ts_ms: u64) -> Option<i64> {
        let limit = CLOCK_JUMP.as_millis() as i64;
        let step = match self.last {
            Some(last) => {
                let wall = signed(now.wall_ms, last.wall_ms);
                wall.saturating_sub(signed(now.mono.0, last.mono.0))
            }
            None => signed(now.wall_ms, ts_ms).min(0),
        };
        let mono = self.last.map_or(now.mono, |last| last.mono.max(now.mono));
        self.last = Some(Now { wall_ms: now.wall_ms, mono });
        (step.unsigned_abs() > limit.unsigned_abs()).then_some(step)
    }

    /// For how many milliseconds the monotonic clock stood still between the last step and this one, by the wall clock.
    pub(crate) fn slept(&self, now: Now) -> u64 {
        self.last.map_or(0, |last| {
            now.wall_ms.saturating_sub(last.wall_ms).saturating_sub(now.mono.since(last.mono))
        })
    }

    /// The monotonic time of this step; it never falls.
    pub(crate) fn mono(&self) -> Mono {
        self.last.map_or(Mono(0), |now| now.mono)
    }

    /// The wall time of this step.
    pub(crate) fn wall_ms(&self) -> u64 {
        self.last.map_or(0, |now| now.wall_ms)
    }
}

/// `a - b` without overflow.
fn signed(a: u64, b: u64) -> i64 {
    let distance = i64::try_from(a.abs_diff(b)).unwrap_or(i64::MAX);
    if a >= b { distance } else { -distance }
}
