//! The promises that are checked after every step: G1 (fold), G2 (refused is unchanged), G7 (stale is dropped), G8,
//! G14. Those about records alone are in [`ledger`](crate::ledger), those about delivery in
//! [`parent`](crate::parent).

use fanin_machine::{Effect, Facts, Forgotten, Out, Reply, why};
use fanin_protocol::record::NoteCode;
use fanin_protocol::{Cause, Entry, GroupId, JobId, NodeId, Reason, Record, SessionId, Status};
use std::sync::Arc;

use crate::accounts;
use crate::broken::{Broken, Kept, ensure};
use crate::ledger::{GroupSeen, JobSeen, SessionSeen};
use crate::lending;
use crate::world::World;

/// G1: the facts after a step are the facts before it and the records of the step.
///
/// # Errors
///
/// [`Broken`] where a record does not fit or the facts differ.
pub fn fold(mut facts: Facts, records: &[Entry], after: &Facts) -> Kept {
    for entry in records {
        apply(&mut facts, entry)?;
    }
    // What left the memory did so without a record.
    facts.forget_absent(after);
    ensure(facts == *after, "G1", || format!("the fold of the records is {facts:?}\nand not {after:?}"))
}

/// G1 over a whole log.
///
/// # Errors
///
/// As [`fold`].
pub fn whole_fold(log: &[Entry], after: &Facts) -> Kept {
    fold(Facts::default(), log, after)
}

fn apply(facts: &mut Facts, entry: &Entry) -> Kept {
    let about = facts
        .apply(entry.seq, entry.ts_ms, &entry.record)
        .map_err(|error| Broken { rule: "G1", what: error.to_string() })?;
    ensure(about == (Arc::clone(&entry.about), entry.run), "B-1", || {
        format!("{} is about {:?}, not {about:?}", entry.seq, entry.about)
    })
}

/// What was refused or came from a run that is over changes nothing, and outside an epoch nothing is written; there
/// is always a reply.
///
/// # Errors
///
/// [`Broken`] where it does.
pub fn reply(out: &Out, stale: bool, is_open: bool) -> Kept {
    let reply = out.reply.as_ref();
    ensure(reply.is_some(), "C-1", || "a step without a reply".into())?;
    let notes = |code: NoteCode| {
        out.records
            .iter()
            .filter(|entry| matches!(&entry.record, Record::Note(note) if note.code == code))
            .count()
    };
    let others = out.records.len() - notes(NoteCode::ClockJump);
    if let Some(Reply::Refused(refusal)) = reply {
        ensure(others == 0, "G2", || format!("refused as {refusal}, and {:?}", out.records))?;
        let silent = out
            .effects
            .iter()
            .all(|effect| matches!(effect, Effect::Alarm(_) | Effect::Forget(Forgotten::Output(_))));
        ensure(silent, "G2", || format!("refused as {refusal}, and {:?}", out.effects))?;
    }
    ensure(is_open || out.records.is_empty(), "C-8", || format!("outside an epoch: {:?}", out.records))?;
    if stale {
        let dropped = others == notes(NoteCode::StaleReport) && others <= 1;
        ensure(dropped, "G7", || format!("a stale report, and {:?}", out.records))?;
    }
    Ok(())
}

/// What holds between two steps of an open epoch; `unfinished` where a slice of starts is still to come.
///
/// # Errors
///
/// [`Broken`] names the rule.
pub fn state(world: &World, unfinished: bool) -> Kept {
    let World { state, ledger, parent, options, closing, .. } = world;
    ensure(state.running() == ledger.running, "G8", || format!("{} run", ledger.running))?;
    ensure(state.queued() == ledger.queued, "G8", || format!("{} are queued", ledger.queued))?;
    if ledger.open {
        // Those that wait for their next try, or for their kind, are looked at one by one.
        let is_plain = !ledger.is_rated && ledger.failed_starts <= 20;
        let ready = |id: &SessionId, seen: &SessionSeen| {
            let held = || {
                ledger.lives().filter(|job| job.session == *id && job.ended.is_none() && ledger.is_held(job))
            };
            seen.queued > if ledger.plans == 0 { 0 } else { held().count() as u32 }
        };
        let starved =
            |(id, seen): &(&SessionId, &SessionSeen)| ready(id, seen) && lending::is_free(world, id);
        let starved =
            ledger.sessions.iter().find(starved).filter(|_| is_plain && *closing == 0 && !unfinished);
        ensure(starved.is_none(), "G8", || format!("{starved:?} waits while a slot is free"))?;
        ledger.nobody_waits_in_vain().or_else(|broken| if unfinished { Ok(()) } else { Err(broken) })?;
        parent.nothing_is_late(world)?;
    } else {
        let left = parent.waits.values().find(|wait| wait.offer.is_none());
        ensure(left.is_none(), "G12", || format!("{left:?} waits for a closed store"))?;
    }
    if options.sparse > 1 && !world.steps.is_multiple_of(options.sparse) {
        return Ok(());
    }
    if ledger.open {
        fires(world)?;
    }
    parent.compare(ledger)?;
    accounts::holds(world, unfinished)?;
    recovered(world)?;
    reasons(world)
}

/// G4: no run of an older epoch is open any more; its parts were closed with it.
fn recovered(world: &World) -> Kept {
    let older = |fence: u64| fence < world.ledger.epoch;
    let left = world.ledger.runs.iter().rev().find(|(fence, run)| older(fence.0) && !run.over);
    ensure(left.is_none(), "G4", || format!("{left:?} is still open"))
}

/// BAR-4: sealed and all over is fired or voided, in the same step.
fn fires(world: &World) -> Kept {
    let waits = |group: &&GroupSeen| group.policy.is_some() && group.fired.is_none() && !group.voided;
    let due = world.ledger.groups.values().filter(waits).find(|group| world.ledger.all_over(group));
    ensure(due.is_none(), "BAR-4", || format!("{due:?} has not fired"))
}

/// G14: what is not over waits for something, and that exists.
fn reasons(world: &World) -> Kept {
    let ledger = &world.ledger;
    let is_kept = |job: &JobSeen| !world.gone.contains(&job.lifetime);
    for (id, job) in ledger.jobs.iter().filter(|(_, job)| is_kept(job)) {
        let reasons = why::job(&world.state, id);
        ensure(reasons.is_empty() == job.ended.is_some(), "G14", || format!("{id} waits for {reasons:?}"))?;
        for reason in &reasons {
            let exists = job_reason(world, id, job, reason);
            ensure(exists, "G14", || format!("{id} ({job:?}) waits for {reason:?}"))?;
        }
    }
    let are_kept = |group: &GroupSeen| group.lives.iter().all(|lifetime| !world.gone.contains(lifetime));
    for (id, group) in ledger.groups.iter().filter(|(_, group)| are_kept(group)) {
        let reasons = why::group(&world.state, id);
        let over = group.voided || group.taken.is_some();
        ensure(reasons.is_empty() == over, "G14", || format!("{id} waits for {reasons:?}"))?;
        for reason in &reasons {
            let exists = group_reason(world, id, group, reason);
            ensure(exists, "G14", || format!("{id} ({group:?}) waits for {reason:?}"))?;
        }
    }
    Ok(())
}

/// True where these hold slots, and somebody is named where somebody does.
fn are_holders(world: &World, held_by: &[JobId]) -> bool {
    let holds = |id: &JobId| {
        let job = world.ledger.jobs.get(id);
        job.is_some_and(|job| job.run.is_some() && !lending::waits(world, id, job))
    };
    held_by.iter().all(holds) && held_by.is_empty() == (lending::holders(world, None) == 0)
}

fn job_reason(world: &World, id: &JobId, job: &JobSeen, reason: &Reason) -> bool {
    let ledger = &world.ledger;
    match reason {
        Reason::Slot { position, held_by } => {
            let run = held_by.iter().all(|id| ledger.jobs.get(id).is_some_and(|job| job.run.is_some()));
            let is_before = |other: &&JobSeen| {
                other.session == job.session
                    && other.status() == Status::Queued
                    && other.lifetime < job.lifetime
            };
            let place = ledger.jobs.values().filter(is_before).count() as u64 + 1;
            // One that waits before it may stand aside, and one that is tried again stands behind.
            let fits = *position == place || ledger.has_asides(world.options.rate.is_some());
            let is_full = !lending::is_free(world, &job.session);
            let is_due = is_full || ledger.failed_starts > 20 || world.unfinished;
            job.run.is_none() && run && is_due && fits && are_holders(world, held_by)
        }
        Reason::Dependency { open, first } => {
            let live = ledger.needs(job).filter(|needed| needed.ended.is_none());
            let lives: Vec<_> = live.map(|needed| needed.lifetime).collect();
            let is_one = |id: &JobId| ledger.jobs.get(id).is_some_and(|job| lives.contains(&job.lifetime));
            job.runs == 0 && *open as usize == lives.len() && *open > 0 && first.iter().all(is_one)
        }
        Reason::Backoff { tries, not_before_ms } => {
            job.run.is_none() && job.retry_at_ms == Some(*not_before_ms) && job.runs == *tries
        }
        Reason::Rate { kind } => job.run.is_none() && world.options.rate.is_some() && job.kind == *kind,
        Reason::Circuit { kind } => job.run.is_none() && ledger.failed_starts > 20 && job.kind == *kind,
        Reason::Budget { asked_usd_micros, left_usd_micros } => {
            // What it asks for would fit, once others have used or given back what is set aside for them.
            job.run.is_none() && *asked_usd_micros > 0 && asked_usd_micros <= left_usd_micros
        }
        Reason::Draining => job.run.is_none() && (world.closing > 0 || !ledger.open),
        Reason::Starting | Reason::Working => {
            // To look is the work of a watch.
            let works = job.firings.is_some() || !lending::waits(world, id, job);
            job.run.is_some() && job.stop.is_none() && works
        }
        Reason::Waiting { first } => {
            let live = |id| ledger.jobs.get(id).is_some_and(|job| job.ended.is_none());
            lending::waits(world, id, job) && first.iter().all(live)
        }
        Reason::Lent { position, held_by } => {
            lending::waits(world, id, job) && *position > 0 && are_holders(world, held_by)
        }
        Reason::Children { open, first } => {
            let live = |id| ledger.jobs.get(id).is_some_and(|job| job.ended.is_none());
            job.run.is_none() && job.runs > 0 && *open > 0 && first.iter().all(live)
        }
        Reason::Question { call } => job
            .run
            .and_then(|fence| ledger.runs.get(&fence))
            .is_some_and(|run| run.parts.iter().any(|part| part.call == *call && !part.state.is_terminal())),
        // What a node above was told counts before the slice that says it of this one.
        Reason::Stopping { cause, .. } => match job.stop {
            Some((_, wished)) => wished == *cause,
            None => world.unfinished && *cause == Cause::Parent,
        },
        Reason::Members { .. }
        | Reason::Unsealed
        | Reason::Busy
        | Reason::Offered
        | Reason::Autonomy { .. }
        | Reason::Untaken
        | Reason::NotRecovered
        | Reason::Unowned => false,
    }
}

fn group_reason(world: &World, id: &GroupId, group: &GroupSeen, reason: &Reason) -> bool {
    let World { ledger, parent, .. } = world;
    match reason {
        Reason::Unsealed => group.policy.is_none(),
        Reason::Members { open, first } => {
            let live = |id| ledger.jobs.get(id).is_some_and(|job| job.ended.is_none());
            *open > 0 && !first.is_empty() && first.iter().all(live)
        }
        Reason::Offered => parent.wake_is_out(id) || parent.held(id, group),
        Reason::Busy => match &group.parent {
            NodeId::Session(id) => ledger.sessions.get(id).is_some_and(|session| session.turn.is_some()),
            NodeId::Job(_) => false,
        },
        Reason::Autonomy { .. } | Reason::Untaken => group.fired.is_some(),
        Reason::Slot { .. }
        | Reason::Dependency { .. }
        | Reason::Backoff { .. }
        | Reason::Rate { .. }
        | Reason::Circuit { .. }
        | Reason::Budget { .. }
        | Reason::Draining
        | Reason::Starting
        | Reason::Working
        | Reason::Waiting { .. }
        | Reason::Lent { .. }
        | Reason::Children { .. }
        | Reason::Question { .. }
        | Reason::Stopping { .. }
        | Reason::NotRecovered
        | Reason::Unowned => false,
    }
}
