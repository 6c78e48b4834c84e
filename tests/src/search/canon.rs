//! One name for all states that differ in numbers alone: sequence numbers by their rank, times by their distance.
//!
//! A state is its `Debug` text. Sequence numbers print as `#12` and times of the machine's clock as `@12`, so they
//! can be told from other numbers. What a name leaves out decides nothing any more, in this menu:
//!
//! - A time to come keeps its exact distance, since what is due first depends on it; one that has passed is only that.
//!   Where time passes to near alarms alone, one that is far stays far, and how far does not matter.
//! - Who got a result that was taken with its whole group; when a run began that is over, where nothing comes late.
//! - When starts failed: a kind is paused after more of them than any menu has runs.
//! - The numbers of mails: the mail of a box stands in its order.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use fanin_machine::RunRef;
use fanin_protocol::Lifetime;
use fanin_protocol::limits::CIRCUIT_FAILURES_MAX;

use crate::parent::Parent;
use crate::search::menu::Menu;
use crate::world::World;

/// A beat that is longer ago than any idle limit of a search decides nothing.
const LONG_AGO_MS: u64 = 600_000;
/// No more passes in a search where time passes to near alarms alone, or from a known world to its end.
pub(super) const ELAPSED_MAX_MS: u64 = 60_000;
/// A time to come is near until here, and far from there on: it stays so. What lies between has no name.
const NEAR_MS: u64 = 100_000;
const FAR_MS: u64 = 200_000;
const _: () = assert!(FAR_MS - ELAPSED_MAX_MS > NEAR_MS);

/// 128 bits that name a state.
pub(super) type Name = (u64, u64);

/// A number in the text, by what it means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// `#12`
    Place(u64),
    /// `@12`
    Time(u64),
    /// The number of a mail: it says only which one it is.
    Mail(u64),
    /// It decides nothing.
    Chance,
}

/// The state's name; `None` where it has none, since a time to come is neither near nor far.
pub(super) fn of(world: &World, menu: &Menu) -> Option<Name> {
    let World { state, parent, host, opened, crashes, now, ledger, .. } = world;
    let runs: u32 = ledger.lives().map(|job| job.runs).sum();
    assert!(runs as usize <= CIRCUIT_FAILURES_MAX, "the menu has too many runs for its names");
    // What a parent is told within a step is over with it.
    let Parent { waits, by_wait, by_wake, words, void, mails, void_now: _, promoted: _ } = parent;
    let is_open = |life: &&Lifetime| {
        let group = ledger.life(**life).and_then(|job| ledger.groups.get(&job.group));
        group.is_none_or(|group| group.taken.is_none())
    };
    let open = |lives: &BTreeSet<Lifetime>| lives.iter().filter(is_open).copied().collect::<Vec<_>>();
    let got = [by_wait, by_wake, void].map(open);
    let began = |run: &RunRef| (run.node, (menu.late || ledger.is_open(run.fence)).then_some(run.fence));
    let last: Vec<_> = host.runs.iter().map(|(id, run)| (id, began(run))).collect();
    let turns: Vec<_> = host.turns.iter().map(|(id, run)| (id, began(run))).collect();
    // What has passed is normally only that; how long ago a beat was decides when a run counts as idle.
    let beats: Vec<_> = host
        .beats
        .iter()
        .filter(|(fence, _)| ledger.is_open(**fence))
        .map(|(fence, at)| (fence, now.mono.since(*at).min(LONG_AGO_MS)))
        .collect();
    TEXT.with_borrow_mut(|text| {
        text.clear();
        write!(
            text,
            "{opened} {crashes} {state:?} {waits:?} {got:?} {words:?} {mails:?} {last:?} {turns:?} {beats:?} {:?} {}",
            world.slots, ledger.extended
        )
        .ok()?;
        name_of(text.as_bytes(), |at| distance(at, now.mono.0, menu))
    })
}

thread_local! {
    /// The text of one state after the other: it is long, and written millions of times.
    static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The name of a text, with its numbers by what they mean.
fn name_of(text: &[u8], distance: impl Fn(u64) -> Option<u64>) -> Option<Name> {
    let marks = marks(text);
    let mut ranks: Vec<u64> = marks
        .iter()
        .filter_map(|(.., mark)| match mark {
            Mark::Place(place) => Some(*place),
            Mark::Time(_) | Mark::Mail(_) | Mark::Chance => None,
        })
        .collect();
    ranks.sort_unstable();
    ranks.dedup();
    let (mut mails, mut sum, mut copied) = (Vec::new(), Sum::default(), 0);
    for (start, end, mark) in marks {
        sum.add(&text[copied..start]);
        copied = end;
        sum.word(match mark {
            Mark::Place(place) => ranks.binary_search(&place).unwrap_or_default() as u64,
            Mark::Mail(number) => first_met(&mut mails, number),
            Mark::Time(at) => distance(at)?,
            Mark::Chance => 0,
        });
    }
    sum.add(&text[copied..]);
    Some((sum.one, sum.two))
}

/// A checksum of 128 bits, since a search names millions of texts: two products of each word, folded.
struct Sum {
    one: u64,
    two: u64,
}

impl Default for Sum {
    fn default() -> Self {
        Self { one: 0x243f_6a88_85a3_08d3, two: 0x1319_8a2e_0370_7344 }
    }
}

impl Sum {
    fn word(&mut self, word: u64) {
        self.one = folded(self.one ^ word, 0x9e37_79b9_7f4a_7c15);
        self.two = folded(self.two.rotate_left(29) ^ word, 0xd6e8_feb8_6659_fd93);
    }

    fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
        // Where a piece ends is part of it.
        self.word(bytes.len() as u64);
    }
}

fn folded(word: u64, by: u64) -> u64 {
    let product = u128::from(word) * u128::from(by);
    (product as u64) ^ ((product >> 64) as u64) ^ word.rotate_left(17)
}

/// How far a time is away.
fn distance(at: u64, now: u64, menu: &Menu) -> Option<u64> {
    match at.checked_sub(now) {
        None => Some(u64::MAX),
        Some(left) if menu.long_time || left < NEAR_MS => Some(left),
        Some(left) => (left >= FAR_MS).then_some(u64::MAX - 1),
    }
}

/// How many others were met before the number was.
fn first_met(known: &mut Vec<u64>, number: u64) -> u64 {
    let place = known.iter().position(|known| *known == number).unwrap_or_else(|| {
        known.push(number);
        known.len() - 1
    });
    place as u64
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
    let mut place = 0;
    while let Some(byte) = text.get(place) {
        // Most bytes are none of these.
        if !matches!(byte, b'#' | b'@' | b'[' | b':') {
            place += 1;
            continue;
        }
        let before = &text[..place];
        let found = match byte {
            b'#' => {
                let (value, end) = number(text, place + 1);
                Some((place + 1, end, Mark::Place(value)))
            }
            // The next alarm follows from the timers, and from when what is over leaves the memory.
            b'@' if before.ends_with(b" alarm: Some(") => {
                Some((place + 1, number(text, place + 1).1, Mark::Chance))
            }
            b'@' => {
                let (value, end) = number(text, place + 1);
                Some((place + 1, end, Mark::Time(value)))
            }
            b'[' if before.ends_with(b" failed: ") => {
                let end =
                    text[place..].iter().position(|byte| *byte == b']').map_or(text.len(), |n| place + n);
                Some((place + 1, end, Mark::Chance))
            }
            b':' => named(text, place),
            _ => None,
        };
        place = found.map_or(place + 1, |(_, end, _)| end.max(place + 1));
        marks.extend(found);
    }
    marks
}

/// The number behind a name that says what it means.
fn named(text: &[u8], colon: usize) -> Option<(usize, usize, Mark)> {
    let before = &text[..colon];
    if !matches!(before.last(), Some(b'e' | b's' | b'r' | b'l' | b't')) {
        return None;
    }
    let plain = number(text, colon + 2);
    if before.ends_with(b"nonce") || before.ends_with(b"duration_ms") {
        Some((colon + 2, plain.1, Mark::Chance))
    } else if before.ends_with(b" number") {
        Some((colon + 2, plain.1, Mark::Mail(plain.0)))
    } else if before.ends_with(b" mail") && text[colon..].starts_with(b": Some(") {
        let (value, end) = number(text, colon + 7);
        Some((colon + 7, end, Mark::Mail(value)))
    } else if before.ends_with(b" last") && is_number(text, colon + 2) {
        // How many mails a team ever had; of all else that is a time, or no number.
        Some((colon + 2, plain.1, Mark::Chance))
    } else {
        None
    }
}

fn is_number(text: &[u8], at: usize) -> bool {
    text.get(at).is_some_and(u8::is_ascii_digit)
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
    use crate::search::menu::Menu;
    use crate::{Options, World};

    fn name(text: &str) -> super::Name {
        let mut world =
            World::new(Options { slots: Some(1), grace_ms: 10, wall_stands: true, ..Options::default() });
        for op in script(&format!("open; session s; {text}")).ops {
            world.perform(&op).unwrap();
        }
        super::of(&world, &Menu::default()).unwrap()
    }

    #[test]
    fn states_that_differ_in_numbers_alone_have_one_name() {
        assert_eq!(name("launch a; wait w1 all a; leave w1"), name("launch a"));
        assert_eq!(
            name("turn; turn-end; launch a; end a; after 5"),
            name("turn; after 9; turn-end; launch a; end a; after 5")
        );
        assert_eq!(name("launch a; end a failed; after 5"), name("launch a; after 5; end a failed"));
        assert_eq!(
            name("launch closure a; after 5; launch closure b; after 1"),
            name("launch closure a; launch closure b; after 1")
        );
        let team = "set-slots 2; launch as=g a b c>a";
        assert_eq!(
            name(&format!("{team}; send a b x; send a c y")),
            name(&format!("{team}; send a c y; send a b x; wait w1 mail below=b; leave w1"))
        );
    }

    #[test]
    fn states_that_differ_in_more_have_two() {
        assert_ne!(name("launch a"), name("launch a; wait w1 all a"));
        assert_ne!(name("launch run=20 a"), name("launch run=20 a; after 5"));
        assert_ne!(name("launch a; end a ok"), name("launch a; end a failed"));
        let team = "set-slots 2; launch as=g a b c>a";
        assert_ne!(
            name(&format!("{team}; send a b x; send a b y")),
            name(&format!("{team}; send a b y; send a b x"))
        );
        assert_ne!(name("launch a; launch b; end a; end b"), name("launch b; launch a; end b; end a"));
    }
}
