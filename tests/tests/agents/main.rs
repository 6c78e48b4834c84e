//! Agents over the protocol, played by `fakeagent`: what a launcher sees of those that work, and of each way to misbehave.

mod broken;
mod rights;
mod stopped;
mod working;

use std::path::Path;
use std::time::Duration;

use fanin_acp::{AcpRunner, Agent, Agents};
use fanin_protocol::{AgentSpec, Record, ResultEntry, Rights};
use fanin_subprocess::SubprocessRunner;
use fanin_supervisor::{Delivery, Filter, Job, JobSpec, Session, Since, Supervisor};
use fanin_tests::cases::{STUCK, soon};

/// The agent.
const FAKE: &str = env!("CARGO_BIN_EXE_fakeagent");

/// A program that is its own shim.
const HOST: &str = env!("CARGO_BIN_EXE_host");

const MS: Duration = Duration::from_millis(1);

/// A fake agent that misbehaves in this way before its prompt.
fn fake(way: &str) -> Agent {
    Agent::acp([FAKE, way]).rights(Rights::Full)
}

/// All ways, each as an agent of its own: `well` is the one that can be talked to.
fn agents() -> Agents {
    let ways = [
        "well",
        "dies",
        "noisy",
        "garbage",
        "mute",
        "sessionless",
        "old",
        "wrong",
        "unwilling",
        "closes",
        "logged-out",
    ];
    let agents = ways.into_iter().fold(Agents::none(), |agents, way| agents.with(way, fake(way)));
    let plain = Agent::command([FAKE, "plain", "{prompt}"]);
    agents.with("plain", plain).with("missing", Agent::acp(["no-such-agent"]))
}

/// A supervisor with these agents, and a session of it.
struct Place {
    supervisor: Supervisor,
    session: Session,
}

async fn place_of(agents: Agents) -> Place {
    let runner = AcpRunner::new(agents).with_shim(HOST).with_commands(SubprocessRunner::with_shim(HOST));
    let supervisor = Supervisor::builder().runner(runner).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    Place { supervisor, session }
}

async fn place() -> Place {
    place_of(agents()).await
}

impl Place {
    async fn start(&self, spec: JobSpec) -> Job {
        soon(self.session.start(spec)).await.unwrap()
    }

    /// Runs a script to its end.
    async fn run(&self, script: &str) -> ResultEntry {
        self.ended(JobSpec::agent("job", "well", script)).await
    }

    async fn ended(&self, spec: JobSpec) -> ResultEntry {
        self.start(spec).await.wait(STUCK).await.unwrap()
    }

    /// All records so far of these kinds.
    async fn records(&self, kinds: &[&'static str]) -> Vec<Record> {
        let mut all = self.supervisor.subscribe(Filter::all().kinds(kinds), Since::Start).await.unwrap();
        let mut records = Vec::new();
        while let Ok(Delivery::Event(event)) = all.try_next() {
            records.push(event.record().clone());
        }
        records
    }

    /// The parts so far: each with its states, in order.
    async fn parts(&self) -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        for record in self.records(&["part"]).await {
            let Record::ToolPart(part) = record else { panic!("{record:?}") };
            let start = format!("{} {}:", part.call, part.name);
            let mark = if part.interrupted { "!" } else { "" };
            let word = format!(" {:?}{mark}", part.state);
            match parts.iter_mut().find(|line| line.starts_with(&start)) {
                Some(line) => line.push_str(&word),
                None => parts.push(format!("{start}{word}")),
            }
        }
        parts
    }
}

fn text(entry: &ResultEntry) -> &str {
    entry.output.as_ref().map_or("", |output| &output.text)
}

fn message(entry: &ResultEntry) -> &str {
    entry.message.as_deref().unwrap_or_default()
}

/// A script in a folder, with rights of its own.
fn spec_in(folder: &Path, script: &str) -> AgentSpec {
    AgentSpec::new("well", script).cwd(folder)
}
