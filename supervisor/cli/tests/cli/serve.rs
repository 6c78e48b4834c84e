//! `fanin serve`: one owner, an orderly end, and everything in place after one that was not.

use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fanin_client::{
    Client, ClientError, Item, LaunchCall, NewJob, OpenSession, ServiceState, Since, Subscribe,
};
use fanin_protocol::{Cause, CommandSpec, GroupId, JobFilter, SessionId};
use tempfile::tempdir;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::common::{Running, fanin};

/// A service in a folder of its own, ready for clients.
struct Service {
    running: Running,
    client: Client,
}

fn serve(folder: &Path, words: &[&str]) -> Service {
    let mut running = start(folder, words);
    let line = running.line().expect("it is ready");
    assert!(line.starts_with("fanin: serving "), "{line}");
    Service { running, client: Client::unix(socket(folder)) }
}

fn start(folder: &Path, words: &[&str]) -> Running {
    let mut command = fanin(folder, &[&["serve"], words].concat());
    command.env_remove("XDG_RUNTIME_DIR").env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
    Running::start(command)
}

fn socket(folder: &Path) -> PathBuf {
    std::fs::read_to_string(folder.join(".state/store/socket")).unwrap().into()
}

fn shell(folder: &Path, label: &str, line: &str) -> NewJob {
    NewJob::new(label, CommandSpec::shell(line).cwd(folder))
}

async fn session(client: &Client) -> SessionId {
    let session = Some(SessionId::parse("main").unwrap());
    client.open_session(OpenSession { session, ..OpenSession::default() }).await.unwrap()
}

fn launch(session: &SessionId, jobs: Vec<NewJob>) -> LaunchCall {
    LaunchCall { session: Some(session.clone()), jobs, ..LaunchCall::default() }
}

const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.01; done; echo finished";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hang_up_is_nothing_and_a_first_signal_lets_running_jobs_finish() {
    let folder = tempdir().unwrap();
    let Service { mut running, client } = serve(folder.path(), &["-c", "1"]);
    let main = session(&client).await;
    let jobs = vec![shell(folder.path(), "first", UNTIL_GO), shell(folder.path(), "second", "touch ran")];
    let launched = client.launch(launch(&main, jobs)).await.unwrap();
    running.signal("HUP");
    assert_eq!(client.status().await.unwrap().state, ServiceState::Serving);
    running.signal("TERM");
    running.wait_for("draining");
    let refused = client.launch(launch(&main, vec![shell(folder.path(), "late", "true")])).await.unwrap_err();
    assert_eq!(refused.code(), "draining");
    std::fs::write(folder.path().join("go"), "").unwrap();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!folder.path().join("ran").exists() && !folder.path().join(".state/store/socket").exists());
    // What was queued stays queued, and runs under the next one.
    let Service { running, client } = serve(folder.path(), &["-c", "1"]);
    let result = client.wait_group(Some(&main), &launched.group, None).await.unwrap().ack().await.unwrap();
    assert_eq!(result.result.counts.completed, 2);
    assert!(folder.path().join("ran").exists());
    running.signal("INT");
    assert_eq!(running.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_stops_and_a_third_kills() {
    let folder = tempdir().unwrap();
    let deaf = "trap '' TERM; touch deaf; while :; do sleep 0.05; done";
    let Service { mut running, client } = serve(folder.path(), &[]);
    let main = session(&client).await;
    let launched = client.launch(launch(&main, vec![shell(folder.path(), "deaf", deaf)])).await.unwrap();
    while client.get(launched.jobs[0].clone()).await.unwrap().started_at_ms.is_none()
        || !folder.path().join("deaf").exists()
    {
        tokio::task::yield_now().await;
    }
    running.signal("TERM");
    running.wait_for("draining");
    running.signal("TERM");
    running.wait_for("stopping all jobs");
    running.signal("TERM");
    running.wait_for("killing all jobs");
    assert_eq!(running.end().code, Some(0));
    let Service { running, client } = serve(folder.path(), &[]);
    let result = client.wait_group(Some(&main), &launched.group, None).await.unwrap();
    assert_eq!(result.result.entries[0].cause, Some(Cause::Shutdown));
    drop((result, running));
}

#[test]
fn of_many_that_start_at_once_one_serves_and_the_others_say_who() {
    let folder = tempdir().unwrap();
    let starting: Vec<Running> = (0..20).map(|_| start(folder.path(), &[])).collect();
    let mut serving = Vec::new();
    for mut running in starting {
        match running.line() {
            Some(line) => serving.push((line, running)),
            None => {
                let ended = running.end();
                assert_eq!(ended.code, Some(75), "{}", ended.stderr);
                assert!(ended.stderr.contains("is in use: process "), "{}", ended.stderr);
            }
        }
    }
    let [(line, running)] = <[_; 1]>::try_from(serving).unwrap_or_else(|all| panic!("{} serve", all.len()));
    assert!(line.contains(&format!("(process {})", running.id())), "{line}");
    running.signal("TERM");
    assert_eq!(running.end().code, Some(0));
}

#[test]
fn the_manager_is_told_that_it_is_ready_alive_and_stopping() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("manager");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    let told = || {
        let mut bytes = [0; 256];
        let len = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).lines().next().unwrap().to_owned()
    };
    let mut command = fanin(folder.path(), &["serve"]);
    command.env_remove("XDG_RUNTIME_DIR").env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
    let running = Running::start(command);
    assert_eq!([told(), told(), told()], ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
    running.signal("TERM");
    while told() != "STOPPING=1" {}
    assert_eq!(running.end().code, Some(0));
}

/// Launches groups one after the other, each until it is acknowledged, whatever becomes of the service meanwhile.
async fn launch_on(
    folder: PathBuf,
    number: usize,
    is_enough: Arc<AtomicBool>,
    acknowledged: UnboundedSender<()>,
) -> Vec<(SessionId, GroupId)> {
    let client = Client::unix(socket(&folder));
    let main = SessionId::parse(&format!("client-{number}")).unwrap();
    let mut launched = Vec::new();
    while !is_enough.load(Ordering::Relaxed) {
        let group = GroupId::parse(&format!("group-{number}-{}", launched.len())).unwrap();
        let jobs = vec![shell(&folder, "a", "true"), shell(&folder, "b", "true")];
        let call = LaunchCall { group: Some(group.clone()), ..launch(&main, jobs) };
        let open = OpenSession { session: Some(main.clone()), ..OpenSession::default() };
        let told = match client.open_session(open).await {
            Ok(_) => client.launch(call).await.map(drop),
            Err(error) => Err(error),
        };
        match told {
            Ok(()) => {
                launched.push((main.clone(), group));
                acknowledged.send(()).unwrap();
            }
            // It is killed, and comes again.
            Err(ClientError::NotRunning { .. } | ClientError::Lost(_)) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) if error.is_retryable() => {}
            Err(error) => panic!("{}: {error}", error.code()),
        }
    }
    launched
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_launch_is_accounted_for_though_the_service_is_killed() {
    let number =
        |name: &str, else_it_is: usize| std::env::var(name).map_or(else_it_is, |n| n.parse().unwrap());
    // For a long run by hand: more of each.
    let (clients, kills) = (number("FANIN_CLIENTS", 6), number("FANIN_KILLS", 3));
    let between = clients * number("FANIN_ROUNDS", 1);
    let folder = tempdir().unwrap();
    let mut service = serve(folder.path(), &["-c", "2"]);
    let (is_enough, (acknowledged, mut told)) = (Arc::new(AtomicBool::new(false)), unbounded_channel());
    let mut launching = tokio::task::JoinSet::new();
    for number in 0..clients {
        let (is_enough, acknowledged) = (Arc::clone(&is_enough), acknowledged.clone());
        launching.spawn(launch_on(folder.path().to_owned(), number, is_enough, acknowledged));
    }
    let wanted = Subscribe { since: Since::Start, ..Subscribe::default() };
    let mut events = service.client.subscribe(wanted).again_for(Duration::from_secs(60));
    for _ in 0..kills {
        for _ in 0..between {
            told.recv().await.unwrap();
        }
        service.running.signal("KILL");
        drop(service);
        service = serve(folder.path(), &["-c", "2"]);
    }
    is_enough.store(true, Ordering::Relaxed);
    let launched: Vec<_> = launching.join_all().await.concat();
    assert!(launched.len() >= kills * between);
    // Each is there, once, with all of its jobs, and comes to its end.
    let mut counted = BTreeMap::new();
    let mut filter = JobFilter { limit: 500, ..JobFilter::default() };
    loop {
        let page = service.client.list(filter.clone()).await.unwrap();
        page.jobs.iter().for_each(|job| *counted.entry(job.group.clone()).or_insert(0) += 1);
        match page.next {
            Some(next) => filter.from = Some(next),
            None => break,
        }
    }
    for (session, group) in &launched {
        let result = service.client.wait_group(Some(session), group, None).await.unwrap();
        assert_eq!((result.result.counts.launched, result.result.counts.ended()), (2, 2), "{group}");
        assert_eq!(counted.get(group), Some(&2), "{group}");
    }
    // One who watched all the time has seen every record once.
    let head = service.client.status().await.unwrap().head.seq.0;
    let mut seen = 0;
    while seen < head {
        if let Some(Item::Event(event)) = events.next().await.unwrap() {
            assert_eq!(event.seq.0, seen + 1);
            seen = event.seq.0;
        }
    }
}
