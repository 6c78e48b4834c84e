//! The guard of a run: exactly one report, whoever ends the run and in whatever order.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex as Plain};
use std::task::{Context, Poll, Waker};

use fanin_machine::guard::{Guard, GuardCell};
use fanin_machine::sync::Mutex;
use loom::thread;

/// What was reported, in order.
#[derive(Clone, Default)]
struct Reports(Arc<Plain<Vec<Option<u8>>>>);

impl Reports {
    fn report(&self) -> impl FnOnce(Option<u8>) + Send + 'static {
        let reports = self.clone();
        move |end| reports.0.lock().unwrap().push(end)
    }

    fn one(&self) -> Option<u8> {
        let reports = self.0.lock().unwrap();
        assert_eq!(reports.len(), 1, "reported {} times", reports.len());
        reports[0]
    }
}

type Body = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task as a runtime keeps it: idle, in the hands of a worker, or aborted.
struct Task {
    body: Option<Body>,
    aborted: bool,
}

/// Polls a task until it is over or was aborted, as a worker does.
fn work(task: &Mutex<Task>) {
    loop {
        let Some(mut body) = task.lock().body.take() else { return };
        let mut cx = Context::from_waker(Waker::noop());
        let polled = catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(&mut cx)));
        if !matches!(polled, Ok(Poll::Pending)) {
            return;
        }
        let mut task = task.lock();
        if task.aborted {
            // The lock goes first: dropping the body reports.
            drop(task);
            drop(body);
            return;
        }
        task.body = Some(body);
    }
}

/// Aborts a task from another thread; where a worker has it in hand, the worker drops it.
fn abort(task: &Mutex<Task>) {
    let body = {
        let mut task = task.lock();
        task.aborted = true;
        task.body.take()
    };
    drop(body);
}

/// Lets a worker and an abort race for a task in all ways, and returns the ends that were reported.
fn race(make: impl Fn(&Reports) -> Body + Send + Sync + 'static) -> Vec<Option<u8>> {
    let seen = Arc::new(Plain::new(Vec::new()));
    let ends = seen.clone();
    loom::model(move || {
        let reports = Reports::default();
        let task = loom::sync::Arc::new(Mutex::new(Task { body: Some(make(&reports)), aborted: false }));
        let worker = thread::spawn({
            let task = task.clone();
            move || work(&task)
        });
        abort(&task);
        worker.join().unwrap();
        ends.lock().unwrap().push(reports.one());
    });
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort_unstable();
    seen.dedup();
    seen
}

/// Pending once, as a body that awaits something.
fn pending_once() -> impl Future<Output = ()> + Send {
    let mut polled = false;
    poll_fn(move |_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending })
}

#[test]
fn an_abort_at_any_moment_leaves_one_report() {
    let seen = race(|reports| {
        let guard = Guard::new(reports.report());
        Box::pin(async move {
            pending_once().await;
            guard.settle(1);
        })
    });
    assert_eq!(seen, [None, Some(1)], "both ends must have been tried");
}

#[test]
fn an_abort_around_a_panic_leaves_one_report() {
    let seen = race(|reports| {
        let guard = Guard::<u8, _>::new(reports.report());
        Box::pin(async move {
            let _guard = guard;
            pending_once().await;
            // As a panic, but silent: thousands of executions come here.
            std::panic::resume_unwind(Box::new("in the body"));
        })
    });
    assert_eq!(seen, [None]);
}

/// The control: a guard made inside the future does not exist before its first poll, and loom must find that.
#[test]
#[should_panic(expected = "reported 0 times")]
fn a_guard_made_inside_the_future_is_missed() {
    race(|reports| {
        let report = reports.report();
        Box::pin(async move {
            let guard = Guard::new(report);
            pending_once().await;
            guard.settle(1);
        })
    });
}

#[test]
fn a_value_wins_against_reporters_that_leave() {
    loom::model(|| {
        let reports = Reports::default();
        let first = GuardCell::new(reports.report());
        let (second, third) = (first.clone(), first.clone());
        let settler = thread::spawn(move || assert!(first.settle(1)));
        let leaver = thread::spawn(move || drop(second));
        drop(third);
        settler.join().unwrap();
        leaver.join().unwrap();
        assert_eq!(reports.one(), Some(1));
    });
}

#[test]
fn of_three_reporters_the_first_is_the_one_report() {
    let seen = Arc::new(Plain::new(Vec::new()));
    let winners = seen.clone();
    loom::model(move || {
        let reports = Reports::default();
        let cell = GuardCell::new(reports.report());
        let tellers = [1, 2].map(|value| {
            let cell = cell.clone();
            thread::spawn(move || cell.settle(value).then_some(value))
        });
        let third = cell.settle(3).then_some(3);
        drop(cell);
        let won: Vec<_> =
            tellers.into_iter().filter_map(|teller| teller.join().unwrap()).chain(third).collect();
        assert_eq!(won.len(), 1, "told to have won: {won:?}");
        assert_eq!(reports.one(), Some(won[0]));
        winners.lock().unwrap().extend(won);
    });
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [1, 2, 3], "each must have won once");
}

#[test]
fn three_reporters_that_all_leave_are_one_report() {
    loom::model(|| {
        let reports = Reports::default();
        let cell = GuardCell::new(reports.report());
        let leavers = [cell.clone(), cell.clone()].map(|cell| thread::spawn(move || drop(cell)));
        drop(cell);
        leavers.into_iter().for_each(|leaver| leaver.join().unwrap());
        assert_eq!(reports.one(), None);
    });
}
