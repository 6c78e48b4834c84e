//! One name for all states that differ in numbers alone: sequence numbers by their rank, times by their distance.
//!
//! A state is its `Debug` text. Sequence numbers print as `#12` and times of the machine's clock as `@12`, so they
//! can be told from other numbers. A time to come keeps its exact distance, since what is due first depends on it;
//! one that has passed is only that.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::world::World;

/// A beat that is longer ago than any idle limit of a search decides nothing.
const LONG_AGO_MS: u64 = 600_000;

/// A number in the text, by what it means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// `#12`
    Place(u64),
    /// `@12`
    Time(u64),
    /// A result's nonce or duration: it decides nothing.
    Chance,
}

/// 128 bits that name the state.
pub(super) fn of(world: &World) -> (u64, u64) {
    let World { state, parent, host, opened, crashes, now, .. } = world;
    // What has passed is normally only that; how long ago a beat was decides when a run counts as idle.
    let beats: Vec<_> = host
        .beats
        .iter()
        .filter(|(fence, _)| world.ledger.is_open(**fence))
        .map(|(fence, at)| (fence, now.mono.since(*at).min(LONG_AGO_MS)))
        .collect();
    let text = format!(
        "{opened} {crashes} {state:?} {parent:?} {:?} {:?} {beats:?} {:?} {}",
        host.runs, host.turns, world.slots, world.ledger.extended
    );
    let text = text.as_bytes();
    let marks = marks(text);
    let mut ranks: Vec<u64> = marks
        .iter()
        .filter_map(|(.., mark)| match mark {
            Mark::Place(place) => Some(*place),
            Mark::Time(_) | Mark::Chance => None,
        })
        .collect();
    ranks.sort_unstable();
    ranks.dedup();

    let mut plain = Vec::with_capacity(text.len());
    let mut copied = 0;
    for (start, end, mark) in marks {
        plain.extend_from_slice(&text[copied..start]);
        copied = end;
        let value = match mark {
            Mark::Place(place) => ranks.binary_search(&place).unwrap_or_default() as u64,
            Mark::Time(at) => at.checked_sub(now.mono.0).unwrap_or(u64::MAX),
            Mark::Chance => 0,
        };
        plain.extend_from_slice(&value.to_le_bytes());
    }
    plain.extend_from_slice(&text[copied..]);
    (hash(0, &plain[..]), hash(1, &plain[..]))
}

pub(super) fn hash(kind: u8, what: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u8(kind);
    what.hash(&mut hasher);
    hasher.finish()
}

/// Where the numbers stand that are not taken as they are.
fn marks(text: &[u8]) -> Vec<(usize, usize, Mark)> {
    let mut marks = Vec::new();
    for (place, byte) in text.iter().enumerate() {
        match byte {
            b'#' => {
                let (value, end) = number(text, place + 1);
                marks.push((place + 1, end, Mark::Place(value)));
            }
            // The next alarm follows from the timers, and from when what is over leaves the memory.
            b'@' if text[..place].ends_with(b" alarm: Some(") => {
                marks.push((place + 1, number(text, place + 1).1, Mark::Chance));
            }
            b'@' => {
                let (value, end) = number(text, place + 1);
                marks.push((place + 1, end, Mark::Time(value)));
            }
            b':' if text[..place].ends_with(b"nonce") || text[..place].ends_with(b"duration_ms") => {
                marks.push((place + 2, number(text, place + 2).1, Mark::Chance));
            }
            _ => {}
        }
    }
    marks
}

/// The number that begins here, and where it ends.
fn number(text: &[u8], from: usize) -> (u64, usize) {
    let digits = text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = text[from..from + digits]
        .iter()
        .fold(0u64, |value, digit| value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
    (value, from + digits)
}

#[cfg(test)]
mod tests {
    use crate::op::script;
    use crate::{Options, World};

    fn name(text: &str) -> (u64, u64) {
        let mut world =
            World::new(Options { slots: Some(1), grace_ms: 10, wall_stands: true, ..Options::default() });
        for op in script(&format!("open; session s; {text}")).ops {
            world.perform(&op).unwrap();
        }
        super::of(&world)
    }

    #[test]
    fn states_that_differ_in_numbers_alone_have_one_name() {
        assert_eq!(name("launch a; wait w1 all a; leave w1"), name("launch a"));
        assert_eq!(
            name("turn; turn-end; launch a; end a; after 5"),
            name("turn; after 9; turn-end; launch a; end a; after 5")
        );
    }

    #[test]
    fn states_that_differ_in_more_have_two() {
        assert_ne!(name("launch a"), name("launch a; wait w1 all a"));
        assert_ne!(name("launch run=20 a"), name("launch run=20 a; after 5"));
        assert_ne!(name("launch a; end a ok"), name("launch a; end a failed"));
        assert_ne!(name("launch a; launch b; end a; end b"), name("launch b; launch a; end b; end a"));
    }
}
