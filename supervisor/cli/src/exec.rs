//! `fanin exec`: hosts an agent as the parent of jobs. It has our tools, launches, and ends its turn; once all that it has
//! launched is over it is woken with one prompt. The program stays until nothing is to come, and its output is the last
//! message of the closing turn.

mod door;
mod host;
mod kept;
mod parent;
mod report;
mod warden;
mod words;

use std::env;
use std::path::{self, PathBuf};
use std::time::Duration;

use fanin_acp::Way;
use fanin_protocol::limits::{
    AGENT_DEPTH_MAX, DEPTH_MAX, ID_BYTES_MAX, ID_PREFIX_DIGITS_MIN, KNOWN_RUNS_SHOWN_MAX,
};
use fanin_protocol::spec::millis;
use fanin_protocol::{AgentSpec, ParentMark, Record, Rights, SessionId, text};
use fanin_supervisor::journal::JournalError;
use fanin_supervisor::stored::{Stored, StoredRecord};

use crate::config::Config;
use crate::duration;
use crate::exit::Exit;
use crate::keep;
use crate::nested;
use crate::plan::{FailOn, Refused};
use crate::prepare;

pub(crate) use door::{copy_both, through};
pub(crate) use host::run;
pub(crate) use kept::{OBJECTIVE, is_exec};

use kept::{Answer, Folder, Objective};

/// The words of `fanin exec`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExecArgs {
    /// What the agent shall do: its first prompt, as it is
    #[arg(value_name = "OBJECTIVE")]
    objective: String,

    /// The agent: opencode, claude, codex, or one of fanin.toml that speaks ACP
    #[arg(short, long, value_name = "NAME")]
    agent: String,

    /// What it may do at the most, and all that it launches: read-only, edit or full
    /// [default: what it is configured with]
    #[arg(long, value_name = "RIGHTS", value_parser = rights)]
    rights: Option<Rights>,

    /// Folder that it works in
    #[arg(short = 'C', long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    /// How long all of it may take: 30s, 5m, 2h. Then its turn and all jobs are stopped
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse_limit)]
    timeout: Option<Duration>,

    /// How often it may be woken at the most: a chain of turns that nobody looks at ends there [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    wakes: Option<u32>,

    /// What makes exit code 1 beside a closing turn that failed: `partial`, any job that did not complete
    /// [default: the agent judges its jobs]
    #[arg(long, value_name = "WHEN", value_parser = fail_on)]
    fail_on: Option<FailOn>,

    /// No progress on standard error, only the result
    #[arg(short, long)]
    quiet: bool,

    /// The result as one JSON document (fanin.exec/1) on standard output
    #[arg(long)]
    pub(crate) json: bool,

    /// Keep the records and results in memory alone: after a crash nothing of them is left
    #[arg(long)]
    no_store: bool,

    /// After a first Ctrl-C: how long what runs may go on [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    drain: Option<Duration>,
}

fn rights(name: &str) -> Result<Rights, String> {
    Rights::parse(name).ok_or_else(|| "write read-only, edit or full".to_owned())
}

fn fail_on(when: &str) -> Result<FailOn, String> {
    (when == "partial").then_some(FailOn::Partial).ok_or_else(|| "write partial".to_owned())
}

/// A parent that may begin.
#[derive(Debug)]
pub(crate) struct Prepared {
    objective: Objective,
    shown: ShownAs,
    /// What is configured where it works; agents have no more rights than the parent has.
    config: Config,
    /// How often it may be woken, where that was said; one that goes on keeps what it has.
    wakes: Option<u32>,
    rights: Rights,
    may_launch: bool,
    /// The job that this is nested in.
    parent: Option<ParentMark>,
    /// The state folder; `None` for memory alone.
    state: Option<PathBuf>,
    /// What is there of one that was interrupted.
    earlier: Option<Earlier>,
}

/// How it is shown, and how patient it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownAs {
    pub(crate) is_quiet: bool,
    pub(crate) is_json: bool,
    pub(crate) drain: Duration,
}

/// What a parent that was interrupted has left.
#[derive(Debug)]
struct Earlier {
    folder: Folder,
    /// The agent's session, where it had one: before that it was asked nothing.
    agent_session: Option<String>,
    /// What it said, where its last turn came to its end.
    answer: Option<Answer>,
    /// How long ago it began.
    spent_ms: u64,
    /// It has launched groups whose jobs have mail.
    has_mail: bool,
}

impl Prepared {
    pub(crate) const fn is_json(&self) -> bool {
        self.shown.is_json
    }
}

/// Prepares to host an agent. Nothing is made and nothing is started.
///
/// # Errors
///
/// [`Refused`] with what is wrong.
pub(crate) fn prepare(args: ExecArgs, config: &Config) -> Result<Prepared, Refused> {
    if args.objective.trim().is_empty() {
        return Err(Refused::one("exec: the objective is empty; write what the agent shall do"));
    }
    let state = match (args.no_store, config.settings.state()) {
        (true, _) => None,
        (false, Ok(state)) => Some(state),
        (false, Err(error)) => {
            return Err(Refused::one(format!("exec: {error}; --no-store does without one")));
        }
    };
    let cwd = args.cwd.unwrap_or_default();
    let cwd = env::current_dir().and_then(|here| path::absolute(here.join(cwd)));
    let cwd = cwd.map_err(|error| Refused::one(format!("exec: the working folder is not known: {error}")))?;
    let session = SessionId::from_uuid(uuid::Uuid::new_v4().into_bytes());
    let mut objective = Objective::new(session, args.agent, args.objective, cwd);
    (objective.rights, objective.timeout_ms) = (args.rights, args.timeout.map(millis));
    objective.fail_on = args.fail_on;
    let shown = ShownAs {
        is_quiet: args.quiet,
        is_json: args.json,
        drain: args.drain.unwrap_or(config.settings.drain()),
    };
    Ok(Prepared { wakes: args.wakes, ..with(objective, shown, state, None)? })
}

/// Prepares to go on with one that was interrupted.
///
/// # Errors
///
/// [`Refused`].
pub(crate) fn resume(
    state: PathBuf,
    folder: PathBuf,
    stored: &Stored,
    shown: ShownAs,
) -> Result<Prepared, Refused> {
    let unread = |error: &dyn std::fmt::Display| Refused {
        exit: Exit::Internal,
        ..Refused::one(format!("resume: {} cannot be read: {error}", text::path(&folder)))
    };
    let (agent_session, has_mail) = recorded(stored).map_err(|error| unread(&error))?;
    let kept = Folder::new(folder.clone());
    let answer = kept.answered().map_err(|error| unread(&error))?;
    let objective = kept.objective().map_err(|error| unread(&error))?;
    let objective = objective.ok_or_else(|| unread(&"its objective is gone"))?;
    // A clock that was set back makes no limit longer than it is.
    let spent_ms = prepare::now_ms().max(stored.last_ms()).saturating_sub(objective.began_ms);
    let earlier = Earlier { folder: kept, agent_session, answer, spent_ms, has_mail };
    with(objective, shown, Some(state), Some(earlier))
}

fn with(
    objective: Objective,
    shown: ShownAs,
    state: Option<PathBuf>,
    earlier: Option<Earlier>,
) -> Result<Prepared, Refused> {
    let parent = nested::parent_of_tasks(DEPTH_MAX)?;
    // Its configuration is that of where it works, and so is what it launches.
    env::set_current_dir(&objective.cwd).map_err(|error| {
        Refused::one(format!("exec: {} cannot be entered: {error}", text::path(&objective.cwd)))
    })?;
    let mut config = Config::resolve()?;
    let agents = &config.agents;
    let spec = spec(&objective);
    let agent = agents.check(&spec).and_then(|()| agents.find(&spec.agent));
    let way = agent.map_err(|why| Refused::one(format!("--agent: {why}")))?.way;
    if way == Way::Command {
        let problem =
            format!("--agent: `{}` is a command; only an agent that speaks ACP can be a parent", spec.agent);
        return Err(Refused::one(problem));
    }
    let rights = agents.rights_of(&spec);
    let may_launch = parent.as_ref().is_none_or(|parent| !parent.is_at_limit(AGENT_DEPTH_MAX));
    config.agents = config.agents.at_most(rights);
    Ok(Prepared { objective, shown, wakes: None, config, rights, may_launch, parent, state, earlier })
}

/// The agent as it is started, without a prompt.
fn spec(objective: &Objective) -> AgentSpec {
    let spec = AgentSpec::new(objective.agent.as_str(), "").cwd(&objective.cwd);
    match objective.rights {
        Some(rights) => spec.rights(rights),
        None => spec,
    }
}

/// Where the agent's session is found: what the last turn that had it in hand has recorded. And whether a group of it has mail.
fn recorded(stored: &Stored) -> Result<(Option<String>, bool), JournalError> {
    let (mut records, mut found, mut has_mail) = (stored.records(), None, false);
    loop {
        let page = records.page()?;
        if page.is_empty() {
            return Ok((found, has_mail));
        }
        for record in page {
            let StoredRecord::Known(entry) = record else { continue };
            match entry.record {
                Record::RunBound(bound) if entry.about.job.is_none() => {
                    found = bound.external_session.or(found);
                }
                Record::GroupSealed(sealed) => has_mail |= sealed.edges.is_some(),
                _ => {}
            }
        }
    }
}

/// The folder of the one hosted parent that `name` is the id of, or the start of its id.
///
/// # Errors
///
/// [`Refused`] where that is said of several.
pub(crate) fn find(state: &std::path::Path, name: &str) -> Result<Option<PathBuf>, Refused> {
    let digits = name.strip_prefix("ses_").unwrap_or(name);
    if digits.len() < ID_PREFIX_DIGITS_MIN {
        return Ok(None);
    }
    let folders = keep::folders(state).map_err(|error| Refused::one(format!("resume: {error}")))?;
    let start = format!("ses_{digits}");
    let begins = |folder: &PathBuf| {
        folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&start))
    };
    let found: Vec<_> = folders.into_iter().filter(|folder| begins(folder) && is_exec(folder)).collect();
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        several => {
            let shown = text::cut(&text::one_line(name), ID_BYTES_MAX).to_owned();
            let ids = several.iter().filter_map(|folder| folder.file_name()?.to_str());
            let ids: Vec<_> = ids.take(KNOWN_RUNS_SHOWN_MAX).collect();
            let (count, ids) = (several.len(), ids.join(", "));
            let problem = format!("resume: `{shown}` is the start of {count} ids: {ids}; write more of it");
            Err(Refused::one(problem))
        }
    }
}
