//! All that is done before the first task starts: the words are read, the tasks are put together, and the plan is kept.
//! Whatever is refused is refused here; nothing is started.

use std::env;
use std::io;
use std::path::{self, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fanin_acp::Agents;
use fanin_protocol::limits::DEPTH_MAX;
use fanin_protocol::{GroupId, JobInfo, LayoutError, ParentMark, text};

use crate::args::{Inline, RunArgs};
use crate::config::{self, Config};
use crate::file;
use crate::keep::{Earlier, Keep};
use crate::nested;
use crate::on_done;
use crate::plan::{self, Plan, Refused};
use crate::warning::Warning;

/// A run that may start.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) args: RunArgs,
    pub(crate) plan: Plan,
    /// The agents that there are, where a task is for one.
    pub(crate) agents: Option<Agents>,
    /// The group of its tasks.
    pub(crate) group: GroupId,
    /// Where the result is kept.
    pub(crate) keep: Option<Keep>,
    /// The job that this run is nested in.
    pub(crate) parent: Option<ParentMark>,
    /// After a first signal: how long running tasks may go on.
    pub(crate) drain: Duration,
    /// Log lines tell what is asked and put out as well.
    pub(crate) log_content: bool,
    /// Its jobs as a supervisor that died had left them; none of a run that begins.
    pub(crate) before: Vec<JobInfo>,
    /// What did not work and does not matter to the tasks.
    pub(crate) warnings: Vec<Warning>,
}

/// Prepares a run.
///
/// # Errors
///
/// [`Refused`] with all problems that were found.
pub(crate) fn prepare(
    args: RunArgs,
    inline: &[Inline],
    config: &Config,
    stdin: impl io::Read,
) -> Result<Prepared, Refused> {
    let parent = nested::parent_of_tasks(DEPTH_MAX)?;
    let state = config.settings.state();
    let earlier = args.again.as_deref().map(|name| earlier(&state, name)).transpose()?;
    let plan = plan::plan(&args, inline, earlier, config, stdin)?;
    let agents = config::agents_of(&plan, config)?;
    if let Some(path) = &args.junit {
        file::check(path).map_err(|error| {
            Refused::one(format!("--junit: {} cannot be written: {error}", text::path(path)))
        })?;
    }
    if let Some(line) = &args.on_done {
        on_done::check(line).map_err(|error| Refused::one(format!("--on-done: {}", error.problem)))?;
    }
    let mut warnings = Vec::new();
    let is_work = plan.left().next().is_some();
    let group = match &plan.again_of {
        // Nothing is run: what is shown is that run's result.
        Some(earlier) if !is_work => earlier.clone(),
        Some(_) | None => GroupId::from_uuid(uuid::Uuid::new_v4().into_bytes()),
    };
    let keep = match state {
        _ if args.no_keep || !is_work => None,
        Ok(state) => keep(&state, &group, &plan)
            .map_err(|error| warnings.push(Warning::Keep { folder: state, error }))
            .ok(),
        Err(error) => {
            warnings.push(Warning::NoState(error));
            None
        }
    };
    let drain = args.drain.unwrap_or(config.settings.drain());
    let log_content = config.settings.log().has_content;
    let before = Vec::new();
    Ok(Prepared { args, plan, agents, group, keep, parent, drain, log_content, before, warnings })
}

fn earlier(state: &Result<PathBuf, LayoutError>, name: &str) -> Result<Earlier, Refused> {
    let state = state.as_ref().map_err(|error| Refused::one(format!("--again: {error}")))?;
    Earlier::find(state, name).map_err(|error| {
        let exit = error.exit();
        Refused { exit, ..Refused::one(error.to_string()) }
    })
}

fn keep(state: &Path, group: &GroupId, plan: &Plan) -> io::Result<Keep> {
    let started_in = path::absolute(env::current_dir()?)?;
    Keep::begin(state, group, plan, &started_in, now_ms())
}

/// The time, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    // A clock before 1970 gives a wrong time and does no other harm.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
