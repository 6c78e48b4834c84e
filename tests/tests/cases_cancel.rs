//! Cases of stopping: a cancel ends in bounded time, says what it did, and what it stopped is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fanin_supervisor::protocol::limits::KILL_WAIT;
use fanin_supervisor::protocol::{Cause, Outcome, Reason, ResultEntry, Status};
use fanin_supervisor::{Cancelled, JobError, JobSpec, RunContext, StopStage, Supervisor};
use fanin_tests::cases::*;
use tokio::time::Instant;

/// A body that ends well once its gate is open; `hears` says whether it follows a polite stop.
fn racer(gate: &Gate, hears: bool, alive: &Alive) -> JobSpec {
    let (gate, alive) = (gate.clone(), alive.clone());
    JobSpec::run("racer", move |context: RunContext| async move {
        let _one = alive.one();
        let call = context.tool("call", "wait");
        call.begin();
        tokio::select! {
            () = gate.passed() => {
                call.complete();
                Ok("done".into())
            }
            () = context.cancelled(), if hears => Err(JobError::new("stopped")),
        }
    })
}

/// What a cancel said must be what the job's entry says.
#[track_caller]
fn assert_honest(said: Cancelled, entry: &ResultEntry) {
    match said {
        Cancelled::AlreadyEnded(status) => {
            assert_eq!(entry.status, status, "a terminal status changed");
            assert_ne!(entry.status, Status::Cancelled);
            if status == Status::Completed {
                assert_eq!(output(entry), "done", "it won, so its result is there");
            }
        }
        Cancelled::Stopping => {
            assert_eq!(entry.summary(), "cancelled{user}");
            assert_eq!(entry.completed_anyway, output(entry) == "done", "what happened is said");
        }
        Cancelled::Ended => {
            assert_eq!((entry.summary(), entry.runs), ("cancelled{user}".to_owned(), 0));
            assert_eq!(output(entry), "");
        }
    }
}

// B31, J-17: 10,000 finishes against 10,000 cancels, on two threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_against_the_finish_leaves_one_end_and_tells_which() {
    const AT_ONCE: usize = 50;
    watch_panics();
    let mut chance = Chance::new();
    let alive = Alive::new();
    let supervisor = Supervisor::builder().slots(AT_ONCE - 5).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let witness = Witness::of(&supervisor).await;
    let mut won = [0; 4];
    for _ in 0..10_000 / AT_ONCE {
        let gates: Vec<Gate> = (0..AT_ONCE).map(|_| Gate::new()).collect();
        let specs = gates.iter().map(|gate| {
            let spec = racer(gate, chance.below(2) == 0, &alive);
            if chance.below(2) == 0 { spec.grace(Duration::ZERO) } else { spec }
        });
        let group = session.fan_out(specs.collect::<Vec<_>>()).await.unwrap();
        let finisher = tokio::spawn({
            let (gates, mut chance) = (gates.clone(), chance.fork());
            async move {
                for gate in gates {
                    chance.spin(200);
                    gate.open();
                    chance.dawdle(1).await;
                }
            }
        });
        let canceller = tokio::spawn({
            let (supervisor, jobs, mut chance) = (supervisor.clone(), group.jobs().to_vec(), chance.fork());
            async move {
                let mut said = Vec::new();
                for job in &jobs {
                    said.push(supervisor.cancel(job).await.unwrap());
                    chance.spin(200);
                    chance.dawdle(1).await;
                }
                said
            }
        });
        finisher.await.unwrap();
        let said = canceller.await.unwrap();
        let result = group.wait(STUCK).await.unwrap();
        for (said, entry) in said.into_iter().zip(&result.entries) {
            assert_honest(said, entry);
            won[match said {
                Cancelled::AlreadyEnded(_) => 0,
                Cancelled::Stopping if entry.completed_anyway => 1,
                Cancelled::Stopping => 2,
                Cancelled::Ended => 3,
            }] += 1;
        }
        for (job, entry) in group.jobs().iter().zip(&result.entries) {
            assert_eq!(supervisor.cancel(job).await.unwrap(), Cancelled::AlreadyEnded(entry.status));
        }
        assert_no_wake_now(&session);
    }
    println!("finish won, finished anyway, cancel won, never started: {won:?}");
    assert_eq!(won.iter().sum::<usize>(), 10_000);
    assert_nothing_lives(&supervisor);
    soon(supervisor.shutdown()).await;
    assert_eq!(alive.count(), 0);
    assert_eq!(witness.at_end().await.jobs.len(), 10_000);
    assert_no_panic_of_ours();
}

/// One race of a cancel with a timeout, in milliseconds from the start.
#[derive(Debug, Clone, Copy)]
struct Race {
    timeout: u64,
    cancel: u64,
    grace: u64,
    /// When its body ends by itself, well.
    end: u64,
}

impl Race {
    fn new(chance: &mut Chance) -> Self {
        let mut ms = |bound| chance.below(bound) as u64;
        Self { timeout: 1 + ms(10), cancel: ms(25), grace: ms(10), end: 1 + ms(25) }
    }

    fn spec(self, alive: &Alive) -> JobSpec {
        let alive = alive.clone();
        let body = move |_| async move {
            let _one = alive.one();
            tokio::time::sleep(Duration::from_millis(self.end)).await;
            Ok("done".into())
        };
        let ms = Duration::from_millis;
        JobSpec::run("race", body).timeout(ms(self.timeout)).grace(ms(self.grace))
    }

    /// Where it must end, for races without a tie: summary, and what the cancel took over.
    fn expected(self) -> (&'static str, Option<Cause>) {
        let Self { timeout, cancel, grace, end } = self;
        let over = end.min(timeout + grace);
        if end < timeout && end < cancel {
            ("completed", None)
        } else if cancel < timeout {
            ("cancelled{user}", None)
        } else if cancel < over {
            ("cancelled{user}", Some(Cause::Timeout))
        } else {
            ("error{timeout run}", None)
        }
    }

    fn has_tie(self) -> bool {
        let Self { timeout, cancel, grace, end } = self;
        let mut times = [timeout, cancel, end, timeout + grace, cancel + grace];
        times.sort_unstable();
        times.windows(2).any(|pair| pair[0] == pair[1])
    }
}

// B31, J-17: 10,000 cancels at random offsets around a timeout, its stop and its end.
#[tokio::test(start_paused = true)]
async fn a_cancel_against_a_timeout_ends_as_the_first_of_them_says() {
    const AT_ONCE: usize = 500;
    let mut chance = Chance::new();
    let alive = Alive::new();
    let (supervisor, session) = start_with_parent().await;
    let witness = Witness::of(&supervisor).await;
    for _ in 0..10_000 / AT_ONCE {
        let races: Vec<Race> = (0..AT_ONCE).map(|_| Race::new(&mut chance)).collect();
        let group = session.fan_out(races.iter().map(|race| race.spec(&alive))).await.unwrap();
        let cancels: Vec<_> = races
            .iter()
            .zip(group.jobs())
            .map(|(race, job)| {
                let (supervisor, job, at) = (supervisor.clone(), job.clone(), race.cancel);
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(at)).await;
                    supervisor.cancel(&job).await.unwrap()
                })
            })
            .collect();
        let result = group.wait(STUCK).await.unwrap();
        for ((race, cancel), entry) in races.iter().zip(cancels).zip(&result.entries) {
            let said = cancel.await.unwrap();
            assert_honest(said, entry);
            if !race.has_tie() {
                assert_eq!((entry.summary().as_str(), entry.after), race.expected(), "{race:?}");
            }
            assert!(!entry.unreaped, "{race:?}");
        }
        assert_eq!(alive.count(), 0);
        assert_no_wake_now(&session);
    }
    assert_nothing_lives(&supervisor);
    soon(supervisor.shutdown()).await;
    assert_eq!(witness.at_end().await.jobs.len(), 10_000);
}

// B33, J-9
#[tokio::test(start_paused = true)]
async fn a_cancel_in_the_queue_releases_its_waiters_and_never_starts_it() {
    let supervisor = Supervisor::builder().slots(1).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let (gate, starts) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let counted = |label: &str| {
        let starts = Arc::clone(&starts);
        JobSpec::run(label, move |_| async move {
            starts.fetch_add(1, Ordering::SeqCst);
            Ok(().into())
        })
    };
    let first = session.start(gated("1", &gate)).await.unwrap();
    let second = session.start(counted("2")).await.unwrap();
    let third = session.start(counted("3").queue_timeout(Duration::from_secs(5))).await.unwrap();
    let held_by = vec![first.id().clone()];
    assert_eq!(supervisor.why(second.id()).unwrap(), [Reason::Slot { position: 1, held_by }]);
    let mut waits = [&second, &third].map(|job| Box::pin(job.wait(None)));
    for wait in &mut waits {
        assert!(poll_once(wait.as_mut()).is_pending());
    }
    let [second_over, third_over] = waits;

    assert_eq!(second.cancel().await.unwrap(), Cancelled::Ended);
    let entry = at_once(second_over).unwrap();
    assert_eq!((entry.summary().as_str(), entry.runs, entry.started_at_ms), ("cancelled{user}", 0, None));
    assert_eq!(second.cancel().await.unwrap(), Cancelled::AlreadyEnded(Status::Cancelled));

    let started = Instant::now();
    let entry = soon(third_over).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(5));
    assert_eq!((entry.summary().as_str(), entry.runs), ("error{timeout queue}", 0));
    assert_eq!(third.cancel().await.unwrap(), Cancelled::AlreadyEnded(Status::Error));

    gate.open();
    first.wait(STUCK).await.unwrap();
    // The slot goes to who is alive.
    session.start(counted("4")).await.unwrap().wait(STUCK).await.unwrap();
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    no_wake(&session).await;
    assert_nothing_lives(&supervisor);
}

// B33, R4: many in the queue, cancelled while slots come free on other threads: who was cancelled there never runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_cancelled_in_the_queue_never_runs() {
    watch_panics();
    let mut chance = Chance::new();
    let supervisor = Supervisor::builder().slots(3).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    for _ in 0..30 {
        let starts: Vec<_> = (0..100).map(|_| Arc::new(AtomicUsize::new(0))).collect();
        let specs = starts.iter().map(|starts| {
            let starts = Arc::clone(starts);
            JobSpec::run("counts", move |_| async move {
                starts.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                Ok("done".into())
            })
        });
        let group = session.fan_out(specs).await.unwrap();
        let mut order: Vec<usize> = (0..100).collect();
        chance.shuffle(&mut order);
        let mut said = vec![None; 100];
        for index in order.into_iter().take(50) {
            said[index] = Some(supervisor.cancel(&group.jobs()[index]).await.unwrap());
            chance.spin(500);
        }
        let result = group.wait(STUCK).await.unwrap();
        for ((said, entry), starts) in said.into_iter().zip(&result.entries).zip(&starts) {
            let starts = starts.load(Ordering::SeqCst);
            match said {
                None => assert_eq!((entry.status, starts), (Status::Completed, 1)),
                Some(Cancelled::Ended) => {
                    assert_eq!((entry.runs, starts), (0, 0), "it was started all the same")
                }
                Some(said) => assert_honest(said, entry),
            }
        }
        assert_no_wake_now(&session);
    }
    soon(supervisor.shutdown()).await;
    assert_no_panic_of_ours();
}

// B33, DESIGN: a body that never started is dropped with no lock held; its destructor may call the supervisor.
#[test]
fn a_queued_body_may_use_the_supervisor_in_its_destructor() {
    not_stuck(|| {
        two_workers().block_on(async {
            let supervisor = Supervisor::builder().slots(1).start().await.unwrap();
            let session = supervisor.session("parent").await.unwrap();
            let gate = Gate::new();
            let first = session.start(gated("1", &gate)).await.unwrap();
            let (caller, parent, running) = (supervisor.clone(), session.clone(), first.id().clone());
            let last_words = OnDrop::new(move || {
                caller.progress(&running);
                at_once(parent.start(idle("3"))).unwrap();
            });
            let second = JobSpec::run("2", move |_| async move {
                drop(last_words);
                Ok(().into())
            });
            let second = session.start(second).await.unwrap();
            assert_eq!(second.cancel().await.unwrap(), Cancelled::Ended);
            gate.open();
            let labels = [woken(&session).await, woken(&session).await, woken(&session).await];
            let mut labels: Vec<_> = labels.iter().map(|wake| summaries(wake)[0].0.clone()).collect();
            labels.sort();
            assert_eq!(labels, ["1", "2", "3"]);
            soon(supervisor.shutdown()).await;
        });
    });
}

// B35, R6: cancelled between launch and first poll: it ends cancelled, and not a line of it runs.
#[tokio::test(start_paused = true)]
async fn a_job_cancelled_before_its_first_poll_never_runs() {
    for (grace, slots) in [(None, 2), (None, 1), (Some(Duration::ZERO), 2)] {
        let agents = FakeAgent::new();
        let builder = Supervisor::builder().slots(slots).runner(agents.clone());
        let supervisor = builder.start().await.unwrap();
        let session = supervisor.session("parent").await.unwrap();
        let starts = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&starts);
        let body = JobSpec::run("body", move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        });
        let specs = [body, JobSpec::agent("agent", "gated", "Look")];
        let specs = specs.map(|spec| if let Some(grace) = grace { spec.grace(grace) } else { spec });
        let group = session.fan_out(specs).await.unwrap();
        // Nothing was polled yet: this runtime has one thread, and this is it.
        for job in group.jobs() {
            let said = supervisor.cancel(job).await.unwrap();
            assert!([Cancelled::Stopping, Cancelled::Ended].contains(&said));
        }
        let started = Instant::now();
        let result = group.wait(STUCK).await.unwrap();
        assert_eq!(started.elapsed(), Duration::ZERO, "there is nothing to wait for");
        assert!(result.entries.iter().all(|entry| entry.summary() == "cancelled{user}"));
        assert_eq!((starts.load(Ordering::SeqCst), agents.started()), (0, 0), "it ran after its cancel");
        no_wake(&session).await;
    }
}

// B35: cancelled at each gate of its start: before the poll, in it, before it is bound, after.
#[tokio::test(start_paused = true)]
async fn a_cancel_at_any_gate_of_a_start_leaves_nothing_running() {
    for yields in 0..6 {
        let agents = FakeAgent::new();
        let supervisor = Supervisor::builder().runner(agents.clone()).start().await.unwrap();
        let session = supervisor.session("parent").await.unwrap();
        let alive = Alive::new();
        let gate = Gate::new();
        let specs = [racer(&gate, true, &alive), JobSpec::agent("agent", "gated", "Look")];
        let group = session.fan_out(specs).await.unwrap();
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        group.cancel().await.unwrap();
        let result = group.wait(STUCK).await.unwrap();
        assert_eq!((alive.count(), agents.alive.count()), (0, 0), "cancelled and alive");
        assert_eq!(result.outcome, Outcome::NoneOk);
        assert!(result.entries.iter().all(|entry| entry.summary() == "cancelled{user}"));
        no_wake(&session).await;
    }
}

// B35, on two threads: cancelled at once after the launch, wherever its start has come to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_in_the_start_window_leaves_nothing_running() {
    watch_panics();
    let mut chance = Chance::new();
    let alive = Alive::new();
    let (supervisor, session) = start_with_parent().await;
    for _ in 0..3_000 {
        let gate = Gate::new();
        let spec = match chance.below(3) {
            0 => racer(&gate, true, &alive),
            1 => racer(&gate, false, &alive).grace(Duration::ZERO),
            _ => stubborn("deaf", &alive).grace(Duration::ZERO),
        };
        let group = session.fan_out([spec]).await.unwrap();
        chance.spin(3_000);
        assert_eq!(supervisor.cancel(&group.jobs()[0]).await.unwrap(), Cancelled::Stopping);
        let result = group.wait(STUCK).await.unwrap();
        assert_eq!(result.entries[0].summary(), "cancelled{user}");
        assert_eq!(alive.count(), 0, "cancelled and alive");
    }
    assert_no_wake_now(&session);
    soon(supervisor.shutdown()).await;
    assert_no_panic_of_ours();
}

// SC-2, R6: polite first, then force, in the time that was set; then nothing is left.
#[tokio::test(start_paused = true)]
async fn a_cancel_is_polite_first_and_ends_in_its_bound() {
    let (supervisor, session) = start_with_parent().await;
    let seconds = Duration::from_secs;
    let alive = Alive::new();
    let cleans = JobSpec::run("cleans", |context: RunContext| async move {
        context.cancelled().await;
        assert_eq!(context.stage(), StopStage::Polite);
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok("cleaned up".into())
    });
    let specs = [cleans.grace(seconds(4)), stubborn("deaf", &alive).grace(seconds(4))];
    let group = session.fan_out(specs).await.unwrap();
    tokio::task::yield_now().await;
    let started = Instant::now();
    group.cancel().await.unwrap();
    group.cancel().await.unwrap();
    let reason = Reason::Stopping { cause: Cause::User, forced: false };
    assert_eq!(supervisor.why(&group.jobs()[1]).unwrap(), [reason]);
    let polite = session.wait_any(group.jobs(), STUCK).await.unwrap();
    assert_eq!(started.elapsed(), seconds(3));
    assert_eq!(output(&polite.entries[0]), "cleaned up");
    assert_eq!(alive.count(), 1);
    let result = group.wait(STUCK).await.unwrap();
    assert_eq!(started.elapsed(), seconds(4));
    assert_eq!(alive.count(), 0);
    assert!(result.entries.iter().all(|entry| entry.summary() == "cancelled{user}" && !entry.unreaped));
    no_wake(&session).await;
}

// B10, R4, SC-9: a slot comes back once, when its job is gone, and not when it is asked to go.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_stopping_keeps_its_slot_until_it_is_gone() {
    let supervisor = Supervisor::builder().slots(2).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let alive = Alive::new();
    let specs = (0..6).map(|n| stubborn(&format!("{n}"), &alive).grace(Duration::from_secs(1 + n)));
    let group = session.fan_out(specs.collect::<Vec<_>>()).await.unwrap();
    let running = || {
        let status = |job| supervisor.get(job).unwrap().status;
        group.jobs().iter().filter(|job| status(job) == Status::Running).count()
    };
    let started = Instant::now();
    for (ended, job) in group.jobs().iter().enumerate() {
        tokio::task::yield_now().await;
        // Told twice, and by two: still one stop of one job.
        supervisor.cancel(job).await.unwrap();
        supervisor.cancel(job).await.unwrap();
        tokio::task::yield_now().await;
        let left = 2.min(6 - ended);
        assert_eq!((running(), alive.count()), (left, left), "after {:?}", started.elapsed());
        over(&supervisor, std::slice::from_ref(job)).await;
    }
    assert_eq!((running(), alive.count()), (0, 0));
    assert_eq!(woken_within(QUIET, &session).await.counts.cancelled, 6);
    no_wake(&session).await;
}

// B36, SC-3, J-18: a body that blocks its thread is given up in the bound; others are not touched.
#[test]
fn a_body_that_blocks_its_thread_is_given_up_in_time() {
    watch_panics();
    let held = Gate::new();
    let runtime = two_workers();
    let _goes_on = held.at_the_latest();
    runtime.block_on(async {
        let supervisor = Supervisor::builder().slots(1).start().await.unwrap();
        let session = supervisor.session("parent").await.unwrap();
        let (hold, entered) = (held.clone(), Gate::new());
        let enter = entered.clone();
        let blocks = JobSpec::run("blocks", move |_| async move {
            enter.open();
            hold.block();
            Ok("the real answer".into())
        });
        let blocks = session.start(blocks.grace(Duration::from_millis(50))).await.unwrap();
        soon(entered.passed()).await;
        let next = session.start(idle("next")).await.unwrap();

        let started = std::time::Instant::now();
        assert_eq!(blocks.cancel().await.unwrap(), Cancelled::Stopping);
        assert!(started.elapsed() < Duration::from_secs(1), "the cancel itself waited");
        let entry = blocks.wait(STUCK).await.unwrap();
        let took = started.elapsed();
        assert!(took >= KILL_WAIT && took < KILL_WAIT + Duration::from_secs(2), "{took:?}");
        assert_eq!(entry.summary(), "cancelled{user}");
        assert!(entry.unreaped);
        // Its slot is free again: this is how slots are counted for what was given up.
        assert_eq!(next.wait(STUCK).await.unwrap().summary(), "completed");
        assert_no_wake_now(&session);

        held.open();
        soon(supervisor.shutdown()).await;
        let after = supervisor.get(blocks.id()).unwrap();
        assert_eq!((after.status, after.cause), (Status::Cancelled, Some(Cause::User)));
    });
    assert_no_panic_of_ours();
}

// R6: bodies that reach for their own supervisor: cancel themselves, their group, or close their parent.
#[tokio::test(start_paused = true)]
async fn a_body_may_stop_itself() {
    #[derive(Debug, Clone, Copy)]
    enum Stops {
        Itself,
        ItsGroup,
        ItsSession,
    }
    for stops in [Stops::Itself, Stops::ItsGroup, Stops::ItsSession] {
        for goes_on in [false, true] {
            let (supervisor, session) = start_with_parent().await;
            let (caller, parent) = (supervisor.clone(), session.clone());
            let group_id = Arc::new(std::sync::OnceLock::<fanin_supervisor::Group>::new());
            let own = Arc::clone(&group_id);
            let body = JobSpec::run("stops itself", move |context: RunContext| async move {
                match stops {
                    Stops::Itself => drop(caller.cancel(context.job()).await?),
                    Stops::ItsGroup => own.get().expect("it was launched").cancel().await?,
                    Stops::ItsSession => parent.close().await?,
                }
                assert!(context.is_cancelled());
                if goes_on {
                    std::future::pending::<()>().await;
                }
                Ok("done".into())
            });
            let group = session.fan_out([body.grace(Duration::from_secs(1))]).await.unwrap();
            group_id.set(group.clone()).unwrap();
            over(&supervisor, group.jobs()).await;
            let info = supervisor.get(&group.jobs()[0]).unwrap();
            assert_eq!(info.status, Status::Cancelled, "{stops:?}");
            match stops {
                Stops::Itself | Stops::ItsGroup => {
                    let wake = woken(&session).await;
                    assert_eq!(wake.entries[0].completed_anyway, !goes_on);
                    no_wake(&session).await;
                }
                Stops::ItsSession => {
                    assert_eq!(soon(group.wait(None)).await.unwrap_err().code(), "group_voided")
                }
            }
            assert_nothing_lives(&supervisor);
        }
    }
}

// DESIGN: a body launches more work through its parent's handle, waits for it, and both are told once.
#[tokio::test(start_paused = true)]
async fn a_body_may_launch_and_wait() {
    let (supervisor, session) = start_with_parent().await;
    let parent = session.clone();
    let body = JobSpec::run("outer", move |_| async move {
        let inner = parent.fan_out([idle("inner 1"), idle("inner 2")]).await?;
        let left = parent.start(idle("left behind")).await?;
        let result = inner.wait(STUCK).await?;
        Ok(format!("{} of {}, {}", result.counts.completed, result.counts.launched, left.is_created()).into())
    });
    let outer = session.fan_out([body]).await.unwrap();
    let mut wakes = [woken(&session).await, woken(&session).await];
    wakes.sort_by_key(|wake| wake.group != *outer.id());
    assert_eq!(output(&wakes[0].entries[0]), "2 of 2, true");
    assert_eq!(summaries(&wakes[1])[0].0, "left behind");
    no_wake(&session).await;
    assert_nothing_lives(&supervisor);
}
