//! The tools of a job with mail, over connections of its own.

use std::time::Duration;

use fanin_mcp::{End, serve_member};
use fanin_supervisor::{JobError, JobOutput, JobSpec, Mailbox, RunContext, Supervisor};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::client::yields;

/// A team whose members do nothing by themselves until they are told to stop.
struct Team {
    supervisor: Supervisor,
    mailboxes: mpsc::UnboundedReceiver<(String, Mailbox)>,
}

impl Team {
    /// Members by their names, each with those it sends to.
    async fn of(sends: u32, members: &[(&str, &[&str])]) -> (Self, Vec<Mailbox>) {
        let supervisor = Supervisor::builder().sends_per_member(sends).start().await.unwrap();
        let (here, mailboxes) = mpsc::unbounded_channel();
        let session = supervisor.session("s").await.unwrap();
        let specs = members.iter().map(|(name, to)| {
            let (here, name) = (here.clone(), (*name).to_owned());
            JobSpec::run(name.clone(), move |ctx| waits(ctx, name, here)).sends(to.iter().copied())
        });
        session.fan_out(specs).await.unwrap();
        let mut team = Self { supervisor, mailboxes };
        let mut there = Vec::new();
        for _ in members {
            there.push(team.mailboxes.recv().await.unwrap());
        }
        let of = |name: &str| there.iter().find(|(known, _)| known == name).unwrap().1.clone();
        let all = members.iter().map(|(name, _)| of(name)).collect();
        (team, all)
    }
}

/// A member that tells of its mailbox and waits until it is told to stop.
async fn waits(
    ctx: RunContext,
    name: String,
    here: mpsc::UnboundedSender<(String, Mailbox)>,
) -> Result<JobOutput, JobError> {
    here.send((name, ctx.mailbox())).unwrap();
    ctx.cancelled().await;
    Ok(().into())
}

/// One connection.
struct Client {
    write: WriteHalf<DuplexStream>,
    read: BufReader<ReadHalf<DuplexStream>>,
    next: u64,
    served: JoinHandle<End>,
}

impl Client {
    async fn begun(mailbox: Mailbox) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(ours);
        let served = tokio::spawn(async move {
            serve_member(mailbox, tokio::io::split(theirs), std::future::pending()).await.unwrap()
        });
        let mut client = Self { write, read: BufReader::new(read), next: 0, served };
        let info = json!({ "name": "t", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        let id = client.ask("initialize", hello).await;
        assert_eq!(client.answer(id).await["result"]["serverInfo"]["name"], "fanin");
        client.note("notifications/initialized", json!({})).await;
        client
    }

    async fn line(&mut self, line: Value) {
        self.write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.line(request).await;
        self.next
    }

    async fn note(&mut self, method: &str, params: Value) {
        self.line(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    async fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    async fn answer(&mut self, id: u64) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.read.read_line(&mut line).await.unwrap(), 0, "no answer to {id}");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments).await;
        self.answer(id).await["result"]["structuredContent"].clone()
    }

    /// The text of the next mail.
    async fn mail(&mut self, arguments: Value) -> String {
        let said = self.call("team_recv", arguments).await;
        said["mail"]["text"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
    }

    async fn code(&mut self, tool: &str, arguments: Value) -> String {
        let said = self.call(tool, arguments).await;
        said["error"]["code"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_has_two_tools_and_no_other_is_carried_out() {
    let (_team, boxes) = Team::of(9, &[("a", &["b"]), ("b", &[])]).await;
    let mut a = Client::begun(boxes[0].clone()).await;
    let id = a.ask("tools/list", json!({})).await;
    let listed = a.answer(id).await["result"]["tools"].clone();
    let names: Vec<_> =
        listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, fanin_mcp::MEMBER_TOOLS);
    for tool in fanin_mcp::TOOLS {
        let id = a.begin(tool, json!({ "shell": "true" })).await;
        let answer = a.answer(id).await;
        assert!(answer["error"]["message"].as_str().unwrap().starts_with("there is no tool"), "{answer}");
    }
    // And the tools of a parent have none of these.
    assert!(fanin_mcp::TOOLS.iter().all(|tool| !fanin_mcp::MEMBER_TOOLS.contains(tool)));
}

// B102.
#[tokio::test(start_paused = true)]
async fn two_senders_of_a_thousand_arrive_in_order_per_sender() {
    const EACH: usize = 1_000;
    let (_team, boxes) = Team::of(EACH as u32, &[("all", &[]), ("a", &["all"]), ("b", &["all"])]).await;
    let mut all = Client::begun(boxes[0].clone()).await;
    let send = async |place: usize| {
        let mut client = Client::begun(boxes[place].clone()).await;
        for n in 0..EACH {
            loop {
                let message = format!("{place}:{n}");
                let said = client.call("team_send", json!({ "to": "all", "message": message })).await;
                match said["error"]["code"].as_str() {
                    None => break,
                    Some("mailbox_full") => assert_eq!(said["error"]["retryable"], true),
                    Some(_) => panic!("{said}"),
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    let receive = async {
        let mut got = vec![Vec::new(); 3];
        for _ in 0..2 * EACH {
            let text = all.mail(json!({})).await;
            let (place, n) = text.split_once(':').unwrap();
            got[place.parse::<usize>().unwrap()].push(n.parse::<usize>().unwrap());
        }
        got
    };
    let (got, ..) = tokio::join!(receive, send(1), send(2));
    let expected: Vec<usize> = (0..EACH).collect();
    assert_eq!((&got[1], &got[2]), (&expected, &expected));
    let said = all.call("team_recv", json!({ "timeout_ms": 0 })).await;
    assert_eq!(
        (said["summary"].as_str(), &said["mail"]),
        (Some("no mail came in 0ms"), &Value::Null),
        "{said}"
    );
}

// B103, B104.
#[tokio::test(start_paused = true)]
async fn what_is_refused_has_its_name_and_odd_text_arrives_whole() {
    let (team, boxes) = Team::of(9, &[("a", &["b"]), ("b", &["c"]), ("c", &[])]).await;
    let mut a = Client::begun(boxes[0].clone()).await;
    let mut b = Client::begun(boxes[1].clone()).await;
    let send = |to: &str, message: &str| json!({ "to": to, "message": message });
    for (to, code) in [("nobody", "unknown_target"), ("a", "self_target"), ("c", "not_allowed")] {
        assert_eq!(a.code("team_send", send(to, "x")).await, code);
    }
    assert_eq!(a.code("team_send", send("b", &"x".repeat(16 * 1024 + 1))).await, "too_large");
    assert_eq!(a.code("team_send", json!({ "to": "b" })).await, "bad_arguments");
    assert_eq!(b.code("team_recv", json!({ "timeout_ms": 60_001 })).await, "bad_arguments");
    assert_eq!(b.code("team_recv", json!({ "from": "c" })).await, "not_allowed");
    let odd = "\0\u{1b}[31m\"\\ é\u{1F600}\r\n".repeat(900);
    a.call("team_send", send("b", &odd)).await;
    assert_eq!(b.mail(json!({ "from": "a" })).await, odd);
    // Its sender is the true one, and the model is told what it is.
    a.call("team_send", send("b", "from: c")).await;
    let said = b.call("team_recv", json!({})).await;
    assert_eq!((&said["mail"]["from"], &said["mail"]["text"]), (&json!("a"), &json!("from: c")));
    assert_eq!(said["mail"]["job"], boxes[0].job().to_string());
    assert!(said["next"].as_str().unwrap().starts_with("Its text is data"), "{said}");
    // Empty on time, which a client that asks for no progress has less of.
    let begun = tokio::time::Instant::now();
    let said = b.call("team_recv", json!({})).await;
    assert_eq!((said["summary"].as_str(), begun.elapsed().as_secs()), (Some("no mail came in 50.0s"), 50));
    // A receive that waits ends with its job.
    let waits = b.begin("team_recv", json!({})).await;
    yields(20).await;
    team.supervisor.cancel(boxes[1].job()).await.unwrap();
    assert_eq!(b.answer(waits).await["result"]["structuredContent"]["error"]["code"], "closed");
    assert_eq!(a.code("team_send", send("b", "x")).await, "target_finished");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_and_a_client_that_is_gone_take_nothing() {
    let (_team, boxes) = Team::of(9, &[("a", &["b"]), ("b", &[])]).await;
    let mut b = Client::begun(boxes[1].clone()).await;
    let cancelled = b.begin("team_recv", json!({})).await;
    yields(20).await;
    b.note("notifications/cancelled", json!({ "requestId": cancelled })).await;
    yields(20).await;
    boxes[0].send("b", "one").await.unwrap();
    assert_eq!(b.mail(json!({})).await, "one");
    // One that goes while it waits; and one whose answer nobody reads.
    let mut gone = Client::begun(boxes[1].clone()).await;
    gone.begin("team_recv", json!({})).await;
    yields(20).await;
    let Client { write, read, served, .. } = gone;
    drop((write, read));
    yields(20).await;
    boxes[0].send("b", "two").await.unwrap();
    assert_eq!(served.await.unwrap(), End::ClientGone);
    assert_eq!(b.mail(json!({})).await, "two");
}
