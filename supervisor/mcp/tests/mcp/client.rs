//! A client that writes its messages by hand, and a host whose tasks are closures: time stands still, and moves to the next
//! moment at which anything is due.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fanin_mcp::{Amounts, Goodbye, Host, Made, Problem, ServeError, StartFailed, Task, WatchTask, serve};
use fanin_protocol::{JobId, SessionId};
use fanin_supervisor::{JobError, JobOutput, JobSpec, RunContext, Supervisor};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;

/// A host in memory. A task's `shell` is a script: `after 5s`, `says TEXT`, `says N bytes of TEXT`, `fails TEXT`,
/// `asks` for a message and says it, `sees TEXT` where it is a watch, `hangs`,
/// separated by semicolons.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    /// The supervisor, once it was started.
    pub(crate) supervisor: Mutex<Option<Supervisor>>,
    /// Starts that fail first.
    pub(crate) failing: AtomicU32,
    pub(crate) is_worker: bool,
}

/// The same for server and test.
#[derive(Clone)]
pub(crate) struct Shared(pub(crate) Arc<Scripted>);

impl Host for Shared {
    fn jobs(&self, tasks: Vec<Task>, _: Option<Amounts>) -> Result<Made, Vec<Problem>> {
        let job = |(index, task): (usize, Task)| {
            let shell = task.shell.unwrap_or_default();
            if shell.contains("nonsense") {
                let what = "is nonsense".to_owned();
                return Err(vec![Problem { index: Some(index), key: "shell".to_owned(), what }]);
            }
            let label = task.id.unwrap_or_else(|| format!("task_{}", index + 1));
            Ok(JobSpec::run(label, move |context| script(shell, context)))
        };
        let jobs = tasks.into_iter().enumerate().map(job).collect::<Result<_, _>>()?;
        Ok(Made { jobs, ..Made::default() })
    }

    fn watch(&self, watch: WatchTask, job: Option<JobId>) -> Result<JobSpec, Vec<Problem>> {
        let shell = watch.shell.unwrap_or_default();
        if shell.contains("nonsense") {
            return Err(vec![Problem {
                index: None,
                key: "shell".to_owned(),
                what: "is nonsense".to_owned(),
            }]);
        }
        let times = u32::try_from(watch.times.unwrap_or(1)).unwrap();
        let of = job.map_or_else(|| "watch".to_owned(), |job| format!("watch of {job}"));
        let watch = JobSpec::run(watch.label.unwrap_or(of), move |context| script(shell, context));
        Ok(watch.fires(times, Duration::from_secs(3_600)))
    }

    async fn start(&self) -> Result<Supervisor, StartFailed> {
        if self
            .0
            .failing
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok()
        {
            return Err(StartFailed { code: "store_io", message: "there is no disk".to_owned() });
        }
        let supervisor = Supervisor::builder().start().await.unwrap();
        *self.0.supervisor.lock().await = Some(supervisor.clone());
        Ok(supervisor)
    }

    fn session(&self) -> SessionId {
        SessionId::parse("ses_test").unwrap()
    }

    fn may_launch(&self) -> bool {
        !self.0.is_worker
    }
}

async fn script(shell: String, context: RunContext) -> Result<JobOutput, JobError> {
    let mut said = String::new();
    for step in shell.split(';').map(str::trim) {
        match step.split_once(' ').unwrap_or((step, "")) {
            ("sees", words) => drop(context.fire(words).await),
            ("after", time) => {
                let seconds: f64 = time.trim_end_matches('s').parse().unwrap();
                tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            }
            ("says", words) => match words.split_once(" bytes of ") {
                Some((count, text)) => {
                    let count: usize = count.parse().unwrap();
                    said.push_str(&text.repeat(count.div_ceil(text.len())));
                }
                None => said.push_str(words),
            },
            ("fails", words) => return Err(JobError::new(words)),
            ("asks", _) => {
                context.listen();
                said.push_str(&context.next_message().await.unwrap());
                assert_eq!(context.last_message().await.unwrap(), None);
            }
            ("hangs", _) => std::future::pending().await,
            other => panic!("{other:?} is no step"),
        }
    }
    Ok(said.into())
}

/// A client and its server.
pub(crate) struct Client {
    write: Option<WriteHalf<DuplexStream>>,
    read: BufReader<ReadHalf<DuplexStream>>,
    /// What came while something else was waited for.
    pub(crate) others: VecDeque<Value>,
    next: u64,
    pub(crate) host: Arc<Scripted>,
    server: JoinHandle<Result<Goodbye, ServeError>>,
    told: Option<oneshot::Sender<()>>,
}

impl Client {
    /// A client that has begun its session.
    pub(crate) async fn begun() -> Self {
        Self::begun_with(Scripted::default()).await
    }

    pub(crate) async fn begun_with(host: Scripted) -> Self {
        let mut client = Self::connect(host);
        let begin = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let id = client.ask("initialize", begin).await;
        let begun = client.answer(id).await;
        assert_eq!(begun["result"]["serverInfo"]["name"], "fanin", "{begun}");
        client.note("notifications/initialized", json!({})).await;
        client
    }

    /// A client that has said nothing yet.
    pub(crate) fn connect(host: Scripted) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let host = Arc::new(host);
        let (told, tell) = oneshot::channel::<()>();
        let shared = Shared(Arc::clone(&host));
        let server = tokio::spawn(async move {
            let told = async {
                // Where the test lets go of it nobody tells.
                if tell.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            serve(shared, tokio::io::split(theirs), told).await
        });
        let (read, write) = tokio::io::split(ours);
        Self {
            write: Some(write),
            read: BufReader::new(read),
            others: VecDeque::new(),
            next: 0,
            host,
            server,
            told: Some(told),
        }
    }

    pub(crate) async fn line(&mut self, line: &[u8]) {
        let write = self.write.as_mut().unwrap();
        write.write_all(line).await.unwrap();
        write.write_all(b"\n").await.unwrap();
    }

    /// Asks, without waiting for the answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.line(request.to_string().as_bytes()).await;
        self.next
    }

    pub(crate) async fn note(&mut self, method: &str, params: Value) {
        let note = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.line(note.to_string().as_bytes()).await;
    }

    /// Calls a tool, without waiting for the answer.
    pub(crate) async fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// As [`Client::begin`], asking for progress.
    pub(crate) async fn begin_with_progress(&mut self, tool: &str, arguments: Value) -> u64 {
        let meta = json!({ "progressToken": format!("p{}", self.next) });
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta })).await
    }

    pub(crate) async fn cancel(&mut self, id: u64) {
        self.note("notifications/cancelled", json!({ "requestId": id, "reason": "stop" })).await;
    }

    /// The next message; `None` at the end.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.read.read_line(&mut line).await.unwrap() {
            0 => None,
            _ => Some(serde_json::from_str(&line).unwrap()),
        }
    }

    /// The answer to a request. What else comes meanwhile is kept.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        if let Some(place) = self.others.iter().position(|other| other["id"] == id) {
            return self.others.remove(place).unwrap();
        }
        loop {
            let message = self.message().await.unwrap_or_else(|| panic!("no answer to {id}"));
            if message["id"] == id {
                return message;
            }
            self.others.push_back(message);
        }
    }

    /// The structured answer to a call, which its text repeats.
    pub(crate) async fn result(&mut self, id: u64) -> Value {
        let answer = self.answer(id).await;
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"));
        let said: Value = serde_json::from_str(text).unwrap();
        assert_eq!(said, result["structuredContent"], "text and structure say the same");
        assert_eq!(result["isError"], said.get("error").is_some(), "{answer}");
        said
    }

    /// Calls a tool.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments).await;
        self.result(id).await
    }

    /// The code with which a call is refused.
    pub(crate) async fn refusal(&mut self, tool: &str, arguments: Value) -> (String, String) {
        let said = self.call(tool, arguments).await;
        let word = |key: &str| said["error"][key].as_str().unwrap_or_else(|| panic!("{said}")).to_owned();
        (word("code"), word("message"))
    }

    /// The host's supervisor.
    pub(crate) async fn supervisor(&self) -> Supervisor {
        self.host.supervisor.lock().await.clone().expect("something was launched")
    }

    /// Tells the server to end.
    pub(crate) fn tell(&mut self) {
        let _ = self.told.take().unwrap().send(());
    }

    /// Ends the input.
    pub(crate) async fn hang_up(&mut self) {
        self.write.take().unwrap().shutdown().await.unwrap();
    }

    /// How the server ended.
    pub(crate) async fn goodbye(self) -> Result<Goodbye, ServeError> {
        self.server.await.unwrap()
    }
}

/// Lets everything that can go on do so, `rounds` times.
pub(crate) async fn yields(rounds: usize) {
    for _ in 0..rounds {
        tokio::task::yield_now().await;
    }
}

/// Lets each task that can go on do one step, `rounds` times. A yield would let them all go on until they wait.
pub(crate) async fn turns(rounds: usize) {
    for _ in 0..rounds {
        let mut was_here = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut was_here, true) {
                return std::task::Poll::Ready(());
            }
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
    }
}
