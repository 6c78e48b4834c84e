//! How many jobs of a kind may start: a rate that was set, and a pause after too many failed starts (SC-18). Both hold
//! jobs aside until there is room again, and the queue goes on for other kinds. It never ends a job.

use std::collections::VecDeque;

use fanin_protocol::limits::{CIRCUIT_FAILURES_MAX, CIRCUIT_PAUSE, CIRCUIT_WINDOW};
use fanin_protocol::record::{Note, NoteCode, NoteDetails};
use fanin_protocol::spec::millis;
use fanin_protocol::{JobKind, Reason};

use crate::clock::Mono;
use crate::command::Rate;
use crate::out::Out;
use crate::state::{JobKey, State};
use crate::timers::{Owner, Purpose};

const KINDS: [JobKind; 3] = [JobKind::Closure, JobKind::Command, JobKind::Agent];

/// How starts go, by kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Starts {
    closures: Gate,
    commands: Gate,
    agents: Gate,
}

/// A quota of one kind that refills with time.
#[derive(Debug, Clone, Default)]
struct Gate {
    rate: Option<Rate>,
    /// When each start that the rate still counts is forgotten, the oldest first.
    started: VecDeque<Mono>,
    /// When each failed start is forgotten, the oldest first.
    failed: VecDeque<Mono>,
    /// Too many starts failed: none before this time.
    paused_until: Option<Mono>,
    /// Jobs that came up and may not start yet, the oldest first.
    held: VecDeque<JobKey>,
}

impl Gate {
    /// How many may start now; `None` for any number.
    fn room(&self, now: Mono) -> Option<usize> {
        if self.paused_until.is_some_and(|until| until > now) {
            return Some(0);
        }
        self.rate.map(|rate| {
            let forgotten = self.started.partition_point(|until| *until <= now);
            rate.starts.saturating_sub(self.started.len() - forgotten)
        })
    }

    /// When there is room again; `None` where there is some now.
    fn next(&self, now: Mono) -> Option<Mono> {
        if self.room(now) != Some(0) {
            return None;
        }
        let counted = self.started.iter().find(|until| **until > now).copied();
        self.paused_until.filter(|until| *until > now).or(counted)
    }
}

impl Starts {
    const fn gate(&self, kind: JobKind) -> &Gate {
        match kind {
            JobKind::Closure => &self.closures,
            JobKind::Command => &self.commands,
            JobKind::Agent => &self.agents,
        }
    }

    const fn gate_mut(&mut self, kind: JobKind) -> &mut Gate {
        match kind {
            JobKind::Closure => &mut self.closures,
            JobKind::Command => &mut self.commands,
            JobKind::Agent => &mut self.agents,
        }
    }

    /// Sets the rates of an epoch.
    pub(crate) fn set_rates(&mut self, rates: &[(JobKind, Rate)]) {
        for (kind, rate) in rates {
            self.gate_mut(*kind).rate = Some(*rate);
        }
    }

    /// Puts a job aside that came up in line and may not start yet; false where it may.
    pub(crate) fn hold(&mut self, kind: JobKind, key: JobKey, now: Mono) -> bool {
        let gate = self.gate_mut(kind);
        let is_full = gate.room(now) == Some(0);
        if is_full {
            gate.held.push_back(key);
        }
        is_full
    }

    /// The first of those that were put aside and may start now. They had their turn, so they come before the lines.
    pub(crate) fn pop(&mut self, now: Mono, may_start: impl Fn(JobKey) -> bool) -> Option<JobKey> {
        KINDS.into_iter().find_map(|kind| {
            let gate = self.gate_mut(kind);
            gate.held.front()?;
            if gate.room(now) == Some(0) {
                return None;
            }
            std::iter::from_fn(|| gate.held.pop_front()).find(|key| may_start(*key))
        })
    }

    /// Jobs that were put aside. One that ended meanwhile stays until it would come up, like one in line.
    pub(crate) fn held(&self) -> impl Iterator<Item = JobKey> {
        KINDS.into_iter().flat_map(|kind| self.gate(kind).held.iter().copied())
    }

    /// What holds jobs of this kind, where something does.
    pub(crate) fn reason(&self, kind: JobKind, key: JobKey, now: Mono) -> Option<Reason> {
        let gate = self.gate(kind);
        if gate.paused_until.is_some_and(|until| until > now) {
            return Some(Reason::Circuit { kind });
        }
        let is_held = gate.held.contains(&key) || gate.room(now) == Some(0);
        is_held.then_some(Reason::Rate { kind })
    }
}

/// Arms the time when those that were put aside may go on.
pub(crate) fn arm(state: &mut State) {
    let now = state.memory.clock.mono();
    for kind in KINDS {
        let gate = state.memory.starts.gate(kind);
        if !gate.held.is_empty()
            && let Some(at) = gate.next(now)
        {
            state.memory.timers.rearm(at, Owner::Kind(kind), Purpose::Refill);
        }
    }
}

/// A job of this kind starts.
pub(crate) fn started(state: &mut State, kind: JobKind) {
    let now = state.memory.clock.mono();
    let gate = state.memory.starts.gate_mut(kind);
    if let Some(rate) = gate.rate {
        forget(&mut gate.started, now);
        gate.started.push_back(now.after(rate.per_ms));
    }
}

/// A start failed for a reason that is not the job's own. One too many pauses the kind.
pub(crate) fn failed(state: &mut State, kind: JobKind, out: &mut Out) {
    let now = state.memory.clock.mono();
    let gate = state.memory.starts.gate_mut(kind);
    forget(&mut gate.failed, now);
    gate.failed.push_back(now.after(millis(CIRCUIT_WINDOW)));
    if gate.failed.len() <= CIRCUIT_FAILURES_MAX {
        return;
    }
    gate.failed.clear();
    gate.paused_until = Some(now.after(millis(CIRCUIT_PAUSE)));
    let details = Box::new(NoteDetails { kind: Some(kind), ..NoteDetails::default() });
    let value = i64::try_from(millis(CIRCUIT_PAUSE)).ok();
    out.record(state, Note { value, details: Some(details), ..Note::new(NoteCode::Circuit) });
}

fn forget(times: &mut VecDeque<Mono>, now: Mono) {
    while times.front().is_some_and(|until| *until <= now) {
        times.pop_front();
    }
}
