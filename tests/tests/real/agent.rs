//! An agent in a home of its own, with a project, a model, and nobody's rights; and opencode as a server.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::model::Model;

/// What nothing here may exceed. It starts in 7 seconds on two idle cores, and in many times that on busy ones.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Who has no rights.
const NOBODY: u32 = 65_534;

/// Waits until something is so.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what} never came");
        thread::sleep(Duration::from_millis(50));
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A home for an agent.
pub(crate) struct Place {
    folder: TempDir,
    program: PathBuf,
    pub(crate) model: Model,
}

impl Place {
    /// For the agent whose program this variable names; `None` where it is not installed.
    pub(crate) fn new(variable: &str) -> Option<Self> {
        let Some(program) = std::env::var_os(variable) else {
            assert!(std::env::var_os("FANIN_REQUIRE").is_none(), "{variable} is needed: tests/agents.sh");
            // Not by a macro, whose words are kept back where a test passes.
            let skipped = format!("SKIPPED: without {variable} nothing is tested with the real agent\n");
            std::io::stderr().write_all(skipped.as_bytes()).unwrap();
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let mut place = Self { folder, program: program.into(), model: Model::start() };
        for folder in ["home", "home/.codex", "project", "tmp"] {
            fs::create_dir(place.path(folder)).unwrap();
        }
        fs::write(place.path("project/opencode.json"), place.for_opencode().to_string()).unwrap();
        fs::write(place.path("home/.codex/config.toml"), place.for_codex()).unwrap();
        if is_root() {
            // It can lie where nobody else may go.
            place.program = place.reachable();
            for path in [
                "",
                "home",
                "home/.codex",
                "home/.codex/config.toml",
                "project",
                "project/opencode.json",
                "tmp",
            ] {
                chown(place.path(path), Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        Some(place)
    }

    /// The agent's program where everybody may go: itself, or a script with the packages that it needs.
    fn reachable(&self) -> PathBuf {
        let program = &self.program;
        if program.extension().is_none_or(|end| end != "js") {
            let own = self.path("program");
            // A second name for it is there at once; elsewhere it is copied.
            if fs::hard_link(program, &own).is_err() {
                fs::copy(program, &own).unwrap();
                fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
            }
            return own;
        }
        let packages = program.ancestors().find(|path| path.ends_with("node_modules")).unwrap();
        let own = self.path("node_modules");
        fs::create_dir(&own).unwrap();
        for package in ["@agentclientprotocol", "@anthropic-ai", "zod"] {
            let copied =
                |way| Command::new("cp").args([way]).arg(packages.join(package)).arg(&own).output().unwrap();
            assert!(copied("-al").status.success() || copied("-a").status.success(), "{package}");
        }
        own.join(program.strip_prefix(packages).unwrap())
    }

    /// Gives the agent the tools of this `fanin`.
    pub(crate) fn with_tools(self, fanin: &str) -> Self {
        let own = self.own(fanin);
        let mut config = self.for_opencode();
        config["mcp"] =
            json!({"fanin": {"type": "local", "command": [own, "mcp"], "enabled": true, "timeout": 60_000}});
        fs::write(self.path("project/opencode.json"), config.to_string()).unwrap();
        let servers = json!({"mcpServers": {"fanin": {"command": own, "args": ["mcp"]}}});
        fs::write(self.path("project/mcp.json"), servers.to_string()).unwrap();
        let config = format!(
            "{}[mcp_servers.fanin]\ncommand = '{}'\nargs = ['mcp']\nstartup_timeout_sec = 60\n",
            self.for_codex(),
            own.display()
        );
        fs::write(self.path("home/.codex/config.toml"), config).unwrap();
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path("home/.local/share/opencode/opencode.db")
    }

    fn for_opencode(&self) -> Value {
        let model = |name: &str| json!({"name": name, "tool_call": true, "limit": {"context": 200_000, "output": 8_192}});
        json!({
            "autoupdate": false, "share": "disabled", "snapshot": false,
            "model": "mock/mock-1", "small_model": "mock/mock-small", "enabled_providers": ["mock"],
            "provider": {"mock": {
                "npm": "@ai-sdk/openai-compatible", "name": "Mock",
                "options": {"baseURL": format!("http://127.0.0.1:{}/v1", self.model.port), "apiKey": "none"},
                "models": {"mock-1": model("mock-1"), "mock-small": model("mock-small")},
            }},
            "permission": {"*": "allow"},
        })
    }

    fn for_codex(&self) -> String {
        let (port, project) = (self.model.port, self.path("project"));
        format!(
            "model = 'mock-1'\nmodel_provider = 'mock'\napproval_policy = 'never'\n\
             sandbox_mode = 'danger-full-access'\ncheck_for_update_on_startup = false\n\
             [model_providers.mock]\nname = 'mock'\nbase_url = 'http://127.0.0.1:{port}/v1'\n\
             wire_api = 'responses'\nrequires_openai_auth = false\nrequest_max_retries = 0\n\
             stream_max_retries = 0\n[analytics]\nenabled = false\n[projects.'{}']\ntrust_level = 'trusted'\n",
            project.display()
        )
    }

    /// The agent's program, with nothing of this machine but its programs.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().current_dir(self.path("project")).stdin(Stdio::null()).process_group(0);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(self.variables());
        command.env("OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS", "true");
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// A program of ours where everybody may go.
    fn own(&self, program: &str) -> PathBuf {
        let own = self.path("ours");
        if !own.exists() {
            // As the agent's: it can lie where nobody else may go.
            fs::copy(program, &own).unwrap();
            fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        }
        own
    }

    /// A program of ours with these words, as who has no rights: what it starts is as well. Its configuration has the agent as
    /// `name`, with these arguments, all rights and its home in this place.
    pub(crate) fn ours(&self, program: &str, (name, args): (&str, &[&str]), words: &[&str]) -> Command {
        let own = self.own(program);
        let quoted = |text: &str| serde_json::to_string(text).unwrap();
        let env: Vec<String> =
            self.variables().iter().map(|(name, value)| format!("{name} = {}", quoted(value))).collect();
        let command: Vec<_> =
            std::iter::once(self.program.to_str().unwrap()).chain(args.iter().copied()).collect();
        let config = format!(
            "[agents.{name}]\ncommand = {command:?}\nrights = \"full\"\nenv = {{ {} }}\n",
            env.join(", ")
        );
        fs::write(self.path("project/fanin.toml"), config).unwrap();
        let mut command = Command::new(own);
        command.args(words).env_clear().current_dir(self.path("project")).stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(self.variables());
        command.env("FANIN_STATE_DIR", self.path("home/fanin"));
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// The words that start the agent's program with nobody's rights.
    pub(crate) fn words(&self) -> Vec<String> {
        let program = self.program.to_str().unwrap().to_owned();
        if !is_root() {
            return vec![program];
        }
        let nobody = NOBODY.to_string();
        ["setpriv", "--reuid", &nobody, "--regid", &nobody, "--clear-groups", &program]
            .map(str::to_owned)
            .into()
    }

    /// What it is told of its place.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let off = [
            "MODELS_FETCH",
            "AUTOUPDATE",
            "DEFAULT_PLUGINS",
            "LSP_DOWNLOAD",
            "CLAUDE_CODE",
            "EXTERNAL_SKILLS",
        ];
        let off = off.map(|what| (format!("OPENCODE_DISABLE_{what}"), "1".to_owned()));
        let folder = |name: &str| self.path(name).to_str().unwrap().to_owned();
        let places = [
            ("HOME", folder("home")),
            ("TMPDIR", folder("tmp")),
            ("XDG_CONFIG_HOME", folder("home/.config")),
            ("XDG_DATA_HOME", folder("home/.local/share")),
            ("XDG_STATE_HOME", folder("home/.local/state")),
            ("XDG_CACHE_HOME", folder("home/.cache")),
            ("GIT_CONFIG_GLOBAL", "/dev/null".to_owned()),
            ("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{}", self.model.port)),
            ("ANTHROPIC_API_KEY", "none".to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ];
        places.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(off).collect()
    }
}

/// A server of opencode.
pub(crate) struct Agent {
    child: Child,
    port: u16,
}

impl Agent {
    pub(crate) fn start(place: &Place) -> Self {
        let mut command = place.command();
        command.args(["serve", "--hostname", "127.0.0.1", "--port", "0"]).stdout(Stdio::piped());
        let errors = fs::File::create(place.path("tmp/stderr")).unwrap();
        let mut child = command.stderr(errors).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (send, receive) = mpsc::channel();
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let port = line.rsplit_once(':').and_then(|(_, port)| port.trim().parse().ok());
                // It is read to its end, so that it never waits for a reader.
                port.map(|port| send.send(port));
            }
        });
        let port = receive.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            child.kill().unwrap();
            let said = fs::read_to_string(place.path("tmp/stderr")).unwrap();
            panic!("opencode did not start: {said}");
        });
        Self { child, port }
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn session(&self) -> String {
        self.post("/session", &json!({"title": "t"}))["id"].as_str().unwrap().to_owned()
    }

    /// Asks, and does not wait for the answer.
    pub(crate) fn prompt(&self, session: &str, words: &str) {
        self.post(&format!("/session/{session}/prompt_async"), &said(words));
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&self, session: &str, words: &str) -> Value {
        self.post(&format!("/session/{session}/message"), &said(words))
    }

    /// What opencode says of the messages of a session that are by one role.
    pub(crate) fn messages(&self, session: &str, role: &str) -> Vec<Value> {
        let messages = self.get(&format!("/session/{session}/message"));
        let infos = messages.as_array().unwrap().iter().map(|message| message["info"].clone());
        infos.filter(|info| info["role"] == role).collect()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.call("GET", path, "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.call("POST", path, &body)
    }

    fn call(&self, method: &str, path: &str, body: &str) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let answer = read(BufReader::new(stream));
        let (head, body) = answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        assert!(head.starts_with("HTTP/1.1 2"), "{method} {path}: {head}{body}");
        if body.is_empty() { Value::Null } else { serde_json::from_str(&body).unwrap() }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It is gone where the test has killed it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(words: &str) -> Value {
    json!({"parts": [{"type": "text", "text": words}]})
}

/// An answer: its head, and its body to the end that it says. The stream can stay open behind that.
fn read(mut from: impl BufRead) -> std::io::Result<(String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let lower = head.to_ascii_lowercase();
    let field = |name: &str| lower.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let mut body = Vec::new();
    if field("transfer-encoding:") == Some("chunked") {
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            let length = u64::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
            from.by_ref().take(length).read_to_end(&mut body)?;
            from.read_line(&mut String::new())?;
            if length == 0 {
                break;
            }
        }
    } else {
        let length = field("content-length:").and_then(|length| length.parse().ok()).unwrap_or(0);
        from.take(length).read_to_end(&mut body)?;
    }
    String::from_utf8(body).map(|body| (head, body)).map_err(std::io::Error::other)
}
