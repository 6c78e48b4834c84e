//! What a store keeps across an end of the process, in order and not (B19 to B24, B32).

use fanin_sqlite::{check, repair_accept_loss};
use fanin_supervisor::journal::{Journal, Row};
use fanin_supervisor::protocol::{Cause, JobId, LogId, Resume, RowKind, Status};
use fanin_supervisor::stored::LogFold;
use fanin_supervisor::testing::journal::{MemoryStore, records};
use fanin_supervisor::testing::{FakeRunner, script, woken};
use fanin_supervisor::{CallError, Delivery, Filter, JobSpec, Since, Supervisor};
use fanin_tests::cases::*;
use fanin_tests::stores::{journal, start_over};

fn id(text: &str) -> JobId {
    JobId::parse(text).unwrap()
}

// B21: finished stays finished.
#[tokio::test]
async fn what_was_finished_is_finished_after_a_clean_stop() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = start_over(dir.path()).await;
    let session = supervisor.session("parent").await.unwrap();
    let jobs = ["a", "b", "c"];
    let specs = jobs.map(|name| JobSpec::run(name, move |_| async move { Ok(name.into()) }).id(id(name)));
    let group = session.fan_out(specs).await.unwrap();
    let result = group.wait(STUCK).await.unwrap();
    let before: Vec<_> = jobs.iter().map(|name| supervisor.get(&id(name)).unwrap()).collect();
    supervisor.shutdown().await;

    let supervisor = start_over(dir.path()).await;
    let after: Vec<_> = jobs.iter().map(|name| supervisor.get(&id(name)).unwrap()).collect();
    assert_eq!(before, after);
    let session = supervisor.session("parent").await.unwrap();
    let ids = jobs.map(id);
    let waited = session.wait_all(&ids, STUCK).await.unwrap();
    assert!(waited.already_delivered);
    assert_eq!(waited.entries.len(), result.entries.len());
    assert_no_wake_now(&session);
    supervisor.shutdown().await;
}

// SH-4: an orderly end leaves to the next supervisor what it can take up, and a stop of all leaves nothing.
#[tokio::test]
async fn what_an_orderly_end_has_interrupted_goes_on_in_the_next_supervisor() {
    for is_all_stopped in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let agents = FakeRunner::agents().otherwise(script().hangs());
        let over = async |agents: &FakeRunner| {
            let builder = Supervisor::builder().slots(2).runner(agents.clone());
            builder.journal(journal(dir.path()).await).start().await.unwrap()
        };
        let supervisor = over(&agents).await;
        let session = supervisor.session("parent").await.unwrap();
        let agent = |name: &str| JobSpec::agent(name, "worker", "Go").id(id(name));
        let specs = [agent("again").resume(Resume::Rerun), agent("once"), agent("waits")];
        let group = session.fan_out(specs).await.unwrap();
        agents.until_started("once").await;
        if is_all_stopped {
            supervisor.stop_all(None);
        }
        supervisor.shutdown().await;
        assert_eq!(agents.started(), ["again", "once"], "nothing starts on the way");

        let agents = FakeRunner::agents().otherwise(script().completes("done"));
        let supervisor = over(&agents).await;
        let session = supervisor.session("parent").await.unwrap();
        let result = woken(&session).await;
        assert_eq!(result.group, *group.id());
        let (ends, again): ([&str; 3], &[&str]) = if is_all_stopped {
            (["cancelled{shutdown}"; 3], &[])
        } else {
            (["completed", "cancelled{shutdown}", "completed"], &["again", "waits"])
        };
        let found: Vec<_> = result.entries.iter().map(|entry| entry.summary()).collect();
        assert_eq!(found, ends);
        let mut started = agents.started();
        started.sort();
        assert_eq!(started, again);
        supervisor.shutdown().await;
    }
}

// B24: the last job of a group has ended, and the process dies before the wake goes out.
#[tokio::test]
async fn a_wake_that_is_owed_comes_once_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = start_over(dir.path()).await;
    let session = supervisor.session("parent").await.unwrap();
    let group = session.fan_out([idle("a"), idle("b")]).await.unwrap();
    over(&supervisor, group.jobs()).await;
    let (key, owed) = (group.id().clone(), group.jobs().to_vec());
    drop((group, session, supervisor));

    for _ in 0..2 {
        let supervisor = start_over(dir.path()).await;
        let session = supervisor.session("parent").await.unwrap();
        let wake = session.next_wake().await.unwrap();
        assert_eq!(wake.result().group, key);
        assert_eq!(wake.result().counts.completed, 2);
        // Dropped without its acknowledgement: it is owed still.
        drop(wake);
        drop((session, supervisor));
    }
    let supervisor = start_over(dir.path()).await;
    let session = supervisor.session("parent").await.unwrap();
    session.next_wake().await.unwrap().ack().await.unwrap();
    drop((session, supervisor));
    let supervisor = start_over(dir.path()).await;
    let session = supervisor.session("parent").await.unwrap();
    assert_no_wake_now(&session);
    assert!(supervisor.get(&owed[0]).is_ok());
    supervisor.shutdown().await;
}

// B19, B22: every orphan, not the first; nothing is shown as running; a stop answers that it is over.
#[tokio::test]
async fn every_open_part_is_closed_and_every_run_ended_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = start_over(dir.path()).await;
    for (name, parts) in [("one", 3), ("two", 2)] {
        let session = supervisor.session(name).await.unwrap();
        let told = std::sync::Arc::new(tokio::sync::Notify::new());
        let tell = std::sync::Arc::clone(&told);
        let spec = JobSpec::run(name, move |context| async move {
            for part in 0..parts {
                let call = context.tool(format!("call-{part}"), "shell");
                if part > 0 {
                    call.begin();
                }
                std::mem::forget(call);
            }
            tell.notify_one();
            std::future::pending::<()>().await;
            Ok(().into())
        });
        session.fan_out([spec.id(id(name))]).await.unwrap();
        told.notified().await;
    }
    drop(supervisor);
    let supervisor = start_over(dir.path()).await;
    for name in ["one", "two"] {
        let info = supervisor.get(&id(name)).unwrap();
        assert_eq!((info.status, info.cause), (Status::Error, Some(Cause::Interrupted)));
        assert!(matches!(
            supervisor.cancel(&id(name)).await.unwrap(),
            fanin_supervisor::Cancelled::AlreadyEnded(Status::Error)
        ));
        let session = supervisor.session(name).await.unwrap();
        let wake = woken(&session).await;
        assert_eq!(wake.entries[0].summary(), "error{interrupted}");
    }
    supervisor.shutdown().await;
    assert!(
        matches!(supervisor.session("three").await, Err(error) if error.code() == CallError::Closed.code())
    );
}

// B12: two orphans, then three orderly starts and stops: what became of them is told once in all.
#[tokio::test]
async fn an_orphan_is_told_once_however_often_the_store_is_opened() {
    let (dir, alive) = (tempfile::tempdir().unwrap(), Alive::default());
    let supervisor = start_over(dir.path()).await;
    let session = supervisor.session("parent").await.unwrap();
    let group = session.fan_out([stubborn("a", &alive), stubborn("b", &alive)]).await.unwrap();
    let launched = group.id().clone();
    drop((group, session, supervisor));

    let mut told = Vec::new();
    for _ in 0..3 {
        let supervisor = start_over(dir.path()).await;
        let session = supervisor.session("parent").await.unwrap();
        if told.is_empty() {
            let wake = woken(&session).await;
            let ends: Vec<_> = wake.entries.iter().map(|entry| entry.summary()).collect();
            assert_eq!(ends, ["error{interrupted}"; 2]);
            told.push(wake.group.clone());
        }
        assert_no_wake_now(&session);
        drop(session);
        supervisor.shutdown().await;
    }
    assert_eq!(told, [launched]);
    let mut journal = fanin_sqlite::SqliteJournal::open(dir.path(), &Default::default()).unwrap();
    let kinds = |kind: &str| {
        let records = records(&*journal.reader()).unwrap();
        records.iter().filter(|record| record.kind == kind).count()
    };
    let counts = ["store.opened", "run.ended", "job.ended", "group.fired", "message.taken"].map(kinds);
    assert_eq!(counts, [4, 2, 2, 1, 1]);
    journal.load().unwrap();
}

// B-4, B-5, B44: a subscriber that is behind what is in memory catches up from the store, and then it is live.
#[tokio::test]
async fn a_subscriber_catches_up_from_the_store_and_goes_on_live() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = start_over(dir.path()).await;
    let session = supervisor.session("parent").await.unwrap();
    session.fan_out((0..500).map(|_| idle("a"))).await.unwrap().wait(STUCK).await.unwrap();
    supervisor.shutdown().await;

    let supervisor = start_over(dir.path()).await;
    let session = supervisor.session("parent").await.unwrap();
    let mut events = supervisor.subscribe(Filter::all(), Since::Start).await.unwrap();
    let mut next = 1;
    let end = supervisor.snapshot(Filter::all()).unwrap().0.at.seq.0;
    while next <= end {
        let Some(Delivery::Event(event)) = events.next().await else { panic!("an event") };
        assert_eq!(event.seq().0, next);
        next += 1;
    }
    let (_, cursor) = (session.fan_out([idle("b")]).await.unwrap(), events.cursor());
    let Some(Delivery::Event(event)) = events.next().await else { panic!("an event") };
    assert_eq!((event.seq().0, event.kind()), (next, "job.queued"));
    // Its place is good in another life of the supervisor.
    drop((session, events));
    supervisor.shutdown().await;
    let supervisor = start_over(dir.path()).await;
    let filter = Filter::all().kinds(["store.closed", "store.opened"]);
    let mut events = supervisor.subscribe(filter, Since::Cursor(cursor)).await.unwrap();
    for kind in ["store.closed", "store.opened"] {
        let Some(Delivery::Event(event)) = events.next().await else { panic!("an event") };
        assert_eq!(event.kind(), kind);
    }
    supervisor.shutdown().await;
}

// ST-4: what a person has given up is gone, with what belongs to it alone, and the rest goes on.
#[tokio::test]
async fn a_store_whose_group_was_given_up_goes_on_without_its_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = start_over(dir.path()).await;
    let session = supervisor.session("parent").await.unwrap();
    let lost = session.fan_out([idle("a").id(id("a"))]).await.unwrap();
    over(&supervisor, lost.jobs()).await;
    supervisor.shutdown().await;
    let file = dir.path().join("store.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let word = b"sealed_at_ms";
    let at = bytes.windows(word.len()).position(|window| window == word).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let log = LogId::from_uuid([9; 16]);
    let repaired = repair_accept_loss(dir.path(), &log).unwrap();
    assert!(
        repaired.lost.len() == 1 && repaired.lost[0].starts_with("the row of group"),
        "{:?}",
        repaired.lost
    );
    // The records still tell of it, and that is no damage any more.
    assert!(check(dir.path(), |_| {}).unwrap().is_repaired);

    let supervisor = start_over(dir.path()).await;
    assert_eq!(supervisor.get(&id("a")).unwrap_err().code(), "unknown_job");
    let session = supervisor.session("parent").await.unwrap();
    let group = session.fan_out([idle("b").id(id("b"))]).await.unwrap();
    assert_eq!(group.wait(STUCK).await.unwrap().counts.completed, 1);
    supervisor.shutdown().await;
    let supervisor = start_over(dir.path()).await;
    assert_eq!(supervisor.get(&id("b")).unwrap().status, Status::Completed);
    supervisor.shutdown().await;
}

// ST-3, G1: rows whose checksums are right and that say something else than the log are damage as well.
#[tokio::test]
async fn a_row_that_is_not_what_the_log_says_is_found() {
    let store = MemoryStore::new();
    let supervisor = Supervisor::builder().journal(store.open().unwrap()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    supervisor.session("other").await.unwrap();
    let began = Gate::new();
    let tell = began.clone();
    let open = JobSpec::run("open", move |context| async move {
        tell.open();
        context.cancelled().await;
        Ok(().into())
    });
    session.fan_out([idle("a"), open]).await.unwrap();
    session.fan_out([idle("b")]).await.unwrap().wait(STUCK).await.unwrap();
    session.post("one", None).await.unwrap();
    session.post("two", None).await.unwrap();
    began.passed().await;
    supervisor.shutdown().await;
    drop((session, supervisor));

    let mut fold = LogFold::default();
    records(&store).unwrap().iter().for_each(|record| fold.take(record));
    let rows = store.open().and_then(|mut journal| journal.load()).unwrap().rows;
    assert_eq!(fold.compare(&rows), Ok(true));
    let differs = |rows: &[Row], what: &str| {
        let told = fold.compare(rows).expect_err(what);
        assert!(told.starts_with("row "), "{told}");
    };
    let mut open = 0;
    for (place, row) in rows.iter().enumerate() {
        let mut fewer = rows.clone();
        fewer.remove(place);
        // What is over may have been let go.
        match fold.compare(&fewer) {
            Ok(_) => assert!([RowKind::Group, RowKind::Job].contains(&row.kind), "{row:?}"),
            Err(told) => open += usize::from(told.ends_with("it is gone, and not over")),
        }
        for other in rows.iter().filter(|other| other.kind == row.kind && other.key != row.key) {
            let mut others = rows.clone();
            others[place].body = other.body.clone();
            differs(&others, "the body of another");
        }
        let mut more = rows.clone();
        more.push(Row { key: row.key + 100, ..row.clone() });
        differs(&more, "one too many");
        let mut broken = rows.clone();
        broken[place].body = broken[place].body.slice(1..);
        differs(&broken, "half a row");
    }
    // The store, two sessions, the group that is owed with its two jobs, two messages.
    assert_eq!((rows.len(), open), (10, 8));

    // What cannot be told is not told.
    let mut late = LogFold::default();
    records(&store).unwrap().iter().skip(1).for_each(|record| late.take(record));
    assert_eq!(late.compare(&rows), Ok(false));
    let mut hole = LogFold::default();
    records(&store).unwrap().iter().filter(|record| record.seq.0 != 3).for_each(|record| hole.take(record));
    assert_eq!(hole.compare(&rows), Ok(false));
}
