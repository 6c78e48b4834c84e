//! The driver: what was decided is let out, records to the log and acts to the outside, in order.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fanin_machine::log::Herald;
use fanin_machine::{Answer, Command, KillStage, Leave, Mono, Release, Report, RunRef, Said, WaiterId};
use fanin_protocol::{JobKind, Spec};
use tokio::sync::oneshot;
use tracing::Instrument;

use super::Core;
use super::released::Act;
use super::released::Released;
use super::released::Rest;
use crate::body::{Body, Start, discard};
use crate::context::RunCell;
use crate::hosted::Hosted;
use crate::lines;
use crate::stop::StopStage;

impl Core {
    /// Lets out what was decided.
    pub(crate) fn release(self: &Arc<Self>, released: &mut Released) {
        released.outputs.clear();
        lines::tell(&released.out.records, self.log_content);
        self.log.append(&mut released.out.records);
        while let Some(act) = released.acts.pop_front() {
            self.carry_out(act);
        }
        match mem::take(&mut released.rest) {
            Rest::Nothing => {}
            Rest::Soon => {
                let core = Arc::clone(self);
                self.scope.spawn(async move { core.post(Command::Tick) });
            }
            Rest::Now => self.post(Command::Tick),
        }
        if let Some(end) = released.end.take() {
            self.end(end.hosted);
        }
    }

    /// Carries out an act.
    pub(crate) fn carry_out(self: &Arc<Self>, act: Act) {
        match act {
            Act::Spawn { cell, body, spec } => self.spawn(cell, body, spec),
            Act::Kill { cell, stage } => kill(&cell, stage),
            Act::Probe { run, cell } => {
                self.probe(run, cell.map_or(Mono(0), |cell| cell.last_beat()));
            }
            Act::Deliver { cell, key, text } => cell.deliver(key, text),
            Act::Answer { waiter, answer } => self.answer(waiter, answer),
            Act::Alarm(at) => {
                self.alarm.send_replace(at);
            }
            Act::Discard(work) => discard(work),
            Act::DropOutput(job) => self.outputs.lock().keep(job, None),
        }
    }

    fn spawn(self: &Arc<Self>, cell: Arc<RunCell>, body: Option<Body>, spec: Option<Arc<Spec>>) {
        let Some(body) = body.or_else(|| self.body(spec?)) else {
            debug_assert!(false, "job {} was launched without a body or a runner", cell.job);
            return cell.ended(None);
        };
        let task = body(Start { cell: Arc::clone(&cell), scope: &self.scope });
        debug_assert!(cell.task.get().is_none(), "one run, two tasks");
        cell.task.get_or_init(|| task);
        if self.runner(cell.kind).is_some_and(|runner| runner.takes_messages()) {
            self.post(Command::Report(Report { run: cell.run, what: Said::Listens }));
        }
    }

    fn body(&self, spec: Arc<Spec>) -> Option<Body> {
        let runner = Arc::clone(self.runner(spec.kind())?);
        Some(Box::new(move |start| {
            let span = lines::span(&start.cell);
            start.spawn(move |context| runner.run(spec, context).instrument(span))
        }))
    }

    /// Says when a run last showed a sign of work that was no report.
    fn probe(self: &Arc<Self>, run: RunRef, last: Mono) {
        self.post(Command::Report(Report { run, what: Said::Beat(last) }));
    }

    fn answer(self: &Arc<Self>, waiter: WaiterId, answer: Answer) {
        let sender = self.waiting.lock().remove(&waiter);
        // A waiter whose future is gone gives back what it was offered; its own drop may have come before.
        if sender.is_none_or(|sender| sender.send(answer).is_err()) {
            self.post(Command::Release(Release::Waiter(waiter, Leave::Left)));
        }
    }

    /// A name for a new waiter, and where its answer will come.
    pub(crate) fn expect_answer(&self) -> (WaiterId, oneshot::Receiver<Answer>) {
        let waiter = WaiterId(self.next_waiter.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().insert(waiter, sender);
        (waiter, receiver)
    }

    /// Nobody expects that answer any more.
    pub(crate) fn forget_answer(&self, waiter: WaiterId) {
        self.waiting.lock().remove(&waiter);
    }

    /// Calls `Tick` when the machine asked for it, until the supervisor is gone.
    pub(crate) async fn ring(self: Arc<Self>) {
        let mut alarm = self.alarm.subscribe();
        loop {
            let at = *alarm.borrow_and_update();
            let due = async {
                match at {
                    Some(at) => tokio::time::sleep_until(self.clocks.moment(at)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {
                    // All that was due is carried out, so another alarm follows; it may still be on its way.
                    self.post(Command::Tick);
                    if alarm.changed().await.is_err() {
                        return;
                    }
                    alarm.mark_changed();
                }
                changed = alarm.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Wakes subscribers, until the log is closed: however many there are, what they cost the pump is one wake.
    pub(crate) async fn herald(self: Arc<Self>) {
        let mut herald = Herald::new(Arc::clone(&self.log));
        drop(self);
        std::future::poll_fn(|cx| herald.poll(cx)).await;
    }

    pub(super) fn end(&self, hosted: Hosted) {
        hosted.runs().for_each(|run| run.abort());
        hosted.into_jobs().for_each(discard);
        // Taken out in a statement of its own and dropped without the lock: an answer that will not come wakes who
        // waits.
        let waiting = mem::take(&mut *self.waiting.lock());
        drop(waiting);
        self.log.close();
    }
}

fn kill(cell: &RunCell, stage: KillStage) {
    match stage {
        KillStage::Polite => cell.stop.raise(StopStage::Polite),
        KillStage::Forced => {
            cell.stop.raise(StopStage::Forced);
            // A runner still has to kill and reap what it owns; a closure has nothing but its task.
            if cell.kind == JobKind::Closure {
                cell.abort();
            }
        }
        KillStage::Abandoned => cell.abort(),
    }
}
