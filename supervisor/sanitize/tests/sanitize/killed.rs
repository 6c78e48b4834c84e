//! A repair that is killed: before or after, never between.

use std::env;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

/// When a repair is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// As soon as its backup is being written.
    Copying,
    /// As soon as it has its backup.
    Copied,
    /// As soon as something of its changes is in the write-ahead log.
    Writing,
    /// After so much of its life, which can be a little longer than that.
    Share(f64),
    /// Once it is over.
    Over,
}

impl Moment {
    /// A fifth of all for each, and at the first and the last moment that there are.
    fn of(nth: u32) -> Self {
        match nth % 5 {
            0 => Self::Copying,
            1 => Self::Copied,
            2 => Self::Writing,
            _ if nth == 199 => Self::Over,
            _ => Self::Share(f64::from(nth) / 180.0),
        }
    }

    fn is_there(self, place: &Place, since: Duration, life: Duration) -> bool {
        match self {
            Self::Copying => place.has(".part"),
            Self::Copied => place.has("backup-") && !place.has(".part"),
            Self::Writing => place.has("-wal"),
            Self::Share(share) => since >= life.mul_f64(share),
            Self::Over => false,
        }
    }
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
    for nth in 0..200 {
        // What the last one left of its backup stays: the next has to do with it.
        if place.counts().total() == 0 {
            place = whole.copied();
        }
        let moment = Moment::of(nth);
        let mut child = start(&place);
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() && !moment.is_there(&place, begun.elapsed(), life) {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        halves += usize::from(place.has(".part"));
        match place.counts() {
            found if found == open => before += 1,
            found => {
                assert_eq!(found.total(), 0, "between, at {moment:?}");
                after += 1;
            }
        }
    }
    eprintln!("200 kills: {before} before, {after} after the repair, {halves} while the backup was written");
    assert!(before > 0 && after > 0 && halves > 0, "{before}, {after}, {halves}");
    // Whatever they left behind, the next repair works, and can be taken back.
    if place.counts().total() == 0 {
        place = whole.copied();
    }
    let rows = place.rows();
    place.repair().unwrap();
    assert!(!place.has(".part"));
    place.undo().unwrap();
    assert_eq!(place.rows(), rows);
}
