//! A scripted session that dies at every commit, before it and after it, and again at every commit of the recovery from
//! that (RE-3, RE-8, P4, G3 to G6). The driver is the real one; its journal is cut.

mod life;
mod told;
mod torn;

use fanin_supervisor::journal::{Batch, Journal, Row};
use fanin_supervisor::protocol::{Envelope, RowKind};
use fanin_supervisor::stored::LogFold;
use fanin_tests::cut::{Cut, Side, memory_of};
use fanin_tests::ledger::Ledger;
use fanin_tests::recover::End;

use life::{Life, calm, first_commands, later_commands, live, many_calls, nothing, work};
use told::{Told, is_at_the_end};

const SIDES: [Side; 2] = [Side::Before, Side::After];

fn records(batches: &[Batch]) -> Vec<Envelope> {
    batches.iter().flat_map(|batch| &batch.records).cloned().collect()
}

/// Rows of what is open or was not let go yet, but for the one that says which epoch it is.
fn rows(batches: &[Batch]) -> Vec<Row> {
    let mut rows = memory_of(batches).open().and_then(|mut journal| journal.load()).unwrap().rows;
    rows.retain(|row| row.kind != RowKind::Store);
    rows
}

/// Whether the rows are what the records say.
fn compared(batches: &[Batch]) -> Result<bool, String> {
    let mut fold = LogFold::default();
    records(batches).iter().for_each(|record| fold.take(record));
    fold.compare(&memory_of(batches).open().and_then(|mut journal| journal.load()).unwrap().rows)
}

async fn first_life(cut: Cut) -> Life {
    let store = memory_of(&[]).open().unwrap();
    live(store, &[], cut, (first_commands(), Told::default()), work).await
}

async fn recovered(batches: &[Batch], told: &Told, cut: Cut) -> Life {
    let store = memory_of(batches).open().unwrap();
    live(store, batches, cut, (later_commands(), told.clone()), calm).await
}

/// What it has come to. Runs that were started again differ in their tries and times.
fn end_of(ledger: &Ledger) -> End {
    End::of_any(ledger, |result| {
        for entry in &mut result.entries {
            (entry.runs, entry.started_at_ms, entry.ended_at_ms) = (0, None, None);
        }
    })
}

/// Recovers, and checks that all that was told is so, that all comes to its end, and that another opening adds nothing.
async fn to_the_end(batches: &[Batch], told: &Told) -> End {
    let whole = recovered(batches, told, None).await;
    whole.told.holds(&records(&whole.batches));
    let end = end_of(&is_at_the_end(&records(&whole.batches)));
    assert_eq!(compared(&whole.batches), Ok(true), "rows and records");
    let again = live(
        memory_of(&whole.batches).open().unwrap(),
        &whole.batches,
        None,
        (later_commands(), whole.told),
        nothing,
    )
    .await;
    let more = &records(&again.batches)[records(&whole.batches).len()..];
    let kinds: Vec<_> = more.iter().map(|record| &*record.kind).collect();
    assert_eq!(kinds, ["store.opened"], "a second recovery writes more");
    assert_eq!(rows(&again.batches), rows(&whole.batches), "a second recovery changes rows");
    end
}

/// Crashes at each commit of a recovery, and recovers from that; how many there were.
async fn crashes_inside(batches: &[Batch], told: &Told, end: &End) -> usize {
    for at in 1.. {
        for side in SIDES {
            let life = recovered(batches, told, Some((at, side))).await;
            life.told.holds(&records(&life.batches));
            if !life.was_cut {
                return at - 1;
            }
            let other = to_the_end(&life.batches, &life.told).await;
            assert_eq!(other, *end, "a crash {side:?} commit {at} of the recovery changes its end");
        }
    }
    0
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

// B23
#[test]
fn a_crash_at_any_commit_and_at_any_of_its_recovery_loses_nothing() {
    let (mut commits, mut inside, mut told) = (0, 0, Told::default());
    'commits: for at in 1.. {
        for side in SIDES {
            let runtime = runtime();
            let life = runtime.block_on(first_life(Some((at, side))));
            println!("cut {side:?} commit {at}: {} records", records(&life.batches).len());
            life.told.holds(&records(&life.batches));
            assert_eq!(compared(&life.batches), Ok(true), "rows and records");
            let end = runtime.block_on(to_the_end(&life.batches, &life.told));
            inside += runtime.block_on(crashes_inside(&life.batches, &life.told, &end));
            if !life.was_cut {
                told = life.told;
                break 'commits;
            }
            commits = at;
        }
    }
    println!("{commits} commits, {inside} commits of their recoveries, each side of each");
    // The script was played to its end, and was told all that it can be.
    assert!(told.closed && commits > 40 && inside > 5 * commits, "{commits} and {inside}");
    let counts = (told.launched.len(), told.acked.len(), told.posted.len(), told.words.len());
    assert_eq!((counts, told.cancelled.len(), told.extended.len()), ((12, 5, 3, 1), 2, 1));
}

// RE-8: the recovery goes in slices, and dies between any two of them.
#[test]
fn a_crash_between_the_slices_of_a_recovery_loses_nothing() {
    let runtime = runtime();
    // Dropped as it is, the jobs say that their calls have failed; so the store is cut before.
    let store = || memory_of(&[]).open().unwrap();
    let whole = runtime.block_on(live(store(), &[], None, (first_commands(), Told::default()), many_calls));
    let at =
        |batch: &Batch| batch.records.iter().any(|record| &*record.kind == "part" && record.seq.0 > 3_000);
    let last = whole.batches.iter().position(at).unwrap();
    let batches = &whole.batches[..=last];
    let mut told = whole.told;
    told.events.retain(|seq, _| *seq <= records(batches).len() as u64);
    let end = runtime.block_on(to_the_end(batches, &told));
    let inside = runtime.block_on(crashes_inside(batches, &told, &end));
    // Three slices and a bit, the observer, and the wake.
    assert!(inside >= 6, "{inside} commits");
}
