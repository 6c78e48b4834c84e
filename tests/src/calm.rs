//! The end of every test: faults stop, all that is open is ended, and then nothing may be left (G6, G12, G13).

use fanin_machine::{Held, WaiterId};
use fanin_protocol::{JobId, NodeId, SessionId};

use crate::broken::{Broken, Kept, ensure};
use crate::invariants;
use crate::ledger::JobSeen;
use crate::op::{How, Op, Wish};
use crate::world::World;

/// Rounds after which a calm that does not end counts as endless. Each ends one generation of runs.
const ROUNDS_MAX: usize = 1_000;

/// How what runs comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calm {
    /// Every body ends by itself.
    Ends,
    /// No body ever ends: all is told to stop, and only time passes.
    Stuck,
}

/// Drives a world to its end and checks that nothing is left.
///
/// # Errors
///
/// [`Broken`] where something is lost, left or never ends.
pub fn calm(world: &mut World, calm: Calm) -> Kept {
    if !world.opened {
        world.perform(&Op::Open)?;
    }
    if !world.ledger.open {
        return Ok(());
    }
    let taker = WaiterId(1_000_000);
    if calm == Calm::Stuck {
        world.perform(&Op::StopAll(None))?;
    }
    for round in 0.. {
        ensure(round < ROUNDS_MAX, "G13", || {
            format!("no end after {ROUNDS_MAX} rounds: {:?}", world.ledger)
        })?;
        let head = world.ledger.head;
        all_leave(world)?;
        for session in open_sessions(world) {
            if world.ledger.sessions[&session].turn.is_some() {
                world.perform(&Op::TurnEnd(session, How::Ok))?;
            }
        }
        match calm {
            Calm::Ends => {
                let jobs = running(world);
                // What waits for its next try or its kind, and what is only looked at from time to time.
                if jobs.is_empty() && world.ledger.head == head && world.near_alarm().is_some() {
                    world.perform(&Op::Alarm)?;
                }
                for job in jobs {
                    world.perform(&Op::End(job, How::Ok))?;
                }
            }
            Calm::Stuck if world.near_alarm().is_some() => drop(world.perform(&Op::Alarm)?),
            Calm::Stuck => {}
        }
        for session in open_sessions(world) {
            world.perform(&Op::Wait(taker, Wish::Message(NodeId::Session(session))))?;
            let offered = world.parent.waits.get(&taker).is_some_and(|wait| wait.offer.is_some());
            world.perform(&if offered { Op::Ack(taker) } else { Op::Leave(taker) })?;
        }
        if world.ledger.head == head && world.near_alarm().is_none() {
            break;
        }
    }
    finish(world)
}

/// Who holds an answer acknowledges it; who only waits leaves.
fn all_leave(world: &mut World) -> Kept {
    let waits: Vec<_> = world.parent.waits.iter().map(|(id, wait)| (*id, wait.offer.is_some())).collect();
    for (waiter, holds) in waits {
        world.perform(&if holds { Op::Ack(waiter) } else { Op::Leave(waiter) })?;
    }
    Ok(())
}

fn open_sessions(world: &World) -> Vec<SessionId> {
    let open = world.ledger.sessions.iter().filter(|(_, session)| !session.closed);
    open.map(|(id, _)| id.clone()).collect()
}

fn running(world: &World) -> Vec<JobId> {
    world.ledger.jobs.iter().filter(|(_, job)| job.run.is_some()).map(|(id, _)| id.clone()).collect()
}

fn nothing_is_left(world: &World) -> Kept {
    let World { ledger, parent, state, closing, .. } = world;
    let live = ledger.jobs.iter().find(|(_, job)| job.ended.is_none());
    let waits_to_start = |job: &JobSeen| job.run.is_none() && (job.runs == 0 || job.retry_at_ms.is_some());
    let may_wait = live.is_none_or(|(_, job)| {
        *closing > 0 && (waits_to_start(job) || (job.run.is_none() && ledger.queued > 0))
    });
    ensure(may_wait, "G13", || format!("{live:?} never ends"))?;
    for (id, group) in &ledger.groups {
        // A body that is over while nothing more starts waits for the next epoch, with what is owed to it.
        let joins = matches!(&group.parent, NodeId::Job(id) if ledger.jobs[id].ended.is_none());
        let waits = joins || !ledger.all_over(group);
        let over = group.voided || group.taken.is_some() || waits;
        ensure(over, "G13", || format!("{id} is neither taken nor voided: {group:?}"))?;
        let delivered = group.voided || waits || parent.has_all(group);
        ensure(delivered, "G6", || format!("nobody got all of {id}"))?;
    }
    let left = ledger.posts.iter().find(|(_, post)| post.taken.is_none());
    ensure(left.is_none(), "G13", || format!("{left:?} is neither taken nor void"))?;
    let held = state.held();
    let queued = Held {
        timers: held.timers,
        barriers: held.barriers,
        clocks: held.clocks,
        aside: held.aside,
        quotas: held.quotas,
        ..Held::default()
    };
    let allowed = if ledger.queued > 0 { queued } else { Held::default() };
    ensure(held == allowed, "G12", || format!("{held:?} is left"))
}

fn finish(world: &mut World) -> Result<(), Broken> {
    // Whatever was checked on the way, all is checked here.
    world.options.sparse = 0;
    invariants::state(world, false)?;
    nothing_is_left(world)?;
    world.perform(&Op::Finish)?;
    ensure(!world.ledger.open, "SH-1", || "the store does not close".into())?;
    let held = Held { barriers: 0, clocks: 0, aside: 0, quotas: 0, ..world.state.held() };
    ensure(held == Held::default() && world.near_alarm().is_none(), "G12", || format!("{held:?} is left"))
}
