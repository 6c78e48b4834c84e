//! From the first message to the prompt, and what can go wrong there.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::script;
use crate::wire::Wire;

/// Serves until its input ends. `way` is how: `well`, or one of the words below.
pub(crate) fn serve(way: &str) -> ExitCode {
    let mut wire = Wire::new();
    let mut folder = String::new();
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
                wire.answer(id, &json!({"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": info}));
            }
            ("session/new", "logged-out") => wire.refuse(id, -32_000, "Authentication required"),
            ("session/new", _) => {
                folder = message["params"]["cwd"].as_str().unwrap().to_owned();
                wire.answer(id, &json!({"sessionId": "fake-session"}));
                let none: [Value; 0] = [];
                let commands =
                    json!({"sessionUpdate": "available_commands_update", "availableCommands": none});
                wire.update("fake-session", &commands);
            }
            ("session/prompt", _) => script::play(&mut wire, &folder, &message),
            _ => {}
        }
    }
}
