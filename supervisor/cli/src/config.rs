//! The configuration: variables, `fanin.toml` of the folder that fanin is started in, and that of the user, in this order.
//! Flags and manifests win over all of it. It reads and starts nothing; what is wrong is told with its place.

pub(crate) mod settings;
pub(crate) mod show;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{self, Path};

use fanin_acp::{Agent, Agents, Way};
use fanin_process::Ancestry;
use fanin_protocol::{Rights, Spec, layout, text};
use toml::de::DeTable;

use crate::manifest;
use crate::manifest::reader::{Field, Problems, Section};
use crate::plan::what::RIGHTS;
use crate::plan::{Plan, Refused};
use settings::{Origin, Settings, TABLES, keys_of};

/// The table of agents.
const AGENTS: &str = "agents";
const AGENT_KEYS: [&str; 6] = ["kind", "command", "pass", "env", "rights", "modes"];

/// All that is configured.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    /// The agents there are: those that are known, as the user's file changes them, and as the folder's file changes that.
    pub(crate) agents: Agents,
    /// What else is set.
    pub(crate) settings: Settings,
    /// Which files say something of an agent, in the order in which they do.
    said: BTreeMap<String, Vec<Origin>>,
}

impl Config {
    /// Reads all of it. Of what several say the variable wins, then the folder's file, then the user's; of rights the least
    /// holds, and agents have no more.
    ///
    /// # Errors
    ///
    /// [`Refused`] with every problem of every file and variable, and with settings that contradict each other.
    pub(crate) fn resolve() -> Result<Self, Refused> {
        Self::of(|name| env::var_os(name), Path::new(""), Ancestry::own().rights)
    }

    /// What variables alone say, as far as that makes sense: for whoever does without files.
    pub(crate) fn of_variables() -> Self {
        let mut config = Self::default();
        config.settings.read_variables(|name| env::var_os(name), &mut Vec::new());
        config
    }

    /// As [`Config::resolve`], of a program in this folder with these variables and an agent with these rights around it.
    fn of(
        variable: impl Fn(&str) -> Option<OsString>,
        folder: &Path,
        around: Rights,
    ) -> Result<Self, Refused> {
        let mut config = Self::default();
        let mut problems = Vec::new();
        let mut hint = None;
        config.settings.read_variables(&variable, &mut problems);
        let users = layout::config(&variable);
        let here = folder.join(layout::CONFIG);
        let is_one = users.as_deref().is_some_and(|users| is_one(users, &here));
        // A key of the first file wins, and an agent of the last one.
        let mut agents = Vec::new();
        for (file, is_users) in [(Some(here).filter(|_| !is_one), false), (users, true)] {
            let Some(file) = file else { continue };
            match load(&file) {
                Ok(Some(source)) => {
                    if let Err(refused) = config.read((&file, is_users), &source) {
                        problems.extend(refused.problems);
                        hint = hint.or(refused.hint);
                    }
                    agents.push((file, source));
                }
                Ok(None) => {}
                Err(problem) => problems.push(problem),
            }
        }
        for (file, source) in agents.iter().rev() {
            if let Err(refused) = config.read_agents(file, source) {
                problems.extend(refused.problems);
                hint = hint.or(refused.hint);
            }
        }
        config.settings.bound(around);
        problems.extend(config.settings.contradictions());
        if !problems.is_empty() {
            return Err(Refused { has_places: true, hint, ..Refused::all(problems) });
        }
        config.agents = config.agents.at_most(config.settings.rights());
        Ok(config)
    }

    /// Adds what a file sets. Its agents are read apart.
    fn read(&mut self, (file, is_users): (&Path, bool), source: &str) -> Result<(), Refused> {
        let file = text::path(file);
        let mut problems = Problems::new(&file, source);
        let (document, errors) = DeTable::parse_recoverable(source);
        for error in &errors {
            let at = error.span().map_or(0, |span| span.start);
            problems.add(at, "syntax", error.message().trim_end());
        }
        if errors.is_empty() {
            let top = Section::new(document.get_ref(), 0, "");
            let tables = [AGENTS].into_iter().chain(TABLES.map(|(table, ..)| table));
            let known: Vec<&str> = tables.chain(keys_of("")).collect();
            let (limits, budget): (Vec<_>, Vec<_>) =
                (keys_of("limits").collect(), keys_of("budget").collect());
            let elsewhere: [(&[&str], &str); 3] = [
                (&limits, "into [limits]"),
                (&budget, "into [budget]"),
                (&AGENT_KEYS, "into an [agents.NAME]"),
            ];
            top.refuse_unknown(&known, &elsewhere, &mut problems);
            self.settings.read_table((&file, is_users), (&top, ""), &mut problems);
            for (table, prefix, expected) in TABLES {
                let Some(section) =
                    top.field(table).and_then(|field| field.section(prefix, expected, &mut problems))
                else {
                    continue;
                };
                let keys: Vec<&str> = keys_of(table).collect();
                section.refuse_unknown(&keys, &elsewhere, &mut problems);
                self.settings.read_table((&file, is_users), (&section, prefix), &mut problems);
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems.into()) }
    }

    /// Adds what a file says of agents. Broken syntax was told already.
    fn read_agents(&mut self, file: &Path, source: &str) -> Result<(), Refused> {
        let file = text::path(file);
        let mut problems = Problems::new(&file, source);
        let (document, errors) = DeTable::parse_recoverable(source);
        let top = Section::new(document.get_ref(), 0, "");
        let all = top.field(AGENTS).filter(|_| errors.is_empty());
        if let Some(all) = all.and_then(|field| field.section("agents.", "a table of agents", &mut problems))
        {
            for (name, field) in all.fields() {
                let known = self.agents.find(name).ok();
                if let Some(agent) = agent(&field, known, &mut problems) {
                    let origin = Origin::File(file.clone(), field.line(&problems));
                    self.said.entry(name.to_owned()).or_default().push(origin);
                    self.agents = std::mem::take(&mut self.agents).with(name, agent);
                }
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems.into()) }
    }
}

/// The agents of a plan, if there are tasks for any.
///
/// # Errors
///
/// [`Refused`] where a task cannot be given to its agent.
pub(crate) fn agents_of(plan: &Plan, config: &Config) -> Result<Option<Agents>, Refused> {
    let mut is_any = false;
    for task in plan.left() {
        let Spec::Agent(spec) = &task.spec else { continue };
        is_any = true;
        config.agents.check(spec).map_err(|why| Refused::one(format!("{}: {why}", task.label)))?;
    }
    Ok(is_any.then(|| config.agents.clone()))
}

/// The text of a file; `None` where it is not there.
fn load(file: &Path) -> Result<Option<String>, String> {
    match manifest::load(file) {
        Ok(source) => Ok(Some(source)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: cannot be read: {error}", text::path(file))),
    }
}

/// True where both are the same file, however it is written.
fn is_one(a: &Path, b: &Path) -> bool {
    let whole = |file: &Path| file.canonicalize().or_else(|_| path::absolute(file));
    matches!((whole(a), whole(b)), (Ok(a), Ok(b)) if a == b)
}

/// An agent as a file has it: the keys that are there, and of one that is known the rest as it was.
fn agent(field: &Field<'_, '_>, known: Option<&Agent>, problems: &mut Problems<'_>) -> Option<Agent> {
    let section = field.section("", "a table, such as { command = [\"my-agent\"] }", problems)?;
    let top: Vec<&str> = keys_of("").collect();
    section.refuse_unknown(&AGENT_KEYS, &[(&top, "to the top")], problems);
    let mut agent = known.cloned().unwrap_or_else(|| Agent::acp([""; 0]));
    if let Some(field) = section.field("kind") {
        match field.string(problems) {
            Some("acp") => agent.way = Way::Acp,
            Some("command") => agent.way = Way::Command,
            Some(_) => field.wrong("use \"acp\" or \"command\"", problems),
            None => {}
        }
    }
    let mut strings = |key| section.field(key).and_then(|field| field.strings(problems));
    agent.command = strings("command").unwrap_or(agent.command);
    for name in strings("pass").into_iter().flatten() {
        if !agent.pass.contains(&name) {
            agent.pass.push(name);
        }
    }
    agent.env.extend(section.field("env").map(|field| field.variables(problems)).unwrap_or_default());
    if let Some(rights) = section.field("rights").and_then(|field| rights(&field, problems)) {
        agent.rights = rights;
    }
    if let Some(field) = section.field("modes") {
        modes(&field, &mut agent, problems);
    }
    if let Err((key, problem)) = agent.check() {
        problems.add(section.place(key), key, problem);
    }
    Some(agent)
}

/// The mode of the agent's sessions for each of the rights that is named; an empty one stands for none.
fn modes(field: &Field<'_, '_>, agent: &mut Agent, problems: &mut Problems<'_>) {
    let Some(section) = field.section("modes.", "a table, such as { read-only = \"ask\" }", problems) else {
        return;
    };
    section.refuse_unknown(&Rights::ALL.map(Rights::as_str), &[], problems);
    for rights in Rights::ALL {
        if let Some(mode) = section.field(rights.as_str()).and_then(|field| field.string(problems)) {
            *agent = agent.clone().modes(rights, Some(mode).filter(|mode| !mode.is_empty()));
        }
    }
}

/// One of the three.
pub(crate) fn rights(field: &Field<'_, '_>, problems: &mut Problems<'_>) -> Option<Rights> {
    let rights = Rights::parse(field.string(problems)?);
    if rights.is_none() {
        field.wrong(RIGHTS, problems);
    }
    rights
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files of the folder and the user.
    fn written(here: &str, users: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("config/fanin")).unwrap();
        for (file, text) in [("fanin.toml", here), ("config/fanin/fanin.toml", users)] {
            std::fs::write(folder.path().join(file), text).unwrap();
        }
        folder
    }

    fn resolved(folder: &Path, variables: &[(&str, &str)]) -> Result<Config, Refused> {
        let variable = |name: &str| {
            if name == "XDG_CONFIG_HOME" {
                return Some(folder.join("config").into_os_string());
            }
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        Config::of(variable, folder, Rights::Full)
    }

    /// All that is wrong, without the folder that the files are in.
    fn problems(here: &str, users: &str, variables: &[(&str, &str)]) -> String {
        let folder = written(here, users);
        let refused = resolved(folder.path(), variables).unwrap_err();
        refused.problems.join("\n").replace(&format!("{}/", folder.path().display()), "")
    }

    fn parsed(text: &str) -> Result<Agents, Vec<String>> {
        let folder = written(text, "");
        let refused = |refused: Refused| {
            let folder = format!("{}/", folder.path().display());
            refused.problems.iter().map(|problem| problem.replace(&folder, "")).collect()
        };
        resolved(folder.path(), &[]).map(|config| config.agents).map_err(refused)
    }

    #[test]
    fn an_agent_is_added_and_a_known_one_is_changed_key_by_key() {
        let agents = parsed(
            "[agents.mine]\nkind = \"command\"\ncommand = [\"llm\", \"-p\", \"{prompt}\"]\nrights = \"full\"\n\
             [agents.opencode]\nrights = \"edit\"\npass = [\"MY_KEY\"]\nenv = { A = \"1\" }\n",
        );
        let agents = agents.unwrap();
        let mine = agents.find("mine").unwrap();
        assert_eq!((mine.way, mine.rights), (Way::Command, Rights::Full));
        let known = Agents::default();
        let (was, is) = (known.find("opencode").unwrap(), agents.find("opencode").unwrap());
        assert_eq!(*is, was.clone().rights(Rights::Edit).pass(["MY_KEY"]).env("A", "1"));
        assert_eq!(agents.find("claude"), known.find("claude"));
        let agents = parsed("[agents.codex]\nmodes = { edit = \"agent\", full = \"\" }\n").unwrap();
        let modes = &agents.find("codex").unwrap().modes;
        let expected = [vec!["read-only"], vec!["agent"], vec![]];
        assert_eq!(modes.values().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    }

    #[test]
    fn all_that_is_wrong_is_told_with_its_place() {
        let problems = parsed(
            "agent = 1\n[agents]\nx = 1\n[agents.a]\nkind = \"mcp\"\n[agents.b]\nkind = \"command\"\ncommand = [\"x\"]\n\
             [agents.c]\ncomand = [\"x\"]\nrights = \"root\"\n\
             [agents.d]\ncommand = [\"x\"]\nmodes = { read = \"a\", full = 1 }\n",
        );
        expect_test::expect![[r#"
            fanin.toml:1:1: agent: unknown key; did you mean `agents`?
            fanin.toml:3:5: agents.x: must be a table, such as { command = ["my-agent"] }, not an integer
            fanin.toml:4:1: command: the program is missing
            fanin.toml:5:8: kind: use "acp" or "command"
            fanin.toml:8:11: command: an agent of kind "command" needs {prompt} in one of its arguments
            fanin.toml:9:1: command: the program is missing
            fanin.toml:10:1: comand: unknown key; did you mean `command`?
            fanin.toml:11:10: rights: use "read-only", "edit" or "full"
            fanin.toml:14:11: modes.read: unknown key; did you mean `read-only`?
            fanin.toml:14:30: modes.full: must be a string, not an integer"#]]
        .assert_eq(&problems.unwrap_err().join("\n"));
        assert!(parsed("[agents").unwrap_err()[0].starts_with("fanin.toml:1:"));
    }

    #[test]
    fn a_variable_wins_over_the_folder_and_the_folder_over_the_user() {
        let folder = written(
            "concurrency = 4\nlog = \"info\"\n[limits]\ntimeout = \"5m\"\n[budget]\nusd = 2\n",
            "concurrency = 2\ndrain = \"0s\"\nstate_dir = \"/s\"\n[limits]\nretries = 3\n[budget]\nusd = 1\nsteps = 9\n",
        );
        let of = |variables| resolved(folder.path(), variables).unwrap().settings;
        let settings = of(&[]);
        assert_eq!((settings.concurrency(), settings.drain().as_secs()), (4, 0));
        let limits = settings.limits();
        assert_eq!((limits.run_ms, limits.retries, limits.idle_ms), (Some(300_000), Some(3), None));
        let budget = settings.budget();
        assert_eq!((budget.usd_micros, budget.steps), (Some(2_000_000), Some(9)));
        assert_eq!(settings.state(), Ok("/s".into()));
        let settings = of(&[
            ("FANIN_CONCURRENCY", "7"),
            ("FANIN_BUDGET", "usd=0.50,time=1h"),
            ("FANIN_STATE_DIR", "/v"),
            ("FANIN_TIMEOUT", ""),
        ]);
        assert_eq!((settings.concurrency(), settings.limits().run_ms), (7, Some(300_000)));
        let budget = settings.budget();
        assert_eq!((budget.usd_micros, budget.steps, budget.ms), (Some(500_000), Some(9), Some(3_600_000)));
        assert_eq!(settings.state(), Ok("/v".into()));
    }

    #[test]
    fn the_least_rights_hold_whoever_says_them() {
        let folder =
            written("rights = \"edit\"\n", "rights = \"full\"\n[agents.claude]\nrights = \"full\"\n");
        let rights = |variables| {
            let config = resolved(folder.path(), variables).unwrap();
            (config.settings.rights(), config.agents.find("claude").unwrap().rights)
        };
        assert_eq!(rights(&[]).0, Rights::Edit);
        assert_eq!(rights(&[("FANIN_RIGHTS", "full")]).0, Rights::Edit);
        assert_eq!(rights(&[("FANIN_RIGHTS", "read-only")]).0, Rights::ReadOnly);
        let around = Config::of(|_| None, folder.path(), Rights::ReadOnly).unwrap();
        assert_eq!(around.settings.rights(), Rights::ReadOnly);
    }

    #[test]
    fn settings_that_contradict_are_refused_with_both_names_and_both_places() {
        let told = problems("[limits]\nidle = \"10m\"\n", "", &[("FANIN_TIMEOUT", "5m")]);
        expect_test::expect!["`limits.idle` (10m, fanin.toml:2) can never pass, since `limits.timeout` (5m, FANIN_TIMEOUT) comes first; lower the one, or raise the other"].assert_eq(&told);
        let told = problems("[budget]\nestimate = 2\n", "[budget]\nusd = 1.50\n", &[]);
        expect_test::expect!["nothing would ever start: `budget.estimate` (2.00, fanin.toml:2) is more than `budget.usd` (1.50, config/fanin/fanin.toml:2); lower the one, or raise the other"].assert_eq(&told);
    }

    #[test]
    fn bad_values_and_keys_are_told_all_at_once_with_file_line_and_way_out() {
        let told = problems(
            "concurency = 3\ntimeout = \"5m\"\nlog = \"loud\"\nstate_dir = \"/s\"\n[limits]\nretries = 51\nusd = 1\n",
            "state_dir = \"runs\"\ndrain = 30\n[budget]\nusd = 0\n[limit]\n",
            &[("FANIN_CONCURRENCY", "0"), ("FANIN_RIGHTS", "much"), ("FANIN_BUDGET", "usdd=1")],
        );
        expect_test::expect![[r#"
            FANIN_CONCURRENCY is "0": it can be a whole number from 1 to 1000000; change it, or unset it
            FANIN_RIGHTS is "much": it can be read-only, edit, full; change it, or unset it
            FANIN_BUDGET is "usdd=1": unknown key `usdd`; did you mean `usd`?; change it, or unset it
            fanin.toml:1:1: concurency: unknown key; did you mean `concurrency`?
            fanin.toml:2:1: timeout: unknown key; it belongs into [limits]
            fanin.toml:3:7: log: it can be "off", "error", "warn", "info", "debug", "trace"
            fanin.toml:4:13: state_dir: only your own file says where runs are kept, else nothing would find them from another folder
            fanin.toml:6:11: limits.retries: must be a whole number from 0 to 50, not 51
            fanin.toml:7:1: limits.usd: unknown key; it belongs into [budget]
            config/fanin/fanin.toml:1:13: state_dir: must be an absolute path
            config/fanin/fanin.toml:2:9: drain: must be a string like "30s" (units: ms, s, m, h), not an integer
            config/fanin/fanin.toml:4:7: budget.usd: `0` is no amount of US dollars; write one like 1.50, above zero
            config/fanin/fanin.toml:5:2: limit: unknown key; did you mean `limits`?"#]]
        .assert_eq(&told);
    }

    #[test]
    fn every_key_is_read_back_from_what_is_shown_of_it() {
        let all = "concurrency = 3\ndrain = \"0ms\"\nfail_on = \"none_ok\"\nlog = \"trace\"\nlog_format = \"json\"\n\
                   log_content = \"on\"\nrights = \"edit\"\nstate_dir = \"/s\"\n[limits]\ntimeout = \"5m\"\nidle = \"1m\"\n\
                   queue_timeout = \"2h\"\nstart_timeout = \"1500ms\"\ntotal_timeout = \"1h\"\nretries = 0\nresume = \"rerun\"\n\
                   [budget]\nusd = 1.25\ntokens = 5\nsteps = 6\ntime = \"7m\"\nestimate = 0.10\n";
        let shown = |folder: &Path| {
            let config = resolved(folder, &[]).unwrap();
            let mut out = Vec::new();
            show::text(&config, false, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let first = shown(written("", all).path());
        // A table of agents would be the next.
        let again = shown(written("", &first).path());
        assert_eq!(first, again);
        for key in &settings::KEYS {
            assert!(first.contains(&format!("{} = ", key.name)), "{} is not shown: {first}", key.name);
        }
    }
}
