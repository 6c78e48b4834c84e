//! One turn: the steps of a prompt, one after the other.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::memory::Session;
use crate::wire::Wire;

/// How a step leaves the turn.
enum Then {
    /// The next step.
    Next,
    /// The turn is over, for this reason.
    Stop(String),
    /// The turn was answered by the step itself, or never will be.
    Over,
}

/// One turn in progress.
struct Turn<'w> {
    wire: &'w mut Wire,
    session: String,
    folder: String,
    memory: &'w mut Session,
    id: Value,
}

/// Plays the script of a prompt and answers it.
pub(crate) fn play(wire: &mut Wire, memory: &mut Session, message: &Value) {
    let session = message["params"]["sessionId"].as_str().unwrap().to_owned();
    let script = memory.script(message["params"]["prompt"][0]["text"].as_str().unwrap());
    let folder = memory.folder.clone();
    let mut turn = Turn { wire, session, folder, memory, id: message["id"].clone() };
    let mut reason = "end_turn".to_owned();
    for step in script.split(';').map(str::trim).filter(|step| !step.is_empty()) {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        match turn.step(word, rest) {
            Then::Next => {}
            Then::Stop(why) => {
                reason = why;
                break;
            }
            Then::Over => return,
        }
    }
    turn.answer(&reason);
}

/// The agent lives on, and nothing more is heard of it: a shell without our output takes our place.
pub(crate) fn close_output() -> ! {
    use std::os::unix::process::CommandExt as _;
    let error = Command::new("/bin/sh").args(["-c", "exec >&-; exec sleep 600"]).exec();
    panic!("{error}");
}

impl Turn<'_> {
    fn step(&mut self, word: &str, rest: &str) -> Then {
        match word {
            // What it says.
            "say" => self.say(rest),
            "think" => self.chunk("agent_thought_chunk", rest),
            "env" => self.say(&std::env::var(rest).unwrap_or_else(|_| "unset".to_owned())),
            "folder" => {
                let folder = self.folder.clone();
                self.say(&folder);
            }
            "mode" => {
                let mode = if self.memory.mode.is_empty() { "unset" } else { &self.memory.mode }.to_owned();
                self.say(&mode);
            }
            "meta" => {
                let meta = self.memory.meta.to_string();
                self.say(&meta);
            }
            "usage" => {
                let (used, cost) = rest.split_once(' ').unwrap();
                let cost = json!({"amount": cost.parse::<f64>().unwrap(), "currency": "USD"});
                let used: u64 = used.parse().unwrap();
                self.update(
                    &json!({"sessionUpdate": "usage_update", "used": used, "size": 1000, "cost": cost}),
                );
            }
            // What it does.
            "tool" => self.tool(rest),
            "done" => self.over(rest, "completed"),
            "failed" => self.over(rest, "failed"),
            "call" => self.call(rest),
            "ask-tool" => self.ask_tool(rest),
            "answer" => {
                let answer = self.memory.answer["summary"].as_str().unwrap_or("-").to_owned();
                self.say(&answer);
            }
            "mail" => {
                let mail = self.memory.answer["mail"]["text"].as_str().unwrap_or("-").to_owned();
                self.say(&mail);
            }
            "code" => {
                let code = self.memory.answer["error"]["code"].as_str().unwrap_or("-").to_owned();
                self.say(&code);
            }
            "servers" => {
                let servers = self.memory.servers();
                self.say(&servers);
            }
            "leave-tools" => self.memory.leave_tools(),
            "make" => std::fs::write(Path::new(&self.folder).join(rest), "").unwrap(),
            "until" => {
                while !Path::new(&self.folder).join(rest).exists() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            "work" => std::thread::sleep(Duration::from_millis(rest.parse().unwrap())),
            "ask" => {
                let (id, kind) = rest.split_once(' ').unwrap();
                return self.ask(id, &format!("run {id}"), kind);
            }
            "ask-as" => {
                let (title, kind) = rest.split_once(' ').unwrap();
                return self.ask(title, title, kind);
            }
            "read" => {
                let asked = json!({"sessionId": self.session, "path": "/x"});
                let id = self.wire.request("fs/read_text_file", &asked);
                let answer = self.until_answered(&id);
                self.say(&format!("read {}", answer["error"]["code"]));
            }
            "child" => self.child(rest),
            // How it ends.
            "stop" => return Then::Stop(rest.to_owned()),
            "error" => {
                self.wire.refuse(&self.id, rest.parse().unwrap(), "it went wrong");
                return Then::Over;
            }
            "exit" => std::process::exit(rest.parse().unwrap()),
            "complain" => eprintln!("{rest}"),
            "abort" => std::process::abort(),
            "close" => close_output(),
            "wait" => return self.until_cancelled(),
            "deaf" => self.deaf(),
            // What nobody should do.
            "twice" => self.answer("end_turn"),
            "elsewhere" => {
                let chunk = chunk("agent_message_chunk", rest);
                self.wire.update("another-session", &chunk);
            }
            "garbage" => self.wire.raw(&format!("{rest}\n")),
            "flood" => self.flood(rest.parse().unwrap()),
            "long" => self.wire.raw(&"x".repeat(rest.parse().unwrap())),
            "pester" => self.pester(rest.parse().unwrap()),
            other => panic!("no step `{other}`"),
        }
        Then::Next
    }

    fn answer(&self, reason: &str) {
        self.wire.answer(&self.id, &json!({"stopReason": reason}));
    }

    fn update(&self, update: &Value) {
        self.wire.update(&self.session, update);
    }

    fn say(&self, words: &str) {
        self.chunk("agent_message_chunk", words);
    }

    fn chunk(&self, kind: &str, words: &str) {
        self.update(&chunk(kind, words));
    }

    /// `ID KIND [INPUT]`: a call is announced and begins.
    fn tool(&mut self, rest: &str) {
        let mut words = rest.splitn(3, ' ');
        let (id, kind) = (words.next().unwrap(), words.next().unwrap());
        let input = words.next().map_or(json!({}), |input| json!({"input": input}));
        self.update(&json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": format!("run {id}"),
            "kind": kind, "status": "pending", "rawInput": input}));
        self.memory.begun(id);
        self.moved(id, "in_progress");
    }

    fn over(&mut self, id: &str, status: &str) {
        self.memory.ended(id);
        self.moved(id, status);
    }

    /// `TOOL ARGUMENTS`: calls a tool that was given, and waits for its answer.
    fn call(&mut self, rest: &str) {
        let (tool, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
        self.memory.calls += 1;
        let id = format!("{tool}-{}", self.memory.calls);
        self.tool(&format!("{id} other"));
        let arguments = serde_json::from_str(arguments).unwrap();
        self.memory.answer = self.memory.tools().call(tool, &arguments);
        self.over(&id, "completed");
    }

    /// As `call`, and does not wait for the answer.
    fn ask_tool(&mut self, rest: &str) {
        let (tool, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
        let arguments = serde_json::from_str(arguments).unwrap();
        self.memory.tools().begin(tool, &arguments);
    }

    fn moved(&self, id: &str, status: &str) {
        self.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status}));
    }

    /// Asks for permission, and says what it was told.
    fn ask(&mut self, id: &str, title: &str, kind: &str) -> Then {
        let mut call = json!({"toolCallId": id, "title": title});
        if kind != "unsaid" {
            call["kind"] = kind.into();
        }
        // In an order that helps nobody who goes by places.
        let option = |kind: &str| json!({"optionId": format!("the {kind}"), "name": "Yes", "kind": kind});
        let options = ["reject_always", "allow_always", "reject_once", "allow_once"].map(option);
        let asked = json!({"sessionId": self.session, "toolCall": call, "options": options});
        let id = self.wire.request("session/request_permission", &asked);
        let answer = self.until_answered(&id);
        let outcome = &answer["result"]["outcome"];
        let told = outcome["optionId"].as_str().or(outcome["outcome"].as_str()).unwrap_or("nothing");
        self.say(&format!("{told}\n"));
        Then::Next
    }

    fn until_answered(&mut self, id: &Value) -> Value {
        loop {
            let message = self.wire.read();
            if message["id"] == *id && message["method"].is_null() {
                return message;
            }
        }
    }

    /// Works until it is told to stop.
    fn until_cancelled(&mut self) -> Then {
        while self.wire.read()["method"] != "session/cancel" {}
        Then::Stop("cancelled".to_owned())
    }

    /// Hears nothing any more and stays.
    fn deaf(&self) -> ! {
        loop {
            std::thread::sleep(Duration::from_secs(3_600));
        }
    }

    /// A process that stays, in a session of its own; its pid goes into a file.
    fn child(&self, file: &str) {
        let file = Path::new(&self.folder).join(file);
        let line = format!("echo $$ > '{0}.new' && mv '{0}.new' '{0}'; exec sleep 600", file.display());
        let mut child = Command::new("setsid");
        child.args(["sh", "-c", &line]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        drop(child.spawn().unwrap());
    }

    /// So many notes of a kind that nobody knows, and of one that all know.
    fn flood(&self, notes: usize) {
        let unknown =
            json!({"jsonrpc": "2.0", "method": "_fake/note", "params": {"text": "x".repeat(1_000)}});
        let known = chunk("agent_message_chunk", &"y".repeat(1_000));
        for _ in 0..notes {
            self.wire.send(&unknown);
            self.update(&known);
        }
    }

    /// So many requests whose answers it does not read.
    fn pester(&mut self, requests: usize) {
        for _ in 0..requests {
            let asked = json!({"sessionId": self.session, "path": "x".repeat(10_000)});
            self.wire.request("fs/read_text_file", &asked);
        }
    }
}

fn chunk(kind: &str, words: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": words.replace("\\n", "\n")}})
}
