//! From the first message to the prompt, and what can go wrong there.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::memory::Session;
use crate::script;
use crate::wire::Wire;

/// Serves until its input ends. `way` is how: `well`, or one of the words below.
pub(crate) fn serve(way: &str) -> ExitCode {
    let mut wire = Wire::new();
    let mut session = Session::default();
    if way == "dies" {
        eprintln!("no licence");
        return ExitCode::from(7);
    }
    if way == "noisy" {
        wire.raw("Welcome!\n\nloading\n");
    }
    if way == "garbage" {
        loop {
            wire.raw("not a message\n");
        }
    }
    loop {
        let message = wire.read();
        let id = &message["id"];
        match (message["method"].as_str().unwrap_or_default(), way) {
            ("initialize", "mute") | ("session/new", "sessionless") => {}
            ("initialize", "old") => wire.answer(id, &json!({"protocolVersion": 9, "agentCapabilities": {}})),
            ("initialize", "wrong") => wire.answer(id, &json!({"protocolVersion": "nine"})),
            ("initialize", "unwilling") => wire.refuse(id, -32_603, "out of order"),
            ("initialize", "closes") => script::close_output(),
            ("initialize", _) => {
                let info = json!({"name": "fakeagent", "version": "1.2.3"});
                let capabilities = json!({"loadSession": matches!(way, "keeps" | "forgets")});
                wire.answer(
                    id,
                    &json!({"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": info}),
                );
            }
            ("session/new", "logged-out") => wire.refuse(id, -32_000, "Authentication required"),
            ("session/new", _) => {
                session = Session::new("fake-session", way == "keeps", &message["params"]);
                wire.answer(id, &opened(way));
                let none: [Value; 0] = [];
                let commands =
                    json!({"sessionUpdate": "available_commands_update", "availableCommands": none});
                wire.update("fake-session", &commands);
            }
            ("session/load", "keeps") => match Session::load(&message["params"]) {
                Some(loaded) => {
                    session = loaded;
                    replay(&wire, &session);
                    wire.answer(id, &json!({}));
                }
                None => wire.refuse(id, -32_602, "no such session"),
            },
            ("session/load", _) => wire.refuse(id, -32_602, "no such session"),
            ("session/set_mode", "stubborn") => wire.refuse(id, -32_603, "not that one"),
            ("session/set_mode", _) => {
                session.mode = message["params"]["modeId"].as_str().unwrap().to_owned();
                wire.answer(id, &json!({}));
            }
            ("session/prompt", _) => script::play(&mut wire, &mut session, &message),
            _ => {}
        }
    }
}

/// What a new session is: one that has modes begins in the widest of them.
fn opened(way: &str) -> Value {
    if !matches!(way, "modal" | "stubborn") {
        return json!({"sessionId": "fake-session"});
    }
    let modes = ["asks", "edits", "does-all"].map(|id| json!({"id": id, "name": id}));
    json!({"sessionId": "fake-session", "modes": {"currentModeId": "does-all", "availableModes": modes}})
}

/// Tells of an earlier life: what was asked and said, a call that came to its end, and those that did not.
fn replay(wire: &Wire, session: &Session) {
    let chunk =
        |kind: &str, text: &str| json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
    wire.update(&session.id, &chunk("user_message_chunk", "what was asked"));
    wire.update(&session.id, &chunk("agent_message_chunk", "what was said"));
    let call = |id: &str, status: &str| json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": id, "kind": "other", "status": status});
    wire.update(&session.id, &call("earlier", "pending"));
    wire.update(
        &session.id,
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "earlier", "status": "completed"}),
    );
    for id in session.open() {
        wire.update(&session.id, &call(id, "in_progress"));
    }
}
