//! State behind a lock, and the effects of its changes run in order outside of it.
//!
//! A change of state is short and may come from any thread, also from inside an effect. Its effects may take long and
//! may come back with the next change, so none of them is ever run with the lock held.

use std::any::Any;
use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fanin_protocol::limits::EFFECTS_ROOM;

use crate::sync::Mutex;

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
///
/// use fanin_machine::pump::Pump;
///
/// struct Core {
///     pump: Pump<u32, VecDeque<u32>>,
/// }
///
/// impl Core {
///     fn add(&self, n: u32) -> u32 {
///         self.pump.enter(
///             |sum, effects| {
///                 *sum += n;
///                 effects.push_back(*sum);
///                 *sum
///             },
///             |effects| self.run(effects),
///         )
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
/// assert_eq!(core.add(1), 1);
/// assert_eq!(core.pump.look(|sum| *sum), 11);
/// ```
#[derive(Debug)]
pub struct Pump<S, B> {
    inner: Mutex<Inner<S, B>>,
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

impl<S, B: Batch> Pump<S, B> {
    /// A pump around a state, with nothing to run.
    pub fn new(state: S) -> Self {
        Self { inner: Mutex::new(Inner { state, queue: B::default(), spare: B::default(), pumping: false }) }
    }

    /// Looks at the state without changing it.
    ///
    /// The effects of what it shows may still be under way. `look` must be short: it holds the lock.
    pub fn look<R>(&self, look: impl FnOnce(&S) -> R) -> R {
        look(&self.inner.lock().state)
    }

    /// Changes the state under the lock, then runs what is queued unless somebody else is at it.
    ///
    /// `change` puts effects at the end of the queue. It must be short and must not enter again. `handle` runs the
    /// effects of a batch without the lock and may enter: an `enter` from inside it, or from another thread meanwhile,
    /// only changes and appends, and returns before its own effects have run. So every caller has to pass a handler
    /// that does the same, and the one who runs effects may run those of others for as long as they keep coming.
    ///
    /// `handle` takes an effect out of the batch before it runs it, and is called again while any is left.
    ///
    /// # Panics
    ///
    /// Where `change` panics, nothing is run; what it had changed and queued stays, and the next `enter` takes it
    /// along. Where `handle` panics, the effects behind are run all the same, so that no wake waits for a later
    /// caller; then the first such panic goes on in the one who was running them.
    pub fn enter<R>(&self, change: impl FnOnce(&mut S, &mut B) -> R, mut handle: impl FnMut(&mut B)) -> R {
        let mut inner = self.inner.lock();
        let Inner { state, queue, .. } = &mut *inner;
        let answer = change(state, queue);
        if inner.pumping || inner.queue.is_empty() {
            return answer;
        }
        inner.pumping = true;
        let mut batch = mem::take(&mut inner.spare);
        mem::swap(&mut batch, &mut inner.queue);
        drop(inner);
        if let Some(panic) = self.run(batch, &mut handle) {
            resume_unwind(panic);
        }
        answer
    }

    /// Runs batch after batch until the queue is empty, and returns the first panic.
    fn run(&self, mut batch: B, handle: &mut impl FnMut(&mut B)) -> Option<Box<dyn Any + Send>> {
        let mut panic = None;
        loop {
            while !batch.is_empty() {
                // A handler is used again after it panicked: what it shares with the state is behind the lock.
                if let Err(caught) = catch_unwind(AssertUnwindSafe(|| handle(&mut batch))) {
                    panic.get_or_insert(caught);
                }
            }
            let mut inner = self.inner.lock();
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

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    type Queue = VecDeque<u32>;

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
        fn enter(pump: &Pump<(), Queue>, ran: &RefCell<Vec<u32>>, depth: &Cell<u32>, effects: &[u32]) {
            let handle = each(|effect: u32| {
                assert_eq!(depth.replace(1), 0, "one effect inside another");
                ran.borrow_mut().push(effect);
                if effect < 100 {
                    enter(pump, ran, depth, &[effect + 100, effect + 200]);
                }
                depth.set(0);
            });
            pump.enter(|(), queue| queue.extend(effects), handle);
        }
        enter(&pump, &ran, &depth, &[1, 2]);
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
            pump.enter(|_, queue: &mut Queue| queue.extend([1, 2, 3, 4]), handle());
        }));
        let message = entered.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*message, "odd 1", "the first panic is the one that goes on");
        assert_eq!(*ran.borrow(), [1, 2, 3, 4]);
        pump.enter(|_, queue| queue.push_back(6), handle());
        assert_eq!(*ran.borrow(), [1, 2, 3, 4, 6]);
    }

    #[test]
    fn what_a_panicking_change_had_queued_runs_with_the_next_one() {
        let (pump, ran) = (Pump::new(()), RefCell::new(Vec::new()));
        let handle = || each(|effect: u32| ran.borrow_mut().push(effect));
        let entered = catch_unwind(AssertUnwindSafe(|| {
            pump.enter(
                |(), queue: &mut Queue| {
                    queue.push_back(1);
                    panic!("in the change");
                },
                handle(),
            );
        }));
        assert!(entered.is_err());
        assert!(ran.borrow().is_empty());
        pump.enter(|(), queue| queue.push_back(2), handle());
        assert_eq!(*ran.borrow(), [1, 2]);
    }

    #[test]
    fn a_steady_state_uses_the_same_two_buffers() {
        let pump = Pump::new(());
        let buffers = RefCell::new(Vec::new());
        let enter = || {
            pump.enter(
                |(), queue: &mut Queue| {
                    queue.push_back(1);
                    buffers.borrow_mut().push(queue.as_slices().0.as_ptr());
                },
                VecDeque::clear,
            );
        };
        (0..10).for_each(|_| enter());
        let mut buffers = buffers.into_inner();
        buffers.sort_unstable();
        buffers.dedup();
        assert_eq!(buffers.len(), 2);
    }

    #[test]
    fn a_burst_gives_its_room_back() {
        let pump = Pump::new(());
        for _ in 0..2 {
            pump.enter(|(), queue: &mut VecDeque<usize>| queue.extend(0..20 * EFFECTS_ROOM), VecDeque::clear);
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
                        pump.enter(
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
}
