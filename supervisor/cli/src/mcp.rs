//! `fanin mcp`: serves one agent on standard input and output. It makes jobs of tasks as a manifest's are made, and keeps
//! them in a store of the session's own, which is there from the first launch on and not before.

use std::env;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use fanin_mcp::{Amounts, End, Host, Made, Problem, ServeError, StartFailed, Task, WatchTask};
use fanin_protocol::limits::{AGENT_DEPTH_MAX, AGENT_PROMPT_BYTES_MAX, OUTPUT_BYTES_MAX_MAX, RETRIES_MAX};
use fanin_protocol::spec::millis;
use fanin_protocol::{
    Budget, CommandLine, JobId, JobLimits, LayoutError, OnFailedDependency, Profile, Rights, SessionId, Spec,
};
use fanin_sqlite::{Options, SqliteJournal};
use fanin_supervisor::{JobSpec, StartError, Supervisor};

use crate::args::Flags;
use crate::budget;
use crate::config::Config;
use crate::drive::{self, DriveError};
use crate::duration;
use crate::exit::Exit;
use crate::keep;
use crate::lookout::Wanted;
use crate::nested;
use crate::plan::what::{What, Written};
use crate::plan::{self, Common, Draft, Refused};
use crate::signals::{Signal, Signals};
use crate::stderr::Stderr;
use crate::team::Mails;
use crate::warning::Warning;

/// The words of `fanin mcp`.
#[derive(Debug, clap::Args)]
pub(crate) struct McpArgs {
    /// Keep the jobs' records and outputs in memory alone: nothing of them is left afterwards
    #[arg(long)]
    no_store: bool,

    /// Serve nobody: go through the door of a `fanin exec`, which serves
    #[arg(long, value_name = "PATH", hide = true)]
    pub(crate) door: Option<PathBuf>,

    /// The door is that of the mail of a job
    #[arg(long, requires = "door", hide = true)]
    pub(crate) member: bool,
}

/// A server that may begin.
#[derive(Debug)]
pub(crate) struct Served {
    session: SessionId,
    /// Where stores are; `None` for memory.
    state: Option<Result<PathBuf, LayoutError>>,
    may_launch: bool,
    /// What is configured, or what is wrong with that: read by the first launch, and never again.
    config: OnceLock<Result<Config, Refused>>,
    /// What there is of a parent that we host.
    hosted: Option<Hosted>,
    /// The mail of the jobs.
    mail: Mutex<Mails>,
}

/// A parent that we host.
#[derive(Debug)]
struct Hosted {
    supervisor: Supervisor,
    /// What it may do, and so what it may launch.
    rights: Rights,
}

impl Served {
    /// What serves a parent that we host: with its supervisor, and under its rights.
    pub(crate) fn hosted(
        (session, supervisor, rights): (SessionId, Supervisor, Rights),
        config: Config,
        may_launch: bool,
        mail: Mails,
    ) -> Self {
        let (hosted, mail) = (Some(Hosted { supervisor, rights }), Mutex::new(mail));
        Self { session, state: None, may_launch, config: OnceLock::from(Ok(config)), hosted, mail }
    }

    fn mail(&self) -> MutexGuard<'_, Mails> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn config(&self) -> Result<&Config, &Refused> {
        self.config.get_or_init(Config::resolve).as_ref()
    }
}

/// Looks where it is. Nothing is made and nothing is locked.
///
/// # Errors
///
/// [`Refused`] where the mark of a job around it is damaged.
pub(crate) fn prepare(
    args: &McpArgs,
    state: Result<PathBuf, LayoutError>,
    stderr: &Stderr,
) -> Result<Served, Refused> {
    let parent = nested::parent()?;
    let theirs = stderr.clone();
    Ok(Served {
        session: SessionId::from_uuid(uuid::Uuid::new_v4().into_bytes()),
        state: (!args.no_store).then_some(state),
        may_launch: parent.is_none_or(|parent| !parent.is_at_limit(AGENT_DEPTH_MAX)),
        config: OnceLock::new(),
        hosted: None,
        mail: Mutex::new(Mails::new(move |why| Warning::Door(why).tell(&theirs, false))),
    })
}

/// Serves until the client is gone or a signal comes.
///
/// # Errors
///
/// [`ServeError`] where whoever is there does not speak MCP.
pub(crate) async fn serve(served: Served, mut signals: Signals, stderr: &Stderr) -> Result<Exit, ServeError> {
    if io::stdin().is_terminal() {
        stderr.say("fanin: an agent speaks MCP here, on standard input and output; docs/mcp.md says how it is set up");
    }
    let came = Arc::new(Mutex::new(None));
    let told = {
        let came = Arc::clone(&came);
        async move {
            let signal = signals.next().await;
            came.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(signal);
        }
    };
    let goodbye = fanin_mcp::serve(served, (tokio::io::stdin(), tokio::io::stdout()), told).await?;
    let signal: Option<Signal> = *came.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(match (goodbye.unreaped, goodbye.end, signal) {
        (true, ..) => Exit::Unreaped,
        (false, End::Told, Some(signal)) => Exit::Signal(signal),
        (false, End::Told | End::ClientGone, _) => Exit::Done,
    })
}

impl Host for Served {
    fn jobs(&self, tasks: Vec<Task>, budget: Option<Amounts>) -> Result<Made, Vec<Problem>> {
        let here = |key: &str, what: String| Problem { index: None, key: key.to_owned(), what };
        // Without it nobody knows what jobs may use.
        let unread = |refused: &Refused| vec![here("configuration", refused.lines().join("\n"))];
        let config = self.config().map_err(unread)?;
        let base = env::current_dir().map_err(|error| vec![here("cwd", error.to_string())])?;
        let ids: Vec<_> = tasks.iter().map(|task| task.id.as_deref()).collect();
        let id_problem = |(index, what)| Problem { index: Some(index), key: "id".to_owned(), what };
        let mut problems: Vec<_> = plan::id_problems(&ids, "id").into_iter().map(id_problem).collect();
        let mut jobs = Vec::with_capacity(tasks.len());
        let needs: Vec<_> = tasks.iter().map(|task| task.depends.clone()).collect();
        let sends: Vec<_> = tasks.iter().map(|task| task.sends.clone()).collect();
        let plan::Ties { depends: mut needs, mut sends, problems: wrong } = plan::ties(&ids, &needs, &sends);
        let problem = |(index, key, what): (usize, &str, String)| Problem {
            index: Some(index),
            key: key.to_owned(),
            what,
        };
        problems.extend(wrong.into_iter().map(problem));
        let whole =
            budget.as_ref().map(|budget| amounts(budget, |key, what| problems.push(here(&key, what))));
        let whole = whole.unwrap_or_default();
        let own = JobLimits { estimate_usd_micros: whole.estimate_usd_micros, ..JobLimits::NONE };
        let common = Common { limits: own.or(config.settings.limits()), ..Common::default() };
        let mut kinds = Vec::new();
        for (index, task) in tasks.into_iter().enumerate() {
            let mut found = Found { index: Some(index), problems: Vec::new() };
            let on_failed_dependency = found.on_failed(&task);
            let depends = needs.get_mut(index).map(std::mem::take).unwrap_or_default();
            let sends = sends.get_mut(index).map(std::mem::take).unwrap_or_default();
            let made = found.draft(task, &base).and_then(|draft| {
                let task = common.task(draft, &Flags::default());
                let task = task.map_err(|error| found.wrong(error.field, error.problem)).ok()?;
                let task = plan::Task { depends, on_failed_dependency, sends, ..task };
                let may = found.look_for_agent(&task.spec, config)
                    && found.look_for_rights(&task.spec, self.hosted.as_ref().map(|hosted| hosted.rights));
                if let Some(problem) = budget::problem(task.limits.budget, std::iter::once(task.spec.kind()))
                {
                    found.wrong("budget", problem);
                }
                kinds.push(task.spec.kind());
                may.then_some(task)
            });
            jobs.extend(made.map(|task| drive::job(task, index)));
            problems.append(&mut found.problems);
        }
        if let Some(problem) =
            budget::problem(whole.budget, kinds.into_iter()).filter(|_| problems.is_empty())
        {
            problems.push(here("budget", problem.to_owned()));
        }
        if problems.is_empty() { Ok(Made { jobs, budget: whole.budget }) } else { Err(problems) }
    }

    fn watch(&self, watch: WatchTask, job: Option<JobId>) -> Result<JobSpec, Vec<Problem>> {
        let here = |key: &str, what: String| Problem { index: None, key: key.to_owned(), what };
        let base = env::current_dir().map_err(|error| vec![here("cwd", error.to_string())])?;
        let mut found = Found { index: None, problems: Vec::new() };
        let wanted = found.watch(watch, job, &base);
        if !found.problems.is_empty() {
            return Err(found.problems);
        }
        let (spec, job) = wanted.watch().map_err(|error| vec![here(error.field, error.problem)])?;
        if spec.command().is_some() {
            found.look_for_rights(&Spec::Watch(spec), self.hosted.as_ref().map(|hosted| hosted.rights));
        }
        if found.problems.is_empty() { Ok(job) } else { Err(found.problems) }
    }

    async fn start(&self) -> Result<Supervisor, StartFailed> {
        if let Some(hosted) = &self.hosted {
            return Ok(hosted.supervisor.clone());
        }
        // Where they cannot be read, no task for one has come this far.
        let config = self.config().ok();
        let agents = config.map(|config| config.agents.clone());
        let mail = drive::mail_tools().map_err(|error| without_mail(&error))?;
        let mut builder = drive::runners(agents, Some(mail)).profile(Profile::Agent);
        if let Some(config) = config {
            builder = builder.log_content(config.settings.log().has_content);
        }
        let Some(state) = &self.state else { return builder.start().await.map_err(|error| failed(&error)) };
        let no_state = |what: String| StartFailed {
            code: "no_state_folder",
            message: format!("{what}; the server can be started as `fanin mcp --no-store`"),
        };
        let state = state.as_ref().map_err(|error| no_state(error.to_string()))?;
        let folder = keep::session(state, &self.session)
            .map_err(|error| no_state(format!("{} cannot be used: {error}", state.display())))?;
        let started = match SqliteJournal::open(&folder, &Options::default()) {
            Ok(store) => {
                self.mail().lie_in(Some(&folder));
                builder = builder.journal(store);
                builder.start().await
            }
            Err(error) => Err(StartError::Store(error)),
        };
        started.map_err(|error| {
            // The next launch makes it again. The first error is told.
            let _ = std::fs::remove_dir_all(&folder);
            failed(&error)
        })
    }

    fn launching(&self, supervisor: &Supervisor, jobs: &[JobSpec]) -> Result<(), StartFailed> {
        if !jobs.iter().any(JobSpec::is_tied) {
            return Ok(());
        }
        self.mail().open(supervisor).map_err(|error| without_mail(&DriveError::Mail(error)))
    }

    fn session(&self) -> SessionId {
        self.session.clone()
    }

    fn session_budget(&self) -> Budget {
        // Without a configuration nothing is launched.
        self.config().map_or(Budget::NONE, |config| config.settings.budget())
    }

    fn may_launch(&self) -> bool {
        self.may_launch
    }

    fn is_woken(&self) -> bool {
        self.hosted.is_some()
    }
}

fn without_mail(error: &DriveError) -> StartFailed {
    StartFailed { code: error.code(), message: error.to_string() }
}

fn failed(error: &StartError) -> StartFailed {
    StartFailed { code: error.code(), message: error.to_string() }
}

/// A budget of a call or a task, as limits that have nothing else; `wrong` takes what is wrong with it.
fn amounts(budget: &Amounts, mut wrong: impl FnMut(String, String)) -> JobLimits {
    if *budget == Amounts::default() {
        wrong(
            "budget".to_owned(),
            "is empty; write { \"usd\": 1.5 }, or one of tokens, steps, time".to_owned(),
        );
        return JobLimits::NONE;
    }
    let read = budget::of_words(|key| budget.at(key));
    let told = |problems: Vec<(&str, String)>| {
        problems.into_iter().for_each(|(key, problem)| wrong(format!("budget.{key}"), problem));
    };
    read.map_err(told).unwrap_or_default()
}

/// What is wrong with one task.
struct Found {
    index: Option<usize>,
    problems: Vec<Problem>,
}

impl Found {
    fn wrong(&mut self, key: &str, what: impl ToString) {
        self.problems.push(Problem { index: self.index, key: key.to_owned(), what: what.to_string() });
    }

    /// The task before what holds for all tasks is added; `None` where it names nothing to run.
    fn draft(&mut self, mut task: Task, base: &Path) -> Option<Draft> {
        if let Some(problem) = task.label.as_deref().and_then(plan::label_problem) {
            self.wrong("label", problem);
        }
        let limits = self.limits(&task);
        let cwd = task
            .cwd
            .take()
            .and_then(|cwd| plan::folder(&cwd, base).map_err(|problem| self.wrong("cwd", problem)).ok());
        let output_bytes_max = task.output_bytes_max;
        if output_bytes_max.is_some_and(|bytes| !(1..=OUTPUT_BYTES_MAX_MAX).contains(&bytes)) {
            self.wrong("output_bytes_max", format!("must be from 1 to {OUTPUT_BYTES_MAX_MAX}"));
        }
        let what = What::of(&mut Entry { task: &mut task, found: self })?;
        let label = task.label.or_else(|| task.id.clone());
        let label = label.unwrap_or_else(|| plan::label(&what.text(), self.index.unwrap_or_default()));
        Some(Draft { id: task.id, label, what, cwd, env: task.env, limits, output_bytes_max })
    }

    /// What a call wants to be told of.
    fn watch(&mut self, watch: WatchTask, job: Option<JobId>, base: &Path) -> Wanted {
        if let Some(problem) = watch.label.as_deref().and_then(plan::label_problem) {
            self.wrong("label", problem);
        }
        let cwd = watch
            .cwd
            .and_then(|cwd| plan::folder(&cwd, base).map_err(|problem| self.wrong("cwd", problem)).ok());
        if watch.shell.is_some() && watch.command.is_some() {
            self.wrong("command", "`shell` is there as well; keep one of the two");
        }
        let mut time = |key: &str, text: Option<String>| {
            let parsed = duration::parse_limit(text.as_deref()?);
            parsed.map_err(|error| self.wrong(key, error)).ok()
        };
        Wanted {
            label: watch.label,
            line: watch.shell.map(CommandLine::Shell).or(watch.command.map(CommandLine::Argv)),
            job,
            cwd,
            env: watch.env,
            pattern: watch.pattern,
            changes: watch.changes,
            every: time("every", watch.every),
            check_timeout: time("check_timeout", watch.check_timeout),
            gap: time("gap", watch.gap),
            times: watch.times.map(|times| u32::try_from(times).unwrap_or(u32::MAX)),
            life: time("life", watch.life),
        }
    }

    /// What becomes of the task where one that it needs does not complete.
    fn on_failed(&mut self, task: &Task) -> OnFailedDependency {
        const KEY: &str = "on_failed_dependency";
        let Some(word) = task.on_failed_dependency.as_deref() else { return OnFailedDependency::Skip };
        if task.depends.is_empty() {
            self.wrong(KEY, "it is for a task with `depends`");
        }
        OnFailedDependency::parse(word).unwrap_or_else(|| {
            self.wrong(KEY, format!("use {}", plan::ON_FAILED));
            OnFailedDependency::Skip
        })
    }

    /// True where the task is for no agent, or for one that there is and that can be given its prompt.
    fn look_for_agent(&mut self, spec: &Spec, config: &Config) -> bool {
        let Spec::Agent(spec) = spec else { return true };
        config.agents.check(spec).map_err(|why| self.wrong("agent", why)).is_ok()
    }

    /// True where a parent with these rights may have such a task: a command can do all that its user can.
    fn look_for_rights(&mut self, spec: &Spec, rights: Option<Rights>) -> bool {
        match (spec, rights) {
            (Spec::Command(_) | Spec::Watch(_), Some(rights)) if rights < Rights::Full => {
                let what = format!(
                    "a command needs the rights `full`, and you have `{rights}`: give the work to an agent"
                );
                self.wrong("", what);
                false
            }
            (Spec::Command(_) | Spec::Agent(_) | Spec::Watch(_), _) => true,
        }
    }

    fn limits(&mut self, task: &Task) -> JobLimits {
        let mut time = |key: &str, text: &Option<String>| {
            let parsed = duration::parse_limit(text.as_deref()?);
            parsed.map(millis).map_err(|error| self.wrong(key, error)).ok()
        };
        let limits = JobLimits {
            run_ms: time("timeout", &task.timeout),
            idle_ms: time("idle", &task.idle),
            queue_ms: time("queue_timeout", &task.queue_timeout),
            start_ms: time("start_timeout", &task.start_timeout),
            total_ms: time("total_timeout", &task.total_timeout),
            ..JobLimits::NONE
        };
        let retries = task.retries.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        if retries.is_some_and(|n| n > RETRIES_MAX) {
            self.wrong("retries", format!("must be from 0 to {RETRIES_MAX}"));
        }
        let budget = task.budget.as_ref().map(|budget| amounts(budget, |key, what| self.wrong(&key, what)));
        let JobLimits { budget, estimate_usd_micros, .. } = budget.unwrap_or_default();
        JobLimits { retries, budget, estimate_usd_micros, ..limits }
    }
}

/// A task of a call.
struct Entry<'e> {
    task: &'e mut Task,
    found: &'e mut Found,
}

impl Written for Entry<'_> {
    const EXAMPLE: &'static str = "\"shell\": \"cargo check\"";
    const PROMPT_BYTES_MAX: usize = AGENT_PROMPT_BYTES_MAX;

    fn has(&self, key: &str) -> bool {
        let Task { command, shell, agent, prompt, rights, .. } = &*self.task;
        match key {
            "command" => command.is_some(),
            "shell" => shell.is_some(),
            "agent" => agent.is_some(),
            "prompt" => prompt.is_some(),
            "rights" => rights.is_some(),
            _ => false,
        }
    }

    fn text(&mut self, key: &str) -> Option<String> {
        let Task { shell, agent, prompt, rights, .. } = &mut *self.task;
        match key {
            "shell" => shell.take(),
            "agent" => agent.take(),
            "prompt" => prompt.take(),
            "rights" => rights.take(),
            _ => None,
        }
    }

    fn texts(&mut self, _: &str) -> Option<Vec<String>> {
        self.task.command.take()
    }

    fn wrong(&mut self, key: &str, problem: String) {
        self.found.wrong(key, problem);
    }

    fn wrong_as_a_whole(&mut self, problem: String) {
        self.found.wrong("", problem);
    }
}
