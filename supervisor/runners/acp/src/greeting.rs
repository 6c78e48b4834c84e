//! Whether an agent is there and answers, for people who ask before they launch.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fanin_protocol::{AgentSpec, Rights};

use crate::agents::{Agent, Way};
use crate::ending;
use crate::program::{Patience, Program};
use crate::talk::greet;
use crate::wire::Wire;

/// What became of a greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeting {
    /// It answered; with its own name and version, where it gives any.
    Answered(String),
    /// It is a command, and is not asked.
    NotAsked,
    /// It is not there, or cannot be started.
    Missing(String),
    /// It was started and gave no answer that counts.
    Mute(String),
}

/// Starts an agent, asks who it is, and ends it. It takes this long and a second at the most.
///
/// # Cancel safety
///
/// Dropping the future kills the agent's processes at once.
pub async fn greet_agent(agent: &Agent, shim: Option<&Path>, limit: Duration) -> Greeting {
    let spec = AgentSpec::new("", "");
    let started = agent.started(&spec, Rights::ReadOnly, std::env::vars_os());
    if agent.way == Way::Command {
        return Greeting::NotAsked;
    }
    let never = std::future::pending;
    let (mut program, pipes, _) = match Program::start(&started, shim, "greeting:0", never()).await {
        Ok(started) => started,
        Err((error, _)) => return Greeting::Missing(error.message),
    };
    let wire = Arc::new(Wire::default());
    let greeted = {
        let greet = greet(pipes, &wire, limit);
        program.while_talking(greet, never()).await
    };
    let gone = program.end(Patience::Done, never()).await;
    match greeted {
        Some(Ok(who)) => Greeting::Answered(who),
        Some(Err(trouble)) => Greeting::Mute(ending::words(&trouble, wire.fault(), &gone)),
        None => Greeting::Mute(ending::words(&crate::talk::Trouble::Gone, wire.fault(), &gone)),
    }
}
