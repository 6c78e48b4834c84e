//! Children that end around the end of the parent's turn, hundreds of times: it never leaves early, and it is woken once.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// Parents at the same time: they wait more than they work.
const AT_ONCE: usize = 12;

/// How long the parent's turn goes on after its launch, and how long its two children take, in milliseconds: from a child
/// that is over at once to one that takes seconds, most of them close to the end of the turn.
fn times(round: u64) -> (u64, [u64; 2]) {
    let turn = 20 + round % 7 * 10;
    // From 60 ms before the end of the turn to 60 ms after it.
    let around = (turn + round * 13 % 121).saturating_sub(60).max(1);
    let other = match round % 25 {
        0 => 1_000 + round * 8 % 4_001,
        1..=8 => 1,
        _ => around + round % 3,
    };
    (turn, [around, other])
}

/// One parent to its end; what was wrong with it.
fn round(number: u64) -> Result<(), String> {
    let place = Place::new();
    let (turn, children) = times(number);
    let sleeps = children.map(|ms| format!("exec sleep {}.{:03}", ms / 1_000, ms % 1_000));
    let launch = background(&[&sleeps[0], &sleeps[1]]);
    let ended = place.exec(&format!("{launch}; work {turn}; say launched || say closing"));
    let prompts = place.prompts();
    let is_woken = prompts.len() == 2 && prompts[1].contains("2 completed");
    if (ended.code, ended.out.as_str(), is_woken) == (Some(0), "closing\n", true) {
        return Ok(());
    }
    Err(format!("round {number} ({turn} ms, {children:?}): {ended:?} {prompts:?}"))
}

// 5,000 by hand: FANIN_ROUNDS=5000.
#[test]
fn a_parent_leaves_only_after_its_closing_turn_whenever_its_children_end() {
    let rounds = std::env::var("FANIN_ROUNDS").map_or(500, |rounds| rounds.parse().unwrap());
    let next = AtomicU64::new(0);
    let wrong = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= rounds {
                        return;
                    }
                    if let Err(why) = round(number) {
                        wrong.lock().unwrap().push(why);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {rounds}: {}", wrong.len(), wrong[0]);
}
