//! The end of a run, reported once however the run ends.
//!
//! What must end is an object: a runtime that drops a task reports its end just as a body that returns. Nothing here
//! knows what a report does, and no lock is held while it is made.

use std::fmt;
use std::marker::PhantomData;

use crate::sync::{Arc, Mutex};

/// Reports the end of what it was moved into: with a value, or without one when it is dropped.
///
/// Make it before the future that it guards is spawned, and move it in. A task that is aborted before its first poll
/// never runs a line of it, so a guard made inside would never exist, and nobody would report.
///
/// The report is made on the thread that settles or drops. It should not panic: a drop may already be part of a panic.
///
/// # Examples
///
/// ```
/// use fanin_machine::guard::Guard;
///
/// let (report, reports) = std::sync::mpsc::channel();
/// let guard = Guard::new(move |end: Option<&str>| report.send(end).unwrap());
/// let body = async move { guard.settle("42 files") };
/// drop(body); // aborted before its first poll
/// assert_eq!(reports.recv(), Ok(None));
/// ```
pub struct Guard<T, F: FnOnce(Option<T>)> {
    /// Gone once it was called.
    report: Option<F>,
    value: PhantomData<fn(T)>,
}

impl<T, F: FnOnce(Option<T>)> Guard<T, F> {
    /// A guard that will call `report` once.
    pub const fn new(report: F) -> Self {
        Self { report: Some(report), value: PhantomData }
    }

    /// Reports `Some(value)`.
    pub fn settle(mut self, value: T) {
        if let Some(report) = self.report.take() {
            report(Some(value));
        }
    }
}

impl<T, F: FnOnce(Option<T>)> Drop for Guard<T, F> {
    fn drop(&mut self) {
        if let Some(report) = self.report.take() {
            report(None);
        }
    }
}

impl<T, F: FnOnce(Option<T>)> fmt::Debug for Guard<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("open", &self.report.is_some()).finish_non_exhaustive()
    }
}

/// A guard that several reporters share: exit status, end of stream and watchdog may all tell of one ending (B10).
///
/// Each reporter holds a clone. The first value wins and is the one report; when the last clone is dropped and none
/// was given, the report is `None`. One allocation, however many clones.
pub struct GuardCell<T, F: FnOnce(Option<T>)>(Arc<Shared<T, F>>);

struct Shared<T, F: FnOnce(Option<T>)> {
    /// Gone once somebody took it to call it.
    report: Mutex<Option<F>>,
    value: PhantomData<fn(T)>,
}

impl<T, F: FnOnce(Option<T>)> GuardCell<T, F> {
    /// A cell that will call `report` once.
    pub fn new(report: F) -> Self {
        Self(Arc::new(Shared { report: Mutex::new(Some(report)), value: PhantomData }))
    }

    /// Reports `Some(value)` unless a value was given before, and says whether it did.
    ///
    /// Where another reporter was first, its report may still be under way when this returns `false`.
    pub fn settle(&self, value: T) -> bool {
        // Taken in a statement of its own: the lock is free again while the report is made.
        let report = self.0.report.lock().take();
        report.map(|report| report(Some(value))).is_some()
    }
}

impl<T, F: FnOnce(Option<T>)> Clone for GuardCell<T, F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T, F: FnOnce(Option<T>)> Drop for Shared<T, F> {
    fn drop(&mut self) {
        if let Some(report) = self.report.get_mut().take() {
            report(None);
        }
    }
}

impl<T, F: FnOnce(Option<T>)> fmt::Debug for GuardCell<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardCell").field("open", &self.0.report.lock().is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Barrier, mpsc};
    use std::task::{Context, Waker};
    use std::thread;

    use super::*;

    #[test]
    fn a_settled_guard_reports_its_value_and_no_drop() {
        let (report, reports) = mpsc::channel();
        Guard::new(move |end| report.send(end).unwrap()).settle(1);
        assert_eq!(reports.iter().collect::<Vec<_>>(), [Some(1)]);
    }

    #[test]
    fn a_dropped_guard_reports_that_there_is_no_value() {
        let (report, reports) = mpsc::channel();
        drop(Guard::<u8, _>::new(move |end| report.send(end).unwrap()));
        assert_eq!(reports.iter().collect::<Vec<_>>(), [None]);
    }

    #[test]
    fn a_panic_in_the_body_reports_as_a_drop() {
        let (report, reports) = mpsc::channel();
        let guard = Guard::<u8, _>::new(move |end| report.send(end).unwrap());
        let body = catch_unwind(AssertUnwindSafe(move || {
            let _guard = guard;
            panic!("in the body");
        }));
        assert!(body.is_err());
        assert_eq!(reports.iter().collect::<Vec<_>>(), [None]);
    }

    #[test]
    fn a_panic_in_the_drop_of_the_body_reports_as_a_drop() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("in a drop");
            }
        }
        let (report, reports) = mpsc::channel();
        let guard = Guard::<u8, _>::new(move |end| report.send(end).unwrap());
        let body = async move {
            let _guard = guard;
            let _bomb = Bomb;
            std::future::pending::<()>().await;
        };
        let mut body = Box::pin(body);
        assert!(body.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(catch_unwind(AssertUnwindSafe(move || drop(body))).is_err());
        assert_eq!(reports.iter().collect::<Vec<_>>(), [None]);
    }

    #[test]
    fn a_cell_keeps_the_first_value_and_reports_no_drop_after_it() {
        let (report, reports) = mpsc::channel();
        let first = GuardCell::new(move |end| report.send(end).unwrap());
        let second = first.clone();
        assert!(first.settle(1));
        drop(first);
        assert!(!second.settle(2));
        drop(second);
        assert_eq!(reports.iter().collect::<Vec<_>>(), [Some(1)]);
    }

    #[test]
    fn a_reporter_that_leaves_does_not_speak_for_the_others() {
        let (report, reports) = mpsc::channel();
        let first = GuardCell::new(move |end| report.send(end).unwrap());
        let second = first.clone();
        drop(first);
        assert_eq!(reports.try_recv(), Err(mpsc::TryRecvError::Empty));
        assert!(second.settle(2));
        drop(second);
        assert_eq!(reports.iter().collect::<Vec<_>>(), [Some(2)]);
    }

    #[test]
    fn the_last_one_to_leave_reports_that_there_is_no_value() {
        let (report, reports) = mpsc::channel();
        let first = GuardCell::<u8, _>::new(move |end| report.send(end).unwrap());
        let second = first.clone();
        drop(first);
        drop(second);
        assert_eq!(reports.iter().collect::<Vec<_>>(), [None]);
    }

    #[test]
    fn a_report_may_use_its_own_cell() {
        type Cell = GuardCell<u8, Box<dyn FnOnce(Option<u8>) + Send>>;
        let slot: std::sync::Arc<Mutex<Option<Cell>>> = std::sync::Arc::default();
        let (again, reports) = (slot.clone(), mpsc::channel());
        let report = reports.0;
        let cell: Cell = GuardCell::new(Box::new(move |end| {
            let second = again.lock().take().is_some_and(|cell| cell.settle(9));
            report.send((end, second)).unwrap();
        }));
        *slot.lock() = Some(cell.clone());
        assert!(cell.settle(1));
        drop(cell);
        assert_eq!(reports.1.iter().collect::<Vec<_>>(), [(Some(1), false)]);
    }

    #[test]
    fn ten_thousand_endings_told_by_three_threads_are_reported_once_each() {
        const ENDINGS: usize = 10_000;
        let (count, won) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let count = &count;
        let cells: Vec<_> = (0..ENDINGS)
            .map(|_| {
                GuardCell::new(move |end: Option<u8>| {
                    count.fetch_add(usize::from(end.is_some()), Ordering::Relaxed);
                })
            })
            .collect();
        let start = Barrier::new(3);
        thread::scope(|scope| {
            for teller in 0..3 {
                let (cells, start, won) = (cells.clone(), &start, &won);
                scope.spawn(move || {
                    start.wait();
                    for cell in cells {
                        won.fetch_add(usize::from(cell.settle(teller)), Ordering::Relaxed);
                    }
                });
            }
        });
        drop(cells);
        assert_eq!(count.load(Ordering::Relaxed), ENDINGS);
        assert_eq!(won.load(Ordering::Relaxed), ENDINGS);
    }
}
