//! One life of a supervisor, from its opening to its death or its end, and somebody outside who keeps what was told.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fanin_supervisor::journal::{Batch, Journal};
use fanin_supervisor::protocol::limits::ORPHANS_PER_STEP;
use fanin_supervisor::protocol::{GroupId, JobId, Lifetime, NodeId, Policy, Resume, SessionId, Status};
use fanin_supervisor::testing::{FakeRunner, assert_no_wake_now, script};
use fanin_supervisor::{
    CallError, Cancelled, Delivery, Filter, Foreground, Group, GroupOptions, Job, JobFilter, JobSpec,
    Message, Promotion, RunContext, Session, Since, Subscription, Supervisor,
};
use fanin_tests::cases::{Gate, STUCK};
use fanin_tests::cut::{Committed, Cut, CutJournal};
use parking_lot::Mutex;

use crate::told::{Dead, Told, ledger};

/// How a life ends that is not cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    InOrder,
    Dropped,
}

/// What is kept of a life.
pub(crate) struct Life {
    pub(crate) told: Told,
    pub(crate) batches: Vec<Batch>,
    /// The cut was reached.
    pub(crate) was_cut: bool,
}

/// What a script works with.
#[derive(Clone)]
pub(crate) struct Outside {
    supervisor: Supervisor,
    runner: FakeRunner,
    told: Arc<Mutex<Told>>,
    committed: Committed,
}

/// Lets a supervisor live over a store that holds these batches, until the script is done or the store is cut. Nothing
/// that it was told is forgotten.
pub(crate) async fn live<S, F>(
    journal: impl Journal,
    before: &[Batch],
    cut: Cut,
    (runner, told): (FakeRunner, Told),
    script: S,
) -> Life
where
    S: FnOnce(Outside) -> F,
    F: Future<Output = Result<End, Dead>>,
{
    let (journal, committed) = CutJournal::new(journal, before.to_vec(), cut);
    let told = Arc::new(Mutex::new(told));
    let started = Supervisor::builder().runner(runner.clone()).journal(journal).start().await;
    match started {
        Err(error) => assert!(committed.was_cut() && error.code() == "store_io", "{error}"),
        Ok(supervisor) => {
            let outside =
                Outside { supervisor, runner, told: Arc::clone(&told), committed: committed.clone() };
            let lived = tokio::time::timeout(STUCK, outside.live(script)).await;
            assert!(lived.is_ok(), "it hangs; told was {:#?}", told.lock());
        }
    }
    let gone = tokio::time::timeout(STUCK, committed.gone()).await;
    assert!(gone.is_ok(), "the journal is still held");
    let told = told.lock().clone();
    Life { told, batches: committed.batches(), was_cut: committed.was_cut() }
}

impl Outside {
    async fn live<S, F>(self, script: S)
    where
        S: FnOnce(Self) -> F,
        F: Future<Output = Result<End, Dead>>,
    {
        let events = self.supervisor.subscribe(Filter::all(), Since::Start).await;
        let watch = tokio::spawn(watch(events.unwrap(), Arc::clone(&self.told)));
        tokio::pin!(watch);
        let end = tokio::select! {
            biased;
            end = script(self.clone()) => end,
            watched = &mut watch => {
                watched.unwrap();
                assert!(self.committed.was_cut(), "its events end and nobody ended it");
                return;
            }
        };
        match end {
            Err(Dead) => assert!(self.committed.was_cut(), "it is dead and nobody killed it"),
            Ok(End::Dropped) => {}
            Ok(End::InOrder) => {
                self.supervisor.shutdown().await;
                self.tell(|told| told.closed = !self.committed.was_cut());
            }
        }
        drop(self);
        watch.await.unwrap();
    }
}

async fn watch(mut events: Subscription, told: Arc<Mutex<Told>>) {
    while let Some(delivery) = events.next().await {
        let Delivery::Event(event) = delivery else { panic!("{delivery:?}") };
        let record = event.record();
        let before = told.lock().events.insert(event.seq().0, record.clone());
        assert!(before.is_none_or(|before| before == *record), "record {} has changed", event.seq());
    }
}

impl Outside {
    fn tell<R>(&self, tell: impl FnOnce(&mut Told) -> R) -> R {
        tell(&mut self.told.lock())
    }

    fn launched(&self, group: &Group) {
        let jobs = group.jobs().iter().cloned().zip(group.lifetimes().iter().copied()).collect();
        self.tell(|told| told.launched.push((group.id().clone(), jobs)));
    }

    fn started(&self, job: &Job) {
        let jobs = vec![(job.id().clone(), job.lifetime())];
        self.tell(|told| told.launched.push((job.group().clone(), jobs)));
    }

    /// Looks, again where what there is to see is not committed yet.
    async fn look<R>(&self, look: impl Fn(&Supervisor) -> Result<R, CallError>) -> Result<R, Dead> {
        loop {
            match look(&self.supervisor) {
                Err(CallError::Busy) => tokio::task::yield_now().await,
                looked => return Ok(looked?),
            }
        }
    }

    /// The job is over, and shown as that.
    async fn shown_over(&self, job: &JobId) -> Result<(), Dead> {
        let info = self.look(|supervisor| supervisor.get(job)).await?;
        assert!(info.status.is_terminal(), "{info:?}");
        self.tell(|told| told.ended.insert(info.lifetime, info.status));
        Ok(())
    }

    async fn cancel(&self, job: &JobId, lifetime: Lifetime) -> Result<(), Dead> {
        match self.supervisor.cancel_exact(job, lifetime).await? {
            Cancelled::Stopping | Cancelled::Ended => self.tell(|told| told.cancelled.push(lifetime)),
            Cancelled::AlreadyEnded(status) => {
                self.tell(|told| told.ended.insert(lifetime, status));
            }
        }
        Ok(())
    }

    /// Takes the next message of the parent.
    async fn take(&self, session: &Session) -> Result<(), Dead> {
        match session.next_message().await? {
            Message::Wake(wake) => {
                self.tell(|told| told.wake_comes(wake.result()));
                let group = wake.ack().await?.group.clone();
                self.tell(|told| told.acked.insert(group));
            }
            Message::Words(words) => {
                let key = words.key().clone();
                assert!(!self.told.lock().words.contains(&key), "{key} comes again");
                words.ack().await?;
                self.tell(|told| told.words.insert(key));
            }
            Message::Hit(hit) => panic!("nobody watches: {}", *hit),
        }
        Ok(())
    }
}

/// Commands as they are in the life that is cut: one of them never ends.
pub(crate) fn first_commands() -> FakeRunner {
    commands(script().tool_call("read").writes("so far").hangs())
}

/// Commands as they are after a crash: all of them end.
pub(crate) fn later_commands() -> FakeRunner {
    commands(script().tool_call("read").completes("at last"))
}

fn commands(again: fanin_supervisor::testing::Script) -> FakeRunner {
    FakeRunner::commands()
        .on("again", again)
        .on("held", script().hangs())
        .on("lint", script().tool_call("read").tool_call("grep").completes("2 warnings"))
}

fn lint() -> JobSpec {
    JobSpec::command("lint", ["lint"])
}

fn quick(label: &'static str) -> JobSpec {
    JobSpec::run(label, |_| async { Ok("done".into()) })
}

/// A job with a tool call that is over, one that runs and one that is announced, which begins to wait then.
fn open(label: &'static str, begun: &Gate) -> JobSpec {
    let begun = begun.clone();
    JobSpec::run(label, move |context| async move {
        let over = context.tool("over", "read");
        over.begin();
        over.complete();
        let runs = context.tool("runs", "shell");
        runs.begin();
        let _announced = context.tool("announced", "shell");
        begun.open();
        context.cancelled().await;
        runs.fail();
        Ok(().into())
    })
}

/// A job that takes one follow-up.
fn listens(begun: &Gate) -> JobSpec {
    let begun = begun.clone();
    JobSpec::run("listens", move |context: RunContext| async move {
        context.listen();
        begun.open();
        context.next_message().await;
        while context.last_message().await?.is_some() {}
        Ok("heard".into())
    })
}

/// A job that launches two more, and waits for them or for ever.
fn nested(label: &'static str, begun: &Gate, ends: bool) -> JobSpec {
    let begun = begun.clone();
    JobSpec::run(label, move |context: RunContext| async move {
        let deep = Gate::new();
        let children = if ends { [lint(), quick("child")] } else { [lint(), open("deep", &deep)] };
        let group = context.fan_out(children).await?;
        if ends {
            group.wait(None).await?;
        } else {
            deep.passed().await;
            begun.open();
            context.cancelled().await;
        }
        Ok("done".into())
    })
}

/// All that a parent does: it is woken by fan-outs, stops, promotes, gives more time, is told and tells, and leaves work
/// behind.
pub(crate) async fn work(outside: Outside) -> Result<End, Dead> {
    let session = outside.supervisor.session("parent").await?;
    fan_outs(&outside, &session).await?;
    a_turn(&outside, &session).await?;
    a_call(&outside, &session).await?;
    words(&outside, &session).await?;
    what_is_left(&outside, &session).await?;
    Ok(End::InOrder)
}

async fn fan_outs(outside: &Outside, session: &Session) -> Result<(), Dead> {
    let begun = Gate::new();
    let group = session.fan_out([quick("quick"), lint(), open("open", &begun)]).await?;
    outside.launched(&group);
    begun.passed().await;
    outside.cancel(&group.jobs()[2], group.lifetimes()[2]).await?;
    // A wake that nobody acknowledges comes again.
    let wake = session.next_wake().await?;
    outside.tell(|told| told.wake_comes(wake.result()));
    drop(wake);
    outside.take(session).await?;
    for job in group.jobs() {
        outside.shown_over(job).await?;
    }
    let begun = Gate::new();
    let any = GroupOptions { policy: Policy { ok: Some(1), ..Policy::ALL }, ..GroupOptions::default() };
    let group = session.fan_out_with(any, [quick("first"), open("rest", &begun)]).await?;
    outside.launched(&group);
    // What a wait takes is no wake.
    group.wait(None).await?;
    let group = session.fan_out([nested("nested", &begun, true)]).await?;
    outside.launched(&group);
    outside.take(session).await
}

async fn a_turn(outside: &Outside, session: &Session) -> Result<(), Dead> {
    let turn = session.turn().await?;
    let one = session.start(quick("one")).await?;
    outside.started(&one);
    let two = session.start(lint()).await?;
    outside.started(&two);
    one.wait(None).await?;
    outside.shown_over(one.id()).await?;
    turn.end().await?;
    outside.take(session).await
}

/// A foreground call that is promoted, and whose job is stopped in the background.
async fn a_call(outside: &Outside, session: &Session) -> Result<(), Dead> {
    let id = JobId::parse("held").unwrap();
    let call = session.run([JobSpec::command("held", ["held"]).id(id.clone())], None);
    let promote = async {
        outside.runner.until_started("held").await;
        let promoted = outside.supervisor.promote(&id).await?;
        assert_eq!(promoted, Promotion::Promoted);
        Ok::<_, Dead>(())
    };
    let (called, promoted) = tokio::join!(call, promote);
    promoted?;
    let Foreground::Backgrounded(group, _) = called? else { panic!("it was promoted") };
    outside.launched(&group);
    outside.cancel(&id, group.lifetimes()[0]).await?;
    outside.take(session).await
}

async fn words(outside: &Outside, session: &Session) -> Result<(), Dead> {
    let begun = Gate::new();
    let job = session.start(listens(&begun)).await?;
    outside.started(&job);
    begun.passed().await;
    let queued = job.extend("one thing more").await?;
    outside.tell(|told| told.posted.push(queued.key));
    outside.take(session).await?;
    let queued = session.post("go on", None).await?;
    outside.tell(|told| told.posted.push(queued.key));
    outside.take(session).await
}

/// Runs with open parts, a job that may run again, one with more time, a session that is closed, and a wake that is owed.
async fn what_is_left(outside: &Outside, session: &Session) -> Result<(), Dead> {
    let begun = ["left", "right", "deep"].map(|_| Gate::new());
    let group = session.fan_out([quick("early"), open("left", &begun[0]), open("right", &begun[1])]).await?;
    outside.launched(&group);
    let again = JobSpec::command("again", ["again"]).resume(Resume::Rerun).timeout(Duration::from_secs(600));
    let again = session.start(again).await?;
    outside.started(&again);
    assert!(again.extend_time(Duration::from_secs(60)).await?);
    outside.tell(|told| told.extended.push(again.id().clone()));
    let group = session.fan_out([nested("above", &begun[2], false)]).await?;
    outside.launched(&group);
    for begun in &begun {
        begun.passed().await;
    }
    let other = outside.supervisor.session("other").await?;
    let below = Gate::new();
    let group = other.fan_out([quick("void"), open("stopped", &below)]).await?;
    outside.launched(&group);
    other.close().await?;
    let owed = session.fan_out([quick("owed")]).await?;
    outside.launched(&owed);
    // Who only looks on takes nothing.
    let observer = outside.supervisor.session("observer").await?;
    observer.wait_all(owed.jobs(), None).await?;
    outside.shown_over(&owed.jobs()[0]).await?;
    let words = session.post("later", None).await?;
    outside.tell(|told| told.posted.push(words.key));
    Ok(())
}

/// After a crash: waits until all is over, and takes what is owed.
pub(crate) async fn calm(outside: Outside) -> Result<End, Dead> {
    let observer = outside.supervisor.session("observer").await?;
    loop {
        let mut live = Vec::new();
        for status in [Status::Queued, Status::Running] {
            let filter = JobFilter { status: Some(status), ..JobFilter::default() };
            live.extend(outside.look(|supervisor| supervisor.list(&filter)).await?.jobs);
        }
        let live: Vec<_> = live.into_iter().map(|info| info.job).collect();
        if live.is_empty() {
            break;
        }
        observer.wait_all(&live, None).await?;
    }
    for id in ["parent", "other"] {
        let id = SessionId::parse(id).unwrap();
        if ledger(&outside.committed.records()).is_going(&NodeId::Session(id.clone())) {
            continue;
        }
        let session = outside.supervisor.session(id).await?;
        while owed(&outside.committed, session.id()) {
            outside.take(&session).await?;
        }
        assert_no_wake_now(&session);
    }
    Ok(End::Dropped)
}

/// True where something is owed to a session.
fn owed(committed: &Committed, session: &SessionId) -> bool {
    let ledger = ledger(&committed.records());
    let node = NodeId::Session(session.clone());
    let mut groups = ledger.owed().filter(|(_, group)| group.parent == node).map(|(id, _)| id);
    let group: Option<&GroupId> = groups.next();
    group.is_some() || ledger.owed_posts(session).next().is_some()
}

/// After a crash: only opens.
pub(crate) async fn nothing(_: Outside) -> Result<End, Dead> {
    Ok(End::Dropped)
}

/// Two runs with more open calls than one step of a recovery closes.
pub(crate) async fn many_calls(outside: Outside) -> Result<End, Dead> {
    let session = outside.supervisor.session("parent").await?;
    let many = |label: &'static str, begun: &Gate| {
        let begun = begun.clone();
        JobSpec::run(label, move |context| async move {
            let call = |n| context.tool(format!("call-{n}"), "shell");
            let calls: Vec<_> = (0..ORPHANS_PER_STEP + ORPHANS_PER_STEP / 2).map(call).collect();
            begun.open();
            std::future::pending::<()>().await;
            drop(calls);
            Ok(().into())
        })
    };
    let begun = [Gate::new(), Gate::new()];
    let group = session.fan_out([many("one", &begun[0]), many("two", &begun[1])]).await?;
    outside.launched(&group);
    for begun in &begun {
        begun.passed().await;
    }
    // All that was said before it is committed with it.
    outside.supervisor.session("other").await?;
    Ok(End::Dropped)
}
