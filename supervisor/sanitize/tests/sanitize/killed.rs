//! A repair that is killed: before or after, never between.

use std::env;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use fanin_sanitize::{Only, OpenCode, Options, repair};

use crate::common::{NOW, Place, counts};

/// Where the process that is killed finds its store.
const STORE: &str = "FANIN_TEST_SANITIZE";

/// The process that is killed. Without the variable it is a test that has nothing to do.
#[test]
fn repairs_what_it_is_given() {
    let Some(store) = env::var_os(STORE) else { return };
    let options = Options { only: Only::All, force: false, now_ms: NOW };
    repair(&OpenCode, Path::new(&store), &options).unwrap();
}

fn start(place: &Place) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "killed::repairs_what_it_is_given"])
        .env(STORE, place.store())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_repair_that_is_killed_at_any_moment_has_been_made_or_not() {
    const CALLS: usize = 400;
    let open = counts(CALLS, 0, CALLS / 20, 0);
    let whole = Place::of(CALLS, CALLS);
    let mut place = whole.copied();
    let begun = Instant::now();
    assert!(start(&place).wait().unwrap().success());
    let life = begun.elapsed();
    let (mut before, mut after, mut halves) = (0, 0, 0);
    for nth in 0..200_u32 {
        if place.counts().total() == 0 {
            place = whole.copied();
        }
        let mut child = start(&place);
        // Spread over all of its life, and a little beyond.
        let until = Instant::now() + life.mul_f64(f64::from(nth % 50) / 45.0);
        while Instant::now() < until && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        match place.counts() {
            found if found == open => before += 1,
            found => {
                assert_eq!(found.total(), 0, "between");
                after += 1;
            }
        }
        halves += place.files().iter().filter(|(name, _)| name.ends_with(".part")).count();
    }
    eprintln!("200 kills: {before} before, {after} after the repair, {halves} while the backup was written");
    assert!(before > 0 && after > 0, "the kills came at one time only: {before}, {after} in {life:?}");
    // Whatever they left behind, the next repair works, and can be taken back.
    if place.counts().total() == 0 {
        place = whole.copied();
    }
    let rows = place.rows();
    place.repair().unwrap();
    place.undo().unwrap();
    assert_eq!(place.rows(), rows);
}
