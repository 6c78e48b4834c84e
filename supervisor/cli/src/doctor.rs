//! `fanin doctor`: which agents are there and answer. It starts each, asks who it is, and gives it no prompt.

use std::io::{self, Write};
use std::path::Path;

use fanin_acp::{Agent, Agents, Greeting, Way, greet_agent};
use fanin_protocol::limits::{AGENT_ANSWER_WAIT, DOCTOR_AT_ONCE};
use fanin_protocol::{Rights, text};
use serde::Serialize;

use crate::drive::SELF;
use crate::exit::Exit;

/// The words of `fanin doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Only these agents; then one that does not answer makes exit code 1
    #[arg(value_name = "AGENT")]
    names: Vec<String>,

    /// One JSON document (fanin.doctor/1)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    agents: Vec<Found<'a>>,
}

/// What is said of one agent.
#[derive(Debug, Serialize)]
struct Found<'a> {
    name: &'a str,
    kind: &'static str,
    rights: Rights,
    status: &'static str,
    /// Who it says it is, or what is wrong.
    text: String,
}

impl DoctorArgs {
    /// The agents that are asked.
    ///
    /// # Errors
    ///
    /// A name that is none, in a sentence.
    fn chosen<'a>(&'a self, agents: &'a Agents) -> Result<Vec<(&'a str, &'a Agent)>, String> {
        if self.names.is_empty() {
            return Ok(agents.iter().collect());
        }
        self.names.iter().map(|name| Ok((name.as_str(), agents.find(name)?))).collect()
    }
}

/// Asks, and writes what came of it.
///
/// # Errors
///
/// The writer's.
pub(crate) async fn run(
    args: &DoctorArgs,
    agents: &Agents,
    out: &mut impl Write,
) -> io::Result<Result<Exit, String>> {
    let chosen = match args.chosen(agents) {
        Ok(chosen) => chosen,
        Err(why) => return Ok(Err(why)),
    };
    let mut found = Vec::new();
    for some in chosen.chunks(DOCTOR_AT_ONCE) {
        let asked: Vec<_> = some
            .iter()
            .map(|(_, agent)| {
                let agent = (*agent).clone();
                tokio::spawn(
                    async move { greet_agent(&agent, Some(Path::new(SELF)), AGENT_ANSWER_WAIT).await },
                )
            })
            .collect();
        for ((name, agent), asked) in some.iter().zip(asked) {
            let greeting = asked.await.unwrap_or_else(|panic| Greeting::Mute(panic.to_string()));
            found.push(found_of(name, agent, greeting));
        }
    }
    let all_answer = found.iter().all(|found| matches!(found.status, "answers" | "not_asked"));
    if args.json {
        serde_json::to_writer(&mut *out, &Document { schema: "fanin.doctor/1", agents: found })?;
        out.write_all(b"\n")?;
    } else {
        let width = found.iter().map(|found| found.name.len()).max().unwrap_or(0);
        for Found { name, kind, rights, status, text } in &found {
            let colon = if text.is_empty() { "" } else { ": " };
            // It is an agent's own word, and goes to a terminal.
            let text = text::one_line(text);
            writeln!(out, "{name:width$}  {kind:7}  {rights:9}  {}{colon}{text}", status.replace('_', " "))?;
        }
    }
    Ok(Ok(if all_answer || args.names.is_empty() { Exit::Done } else { Exit::SomeNotCompleted }))
}

fn found_of<'a>(name: &'a str, agent: &Agent, greeting: Greeting) -> Found<'a> {
    let (status, text) = match greeting {
        Greeting::Answered(who) => ("answers", who),
        Greeting::NotAsked => ("not_asked", "a command is run as it is".to_owned()),
        Greeting::Missing(why) => ("missing", why),
        Greeting::Mute(why) => ("no_answer", why),
    };
    let kind = match agent.way {
        Way::Acp => "acp",
        Way::Command => "command",
    };
    Found { name, kind, rights: agent.rights, status, text }
}
