//! The configuration: `fanin.toml` of the user and of the folder that fanin is started in. It reads files and starts
//! nothing; what is wrong is told with its place.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

use fanin_acp::{Agent, Agents, Way};
use fanin_protocol::{Rights, Spec, layout, text};
use toml::de::DeTable;

use crate::manifest;
use crate::manifest::reader::{Field, Problems, Section};
use crate::nested;
use crate::plan::what::RIGHTS;
use crate::plan::{Plan, Refused};

const TOP_KEYS: [&str; 1] = ["agents"];
const AGENT_KEYS: [&str; 5] = ["kind", "command", "pass", "env", "rights"];

/// The agents there are: those that are known, as the user's file changes them, and as the folder's file changes that.
///
/// # Errors
///
/// [`Refused`] with every problem of the file that has any, or that a variable is none.
pub(crate) fn agents() -> Result<Agents, Refused> {
    let variable = |name: &str| env::var_os(name);
    let files = [layout::config(variable), Some(PathBuf::from(layout::CONFIG))];
    let most = nested::rights()?;
    let agents = files.iter().flatten().try_fold(Agents::default(), |agents, file| read(file, agents));
    Ok(agents?.at_most(most))
}

/// The agents of a plan, if there are tasks for any.
///
/// # Errors
///
/// As [`agents`]; and where a task cannot be given to its agent.
pub(crate) fn agents_of(plan: &Plan) -> Result<Option<Agents>, Refused> {
    let mut agents = None;
    for task in plan.left() {
        let Spec::Agent(spec) = &task.spec else { continue };
        let agents: &Agents = match &mut agents {
            Some(agents) => agents,
            none => none.insert(self::agents()?),
        };
        agents.check(spec).map_err(|why| Refused::one(format!("{}: {why}", task.label)))?;
    }
    Ok(agents)
}

/// The agents as a file changes them. One that is not there changes nothing.
fn read(file: &Path, agents: Agents) -> Result<Agents, Refused> {
    match manifest::load(file) {
        Ok(source) => parse(file, &source, agents),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(agents),
        Err(error) => Err(Refused::one(format!("{}: cannot be read: {error}", text::path(file)))),
    }
}

fn parse(file: &Path, source: &str, mut agents: Agents) -> Result<Agents, Refused> {
    let mut problems = Problems::new(text::path(file), source);
    let (document, errors) = DeTable::parse_recoverable(source);
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        problems.add(at, "syntax", error.message().trim_end());
    }
    let top = Section::new(document.get_ref(), 0, "");
    if errors.is_empty() {
        top.refuse_unknown(&TOP_KEYS, (&AGENT_KEYS, "into an [agents.NAME]"), &mut problems);
    }
    let all = top.field("agents").filter(|_| errors.is_empty());
    if let Some(all) = all.and_then(|field| field.section("agents.", "a table of agents", &mut problems)) {
        for (name, field) in all.fields() {
            let known = agents.find(name).ok();
            if let Some(agent) = agent(&field, known, &mut problems) {
                agents = agents.with(name, agent);
            }
        }
    }
    if problems.is_empty() { Ok(agents) } else { Err(problems.into()) }
}

/// An agent as a file has it: the keys that are there, and of one that is known the rest as it was.
fn agent(field: &Field<'_, '_>, known: Option<&Agent>, problems: &mut Problems<'_>) -> Option<Agent> {
    let section = field.section("", "a table, such as { command = [\"my-agent\"] }", problems)?;
    section.refuse_unknown(&AGENT_KEYS, (&TOP_KEYS, "to the top"), problems);
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
    agent.pass.extend(strings("pass").into_iter().flatten());
    agent.env.extend(section.field("env").map(|field| field.variables(problems)).unwrap_or_default());
    if let Some(rights) = section.field("rights").and_then(|field| rights(&field, problems)) {
        agent.rights = rights;
    }
    if let Err((key, problem)) = agent.check() {
        problems.add(section.place(key), key, problem);
    }
    Some(agent)
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

    fn parsed(text: &str) -> Result<Agents, Vec<String>> {
        parse(Path::new("fanin.toml"), text, Agents::default()).map_err(|refused| refused.problems)
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
    }

    #[test]
    fn all_that_is_wrong_is_told_with_its_place() {
        let problems = parsed(
            "agent = 1\n[agents]\nx = 1\n[agents.a]\nkind = \"mcp\"\n[agents.b]\nkind = \"command\"\ncommand = [\"x\"]\n\
             [agents.c]\ncomand = [\"x\"]\nrights = \"root\"\n",
        );
        expect_test::expect![[r#"
            fanin.toml:1:1: agent: unknown key; did you mean `agents`?
            fanin.toml:3:5: agents.x: must be a table, such as { command = ["my-agent"] }, not an integer
            fanin.toml:4:1: command: the program is missing
            fanin.toml:5:8: kind: use "acp" or "command"
            fanin.toml:8:11: command: an agent of kind "command" needs {prompt} in one of its arguments
            fanin.toml:9:1: command: the program is missing
            fanin.toml:10:1: comand: unknown key; did you mean `command`?
            fanin.toml:11:10: rights: use "read-only", "edit" or "full""#]]
        .assert_eq(&problems.unwrap_err().join("\n"));
        assert!(parsed("[agents").unwrap_err()[0].starts_with("fanin.toml:1:"));
    }
}
