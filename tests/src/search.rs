//! A breadth-first search over the real `step`: all states that a menu of operations can reach, each checked.
//!
//! Each operation is carried out in each state, and checked: its records, effects and answers, and that the facts are the
//! fold of the records. What holds for a state however it came about is checked once for each state; two are one where
//! they differ in nothing that decides anything (`canon`). From each state all comes to an end, by itself and by a stop, and
//! nothing is left: the way there is gone until it meets one that was gone before. Each state also dies where it is and is
//! recovered from the rows that a store would hold, twice (RE-8).
//!
//! The machine has one owner, so the orders of its commands are all the interleavings there are. The first broken
//! promise is reported with the shortest script that breaks it.

mod canon;
pub mod menu;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fanin_machine::Held;

use crate::broken::Kept;
use crate::calm::{Calm, calm_until};
use crate::coverage;
use crate::op::Op;
use crate::recover::recover_rows;
use crate::search::canon::{ELAPSED_MAX_MS, Name};
use crate::search::menu::Menu;
use crate::world::{Options, World};

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
    let (first, choices) = (menu.start(), menu.choices());
    let mut found = Found { states: 1, ..Found::default() };
    let mut seen = HashSet::from([name(&first, menu)]);
    // Worlds of which it is known that they come to a good end by themselves, and by a stop.
    let mut calmed = [HashSet::new(), HashSet::new()];
    let mut origins: Vec<Origin> = vec![(0, 0)];
    let mut dead = HashSet::new();
    let mut open = VecDeque::from([(first, 0usize, 0usize)]);
    while let Some((world, place, depth)) = open.pop_front() {
        found.depth = found.depth.max(depth);
        let mut ops = Vec::new();
        choices.moves(&world, &mut ops);
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
            let known = name(&next, menu);
            if !seen.insert(known) {
                continue;
            }
            found.states += 1;
            origins.push((place, choice));
            let here = origins.len() - 1;
            // A state that is known was looked at when it was new.
            guarded(menu, &origins, place, op, || next.holds());
            for (way, calmed) in [Calm::Ends, Calm::Stuck].into_iter().zip(&mut calmed) {
                if way == Calm::Ends && calmed.contains(&known) {
                    continue;
                }
                guarded(menu, &origins, here, &Op::Why(crate::op::job("calm")), || {
                    comes_to_an_end(&next, menu, way, calmed)
                });
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

/// The name of a world of the search.
fn name(world: &World, menu: &Menu) -> Name {
    let elapsed = world.now.mono.0;
    assert!(menu.long_time || elapsed < ELAPSED_MAX_MS, "{elapsed} ms have passed: `long_time` is for that");
    canon::of(world, menu).unwrap_or_else(|| panic!("a time is neither near nor far: {:?}", world.state))
}

/// Follows a world to its end, or to one that is known to come to a good one; then so are all on the way.
fn comes_to_an_end(world: &World, menu: &Menu, way: Calm, known: &mut HashSet<Name>) -> Kept {
    let mut last = world.clone();
    last.options = Options { fold_each: false, states_apart: false, sparse: u32::MAX, ..last.options };
    let mut gone = Vec::new();
    let mut until = None;
    calm_until(&mut last, way, |world| {
        // One last alarm, on which nothing depends, may be as far away as it likes.
        let is_alone = world.state.held() == Held { timers: 1, ..Held::default() };
        until = until.or(is_alone.then_some(world.now.mono));
        let name = canon::of(world, menu);
        gone.extend(name);
        name.is_some_and(|name| known.contains(&name))
    })?;
    let elapsed = until.unwrap_or(last.now.mono).since(world.now.mono);
    if menu.long_time || elapsed < ELAPSED_MAX_MS {
        known.extend(gone);
    }
    Ok(())
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
    let (mut world, all) = (menu.start(), menu.choices());
    let mut words = vec![menu.head()];
    for choice in choices.into_iter().rev() {
        let mut ops = Vec::new();
        all.moves(&world, &mut ops);
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
