//! `fanin config show`: what holds, in the form of a file of configuration, and where each of it stands. Values of variables
//! of agents are not shown.

use std::io::{self, Write};

use fanin_acp::{Agent, Way};
use fanin_protocol::Rights;
use serde::Serialize;
use serde_json::Value as Json;

use super::Config;
use super::settings::{Found, KEYS, Key, Origin, Value};

/// What to do with the configuration.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show what is configured: variables, ./fanin.toml, your own file, defaults
    Show(ShowArgs),
}

/// The words of `fanin config show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// Where each of it stands, as a comment behind it
    #[arg(long)]
    origin: bool,

    /// One JSON document (fanin.config/1), with the origins
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Serialize)]
struct Document<'c> {
    schema: &'static str,
    settings: Vec<Setting>,
    agents: Vec<AgentOf<'c>>,
}

#[derive(Debug, Serialize)]
struct Setting {
    key: &'static str,
    value: Json,
    origin: Place,
    variable: &'static str,
    flag: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct AgentOf<'c> {
    name: &'c str,
    kind: &'static str,
    command: &'c [String],
    pass: Vec<&'c str>,
    env: Vec<&'c str>,
    rights: Rights,
    origins: Vec<Place>,
}

/// Where something stands.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
enum Place {
    Default,
    Variable { name: &'static str },
    File { file: String, line: usize },
    Around,
}

impl From<&Origin> for Place {
    fn from(origin: &Origin) -> Self {
        match origin {
            Origin::Default => Self::Default,
            Origin::Variable(name) => Self::Variable { name },
            Origin::File(file, line) => Self::File { file: file.clone(), line: *line },
            Origin::Around => Self::Around,
        }
    }
}

/// Shows it.
///
/// # Errors
///
/// The writer's.
pub(crate) fn run(args: &ShowArgs, config: &Config, out: &mut dyn Write) -> io::Result<()> {
    if args.json { document(config, out) } else { text(config, args.origin, out) }
}

/// What holds for a key. Where nobody said where runs are kept, the folder follows from the surroundings.
fn held(config: &Config, key: &Key) -> Option<Found> {
    let of_state = || {
        let folder = config.settings.state().ok().filter(|_| key.name == "state_dir")?;
        Some(Found { value: Value::Folder(folder), origin: Origin::Default })
    };
    config.settings.found(key).or_else(of_state)
}

fn json(value: &Value) -> Json {
    match value {
        Value::Count(count) => (*count).into(),
        Value::Time(_) | Value::Word(_) | Value::Folder(_) | Value::Money(_) => value.to_string().into(),
    }
}

/// A value as a file has it.
fn written(value: &Value) -> String {
    match value {
        Value::Count(_) | Value::Money(_) => value.to_string(),
        // A path as it is; for people it may be quoted.
        Value::Folder(folder) => quoted(&folder.to_string_lossy()),
        Value::Time(_) | Value::Word(_) => quoted(&value.to_string()),
    }
}

fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}

fn list<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<_> = texts.into_iter().map(quoted).collect();
    format!("[{}]", texts.join(", "))
}

const fn kind(agent: &Agent) -> &'static str {
    match agent.way {
        Way::Acp => "acp",
        Way::Command => "command",
    }
}

/// As a file of configuration would say it.
///
/// # Errors
///
/// The writer's.
pub(super) fn text(config: &Config, with_origins: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut line = |line: String, origins: &[String]| {
        let comment = if with_origins { format!("  # {}", origins.join(", ")) } else { String::new() };
        writeln!(out, "{line}{comment}")
    };
    for key in &KEYS {
        if let Some(Found { value, origin }) = held(config, key) {
            line(format!("{} = {}", key.name, written(&value)), &[origin.to_string()])?;
        }
    }
    for (name, agent) in config.agents.iter() {
        let origins: Vec<_> = match config.said.get(name) {
            Some(said) => said.iter().map(Origin::to_string).collect(),
            None => vec![Origin::Default.to_string()],
        };
        let name = if name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) && !name.is_empty()
        {
            name.to_owned()
        } else {
            quoted(name)
        };
        line(format!("agents.{name}.kind = {}", quoted(kind(agent))), &origins)?;
        line(
            format!("agents.{name}.command = {}", list(agent.command.iter().map(String::as_str))),
            &origins,
        )?;
        if !agent.pass.is_empty() {
            line(format!("agents.{name}.pass = {}", list(agent.pass.iter().map(String::as_str))), &origins)?;
        }
        line(format!("agents.{name}.rights = {}", quoted(agent.rights.as_str())), &origins)?;
        if !agent.env.is_empty() {
            let names: Vec<_> = agent.env.keys().map(String::as_str).collect();
            line(format!("# agents.{name}.env: {} (values are not shown)", names.join(", ")), &origins)?;
        }
    }
    for key in KEYS.iter().filter(|key| held(config, key).is_none()) {
        writeln!(out, "# {} is not set", key.name)?;
    }
    Ok(())
}

fn document(config: &Config, out: &mut dyn Write) -> io::Result<()> {
    let setting = |key: &Key| {
        let found = held(config, key);
        Setting {
            key: key.name,
            value: found.as_ref().map_or(Json::Null, |found| json(&found.value)),
            origin: found.as_ref().map_or(Place::Default, |found| Place::from(&found.origin)),
            variable: key.variable,
            flag: key.flag,
        }
    };
    let agents = config.agents.iter().map(|(name, agent)| AgentOf {
        name,
        kind: kind(agent),
        command: &agent.command,
        pass: agent.pass.iter().map(String::as_str).collect(),
        env: agent.env.keys().map(String::as_str).collect(),
        rights: agent.rights,
        origins: match config.said.get(name) {
            Some(said) => said.iter().map(Place::from).collect(),
            None => vec![Place::Default],
        },
    });
    let document = Document {
        schema: "fanin.config/1",
        settings: KEYS.iter().map(setting).collect(),
        agents: agents.collect(),
    };
    serde_json::to_writer(&mut *out, &document)?;
    out.write_all(b"\n")
}
