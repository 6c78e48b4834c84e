//! One step of the machine: a command in, records and effects out.

use fanin_protocol::record::{Note, NoteCode};

use fanin_protocol::limits::{EVICTS_PER_STEP, STARTS_PER_STEP};

use crate::clock::Now;
use crate::command::{Command, Reply};
use crate::out::Out;
use crate::state::State;
use crate::{
    activity, dispatch, epoch, evict, fence, foreground, group, inbox, intake, job, lend, mail, plan, quota,
    sweep,
};

/// Carries out one command.
///
/// Pure: it reads no clock, draws no chance, does no I/O and takes no lock. All that follows from the command
/// follows in this step, whoever caused it; only time and the outside need another.
pub fn step(state: &mut State, command: Command, now: Now, out: &mut Out) {
    let had_gap = activity::is_gap(state, now);
    let jump = state.memory.clock.advance(now, state.facts.ts_ms);
    if had_gap {
        activity::restart(state);
    }
    let is_tick = matches!(command, Command::Tick);
    match fence::admit(state, command, out) {
        Some(command) => intake::decide(state, command, out),
        None => out.reply = Some(Reply::Done),
    }
    // After the command: the first thing of an epoch is its `store.opened`, and the step that writes it is the one
    // that finds the clock behind the log.
    if let Some(jump) = jump
        && epoch::is_open(state)
    {
        out.record(state, Note { value: Some(jump), ..Note::new(NoteCode::ClockJump) });
    }
    // What follows from an opening follows once all of it is there.
    if !state.is_opening() {
        settle(state, is_tick, out);
    }
    let next = [state.memory.timers.next(), state.memory.finished.next()].into_iter().flatten().min();
    out.alarm(state, next);
}

/// Moves on whatever may have to. Each settle either moves a fact forward or does nothing, so this ends.
///
/// A step starts jobs and lets go of what is over in shares. What is left waits for the `Tick` that was asked for, so
/// that the host has carried out one share before the next is decided, however many steps come in between; stops wait
/// for nobody.
fn settle(state: &mut State, is_tick: bool, out: &mut Out) {
    let waits = std::mem::take(&mut state.memory.asked_for_tick) && !is_tick;
    let (mut starts, mut stops, mut gone) =
        if waits { (STARTS_PER_STEP, 0, EVICTS_PER_STEP) } else { (0, 0, 0) };
    loop {
        if let Some(key) = state.memory.dirty.jobs.pop_front() {
            job::settle(state, key, out);
        } else if let Some(payer) = state.memory.dirty.quotas.pop_front() {
            quota::settle(state, payer, out);
        } else if sweep::next(state, &mut stops, out) {
        } else if let Some(key) = state.memory.dirty.needed.pop_front() {
            plan::settle(state, key);
        } else if plan::skip_next(state, out) {
        } else if let Some(key) = state.memory.dirty.groups.pop_front() {
            group::settle(state, key, out);
        } else if let Some(key) = state.memory.dirty.lends.pop_front() {
            lend::settle(state, key, out);
        } else if starts < STARTS_PER_STEP && dispatch::next(state, out) {
            starts += 1;
        } else if let Some(key) = state.memory.dirty.inboxes.pop_front() {
            inbox::settle(state, key, out);
            mail::settle(state, key, out);
        } else if evict::next(state, &mut gone, out) {
        } else {
            break;
        }
    }
    inbox::settle_idle(state, out);
    foreground::settle(state, out);
    let is_left = starts == STARTS_PER_STEP || evict::is_unfinished(state);
    state.memory.asked_for_tick = is_left;
    out.is_urgent = !state.memory.sweeps.is_empty();
    out.unfinished = is_left && !waits || out.is_urgent;
}
