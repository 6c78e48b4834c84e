//! The end of every test: faults stop, all that is open is ended, and then nothing may be left (G6, G12, G13).

use fanin_machine::{Held, WaiterId};
use fanin_protocol::{MessageId, NodeId, SessionId};

use crate::broken::{Broken, Kept, ensure};
use crate::invariants;
use crate::ledger::JobSeen;
use crate::op::{How, Op, Wish};
use crate::world::World;

/// Steps after which a calm that does not end counts as endless.
const STEPS_MAX: usize = 100_000;

/// Who takes what is owed to sessions.
const TAKER: WaiterId = WaiterId(1_000_000);

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
pub fn calm(world: &mut World, way: Calm) -> Kept {
    calm_until(world, way, |_| false)
}

/// As [`calm`], but for what is known: nothing more is asked of a world of which `is_known` says that its way to the end was
/// gone already. What happens next follows from the world alone, so from there it would be the same.
///
/// # Errors
///
/// As [`calm`].
pub fn calm_until(world: &mut World, way: Calm, mut is_known: impl FnMut(&World) -> bool) -> Kept {
    if !world.opened {
        world.perform(&Op::Open)?;
    }
    if !world.ledger.open {
        return Ok(());
    }
    if way == Calm::Stuck {
        world.perform(&Op::StopAll(None))?;
    }
    for _ in 0..STEPS_MAX {
        if is_known(world) {
            return Ok(());
        }
        if !go_on(world, way)? {
            return finish(world);
        }
    }
    ensure(false, "G13", || format!("no end after {STEPS_MAX} steps: {:?}", world.ledger))
}

/// Lets one thing happen that brings the world nearer to its end; false where nothing is left to happen.
fn go_on(world: &mut World, way: Calm) -> Result<bool, Broken> {
    let Some(op) = next(world, way) else { return Ok(false) };
    world.perform(&op)?;
    if let Op::Wait(..) = op {
        let is_offered = world.parent.waits.get(&TAKER).is_some_and(|wait| wait.offer.is_some());
        if let (false, Op::Wait(_, Wish::Message(node))) = (is_offered, &op)
            && world.ledger.may_be_spent(node)
        {
            // It was woken as often as it may be without a word of its user (W-7): here it is.
            world.perform(&Op::Leave(TAKER))?;
            let key = MessageId::parse(&format!("calm{}", world.ledger.head));
            let key = key.map_err(|error| Broken { rule: "calm", what: error.to_string() })?;
            let head = world.ledger.head;
            world.perform(&Op::Post(node.clone(), key))?;
            if world.ledger.head == head {
                // Nobody is heard any more. A minute is over at some time; else its parent goes.
                let NodeId::Session(id) = node else { return Ok(false) };
                let next =
                    if world.near_alarm().is_some() { Op::Alarm } else { Op::CloseSession(id.clone()) };
                world.perform(&next)?;
            }
            return Ok(true);
        }
        ensure(is_offered, "G13", || format!("what is owed is never offered: {:?}", world.ledger))?;
        world.perform(&Op::Ack(TAKER))?;
    }
    Ok(true)
}

/// Who waits goes, then what runs ends, then what is owed is taken, then time passes.
fn next(world: &World, way: Calm) -> Option<Op> {
    // Who holds an answer acknowledges it; who only waits leaves.
    if let Some((waiter, wait)) = world.parent.waits.first_key_value() {
        return Some(if wait.offer.is_some() { Op::Ack(*waiter) } else { Op::Leave(*waiter) });
    }
    if let Some(id) = open_sessions(world).find(|id| world.ledger.sessions[*id].turn.is_some()) {
        return Some(Op::TurnEnd(id.clone(), How::Ok));
    }
    let mut jobs = world.ledger.jobs.iter();
    if way == Calm::Ends
        && let Some((id, _)) = jobs.find(|(_, job)| job.run.is_some())
    {
        return Some(Op::End(id.clone(), How::Ok));
    }
    let is_owed = |id: &&SessionId| {
        let node = NodeId::Session((*id).clone());
        let mut groups = world.ledger.owed();
        groups.any(|(_, group)| group.parent == node) || world.ledger.owed_posts(id).next().is_some()
    };
    if let Some(id) = open_sessions(world).find(is_owed) {
        return Some(Op::Wait(TAKER, Wish::Message(NodeId::Session(id.clone()))));
    }
    // What waits for its next try or its kind, the ends of stops, and what is only looked at from time to time.
    world.near_alarm().map(|_| Op::Alarm)
}

fn open_sessions(world: &World) -> impl Iterator<Item = &SessionId> {
    world.ledger.sessions.iter().filter(|(_, session)| !session.closed).map(|(id, _)| id)
}

/// Nobody is offered what is owed to nobody.
fn nothing_is_offered(world: &mut World) -> Kept {
    let sessions: Vec<SessionId> = open_sessions(world).cloned().collect();
    for id in sessions {
        world.perform(&Op::Wait(TAKER, Wish::Message(NodeId::Session(id))))?;
        let offered = world.parent.waits.get(&TAKER).and_then(|wait| wait.offer.clone());
        ensure(offered.is_none(), "G6", || format!("{offered:?} is offered at the end"))?;
        world.perform(&Op::Leave(TAKER))?;
    }
    Ok(())
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
        teams: held.teams,
        ..Held::default()
    };
    let allowed = if ledger.queued > 0 { queued } else { Held::default() };
    ensure(held == allowed, "G12", || format!("{held:?} is left"))
}

fn finish(world: &mut World) -> Result<(), Broken> {
    nothing_is_offered(world)?;
    // Whatever was checked on the way, all is checked here.
    world.options.sparse = 0;
    invariants::state(world, false)?;
    nothing_is_left(world)?;
    world.perform(&Op::Finish)?;
    ensure(!world.ledger.open, "SH-1", || "the store does not close".into())?;
    let held = Held { barriers: 0, clocks: 0, aside: 0, quotas: 0, ..world.state.held() };
    ensure(held == Held::default() && world.near_alarm().is_none(), "G12", || format!("{held:?} is left"))
}
