//! What the machine asks of the outside: the model's six effects.

use std::sync::Arc;

use fanin_protocol::{
    Background, CombinedResult, Dependencies, Hit, JobId, Lifetime, MessageId, ResultEntry, Spec,
};

use crate::clock::Mono;
use crate::command::{RunRef, WaiterId};
use crate::mail::Mail;

/// An effect. The host carries them out in order, each once.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Start a run.
    Spawn {
        /// The run, for its reports.
        run: RunRef,
        /// The job.
        job: JobId,
        /// Which life of it.
        lifetime: Lifetime,
        /// What it shall do; `None` for a closure, which the host keeps.
        spec: Option<Arc<Spec>>,
        /// What it is told of those that it needs; `None` where it needs none.
        needed: Option<Arc<Dependencies>>,
        /// The host's mark.
        tag: u64,
    },
    /// Stop a run, by stages.
    Kill {
        /// The run.
        run: RunRef,
        /// How hard.
        stage: KillStage,
        /// The host's mark.
        tag: u64,
    },
    /// Give a run a follow-up.
    Deliver {
        /// The run.
        run: RunRef,
        /// The host's mark.
        tag: u64,
        /// The message's key, for the report that it was taken.
        key: MessageId,
        /// Its text.
        text: Arc<str>,
    },
    /// Give a waiter its answer.
    Answer {
        /// The waiter.
        waiter: WaiterId,
        /// The answer.
        answer: Answer,
    },
    /// Say when this run last showed a sign of work, with [`Said::Beat`](crate::Said::Beat), at once: its idle limit
    /// may have come due.
    Probe {
        /// The run.
        run: RunRef,
        /// The host's mark.
        tag: u64,
    },
    /// Call `Tick` at this time; `None` to cancel the alarm.
    Alarm(Option<Mono>),
    /// What the host keeps can go.
    Forget(Forgotten),
}

/// What nobody needs any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgotten {
    /// The job is over: what the host keeps under its mark.
    Work {
        /// The host's mark.
        tag: u64,
    },
    /// The job has left the memory: its output.
    Output(Lifetime),
}

/// How hard a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KillStage {
    /// Token, TERM.
    Polite,
    /// KILL; a closure's task is aborted.
    Forced,
    /// The run counts as lost; abort whatever is left of it.
    Abandoned,
}

/// What a waiter is offered. It counts as delivered once the waiter acknowledges it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The jobs of a wait, in the order they were named; of a wait for any, those that are over.
    Jobs {
        /// One entry a job.
        entries: Vec<ResultEntry>,
        /// Each of these was delivered to its parent already, or is being delivered as its wake.
        already_delivered: bool,
    },
    /// A group's result.
    Group {
        /// The result as it was fixed when the group fired.
        result: Arc<CombinedResult>,
        /// It was delivered to its parent already, or is being delivered as its wake.
        already_delivered: bool,
    },
    /// The parent's wake.
    Wake(Arc<CombinedResult>),
    /// A user's words.
    Words {
        /// The message's key.
        key: MessageId,
        /// The words.
        text: Arc<str>,
    },
    /// A watch fired.
    Hit(Hit),
    /// Mail of another member.
    Mail(Mail),
    /// Of a foreground call: it is one no more. The jobs go on, and their result comes as a wake.
    Promoted,
    /// Nobody waits for the job in the foreground.
    Background(Background),
    /// The group was voided: its parent ended first.
    Voided,
    /// No run is open.
    Idle,
    /// The session or the supervisor is closed; nothing will come.
    Closed,
}
