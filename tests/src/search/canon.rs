//! One name for all states that differ in numbers alone: sequence numbers by their rank, times by their distance.
//!
//! A state is its `Debug` text. Sequence numbers print as `#12` and times of the machine's clock as `@12`, so they
//! can be told from other numbers. A time to come keeps its exact distance, since what is due first depends on it;
//! one that has passed is only that.

use std::hash::{DefaultHasher, Hasher};

use crate::world::World;

/// 128 bits that name the state.
pub(super) fn of(world: &World) -> (u64, u64) {
    let World { state, parent, host, opened, crashes, now, .. } = world;
    let text = format!("{opened} {crashes} {state:?} {parent:?} {:?} {:?}", host.runs, host.turns);
    let text = text.as_bytes();
    let mut ranks: Vec<u64> = marked(text, b'#').collect();
    ranks.sort_unstable();
    ranks.dedup();

    let (mut low, mut high) = (DefaultHasher::new(), DefaultHasher::new());
    high.write_u8(1);
    let mut both = |bytes: &[u8]| {
        low.write(bytes);
        high.write(bytes);
    };
    let mut place = 0;
    while place < text.len() {
        let end = text[place..]
            .iter()
            .position(|byte| matches!(byte, b'#' | b'@'))
            .map_or(text.len(), |n| place + n);
        chance(&text[place..end], &mut both);
        let Some(mark) = text.get(end) else { break };
        let (value, after) = number(text, end + 1);
        let value = match mark {
            b'#' => ranks.binary_search(&value).unwrap_or_default() as u64,
            _ => value.checked_sub(now.mono.0).map_or(u64::MAX, |distance| distance),
        };
        both(&[*mark]);
        both(&value.to_le_bytes());
        place = after;
    }
    (low.finish(), high.finish())
}

/// Passes on a text without the two numbers of a result that decide nothing: its nonce and its duration.
fn chance(text: &[u8], both: &mut impl FnMut(&[u8])) {
    let mut rest = text;
    for name in [b"duration_ms: ".as_slice(), b"nonce: ".as_slice()] {
        while let Some(found) = rest.windows(name.len()).position(|window| window == name) {
            both(&rest[..found]);
            rest = &rest[number(rest, found + name.len()).1..];
        }
    }
    both(rest);
}

fn marked(text: &[u8], mark: u8) -> impl Iterator<Item = u64> {
    text.iter()
        .enumerate()
        .filter(move |(_, byte)| **byte == mark)
        .map(|(place, _)| number(text, place + 1).0)
}

/// The number that begins here, and where it ends.
fn number(text: &[u8], from: usize) -> (u64, usize) {
    let digits = text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value =
        text[from..from + digits].iter().fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0'));
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
            name("turn; after 9; turn-end; launch a; end a")
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
