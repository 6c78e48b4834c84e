//! An agent that does as its name says. It talks to no model and starts no process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use fanin_supervisor::protocol::{Cause, Code, JobKind, Spec};
use fanin_supervisor::{Bound, Ending, RunContext, RunFuture, Runner};

use super::{Alive, Gate, OnDrop};

/// A runner for agent jobs. Clones are the same runner.
#[derive(Debug, Clone, Default)]
pub struct FakeAgent {
    /// Runs that were started.
    started: Arc<AtomicUsize>,
    /// Runs that are alive.
    pub alive: Alive,
    /// Opened by a test to let the agents named `gated` go on.
    pub gate: Gate,
}

/// The agents there are.
const NAMES: [&str; 9] =
    ["talks", "silent", "empty", "tool", "fails", "gated", "panics", "panics_at_start", "panics_in_drop"];

impl FakeAgent {
    /// A runner that has run nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs that were started so far.
    pub fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }
}

impl Runner for FakeAgent {
    fn kind(&self) -> JobKind {
        JobKind::Agent
    }

    fn check(&self, spec: &Spec) -> Result<(), String> {
        let Spec::Agent(agent) = spec else { return Err("not a prompt for an agent".into()) };
        if NAMES.contains(&agent.agent.as_str()) {
            Ok(())
        } else {
            Err(format!("no agent `{}`; there are {}", agent.agent, NAMES.join(", ")))
        }
    }

    fn run(&self, spec: Arc<Spec>, context: RunContext) -> RunFuture {
        self.started.fetch_add(1, Ordering::SeqCst);
        let Spec::Agent(agent) = spec.as_ref() else { panic!("planned: not an agent") };
        assert!(agent.agent != "panics_at_start", "planned: {}", agent.prompt);
        let (runner, agent) = (self.clone(), agent.clone());
        if agent.agent == "panics_in_drop" {
            // Kept until the future is dropped, which is after it was ready.
            let mut last = OnDrop::new(move || panic!("planned: {}", agent.prompt));
            return Box::pin(std::future::poll_fn(move |_| {
                let _last = &mut last;
                Poll::Ready(Ending::completed("done".into()))
            }));
        }
        Box::pin(async move {
            let _one = runner.alive.one();
            context.bound(Bound { external_session: Some("s1".into()), ..Bound::default() });
            match agent.agent.as_str() {
                "talks" => Ending::completed(agent.prompt.into()),
                "empty" => Ending::completed("".into()),
                "tool" => {
                    context.tool("call_1", "read").complete();
                    Ending::completed(().into())
                }
                "fails" => Ending::failed(Cause::Failed, Some(Code::NoOutput), agent.prompt),
                "gated" => {
                    tokio::select! {
                        () = runner.gate.passed() => Ending::completed(agent.prompt.into()),
                        () = context.cancelled() => Ending::failed(Cause::Failed, None, "stopped"),
                    }
                }
                "panics" => panic!("planned: {}", agent.prompt),
                _ => Ending::completed(().into()),
            }
        })
    }
}
