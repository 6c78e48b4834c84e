//! What happens around a commit: nothing is told before it, a full disk, a store that fails (C-3, C-4, ST-9, B85).

use std::sync::Arc;

use fanin_supervisor::journal::{
    Batch, Journal, JournalError, JournalReader, Opened, OutputChange, RecordPage, Row, StoredOutput,
};
use fanin_supervisor::protocol::record::{Level, NoteCode};
use fanin_supervisor::protocol::{Envelope, GroupId, JobId, Lifetime, Record, RowKind, Seq, Status};
use fanin_supervisor::{
    Bound, Delivery, Filter, GroupOptions, JobFilter, JobSpec, RunContext, Session, Since, Supervisor,
};
use fanin_tests::cases::process::until;
use fanin_tests::cases::*;
use parking_lot::{Condvar, Mutex};

/// A journal that commits when a test says so, and answers what the test wants.
#[derive(Debug, Clone, Default)]
struct Held(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<Kept>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    is_held: bool,
    answer: Option<JournalError>,
    /// What runs put out finds no room.
    has_no_room_for_text: bool,
    is_low: bool,
    /// How often it was asked whether space is low.
    looks: usize,
    /// Batches that were asked for, tried ones too.
    asked: usize,
    batches: Vec<Batch>,
}

impl Held {
    fn hold(&self) {
        self.0.state.lock().is_held = true;
    }

    fn let_go(&self) {
        self.0.state.lock().is_held = false;
        self.0.moved.notify_all();
    }

    fn answers(&self, answer: impl Into<Option<JournalError>>) {
        self.0.state.lock().answer = answer.into();
    }

    /// Waits until so many batches were asked for.
    async fn asked(&self, batches: usize) {
        let held = self.clone();
        // It has a bound of its own: a runtime that is dropped waits for a thread like this one.
        let wait = tokio::task::spawn_blocking(move || {
            let mut kept = held.0.state.lock();
            let is_early = |kept: &mut Kept| kept.asked < batches;
            !held.0.moved.wait_while_for(&mut kept, is_early, STUCK).timed_out()
        });
        assert!(wait.await.unwrap(), "{batches} batches were never asked for");
    }

    /// The notes among the records, and what was put out.
    fn kept<R>(&self, look: impl Fn(&Batch) -> Vec<R>) -> Vec<R> {
        self.0.state.lock().batches.iter().flat_map(look).collect()
    }

    fn notes(&self) -> usize {
        let is_note = |record: &Envelope| matches!(record.record(), Ok(Some(Record::Note(note))) if note.code == NoteCode::LowSpace);
        self.kept(|batch| batch.records.iter().filter(|record| is_note(record)).map(drop).collect()).len()
    }

    fn texts(&self) -> Vec<OutputChange> {
        let is_text = |change: &&OutputChange| matches!(change, OutputChange::Append { .. });
        self.kept(|batch| batch.outputs.iter().filter(is_text).cloned().collect())
    }

    fn count(&self) -> usize {
        self.0.state.lock().asked
    }
}

impl Journal for Held {
    fn level(&self) -> Level {
        Level::Durable
    }

    fn load(&mut self) -> Result<Opened, JournalError> {
        Ok(Opened::default())
    }

    fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let mut kept = self.0.state.lock();
        kept.asked += 1;
        self.0.moved.notify_all();
        while kept.is_held {
            self.0.moved.wait(&mut kept);
        }
        if let Some(error) = &kept.answer {
            return Err(error.clone());
        }
        let has_text = batch.outputs.iter().any(|change| matches!(change, OutputChange::Append { .. }));
        if has_text && kept.has_no_room_for_text {
            return Err(JournalError::Full("no space for text".into()));
        }
        kept.batches.push(batch.clone());
        Ok(())
    }

    fn is_low(&mut self) -> bool {
        let mut kept = self.0.state.lock();
        kept.looks += 1;
        kept.is_low
    }

    fn reader(&self) -> Arc<dyn JournalReader> {
        Arc::new(Nothing)
    }

    fn close(self: Box<Self>) -> Result<(), JournalError> {
        Ok(())
    }
}

#[derive(Debug)]
struct Nothing;

impl JournalReader for Nothing {
    fn page(&self, _: Seq, _: usize) -> Result<RecordPage, JournalError> {
        Err(JournalError::Io("nothing is kept".into()))
    }

    fn find_before(&self, _: RowKind, _: &str, _: u64) -> Result<Option<Row>, JournalError> {
        Ok(None)
    }

    fn row(&self, _: RowKind, _: u64) -> Result<Option<Row>, JournalError> {
        Ok(None)
    }

    fn rows(&self, _: RowKind, _: u64, _: usize) -> Result<Vec<Row>, JournalError> {
        Ok(Vec::new())
    }

    fn output_from(&self, _: Lifetime, _: u64) -> Result<Option<StoredOutput>, JournalError> {
        Ok(None)
    }
}

async fn start_held() -> (Held, Supervisor, Session) {
    let held = Held::default();
    let supervisor = Supervisor::builder().journal(held.clone()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    (held, supervisor, session)
}

// C-3, P1: reply, event and effect all wait.
#[tokio::test]
async fn nothing_is_told_before_it_is_committed() {
    let (held, supervisor, session) = start_held().await;
    let mut events = supervisor.subscribe(Filter::all(), Since::Now).await.unwrap();
    let (began, gate) = (Gate::new(), Gate::new());
    let (tell, wait) = (began.clone(), gate.clone());
    let spec = JobSpec::run("a", move |_| async move {
        tell.open();
        wait.passed().await;
        Ok("done".into())
    });
    held.hold();
    let before = held.count();
    let mut launch = Box::pin(session.fan_out([spec.id(JobId::parse("a").unwrap())]));
    assert!(futures_pending(&mut launch), "the launch was answered");
    held.asked(before + 1).await;
    assert!(futures_pending(&mut launch), "the launch was answered before its commit");
    assert!(events.try_next().is_err(), "an event came before its commit");
    assert!(!began.is_open(), "the job began before its commit");
    assert_eq!(supervisor.get(&JobId::parse("a").unwrap()).unwrap_err().code(), "busy");
    held.let_go();
    let group = soon(launch).await.unwrap();
    soon(began.passed()).await;
    assert!(events.try_next().is_ok());
    gate.open();
    assert_eq!(group.wait(STUCK).await.unwrap().counts.completed, 1);
    soon(supervisor.shutdown()).await;
}

// S-3: a runner sends no prompt before the agent's session can be found after a crash.
#[tokio::test]
async fn what_must_be_kept_first_is_waited_for() {
    let (held, supervisor, session) = start_held().await;
    let (gate, kept) = (Gate::new(), Gate::new());
    let (wait, tell) = (gate.clone(), kept.clone());
    let spec = JobSpec::run("a", move |context: RunContext| async move {
        wait.passed().await;
        context.bound_and_kept(Bound { external_session: Some("s".into()), ..Bound::default() }).await?;
        tell.open();
        Ok("done".into())
    });
    let group = session.fan_out([spec]).await.unwrap();
    held.hold();
    let before = held.count();
    gate.open();
    held.asked(before + 1).await;
    assert!(!kept.is_open(), "it went on before the commit");
    held.let_go();
    soon(kept.passed()).await;
    assert_eq!(group.wait(STUCK).await.unwrap().counts.completed, 1);
    soon(supervisor.shutdown()).await;
}

// C-3: an answer that brings no record costs no commit, and overtakes none.
#[tokio::test]
async fn an_answer_without_records_costs_no_commit() {
    let (held, supervisor, session) = start_held().await;
    let gate = Gate::new();
    let group = session.fan_out([gated("a", &gate)]).await.unwrap();
    held.hold();
    let before = held.count();
    gate.open();
    held.asked(before + 1).await;
    let mut wake = Box::pin(session.next_wake());
    assert!(futures_pending(&mut wake), "it was told before the commit of what it says");
    held.let_go();
    for _ in 0..3 {
        // One that is dropped is given back, and offered again.
        let offered = soon(wake).await.unwrap();
        assert_eq!(offered.result().group, *group.id());
        drop(offered);
        wake = Box::pin(session.next_wake());
    }
    let offered = soon(wake).await.unwrap();
    assert_eq!(held.count(), before + 1, "what brought no record was committed");
    let mut next = Box::pin(session.next_wake());
    assert!(futures_pending(&mut next), "one wake was offered to two");
    held.hold();
    let mut later = Box::pin(supervisor.session("later"));
    assert!(futures_pending(&mut later));
    held.asked(before + 2).await;
    drop(offered);
    assert!(futures_pending(&mut next), "an answer overtook the commit that was decided before it");
    held.let_go();
    soon(soon(next).await.unwrap().ack()).await.unwrap();
    soon(later).await.unwrap();
    assert_eq!(held.count(), before + 3);
    assert!(!held.0.state.lock().batches.iter().any(Batch::is_empty));
    soon(supervisor.shutdown()).await;
}

/// Polls once.
fn futures_pending<F: Future + Unpin>(future: &mut F) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(future).poll(&mut context).is_pending()
}

// ST-9, B85: launches are refused, what runs goes on, a stop stops, and what ended is written once there is room.
#[tokio::test]
async fn a_full_disk_refuses_launches_and_loses_nothing() {
    let (held, supervisor, session) = start_held().await;
    let (one, stopped) = (Gate::new(), Gate::new());
    let (wait, tell) = (one.clone(), stopped.clone());
    let first = JobSpec::run("one", move |_| async move {
        wait.passed().await;
        Ok("done".into())
    });
    let second = JobSpec::run("two", move |context| async move {
        context.cancelled().await;
        tell.open();
        Ok(().into())
    });
    let group = session.fan_out([first, second.id(JobId::parse("two").unwrap())]).await.unwrap();
    held.answers(JournalError::Full("no space".into()));
    let before = held.count();
    one.open();
    held.asked(before + 1).await;
    // It is tried again each second; by then the refusal of the first try is known.
    held.asked(before + 2).await;
    let refused = soon(session.fan_out([idle("three")])).await.unwrap_err();
    assert_eq!(refused.code(), "store_full", "{refused}");
    // A stop is let out at once; its record and its answer wait.
    let supervisor_two = supervisor.clone();
    let cancel = tokio::spawn(async move { supervisor_two.cancel(&JobId::parse("two").unwrap()).await });
    soon(stopped.passed()).await;
    assert!(!cancel.is_finished(), "the cancel was answered before its record");
    held.answers(None);
    soon(cancel).await.unwrap().unwrap();
    let result = soon(group.wait(STUCK)).await.unwrap();
    assert_eq!(result.entries[0].status, Status::Completed);
    assert_eq!(result.entries[1].summary(), "cancelled{user}");
    assert!(soon(session.fan_out([idle("four")])).await.is_ok());
    assert_eq!(held.notes(), 1, "it is noted once, as soon as there is room for that");
    soon(supervisor.shutdown()).await;
}

// ST-9: with little space nothing new is taken on, what runs goes on, and nobody has to do anything once there is more.
#[tokio::test]
async fn low_space_refuses_launches_until_there_is_more() {
    let (held, supervisor, session) = start_held().await;
    let gates = [Gate::new(), Gate::new()];
    let group = session.fan_out(gates.each_ref().map(|gate| gated("a", gate))).await.unwrap();
    held.0.state.lock().is_low = true;
    gates[0].open();
    over(&supervisor, &group.jobs()[..1]).await;
    let refused = soon(session.fan_out([idle("b")])).await.unwrap_err();
    assert_eq!(refused.code(), "store_low", "{refused}");
    gates[1].open();
    assert_eq!(soon(group.wait(STUCK)).await.unwrap().counts.completed, 2);
    // What the wait has left to commit is committed, with a few looks, and nothing comes after it: it is looked for by
    // itself.
    supervisor.session("other").await.unwrap();
    let looks = held.0.state.lock().looks;
    until("it is looked for", || held.0.state.lock().looks > looks + 3).await;
    held.0.state.lock().is_low = false;
    let accepted = async { while session.fan_out([idle("c")]).await.is_err() {} };
    soon(accepted).await;
    assert_eq!(held.notes(), 1);
    soon(supervisor.shutdown()).await;
}

// ST-9, J-21: who launches again what is there is answered, as a run is that is resumed; new lives are refused.
#[tokio::test]
async fn a_launch_of_what_is_there_is_answered_where_nothing_new_is_taken_on() {
    for answer in [None, Some(JournalError::Full("no space".into()))] {
        let (held, supervisor, session) = start_held().await;
        let gates = [Gate::new(), Gate::new()];
        let specs = || ["a", "b"].map(|name| gated(name, &gates[1]).id(JobId::parse(name).unwrap()));
        let known = GroupOptions { id: Some(GroupId::parse("known").unwrap()), ..GroupOptions::default() };
        let group = session.fan_out_with(known.clone(), specs()).await.unwrap();
        let other = session.fan_out([gated("other", &gates[0])]).await.unwrap();
        let code = if answer.is_none() { "store_low" } else { "store_full" };
        let before = held.count();
        held.0.state.lock().is_low = answer.is_none();
        held.answers(answer);
        gates[0].open();
        if code == "store_low" {
            over(&supervisor, other.jobs()).await;
        } else {
            // By the second try the refusal of the first is known.
            held.asked(before + 2).await;
        }
        assert_eq!(soon(session.fan_out([idle("new")])).await.unwrap_err().code(), code);
        // Its answer waits until what it says is committed.
        let mut by_group = Box::pin(session.fan_out_with(known, specs()));
        let mut by_jobs = Box::pin(session.fan_out(specs()));
        if code == "store_full" {
            assert!(futures_pending(&mut by_group) && futures_pending(&mut by_jobs));
        }
        held.answers(None);
        for again in [soon(by_group).await.unwrap(), soon(by_jobs).await.unwrap()] {
            assert_eq!((again.id(), again.lifetimes()), (group.id(), group.lifetimes()));
        }
        gates[1].open();
        assert_eq!(soon(group.wait(STUCK)).await.unwrap().counts.completed, 2);
        assert_eq!(soon(other.wait(STUCK)).await.unwrap().counts.completed, 1);
        soon(supervisor.shutdown()).await;
    }
}

// ST-9, J-1: of a launch that found no room nothing is there: no record, no job, no body.
#[tokio::test]
async fn of_a_launch_that_is_refused_for_space_nothing_is_left() {
    let (held, supervisor, session) = start_held().await;
    held.0.state.lock().is_low = true;
    let alive = Arc::new(());
    let body = || {
        let alive = Arc::clone(&alive);
        JobSpec::run("new", move |_| async move {
            drop(alive);
            Ok(().into())
        })
    };
    let is_refused = async { while session.fan_out([idle("first")]).await.is_ok() {} };
    soon(is_refused).await;
    supervisor.session("settled").await.unwrap();
    let seen = || {
        (supervisor.list(&JobFilter::default()).unwrap().jobs.len(), held.kept(|batch| batch.records.clone()))
    };
    let before = seen();
    let ids = ["x", "y"].map(|name| JobId::parse(name).unwrap());
    for id in &ids {
        assert_eq!(session.fan_out([body().id(id.clone())]).await.unwrap_err().code(), "store_low");
        assert_eq!(session.start(body().id(id.clone())).await.unwrap_err().code(), "store_low");
    }
    supervisor.session("later").await.unwrap();
    let after = seen();
    let kinds = |records: &[Envelope]| records.iter().map(|record| record.kind.clone()).collect::<Vec<_>>();
    assert_eq!(kinds(&after.1[before.1.len()..]), ["session.opened"]);
    assert_eq!(after.0, before.0);
    assert_eq!(Arc::strong_count(&alive), 1, "a body is kept");
    assert!(ids.iter().all(|id| supervisor.get(id).unwrap_err().code() == "unknown_job"));
    soon(supervisor.shutdown()).await;
}

// ST-9: text is no record. What a job puts out waits where there is no room for it, and no end of a job waits for it.
#[tokio::test]
async fn text_without_room_holds_up_no_record() {
    let (held, supervisor, session) = start_held().await;
    let gates = [Gate::new(), Gate::new()];
    let wait = gates.clone();
    let body = JobSpec::run("a", move |context: RunContext| async move {
        context.write("one");
        wait[0].passed().await;
        context.write("two");
        wait[1].passed().await;
        Ok(().into())
    });
    held.0.state.lock().has_no_room_for_text = true;
    let group = session.fan_out([body, gated("b", &gates[0])]).await.unwrap();
    until("it is noted", || held.notes() == 1).await;
    // It is tried again each second, and refused again.
    let refused = async {
        loop {
            if let Err(refused) = session.fan_out([idle("c")]).await {
                return refused;
            }
        }
    };
    assert_eq!(soon(refused).await.code(), "store_full");
    gates[0].open();
    over(&supervisor, &group.jobs()[1..]).await;
    assert_eq!(held.texts(), []);
    held.0.state.lock().has_no_room_for_text = false;
    let job = group.lifetimes()[0];
    until("it is saved", || !held.texts().is_empty()).await;
    assert_eq!(held.texts(), [OutputChange::Append { job, at: 0, bytes: "onetwo".into() }]);
    gates[1].open();
    assert_eq!(soon(group.wait(STUCK)).await.unwrap().counts.completed, 2);
    soon(session.fan_out([idle("d")])).await.unwrap();
    assert_eq!(held.notes(), 1);
    soon(supervisor.shutdown()).await;
}

// SC-6, B-7: what was decided before a drop is committed, and then those who watch hear the end. Nothing runs that would
// hold what is dropped.
#[tokio::test]
async fn a_drop_with_a_commit_under_way_ends_what_is_watched() {
    let (held, supervisor, session) = start_held().await;
    let mut events = supervisor.subscribe(Filter::all(), Since::Now).await.unwrap();
    held.hold();
    let before = held.count();
    let mut one = Box::pin(supervisor.session("one"));
    assert!(futures_pending(&mut one), "the session was answered before its commit");
    held.asked(before + 1).await;
    let mut two = Box::pin(supervisor.session("two"));
    assert!(futures_pending(&mut two), "the session was answered before its commit");
    drop((one, two));
    drop((supervisor, session));
    held.let_go();
    let mut kinds = Vec::new();
    while let Some(Delivery::Event(event)) = soon(events.next()).await {
        kinds.push(event.kind());
    }
    assert_eq!(kinds, ["session.opened", "session.opened"]);
}

// C-4: a store that failed is not asked again, and everything says so.
#[tokio::test]
async fn a_store_that_fails_stops_everything_and_says_so() {
    let (held, supervisor, session) = start_held().await;
    let gate = Gate::new();
    let wait = gate.clone();
    let body = JobSpec::run("one", move |_| async move {
        wait.passed().await;
        Ok(().into())
    });
    let group = session.fan_out([body]).await.unwrap();
    let mut waits = Box::pin(group.wait(STUCK));
    let mut wakes = Box::pin(session.next_wake());
    assert!(futures_pending(&mut waits) && futures_pending(&mut wakes));
    held.answers(JournalError::Io("the disk is gone".into()));
    let failed = session.fan_out([idle("two")]).await.unwrap_err();
    assert_eq!(failed.code(), "store_io", "{failed}");
    let asked = held.count();
    assert_eq!(supervisor.cancel(&group.jobs()[0]).await.unwrap_err().code(), "store_io");
    assert_eq!(supervisor.session("other").await.unwrap_err().code(), "store_io");
    // A wait says why nobody answers: one that came before, and one that comes late.
    assert_eq!(soon(waits).await.unwrap_err().code(), "store_io");
    assert_eq!(soon(wakes).await.unwrap_err().code(), "store_io");
    assert_eq!(group.wait(STUCK).await.unwrap_err().code(), "store_io");
    assert_eq!(held.count(), asked, "a failed store was asked again");
    soon(supervisor.shutdown()).await;
}
