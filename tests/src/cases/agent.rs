//! An agent that does as its name says. It talks to no model and starts no process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use fanin_supervisor::protocol::{AgentSpec, Cause, Code, JobKind, Spec};
use fanin_supervisor::testing::{FakeRunner, script};
use fanin_supervisor::{Ending, Failure, RunContext, RunFuture, Runner};

use super::{Alive, Gate, OnDrop};

/// A runner for agent jobs: most agents follow a script, some misbehave as only a runner can. Clones are the same
/// runner.
#[derive(Debug, Clone)]
pub struct FakeAgent {
    scripted: FakeRunner,
    /// Runs that were started.
    started: Arc<AtomicUsize>,
    /// Runs that are alive.
    pub alive: Alive,
    /// Opened by a test to let the agents named `gated` go on.
    pub gate: Gate,
}

/// The agents there are.
const NAMES: [&str; 10] = [
    "talks",
    "silent",
    "empty",
    "tool",
    "fails",
    "refuses",
    "gated",
    "panics",
    "panics_at_start",
    "panics_in_drop",
];

impl FakeAgent {
    /// A runner that has run nothing.
    pub fn new() -> Self {
        let gate = Gate::new();
        let scripted = FakeRunner::agents()
            .knows(NAMES)
            .on_name("talks", script().echoes())
            .on_name("silent", script())
            .on_name("empty", script().completes(""))
            .on_name("tool", script().tool_call("read"))
            .on_name("gated", script().held_by(&gate).echoes());
        Self { scripted, started: Arc::default(), alive: Alive::new(), gate }
    }

    /// Runs that were started so far.
    pub fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }
}

impl Default for FakeAgent {
    fn default() -> Self {
        Self::new()
    }
}

impl Runner for FakeAgent {
    fn kind(&self) -> JobKind {
        self.scripted.kind()
    }

    fn check(&self, spec: &Spec) -> Result<(), String> {
        self.scripted.check(spec)
    }

    fn run(&self, spec: Arc<Spec>, context: RunContext) -> RunFuture {
        self.started.fetch_add(1, Ordering::SeqCst);
        let Spec::Agent(AgentSpec { agent, prompt, .. }) = spec.as_ref().clone() else {
            panic!("planned: not an agent")
        };
        assert!(agent != "panics_at_start", "planned: {prompt}");
        if agent == "panics_in_drop" {
            // Kept until the future is dropped, which is after it was ready.
            let mut last = OnDrop::new(move || panic!("planned: {prompt}"));
            return Box::pin(std::future::poll_fn(move |_| {
                let _last = &mut last;
                Poll::Ready(Ending::completed("done".into()))
            }));
        }
        let fake = self.clone();
        Box::pin(async move {
            let _one = fake.alive.one();
            match agent.as_str() {
                "fails" => Ending::failed(Cause::Failed, Some(Code::NoOutput), prompt),
                "refuses" => Failure::new(Cause::Failed, None, prompt).before_start().into(),
                "panics" => panic!("planned: {prompt}"),
                _ => fake.scripted.run(spec, context).await,
            }
        })
    }
}
