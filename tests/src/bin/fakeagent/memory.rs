//! What an agent knows of its session: what its next turns shall do, and which calls have no end. It is kept in a file of the
//! session's folder, where whoever loads the session finds it.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::tools::Tools;

/// How prompts begin that are no script.
const WOKEN: &str = "[fanin]";

/// What stands before the objective in a prompt for an agent that has lost its context.
const LOST: &str = "objective:\n\n";

/// A session.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) folder: String,
    /// The mode that was set.
    pub(crate) mode: String,
    /// What it was opened with beside all that the protocol knows.
    pub(crate) meta: Value,
    /// It is kept for a later life.
    keeps: bool,
    /// The servers that were given.
    servers: Value,
    tools: Option<Tools>,
    /// What the turns after this one do.
    turns: Vec<String>,
    /// Calls without an end.
    open: Vec<String>,
    /// The answer of the last call.
    pub(crate) answer: Value,
    pub(crate) calls: u64,
}

impl Session {
    pub(crate) fn new(id: &str, keeps: bool, params: &Value) -> Self {
        let folder = params["cwd"].as_str().unwrap().to_owned();
        let (servers, meta) = (params["mcpServers"].clone(), params["_meta"].clone());
        Self { id: id.to_owned(), folder, keeps, servers, meta, ..Self::default() }
    }

    /// One of an earlier life; `None` where nothing is known of it.
    pub(crate) fn load(params: &Value) -> Option<Self> {
        let id = params["sessionId"].as_str().unwrap();
        let mut session = Self::new(id, true, params);
        let kept: Value = serde_json::from_slice(&fs::read(session.file()).ok()?).unwrap();
        let texts = |key: &str| -> Vec<String> {
            kept[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
        };
        (session.turns, session.open) = (texts("turns"), texts("open"));
        Some(session)
    }

    /// Calls without an end.
    pub(crate) fn open(&self) -> &[String] {
        &self.open
    }

    /// The script of a turn: the prompt, or what an earlier one has said of it. Further turns stand behind `||`.
    pub(crate) fn script(&mut self, prompt: &str) -> String {
        self.note(prompt);
        let split = |prompt: &str| prompt.split("||").map(|turn| turn.trim().to_owned()).collect::<Vec<_>>();
        if !prompt.starts_with(WOKEN) {
            self.turns = split(prompt);
        } else if let Some((_, objective)) = prompt.split_once(LOST) {
            self.turns = split(objective.split("\n\n").next().unwrap());
            // What was done before cannot be known: the last word is what is asked for.
            self.turns.drain(..self.turns.len() - 1);
        }
        // The last one is for every prompt that follows: whoever is asked again says it again.
        let script = match self.turns.len() {
            1 => self.turns[0].clone(),
            _ => self.turns.remove(0),
        };
        self.save();
        script
    }

    pub(crate) fn begun(&mut self, call: &str) {
        self.open.push(call.to_owned());
        self.save();
    }

    pub(crate) fn ended(&mut self, call: &str) {
        self.open.retain(|open| open != call);
        self.save();
    }

    /// The servers that were given, by their names.
    pub(crate) fn servers(&self) -> String {
        let names = self.servers.as_array().unwrap().iter().map(|server| server["name"].as_str().unwrap());
        format!("servers: {}", names.collect::<Vec<_>>().join(", "))
    }

    pub(crate) fn tools(&mut self) -> &mut Tools {
        self.tools.get_or_insert_with(|| Tools::start(&self.servers))
    }

    /// Lets go of the server: the next call starts it again.
    pub(crate) fn leave_tools(&mut self) {
        if let Some(tools) = self.tools.take() {
            tools.leave();
        }
    }

    fn file(&self) -> std::path::PathBuf {
        Path::new(&self.folder).join(format!(".{}.json", self.id))
    }

    fn save(&self) {
        if !self.keeps {
            return;
        }
        let (file, part) = (self.file(), Path::new(&self.folder).join(".fake.part"));
        fs::write(&part, json!({"turns": self.turns, "open": self.open}).to_string()).unwrap();
        fs::rename(part, file).unwrap();
    }

    /// Notes a prompt where a test finds it, where it wants to.
    fn note(&self, prompt: &str) {
        let file = Path::new(&self.folder).join("prompts");
        if let Ok(mut file) = OpenOptions::new().append(true).open(file) {
            writeln!(file, "{}", json!(prompt)).unwrap();
        }
    }
}
