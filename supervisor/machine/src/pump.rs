//! State behind a lock, and the effects of its changes run in order outside of it.
//!
//! A change of state is short and may come from any thread, also from inside an effect. Its effects may take long and
//! may come back with the next change, so none of them is ever run with the lock held. Where the lock is held for long
//! all the same, nobody has to wait for it without a limit: a change is given back, or left for whoever holds it.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use fanin_protocol::limits::{EFFECTS_ROOM, LATE_SLICE};

use crate::sync::{Mutex, MutexGuard};

/// Effects that were put together and are run together, in the order in which they came.
pub trait Batch: Default {
    /// True where nothing is left to run.
    fn is_empty(&self) -> bool;

    /// Gives back the room that only a burst needs; called when it is empty.
    fn trim(&mut self);
}

impl<E> Batch for VecDeque<E> {
    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }

    fn trim(&mut self) {
        self.shrink_to(EFFECTS_ROOM);
    }
}

/// A state `S` whose changes put effects into a batch `B`.
///
/// Each effect is run exactly once, in the order in which it was put there, and never two at a time: whoever finds
/// nobody at it runs them all, those of others too that come meanwhile.
///
/// # Examples
///
/// ```
/// use std::collections::VecDeque;
/// use std::time::Duration;
///
/// use fanin_machine::pump::Pump;
///
/// struct Core {
///     pump: Pump<u32, VecDeque<u32>>,
/// }
///
/// impl Core {
///     fn add(&self, n: u32) -> Option<u32> {
///         let change = |sum: &mut u32, effects: &mut VecDeque<u32>| {
///             *sum += n;
///             effects.push_back(*sum);
///             *sum
///         };
///         self.pump.enter(Duration::from_secs(1), change, |effects| self.run(effects)).ok()
///     }
///
///     fn run(&self, effects: &mut VecDeque<u32>) {
///         while let Some(sum) = effects.pop_front() {
///             if sum == 1 {
///                 self.add(10); // only appends: its effect runs after this one
///             }
///         }
///     }
/// }
///
/// let core = Core { pump: Pump::new(0) };
/// assert_eq!(core.add(1), Some(1));
/// assert_eq!(core.add(0), Some(11));
/// ```
pub struct Pump<S, B> {
    inner: Mutex<Inner<S, B>>,
    /// What those left who did not wait for the lock, in order. Whoever holds it looks here after letting go.
    late: Mutex<VecDeque<Late<S, B>>>,
}

type Change<S, B> = dyn FnOnce(&mut S, &mut B) + Send;

enum Late<S, B> {
    Change(Box<Change<S, B>>),
    /// Whoever ran effects found the lock held and left: somebody else goes on.
    HandOver,
}

#[derive(Debug)]
struct Inner<S, B> {
    state: S,
    /// Effects that nobody has taken yet, in order.
    queue: B,
    /// The other batch: the queue and it change places, so that a steady state allocates nothing.
    spare: B,
    /// True while somebody runs effects. Only that one sets it back, and only when the queue is empty.
    pumping: bool,
}

type Panic = Option<Box<dyn Any + Send>>;

impl<S, B: Batch> Pump<S, B> {
    /// A pump around a state, with nothing to run.
    pub fn new(state: S) -> Self {
        let inner = Inner { state, queue: B::default(), spare: B::default(), pumping: false };
        Self { inner: Mutex::new(inner), late: Mutex::new(VecDeque::new()) }
    }

    /// Changes the state under the lock, then runs what is queued unless somebody else is at it.
    ///
    /// `change` puts effects at the end of the queue. It must be short and must not enter again. `handle` runs the
    /// effects of a batch without the lock and may enter: an `enter` from inside it, or from another thread meanwhile, only
    /// changes and appends, and returns before its own effects have run. So every caller has to pass a handler that
    /// does the same, and the one who runs effects may run those of others for as long as they keep coming.
    ///
    /// `handle` takes an effect out of the batch before it runs it, and is called again while any is left. What was posted
    /// before is carried out before.
    ///
    /// # Errors
    ///
    /// The change, untouched, where the lock was not free within `wait`. The thread is held for so long.
    ///
    /// # Panics
    ///
    /// Where `change` panics, nothing is run; what it had changed and queued stays, and the next `enter` takes it
    /// along. Where `handle` panics, the effects behind are run all the same, so that no wake waits for a later
    /// caller; then the first such panic goes on in the one who was running them.
    pub fn enter<R, F>(&self, wait: Duration, change: F, mut handle: impl FnMut(&mut B)) -> Result<R, F>
    where
        F: FnOnce(&mut S, &mut B) -> R,
    {
        match self.inner.try_lock_for(wait) {
            Some(inner) => Ok(self.carry_out(inner, change, &mut handle)),
            None => Err(change),
        }
    }

    /// As [`Pump::enter`], without waiting and without an answer: where the lock is held, whoever holds it carries the
    /// change out before anything else. In the order of the posts, and before what its thread enters later.
    ///
    /// # Panics
    ///
    /// As [`Pump::enter`], in the one who carries it out.
    pub fn post(&self, change: impl FnOnce(&mut S, &mut B) + Send + 'static, mut handle: impl FnMut(&mut B)) {
        if let Some(inner) = self.inner.try_lock()
            && self.late.lock().is_empty()
        {
            return self.carry_out(inner, change, &mut handle);
        }
        self.late.lock().push_back(Late::Change(Box::new(change)));
        // The one who held the lock may have looked before this was there; then the lock is free by now.
        if let Some(panic) = self.sweep(&mut handle) {
            resume_unwind(panic);
        }
    }

    fn carry_out<R>(
        &self,
        inner: MutexGuard<'_, Inner<S, B>>,
        change: impl FnOnce(&mut S, &mut B) -> R,
        handle: &mut impl FnMut(&mut B),
    ) -> R {
        let (answer, first) = self.once(inner, usize::MAX, change, handle);
        let second = self.sweep(handle);
        if let Some(panic) = first.or(second) {
            resume_unwind(panic);
        }
        answer
    }

    /// Carries out what was posted while the lock was held. Where it is held again, that one looks after it.
    ///
    /// In slices: effects of the first do not wait for all that was posted, and meanwhile another thread goes on with the
    /// rest.
    ///
    /// A post puts its change there before it tries the lock, and a holder looks there after it let go: whichever of
    /// the two came second sees the other.
    fn sweep(&self, handle: &mut impl FnMut(&mut B)) -> Panic {
        let mut panic = None;
        while !self.late.lock().is_empty() {
            let Some(inner) = self.inner.try_lock() else { return panic };
            let ((), caught) = self.once(inner, LATE_SLICE, |_, _| (), handle);
            panic = panic.or(caught);
        }
        panic
    }

    /// One change behind those that were posted, so many at the most, and what is queued unless somebody is at it.
    fn once<R>(
        &self,
        mut inner: MutexGuard<'_, Inner<S, B>>,
        posted_max: usize,
        change: impl FnOnce(&mut S, &mut B) -> R,
        handle: &mut impl FnMut(&mut B),
    ) -> (R, Panic) {
        self.take_late(&mut inner, posted_max);
        let Inner { state, queue, .. } = &mut *inner;
        let answer = change(state, queue);
        if inner.pumping || inner.queue.is_empty() {
            return (answer, None);
        }
        inner.pumping = true;
        let mut batch = mem::take(&mut inner.spare);
        mem::swap(&mut batch, &mut inner.queue);
        drop(inner);
        (answer, self.run(batch, handle))
    }

    fn take_late(&self, inner: &mut Inner<S, B>, max: usize) {
        for _ in 0..max {
            // One at a time, each taken out in a statement of its own: one that panics loses no other, and none is
            // carried out with this lock held.
            let next = self.late.lock().pop_front();
            match next {
                None => return,
                Some(Late::Change(change)) => change(&mut inner.state, &mut inner.queue),
                Some(Late::HandOver) => inner.pumping = false,
            }
        }
    }

    /// Runs batch after batch until the queue is empty, and returns the first panic.
    fn run(&self, mut batch: B, handle: &mut impl FnMut(&mut B)) -> Panic {
        let mut panic = None;
        loop {
            while !batch.is_empty() {
                // A handler is used again after it panicked: what it shares with the state is behind the lock.
                if let Err(caught) = catch_unwind(AssertUnwindSafe(|| handle(&mut batch))) {
                    panic.get_or_insert(caught);
                }
            }
            let Some(mut inner) = self.inner.try_lock() else {
                // Whoever holds it may take long, and the one who runs effects has a limit too.
                self.late.lock().push_back(Late::HandOver);
                return panic;
            };
            if inner.queue.is_empty() {
                inner.pumping = false;
                batch.trim();
                inner.queue.trim();
                inner.spare = batch;
                return panic;
            }
            mem::swap(&mut batch, &mut inner.queue);
        }
    }
}

impl<S: fmt::Debug, B: fmt::Debug> fmt::Debug for Pump<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pump").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    type Queue = VecDeque<u32>;

    /// Enters and waits for as long as it takes.
    fn enter<S, B: Batch, R>(
        pump: &Pump<S, B>,
        change: impl FnOnce(&mut S, &mut B) -> R,
        handle: impl FnMut(&mut B),
    ) -> R {
        pump.enter(Duration::from_secs(20), change, handle).unwrap_or_else(|_| panic!("the lock is held"))
    }

    /// A handler that runs one effect after another.
    fn each<E>(mut run: impl FnMut(E)) -> impl FnMut(&mut VecDeque<E>) {
        move |batch| {
            while let Some(effect) = batch.pop_front() {
                run(effect);
            }
        }
    }

    #[test]
    fn an_effect_that_enters_is_followed_by_what_it_queued() {
        let (pump, ran, depth) = (Pump::new(()), RefCell::new(Vec::new()), Cell::new(0));
        fn nested(pump: &Pump<(), Queue>, ran: &RefCell<Vec<u32>>, depth: &Cell<u32>, effects: &[u32]) {
            let handle = each(|effect: u32| {
                assert_eq!(depth.replace(1), 0, "one effect inside another");
                ran.borrow_mut().push(effect);
                if effect < 100 {
                    nested(pump, ran, depth, &[effect + 100, effect + 200]);
                }
                depth.set(0);
            });
            enter(pump, |(), queue| queue.extend(effects), handle);
        }
        nested(&pump, &ran, &depth, &[1, 2]);
        assert_eq!(*ran.borrow(), [1, 2, 101, 201, 102, 202]);
    }

    #[test]
    fn a_panic_in_a_handler_skips_no_effect_and_leaves_the_pump_usable() {
        let (pump, ran) = (Pump::new(0), RefCell::new(Vec::new()));
        let handle = || {
            each(|effect: u32| {
                ran.borrow_mut().push(effect);
                assert!(effect.is_multiple_of(2), "odd {effect}");
            })
        };
        let entered = catch_unwind(AssertUnwindSafe(|| {
            enter(&pump, |_, queue: &mut Queue| queue.extend([1, 2, 3, 4]), handle());
        }));
        let message = entered.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*message, "odd 1", "the first panic is the one that goes on");
        assert_eq!(*ran.borrow(), [1, 2, 3, 4]);
        enter(&pump, |_, queue| queue.push_back(6), handle());
        assert_eq!(*ran.borrow(), [1, 2, 3, 4, 6]);
    }

    #[test]
    fn what_a_panicking_change_had_queued_runs_with_the_next_one() {
        let (pump, ran) = (Pump::new(()), RefCell::new(Vec::new()));
        let handle = || each(|effect: u32| ran.borrow_mut().push(effect));
        let entered = catch_unwind(AssertUnwindSafe(|| {
            enter(
                &pump,
                |(), queue: &mut Queue| {
                    queue.push_back(1);
                    panic!("in the change");
                },
                handle(),
            );
        }));
        assert!(entered.is_err());
        assert!(ran.borrow().is_empty());
        enter(&pump, |(), queue| queue.push_back(2), handle());
        assert_eq!(*ran.borrow(), [1, 2]);
    }

    #[test]
    fn a_steady_state_uses_the_same_two_buffers() {
        let pump = Pump::new(());
        let buffers = RefCell::new(Vec::new());
        let again = || {
            enter(
                &pump,
                |(), queue: &mut Queue| {
                    queue.push_back(1);
                    buffers.borrow_mut().push(queue.as_slices().0.as_ptr());
                },
                VecDeque::clear,
            );
        };
        (0..10).for_each(|_| again());
        let mut buffers = buffers.into_inner();
        buffers.sort_unstable();
        buffers.dedup();
        assert_eq!(buffers.len(), 2);
    }

    #[test]
    fn a_burst_gives_its_room_back() {
        let pump = Pump::new(());
        for _ in 0..2 {
            enter(
                &pump,
                |(), queue: &mut VecDeque<usize>| queue.extend(0..20 * EFFECTS_ROOM),
                VecDeque::clear,
            );
            let inner = pump.inner.lock();
            assert!(inner.queue.capacity() + inner.spare.capacity() <= 2 * EFFECTS_ROOM);
        }
    }

    #[test]
    fn four_threads_run_every_effect_once_and_in_the_order_of_the_changes() {
        const EACH: u64 = 5_000;
        let (pump, busy, ran) = (Pump::new(0), AtomicBool::new(false), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        enter(
                            &pump,
                            |next: &mut u64, queue| {
                                queue.push_back(*next);
                                *next += 1;
                            },
                            each(|effect| {
                                assert!(!busy.swap(true, Ordering::Relaxed), "two at a time");
                                ran.lock().push(effect);
                                busy.store(false, Ordering::Relaxed);
                            }),
                        );
                    }
                });
            }
        });
        assert!(ran.into_inner().into_iter().eq(0..4 * EACH));
    }

    #[test]
    fn a_held_lock_gives_the_change_back_untouched() {
        let (pump, ran) = (Pump::new(1), RefCell::new(Vec::new()));
        let _held = pump.inner.lock();
        let handle = each(|n: u32| ran.borrow_mut().push(n));
        let change = pump.enter(Duration::from_millis(20), |n: &mut u32, _: &mut Queue| *n, handle);
        assert_eq!(change.map_err(|change| change(&mut 7, &mut Queue::new())), Err(7));
        assert!(ran.borrow().is_empty());
    }

    #[test]
    fn what_was_posted_while_the_lock_was_held_is_carried_out_first_and_in_order() {
        let (pump, ran) = (Pump::new(Vec::new()), RefCell::new(Vec::new()));
        let handle = || each(|n: u32| ran.borrow_mut().push(n));
        let held = pump.inner.lock();
        for n in 0..3 {
            let change = move |state: &mut Vec<u32>, queue: &mut Queue| {
                state.push(n);
                queue.push_back(n);
            };
            pump.post(change, handle());
        }
        assert!(held.state.is_empty() && ran.borrow().is_empty());
        drop(held);
        let seen = enter(&pump, |state, _| state.clone(), handle());
        assert_eq!((seen, ran.into_inner()), (vec![0, 1, 2], vec![0, 1, 2]));
    }

    #[test]
    fn effects_of_the_first_posts_do_not_wait_for_the_last() {
        let (pump, seen) = (Pump::new(0), RefCell::new(Vec::new()));
        let changes = Arc::new(AtomicUsize::new(0));
        let handle = || each(|n: u32| seen.borrow_mut().push((n, changes.load(Ordering::Relaxed))));
        let change = |n: u32| {
            let changes = Arc::clone(&changes);
            move |_: &mut u32, queue: &mut Queue| {
                queue.push_back(n);
                changes.fetch_add(1, Ordering::Relaxed);
            }
        };
        let posts = 3 * u32::try_from(LATE_SLICE).unwrap();
        let held = pump.inner.lock();
        (0..posts).for_each(|n| pump.post(change(n), handle()));
        drop(held);
        pump.post(change(posts), handle());
        let seen = seen.into_inner();
        assert!(seen.iter().map(|(n, _)| *n).eq(0..=posts));
        assert!(seen.first().is_some_and(|(_, changes)| *changes <= LATE_SLICE), "{:?}", seen.first());
    }

    #[test]
    fn the_holder_carries_out_what_was_posted_meanwhile() {
        let (pump, ran) = (Pump::new(0), Mutex::new(Vec::new()));
        let handle = || each(|n: u32| ran.lock().push(n));
        let post = |state: &mut u32, queue: &mut Queue| {
            *state += 1;
            queue.push_back(*state);
        };
        let change = |state: &mut u32, _: &mut Queue| {
            thread::scope(|scope| {
                scope.spawn(|| pump.post(post, handle()));
            });
            *state
        };
        assert_eq!(enter(&pump, change, handle()), 0);
        assert_eq!(*ran.lock(), [1]);
    }

    #[test]
    fn who_runs_effects_leaves_them_to_whoever_holds_the_lock() {
        let (pump, ran) = (Pump::new(()), Mutex::new(Vec::new()));
        let (at_it, held) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let handle = || {
            each(|n: u32| {
                ran.lock().push((n, thread::current().id()));
                if n == 1 {
                    at_it.wait();
                    held.wait();
                }
            })
        };
        thread::scope(|scope| {
            let first = scope.spawn(|| enter(&pump, |(), queue| queue.push_back(1), handle()));
            at_it.wait();
            let change = |(): &mut (), queue: &mut Queue| {
                queue.push_back(2);
                held.wait();
                // It leaves while the lock is held here.
                first.join().unwrap();
            };
            enter(&pump, change, handle());
        });
        let ran = ran.into_inner();
        assert_eq!(ran.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(ran.last().map(|(_, thread)| *thread), Some(thread::current().id()));
    }
}
