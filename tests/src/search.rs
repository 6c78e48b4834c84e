//! A breadth-first search over the real `step`: all states that a menu of operations can reach, each checked.
//!
//! Each state also dies where it is and is recovered from the rows that a store would hold, twice (RE-8).
//!
//! The machine has one owner, so the orders of its commands are all the interleavings there are. The first broken
//! promise is reported with the shortest script that breaks it.

mod canon;
pub mod menu;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::broken::Kept;
use crate::calm::{Calm, calm};
use crate::coverage;
use crate::op::Op;
use crate::recover::recover_rows;
use crate::search::menu::Menu;
use crate::world::Options;

/// What a search found.
#[derive(Debug, Default)]
pub struct Found {
    /// Distinct states.
    pub states: usize,
    /// Steps from one to another, or back to the same.
    pub transitions: usize,
    /// Kinds of records that were written.
    pub kinds: BTreeSet<&'static str>,
    /// Commands and what they met.
    pub pairs: BTreeSet<String>,
    /// How many operations deep the deepest state is.
    pub depth: usize,
}

/// Where a state came from: its parent, and the place of the operation in the parent's menu.
type Origin = (usize, usize);

/// Searches all states that the menu can reach.
///
/// # Panics
///
/// With the shortest script to it, where a promise is broken or the machine panics.
pub fn search(menu: &Menu) -> Found {
    let first = menu.start();
    let mut found = Found { states: 1, ..Found::default() };
    let mut seen = HashSet::from([canon::of(&first)]);
    let mut origins: Vec<Origin> = vec![(0, 0)];
    let mut dead = HashSet::new();
    let mut open = VecDeque::from([(first, 0usize, 0usize)]);
    while let Some((world, place, depth)) = open.pop_front() {
        found.depth = found.depth.max(depth);
        let mut ops = Vec::new();
        menu.moves(&world, &mut ops);
        for (choice, op) in ops.iter().enumerate() {
            found.transitions += 1;
            let pair = coverage::pair(&world, op);
            if !found.pairs.contains(&pair) {
                found.pairs.insert(pair);
            }
            let mut next = world.clone();
            guarded(menu, &origins, place, op, || {
                let out = next.perform(op)?;
                found.kinds.extend(out.records.iter().map(|entry| entry.record.kind()));
                Ok(())
            });
            if !seen.insert(canon::of(&next)) {
                continue;
            }
            found.states += 1;
            origins.push((place, choice));
            let here = origins.len() - 1;
            for way in [Calm::Ends, Calm::Stuck] {
                let mut last = next.clone();
                last.options = Options { fold_each: false, sparse: u32::MAX, ..last.options };
                guarded(menu, &origins, here, &Op::Why(crate::op::job("calm")), || calm(&mut last, way));
            }
            guarded(menu, &origins, here, &Op::Crash, || {
                next.rows.restored(next.state.facts())?;
                // Who waits dies with the process: states that differ in that alone are recovered once.
                if dead.insert(canon::hash(0, &next.rows)) { recover_rows(&next) } else { Ok(()) }
            });
            open.push_back((next, here, depth + 1));
        }
    }
    found
}

/// Carries something out; where it breaks a promise or panics, tells the script that led there.
fn guarded(menu: &Menu, origins: &[Origin], place: usize, op: &Op, step: impl FnOnce() -> Kept) {
    let script = || format!("{}; {op}", script_to(menu, origins, place));
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(())) => {}
        Ok(Err(broken)) => panic!("{broken}\nafter: {}", script()),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map_or("a panic", String::as_str);
            panic!("the machine panicked: {words}\nafter: {}", script());
        }
    }
}

fn script_to(menu: &Menu, origins: &[Origin], mut place: usize) -> String {
    let mut choices = Vec::new();
    while place > 0 {
        let (parent, choice) = origins[place];
        choices.push(choice);
        place = parent;
    }
    let mut world = menu.start();
    let mut words = vec![menu.head()];
    for choice in choices.into_iter().rev() {
        let mut ops = Vec::new();
        menu.moves(&world, &mut ops);
        words.push(ops[choice].to_string());
        drop(world.perform(&ops[choice]));
    }
    words.join("; ")
}

/// The pairs of several searches, by command.
pub fn table<'a>(all: impl IntoIterator<Item = &'a Found>) -> String {
    let mut commands: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for pair in all.into_iter().flat_map(|found| &found.pairs).filter(|pair| !pair.is_empty()) {
        let (command, met) = pair.split_once(", ").unwrap_or((pair, "-"));
        commands.entry(command).or_default().insert(met);
    }
    let mut lines = String::new();
    for (command, met) in commands {
        let _ = writeln!(lines, "{command}");
        for met in met {
            let _ = writeln!(lines, "    {met}");
        }
    }
    lines
}
