//! Recovery from a part of a log: what it gives, that a second one adds nothing, and that it may be cut short.

use std::collections::BTreeMap;

use fanin_machine::{Facts, State};
use fanin_protocol::record::{JobEnded, TakenBy};
use fanin_protocol::{CombinedResult, Entry, GroupId, Lifetime, Record};

use crate::broken::{Broken, Kept, ensure};
use crate::ledger::Ledger;
use crate::op::Op;
use crate::parent::Parent;
use crate::world::{Options, World};

/// Cuts of one recovery at the most; beyond, they are spread over it.
const CUTS_MAX: usize = 12;

/// The world of a log, before its opening. No slot is free, so that a recovery is all that happens.
///
/// # Errors
///
/// [`Broken`] where the log does not fold.
pub fn world_of(log: &[Entry]) -> Result<World, Broken> {
    let facts = Facts::fold(log).map_err(|error| Broken { rule: "G1", what: error.to_string() })?;
    let mut world = World::new(Options {
        slots: Some(0),
        grace_ms: 100,
        fold_each: true,
        keep_log: true,
        ..Options::default()
    });
    world.ledger.from_records = true;
    // Whether kinds stood aside in that log is not known here.
    world.ledger.is_rated = true;
    log.iter().try_for_each(|entry| world.ledger.take_in(entry))?;
    world.ledger.from_records = false;
    world.parent = Parent::of(&world.ledger);
    world.state = State::recovered(facts);
    world.now.wall_ms = world.ledger.ts_ms;
    world.log = log.to_vec();
    Ok(world)
}

/// RE-8: recovers a log, recovers it again, and recovers it after a cut at records of the first recovery.
///
/// # Errors
///
/// [`Broken`] where a recovery leaves something open, the second changes anything, or a cut changes the end.
pub fn recover(log: &[Entry]) -> Kept {
    let mut whole = world_of(log)?;
    let first = whole.perform(&Op::Open)?;
    let end = End::of(&whole.ledger);

    let mut again = whole.clone();
    again.perform(&Op::Crash)?;
    let second = again.perform(&Op::Open)?;
    let only_opened = matches!(second.records.as_slice(), [Entry { record: Record::StoreOpened(_), .. }]);
    ensure(only_opened, "RE-8", || format!("a second recovery writes {:?}", second.records))?;
    again.fold_holds()?;

    let count = first.records.len();
    let step = count.div_ceil(CUTS_MAX).max(1);
    for cut in (1..=count).step_by(step) {
        let mut world = world_of(&[log, &first.records[..cut]].concat())?;
        world.perform(&Op::Open)?;
        let other = End::of(&world.ledger);
        ensure(other == end, "RE-8", || format!("cut after {cut} of {count}: {other:?}\nand not {end:?}"))?;
    }
    Ok(())
}

/// RE-8 for a world that dies where it is, and whose rows are all that is left: what they say is what the records say,
/// nothing is open after the recovery, and a second one changes no row and writes only its opening.
///
/// # Errors
///
/// [`Broken`] where that is not so.
pub fn recover_rows(world: &World) -> Kept {
    let mut first = world.clone();
    // Nothing is started, so that a recovery is all that happens.
    first.options.slots = Some(0);
    // The rows are compared with the facts, and these were compared with the records.
    first.options.fold_each = false;
    reopened(&mut first)?;
    let open = first.ledger.runs.values().filter(|run| !run.over).count();
    ensure(open == 0, "RE-3", || format!("{open} runs are open after a recovery"))?;
    let mut second = first.clone();
    let written = reopened(&mut second)?;
    let only_opened = matches!(written.as_slice(), [Entry { record: Record::StoreOpened(_), .. }]);
    ensure(only_opened, "RE-8", || format!("a second recovery writes {written:?}"))?;
    let other: Vec<_> = first.rows.other_than(&second.rows).collect();
    ensure(other.is_empty(), "RE-8", || format!("a second recovery changes the rows {other:?}"))
}

/// Crashes and opens again, until all of the recovery is done; what that wrote.
fn reopened(world: &mut World) -> Result<Vec<Entry>, Broken> {
    world.perform(&Op::Crash)?;
    let mut written = world.perform(&Op::Open)?.records;
    while world.unfinished {
        written.extend(world.perform(&Op::After(0))?.records);
    }
    Ok(written)
}

/// What a log has come to, without what differs from one recovery to the next: times, places and chance.
#[derive(Debug, PartialEq, Eq)]
pub struct End {
    jobs: BTreeMap<Lifetime, Option<JobEnded>>,
    groups: BTreeMap<GroupId, (Option<CombinedResult>, bool, Option<TakenBy>)>,
}

impl End {
    fn of(ledger: &Ledger) -> Self {
        Self::of_any(ledger, |_| {})
    }

    /// As the records have it; `also` takes out of a result what else may differ.
    pub fn of_any(ledger: &Ledger, also: impl Fn(&mut CombinedResult)) -> Self {
        let groups = ledger.groups.iter().map(|(id, group)| {
            let mut fired = group.fired.as_deref().cloned().map(plain);
            fired.iter_mut().for_each(&also);
            (id.clone(), (fired, group.voided, group.taken))
        });
        Self {
            jobs: ledger.lives().map(|job| (job.lifetime, job.ended.clone())).collect(),
            groups: groups.collect(),
        }
    }
}

fn plain(mut result: CombinedResult) -> CombinedResult {
    result.nonce = 0;
    result.duration_ms = 0;
    result
}
