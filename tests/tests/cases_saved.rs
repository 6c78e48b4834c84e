//! What a store has of jobs while they run, and of those that have left the memory (B-1, B48, SC-23).

use std::sync::Arc;
use std::time::Duration;

use fanin_sqlite::StoreReader;
use fanin_supervisor::journal::{JournalReader, StoredOutput};
use fanin_supervisor::protocol::limits::{FINISHED_JOBS, OUTPUT_BYTES_MAX, OUTPUT_SAVE_BYTES_MAX};
use fanin_supervisor::protocol::{Cause, JobId, Lifetime, Status};
use fanin_supervisor::stored::Stored;
use fanin_supervisor::testing::TestClock;
use fanin_supervisor::testing::journal::MemoryStore;
use fanin_supervisor::{JobError, JobFilter, JobSpec, OutputPage, RunContext, Supervisor};
use fanin_tests::cases::process::until;
use fanin_tests::cases::*;
use fanin_tests::stores::start_over;

fn id(text: &str) -> JobId {
    JobId::parse(text).unwrap()
}

/// A supervisor over a store in memory, once the one before has let go of that.
async fn start_in(store: &MemoryStore) -> Supervisor {
    let mut journal = None;
    until("the store is free", || {
        journal = store.open().ok();
        journal.is_some()
    })
    .await;
    Supervisor::builder().journal(journal.unwrap()).start().await.unwrap()
}

fn whole(text: &'static str) -> Option<StoredOutput> {
    let (bytes, total) = (text.as_bytes().into(), text.len() as u64);
    Some(StoredOutput { pieces: vec![(0, bytes)], total })
}

/// What the store has of an output, its pieces joined where nothing is missing between them.
fn saved(store: &MemoryStore, life: Lifetime) -> Option<StoredOutput> {
    let output = store.output(life).unwrap()?;
    let mut joined: Vec<(u64, Vec<u8>)> = Vec::new();
    for (at, piece) in output.pieces {
        match joined.last_mut() {
            Some((start, bytes)) if *start + bytes.len() as u64 == at => bytes.extend_from_slice(&piece),
            _ => joined.push((at, piece.to_vec())),
        }
    }
    let pieces = joined.into_iter().map(|(at, bytes)| (at, bytes.into())).collect();
    Some(StoredOutput { pieces, total: output.total })
}

/// A job that writes each of these texts once its gate is open, and then waits for the last gate.
fn writes(texts: [&'static str; 2], gates: &[Gate; 2]) -> JobSpec {
    let gates = gates.clone();
    JobSpec::run("writes", move |context: RunContext| async move {
        for (text, gate) in texts.into_iter().zip(gates) {
            context.write(text);
            gate.passed().await;
        }
        Ok("end".into())
    })
}

// P1 is about records: text comes a moment later, while its job runs, to everybody who may read the store.
#[tokio::test]
async fn what_a_running_job_puts_out_comes_into_its_store_and_is_followed_there() {
    let store = MemoryStore::new();
    let supervisor = start_in(&store).await;
    let session = supervisor.session("parent").await.unwrap();
    let gates = [Gate::new(), Gate::new()];
    let job = session.start(writes(["one\n", "two\n"], &gates).id(id("a"))).await.unwrap();
    let life = job.lifetime();
    until("the first text is saved", || saved(&store, life) == whole("one\n")).await;
    let looked = Stored::read(Arc::new(store.clone()), true).unwrap();
    assert_eq!(looked.output(&id("a")).unwrap().unwrap().text(), "one\n");
    let mut follow = looked.follow(&id("a"), 0).unwrap();
    let text = |page: Option<OutputPage>| page.map(|page| String::from_utf8(page.bytes.to_vec()).unwrap());
    assert_eq!(text(follow.next_page().unwrap()).as_deref(), Some("one\n"));
    assert_eq!((follow.next_page().unwrap(), follow.is_over()), (None, false));
    gates[0].open();
    until("the second text is saved", || saved(&store, life) == whole("one\ntwo\n")).await;
    assert_eq!(text(follow.next_page().unwrap()).as_deref(), Some("two\n"));
    gates[1].open();
    job.wait(STUCK).await.unwrap();
    // Its record has all of it now, and the store no more than that.
    assert_eq!(store.output(life).unwrap(), None);
    assert_eq!(text(follow.next_page().unwrap()).as_deref(), Some("end"));
    assert_eq!((follow.next_page().unwrap(), follow.is_over()), (None, true));
    assert!(looked.follow(&id("b"), 0).is_none());
    supervisor.shutdown().await;
}

// B59: one that writes on while its text is taken up is taken up once a commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn jobs_that_write_without_a_pause_are_saved_piece_by_piece() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = start_over(dir.path()).await;
    let session = supervisor.session("parent").await.unwrap();
    let enough = Gate::new();
    let floods = (0..3).map(|_| {
        let enough = enough.clone();
        JobSpec::run("flood", move |context: RunContext| async move {
            while !enough.is_open() {
                context.write([b'y'; 4_096]);
                tokio::task::yield_now().await;
            }
            Ok(().into())
        })
    });
    let group = session.fan_out(floods).await.unwrap();
    let reader = StoreReader::open(dir.path()).unwrap();
    for life in group.lifetimes() {
        let saved = || reader.output(*life).unwrap().map_or(0, |output| output.total);
        let whole = 8 * OUTPUT_SAVE_BYTES_MAX as u64;
        let is_over = || {
            supervisor.list(&JobFilter::default()).unwrap().jobs.iter().any(|job| job.ended_at_ms.is_some())
        };
        until("it is saved, many times over", || saved() > whole || is_over()).await;
    }
    enough.open();
    let result = group.wait(STUCK).await.unwrap();
    assert_eq!(result.counts.completed, 3);
    supervisor.shutdown().await;
}

// An output is that of the newest run: what the one before has left in the store goes as the next one starts.
#[tokio::test]
async fn another_try_begins_with_an_empty_output() {
    let store = MemoryStore::new();
    let supervisor = start_in(&store).await;
    let session = supervisor.session("parent").await.unwrap();
    let (first, second) = (Gate::new(), Gate::new());
    let gates = (first.clone(), second.clone());
    let spec = JobSpec::rerunnable("flaky", move |context: RunContext| {
        let (first, second) = gates.clone();
        async move {
            if !first.is_open() {
                context.write("x".repeat(100_000));
                first.passed().await;
                return Err(JobError::new("no"));
            }
            second.passed().await;
            context.write("better");
            std::future::pending().await
        }
    });
    let job = session.start(spec.retries(1).id(id("a"))).await.unwrap();
    let life = job.lifetime();
    until("the first try is saved", || saved(&store, life).is_some_and(|output| output.total == 100_000))
        .await;
    let mut follow = Stored::read(Arc::new(store.clone()), true).unwrap().follow(&id("a"), 0).unwrap();
    assert_eq!(follow.next_page().unwrap().unwrap().next, 100_000);
    first.open();
    until("the second try has begun", || supervisor.get(&id("a")).unwrap().runs == 2).await;
    assert_eq!(saved(&store, life), None);
    assert_eq!(follow.next_page().unwrap(), None);
    second.open();
    until("the second try is saved", || saved(&store, life) == whole("better")).await;
    let page = follow.next_page().unwrap().unwrap();
    assert_eq!((&*page.bytes, page.run, page.offset), (&b"better"[..], 2, 0));
    job.cancel().await.unwrap();
    supervisor.shutdown().await;
}

// B59: what is kept of a long output is bounded while it grows, too, and a reader is told what it missed.
#[tokio::test]
async fn the_middle_of_a_long_output_goes_while_it_grows() {
    const LEN: u64 = 6 * OUTPUT_BYTES_MAX + 17;
    let byte = |at: u64| at.wrapping_mul(2_654_435_761).to_be_bytes()[7] ^ (at >> 16).to_le_bytes()[0];
    let store = MemoryStore::new();
    let supervisor = start_in(&store).await;
    let session = supervisor.session("parent").await.unwrap();
    let gate = Gate::new();
    let wait = gate.clone();
    let spec = JobSpec::run("long", move |context: RunContext| async move {
        for part in (0..LEN).collect::<Vec<u64>>().chunks(100_000) {
            context.write(part.iter().map(|at| byte(*at)).collect::<Vec<u8>>());
            tokio::task::yield_now().await;
        }
        wait.passed().await;
        Ok(().into())
    });
    let job = session.start(spec.id(id("a"))).await.unwrap();
    let life = job.lifetime();
    let mut follow = {
        until("it is begun", || saved(&store, life).is_some()).await;
        Stored::read(Arc::new(store.clone()), true).unwrap().follow(&id("a"), 0).unwrap()
    };
    until("its end is saved", || saved(&store, life).is_some_and(|output| output.total == LEN)).await;
    let output = saved(&store, life).unwrap();
    let [(0, head), (at, tail)] = &output.pieces[..] else { panic!("{} pieces", output.pieces.len()) };
    assert_eq!(at + tail.len() as u64, LEN);
    let kept = (head.len() + tail.len()) as u64;
    assert!(
        (OUTPUT_BYTES_MAX - 10..OUTPUT_BYTES_MAX + 2 * OUTPUT_SAVE_BYTES_MAX as u64).contains(&kept),
        "{kept}"
    );
    let mut next = 0;
    while let Some(page) = follow.next_page().unwrap() {
        assert_eq!(page.dropped.as_ref().map_or(page.offset, |dropped| dropped.start), next);
        assert!(page.bytes.iter().zip(page.offset..).all(|(found, at)| *found == byte(at)));
        next = page.next;
    }
    assert_eq!(next, LEN);
    gate.open();
    job.wait(STUCK).await.unwrap();
    supervisor.shutdown().await;
}

// RE-3: what a job had put out is there after its supervisor.
#[tokio::test]
async fn the_output_of_an_interrupted_job_is_what_was_saved() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = start_over(dir.path()).await;
    let session = supervisor.session("parent").await.unwrap();
    let gates = [Gate::new(), Gate::new()];
    let job = session.start(writes(["one\n", "two\n"], &gates).id(id("a"))).await.unwrap();
    gates[0].open();
    until("it has written", || job.output().unwrap().bytes_total() == 8).await;
    drop((job, session, supervisor));
    let supervisor = start_over(dir.path()).await;
    let info = supervisor.get(&id("a")).unwrap();
    assert_eq!((info.status, info.cause), (Status::Error, Some(Cause::Interrupted)));
    assert_eq!(supervisor.output(&id("a")).unwrap().text(), "one\ntwo\n");
    supervisor.shutdown().await;
}

// what a group took is counted from its seal, whoever supervised it then.
#[tokio::test]
async fn the_duration_of_a_group_counts_over_a_crash() {
    let (store, wall) = (MemoryStore::new(), TestClock::new());
    let start = || Supervisor::builder().clock(wall.clone());
    let supervisor = start().journal(store.open().unwrap()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let group = session.fan_out([gated("a", &Gate::new()), idle("b")]).await.unwrap();
    over(&supervisor, &group.jobs()[1..]).await;
    drop((group, session, supervisor));
    wall.jump_ahead(Duration::from_secs(90));
    let mut journal = None;
    until("the store is free", || {
        journal = store.open().ok();
        journal.is_some()
    })
    .await;
    let supervisor = start().journal(journal.unwrap()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let wake = woken(&session).await;
    assert_eq!(wake.counts.error, 1);
    assert!((90_000..100_000).contains(&wake.duration_ms), "{} ms", wake.duration_ms);
    // One that begins now has nothing of that.
    let result = session.fan_out([idle("c")]).await.unwrap().wait(STUCK).await.unwrap();
    assert!(result.duration_ms < 10_000, "{} ms", result.duration_ms);
    supervisor.shutdown().await;
}

// SC-23, B48: what has left the memory is read from the store, in this life of the supervisor and in the next; an id is
// `expired` only where the store has not got it either.
#[tokio::test]
async fn reads_of_what_left_the_memory_fall_through_to_the_store() {
    let store = MemoryStore::new();
    let supervisor = start_in(&store).await;
    let session = supervisor.session("parent").await.unwrap();
    let long = JobSpec::run("a", |context: RunContext| async move {
        context.write("x".repeat(100_000));
        Ok("end".into())
    });
    let first = session.start(idle("a").id(id("a"))).await.unwrap();
    first.wait(STUCK).await.unwrap();
    let second = session.start(long.id(id("a")).again()).await.unwrap();
    let group = session.fan_out([idle("b").id(id("b")), idle("c").id(id("c"))]).await.unwrap();
    let result = group.wait(STUCK).await.unwrap();
    let entry = second.wait(STUCK).await.unwrap();
    let before: Vec<_> = ["a", "b", "c"].map(|name| supervisor.get(&id(name)).unwrap()).to_vec();
    let old = first.info().unwrap();
    session.fan_out((0..=FINISHED_JOBS).map(|_| idle("other"))).await.unwrap().wait(STUCK).await.unwrap();
    let in_memory = |supervisor: &Supervisor| {
        let filter = JobFilter { limit: usize::MAX, ..JobFilter::default() };
        supervisor.list(&filter).unwrap().jobs
    };
    until("all of them have left the memory", || {
        in_memory(&supervisor).iter().all(|job| job.label.as_deref() == Some("other"))
    })
    .await;

    let gate = Gate::new();
    session.start(gated("runs", &gate).id(id("runs"))).await.unwrap();
    for (name, before) in ["a", "b", "c"].iter().zip(&before) {
        assert_eq!(supervisor.get(&id(name)).unwrap(), *before);
    }
    assert_eq!(first.info().unwrap(), old);
    assert_eq!(supervisor.get_exact(&id("a"), first.lifetime()).unwrap(), old);
    assert_eq!(first.output().unwrap().text(), "done");
    assert_eq!(second.output().unwrap().bytes_total(), 100_003);
    assert_eq!(&*supervisor.read_output(&id("a"), 100_000, 0).unwrap().bytes, b"end");
    let mut follow = supervisor.follow(&id("a"), 100_001).unwrap();
    assert_eq!(&*follow.next_page().await.unwrap().unwrap().bytes, b"nd");
    assert_eq!(follow.next_page().await.unwrap(), None);
    // Waits: taken results are answered in full, and say so.
    assert_eq!(first.wait(STUCK).await.unwrap().lifetime, first.lifetime());
    let again = second.wait(STUCK).await.unwrap();
    assert_eq!((again.reference, again.output), (true, entry.output));
    let waited = session.wait_all(&[id("c"), id("a"), id("b")], STUCK).await.unwrap();
    assert_eq!(
        waited.entries.iter().map(|entry| entry.job.clone()).collect::<Vec<_>>(),
        ["c", "a", "b"].map(id)
    );
    assert!(waited.already_delivered);
    let again = group.wait(STUCK).await.unwrap();
    assert_eq!((&again.result, again.already_delivered), (&result.result, true));
    // Any of them is over already; all of them are not.
    let some = [id("runs"), id("b")];
    let waited = session.wait_any(&some, STUCK).await.unwrap();
    assert_eq!(waited.entries.iter().map(|entry| entry.job.clone()).collect::<Vec<_>>(), [id("b")]);
    let out = session.wait_all(&some, Duration::from_millis(1)).await.unwrap_err();
    assert_eq!(out.code(), "wait_timed_out");
    let all = async { session.wait_all(&some, STUCK).await.unwrap() };
    let (all, ()) = tokio::join!(all, async { gate.open() });
    assert_eq!(all.entries.iter().map(output).collect::<Vec<_>>(), ["runs", "done"]);
    assert!(!all.already_delivered);
    let twice = session.wait_all(&[id("b"), id("b")], STUCK).await.unwrap_err();
    assert_eq!(twice.code(), "duplicate_id");
    assert_eq!(supervisor.get(&id("never")).unwrap_err().code(), "unknown_job");
    assert_eq!(session.wait_all(&[id("b"), id("never")], STUCK).await.unwrap_err().code(), "unknown_job");
    assert_eq!(supervisor.get_exact(&id("a"), Lifetime(1)).unwrap_err().code(), "expired");
    supervisor.shutdown().await;

    let supervisor = start_in(&store).await;
    assert!(in_memory(&supervisor).iter().all(|job| job.job != id("a")));
    assert_eq!(supervisor.get(&id("a")).unwrap(), before[0]);
    assert_eq!(supervisor.output(&id("a")).unwrap().bytes_total(), 100_003);
    supervisor.shutdown().await;
}
