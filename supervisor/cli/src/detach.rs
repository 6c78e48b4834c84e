//! `fanin run --detach`: the plan of a run, launched by the service of the state folder. It says how to go on, and waits for
//! nothing.

use std::env;
use std::io;
use std::path;

use fanin_client::{After, LaunchCall, Launched, NewJob, OpenSession};
use fanin_protocol::{Bounds, GroupId, JobFilter, SessionId, Spec, Watched};

use crate::args::{Inline, RunArgs};
use crate::config::Config;
use crate::nested;
use crate::plan::{self, FailOn, Plan, Refused};
use crate::reach::{Reach, ReachError};

/// How the sessions begin that are made here, each for one run: a result in one of them waits for `fanin wait`.
const SESSION: &str = "run-";

/// A launch that may be made.
#[derive(Debug)]
pub(crate) struct Prepared {
    reach: Reach,
    launch: LaunchCall,
    session: SessionId,
    concurrency: u32,
    fail_on: Option<FailOn>,
    pub(crate) is_json: bool,
}

/// What was launched, in words or as a document.
#[derive(Debug)]
pub(crate) struct Told {
    /// For standard output.
    pub(crate) text: Vec<u8>,
    /// What is odd about it.
    pub(crate) warning: Option<String>,
}

/// Puts the launch together. Nothing is asked yet.
///
/// # Errors
///
/// [`Refused`] with all problems that were found; also inside of a job, which the tasks would outlive.
pub(crate) fn prepare(
    args: &RunArgs,
    inline: &[Inline],
    config: &Config,
    stdin: impl io::Read,
) -> Result<Prepared, Refused> {
    if let Some(parent) = nested::parent()? {
        let job = parent.job;
        return Err(Refused::one(format!(
            "--detach: this is inside job {job}, which the tasks would outlive; leave it out"
        )));
    }
    let key = args.key.as_deref().map(key).transpose()?;
    let plan = plan::plan(args, inline, None, config, stdin)?;
    let reach = Reach::of(&config.settings.state()).map_err(|error| Refused::one(error.to_string()))?;
    let here = env::current_dir().and_then(path::absolute);
    let here =
        here.map_err(|error| Refused::one(format!("--detach: where this is is not known: {error}")))?;
    let session = match &key {
        Some(key) => key.session.clone(),
        None => SessionId::parse(&format!("{SESSION}{}", uuid::Uuid::new_v4().simple()))
            .map_err(|error| Refused::one(error.to_string()))?,
    };
    let group = key.map_or_else(|| GroupId::from_uuid(uuid::Uuid::new_v4().into_bytes()), |key| key.group);
    let Plan { tasks, concurrency, policy, fail_on, .. } = plan;
    let jobs = tasks.into_iter().map(|task| NewJob {
        limits: task.limits,
        after: task.depends.into_iter().map(After::Place).collect(),
        on_failed_dependency: task.on_failed_dependency,
        sends: task.sends.into_iter().map(After::Place).collect(),
        ..NewJob::new(task.label, placed(task.spec, &here))
    });
    let launch = LaunchCall {
        session: Some(session.clone()),
        group: Some(group),
        policy,
        jobs: jobs.collect(),
        ..LaunchCall::default()
    };
    Ok(Prepared {
        reach,
        launch,
        session,
        concurrency: u32::try_from(concurrency).unwrap_or(u32::MAX),
        fail_on,
        is_json: args.json,
    })
}

/// The name of a launch, as somebody gave it: that of its group.
struct Key {
    group: GroupId,
    session: SessionId,
}

fn key(key: &str) -> Result<Key, Refused> {
    let refused = |error: fanin_protocol::IdError| Refused::one(format!("--key: {error}"));
    let group = GroupId::parse(key).map_err(refused)?;
    let session = SessionId::parse(&format!("{SESSION}{key}")).map_err(refused)?;
    Ok(Key { group, session })
}

/// True for a session that was made here.
pub(crate) fn is_ours(session: &SessionId) -> bool {
    session.to_string().starts_with(SESSION)
}

/// True for a group whose id somebody chose, and may launch again.
pub(crate) fn has_key(group: &GroupId) -> bool {
    !group.to_string().starts_with("grp_")
}

/// What a task is in a service, which was started elsewhere: it runs where this program is, unless it says otherwise.
fn placed(mut spec: Spec, here: &path::Path) -> Spec {
    let cwd = match &mut spec {
        Spec::Command(command) => &mut command.cwd,
        Spec::Agent(agent) => &mut agent.cwd,
        Spec::Watch(watch) => match &mut watch.of {
            Watched::Checks { command, .. } | Watched::Lines { command } => &mut command.cwd,
            Watched::Output { .. } => return spec,
        },
    };
    *cwd = Some(cwd.take().map_or_else(|| here.to_owned(), |cwd| here.join(cwd)));
    spec
}

/// Launches.
///
/// # Errors
///
/// [`ReachError`]. With `connection_lost` it is not known whether it was launched; with a key it can be asked again.
pub(crate) async fn run(prepared: Prepared) -> Result<Told, ReachError> {
    let Prepared { reach, launch, session, concurrency, fail_on, is_json } = prepared;
    let client = reach.connect().await?;
    let bounds = Bounds { slots: Some(concurrency), ..Bounds::default() };
    let open = OpenSession { session: Some(session), profile: None, bounds: Some(bounds) };
    client.open_session(open).await.map_err(ReachError::Client)?;
    let launched = client.launch(launch).await.map_err(ReachError::Client)?;
    let warning = odd(&launched);
    let mut text = Vec::new();
    if is_json {
        let filter = JobFilter { group: Some(launched.group.clone()), ..JobFilter::default() };
        let jobs = all(&client, filter).await?;
        crate::ps::document(&mut text, &jobs)?;
    } else {
        write(&mut text, &launched, fail_on).map_err(ReachError::Write)?;
    }
    Ok(Told { text, warning })
}

/// What is not as it was asked for.
fn odd(launched: &Launched) -> Option<String> {
    let group = &launched.group;
    launched.spec_differs.then(|| {
        format!("{group} was launched before, with other tasks than these; they run as they were then")
    })
}

/// All jobs of a filter, page by page.
///
/// # Errors
///
/// [`ReachError::Client`].
pub(crate) async fn all(
    client: &fanin_client::Client,
    mut filter: JobFilter,
) -> Result<Vec<fanin_protocol::JobInfo>, ReachError> {
    let mut jobs = Vec::new();
    loop {
        let page = client.list(filter.clone()).await.map_err(ReachError::Client)?;
        jobs.extend(page.jobs);
        filter.from = page.next;
        if filter.from.is_none() {
            return Ok(jobs);
        }
    }
}

fn write(out: &mut impl io::Write, launched: &Launched, fail_on: Option<FailOn>) -> io::Result<()> {
    let (group, tasks) = (&launched.group, launched.jobs.len());
    let tasks = if tasks == 1 { "1 task".to_owned() } else { format!("{tasks} tasks") };
    let was = if launched.created { "" } else { ", launched before" };
    writeln!(out, "run {group}: {tasks}{was}")?;
    let fail_on = match fail_on {
        None => "",
        Some(FailOn::Partial) => " --fail-on partial",
        Some(FailOn::NoneOk) => " --fail-on none-ok",
    };
    writeln!(out, "fanin wait {group}{fail_on}")?;
    writeln!(out, "fanin show {group}")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use fanin_protocol::CommandSpec;

    #[test]
    fn a_task_runs_where_the_program_was_started_unless_it_says_otherwise() {
        let cwd = |cwd: Option<&str>| {
            let spec = CommandSpec { cwd: cwd.map(PathBuf::from), ..CommandSpec::shell("true") };
            match placed(spec.into(), path::Path::new("/here")) {
                Spec::Command(command) => command.cwd.unwrap(),
                other @ (Spec::Agent(_) | Spec::Watch(_)) => panic!("{other:?}"),
            }
        };
        assert_eq!(cwd(None), PathBuf::from("/here"));
        assert_eq!(cwd(Some("/there")), PathBuf::from("/there"));
        assert_eq!(cwd(Some("below")), PathBuf::from("/here/below"));
    }

    #[test]
    fn the_name_of_a_launch_is_that_of_its_group() {
        let key = key("nightly").unwrap_or_else(|refused| panic!("{refused:?}"));
        assert_eq!((key.group.to_string().as_str(), is_ours(&key.session)), ("nightly", true));
        assert!(super::key("a b").is_err_and(|refused| refused.problems[0].contains("--key")));
        assert!(!is_ours(&SessionId::parse("ses_1").unwrap()));
    }
}
