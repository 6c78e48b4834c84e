//! The tools as a model sees them: names, the contract in words, and schemas with bounds.

use std::sync::Arc;
use std::time::Duration;

use fanin_protocol::limits::{
    AGENT_GROUP_MAX, AGENT_GROUP_MIN, AGENT_PROMPT_BYTES_MAX, AGENT_SPAWN_TOTAL, COMMAND_BYTES_MAX,
    ID_BYTES_MAX, LABEL_BYTES_MAX, MCP_BLOCK, MCP_IDS_MAX, MCP_PAGE_BYTES, MCP_PAGE_BYTES_MAX,
    OUTPUT_BYTES_MAX_MAX, RETRIES_MAX, WATCH_CHECK, WATCH_EVERY, WATCH_EVERY_MIN, WATCH_FIRINGS_MAX,
    WATCH_GAP, WATCH_LIFE_MAX, WATCH_PATTERN_BYTES_MAX,
};
use fanin_protocol::spec::millis;
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    Subagent,
    TaskParallel,
    Watch,
    Wait,
    Jobs,
    Message,
    Cancel,
}

/// The names of the tools, for those who have to know them beforehand.
pub const TOOLS: [&str; 7] = [
    Name::Subagent.as_str(),
    Name::TaskParallel.as_str(),
    Name::Watch.as_str(),
    Name::Wait.as_str(),
    Name::Jobs.as_str(),
    Name::Message.as_str(),
    Name::Cancel.as_str(),
];

impl Name {
    /// All of them, as they are listed.
    const ALL: [Self; 7] = [
        Self::Subagent,
        Self::TaskParallel,
        Self::Watch,
        Self::Wait,
        Self::Jobs,
        Self::Message,
        Self::Cancel,
    ];

    /// Those there are: without delegation, none that launches.
    pub(crate) fn known(may_launch: bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |name| may_launch || !name.launches())
    }

    /// The tool of this name, also where it is not listed. Some harnesses know jobs that need each other as a `team`.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let is_team = (name == "team").then_some(Self::TaskParallel);
        Self::ALL.into_iter().find(|known| known.as_str() == name).or(is_team)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Subagent => "subagent",
            Self::TaskParallel => "task_parallel",
            Self::Watch => "watch",
            Self::Wait => "wait_for_subagents",
            Self::Jobs => "jobs",
            Self::Message => "message",
            Self::Cancel => "job_cancel",
        }
    }

    pub(crate) const fn launches(self) -> bool {
        match self {
            Self::Subagent | Self::TaskParallel | Self::Watch => true,
            Self::Wait | Self::Jobs | Self::Message | Self::Cancel => false,
        }
    }

    /// As it is listed, for a parent that is woken or for one that is told with answers.
    pub(crate) fn tool(self, is_woken: bool) -> Tool {
        let Value::Object(schema) = self.schema() else {
            return Tool::new(self.as_str(), "", Arc::default());
        };
        // A client may run calls of tools that only read side by side.
        let reads = matches!(self, Self::Wait | Self::Jobs);
        let hints = ToolAnnotations::with_title(self.title()).read_only(reads).open_world(self.launches());
        let hints =
            if reads { hints } else { hints.destructive(matches!(self, Self::Cancel)).idempotent(false) };
        Tool::new(self.as_str(), self.description(is_woken), Arc::new(schema)).with_annotations(hints)
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Subagent => "Run one job",
            Self::TaskParallel => "Run several jobs at once",
            Self::Watch => "Be told of a condition",
            Self::Wait => "Wait for jobs",
            Self::Jobs => "Look at jobs",
            Self::Message => "Follow up",
            Self::Cancel => "Stop jobs",
        }
    }

    fn description(self, is_woken: bool) -> String {
        let told = told(is_woken);
        match self {
            Self::Subagent => format!(
                "Runs ONE job: an agent with a prompt, a shell line or a command. In the foreground (the default) the answer has its result. With \
                 background=true the answer comes at once and you go on with other work. {told} {LONG} For several jobs at \
                 once use task_parallel."
            ),
            Self::TaskParallel => format!(
                "Runs {AGENT_GROUP_MIN} to {AGENT_GROUP_MAX} jobs side by side and gives ONE combined result when all are \
                 over, in the order given; one that fails is an entry of it like any other. A task with `depends` starts \
                 once those are over, and is handed what they put out; all others start at once. In the foreground (the default) the answer has the result. With background=true the \
                 answer comes at once and you go on with other work. {told} {LONG}"
            ),
            Self::Watch => {
                let seen = if is_woken { WATCH_WOKEN } else { WATCH_TOLD };
                format!(
                    "Looks at something in the background, and tells you each time that a condition comes true: instead of a \
                     loop with sleep, and instead of calling again and again. Say what is looked at: `shell` or `command` \
                     alone is run every 30 s and fires once it succeeds; with `pattern` it is run once and fires at lines that \
                     match, as they come (tail -F); with `every` as well, or with `changes`, it is run again and again; `job` \
                     with `pattern` looks at what another job puts out. It fires once unless `times` says more, holds no slot, \
                     and answers at once. {seen}"
                )
            }
            Self::Wait => "Waits here until jobs are over, and gives their results: the way to get them when there is nothing \
                           else to do. It returns as soon as all of them are over, or at its limit with what is over and \
                           what still runs; then call it again, or go on. It stops nothing, and neither does its cancel. \
                           Without ids it waits for all that you have in the background."
                .to_owned(),
            Self::Jobs => format!(
                "Without `job`: lists the jobs that you have launched, oldest first. With `job`: reads a page of what that job put \
                 out, from byte `offset` on; `next_offset` of the answer is the next one. It takes no result. It is not \
                 for waiting: {POLL}"
            ),
            Self::Message => "Gives a job that runs more to do, before it ends. Commands take no messages; the answer says so."
                .to_owned(),
            Self::Cancel => "Stops jobs by the ids of jobs or groups: politely, by force a little later. Stop what nobody needs \
                             any more; what a job put out until then is part of its group's result."
                .to_owned(),
        }
    }

    fn schema(self) -> Value {
        let id = json!({ "type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX });
        let ids = |min: usize, what: &str| json!({ "type": "array", "items": id, "minItems": min, "maxItems": MCP_IDS_MAX, "description": what });
        match self {
            Self::Subagent => {
                let mut properties = task_properties();
                if let (Some(properties), Value::Object(how)) = (properties.as_object_mut(), how()) {
                    properties.extend(how);
                }
                object(&properties, &[])
            }
            Self::TaskParallel => {
                let mut properties = json!({
                    "tasks": {
                        "type": "array",
                        "minItems": AGENT_GROUP_MIN,
                        "maxItems": AGENT_GROUP_MAX,
                        "items": object(&member_properties(), &[]),
                        "description": "What to run. Each has one of `agent`, `shell` and `command`."
                    },
                    "release": {
                        "anyOf": [
                            { "type": "string", "enum": ["all", "fail_fast", "any"] },
                            object(&json!({
                                "ok": { "type": "integer", "minimum": 1, "maximum": AGENT_GROUP_MAX },
                                "not_ok": { "type": "integer", "minimum": 1, "maximum": AGENT_GROUP_MAX }
                            }), &[])
                        ],
                        "default": "all",
                        "description": "When the rest is stopped: never, once one failed, once one completed; or once so many did, as {\"ok\": 2} for two of several."
                    },
                    "deadline_seconds": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "The rest is stopped after so long, and the result has what there is."
                    },
                    "budget": budget("What all tasks together may use")
                });
                if let (Some(properties), Value::Object(how)) = (properties.as_object_mut(), how()) {
                    properties.extend(how);
                }
                object(&properties, &["tasks"])
            }
            Self::Watch => object(&watch_properties(&id), &[]),
            Self::Wait => object(
                &json!({
                    "ids": ids(0, "Groups or jobs, as earlier answers named them; none for all."),
                    "timeout_seconds": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MCP_BLOCK.as_secs(),
                        "description": "Wait no longer than this; the server's own limit holds as well."
                    }
                }),
                &[],
            ),
            Self::Jobs => object(&jobs_properties(&id), &[]),
            Self::Message => object(
                &json!({
                    "job": id,
                    "text": { "type": "string", "minLength": 1, "maxLength": AGENT_PROMPT_BYTES_MAX }
                }),
                &["job", "text"],
            ),
            Self::Cancel => {
                object(&json!({ "ids": ids(1, "Jobs, or groups with all their jobs.") }), &["ids"])
            }
        }
    }
}

/// What the server is for, for the model as a whole.
pub(crate) fn instructions(is_woken: bool) -> String {
    let told = told(is_woken);
    let ends = if is_woken { "You" } else { "Jobs end with this connection; it" };
    format!(
        "fanin runs jobs in the background and tells you ONCE when all of a group are over. Launch with subagent (one) or \
         task_parallel (several). {told} {POLL} {ends} may launch {AGENT_SPAWN_TOTAL} of them."
    )
}

/// How a result reaches a parent.
const fn told(is_woken: bool) -> &'static str {
    if is_woken { WOKEN } else { TOLD }
}

/// How a result reaches a parent that nobody can wake.
const TOLD: &str = "The result of what runs in the background comes once, when all of the call's jobs are over: with the \
                    answer of your next fanin call after that, or from wait_for_subagents, which returns at that moment.";

/// How it reaches one that is woken.
const WOKEN: &str = "The result of what runs in the background comes once, as your next prompt, when all that you have \
                     launched is over: end your turn when you have nothing else to do. If you need it within this turn, \
                     wait_for_subagents returns at that moment.";

const POLL: &str = "Do not poll, and do not do the jobs' work yourself.";

/// How a firing reaches a parent that nobody can wake.
const WATCH_TOLD: &str = "What it saw comes as `fired`, once, with the answer of your next fanin call after that; \
                          wait_for_subagents returns at that moment.";

/// How it reaches one that is woken.
const WATCH_WOKEN: &str = "What it saw is your next prompt, once your turn is over: end your turn when you have nothing else \
                           to do. Your work is done when your jobs are over, whether the watch is or not; then it is stopped.";

const LONG: &str = "A foreground call that takes too long answers with what still runs, and stops nothing.";

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false
    })
}

/// What both ways to launch have beside their tasks.
fn how() -> Value {
    json!({
        "background": {
            "type": "boolean",
            "default": false,
            "description": "Answer at once; the result comes later, once."
        },
        "key": {
            "type": "string",
            "pattern": "^[A-Za-z0-9_-]{1,64}$",
            "description": "A name of yours for this call: repeated with the same key it finds the jobs that are there \
                            instead of starting them again. It is the id of the group."
        }
    })
}

fn task_properties() -> Value {
    let time = |what: &str| json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h)$", "description": format!("{what}, as 500ms, 30s, 5m or 2h") });
    json!({
        "id": { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$", "description": "A short name for the task." },
        "label": { "type": "string", "minLength": 1, "maxLength": LABEL_BYTES_MAX, "description": "A name for people; the id unless set." },
        "agent": { "type": "string", "minLength": 1, "maxLength": LABEL_BYTES_MAX, "description": "An agent by its name: opencode, claude, codex, or one of fanin.toml. It sees its prompt and nothing of this conversation." },
        "prompt": { "type": "string", "minLength": 1, "maxLength": AGENT_PROMPT_BYTES_MAX, "description": "With `agent`: all that it shall do, and what it shall answer with." },
        "rights": { "type": "string", "enum": ["read-only", "edit", "full"], "description": "With `agent`: what it may do at the most; what it is configured with unless set." },
        "shell": { "type": "string", "minLength": 1, "maxLength": COMMAND_BYTES_MAX, "description": "A line for sh, instead of an agent." },
        "command": {
            "type": "array",
            "items": { "type": "string" },
            "minItems": 1,
            "description": "A program and its arguments, without a shell, instead of an agent."
        },
        "cwd": { "type": "string", "minLength": 1, "description": "The folder it runs in; that of the server unless set." },
        "env": { "type": "object", "additionalProperties": { "type": "string" }, "description": "Variables beside the server's own." },
        "timeout": time("How long one run may take"),
        "idle": time("How long it may put out nothing"),
        "queue_timeout": time("How long it may wait for its start"),
        "start_timeout": time("How long its start may take"),
        "total_timeout": time("How long all of its runs may take"),
        "retries": { "type": "integer", "minimum": 0, "maximum": RETRIES_MAX, "description": "Tries after the first one." },
        "output_bytes_max": { "type": "integer", "minimum": 1, "maximum": OUTPUT_BYTES_MAX_MAX, "description": "Output that is kept; start and end of a longer one." },
        "budget": budget("What this task may use")
    })
}

/// What may be used, where that is bounded.
fn budget(what: &str) -> Value {
    let count = json!({ "type": "integer", "minimum": 1 });
    let mut budget = object(
        &json!({
            "usd": { "type": "number", "exclusiveMinimum": 0, "description": "US dollars, up to six places; of agents that tell their cost." },
            "tokens": count,
            "steps": { "type": "integer", "minimum": 1, "description": "Calls of models." },
            "time": { "type": "string", "pattern": "^[0-9]+(ms|s|m|h)$", "description": "The times of all runs, added up, as 30s, 5m or 2h." },
            "estimate": { "type": "number", "exclusiveMinimum": 0, "description": "US dollars that one start is expected to cost; 0.50 unless set." }
        }),
        &[],
    );
    if let Some(budget) = budget.as_object_mut() {
        budget.insert("minProperties".to_owned(), 1.into());
        let what = format!("{what}; what does not fit is not started, and what runs is stopped.");
        budget.insert("description".to_owned(), what.into());
    }
    budget
}

/// What a watch may have.
fn watch_properties(id: &Value) -> Value {
    let time = |what: String| json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h)$", "description": format!("{what}, as 30s, 5m or 2h") });
    let shown = |time: Duration| fanin_protocol::text::duration(millis(time));
    json!({
        "shell": { "type": "string", "minLength": 1, "maxLength": COMMAND_BYTES_MAX, "description": "A line for sh, run to look." },
        "command": { "type": "array", "items": { "type": "string" }, "minItems": 1, "description": "A program and its arguments, run to look." },
        "job": id,
        "pattern": { "type": "string", "minLength": 1, "maxLength": WATCH_PATTERN_BYTES_MAX, "description": "Fire at lines that match this regular expression." },
        "changes": { "type": "boolean", "default": false, "description": "Fire where the output is another one than at the check before." },
        "every": time(format!("Time between two checks, {} at the least; {} unless set", shown(WATCH_EVERY_MIN), shown(WATCH_EVERY))),
        "check_timeout": time(format!("How long one check may take; {} unless set", shown(WATCH_CHECK))),
        "gap": time(format!("Time between two firings; {} unless set. What is seen meanwhile comes with the next one", shown(WATCH_GAP))),
        "times": { "type": "integer", "minimum": 1, "maximum": WATCH_FIRINGS_MAX, "default": 1, "description": "How often it fires; then it is over." },
        "life": time(format!("How long it looks, {} at the most", shown(WATCH_LIFE_MAX))),
        "label": { "type": "string", "minLength": 1, "maxLength": LABEL_BYTES_MAX, "description": "What it is called where it fires." },
        "cwd": { "type": "string", "minLength": 1, "description": "The folder it runs in; that of the server unless set." },
        "env": { "type": "object", "additionalProperties": { "type": "string" }, "description": "Variables beside the server's own." },
        "key": { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$", "description": "A name of yours for this call: repeated with the same key it finds the watch that is there." }
    })
}

/// What a task may have that is one of several.
fn member_properties() -> Value {
    let depends = json!({
        "type": "array",
        "items": { "type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX },
        "maxItems": AGENT_GROUP_MAX,
        "description": "Ids of tasks of this call that have to be over first. What they put out is handed over: behind the prompt of an agent, in FANIN_DEPENDENCIES of a command. A task without an id is task_1, task_2 and so on, by its place."
    });
    let on_failed = json!({
        "type": "string",
        "enum": ["skip", "run", "fail_team"],
        "default": "skip",
        "description": "With `depends`, where one of them does not complete: do not start this task, start it all the same, or stop the whole call."
    });
    let sends = json!({
        "type": "array",
        "items": { "type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX },
        "maxItems": AGENT_GROUP_MAX,
        "description": "Ids of tasks of this call that this one may send text to while both run: an agent with its tool team_send, a command with `fanin team send`. One way, and never in a circle. Say in the prompts who sends what, and that the last mail says it is the last. Without any `sends`, mail goes from earlier to later tasks of a plan with `depends`."
    });
    let mut properties = task_properties();
    if let Some(all) = properties.as_object_mut() {
        let ties = [("depends", depends), ("on_failed_dependency", on_failed), ("sends", sends)];
        all.extend(ties.map(|(key, schema)| (key.to_owned(), schema)));
    }
    properties
}

fn jobs_properties(id: &Value) -> Value {
    json!({
        "job": id,
        "offset": { "type": "integer", "minimum": 0, "default": 0, "description": "With `job`: the first byte." },
        "max_bytes": {
            "type": "integer",
            "minimum": 1,
            "maximum": MCP_PAGE_BYTES_MAX,
            "default": MCP_PAGE_BYTES,
            "description": "With `job`: bytes of the page."
        },
        "status": {
            "type": "string",
            "enum": ["queued", "running", "completed", "error", "cancelled"],
            "description": "Without `job`: only these."
        },
        "from": { "type": "integer", "minimum": 0, "description": "Without `job`: `next_from` of the page before." },
        "limit": { "type": "integer", "minimum": 1, "maximum": MCP_IDS_MAX, "description": "Without `job`: jobs of the page." }
    })
}
