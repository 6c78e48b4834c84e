//! One task of an agent from the start of its program to the end of all that it started. It ends no earlier, and waits
//! for nothing without a limit but the answer to its prompt, which the limits of the job bound.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fanin_protocol::{AgentSpec, Cause, CommandSpec, Rights};
use fanin_supervisor::{Ending, Failure, RunContext, StopStage};

use crate::agents::Agent;
use crate::ending;
use crate::hosted::ToolServer;
use crate::life::Life;
use crate::listener::Listener;
use crate::program::{Patience, Program};
use crate::talk::{Place, Question, Talked, Trouble, talk};
use crate::wire::Wire;

/// Runs one task of an agent. `started` is its program with what it is given, `tools` are for it, and `limit` that of each step
/// before its prompt.
///
/// # Cancel safety
///
/// Dropping the future kills the agent's processes at once.
pub(crate) async fn run(
    (agent, spec): (&Agent, &AgentSpec),
    started: &CommandSpec,
    (rights, tools): (Rights, Vec<ToolServer>),
    (shim, limit): (Option<&Path>, Duration),
    context: RunContext,
) -> Ending {
    if context.stage() != StopStage::None {
        return Ending::failed(Cause::Failed, None, "stopped before it was started");
    }
    let cwd = match folder(spec) {
        Ok(cwd) => cwd,
        Err(failure) => return failure.into(),
    };
    let start = Program::start(started, shim, &context.mark(), context.forced()).await;
    let (mut program, pipes, bound) = match start {
        Ok(started) => started,
        Err((error, left)) => {
            let failure = Failure::new(Cause::Spawn, Some(error.code), error.message);
            let failure = if error.is_safe { failure.before_start() } else { failure };
            return Ending { left, ..failure.into() };
        }
    };
    let wire = Arc::new(Wire::default());
    let listener = Listener::new(Life::Run(context.clone()), rights, spec.output_bytes_max);
    let listener = Arc::new(listener.with_tools(tools.iter().flat_map(ToolServer::names).collect()));
    let servers = tools.into_iter().map(ToolServer::served).collect();
    let (meta, modes) = (agent.session_meta.clone(), agent.modes.get(&rights).cloned().unwrap_or_default());
    let place = Place { cwd, servers, meta, modes, limit, bound };
    let question = Question { place, prompt: spec.prompt.clone() };
    let talked = {
        let talk = talk(pipes, &wire, Arc::clone(&listener), question);
        program.while_talking(talk, context.forced()).await
    };
    let talked = talked.or_else(|| {
        let is_forced = context.stage() == StopStage::Forced;
        is_forced.then_some(Talked::Broken(Trouble::Forced))
    });
    let is_done = matches!(talked, Some(Talked::Answered { was_cancelled: false, .. }));
    let patience = if is_done || !context.is_cancelled() { Patience::Done } else { Patience::Stopped };
    let gone = program.end(patience, context.forced()).await;
    let was_prompted = listener.is_following();
    ending::of(talked, wire.fault(), was_prompted, gone, listener.finish())
}

/// The folder of the session: a whole path, as the protocol wants it.
pub(crate) fn folder(spec: &AgentSpec) -> Result<PathBuf, Failure> {
    let folder = spec.cwd.as_deref().unwrap_or(Path::new(""));
    let here = std::env::current_dir().map(|here| here.join(folder));
    here.map_err(|error| {
        let why = format!("our own working folder is not known: {error}");
        Failure::new(Cause::Spawn, Some(fanin_protocol::Code::BadFolder), why)
    })
}
