//! What shall be run, put together from the command line and a manifest. It checks all that can be checked without
//! starting anything, and starts nothing.

pub(crate) mod what;

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::{self, Path, PathBuf};

use fanin_protocol::limits::{GROUP_MEMBERS_MAX, ID_BYTES_MAX, LABEL_BYTES_MAX};
use fanin_protocol::spec::{SpecError, millis};
use fanin_protocol::{
    AgentSpec, CommandLine, CommandSpec, Edges, GroupId, IdError, JobId, JobKind, JobLimits,
    OnFailedDependency, PlanProblem, Policy, ResultEntry, Spec, Tie, text,
};
use serde::{Deserialize, Serialize};

use crate::again;
use crate::args::{Flags, Inline, RunArgs};
use crate::budget;
use crate::config::Config;
use crate::each;
use crate::exit::Exit;
use crate::keep::Earlier;
use crate::manifest::{self, reader};
use crate::mask::Mask;
use what::What;

/// What counts as failure of the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailOn {
    /// Any task that did not complete.
    Partial,
    /// Only that no task completed.
    NoneOk,
}

impl FailOn {
    /// Either of them by its name, as flags, manifests and variables have it.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "partial" => Some(Self::Partial),
            "none-ok" | "none_ok" => Some(Self::NoneOk),
            _ => None,
        }
    }
}

/// One task, ready to be launched. A plan that is kept has it in this form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The id that somebody gave it.
    pub(crate) id: Option<String>,
    /// Its name for people.
    pub(crate) label: String,
    /// What is run.
    pub(crate) spec: Spec,
    /// Its own limits of time.
    pub(crate) limits: JobLimits,
    /// The places of those that it needs, among all tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) depends: Vec<u32>,
    /// What becomes of it where one of them does not complete.
    #[serde(default)]
    pub(crate) on_failed_dependency: OnFailedDependency,
    /// The places of those to whom it sends mail, among all tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sends: Vec<u32>,
    /// It completed in an earlier run and is not run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) carried: Option<Box<Carried>>,
}

/// A task's end in an earlier run, as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Carried {
    /// The run in which it completed.
    pub(crate) from: GroupId,
    /// Its entry in that run's result.
    pub(crate) entry: ResultEntry,
}

/// All tasks in launch order, at least one: those to be run, and those that completed in an earlier run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// What it is about, in the words of a manifest.
    pub(crate) description: Option<String>,
    /// The tasks.
    pub(crate) tasks: Vec<Task>,
    /// How many run at the same time.
    pub(crate) concurrency: usize,
    /// When the rest is stopped.
    pub(crate) policy: Policy,
    /// What counts as failure, where somebody said so.
    pub(crate) fail_on: Option<FailOn>,
    /// The run that this one runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) again_of: Option<GroupId>,
}

impl Plan {
    /// True where tasks that are to be run can send each other mail: some need others, or declare it.
    pub(crate) fn has_mail(&self) -> bool {
        self.left().any(|task| !task.depends.is_empty() || !task.sends.is_empty())
    }

    /// The tasks that are to be run, in launch order.
    pub(crate) fn left(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| task.carried.is_none())
    }
}

/// Why nothing can be run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// One line for each problem found.
    pub(crate) problems: Vec<String>,
    /// Each line begins with its place in a manifest.
    pub(crate) has_places: bool,
    /// The way out, where it is known and no part of the problems.
    pub(crate) hint: Option<String>,
    /// How the program ends.
    pub(crate) exit: Exit,
}

impl Refused {
    /// Several problems.
    pub(crate) fn all(problems: Vec<String>) -> Self {
        Self { problems, has_places: false, hint: None, exit: Exit::Usage }
    }

    /// One problem.
    pub(crate) fn one(problem: impl Into<String>) -> Self {
        Self::all(vec![problem.into()])
    }

    fn with_hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..self }
    }

    /// What people read.
    pub(crate) fn lines(&self) -> Vec<String> {
        if self.has_places {
            // Each has its way out beside it.
            return self.problems.clone();
        }
        let lines = self.problems.iter().map(|problem| format!("error: {problem}"));
        lines.chain(self.hint.iter().map(|hint| format!("hint: {hint}"))).collect()
    }
}

/// One task as somebody wrote it, before what holds for all tasks is added.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) id: Option<String>,
    pub(crate) label: String,
    pub(crate) what: What,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) limits: JobLimits,
    pub(crate) output_bytes_max: Option<u64>,
}

impl Draft {
    fn shell(label: &str, line: &str) -> Self {
        Self {
            id: None,
            label: label.to_owned(),
            what: What::Line(CommandLine::Shell(line.to_owned())),
            cwd: None,
            env: BTreeMap::new(),
            limits: JobLimits::NONE,
            output_bytes_max: None,
        }
    }
}

/// What a manifest says for all its tasks.
#[derive(Debug, Default)]
pub(crate) struct Common {
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) env: BTreeMap<String, String>,
    /// Limits of tasks that set none.
    pub(crate) limits: JobLimits,
}

impl Common {
    /// The task of a draft. A flag wins over the task, the task over the manifest; only `--cwd` gives way to a
    /// task's own folder, which is part of what the task is.
    ///
    /// # Errors
    ///
    /// [`SpecError`] where the task as a whole cannot be launched.
    pub(crate) fn task(&self, draft: Draft, flags: &Flags) -> Result<Task, SpecError> {
        let mut env = self.env.clone();
        env.extend(draft.env);
        env.extend(flags.variables());
        let cwd = draft.cwd.or_else(|| flags.cwd.clone()).or_else(|| self.cwd.clone());
        let output_bytes_max = draft.output_bytes_max;
        let spec: Spec = match draft.what {
            What::Line(line) => CommandSpec { line, cwd, env, output_bytes_max }.into(),
            What::Agent { agent, prompt, rights } => {
                AgentSpec { agent, prompt, cwd, env, rights, output_bytes_max }.into()
            }
        };
        let flag = JobLimits { run_ms: flags.timeout.map(millis), ..JobLimits::NONE };
        spec.check()?;
        draft.limits.check()?;
        let mut common = self.limits;
        if spec.kind() == JobKind::Command {
            // It tells no cost, and none is expected of it.
            common.estimate_usd_micros = None;
        }
        let own = draft.limits.or(common);
        own.check()?;
        let limits = flag.or(own);
        limits.check()?;
        Ok(Task {
            id: draft.id,
            label: draft.label,
            spec,
            limits,
            depends: Vec::new(),
            on_failed_dependency: OnFailedDependency::Skip,
            sends: Vec::new(),
            carried: None,
        })
    }
}

/// Puts the plan together. `stdin` is read only for `--each`; `earlier` is the run of `--again`.
///
/// # Errors
///
/// [`Refused`] with all problems that were found.
pub(crate) fn plan(
    args: &RunArgs,
    inline: &[Inline],
    earlier: Option<Earlier>,
    config: &Config,
    stdin: impl Read,
) -> Result<Plan, Refused> {
    let flags = &args.flags;
    if let Some(cwd) = flags.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Err(Refused::one(format!("--cwd: {} is no folder", text::path(cwd))));
    }
    let mut plan = match earlier {
        Some(earlier) => again::plan(earlier, flags)?,
        None => configured(of_words(args, inline, config, stdin)?, config),
    };
    with_budget(&mut plan, flags)?;
    if let Some(concurrency) = flags.concurrency {
        plan.concurrency = concurrency;
    }
    if let Some(fail_on) = flags.fail_on {
        plan.fail_on = Some(fail_on);
    }
    if flags.fail_fast {
        plan.policy = Policy { at_ms: plan.policy.at_ms, budget: plan.policy.budget, ..Policy::FAIL_FAST };
    }
    match (plan.policy.at_ms, flags.timeout.map(millis)) {
        (Some(deadline), Some(timeout)) if timeout > deadline => Err(Refused::one(format!(
            "--timeout: {timeout} ms can never pass, since the manifest's `deadline` of {deadline} ms comes first"
        ))),
        _ => Ok(plan),
    }
}

/// A new plan with what is configured for what it does not say. A budget that would bind none of its tasks is for others.
fn configured(mut plan: Plan, config: &Config) -> Plan {
    let settings = &config.settings;
    plan.fail_on = plan.fail_on.or(settings.fail_on());
    let budget = budget::over(plan.policy.budget, settings.budget());
    if budget::problem(budget, plan.left().map(|task| task.spec.kind())).is_none() {
        plan.policy.budget = budget;
    }
    plan
}

/// A plan with the budget of a flag.
fn with_budget(plan: &mut Plan, flags: &Flags) -> Result<(), Refused> {
    let Some(JobLimits { budget, estimate_usd_micros, .. }) = flags.budget else { return Ok(()) };
    plan.policy.budget = budget::over(budget, plan.policy.budget);
    if let Some(problem) = budget::problem(plan.policy.budget, plan.left().map(|task| task.spec.kind())) {
        return Err(Refused::one(format!("--budget: {problem}")));
    }
    let is_agent = |task: &&mut Task| task.carried.is_none() && task.spec.kind() == JobKind::Agent;
    for task in plan.tasks.iter_mut().filter(is_agent) {
        task.limits.estimate_usd_micros = estimate_usd_micros.or(task.limits.estimate_usd_micros);
    }
    Ok(())
}

/// The plan of a run that is new.
fn of_words(args: &RunArgs, inline: &[Inline], config: &Config, stdin: impl Read) -> Result<Plan, Refused> {
    let flags = &args.flags;
    let common = Common { limits: config.settings.limits(), ..Common::default() };
    let of_tasks = |tasks| of_tasks(tasks, config.settings.concurrency());
    match (&args.file, &args.each, inline) {
        (Some(file), _, _) => manifest::read(file, flags, config),
        (None, Some(template), _) => Ok(of_tasks(each_line(template, (&common, flags), stdin)?)),
        (None, None, [Inline::Line(file)]) if file.ends_with(".toml") => {
            manifest::read(file.as_ref(), flags, config)
        }
        (None, None, []) => {
            Err(Refused::one("nothing to run: give shell lines, --task, --each, --again or a manifest")
                .with_hint("`fanin run --help` has examples"))
        }
        (None, None, inline) => {
            refuse_manifest_among(inline)?;
            Ok(of_tasks(inline_tasks(inline, (&common, flags))?))
        }
    }
}

/// A manifest beside other tasks would be run as a shell line.
fn refuse_manifest_among(inline: &[Inline]) -> Result<(), Refused> {
    let lines = inline.iter().filter_map(|inline| match inline {
        Inline::Line(line) => Some(line),
        Inline::Task(_) => None,
    });
    let is_manifest = |line: &&String| line.ends_with(".toml") && Path::new(line).is_file();
    match lines.into_iter().find(is_manifest) {
        None => Ok(()),
        Some(file) => {
            Err(Refused::one(format!("{file}: a manifest stands alone, without other tasks beside it"))
                .with_hint("run it by itself, or put the other tasks into it"))
        }
    }
}

fn of_tasks(tasks: Vec<Task>, concurrency: usize) -> Plan {
    Plan { description: None, tasks, concurrency, policy: Policy::ALL, fail_on: None, again_of: None }
}

fn each_line(
    template: &str,
    (common, flags): (&Common, &Flags),
    stdin: impl Read,
) -> Result<Vec<Task>, Refused> {
    let refused = |error: each::EachError| Refused::one(error.to_string());
    let shell = each::shell_line(template).map_err(refused)?;
    let lines = each::lines(stdin).map_err(refused)?;
    let tasks = lines.into_iter().enumerate().map(|(n, line)| {
        let draft = Draft::shell(&label(&line, n), &shell);
        let mut task = common.task(draft, flags)?;
        if let Spec::Command(command) = &mut task.spec {
            command.env.insert(each::LINE_VARIABLE.to_owned(), line);
        }
        task.spec.check()?;
        Ok(task)
    });
    tasks.collect::<Result<_, SpecError>>().map_err(|error| Refused::one(format!("--each: {error}")))
}

fn inline_tasks(inline: &[Inline], (common, flags): (&Common, &Flags)) -> Result<Vec<Task>, Refused> {
    let mut problems = Vec::new();
    let mut names = Vec::new();
    let mut tasks = Vec::new();
    if inline.len() > GROUP_MEMBERS_MAX {
        return Err(Refused::one(format!("{} tasks; at most {GROUP_MEMBERS_MAX} are allowed", inline.len())));
    }
    for (n, task) in inline.iter().enumerate() {
        let (name, line) = match task {
            Inline::Line(line) => (None, line.as_str()),
            Inline::Task(task) => match task.split_once('=') {
                Some((name, line)) => (Some(name), line),
                None => {
                    problems.push(format!("--task: `{task}` has no name; write --task NAME='COMMAND'"));
                    (None, task.as_str())
                }
            },
        };
        names.push(name);
        let label = name.map_or_else(|| label(line, n), ToOwned::to_owned);
        let draft = Draft { id: name.map(ToOwned::to_owned), ..Draft::shell(&label, line) };
        match common.task(draft, flags) {
            Ok(task) => tasks.push(task),
            Err(SpecError { problem, .. }) => problems.push(format!("task {}: {problem}", n + 1)),
        }
    }
    problems.extend(id_problems(&names, "name").into_iter().map(|(_, problem)| format!("--task: {problem}")));
    if problems.is_empty() { Ok(tasks) } else { Err(Refused::all(problems)) }
}

/// A label for a task that nobody named: its text on one line, without secrets that are known.
pub(crate) fn label(text: &str, n: usize) -> String {
    match text::cut(&text::one_line(&Mask::known().hide(text)), LABEL_BYTES_MAX) {
        "" => generated_id(n),
        label => label.to_owned(),
    }
}

/// What is wrong with a label that somebody gave.
pub(crate) fn label_problem(label: &str) -> Option<String> {
    let is_fine = !label.trim().is_empty() && label.len() <= LABEL_BYTES_MAX;
    (!is_fine).then(|| format!("must have 1 to {LABEL_BYTES_MAX} bytes; this has {}", label.len()))
}

/// The folder that somebody named, from `base` where it is relative. Whether it exists is found out when the task starts.
///
/// # Errors
///
/// What is wrong with the name.
pub(crate) fn folder(text: &str, base: &Path) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err("must be the path of a folder".to_owned());
    }
    path::absolute(base.join(text)).map_err(|error| error.to_string())
}

/// The id of the task at place `n` (from 0) that has none of its own.
pub(crate) fn generated_id(n: usize) -> String {
    format!("task_{}", n + 1)
}

/// What ties the tasks of a group, by their places.
#[derive(Debug, Default)]
pub(crate) struct Ties {
    /// What each needs.
    pub(crate) depends: Vec<Vec<u32>>,
    /// To whom each sends mail.
    pub(crate) sends: Vec<Vec<u32>>,
    /// All that is wrong: the place of the task (from 0), its key, and what.
    pub(crate) problems: Vec<(usize, &'static str, String)>,
}

/// What the tasks of a group need, and to whom they send mail, by the names that somebody wrote. A task without an id is
/// called by its generated one.
pub(crate) fn ties(ids: &[Option<&str>], needs: &[Vec<String>], sends: &[Vec<String>]) -> Ties {
    let name = |n: usize| ids.get(n).copied().flatten().map_or_else(|| generated_id(n), ToOwned::to_owned);
    let names: Vec<String> = (0..ids.len()).map(name).collect();
    let mut places = HashMap::new();
    for (place, name) in (0..).zip(&names) {
        // One that is there twice has its own problem.
        places.entry(name.as_str()).or_insert(place);
    }
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut problems = Vec::new();
    let mut find = |key: &'static str, named: &[Vec<String>]| -> Vec<Vec<u32>> {
        let mut place = |n: usize, wanted: &str| {
            let found = places.get(wanted).copied();
            if found.is_none() {
                problems.push((n, key, unknown_task(wanted, &known)));
            }
            found
        };
        let all = named.iter().enumerate();
        all.map(|(n, named)| named.iter().filter_map(|wanted| place(n, wanted)).collect()).collect()
    };
    let (depends, sends) = (find("depends", needs), find("sends", sends));
    let edges = Edges::new(depends.iter().map(|on| (on.clone(), OnFailedDependency::Skip)));
    let edges = edges.sending((0..).zip(sends.iter().cloned()));
    for problem in edges.problems(ids.len()) {
        let called = |place: u32| usize::try_from(place).map_or_else(|_| String::new(), name);
        let (at, key) = whose(&problem, &sends);
        problems.push((at, key, problem.describe(called)));
    }
    Ties { depends, sends, problems }
}

/// The task that has what is wrong, and its key: of a circle with mail the first that sends any.
fn whose(problem: &PlanProblem, sends: &[Vec<u32>]) -> (usize, &'static str) {
    let at = |place: Option<u32>| place.and_then(|place| usize::try_from(place).ok()).unwrap_or(0);
    match problem {
        PlanProblem::Cycle { path, tie: Tie::Mail } => {
            let does_send = |place: &u32| sends.get(at(Some(*place))).is_some_and(|to| !to.is_empty());
            (at(path.iter().copied().find(does_send)), "sends")
        }
        PlanProblem::Itself { member, tie: Tie::Mail }
        | PlanProblem::NoMember { member, tie: Tie::Mail, .. } => (at(Some(*member)), "sends"),
        PlanProblem::Itself { tie: Tie::Needs, .. }
        | PlanProblem::NoMember { tie: Tie::Needs, .. }
        | PlanProblem::Cycle { tie: Tie::Needs, .. }
        | PlanProblem::TooMany { .. } => (at(problem.member()), "depends"),
    }
}

fn unknown_task(needed: &str, known: &[&str]) -> String {
    let needed = text::one_line(needed);
    // Of very short names each is near to any other.
    match reader::nearest(&needed, known).filter(|_| needed.len() > 2) {
        Some(near) => format!("there is no task `{needed}`; did you mean `{near}`?"),
        None if known.len() <= NAMES_SHOWN => {
            format!("there is no task `{needed}`; the tasks are {}", known.join(", "))
        }
        None => format!("there is no task `{needed}`"),
    }
}

/// What may become of a task, as people are told.
pub(crate) const ON_FAILED: &str = "\"skip\", \"run\" or \"fail_team\"";

/// Names of tasks that a problem lists: more are no help.
const NAMES_SHOWN: usize = 10;

/// What is wrong with the ids of a group's tasks, by the place of the task (from 0): a bad one, one that is there
/// twice, and one that clashes with a generated one. `noun` is what an id is called where it was written.
pub(crate) fn id_problems(given: &[Option<&str>], noun: &str) -> Vec<(usize, String)> {
    let generated = given.iter().enumerate().filter(|(_, id)| id.is_none());
    let mut taken: HashMap<String, usize> = generated.map(|(n, _)| (generated_id(n), n)).collect();
    let mut problems = Vec::new();
    for (n, id) in given.iter().enumerate().filter_map(|(n, id)| Some((n, (*id)?))) {
        if let Err(error) = JobId::parse(id) {
            problems.push((n, id_problem(&error, noun)));
        } else if let Some(other) = taken.get(id) {
            let who = match given.get(*other) {
                Some(Some(_)) => format!("task {} has the {noun} `{id}` already", other + 1),
                Some(None) | None => {
                    format!("`{id}` is what task {} is called, which has no {noun}", other + 1)
                }
            };
            problems.push((n, format!("{who}; choose another")));
        } else {
            taken.insert(id.to_owned(), n);
        }
    }
    problems
}

fn id_problem(error: &IdError, noun: &str) -> String {
    match error {
        IdError::Empty => {
            format!("the {noun} is empty; use 1 to {ID_BYTES_MAX} characters of A-Z a-z 0-9 _ -")
        }
        IdError::TooLong { id, len } => {
            format!("the {noun} `{id}...` has {len} characters; at most {ID_BYTES_MAX} are allowed")
        }
        IdError::Character { id, found } => {
            format!("the {noun} `{id}` holds {found:?}; use only A-Z a-z 0-9 _ -")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse;
    use fanin_protocol::limits::RUN_SLOTS;
    use std::ffi::OsString;

    fn planned(words: &[&str], stdin: &str) -> Result<Plan, Refused> {
        let (args, inline) =
            parse(["fanin", "run"].iter().chain(words).map(OsString::from)).unwrap().asked.run();
        plan(&args, &inline, None, &Config::default(), stdin.as_bytes())
    }

    fn labels(plan: &Plan) -> Vec<&str> {
        plan.tasks.iter().map(|task| task.label.as_str()).collect()
    }

    fn command(task: &Task) -> &CommandSpec {
        let Spec::Command(command) = &task.spec else { panic!("{task:?}") };
        command
    }

    #[test]
    fn lines_are_called_by_their_text_and_tasks_by_their_name() {
        let plan = planned(&["cargo  check\n--all", "--task", "x=a=b"], "").unwrap();
        assert_eq!(labels(&plan), ["cargo check --all", "x"]);
        assert_eq!(command(&plan.tasks[1]).line, CommandLine::Shell("a=b".into()));
        assert_eq!((plan.concurrency, plan.policy, plan.fail_on), (RUN_SLOTS, Policy::ALL, None));
    }

    #[test]
    fn a_long_line_gives_a_label_of_whole_characters() {
        let plan = planned(&[&"é".repeat(300)], "").unwrap();
        assert_eq!(plan.tasks[0].label, "é".repeat(100));
    }

    #[test]
    fn each_line_is_a_task_with_the_line_in_its_environment() {
        let plan = planned(&["--each", "wc -l {}", "--env", "A=1"], "a b\n\n$(x)\n").unwrap();
        assert_eq!(labels(&plan), ["a b", "$(x)"]);
        let second = command(&plan.tasks[1]);
        assert_eq!(second.line, CommandLine::Shell("wc -l \"${FANIN_LINE}\"".into()));
        assert_eq!(
            second.env,
            [("A", "1"), ("FANIN_LINE", "$(x)")].map(|(k, v)| (k.into(), v.into())).into()
        );
    }

    #[test]
    fn all_problems_of_the_command_line_are_told_together() {
        let refused =
            planned(&["", "--task", "nameless", "--task", "a b=x", "--task", "c=x", "--task", "c="], "");
        expect_test::expect![[r#"
            task 1: the command line is empty
            --task: `nameless` has no name; write --task NAME='COMMAND'
            task 5: the command line is empty
            --task: the name `a b` holds ' '; use only A-Z a-z 0-9 _ -
            --task: task 4 has the name `c` already; choose another"#]]
        .assert_eq(&refused.unwrap_err().problems.join("\n"));
    }

    #[test]
    fn a_name_must_not_be_that_of_a_task_without_one() {
        let refused = planned(&["true", "--task", "task_1=true", "--task", "task_3=true"], "").unwrap_err();
        assert_eq!(
            refused.problems,
            ["--task: `task_1` is what task 1 is called, which has no name; choose another"]
        );
    }

    #[test]
    fn nothing_to_run_is_a_problem() {
        assert!(planned(&[], "").unwrap_err().problems[0].starts_with("nothing to run"));
        assert!(planned(&["--each", "x"], "\n").unwrap_err().problems[0].contains("no line"));
    }

    #[test]
    fn a_folder_that_is_none_is_refused() {
        assert_eq!(
            planned(&["true", "--cwd", "no/such"], "").unwrap_err().problems,
            ["--cwd: no/such is no folder"]
        );
    }

    #[test]
    fn a_manifest_stands_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m.toml");
        std::fs::write(&file, "").unwrap();
        let file = file.to_str().unwrap();
        for words in [&["true", file][..], &[file, "true"], &[file, "--task", "x=true"]] {
            let refused = planned(words, "").unwrap_err();
            assert!(refused.problems[0].contains("m.toml: a manifest stands alone"), "{refused:?}");
        }
        // What is no file may be a command.
        assert!(planned(&["./no-such.toml", "true"], "").is_ok());
    }

    #[test]
    fn a_single_word_that_ends_in_toml_is_never_run() {
        assert!(planned(&["no/such.toml"], "").unwrap_err().problems[0].starts_with("no/such.toml: "));
        assert!(planned(&["cat x.toml", "cat y.toml"], "").is_ok());
        assert!(planned(&["--task", "show=cat x.toml"], "").is_ok());
    }
}
