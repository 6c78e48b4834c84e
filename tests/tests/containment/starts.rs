//! Starts and ends through a shim are those without one: every reason, every status, what is inherited and read.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fanin_process::{Input, Tree};
use fanin_protocol::cause::Exit;
use fanin_protocol::limits::COMMAND_BYTES_MAX;
use fanin_supervisor::JobSpec;
use fanin_supervisor::protocol::{CommandSpec, ResultEntry, Spec};
use fanin_tests::cases::{STUCK, soon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{HOST, MS, start};

// R12, B16: the status is passed on exactly, and 128 + n is no signal n.
#[tokio::test]
async fn status_and_signal_are_passed_on_exactly() {
    let mut shimmed = start().await;
    let cases = [
        ("exit 0", Some(0), None, "completed"),
        ("exit 1", Some(1), None, "error{failed exit_status}"),
        ("exit 137", Some(137), None, "error{failed exit_status}"),
        ("exit 255", Some(255), None, "error{failed exit_status}"),
        ("kill -KILL $$", None, Some(9), "error{failed signal}"),
        ("kill -SEGV $$", None, Some(11), "error{failed signal}"),
        ("kill -TERM $$", None, Some(15), "error{failed signal}"),
        ("no-such-program-here 2>/dev/null", Some(127), None, "error{failed exit_status}"),
    ];
    for (line, status, signal, summary) in cases {
        let (entry, left) = shimmed.run(line).await;
        assert_eq!(
            (entry.exit_code, entry.signal, entry.summary().as_str()),
            (status, signal, summary),
            "{line}"
        );
        assert_eq!((left, entry.unreaped), (None, false), "{line}");
    }
}

// B06: each reason by its name, within 100 ms, and no process is said to be started.
#[tokio::test]
async fn what_cannot_start_says_why_as_it_does_without_a_shim() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let plain = file("plain", "text", 0o644);
    let orphan = file("orphan", "#!/no/such/interpreter\n", 0o755);
    let within = |cwd: &str| CommandSpec { cwd: Some(cwd.into()), ..CommandSpec::argv(["true"]) };
    let cases = [
        (
            CommandSpec::argv(["no-such-program"]),
            "program_not_found",
            "\"no-such-program\" was not found in PATH",
        ),
        (CommandSpec::argv([format!("{plain}-gone")]), "program_not_found", "does not exist"),
        (CommandSpec::argv([&orphan]), "program_not_found", "names an interpreter that does not exist"),
        (CommandSpec::argv([&plain]), "permission_denied", "no permission to run"),
        (CommandSpec::argv(["x".repeat(300)]), "os", "cannot start"),
        (within(&format!("{plain}-gone")), "bad_folder", "does not exist"),
        (within(&plain), "bad_folder", "is no folder"),
    ];
    let mut shimmed = start().await;
    for (spec, code, words) in cases {
        // A machine under load may be slow once, not three times.
        for attempt in 0..3 {
            let job = shimmed.session.start(JobSpec::new("job", Spec::Command(spec.clone()))).await.unwrap();
            let (entry, left) = shimmed.ended(&job).await;
            assert_eq!(entry.summary(), format!("error{{spawn {code}}}"), "{spec:?}");
            assert!(entry.message.as_deref().unwrap().contains(words), "{:?}", entry.message);
            assert_eq!(left, None);
            if entry.ended_at_ms.unwrap() - entry.started_at_ms.unwrap() < 100 {
                break;
            }
            assert!(attempt < 2, "slower than 100 ms each time");
        }
    }
    assert!(shimmed.pids.so_far().is_empty(), "what could not start has no process");
}

// B52: a shim that does not exist, or is none, is said so.
#[tokio::test]
async fn a_shim_that_is_none_is_an_error_of_its_own() {
    for (shim, summary, words) in [
        ("/no/such/shim", "error{spawn os}", "cannot start the shim \"/no/such/shim\""),
        ("/bin/true", "error{spawn shim_lost}", "its shim ended too early: exit status: 0"),
    ] {
        let runner = fanin_subprocess::SubprocessRunner::with_shim(shim);
        let supervisor = fanin_supervisor::Supervisor::builder().runner(runner).start().await.unwrap();
        let session = supervisor.session("parent").await.unwrap();
        let entry =
            session.start(JobSpec::command("job", ["true"])).await.unwrap().wait(STUCK).await.unwrap();
        assert_eq!(entry.summary(), summary);
        assert!(entry.message.as_deref().unwrap().contains(words), "{:?}", entry.message);
        assert_eq!(entry.unreaped, shim == "/bin/true", "nobody knows what that program did");
    }
}

#[tokio::test]
async fn folder_environment_and_program_are_those_of_the_spec() {
    let dir = tempfile::tempdir().unwrap();
    let tool = dir.path().join("tool");
    std::fs::write(&tool, "#!/bin/sh\npwd -P; echo \"$FANIN_TEST\"; echo ${PATH:+inherited}; echo \"$1\"\n")
        .unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let spec = CommandSpec {
        cwd: Some(dir.path().to_owned()),
        env: BTreeMap::from([("FANIN_TEST".to_owned(), "a value".to_owned())]),
        ..CommandSpec::argv(["./tool", "a 'word'"])
    };
    let mut shimmed = start().await;
    let job = shimmed.session.start(JobSpec::new("job", Spec::Command(spec))).await.unwrap();
    let (entry, _) = shimmed.ended(&job).await;
    let folder = std::fs::canonicalize(dir.path()).unwrap();
    let expected = format!("{}\na value\ninherited\na 'word'\n", folder.display());
    assert_eq!(&*entry.output.unwrap().text, expected);
}

// SC-12: the longest command line goes through, though a socket takes it in pieces.
#[tokio::test]
async fn the_longest_command_line_goes_through() {
    let mut shimmed = start().await;
    let value = "v".repeat(100_000);
    let env: BTreeMap<_, _> = (0..9).map(|n| (format!("LONG_{n}"), value.clone())).collect();
    assert!(9 * value.len() < COMMAND_BYTES_MAX);
    let spec = CommandSpec { env, ..CommandSpec::shell("echo ${#LONG_0} ${#LONG_8}") };
    let job = shimmed.session.start(JobSpec::new("job", Spec::Command(spec))).await.unwrap();
    let (entry, _) = shimmed.ended(&job).await;
    assert_eq!(&*entry.output.unwrap().text, "100000 100000\n");
}

// B105: its input is at its end at once, and what its supervisor could read is still there.
#[tokio::test]
async fn a_job_reads_nothing_of_its_supervisors_input() {
    let mut shimmed = start().await;
    let (entry, _) = shimmed.run("cat; echo end").await;
    assert_eq!(&*entry.output.unwrap().text, "end\n");
    let script = format!("'{HOST}' 'cat' >/dev/null; cat");
    let mut shell = Command::new("sh");
    let mut child = shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"not eaten\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "not eaten\n");
}

// The same shim for what is written to: the pipe comes over the lifeline, and nobody else holds it.
#[tokio::test]
async fn a_command_reads_what_it_is_given_and_then_the_end() {
    for shim in [Some(Path::new(HOST)), None] {
        let spec = CommandSpec::argv(["cat"]);
        let (mut tree, pipes) = Tree::start(&spec, Input::Piped, shim, "test:1").unwrap();
        let (mut input, mut out) = (pipes.input.unwrap(), pipes.out);
        soon(poll_fn(|cx| tree.poll_started(&spec, cx))).await.unwrap();
        input.write_all(b"first\n").await.unwrap();
        let mut read = [0; 6];
        soon(out.read_exact(&mut read)).await.unwrap();
        assert_eq!(&read, b"first\n");
        input.write_all(b"second\n").await.unwrap();
        drop(input);
        let mut rest = String::new();
        soon(out.read_to_string(&mut rest)).await.unwrap();
        assert_eq!(rest, "second\n");
        soon(poll_fn(|cx| tree.poll_ended(cx))).await;
        assert_eq!(soon(poll_fn(|cx| tree.poll_gone(cx))).await, None);
        assert_eq!(tree.exit().unwrap(), Exit::Status(0));
    }
}

// B35: stopped at any moment of its start, a command leaves nothing, and is not said to have run on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_at_any_moment_of_the_start_leaves_nothing() {
    let shimmed = start().await;
    let token = fanin_tests::cases::process::Token::default();
    for round in 0..60_u32 {
        let spec = JobSpec::shell("job", token.line("sleep TOKEN & setsid sleep TOKEN & wait"));
        let spec = if round % 2 == 0 { spec.grace(Duration::ZERO) } else { spec };
        let job = shimmed.session.start(spec).await.unwrap();
        for _ in 0..round * 60 {
            std::hint::black_box(round);
            tokio::task::yield_now().await;
        }
        let stopped = Instant::now();
        job.cancel().await.unwrap();
        let entry: ResultEntry = job.wait(STUCK).await.unwrap();
        token.assert_gone();
        assert_eq!((entry.summary().as_str(), entry.unreaped), ("cancelled{user}", false), "round {round}");
        assert!(stopped.elapsed() < 3_000 * MS, "round {round} took {:?}", stopped.elapsed());
    }
}
