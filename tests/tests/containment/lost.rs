//! A shim that is killed, stopped, or told to stop by others (SC-4, J-18), and processes that nobody here may signal.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use fanin_protocol::limits::KILL_WAIT;
use fanin_tests::cases::process::{Token, parent_of, signal, until};

use super::{HOST, MS, start};

/// Whoever has the mark is found in any session; who has no environment is not.
const TREE: &str = "sleep TOKEN & setsid sleep TOKEN & (setsid setsid sleep TOKEN &); ";

// SC-4, J-18: the job says that its shim is lost; what carries the mark is gone, and the rest is nobody's claim.
#[tokio::test]
async fn a_killed_shim_makes_its_job_unreaped_and_what_it_held_is_swept() {
    let mut shimmed = start().await;
    let (token, scrubbed) = (Token::default(), Token::default());
    let daemon = scrubbed.line("(setsid sh -c 'env -i setsid sleep TOKEN >/dev/null 2>&1 & exit' &); ");
    let (job, pid) = shimmed.shell(&token.line(&format!("{TREE} {daemon} wait; wait"))).await;
    until("all asleep", || token.asleep() == 3 && scrubbed.asleep() == 1).await;
    let killed = Instant::now();
    signal(parent_of(pid), "KILL");
    let (entry, left) = shimmed.ended(&job).await;
    token.assert_gone();
    assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
    assert_eq!((entry.summary().as_str(), entry.unreaped), ("error{failed shim_lost}", true));
    let message = entry.message.unwrap();
    assert!(message.contains("SIGKILL") && message.contains("more of it may be alive"), "{message}");
    let left = left.unwrap();
    assert!(left.shim_lost && left.alive.is_empty() && left.stopped >= 4, "{left:?}");
    // This is why it says so.
    let [(pid, _)] = &scrubbed.alive()[..] else { panic!("{:?}", scrubbed.alive()) };
    signal(*pid, "KILL");
}

// SC-2, SC-4: a shim that does not answer keeps no job from settling in its time, and nothing of it alive.
#[tokio::test]
async fn a_shim_that_is_stopped_is_lost_in_time() {
    let mut shimmed = start().await;
    let token = Token::default();
    let (job, pid) = shimmed.shell(&token.line(&format!("{TREE} wait; wait"))).await;
    until("all asleep", || token.asleep() == 3).await;
    signal(parent_of(pid), "STOP");
    let stopped = Instant::now();
    job.cancel().await.unwrap();
    let (entry, left) = shimmed.ended(&job).await;
    let took = stopped.elapsed();
    token.assert_gone();
    assert!(
        took < 200 * MS + KILL_WAIT,
        "{took:?}: the machine gave it up before the runner could say anything"
    );
    assert_eq!((entry.summary().as_str(), entry.unreaped), ("cancelled{user}", true));
    assert!(left.unwrap().shim_lost);
    assert!(entry.message.unwrap().contains("does not answer"));
}

// SC-4: a shim that others tell to stop stops its job, whole, and loses nothing.
#[tokio::test]
async fn a_shim_that_is_told_to_stop_stops_its_job() {
    for name in ["TERM", "INT", "HUP"] {
        let mut shimmed = start().await;
        let token = Token::default();
        let (job, pid) = shimmed.shell(&token.line(&format!("{TREE} wait; wait"))).await;
        until("all asleep", || token.asleep() == 3).await;
        signal(parent_of(pid), name);
        let (entry, _) = shimmed.ended(&job).await;
        token.assert_gone();
        assert_eq!((entry.summary().as_str(), entry.signal), ("error{failed signal}", Some(15)), "{name}");
        assert!(!entry.unreaped);
    }
}

// J-18, 14.6: what may not be signalled is named with pid, start and program, and the job is unreaped.
#[test]
fn what_cannot_be_signalled_is_named() {
    if !std::fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t0\t0\t0") {
        println!("not tested: only root can make a process that another user may not signal");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let copy = |from: &str, name: &str, mode: u32| {
        let to = dir.path().join(name);
        std::fs::copy(from, &to).unwrap();
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(mode)).unwrap();
        to.to_str().unwrap().to_owned()
    };
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (host, rise) = (copy(HOST, "host", 0o755), copy("/usr/bin/setpriv", "rise", 0o4755));
    let token = Token::default();
    // It ends with its own rights before it is asked for: what it left has those of root.
    let line = token
        .line(&format!("{rise} --reuid=0 --clear-groups sleep TOKEN >/dev/null 2>&1 & sleep 0.5; exit 0"));
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", &host, &line])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let alive = token.alive();
    let [(pid, _)] = &alive[..] else { panic!("{alive:?}: {said}") };
    let ended = said.lines().find_map(|line| line.strip_prefix("run.ended ")).unwrap();
    let ended: serde_json::Value = serde_json::from_str(ended).unwrap();
    let named = &ended["left"]["alive"];
    assert_eq!(
        (&named[0]["pid"], &named[0]["program"], &named[1]),
        (&(*pid).into(), &"sleep".into(), &serde_json::Value::Null)
    );
    assert!(named[0]["pid_start"].as_u64().unwrap() > 0);
    assert_eq!((&ended["outcome"], &ended["code"]), (&"failed".into(), &"os".into()));
    let message = ended["message"].as_str().unwrap();
    assert_eq!(message, format!("exit status 0; still alive after SIGKILL: {pid} (sleep)"));
    let job = said.lines().find_map(|line| line.strip_prefix("job.ended ")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(job).unwrap()["unreaped"], true);
    signal(*pid, "KILL");
}
