//! Manifests: which keys there are and what they mean. It reads one file and nothing else, and tells all that is wrong
//! with it at once.

pub(crate) mod reader;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fanin_protocol::limits::{
    GROUP_MEMBERS_MAX, INPUT_BYTES_MAX, OUTPUT_BYTES_MAX_MAX, PROMPT_BYTES_MAX, RETRIES_MAX,
};
use fanin_protocol::spec::millis;
use fanin_protocol::{CommandLine, JobLimits, OnFailedDependency, Policy, Resume, text};
use toml::de::DeTable;

use crate::args::Flags;
use crate::budget;
use crate::config::Config;
use crate::plan::what::{What, Written};
use crate::plan::{self, Common, Draft, FailOn, Plan, Refused, Task};
use reader::{Field, Problems, Section};

const TOP_KEYS: [&str; 10] = [
    "description",
    "concurrency",
    "release",
    "deadline",
    "fail_on",
    "cwd",
    "env",
    "limits",
    "budget",
    "task",
];
const TASK_KEYS: [&str; 21] = [
    "id",
    "label",
    "command",
    "shell",
    "agent",
    "prompt",
    "rights",
    "cwd",
    "env",
    "timeout",
    "idle",
    "queue_timeout",
    "start_timeout",
    "total_timeout",
    "retries",
    "resume",
    "output_bytes_max",
    "depends",
    "on_failed_dependency",
    "sends",
    "budget",
];
const LIMIT_KEYS: [&str; 7] =
    ["timeout", "idle", "queue_timeout", "start_timeout", "total_timeout", "retries", "resume"];

/// Reads the manifest at `path` and adds what the flags say for each task, and what is configured where nothing is said.
///
/// # Errors
///
/// [`Refused`] with every problem that was found, each with its file, line and column.
pub(crate) fn read(path: &Path, flags: &Flags, config: &Config) -> Result<Plan, Refused> {
    let file = text::path(path);
    let text = load(path).map_err(|error| Refused::one(format!("{file}: cannot be read: {error}")))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut problems = Problems::new(&file, &text);
    let plan = parse(&text, folder, (flags, config), &mut problems);
    plan.filter(|_| problems.is_empty()).ok_or_else(|| problems.into())
}

/// The text of a file, within bounds.
pub(crate) fn load(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(INPUT_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > INPUT_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {INPUT_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// The plan of a manifest's text; it is of use only where no problem was added.
fn parse(
    text: &str,
    folder: &Path,
    (flags, config): (&Flags, &Config),
    problems: &mut Problems<'_>,
) -> Option<Plan> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // What follows from broken syntax would be noise.
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            problems.add(at, "syntax", error.message().trim_end());
        }
        return None;
    }
    let top = Section::new(document.get_ref(), 0, "");
    top.refuse_unknown(&TOP_KEYS, &[(&TASK_KEYS, "into a [[task]]")], problems);
    let sections = top.field("task").map(|field| field.sections(problems)).unwrap_or_default();
    match sections.len() {
        1..=GROUP_MEMBERS_MAX => {}
        // A `task` of another type has its own problem.
        0 if !problems.is_empty() => {}
        0 => problems.add(
            0,
            "task",
            "the manifest has no task; add a [[task]] with a `shell`, a `command` or an `agent`",
        ),
        n => problems.add(top.place("task"), "task", format!("{n}; at most {GROUP_MEMBERS_MAX} are allowed")),
    }
    let deadline = top.field("deadline").and_then(|field| field.duration(problems));
    let budget = top.field("budget").map(|field| budget::read(&field, "budget.", problems));
    let budget = budget.unwrap_or_default();
    let limits = top.field("limits").map(|field| common_limits(&field, deadline, problems));
    let limits = JobLimits { estimate_usd_micros: budget.estimate_usd_micros, ..limits.unwrap_or_default() };
    let common = Common {
        limits: limits.or(config.settings.limits()),
        cwd: top.field("cwd").and_then(|field| common_folder(&field, folder, flags, problems)),
        env: top.field("env").map(|field| field.variables(problems)).unwrap_or_default(),
    };
    let tasks = tasks(&sections, folder, (&common, deadline, flags), problems);
    check_agents(&sections, config, problems);
    let policy = policy(&top, deadline, sections.len(), problems).with_budget(budget.budget);
    let kinds = || tasks.iter().map(|task| task.spec.kind());
    if let Some(problem) = budget::problem(budget.budget, kinds()).filter(|_| tasks.len() == sections.len()) {
        problems.add(top.place("budget"), "budget", problem);
    }
    Some(Plan {
        description: top.field("description").and_then(|field| field.string(problems)).map(Into::into),
        tasks,
        concurrency: concurrency(&top, problems).unwrap_or(config.settings.concurrency()),
        policy,
        fail_on: fail_on(&top, problems),
        again_of: None,
    })
}

fn concurrency(top: &Section<'_, '_>, problems: &mut Problems<'_>) -> Option<usize> {
    let given =
        top.field("concurrency").and_then(|field| field.integer(1, GROUP_MEMBERS_MAX as u64, problems));
    given.and_then(|n| usize::try_from(n).ok())
}

fn fail_on(top: &Section<'_, '_>, problems: &mut Problems<'_>) -> Option<FailOn> {
    let field = top.field("fail_on")?;
    let word = field.string(problems)?;
    let found = FailOn::parse(word);
    if found.is_none() {
        field.wrong(format!("`{word}` is not \"partial\" or \"none_ok\""), problems);
    }
    found
}

fn policy(
    top: &Section<'_, '_>,
    deadline: Option<Duration>,
    members: usize,
    problems: &mut Problems<'_>,
) -> Policy {
    let rule = top.field("release").map_or(Policy::ALL, |field| release(&field, members, problems));
    Policy { at_ms: deadline.map(millis), ..rule }
}

fn release(field: &Field<'_, '_>, members: usize, problems: &mut Problems<'_>) -> Policy {
    const FORMS: &str = "\"all\", \"fail_fast\", \"any\", or counts like { ok = 3 } or { not_ok = 2 }";
    match field.as_string() {
        Some("all") => return Policy::ALL,
        Some("fail_fast") => return Policy::FAIL_FAST,
        Some("any") => return Policy::ANY,
        Some(other) => {
            field.wrong(format!("`{other}` is not one of {FORMS}"), problems);
            return Policy::ALL;
        }
        None => {}
    }
    let Some(counts) = field.section("release.", FORMS, problems) else { return Policy::ALL };
    counts.refuse_unknown(&["ok", "not_ok"], &[], problems);
    let mut count = |key| {
        let field = counts.field(key)?;
        let n = field.integer(1, GROUP_MEMBERS_MAX as u64, problems)?;
        // Without any task that is what is wrong.
        if members > 0 && n > members as u64 {
            let tasks = if members == 1 { "1 task".to_owned() } else { format!("{members} tasks") };
            field.wrong(format!("{n} can never be reached by {tasks}"), problems);
        }
        u32::try_from(n).ok()
    };
    let policy = Policy { ok: count("ok"), not_ok: count("not_ok"), ..Policy::ALL };
    if counts.fields().next().is_none() {
        field.wrong(format!("is empty; write {FORMS}"), problems);
    }
    policy
}

fn tasks(
    sections: &[Section<'_, '_>],
    folder: &Path,
    (common, deadline, flags): (&Common, Option<Duration>, &Flags),
    problems: &mut Problems<'_>,
) -> Vec<Task> {
    let mut ids = Vec::with_capacity(sections.len());
    let mut tasks = Vec::with_capacity(sections.len());
    let (mut needs, mut then, mut sends) = (Vec::new(), Vec::new(), Vec::new());
    for (n, section) in sections.iter().enumerate() {
        section.refuse_unknown(&TASK_KEYS, &[(&TOP_KEYS, "to the top, before the first [[task]]")], problems);
        let id = section.field("id").and_then(|field| field.string(problems));
        ids.push(id);
        let mut names =
            |key| section.field(key).and_then(|field| field.strings(problems)).unwrap_or_default();
        needs.push(names("depends"));
        sends.push(names("sends"));
        then.push(on_failed(section, problems));
        let draft = draft(section, n, id, folder, deadline, problems);
        match draft.map(|draft| common.task(draft, flags)) {
            Some(Ok(task)) => {
                if let Some(problem) = budget::problem(task.limits.budget, std::iter::once(task.spec.kind()))
                {
                    problems.add(section.place("budget"), "budget", problem);
                }
                tasks.push(task);
            }
            Some(Err(error)) => problems.add(section.place(error.field), error.field, error.problem),
            None => {}
        }
    }
    for (n, problem) in plan::id_problems(&ids, "id") {
        let at = sections.get(n).map_or(0, |section| section.place("id"));
        problems.add(at, "id", problem);
    }
    let ties = plan::ties(&ids, &needs, &sends);
    for (n, key, problem) in ties.problems {
        let at = sections.get(n).map_or(0, |section| section.place(key));
        problems.add(at, key, problem);
    }
    // Where a task is missing there was a problem, and the places are of no use.
    for (((task, depends), sends), then) in tasks.iter_mut().zip(ties.depends).zip(ties.sends).zip(then) {
        (task.depends, task.sends, task.on_failed_dependency) = (depends, sends, then);
    }
    tasks
}

/// What becomes of a task where one that it needs does not complete.
fn on_failed(section: &Section<'_, '_>, problems: &mut Problems<'_>) -> OnFailedDependency {
    let Some(field) = section.field("on_failed_dependency") else { return OnFailedDependency::Skip };
    if section.field("depends").is_none() {
        field.wrong("it is for a task with `depends`", problems);
    }
    let Some(word) = field.string(problems) else { return OnFailedDependency::Skip };
    OnFailedDependency::parse(word).unwrap_or_else(|| {
        field.wrong(format!("`{word}` is not {}", plan::ON_FAILED), problems);
        OnFailedDependency::Skip
    })
}

/// The task at place `n`; `None` where it names nothing to run.
fn draft(
    section: &Section<'_, '_>,
    n: usize,
    id: Option<&str>,
    folder: &Path,
    deadline: Option<Duration>,
    problems: &mut Problems<'_>,
) -> Option<Draft> {
    let label = section.field("label").and_then(|field| label(&field, problems));
    let draft = Draft {
        id: id.map(ToOwned::to_owned),
        label: label.or(id).map_or_else(|| plan::generated_id(n), ToOwned::to_owned),
        what: What::Line(CommandLine::Shell(String::new())),
        cwd: section.field("cwd").and_then(|field| folder_of(&field, folder, problems)),
        env: section.field("env").map(|field| field.variables(problems)).unwrap_or_default(),
        limits: limits(section, deadline, problems),
        output_bytes_max: section
            .field("output_bytes_max")
            .and_then(|field| field.integer(1, OUTPUT_BYTES_MAX_MAX, problems)),
    };
    let what = What::of(&mut Entry { section, name: plan::generated_id(n), problems })?;
    Some(Draft { what, ..draft })
}

/// Looks for the agents that tasks are for.
fn check_agents(sections: &[Section<'_, '_>], config: &Config, problems: &mut Problems<'_>) {
    for field in sections.iter().filter_map(|section| section.field("agent")) {
        let found = field.as_string().map(|name| config.agents.find(name));
        if let Some(Err(why)) = found {
            field.wrong(why, problems);
        }
    }
}

/// The limits that a task or the manifest as a whole sets.
fn limits(section: &Section<'_, '_>, deadline: Option<Duration>, problems: &mut Problems<'_>) -> JobLimits {
    let mut time = |key| {
        let field = section.field(key)?;
        let limit = field.duration(problems)?;
        if let Some(deadline) = deadline.filter(|deadline| limit > *deadline) {
            let deadline = deadline.as_millis();
            field.wrong(
                format!("can never pass, since `deadline` ({deadline} ms) comes first; lower it, or raise `deadline`"),
                problems,
            );
        }
        Some(millis(limit))
    };
    let limits = JobLimits {
        run_ms: time("timeout"),
        idle_ms: time("idle"),
        queue_ms: time("queue_timeout"),
        start_ms: time("start_timeout"),
        total_ms: time("total_timeout"),
        ..JobLimits::NONE
    };
    let retries = section.field("retries").and_then(|field| field.integer(0, RETRIES_MAX.into(), problems));
    let resume = section.field("resume").and_then(|field| resume(&field, problems));
    let own =
        section.field("budget").map(|field| budget::read(&field, "budget.", problems)).unwrap_or_default();
    JobLimits {
        retries: retries.and_then(|n| u32::try_from(n).ok()),
        resume,
        budget: own.budget,
        estimate_usd_micros: own.estimate_usd_micros,
        ..limits
    }
}

/// What becomes of a task that its supervisor did not outlive.
fn resume(field: &Field<'_, '_>, problems: &mut Problems<'_>) -> Option<Resume> {
    let word = field.string(problems)?;
    let found = [Resume::Fail, Resume::Rerun].into_iter().find(|resume| resume.as_str() == word);
    match word {
        _ if found.is_some() => {}
        "reattach" => {
            let why = "`reattach` is for runners that find the session of an earlier run again, and there is none; \
                       use \"fail\" or \"rerun\"";
            field.wrong(why, problems);
        }
        _ => field.wrong("use \"fail\" or \"rerun\"", problems),
    }
    found
}

/// Limits for tasks that set none, in a table of their own.
fn common_limits(
    field: &Field<'_, '_>,
    deadline: Option<Duration>,
    problems: &mut Problems<'_>,
) -> JobLimits {
    let Some(section) = field.section("limits.", "a table of limits", problems) else {
        return JobLimits::NONE;
    };
    section.refuse_unknown(&LIMIT_KEYS, &[(&TASK_KEYS, "into a [[task]]")], problems);
    let limits = limits(&section, deadline, problems);
    if let Err(error) = limits.check() {
        problems.add(section.place(error.field), error.field, error.problem);
        return JobLimits::NONE;
    }
    limits
}

/// A task of a manifest, with the name that it is called by as a whole.
struct Entry<'e, 't, 'i, 'p> {
    section: &'e Section<'t, 'i>,
    name: String,
    problems: &'e mut Problems<'p>,
}

impl Written for Entry<'_, '_, '_, '_> {
    const EXAMPLE: &'static str = "shell = \"cargo check\"";
    const PROMPT_BYTES_MAX: usize = PROMPT_BYTES_MAX;

    fn has(&self, key: &str) -> bool {
        self.section.field(key).is_some()
    }

    fn text(&mut self, key: &str) -> Option<String> {
        self.section.field(key)?.string(self.problems).map(ToOwned::to_owned)
    }

    fn texts(&mut self, key: &str) -> Option<Vec<String>> {
        self.section.field(key)?.strings(self.problems)
    }

    fn wrong(&mut self, key: &str, problem: String) {
        if let Some(field) = self.section.field(key) {
            field.wrong(problem, self.problems);
        }
    }

    fn wrong_as_a_whole(&mut self, problem: String) {
        self.problems.add(self.section.start(), &self.name, problem);
    }
}

fn label<'t>(field: &Field<'t, '_>, problems: &mut Problems<'_>) -> Option<&'t str> {
    let label = field.string(problems)?;
    if let Some(problem) = plan::label_problem(label) {
        field.wrong(problem, problems);
    }
    Some(label)
}

/// The folder of all tasks. It is there, unless `--cwd` stands in for it.
fn common_folder(
    field: &Field<'_, '_>,
    folder: &Path,
    flags: &Flags,
    problems: &mut Problems<'_>,
) -> Option<PathBuf> {
    let path = folder_of(field, folder, problems)?;
    if flags.cwd.is_none() && !path.is_dir() {
        field.wrong(format!("{} is no folder", text::path(&path)), problems);
    }
    Some(path)
}

/// A folder, from the manifest's own where it is relative. Whether a task's own exists is found out when it starts.
fn folder_of(field: &Field<'_, '_>, folder: &Path, problems: &mut Problems<'_>) -> Option<PathBuf> {
    let text = field.string(problems)?;
    plan::folder(text, folder).map_err(|error| field.wrong(error, problems)).ok()
}

#[cfg(test)]
mod tests;
