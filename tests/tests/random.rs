//! Random sequences of all commands, with crashes, clocks that jump, stale and forged reports: G1 to G8 and G14 after
//! each step, G6, G12 and G13 at the end.
//!
//! `FANIN_CASES` sets the number of cases, `FANIN_SEED` the seed; both are printed.

// A helper that panics is a failed test.
#![allow(clippy::panic)]

use std::env;

use fanin_tests::random::{Names, run};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// Cases of one run of CI, over all shares.
const CASES: u32 = 20_000;
/// Operations of a case at the most.
const LENGTH_MAX: usize = 400;
/// The cases go in shares, so that they use the cores there are.
const SHARES: u32 = 4;

fn setting(name: &str, default: u32) -> u32 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

fn share(number: u32) {
    let (cases, seed) = (setting("FANIN_CASES", CASES).div_ceil(SHARES), setting("FANIN_SEED", 1));
    println!("share {number}: {cases} cases, FANIN_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    bytes[4..8].copy_from_slice(&number.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let names = Names::default();
    let result = TestRunner::new_with_rng(config, rng).run(&vec(any::<u64>(), 1..=LENGTH_MAX), |words| {
        run(&words, &names, |_| {}).map_err(|broken| TestCaseError::fail(broken.to_string()))
    });
    if let Err(error) = result {
        let proptest::test_runner::TestError::Fail(reason, words) = error else { panic!("{error}") };
        let mut script = Vec::new();
        let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(&words, &names, |op| script.push(op.to_string()))
        }));
        drop(again);
        panic!("{reason}\nwords: {words:?}\nscript: {}", script.join("; "));
    }
}

#[test]
fn random_sequences_keep_every_promise_1() {
    share(1);
}

#[test]
fn random_sequences_keep_every_promise_2() {
    share(2);
}

#[test]
fn random_sequences_keep_every_promise_3() {
    share(3);
}

#[test]
fn random_sequences_keep_every_promise_4() {
    share(4);
}
