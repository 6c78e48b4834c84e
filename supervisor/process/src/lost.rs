//! What is left of a job whose shim is lost: the group of its main process and all that carries the run's mark. Who
//! left both cannot be found, so the result never claims to be all.

use std::thread::sleep;
use std::time::{Duration, Instant};

use fanin_protocol::Left;
use fanin_protocol::limits::SWEEP_WAIT;

use crate::hunt;
use crate::identity::Identity;
use crate::table::{Entry, Table};

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Kills what can be found, until nothing is or [`SWEEP_WAIT`] has passed. It blocks its thread.
pub(crate) fn sweep(table: &Table, leader: Option<&Identity>, mark: &str) -> Left {
    let until = Instant::now() + SWEEP_WAIT;
    let mut stopped = 0;
    loop {
        stopped += hunt::kill(table, || find(table, leader, mark));
        let mut left = find(table, leader, mark);
        left.retain(|entry| !entry.is_defunct);
        if left.is_empty() || Instant::now() >= until {
            let alive = hunt::named(left).into();
            return Left { stopped: u32::try_from(stopped).unwrap_or(u32::MAX), shim_lost: true, alive };
        }
        sleep(LOOK);
    }
}

fn find(table: &Table, leader: Option<&Identity>, mark: &str) -> Vec<Entry> {
    let mut found = table.of_run(mark);
    // The group's number is the job's as long as its leader is there, and may be anybody's afterwards.
    if let Some(leader) = leader.filter(|leader| leader.find(table).is_some()) {
        let mut group = table.all();
        group.retain(|entry| entry.group == leader.pid && found.iter().all(|known| known.pid != entry.pid));
        found.extend(group);
    }
    found
}
