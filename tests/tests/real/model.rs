//! A model that says what it is told to, over the wires of chat completions, of responses and of messages. What it does not
//! answer stays open until the other end goes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{messages, responses};

/// How the prompts of a host begin.
pub(crate) const WOKEN: &str = "[fanin]";

/// Tells calls apart.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// What a request is answered with.
pub(crate) enum Reply {
    Text(&'static str),
    /// A text that takes so long.
    After(Duration, &'static str),
    Calls(Vec<(String, Value)>),
    /// A call whose arguments stop in the middle.
    Cut(&'static str, &'static str),
    Never,
    /// None now: it has too much to do (429, or 529).
    Busy(u16),
}

/// A command that ends with the folder that it runs in.
const LONG: &str = "while [ -e opencode.json ]; do sleep 0.2; done";

fn long() -> (String, Value) {
    ("bash".into(), json!({"command": LONG, "description": "long"}))
}

fn task(name: &str, prompt: &str, is_background: bool) -> (String, Value) {
    let mut args =
        json!({"description": format!("job {name}"), "prompt": prompt, "subagent_type": "general"});
    if is_background {
        args["background"] = true.into();
    }
    ("task".into(), args)
}

/// Three jobs of a hosted parent, in the background.
fn hosted(request: &Value) -> (String, Value) {
    let tasks = [2, 4, 6].map(|seconds| json!({"shell": format!("sleep {seconds} && echo slept {seconds}")}));
    (full(request, "task_parallel"), json!({"tasks": tasks, "background": true}))
}

/// Three that end with the folder that they run in.
fn held(request: &Value) -> (String, Value) {
    let tasks =
        [1, 2, 3].map(|n| json!({"id": format!("held-{n}"), "shell": format!("touch launched; {LONG}")}));
    (full(request, "task_parallel"), json!({"tasks": tasks, "background": true}))
}

/// The same of three agents, which work for 1, 2 and 3 s.
fn agents(request: &Value, agent: &str) -> (String, Value) {
    let task = |n: u32| json!({"agent": agent, "prompt": format!("WORK after {n} seconds")});
    let tasks = [1, 2, 3].map(task);
    (full(request, "task_parallel"), json!({"tasks": tasks, "background": true}))
}

/// The name of a tool of ours among those that an agent has: each has its own names for the tools of others, and they end
/// with ours.
fn full(request: &Value, name: &str) -> String {
    let tools = request["tools"].as_array().into_iter().flatten();
    let names = tools.filter_map(|tool| tool["name"].as_str().or_else(|| tool["function"]["name"].as_str()));
    let full = names.filter(|full| full.ends_with(name)).max_by_key(|full| full.len());
    full.unwrap_or(name).to_owned()
}

/// The calls that a question asks for: one after another, each once the one before was answered.
fn next_call(request: &Value, calls: &[(String, Value)]) -> Option<(String, Value)> {
    let messages = request["messages"].as_array().unwrap();
    let asked = messages.iter().rposition(|message| message["role"] == "user")?;
    let (name, arguments) =
        calls.get(messages[asked..].iter().filter(|message| message["role"] == "tool").count())?;
    Some((full(request, name), arguments.clone()))
}

/// The seconds that a worker's model is told to take.
fn work(asked: &str) -> Option<Duration> {
    let (_, seconds) = asked.split_once("WORK after ")?;
    seconds.split_whitespace().next()?.parse().ok().map(Duration::from_secs)
}

fn reply(request: &Value, calls: &[(String, Value)]) -> Reply {
    let messages = request["messages"].as_array().unwrap();
    let is = |role: &str| messages.last().is_some_and(|message| message["role"] == role);
    let asked = messages.iter().rev().find(|message| message["role"] == "user").map(text).unwrap_or_default();
    let has = |words: &str| asked.contains(words);
    if request["model"] == "mock-small" {
        Reply::Text("A title")
    } else if has("CALLS go") {
        next_call(request, calls).map_or(Reply::Text("noted"), |call| Reply::Calls(vec![call]))
    } else if has("HELLO") {
        Reply::Text("AFTER ok")
    } else if is("tool") || has("<task id=") {
        Reply::Text("noted")
    } else if has(WOKEN) {
        Reply::Text("closing words")
    } else if has("HOSTED go") {
        Reply::Calls(vec![hosted(request)])
    } else if has("HELD go") {
        Reply::Calls(vec![held(request)])
    } else if has("MIDTURN go") {
        let stays = json!({"command": format!("touch midturn; {LONG}"), "description": "stays"});
        Reply::Calls(vec![held(request), ("bash".into(), stays)])
    } else if let Some((_, agent)) = asked.split_once("AGENTS go ") {
        Reply::Calls(vec![agents(request, agent.split_whitespace().next().unwrap_or_default())])
    } else if has("THREE go") {
        let child = |seconds: u32| task(&seconds.to_string(), &format!("WORK after {seconds} s"), true);
        Reply::Calls([2, 4, 6].map(child).into())
    } else if let Some(time) = work(&asked) {
        Reply::After(time, "worked")
    } else if has("PARENT go") {
        Reply::Calls(vec![
            task("c", "WORK commands", false),
            task("s1", "WORK slow", false),
            task("s2", "WORK slow", true),
            long(),
        ])
    } else if has("BACKGROUND go") {
        Reply::Calls(vec![task("b", "WORK slow", true)])
    } else if has("DONE go") {
        Reply::Calls(vec![task("d", "WORK fast", true)])
    } else if let Some((_, file)) = asked.split_once("TOUCH go ") {
        let file = file.split_whitespace().next().unwrap_or_default();
        Reply::Calls(vec![(
            "bash".into(),
            json!({"command": format!("touch {file}"), "description": "touch"}),
        )])
    } else if has("ARGS go") {
        Reply::Cut("bash", "{\"command\": \"ec")
    } else if has("COMMANDS go") {
        let long = || ("exec_command".into(), json!({"cmd": LONG, "yield_time_ms": 30_000}));
        Reply::Calls(vec![long(), long()])
    } else if has("WORK commands") {
        Reply::Calls(vec![long(), long()])
    } else if has("WORK slow") {
        Reply::Never
    } else {
        Reply::Text("ok")
    }
}

/// The text of a message, which can be in pieces.
fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(pieces) => pieces.iter().filter_map(|piece| piece["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// A request as the model has seen it.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) request: Value,
    pub(crate) at: Instant,
    /// When its answer was written.
    pub(crate) answered: Option<Instant>,
}

impl Seen {
    /// True where a message of it has these words.
    pub(crate) fn is_of(&self, words: &str) -> bool {
        self.request["model"] == "mock-1" && self.said().iter().any(|text| text.contains(words))
    }

    /// Its messages.
    pub(crate) fn said(&self) -> Vec<String> {
        self.request["messages"].as_array().unwrap().iter().map(text).collect()
    }

    /// What tools have answered in it, in order.
    pub(crate) fn answers(&self) -> Vec<String> {
        let messages = self.request["messages"].as_array().unwrap().iter();
        messages.filter(|message| message["role"] == "tool").map(text).collect()
    }
}

/// The model at work.
pub(crate) struct Model {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<Seen>>>,
    calls: Arc<Mutex<Vec<(String, Value)>>>,
    /// What it is too busy for: so often, where its last question has these words, with this status.
    busy: Busy,
}

type Busy = Arc<Mutex<Vec<(String, usize, u16)>>>;

impl Model {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let model = Self {
            port: listener.local_addr().unwrap().port(),
            requests: Arc::default(),
            calls: Arc::default(),
            busy: Arc::default(),
        };
        let (requests, calls) = (Arc::clone(&model.requests), Arc::clone(&model.calls));
        let busy = Arc::clone(&model.busy);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, requests, busy) = (stream.unwrap(), Arc::clone(&requests), Arc::clone(&busy));
                let calls = calls.lock().unwrap().clone();
                // That the other end is gone is how most of these end.
                thread::spawn(move || answer(stream, &requests, (&calls, &busy)).ok());
            }
        });
        model
    }

    /// What it calls from now on where it is asked `CALLS go`, one call after another.
    pub(crate) fn calls(&self, calls: &[(&str, Value)]) {
        *self.calls.lock().unwrap() =
            calls.iter().map(|(name, args)| ((*name).to_owned(), args.clone())).collect();
    }

    /// Has it refuse the next requests whose last question has these words, with this status.
    pub(crate) fn is_busy(&self, words: &str, times: usize, status: u16) {
        self.busy.lock().unwrap().push((words.to_owned(), times, status));
    }

    /// True once there was a request whose last question has these words.
    pub(crate) fn was_asked(&self, words: &str) -> bool {
        self.requests.lock().unwrap().iter().any(|seen| seen.is_of(words))
    }

    /// The requests so far that have these words in a message.
    pub(crate) fn seen(&self, words: &str) -> Vec<Seen> {
        self.requests.lock().unwrap().iter().filter(|seen| seen.is_of(words)).cloned().collect()
    }

    /// The questions that began with these words and were answered, in order: one for each request whose last message is one.
    pub(crate) fn questions(&self, start: &str) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let of_parent =
            requests.iter().map(|seen| &seen.request).filter(|request| request["model"] == "mock-1");
        let last = of_parent.filter_map(|request| request["messages"].as_array()?.last());
        let asked = last.filter(|message| message["role"] == "user").map(text);
        asked.filter(|text| text.trim_start().starts_with(start)).collect()
    }

    /// All messages of the last request whose last question has these words.
    pub(crate) fn last(&self, words: &str) -> String {
        let requests = self.requests.lock().unwrap();
        let seen = requests.iter().rev().find(|seen| seen.is_of(words)).expect("the model was asked");
        seen.said().join("\n")
    }
}

/// The wire of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Chat,
    Responses,
    Messages,
}

/// The status of one that it is too busy for.
fn refusal(request: &Value, busy: &Busy) -> Option<u16> {
    let messages = request["messages"].as_array()?;
    let asked = messages.iter().rev().find(|message| message["role"] == "user").map(text)?;
    let mut busy = busy.lock().unwrap();
    let (_, times, status) =
        busy.iter_mut().find(|(words, times, _)| *times > 0 && asked.contains(words.as_str()))?;
    *times -= 1;
    Some(*status)
}

fn answer(
    stream: TcpStream,
    requests: &Mutex<Vec<Seen>>,
    (calls, busy): (&[(String, Value)], &Busy),
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut length, mut kind) = (0, Kind::Chat);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if line.starts_with("post ") && line.contains("/responses ") {
            kind = Kind::Responses;
        } else if line.starts_with("post ") && (line.contains("/messages ") || line.contains("/messages?")) {
            kind = Kind::Messages;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    if length == 0 {
        // Such as a list of models, which nobody needs.
        return write!(
            reader.get_mut(),
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }
    let request: Value = serde_json::from_slice(&body)?;
    let request = match kind {
        Kind::Chat => request,
        Kind::Responses => responses::as_chat(&request),
        Kind::Messages => messages::as_chat(&request),
    };
    let reply = refusal(&request, busy).map_or_else(|| reply(&request, calls), Reply::Busy);
    let place = {
        let mut requests = requests.lock().unwrap();
        requests.push(Seen { request, at: Instant::now(), answered: None });
        requests.len() - 1
    };
    if let Reply::After(time, _) = &reply {
        thread::sleep(*time);
    }
    write_reply(stream, reader, kind, reply)?;
    requests.lock().unwrap()[place].answered = Some(Instant::now());
    Ok(())
}

fn write_reply(
    stream: TcpStream,
    mut reader: BufReader<TcpStream>,
    kind: Kind,
    reply: Reply,
) -> std::io::Result<()> {
    let mut out = stream;
    if let Reply::Busy(status) = reply {
        let kind = if status == 429 { "rate_limit_error" } else { "overloaded_error" };
        let error =
            json!({"type": "error", "error": {"type": kind, "message": "too much to do"}}).to_string();
        let length = error.len();
        return write!(
            out,
            "HTTP/1.1 {status} Busy\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{error}"
        );
    }
    write!(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")?;
    match kind {
        Kind::Chat => {}
        Kind::Responses => return responses::write(&mut out, &reply),
        Kind::Messages => return messages::write(&mut out, &reply),
    }
    let mut send = |delta: Value, end: Value| {
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "mock-1",
            "choices": [{"index": 0, "delta": delta, "finish_reason": end}]});
        write!(out, "data: {chunk}\n\n").and_then(|()| out.flush())
    };
    let call = |index: usize, name: &str, arguments: &str| {
        let id = format!("call_{name}_{index}_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": arguments}}]})
    };
    send(json!({"role": "assistant", "content": ""}), Value::Null)?;
    match reply {
        Reply::Text(text) | Reply::After(_, text) => {
            send(json!({"content": text}), Value::Null)?;
            send(json!({}), "stop".into())?;
        }
        Reply::Calls(calls) => {
            for (index, (name, arguments)) in calls.iter().enumerate() {
                send(call(index, name, &arguments.to_string()), Value::Null)?;
            }
            send(json!({}), "tool_calls".into())?;
        }
        Reply::Cut(name, arguments) => {
            send(call(0, name, arguments), Value::Null)?;
            reader.read_to_end(&mut Vec::new())?;
        }
        Reply::Never => {
            reader.read_to_end(&mut Vec::new())?;
        }
        // Written above.
        Reply::Busy(_) => {}
    }
    write!(out, "data: [DONE]\n\n")
}
