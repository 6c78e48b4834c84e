//! The tools that a client gave us: the program that serves them, as its client over MCP.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A server, once it runs.
pub(crate) struct Tools {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    next: u64,
}

impl Tools {
    /// Starts the first server that was given, and begins a session with it.
    pub(crate) fn start(servers: &Value) -> Self {
        let server = &servers[0];
        let mut command = Command::new(server["command"].as_str().expect("tools were given"));
        let args = server["args"].as_array().unwrap();
        command.args(args.iter().map(|arg| arg.as_str().unwrap()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let stdin = child.stdin.take();
        let mut tools = Self { child, stdin, lines, next: 0 };
        let info = json!({"name": "fakeagent", "version": "1.2.3"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
        tools.ask("initialize", &hello);
        tools.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        tools
    }

    /// Calls a tool; what it answers.
    pub(crate) fn call(&mut self, name: &str, arguments: &Value) -> Value {
        let answer = self.ask("tools/call", &json!({"name": name, "arguments": arguments}));
        answer["result"]["structuredContent"].clone()
    }

    /// Asks for something and goes without the answer.
    pub(crate) fn begin(&mut self, name: &str, arguments: &Value) {
        self.next += 1;
        let params = json!({"name": name, "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": "tools/call", "params": params}));
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let line = self.lines.next().expect("the server answers").unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Leaves it, and waits for its end.
    pub(crate) fn leave(mut self) {
        self.stdin = None;
        self.child.wait().unwrap();
    }
}
