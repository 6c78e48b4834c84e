//! Cases of command jobs: truthful endings, whole trees, and nothing alive that is said to be over.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use fanin_subprocess::SubprocessRunner;
use fanin_supervisor::protocol::{CommandSpec, ResultEntry, Spec, Status};
use fanin_supervisor::{Cancelled, Delivery, Filter, JobSpec, Session, Since, Supervisor};
use fanin_tests::cases::process::{Pids, asleep, assert_gone, group, signal, until};
use fanin_tests::cases::*;

/// A program that is its own shim; without one, commands are tested where their runner is.
const HOST: &str = env!("CARGO_BIN_EXE_host");

async fn start_commands(slots: usize) -> (Supervisor, Session, Pids) {
    let builder = Supervisor::builder().slots(slots).runner(SubprocessRunner::with_shim(HOST));
    let supervisor = builder.start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let pids = Pids::of(&supervisor).await;
    (supervisor, session, pids)
}

const MS: Duration = Duration::from_millis(1);

/// From its start to its end, by its own record.
fn took(entry: &ResultEntry) -> Duration {
    Duration::from_millis(entry.ended_at_ms.unwrap() - entry.started_at_ms.unwrap())
}

// B06: each way in which a command cannot start is an error at once, with its cause, and the one slot comes back.
#[tokio::test]
async fn a_command_that_cannot_start_is_an_error_within_100_ms() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "text").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    let plain = plain.to_str().unwrap();
    let within = |cwd: &str| {
        let spec = CommandSpec { cwd: Some(cwd.into()), ..CommandSpec::argv(["true"]) };
        JobSpec::new("within", Spec::Command(spec))
    };
    let (supervisor, session, mut pids) = start_commands(1).await;
    // A machine under load may be slow once, not three times.
    for attempt in 0..3 {
        let specs = [
            JobSpec::command("missing", ["no-such-program"]),
            JobSpec::command("forbidden", [plain]),
            within(&format!("{plain}-missing")),
            within(plain),
            JobSpec::command("fine", ["true"]),
        ];
        let group = session.fan_out(specs).await.unwrap();
        let result = group.wait(STUCK).await.unwrap();
        let ends: Vec<_> = result.entries.iter().map(ResultEntry::summary).collect();
        let expected = [
            "error{spawn program_not_found}",
            "error{spawn permission_denied}",
            "error{spawn bad_folder}",
            "error{spawn bad_folder}",
            "completed",
        ];
        assert_eq!(ends, expected);
        let named = |index: usize, what: &str| {
            let message = result.entries[index].message.as_deref().unwrap();
            assert!(message.contains(what), "{message}");
        };
        named(0, "no-such-program");
        named(1, plain);
        named(2, "-missing");
        named(3, plain);
        assert_eq!(pids.so_far().len(), 1, "what could not start has no process");
        assert_nothing_lives(&supervisor);
        if result.entries[..4].iter().all(|entry| took(entry) < 100 * MS) {
            break;
        }
        assert!(attempt < 2, "slower than 100 ms each time");
    }
    assert_no_wake_now(&session);
    supervisor.shutdown().await;
}

// B10, R1: exit, end of the pipes, timeout and cancel of one command come together; it ends once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_whose_ends_come_together_ends_once() {
    watch_panics();
    let mut chance = Chance::new();
    let (supervisor, session, mut pids) = start_commands(8).await;
    let witness = Witness::of(&supervisor).await;
    for _ in 0..10 {
        let specs = (0..16).map(|n| {
            let spec = JobSpec::shell(format!("{n}"), "echo done");
            let spec = if n % 3 == 0 { spec.timeout(chance.below(8) as u32 * MS + MS) } else { spec };
            spec.grace(Duration::ZERO)
        });
        let group = session.fan_out(specs.collect::<Vec<_>>()).await.unwrap();
        for job in group.jobs().iter().filter(|_| chance.below(4) == 0).collect::<Vec<_>>() {
            chance.dawdle(5).await;
            supervisor.cancel(job).await.unwrap();
        }
        let result = group.wait(STUCK).await.unwrap();
        assert_eq!(result.counts.ended(), 16);
        for entry in &result.entries {
            let summary = entry.summary();
            assert!(
                ["completed", "error{timeout run}", "cancelled{user}"].contains(&summary.as_str()),
                "{summary}"
            );
            assert!(entry.status != Status::Completed || output(entry) == "done\n");
        }
        for pid in pids.so_far() {
            assert_gone(pid);
        }
    }
    assert_no_wake_now(&session);
    supervisor.shutdown().await;
    assert_eq!(witness.at_end().await.jobs.len(), 160);
    assert_no_panic_of_ours();
}

// B16, R12: a signal from outside is an error with its number; not ok, not cancelled, and nobody else's business.
#[tokio::test]
async fn a_command_killed_from_outside_is_an_error_with_the_signal() {
    let (supervisor, session, mut pids) = start_commands(10).await;
    let signals = [("KILL", 9), ("TERM", 15), ("SEGV", 11)];
    let specs = signals.map(|(name, _)| JobSpec::command(name, ["sleep", "60"]));
    let group =
        session.fan_out(specs.into_iter().chain([JobSpec::shell("sibling", "echo fine")])).await.unwrap();
    let mut victims = Vec::new();
    for _ in 0..4 {
        let (job, pid) = pids.next().await;
        if let Some(index) = group.jobs()[..3].iter().position(|known| *known == job) {
            victims.push(pid);
            signal(pid, signals[index].0);
        }
    }
    let started = Instant::now();
    let wake = woken(&session).await;
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    for (entry, (name, number)) in wake.entries.iter().zip(signals) {
        assert_eq!((entry.summary().as_str(), entry.signal), ("error{failed signal}", Some(number)));
        assert_eq!(entry.exit_code, None);
        assert!(entry.message.as_deref().unwrap().contains(name));
    }
    assert_eq!(wake.entries[3].summary(), "completed");
    victims.into_iter().for_each(assert_gone);
    assert_nothing_lives(&supervisor);
    assert_no_wake_now(&session);
    // A signal that the command catches is its own business: its exit status counts.
    let caught = session.start(JobSpec::shell("caught", "kill -s TERM $$; exit 3")).await.unwrap();
    assert_eq!(caught.wait(STUCK).await.unwrap().signal, Some(15));
    let exits = session.start(JobSpec::shell("exits", "trap 'exit 3' TERM; kill -s TERM $$")).await.unwrap();
    let entry = exits.wait(STUCK).await.unwrap();
    assert_eq!((entry.summary().as_str(), entry.exit_code), ("error{failed exit_status}", Some(3)));
}

/// A shell with three children, each with a child that sleeps; `trap` stands before each of them.
fn tree_of_seven(label: &str, trap: &str) -> JobSpec {
    let branch = format!("sh -c '{trap} sleep 60 & wait; wait' &");
    JobSpec::shell(label, format!("{trap} {branch} {branch} {branch} wait; wait; wait"))
}

// B25, SC-2, R6: the whole tree goes, whoever stops it, and whatever it makes of the polite signal.
#[tokio::test]
async fn a_stop_takes_the_whole_tree() {
    for trap in ["", "trap \"\" TERM;"] {
        for how in ["cancel", "group", "close", "timeout", "shutdown", "drop"] {
            let (supervisor, session, mut pids) = start_commands(10).await;
            let grace = 300 * MS;
            let spec = tree_of_seven("tree", trap).grace(grace);
            let spec = if how == "timeout" { spec.timeout(500 * MS) } else { spec };
            let launched = session.fan_out([spec]).await.unwrap();
            let job = launched.jobs()[0].clone();
            let (_, pid) = pids.next().await;
            asleep(pid, 3).await;
            let tree = group(pid);
            assert_eq!(tree.len(), 7, "{tree:?}");
            let started = Instant::now();
            match how {
                "cancel" => assert_eq!(supervisor.cancel(&job).await.unwrap(), Cancelled::Stopping),
                "group" => launched.cancel().await.unwrap(),
                "close" => session.close().await.unwrap(),
                "shutdown" => supervisor.shutdown().await,
                _ => {}
            }
            if how == "drop" {
                drop((supervisor, session, launched));
                until("all gone", || group(pid).iter().all(|member| member.state == 'Z')).await;
                until("all reaped", || !group(pid).iter().any(|member| member.pid == pid)).await;
            } else {
                let over = supervisor.session("observer").await;
                if let Ok(observer) = over {
                    observer.wait_all(std::slice::from_ref(&job), STUCK).await.unwrap();
                }
                assert_gone(pid);
                let info = supervisor.get(&job).unwrap();
                let expected = if how == "timeout" { Status::Error } else { Status::Cancelled };
                assert_eq!(info.status, expected, "{how}");
            }
            let limit = grace + Duration::from_secs(1) + if how == "timeout" { 500 * MS } else { MS };
            assert!(started.elapsed() < limit, "{how} {trap:?} took {:?}", started.elapsed());
        }
    }
}

// B28, SC-2, J-18: polite first; who cleans up has its time, who does not listen is killed, and only what is reaped
// is over.
#[tokio::test]
async fn a_stop_is_polite_first_and_over_when_it_is_reaped() {
    let (supervisor, session, mut pids) = start_commands(10).await;
    let specs = [
        JobSpec::shell("deaf", "trap '' TERM; echo ready; while :; do sleep 60; done"),
        JobSpec::shell(
            "polite",
            "trap 'sleep 0.5; echo cleaned up; exit 0' TERM; echo ready; sleep 60 & wait",
        ),
    ];
    let launched = session.fan_out(specs.map(|spec| spec.grace(1_500 * MS))).await.unwrap();
    let mut found = std::collections::HashMap::from([pids.next().await]);
    found.extend([pids.next().await]);
    let [deaf, polite] = [0, 1].map(|index| launched.jobs()[index].clone());
    for job in launched.jobs() {
        until("its trap is set", || supervisor.progress(job).as_deref() == Some("ready")).await;
        asleep(found[job], 1).await;
    }
    let mut ends = supervisor.subscribe(Filter::all().kinds(["job.ended"]), Since::Now).await.unwrap();
    let started = Instant::now();
    launched.cancel().await.unwrap();
    for (job, from) in [(&polite, 500 * MS), (&deaf, 1_500 * MS)] {
        let Some(Delivery::Event(event)) = soon(ends.next()).await else { panic!("an end") };
        assert_gone(found[job]);
        assert_eq!(event.job(), Some(job));
        let took = started.elapsed();
        assert!(took >= from && took < from + Duration::from_secs(1), "{job} took {took:?}");
    }
    let wake = woken(&session).await;
    let [deaf, polite] = [0, 1].map(|index| &wake.entries[index]);
    assert_eq!((deaf.summary().as_str(), deaf.signal), ("cancelled{user}", Some(9)));
    assert_eq!((polite.summary().as_str(), polite.exit_code), ("cancelled{user}", Some(0)));
    assert!(output(polite).contains("cleaned up"), "it finished its clean-up");
    assert!(polite.completed_anyway && !deaf.completed_anyway && !deaf.unreaped);
    assert_no_wake_now(&session);
}

// B35, B33: cancelled in the queue and before the first poll: no process is made.
#[tokio::test]
async fn a_command_cancelled_before_its_start_has_no_process() {
    for slots in [1, 10] {
        let (supervisor, session, mut pids) = start_commands(slots).await;
        let launched =
            session.fan_out((0..3).map(|n| JobSpec::command(format!("{n}"), ["sleep", "60"]))).await.unwrap();
        // Nothing was polled yet: this runtime has one thread, and this is it. The queued go first.
        for job in launched.jobs().iter().rev() {
            supervisor.cancel(job).await.unwrap();
        }
        let result = launched.wait(STUCK).await.unwrap();
        assert!(result.entries.iter().all(|entry| entry.summary() == "cancelled{user}"));
        assert!(pids.so_far().is_empty(), "a process was made");
        assert_no_wake_now(&session);
    }
}

// B35, B31: cancelled at any moment of its start and of its end; never cancelled with a live process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_cancelled_at_any_moment_leaves_no_process() {
    watch_panics();
    let mut chance = Chance::new();
    let (supervisor, session, mut pids) = start_commands(10).await;
    let mut said = [0; 2];
    for round in 0..120 {
        let line = *chance.of(&["sleep 60", "echo done", "sleep 60 & sleep 60 & wait"]);
        let job = session.start(JobSpec::shell("any", line).grace(Duration::ZERO)).await.unwrap();
        chance.spin(20_000 * (round % 50));
        let reply = job.cancel().await.unwrap();
        let entry = job.wait(STUCK).await.unwrap();
        pids.so_far().into_iter().for_each(assert_gone);
        match reply {
            Cancelled::Stopping => assert_eq!(entry.summary(), "cancelled{user}"),
            Cancelled::AlreadyEnded(status) => {
                assert_eq!((status, output(&entry)), (Status::Completed, "done\n"));
                assert_eq!(entry.status, status);
            }
            Cancelled::Ended => panic!("there was a slot"),
        }
        said[usize::from(reply == Cancelled::Stopping)] += 1;
    }
    println!("ended first, cancelled first: {said:?}");
    assert_no_wake_now(&session);
    supervisor.shutdown().await;
    assert_no_panic_of_ours();
}

// B63: characters that come in pieces, and one that never comes whole.
#[tokio::test]
async fn a_character_that_comes_in_pieces_is_one_character() {
    let (_supervisor, session, _pids) = start_commands(10).await;
    let specs = [
        JobSpec::shell("whole", r"printf '\342'; sleep 0.05; printf '\202'; sleep 0.05; printf '\254'"),
        JobSpec::shell("broken", r"printf 'ab\342\202'"),
        JobSpec::shell("broken line", r"printf '\360\237\230\n\200c'"),
        JobSpec::shell("two streams", r"printf '\342\202'; printf 'err\n' >&2; sleep 0.05; printf '\254\n'"),
    ];
    let launched = session.fan_out(specs).await.unwrap();
    let result = launched.wait(STUCK).await.unwrap();
    let shown: Vec<_> = result
        .entries
        .iter()
        .map(|entry| {
            let output = entry.output.as_ref().unwrap();
            (&*output.text, output.invalid_utf8)
        })
        .collect();
    assert_eq!(shown[0], ("€", false));
    assert_eq!(shown[1], ("ab\u{fffd}", true));
    assert_eq!(shown[2], ("\u{fffd}\n\u{fffd}c", true));
    assert!([("err\n€\n", false), ("€\nerr\n", false)].contains(&shown[3]), "{:?}", shown[3]);
}

// B62: a command's own cap, at every byte offset of wide characters.
#[tokio::test]
async fn a_commands_output_is_cut_between_characters_at_every_offset() {
    let (supervisor, session, _pids) = start_commands(10).await;
    let text = "aé€😀".repeat(40);
    let caps: Vec<u64> = (1..=12).chain(90..=112).chain([text.len() as u64, 10_000]).collect();
    let specs = caps.iter().map(|cap| {
        let spec = CommandSpec { output_bytes_max: Some(*cap), ..CommandSpec::argv(["printf", "%s", &text]) };
        JobSpec::new(format!("{cap}"), Spec::Command(spec))
    });
    let launched = session.fan_out(specs.collect::<Vec<_>>()).await.unwrap();
    let result = launched.wait(STUCK).await.unwrap();
    for (entry, cap) in result.entries.iter().zip(caps) {
        let kept = supervisor.output(&entry.job).unwrap();
        assert!(kept.bytes().len() as u64 <= cap, "{} bytes of {cap}", kept.bytes().len());
        assert_eq!(kept.bytes_total(), text.len() as u64);
        assert_eq!(kept.is_truncated(), cap < text.len() as u64);
        let shown = entry.output.as_ref().unwrap();
        assert!(!shown.invalid_utf8, "cap {cap}: {:?}", shown.text);
        assert!(text.ends_with(shown.text.rsplit('\n').next().unwrap()), "cap {cap}: the end is kept");
    }
}
