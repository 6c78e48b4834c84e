//! Lines of JSON in and out. It checks nothing: what is wrong shall reach the other side.

use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};

/// Our end of the pipes.
pub(crate) struct Wire {
    lines: std::io::Lines<std::io::StdinLock<'static>>,
    next: u64,
}

impl Wire {
    pub(crate) fn new() -> Self {
        Self { lines: std::io::stdin().lock().lines(), next: 0 }
    }

    /// The next message; at the end of them the agent ends.
    pub(crate) fn read(&mut self) -> Value {
        match self.lines.next() {
            Some(Ok(line)) => serde_json::from_str(&line).unwrap(),
            Some(Err(_)) | None => {
                // A last word, as some have one: whoever has closed our output by now hears of it.
                self.raw("bye\n");
                std::process::exit(0)
            }
        }
    }

    /// Writes as it is.
    pub(crate) fn raw(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            // Said where a test can find it: a launcher that let go of us too early.
            if let Some(file) = std::env::var_os("FAKE_UNHEARD") {
                std::fs::write(file, text).unwrap();
            }
            std::process::exit(0);
        }
    }

    pub(crate) fn send(&self, message: &Value) {
        self.raw(&format!("{message}\n"));
    }

    pub(crate) fn answer(&self, id: &Value, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    pub(crate) fn refuse(&self, id: &Value, code: i64, text: &str) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}));
    }

    /// Makes a request; its id.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = json!(format!("agent-{}", self.next));
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn update(&self, session: &str, update: &Value) {
        let params = json!({"sessionId": session, "update": update});
        self.send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    }
}
