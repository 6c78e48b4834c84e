//! The agents there are: their programs, what they are given, and what they may do. It starts nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;

use fanin_protocol::limits::VARIABLE_BYTES_MAX;
use fanin_protocol::{AgentSpec, CommandLine, CommandSpec, RIGHTS_VARIABLE, Rights};

/// Where a command agent's words have its prompt.
pub const PROMPT: &str = "{prompt}";

/// Variables that every agent gets where we have them: what programs need to find their files, their language and the
/// network. A star at the end stands for any rest.
const PASS: [&str; 23] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_*",
    "TERM",
    "TMPDIR",
    "TZ",
    "XDG_*",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "FANIN_STATE_DIR",
];

/// How an agent is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By the Agent Client Protocol, over its standard input and output.
    Acp,
    /// Not at all: it is a command with the prompt among its words, and what it puts out is its answer.
    Command,
}

/// An agent as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// How it is spoken to.
    pub way: Way,
    /// Program and arguments. Those of a command agent have [`PROMPT`] somewhere.
    pub command: Vec<String>,
    /// Variables of ours that it gets beside those that all get, by name; a star at the end stands for any rest.
    pub pass: Vec<String>,
    /// Variables with their values; they win over what is passed on.
    pub env: BTreeMap<String, String>,
    /// What it may do at the most.
    pub rights: Rights,
    /// Variables that tell the agent itself what it may do, for each of the rights.
    pub env_by_rights: BTreeMap<Rights, BTreeMap<String, String>>,
    /// The same, in place of those, for one that we host as a parent: it may call our tools.
    pub env_as_parent: BTreeMap<Rights, BTreeMap<String, String>>,
    /// Modes of its sessions that hold it to each of the rights: the first one that it offers is set before it is asked
    /// anything.
    pub modes: BTreeMap<Rights, Vec<String>>,
    /// What its sessions are opened with as `_meta`: things that only this agent knows.
    pub session_meta: serde_json::Map<String, serde_json::Value>,
}

impl Agent {
    /// An agent that speaks ACP.
    pub fn acp(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            way: Way::Acp,
            command: command.into_iter().map(Into::into).collect(),
            pass: Vec::new(),
            env: BTreeMap::new(),
            rights: Rights::default(),
            env_by_rights: BTreeMap::new(),
            env_as_parent: BTreeMap::new(),
            modes: BTreeMap::new(),
            session_meta: serde_json::Map::new(),
        }
    }

    /// A command with [`PROMPT`] among its words. What it may do nobody can hold it to: it is a program like any other.
    pub fn command(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { way: Way::Command, ..Self::acp(command) }
    }

    /// With other rights at the most.
    #[must_use]
    pub fn rights(mut self, rights: Rights) -> Self {
        self.rights = rights;
        self
    }

    /// With variables of ours that it gets as well.
    #[must_use]
    pub fn pass(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.pass.extend(names.into_iter().map(Into::into));
        self
    }

    /// With a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// With modes of its sessions for these rights, the best one first.
    #[must_use]
    pub fn modes(mut self, rights: Rights, modes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.modes.insert(rights, modes.into_iter().map(Into::into).collect());
        self
    }

    /// Looks at what needs no look at the outside.
    ///
    /// # Errors
    ///
    /// A key of the configuration, and what is wrong with its value.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(("command", "the program is missing".to_owned()));
        }
        let has_place = self.command.iter().skip(1).any(|word| word.contains(PROMPT));
        match self.way {
            Way::Command if !has_place => Err((
                "command",
                format!("an agent of kind \"command\" needs {PROMPT} in one of its arguments"),
            )),
            Way::Acp if has_place => Err((
                "command",
                format!("{PROMPT} is for agents of kind \"command\"; one of kind \"acp\" is told its prompt"),
            )),
            Way::Acp | Way::Command => Ok(()),
        }
    }

    /// What is started for a task. `rights` are those that hold, and `ours` is our environment.
    pub(crate) fn started(
        &self,
        spec: &AgentSpec,
        rights: Rights,
        ours: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> CommandSpec {
        let words = self.command.iter().enumerate().map(|(n, word)| match self.way {
            // The program itself never comes from a prompt.
            Way::Command if n > 0 => word.replace(PROMPT, &spec.prompt),
            Way::Command | Way::Acp => word.clone(),
        });
        let mut env: BTreeMap<String, String> = ours
            .into_iter()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| self.is_passed(name))
            .collect();
        env.extend(self.env.clone());
        env.extend(spec.env.clone());
        env.extend(self.env_by_rights.get(&rights).cloned().unwrap_or_default());
        env.insert(RIGHTS_VARIABLE.to_owned(), rights.to_string());
        CommandSpec {
            line: CommandLine::Argv(words.collect()),
            cwd: spec.cwd.clone(),
            env,
            output_bytes_max: spec.output_bytes_max,
        }
    }

    fn is_passed(&self, name: &str) -> bool {
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        };
        PASS.into_iter().any(fits) || self.pass.iter().any(|pattern| fits(pattern))
    }
}

/// The agents of a supervisor, by name.
#[derive(Debug, Clone)]
pub struct Agents {
    agents: BTreeMap<String, Agent>,
    /// What none of them may exceed.
    most: Rights,
}

impl Default for Agents {
    /// Those that are known: `opencode`, `claude` and `codex`, each with no more rights than to read.
    fn default() -> Self {
        let mut opencode = Agent::acp(["opencode", "acp"]).pass(["OPENCODE_*"]).pass(PROVIDERS);
        for rights in Rights::ALL {
            let told =
                |is_parent| [("OPENCODE_PERMISSION".to_owned(), opencode_permission(rights, is_parent))];
            opencode.env_by_rights.insert(rights, told(false).into());
            opencode.env_as_parent.insert(rights, told(true).into());
        }
        Self::none().with("opencode", opencode).with("claude", claude()).with("codex", codex())
    }
}

/// Claude Code. In its mode `default` it asks before whatever changes something, also where its user has set another one.
/// What would work on behind the end of a turn, or launch workers, is switched off: nobody hears of it then.
fn claude() -> Agent {
    let mut claude = Agent::acp(["claude-agent-acp"])
        .pass(["ANTHROPIC_*", "CLAUDE_*"])
        .env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1")
        .env("CLAUDE_CODE_DISABLE_CRON", "1")
        .env("CLAUDE_CODE_DISABLE_WORKFLOWS", "1")
        .modes(Rights::ReadOnly, ["default"])
        .modes(Rights::Edit, ["acceptEdits", "default"])
        .modes(Rights::Full, ["bypassPermissions", "default"]);
    let options =
        serde_json::json!({ "options": { "disallowedTools": ["Agent", "Task", "ScheduleWakeup"] } });
    claude.session_meta.insert("claudeCode".to_owned(), options);
    claude
}

/// Codex. Its modes are its sandboxes: in `read-only` it asks before each edit, which is allowed to one that may edit, and
/// there is none for edits without commands. Its subagents are switched off.
fn codex() -> Agent {
    Agent::acp(["codex-acp", "-c", "features.multi_agent=false"])
        .pass(["CODEX_*", "OPENAI_*"])
        .modes(Rights::ReadOnly, ["read-only"])
        .modes(Rights::Edit, ["read-only"])
        .modes(Rights::Full, ["full-access", "agent-full-access"])
}

/// Keys of the model providers that opencode finds by these names.
const PROVIDERS: [&str; 6] = [
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "GROQ_API_KEY",
];

/// Our tools, as opencode names them.
const OUR_TOOLS: &str = "fanin_*";

/// Those of a job with mail.
const MAIL_TOOLS: &str = "fanin_team_*";

/// The rules of opencode for these rights. None of them asks: a question of one of its own subagents would reach nobody and
/// hang. It starts no subagents of its own: those would be workers of a worker, and a parent has ours.
fn opencode_permission(rights: Rights, is_parent: bool) -> String {
    let can_edit = rights >= Rights::Edit;
    let can_all = rights >= Rights::Full;
    // The last rule that fits holds, so the star comes first.
    let rules = [
        ("*", can_all),
        ("read", true),
        ("list", true),
        ("glob", true),
        ("grep", true),
        ("lsp", true),
        ("todoread", true),
        ("todowrite", true),
        ("edit", can_edit),
        ("bash", can_all),
        ("webfetch", can_all),
        ("websearch", can_all),
        ("codesearch", can_all),
        ("external_directory", can_all),
        ("skill", can_all),
        ("doom_loop", false),
        ("question", false),
        ("task", false),
        (OUR_TOOLS, is_parent || can_all),
        // They are there for a job with mail alone, and what they do is held to it by whoever serves them.
        (MAIL_TOOLS, true),
    ];
    let word = |may: bool| if may { "allow" } else { "deny" };
    let rules = rules.map(|(tool, may)| format!("\"{tool}\":\"{}\"", word(may)));
    format!("{{{}}}", rules.join(","))
}

impl Agents {
    /// No agent at all.
    pub const fn none() -> Self {
        Self { agents: BTreeMap::new(), most: Rights::Full }
    }

    /// With an agent under this name, in place of one that was known by it.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, agent: Agent) -> Self {
        self.agents.insert(name.into(), agent);
        self
    }

    /// With rights that none of them may exceed, whatever its own are.
    #[must_use]
    pub const fn at_most(mut self, rights: Rights) -> Self {
        self.most = rights;
        self
    }

    /// The agent of this name.
    ///
    /// # Errors
    ///
    /// A sentence with the names that there are.
    pub fn find(&self, name: &str) -> Result<&Agent, String> {
        self.agents.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.agents.keys().map(String::as_str).collect();
            match known.is_empty() {
                true => format!("there is no agent `{name}`, and none is configured"),
                false => format!("there is no agent `{name}`; there are {}", known.join(", ")),
            }
        })
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Agent)> {
        self.agents.iter().map(|(name, agent)| (name.as_str(), agent))
    }

    /// Looks whether a task can be given to its agent.
    ///
    /// # Errors
    ///
    /// A sentence that names the input and the way out.
    pub fn check(&self, spec: &AgentSpec) -> Result<(), String> {
        let agent = self.find(&spec.agent)?;
        agent.check().map_err(|(key, problem)| format!("agent `{}`: {key}: {problem}", spec.agent))?;
        let bytes = spec.prompt.len();
        match agent.way {
            Way::Command if spec.prompt.contains('\0') => {
                Err("the prompt holds a NUL byte, which cannot be an argument of a command".to_owned())
            }
            Way::Command if bytes >= VARIABLE_BYTES_MAX => Err(format!(
                "the prompt has {bytes} bytes; an argument of a command can have {VARIABLE_BYTES_MAX} at the most"
            )),
            Way::Command | Way::Acp => Ok(()),
        }
    }

    /// What the agent of a task may do that nothing stands above: the least of what its configuration says, and the task.
    pub fn rights_of(&self, spec: &AgentSpec) -> Rights {
        self.rights(spec, std::iter::empty())
    }

    /// What a task's agent may do: the least of what its configuration says, the task, and each job above.
    pub(crate) fn rights<'s>(&self, spec: &AgentSpec, above: impl Iterator<Item = &'s AgentSpec>) -> Rights {
        let own = |spec: &AgentSpec| {
            // A job of an agent that is not known any more vouches for nothing.
            let most = self.agents.get(&spec.agent).map_or(Rights::default(), |agent| agent.rights);
            spec.rights.map_or(most, |rights| rights.min(most))
        };
        above.map(own).fold(own(spec).min(self.most), Rights::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(
        agent: &Agent,
        spec: &AgentSpec,
        rights: Rights,
        ours: &[(&str, &str)],
    ) -> BTreeMap<String, String> {
        let ours = ours.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        agent.started(spec, rights, ours).env
    }

    #[test]
    fn rights_are_the_least_of_agent_task_and_all_above_and_nothing_widens_them() {
        let mut agents = Agents::none();
        for rights in Rights::ALL {
            agents = agents.with(rights.as_str(), Agent::acp(["x"]).rights(rights));
        }
        let spec = |agent: Rights, own: Option<Rights>| AgentSpec {
            rights: own,
            ..AgentSpec::new(agent.as_str(), "p")
        };
        let own = || [None].into_iter().chain(Rights::ALL.map(Some));
        for (agent, above) in Rights::ALL.iter().flat_map(|a| Rights::ALL.map(|b| (*a, b))) {
            for (mine, theirs) in own().flat_map(|a| own().map(move |b| (a, b))) {
                for most in Rights::ALL {
                    let (task, parent) = (spec(agent, mine), spec(above, theirs));
                    let held = agents.clone().at_most(most).rights(&task, [&parent].into_iter());
                    let all = [Some(agent), Some(above), Some(most), mine, theirs];
                    assert_eq!(Some(held), all.into_iter().flatten().min());
                }
            }
        }
        let gone = AgentSpec::new("gone", "p").rights(Rights::Full);
        let full = spec(Rights::Full, None);
        assert_eq!(agents.rights(&full, [&gone].into_iter()), Rights::ReadOnly);
    }

    #[test]
    fn an_agent_gets_what_is_on_its_list_and_nothing_else_of_our_environment() {
        let ours =
            [("PATH", "/bin"), ("LC_ALL", "C"), ("AWS_SECRET", "s"), ("OPENCODE_X", "1"), ("PATHS", "p")];
        let spec = AgentSpec::new("a", "p");
        let plain = env(&Agent::acp(["x"]), &spec, Rights::Edit, &ours);
        let names: Vec<_> = plain.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(names, ["FANIN_RIGHTS=edit", "LC_ALL=C", "PATH=/bin"]);
        let agent = Agent::acp(["x"]).pass(["OPENCODE_*"]).env("PATH", "/own").env("A", "1");
        let mut task = spec;
        task.env.insert("A".to_owned(), "2".to_owned());
        // Nobody gives itself rights by a variable.
        task.env.insert(RIGHTS_VARIABLE.to_owned(), "full".to_owned());
        let given = env(&agent, &task, Rights::ReadOnly, &ours);
        let names: Vec<_> = given.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(names, ["A=2", "FANIN_RIGHTS=read-only", "LC_ALL=C", "OPENCODE_X=1", "PATH=/own"]);
    }

    #[test]
    fn the_known_opencode_is_told_its_rights_whatever_the_task_says() {
        let agents = Agents::default();
        let agent = agents.find("opencode").unwrap();
        let mut task = AgentSpec::new("opencode", "p");
        task.env.insert("OPENCODE_PERMISSION".to_owned(), "{}".to_owned());
        for rights in Rights::ALL {
            let given = env(agent, &task, rights, &[]);
            let rules = &given["OPENCODE_PERMISSION"];
            let may = |tool: &str| rules.contains(&format!("\"{tool}\":\"allow\""));
            assert_eq!((may("read"), may("task"), rules.contains("\"ask\"")), (true, false, false));
            assert_eq!((may("edit"), may("bash")), (rights >= Rights::Edit, rights >= Rights::Full));
            assert!(rules.starts_with("{\"*\":"), "{rules}");
        }
    }

    #[test]
    fn the_prompt_of_a_command_agent_is_one_argument_and_never_its_program() {
        let agent = Agent::command(["{prompt}", "-p", "x {prompt} y", "z"]);
        let started = agent.started(&AgentSpec::new("a", "it's; $(1)"), Rights::Full, []);
        let words = ["{prompt}", "-p", "x it's; $(1) y", "z"].map(String::from);
        assert_eq!(started.line, CommandLine::Argv(words.into()));
        assert!(Agent::command(["{prompt}"]).check().unwrap_err().1.contains(PROMPT));
        assert!(Agent::acp(["x", "{prompt}"]).check().unwrap_err().1.contains("\"command\""));
        assert!(Agent::acp([""]).check().is_err());
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_there_are() {
        let error = Agents::default().check(&AgentSpec::new("opncode", "p")).unwrap_err();
        assert_eq!(error, "there is no agent `opncode`; there are claude, codex, opencode");
        assert!(Agents::none().find("x").unwrap_err().ends_with("none is configured"));
        let long = "x".repeat(VARIABLE_BYTES_MAX);
        let agents = Agents::default().with("plain", Agent::command(["echo", PROMPT]));
        assert!(agents.check(&AgentSpec::new("plain", long.clone())).unwrap_err().contains("131072"));
        assert_eq!(agents.check(&AgentSpec::new("claude", long)), Ok(()));
    }
}
