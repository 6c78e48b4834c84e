//! Random sequences of all commands, with crashes, clocks that jump, stale and forged reports: G1 to G8 and G14 after
//! each step, G6, G12 and G13 at the end. And their logs, cut at any commit: recovered, recovered again, and recovered
//! after a cut inside the recovery (RE-8).
//!
//! `FANIN_CASES` sets the number of cases, `FANIN_SEED` the seed; both are printed.

// A helper that panics is a failed test.
#![allow(clippy::panic, clippy::indexing_slicing)]

use std::cell::Cell;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fanin_tests::random::{Names, begin, operation, run};
use fanin_tests::recover::recover;
use fanin_tests::{Broken, World};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// Cases of one run of CI, over all shares.
const CASES: u32 = 20_000;
/// Operations of a case at the most.
const LENGTH_MAX: usize = 400;
/// Time to look for a shorter case once one fails, in milliseconds.
const SHRINK_MS: u32 = 20_000;
/// The cases go in shares, so that they use the cores there are.
const SHARES: u32 = 4;

fn setting(name: &str, default: u32) -> u32 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// Random words, a share of all cases of a test; a failure shrinks and prints its script.
fn share(test: u32, number: u32, length_max: usize, check: impl Fn(&[u64], &Names) -> Result<(), Broken>) {
    let (cases, seed) = (setting("FANIN_CASES", CASES).div_ceil(SHARES), setting("FANIN_SEED", 1));
    println!("share {number}: {cases} cases, FANIN_SEED={seed}");
    let mut bytes = [0; 32];
    for (place, value) in [seed, test, number].into_iter().enumerate() {
        bytes[place * 4..place * 4 + 4].copy_from_slice(&value.to_le_bytes());
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config { cases, failure_persistence: None, max_shrink_time: SHRINK_MS, ..Config::default() };
    let names = Names::default();
    let result = TestRunner::new_with_rng(config, rng).run(&vec(any::<u64>(), 1..=length_max), |words| {
        check(&words, &names).map_err(|broken| TestCaseError::fail(broken.to_string()))
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, words)) => {
            panic!("{reason}\nwords: {words:?}\nscript: {}", script_of(&words, &names))
        }
        Err(error) => panic!("{error}"),
    }
}

fn script_of(words: &[u64], names: &Names) -> String {
    let mut script = Vec::new();
    // It panics or fails again where it did before; what came until then is the script.
    let again = catch_unwind(AssertUnwindSafe(|| run(words, names, |op| script.push(op.to_string()))));
    drop(again);
    script.join("; ")
}

/// What many cases did.
#[derive(Default)]
struct Done {
    steps: Cell<u64>,
    records: Cell<u64>,
    jobs: Cell<u64>,
    crashes: Cell<u64>,
}

impl Done {
    fn add(&self, world: &World) {
        let more = |cell: &Cell<u64>, count: u64| cell.set(cell.get() + count);
        more(&self.steps, world.steps.into());
        more(&self.records, world.ledger.head);
        more(&self.jobs, world.ledger.jobs.len() as u64);
        more(&self.crashes, world.crashes.into());
    }

    fn print(&self, number: u32) {
        let Self { steps, records, jobs, crashes } = self;
        let (steps, records, jobs, crashes) = (steps.get(), records.get(), jobs.get(), crashes.get());
        println!("share {number}: {steps} steps, {records} records, {jobs} jobs, {crashes} crashes");
    }
}

fn sequences(number: u32) {
    let done = Done::default();
    share(1, number, LENGTH_MAX, |words, names| run(words, names, |_| {}).map(|world| done.add(&world)));
    done.print(number);
}

/// Prefixes of one log that are recovered, beside the whole.
const PREFIXES: usize = 3;

fn recoveries(number: u32) {
    let done = Done::default();
    share(2, number, LENGTH_MAX / 2, |words, names| {
        let mut world = begin(words.first().copied().unwrap_or_default(), &mut |_| {})?;
        for word in words.iter().skip(1) {
            world.perform(&operation(*word, &world, names))?;
        }
        done.add(&world);
        let last = words.last().copied().unwrap_or_default() as usize;
        // A prefix ends where a step ends: a step is one commit.
        for commit in (0..PREFIXES).map(|n| world.commits[(last / (n + 1)) % world.commits.len()]) {
            recover(&world.log[..commit])?;
        }
        recover(&world.log)
    });
    done.print(number);
}

#[test]
fn random_sequences_keep_every_promise_1() {
    sequences(1);
}

#[test]
fn random_sequences_keep_every_promise_2() {
    sequences(2);
}

#[test]
fn random_sequences_keep_every_promise_3() {
    sequences(3);
}

#[test]
fn random_sequences_keep_every_promise_4() {
    sequences(4);
}

#[test]
fn any_prefix_recovers_to_one_end_1() {
    recoveries(1);
}

#[test]
fn any_prefix_recovers_to_one_end_2() {
    recoveries(2);
}

#[test]
fn any_prefix_recovers_to_one_end_3() {
    recoveries(3);
}

#[test]
fn any_prefix_recovers_to_one_end_4() {
    recoveries(4);
}
