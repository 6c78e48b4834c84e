//! The arguments of a call: read strictly, and refused with the place and what would be right.

use std::time::Duration;

use fanin_protocol::limits::{
    AGENT_GROUP_MAX, AGENT_GROUP_MIN, AGENT_PROMPT_BYTES_MAX, MAIL_WAIT_MAX, MCP_BLOCK, MCP_IDS_MAX,
    MCP_PAGE_BYTES_MAX,
};
use fanin_protocol::spec::millis;
use fanin_protocol::{GroupId, Lifetime, Policy, Status};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::fault::ToolError;
use crate::host::{Amounts, Problem, Task, WatchTask};

/// What a call has said.
pub(crate) type Arguments = serde_json::Map<String, Value>;

/// What is launched.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) tasks: Vec<Task>,
    pub(crate) background: bool,
    pub(crate) key: Option<GroupId>,
    pub(crate) policy: Policy,
    /// What all of it may use together.
    pub(crate) budget: Option<Amounts>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct How {
    #[serde(default)]
    background: bool,
    key: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parallel {
    tasks: Vec<Value>,
    #[serde(default)]
    background: bool,
    key: Option<String>,
    #[serde(default)]
    release: Release,
    budget: Option<Amounts>,
    deadline_seconds: Option<u64>,
}

/// When the rest is stopped: by a name, or by counts.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(
    untagged,
    expecting = "release: use \"all\", \"fail_fast\", \"any\", or counts as {\"ok\": 2} or {\"not_ok\": 2}"
)]
enum Release {
    Named(Named),
    Counted(Counted),
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Named {
    #[default]
    All,
    FailFast,
    Any,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counted {
    ok: Option<u32>,
    not_ok: Option<u32>,
}

impl Default for Release {
    fn default() -> Self {
        Self::Named(Named::All)
    }
}

/// What is to be looked at.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) task: WatchTask,
    pub(crate) key: Option<GroupId>,
}

/// The words of `wait_for_subagents`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    #[serde(default)]
    pub(crate) ids: Vec<String>,
    pub(crate) timeout_seconds: Option<u64>,
}

/// The words of `jobs`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Jobs {
    pub(crate) job: Option<String>,
    pub(crate) offset: Option<u64>,
    pub(crate) max_bytes: Option<usize>,
    pub(crate) status: Option<Status>,
    pub(crate) from: Option<Lifetime>,
    pub(crate) limit: Option<usize>,
}

/// The words of `message`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Message {
    pub(crate) job: String,
    pub(crate) text: String,
}

/// The words of `job_cancel`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    pub(crate) ids: Vec<String>,
}

/// The words of `team_send`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TeamSend {
    pub(crate) to: String,
    pub(crate) message: String,
}

/// The words of `team_recv`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TeamReceive {
    pub(crate) from: Option<String>,
    pub(crate) timeout_ms: Option<u64>,
}

fn refused(what: impl Into<String>) -> ToolError {
    ToolError::Arguments(what.into())
}

fn read<T: DeserializeOwned>(arguments: Arguments) -> Result<T, ToolError> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| refused(error.to_string()))
}

fn check<T: PartialOrd + std::fmt::Display>(key: &str, given: T, (min, max): (T, T)) -> Result<T, ToolError> {
    if given < min || given > max {
        return Err(refused(format!("{key}: {given} is not from {min} to {max}")));
    }
    Ok(given)
}

impl Launch {
    /// One task, its keys beside the others.
    pub(crate) fn one(mut arguments: Arguments) -> Result<Self, ToolError> {
        let how = ["background", "key"].into_iter();
        let how = how.filter_map(|key| arguments.remove_entry(key)).collect();
        let How { background, key } = read(how)?;
        let task = read(arguments)?;
        // What it may use is the task's own.
        Ok(Self { tasks: vec![task], background, key: key_of(key)?, policy: Policy::ALL, budget: None })
    }

    /// Several tasks.
    pub(crate) fn several(arguments: Arguments) -> Result<Self, ToolError> {
        let Parallel { tasks: given, background, key, release, deadline_seconds, budget } = read(arguments)?;
        let count = given.len();
        if !(AGENT_GROUP_MIN..=AGENT_GROUP_MAX).contains(&count) {
            let way_out = if count == 1 { "; `subagent` runs a single one" } else { "" };
            return Err(refused(format!(
                "tasks: {count} given; {AGENT_GROUP_MIN} to {AGENT_GROUP_MAX} are allowed{way_out}"
            )));
        }
        let (mut tasks, mut problems) = (Vec::with_capacity(count), Vec::new());
        for (index, value) in given.into_iter().enumerate() {
            match serde_json::from_value(value) {
                Ok(task) => tasks.push(task),
                Err(error) => {
                    let (index, key) = (Some(index), String::new());
                    problems.push(Problem { index, key, what: error.to_string() });
                }
            }
        }
        if !problems.is_empty() {
            return Err(ToolError::Tasks(problems));
        }
        let policy = match release {
            Release::Named(Named::All) => Policy::ALL,
            Release::Named(Named::FailFast) => Policy::FAIL_FAST,
            Release::Named(Named::Any) => Policy::ANY,
            Release::Counted(Counted { ok: None, not_ok: None }) => {
                return Err(refused("release: no count is there; use {\"ok\": 2} or {\"not_ok\": 2}"));
            }
            Release::Counted(Counted { ok, not_ok }) => Policy { ok, not_ok, ..Policy::ALL },
        };
        let policy = match deadline_seconds {
            Some(seconds) => policy.with_deadline(Duration::from_secs(seconds)),
            None => policy,
        };
        policy.check(count).map_err(refused)?;
        Ok(Self { tasks, background, key: key_of(key)?, policy, budget })
    }
}

impl Watch {
    pub(crate) fn read(mut arguments: Arguments) -> Result<Self, ToolError> {
        let how = arguments.remove_entry("key").into_iter().collect();
        let How { key, background: _ } = read(how)?;
        Ok(Self { task: read(arguments)?, key: key_of(key)? })
    }
}

fn key_of(key: Option<String>) -> Result<Option<GroupId>, ToolError> {
    let parse = |key: String| GroupId::parse(&key).map_err(|error| refused(format!("key: {error}")));
    key.map(parse).transpose()
}

impl Wait {
    pub(crate) fn read(arguments: Arguments) -> Result<Self, ToolError> {
        let wait: Self = read(arguments)?;
        check("ids", wait.ids.len(), (0, MCP_IDS_MAX))?;
        if let Some(seconds) = wait.timeout_seconds {
            check("timeout_seconds", seconds, (1, MCP_BLOCK.as_secs()))?;
        }
        Ok(wait)
    }
}

impl Jobs {
    pub(crate) fn read(arguments: Arguments) -> Result<Self, ToolError> {
        let jobs: Self = read(arguments)?;
        let of_output = [jobs.offset.map(|_| "offset"), jobs.max_bytes.map(|_| "max_bytes")];
        let of_list = [jobs.status.map(|_| "status"), jobs.from.map(|_| "from"), jobs.limit.map(|_| "limit")];
        let stray = if jobs.job.is_some() { of_list.into_iter().flatten().next() } else { None };
        if let Some(key) = stray {
            return Err(refused(format!("{key}: is for a list; leave it out, or leave out `job`")));
        }
        if let Some(key) = of_output.into_iter().flatten().next().filter(|_| jobs.job.is_none()) {
            return Err(refused(format!("{key}: is for the output of a job; name it with `job`")));
        }
        if let Some(max) = jobs.max_bytes {
            check("max_bytes", max, (1, MCP_PAGE_BYTES_MAX))?;
        }
        if let Some(limit) = jobs.limit {
            check("limit", limit, (1, MCP_IDS_MAX))?;
        }
        Ok(jobs)
    }
}

impl Message {
    pub(crate) fn read(arguments: Arguments) -> Result<Self, ToolError> {
        let message: Self = read(arguments)?;
        if message.text.trim().is_empty() {
            return Err(refused("text: is empty; write what there is more to do"));
        }
        let (bytes, max) = (message.text.len(), AGENT_PROMPT_BYTES_MAX);
        if bytes > max {
            return Err(refused(format!(
                "text: {bytes} bytes; at most {max} are allowed: put the rest into a file"
            )));
        }
        Ok(message)
    }
}

impl TeamSend {
    pub(crate) fn read(arguments: Arguments) -> Result<Self, ToolError> {
        read(arguments)
    }
}

impl TeamReceive {
    pub(crate) fn read(arguments: Arguments) -> Result<Self, ToolError> {
        let receive: Self = read(arguments)?;
        if let Some(ms) = receive.timeout_ms {
            check("timeout_ms", ms, (0, millis(MAIL_WAIT_MAX)))?;
        }
        Ok(receive)
    }
}

impl Cancel {
    pub(crate) fn read(arguments: Arguments) -> Result<Self, ToolError> {
        let cancel: Self = read(arguments)?;
        check("ids", cancel.ids.len(), (1, MCP_IDS_MAX))?;
        Ok(cancel)
    }
}

/// An id as it is shown where it is wrong.
pub(crate) fn shown(text: &str) -> String {
    let text = fanin_protocol::text::one_line(text);
    fanin_protocol::text::cut(&text, fanin_protocol::limits::ID_BYTES_MAX).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any JSON, with the keys of the tools among those of its objects.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,20}".prop_map(Value::from),
            Just(Value::from("all")),
        ];
        leaf.prop_recursive(4, 64, 9, |inner| {
            let key = prop_oneof![
                prop::sample::select(vec![
                    "tasks",
                    "shell",
                    "command",
                    "id",
                    "ids",
                    "key",
                    "background",
                    "release",
                    "env",
                    "job",
                    "text",
                    "offset",
                    "max_bytes",
                    "limit",
                    "from",
                    "status",
                    "timeout_seconds",
                    "timeout_ms",
                    "to",
                    "message",
                    "timeout",
                    "agent",
                    "prompt",
                    "budget",
                    "usd",
                    "pattern",
                    "every",
                    "times",
                    "changes",
                ])
                .prop_map(str::to_owned),
                ".{0,8}",
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..9).prop_map(Value::from),
                prop::collection::vec((key, inner), 0..6)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    /// A refusal is short enough to be read, and says something.
    fn told<T: std::fmt::Debug>(read: Result<T, ToolError>) {
        if let Err(error) = read {
            let fault = error.fault();
            assert!(!fault.message.is_empty() && fault.message.len() < 20_000, "{fault:?}");
        }
    }

    proptest! {
        #[test]
        fn any_arguments_are_read_or_refused(value in any_json()) {
            let arguments = value.as_object().cloned().unwrap_or_default();
            let one = Launch::one(arguments.clone());
            if let Ok(launch) = &one {
                prop_assert_eq!(launch.tasks.len(), 1);
            }
            told(one);
            let several = Launch::several(arguments.clone());
            if let Ok(launch) = &several {
                prop_assert!((AGENT_GROUP_MIN..=AGENT_GROUP_MAX).contains(&launch.tasks.len()));
            }
            told(several);
            told(Watch::read(arguments.clone()));
            told(Wait::read(arguments.clone()));
            told(Jobs::read(arguments.clone()));
            told(Message::read(arguments.clone()));
            told(Cancel::read(arguments.clone()));
            told(TeamSend::read(arguments.clone()));
            told(TeamReceive::read(arguments));
        }
    }
}
