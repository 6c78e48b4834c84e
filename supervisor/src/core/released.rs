//! What steps have decided and nobody has carried out yet, and what the driver needs to do so.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use fanin_machine::pump::Batch;
use fanin_machine::{Answer, Effect, Forgotten, KillStage, Mono, Out, RunRef, State, WaiterId};
use fanin_protocol::limits::{EFFECTS_ROOM, OUTPUT_BYTES_MAX};
use fanin_protocol::{JobKind, Lifetime, MessageId, Spec};

use super::Core;
use super::outputs::stored;
use crate::body::{Body, Work};
use crate::context::RunCell;
use crate::hosted::Hosted;
use crate::journal::OutputChange;
use crate::token::Standing;

/// What steps have decided and nobody has carried out yet: records first, then the rest in order.
#[derive(Default)]
pub(crate) struct Released {
    /// The records, and room for a step to write into.
    pub(crate) out: Out,
    /// To the outside.
    pub(crate) acts: VecDeque<Act>,
    /// Outputs of runs that are over, for the journal.
    pub(crate) outputs: Vec<OutputChange>,
    /// There is more to do.
    pub(super) rest: Rest,
    /// The end: nothing comes after it.
    pub(super) end: Option<End>,
}

/// What a step has left for a `Tick`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rest {
    #[default]
    Nothing,
    /// It comes once the runtime has had its turn, with what was started so far.
    Soon,
    /// Stops wait for nobody, a runtime that is blocked least of all.
    Now,
}

impl Rest {
    pub(super) const fn of(out: &Out) -> Self {
        match out {
            Out { is_urgent: true, .. } => Self::Now,
            Out { unfinished: true, .. } => Self::Soon,
            Out { .. } => Self::Nothing,
        }
    }
}

/// What is over with a supervisor. It holds the core until it is carried out: with a journal that is later, and whoever
/// dropped the supervisor may have been the last to hold it.
pub(super) struct End {
    pub(super) hosted: Hosted,
    pub(super) _core: Arc<Core>,
}

impl Released {
    /// Takes over what was decided after it.
    pub(super) fn absorb(&mut self, later: &mut Self) {
        self.out.records.append(&mut later.out.records);
        self.acts.append(&mut later.acts);
        self.outputs.append(&mut later.outputs);
        self.rest = self.rest.max(mem::take(&mut later.rest));
        self.end = self.end.take().or(later.end.take());
    }

    /// True where nothing comes after it.
    pub(crate) const fn is_end(&self) -> bool {
        self.end.is_some()
    }

    /// Takes out what stops things.
    pub(crate) fn take_stops(&mut self) -> VecDeque<Act> {
        let (stops, rest) = mem::take(&mut self.acts)
            .into_iter()
            .partition(|act| matches!(act, Act::Kill { .. } | Act::Alarm(_)));
        self.acts = rest;
        stops
    }
}

impl Batch for Released {
    fn is_empty(&self) -> bool {
        let Self { out, acts, outputs, rest, end } = self;
        let is_all = *rest == Rest::Nothing && end.is_none();
        out.records.is_empty() && acts.is_empty() && outputs.is_empty() && is_all
    }

    fn trim(&mut self) {
        self.out.records.shrink_to(EFFECTS_ROOM);
        self.acts.shrink_to(EFFECTS_ROOM);
    }
}

/// An effect with what the driver needs to carry it out, taken from behind the gate as it was decided: a tag may mean
/// another job by then.
pub(crate) enum Act {
    Spawn { cell: Arc<RunCell>, body: Option<Body>, spec: Option<Arc<Spec>> },
    Kill { cell: Arc<RunCell>, stage: KillStage },
    Probe { run: RunRef, cell: Option<Arc<RunCell>> },
    Deliver { cell: Arc<RunCell>, key: MessageId, text: Arc<str> },
    Answer { waiter: WaiterId, answer: Answer },
    Alarm(Option<Mono>),
    Discard(Work),
    DropOutput(Lifetime),
}

impl Core {
    /// What the driver has to do for an effect, if anything; behind the gate.
    pub(super) fn act(self: &Arc<Self>, state: &State, hosted: &mut Hosted, effect: Effect) -> Option<Act> {
        match effect {
            Effect::Spawn { run, job, lifetime, spec, needed, tag } => {
                let output_max = spec.as_deref().and_then(Spec::output_bytes_max);
                let kind = spec.as_ref().map_or(JobKind::Closure, |spec| spec.kind());
                let kind = (kind, output_max.unwrap_or(OUTPUT_BYTES_MAX));
                let place = spec.as_ref().and_then(|_| state.place_of(&job, lifetime).ok());
                let has_mail = place.is_some() && state.has_mail(&job, lifetime);
                let standing = place.map(|place| Box::new(Standing::new(place, has_mail)));
                let told = (standing, needed);
                let cell = Arc::new(RunCell::new(Arc::clone(self), run, (job, lifetime), kind, told));
                let body = hosted.start(tag, Arc::clone(&cell));
                Some(Act::Spawn { cell, body, spec })
            }
            Effect::Kill { stage, tag, .. } => {
                hosted.find(tag).map(|cell| Act::Kill { cell: Arc::clone(cell), stage })
            }
            Effect::Probe { run, tag } => Some(Act::Probe { run, cell: hosted.find(tag).map(Arc::clone) }),
            Effect::Deliver { tag, key, text, .. } => {
                hosted.find(tag).map(|cell| Act::Deliver { cell: Arc::clone(cell), key, text })
            }
            Effect::Answer { waiter, answer } => Some(Act::Answer { waiter, answer }),
            Effect::Alarm(at) => Some(Act::Alarm(at)),
            // The run is over or lost; its task ends by itself or was aborted.
            Effect::Forget(Forgotten::Work { tag }) => hosted.forget(tag).map(Act::Discard),
            Effect::Forget(Forgotten::Output(job)) => Some(Act::DropOutput(job)),
        }
    }
}

/// What an effect changes in what a store keeps of outputs.
pub(super) fn output_change(state: &State, effect: &Effect) -> Option<OutputChange> {
    match effect {
        // An output is that of the newest run. Also where the run before was never heard of again, it may have left one.
        Effect::Spawn { lifetime, .. } if state.runs_of(*lifetime) > 1 => Some(stored(*lifetime, None)),
        Effect::Forget(Forgotten::Output(job)) => Some(OutputChange::Retire { job: *job }),
        Effect::Spawn { .. }
        | Effect::Kill { .. }
        | Effect::Probe { .. }
        | Effect::Deliver { .. }
        | Effect::Answer { .. }
        | Effect::Alarm(_)
        | Effect::Forget(Forgotten::Work { .. }) => None,
    }
}
