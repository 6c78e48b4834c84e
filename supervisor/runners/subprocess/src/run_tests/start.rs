//! Commands that start, or do not, and how they end by themselves.

use super::*;

#[tokio::test]
async fn exit_status_and_signal_are_told_apart() {
    let ending = run_shell("echo out; echo err >&2").await;
    assert_eq!((code(&ending), ending.exit), (None, Some(Exit::Status(0))));
    assert!(ending.output.text().contains("out\n") && ending.output.text().contains("err\n"));

    let ending = run_shell("exit 3").await;
    assert_eq!(code(&ending), Some((Cause::Failed, Some(Code::ExitStatus))));
    assert_eq!((message(&ending), ending.exit), ("exit status 3", Some(Exit::Status(3))));

    let ending = run_shell("kill -SEGV $$").await;
    assert_eq!(code(&ending), Some((Cause::Failed, Some(Code::Signal))));
    assert_eq!((message(&ending), ending.exit), ("killed by signal 11 (SIGSEGV)", Some(Exit::Signal(11))));

    // The shell was started; that its program is missing is its own exit status.
    let ending = run_shell("no-such-program-here 2>/dev/null").await;
    assert_eq!((message(&ending), ending.exit), ("exit status 127", Some(Exit::Status(127))));
}

#[tokio::test]
async fn failures_to_start_are_told_apart_within_100_ms() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let plain = file("plain", "text", 0o644);
    let orphan = file("orphan", "#!/no/such/interpreter\n", 0o755);
    let garbage = file("garbage", "\u{1}\u{2}", 0o755);
    let within = |cwd: &str| CommandSpec { cwd: Some(cwd.into()), ..CommandSpec::argv(["true"]) };
    let missing = dir.path().join("gone").to_str().unwrap().to_owned();
    let cases = [
        (
            CommandSpec::argv(["no-such-program"]),
            Code::ProgramNotFound,
            "\"no-such-program\" was not found in PATH",
        ),
        (CommandSpec::argv([&missing]), Code::ProgramNotFound, "does not exist"),
        (CommandSpec::argv([format!("{plain}/x")]), Code::ProgramNotFound, "does not exist"),
        (CommandSpec::argv([&orphan]), Code::ProgramNotFound, "names an interpreter that does not exist"),
        (CommandSpec::argv([&plain]), Code::PermissionDenied, "no permission to run"),
        (CommandSpec::argv([&garbage]), Code::Os, "cannot start"),
        (CommandSpec::argv(["x".repeat(300)]), Code::Os, "cannot start"),
        (within(&missing), Code::BadFolder, "gone\" does not exist"),
        (within(&plain), Code::BadFolder, "plain\" is no folder"),
        // Both are wrong: the folder is what the launcher sees first.
        (
            CommandSpec { cwd: Some(missing.clone().into()), ..CommandSpec::argv(["no-such-program"]) },
            Code::BadFolder,
            "working folder",
        ),
    ];
    for (spec, expected, words) in cases {
        let started = Instant::now();
        let (host, task) = start(spec.clone());
        let ending = ended(task).await;
        assert!(started.elapsed() < Duration::from_millis(100), "{spec:?} took {:?}", started.elapsed());
        assert_eq!(code(&ending), Some((Cause::Spawn, Some(expected))), "{spec:?}: {}", message(&ending));
        assert!(message(&ending).contains(words), "{:?} says {:?}", spec, message(&ending));
        assert_eq!((ending.exit, host.pid()), (None, 0));
    }
}

#[tokio::test]
async fn folder_and_environment_are_those_of_the_spec() {
    let dir = tempfile::tempdir().unwrap();
    let spec = CommandSpec {
        cwd: Some(dir.path().to_owned()),
        env: BTreeMap::from([("FANIN_TEST".to_owned(), "a value".to_owned())]),
        ..CommandSpec::shell("pwd -P; echo $FANIN_TEST; echo ${PATH:+inherited}")
    };
    let ending = ended(start(spec).1).await;
    let folder = std::fs::canonicalize(dir.path()).unwrap();
    assert_eq!(ending.output.text(), format!("{}\na value\ninherited\n", folder.display()));
}

#[tokio::test]
async fn a_relative_program_is_looked_for_in_the_folder_of_the_spec() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tool");
    std::fs::write(&path, "#!/bin/sh\necho here\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let spec = CommandSpec { cwd: Some(dir.path().to_owned()), ..CommandSpec::argv(["./tool"]) };
    let ending = ended(start(spec).1).await;
    assert_eq!((message(&ending), &*ending.output.text()), ("", "here\n"));
}

#[tokio::test]
async fn standard_input_is_at_its_end_at_once() {
    // B105
    let ending = ended(start(CommandSpec::argv(["cat"])).1).await;
    assert_eq!((ending.exit, ending.output.bytes_total()), (Some(Exit::Status(0)), 0));
}

#[tokio::test]
async fn a_command_killed_from_outside_ends_with_the_signal() {
    // B16
    let (host, task) = start(CommandSpec::shell("echo ready; exec sleep 60"));
    let pid = host.shown("ready").await;
    let killed = Instant::now();
    kill(pid);
    let ending = ended(task).await;
    assert!(killed.elapsed() < Duration::from_secs(1), "{:?}", killed.elapsed());
    assert_eq!(code(&ending), Some((Cause::Failed, Some(Code::Signal))));
    assert_eq!((message(&ending), ending.exit), ("killed by signal 9 (SIGKILL)", Some(Exit::Signal(9))));
}

#[tokio::test]
async fn statuses_are_known_though_ended_children_are_ignored_by_default() {
    let name = "start::statuses_are_known_though_ended_children_are_ignored_by_default";
    if is_alone(name, &["--ignore-signal=CHLD"]) {
        assert_eq!(run_shell("exit 3").await.exit, Some(Exit::Status(3)));
        let (host, task) = start(tree_of_seven(""));
        asleep(host.shown("ready").await, 3).await;
        host.stop.raise(StopStage::Forced);
        assert_eq!(ended(task).await.exit, Some(Exit::Signal(9)));
        assert_nothing_left(host.pid());
    }
}

#[tokio::test]
async fn descriptors_come_back_and_running_out_of_them_is_an_error() {
    // B52
    if !is_alone("start::descriptors_come_back_and_running_out_of_them_is_an_error", &[]) {
        return;
    }
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    run_shell("true").await;
    let base = open();
    for _ in 0..300 {
        assert_eq!(run_shell("true").await.exit, Some(Exit::Status(0)));
    }
    assert_eq!(open(), base);

    let allow = |more: Option<u64>| {
        let soft = more.map_or("1024".to_owned(), |more| (base - 1 + more).to_string());
        let args = [format!("--pid={}", std::process::id()), format!("--nofile={soft}:")];
        assert!(std::process::Command::new("prlimit").args(args).status().unwrap().success());
    };
    let (mut failed, mut worked) = (0, 0);
    for more in 0..16 {
        allow(Some(more));
        let started = Instant::now();
        let ending = run_shell("echo fine").await;
        allow(None);
        if ending.failure.is_some() {
            failed += 1;
            assert_eq!(code(&ending), Some((Cause::Spawn, Some(Code::Os))));
            assert!(message(&ending).contains("Too many open files"), "{}", message(&ending));
            assert!(started.elapsed() < Duration::from_millis(100));
        } else {
            worked += 1;
            assert_eq!(ending.output.text(), "fine\n");
        }
        assert_eq!(open(), base, "with {more} more");
    }
    assert!(failed > 0 && worked > 0, "{failed} failed, {worked} worked");
    assert_eq!(run_shell("echo fine").await.output.text(), "fine\n");
}
