//! The page of the protocol is enough: a program without any of our crates watches a service. Where Python or its package
//! `msgpack` is missing nothing is tested and that is said; with `FANIN_REQUIRE=all` it is a failure. `FANIN_PYTHON` names
//! another Python.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use fanin_service::Listener;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::common::{launch, served, session};

/// What nothing here may exceed.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_subscriber_of_the_examples_sees_all_records() {
    let python = std::env::var("FANIN_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&python).args(["-c", "import msgpack"]).stderr(Stdio::null()).status().await;
    if !found.is_ok_and(|status| status.success()) {
        eprintln!("skipped: {python} with the package msgpack (python3-msgpack) is not there");
        assert!(std::env::var_os("FANIN_REQUIRE").is_none(), "{python} with msgpack is needed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let path = folder.path().join("s");
    let listener = Listener::bind(&path).unwrap();
    let served = served().await;
    let service = served.service.clone();
    tokio::spawn(async move { listener.serve(&service, &mut JoinSet::new()).await });
    let client = served.client();
    let main = session(&client).await;
    client.launch(launch(&main, &["a", "b"])).await.unwrap();
    client.next_wake(Some(&main)).await.unwrap().ack().await.unwrap();
    let head = served.supervisor.standings().unwrap().head.seq.0;

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/subscriber.py");
    let mut command = Command::new(&python);
    let watching = command.arg(script).arg(&path).stdout(Stdio::piped()).kill_on_drop(true).spawn();
    let mut watching = watching.unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next =
        async || tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
    let welcome = next().await;
    assert!(welcome.contains("fanin test"), "{welcome}");
    let mut kinds = Vec::new();
    for seq in 1..=head {
        let line = next().await;
        let (number, rest) = line.split_once(' ').unwrap();
        assert_eq!(number, seq.to_string(), "{line}");
        kinds.push(rest.split(' ').next().unwrap().to_owned());
    }
    assert_eq!(kinds.iter().filter(|kind| *kind == "job.ended").count(), 2, "{kinds:?}");
    assert_eq!(kinds.last().map(String::as_str), Some("message.taken"));
}
