//! What a run says of itself while it is open: a try of a job, or a turn of a session. It says, and never waits for work.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use fanin_machine::{Bound, Command, Report, RunRef, Said};
use fanin_protocol::limits::CALL_BYTES_MAX;
use fanin_protocol::record::Usage;
use fanin_protocol::{Fence, PartKind, PartState, text};

use crate::core::{CallError, Core};

/// The voice of one run. Clones are the same; once the run is over they change nothing any more.
#[derive(Clone)]
pub struct Voice {
    core: Arc<Core>,
    run: RunRef,
}

impl Voice {
    pub(crate) const fn new(core: Arc<Core>, run: RunRef) -> Self {
        Self { core, run }
    }

    /// The run's fence: no other run has it.
    pub const fn fence(&self) -> Fence {
        self.run.fence
    }

    /// The run's name among those of all supervisors: `LOG:FENCE`. A runner puts it into the environment of what it
    /// starts, as [`RUN_VARIABLE`](fanin_protocol::process::RUN_VARIABLE).
    pub fn mark(&self) -> String {
        format!("{}:{}", self.core.log.id(), self.run.fence)
    }

    /// Records that the work is in hand, and how to find it from outside.
    pub fn bound(&self, bound: Bound) {
        self.report(Said::Bound(bound));
    }

    /// As [`Voice::bound`], and waits until that is kept wherever records are. For agents, before the first prompt: after
    /// a crash the agent's session can be found.
    ///
    /// # Errors
    ///
    /// [`CallError`]: it is not known to be kept.
    ///
    /// # Cancel safety
    ///
    /// Dropped at the gate nothing is recorded; dropped later it is, and nobody hears of it.
    pub async fn bound_and_kept(&self, bound: Bound) -> Result<(), CallError> {
        let report = Report { run: self.run, what: Said::Bound(bound) };
        self.core.submit(Command::Report(report)).await.map(drop)
    }

    /// Records what the run has used so far, by one of its meters. What it tells of twice counts once. Every call is a
    /// record: a runner whose work tells of each token says so now and then.
    pub fn used(&self, used: Used) {
        let Used { source, cost_usd_micros, tokens, steps } = used;
        let source = text::cut(&source, CALL_BYTES_MAX).to_owned();
        let run = self.fence();
        self.report(Said::Used(Usage { run, source, cost_usd_micros, tokens, steps, ms: None }));
    }

    /// Announces a tool call. `call` names it inside this run; a name that was used before is the same call.
    pub fn tool(&self, call: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> ToolCall {
        self.announce(call.into(), name.into(), PartKind::Tool, None)
    }

    /// Announces a question to a person, a permission among them: a part like a tool call. While it is open the clocks of
    /// the run stand still.
    pub fn question(&self, call: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> ToolCall {
        self.announce(call.into(), name.into(), PartKind::Question, None)
    }

    /// As [`Voice::tool`], with a digest of the arguments: equal arguments give equal digests, whatever the digest is made
    /// with. So the same call again and again is found (SC-15).
    pub fn tool_with(
        &self,
        call: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        args: &(impl Hash + ?Sized),
    ) -> ToolCall {
        let mut hasher = DefaultHasher::new();
        args.hash(&mut hasher);
        self.announce(call.into(), name.into(), PartKind::Tool, Some(hasher.finish()))
    }

    fn announce(&self, call: Arc<str>, name: Arc<str>, kind: PartKind, args_hash: Option<u64>) -> ToolCall {
        let call = ToolCall { voice: self.clone(), call, name, kind, args_hash, is_over: false };
        call.say(PartState::Pending);
        call
    }

    pub(crate) fn report(&self, what: Said) {
        // A run that is over says nothing any more: the machine notes it and drops it, a closed supervisor drops it.
        self.core.post(Command::Report(Report { run: self.run, what }));
    }
}

impl fmt::Debug for Voice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Voice").field(&self.run.fence).finish()
    }
}

/// A tool call of a run. Dropped without a word it ends as an error; one that outlives its run was closed with it.
#[derive(Debug)]
pub struct ToolCall {
    voice: Voice,
    call: Arc<str>,
    name: Arc<str>,
    kind: PartKind,
    args_hash: Option<u64>,
    is_over: bool,
}

/// What a run has used so far, by its own word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Used {
    /// Which meter.
    pub source: String,
    /// Cost, in millionths of a US dollar; `None` where it is unknown.
    pub cost_usd_micros: Option<u64>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Calls of a model.
    pub steps: Option<u64>,
}

impl ToolCall {
    /// The call begins.
    pub fn begin(&self) {
        self.say(PartState::Running);
    }

    /// The call ended well.
    pub fn complete(mut self) {
        self.is_over = true;
        self.say(PartState::Completed);
    }

    /// The call failed.
    pub fn fail(mut self) {
        self.is_over = true;
        self.say(PartState::Error);
    }

    /// Leaves the call as it is, where nobody can tell how it went: the end of its run closes it as interrupted.
    pub fn leave(mut self) {
        self.is_over = true;
    }

    fn say(&self, state: PartState) {
        let (call, name) = (Arc::clone(&self.call), Arc::clone(&self.name));
        let (kind, args_hash) = (self.kind, self.args_hash);
        self.voice.report(Said::Part { call, name, kind, state, args_hash });
    }
}

impl Drop for ToolCall {
    fn drop(&mut self) {
        if !self.is_over {
            self.say(PartState::Error);
        }
    }
}
