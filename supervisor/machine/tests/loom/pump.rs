//! The pump: each effect once, in order, never two at a time, and none left behind.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex as Plain;

use fanin_machine::pump::Pump;
use fanin_machine::sync::Arc;
use fanin_machine::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// Numbers the effects in the order of the changes; effects come back with more where they are told to.
struct Core {
    pump: Pump<u8, VecDeque<Effect>>,
    busy: AtomicBool,
    ran: Plain<Vec<u8>>,
}

#[derive(Clone, Copy)]
enum Then {
    Nothing,
    Enter,
    Panic,
}

struct Effect {
    number: u8,
    then: Then,
}

impl Core {
    fn new() -> Arc<Self> {
        Arc::new(Self { pump: Pump::new(0), busy: AtomicBool::new(false), ran: Plain::default() })
    }

    fn enter(&self, effects: &[Then]) {
        self.pump.enter(
            |next, queue| {
                for &then in effects {
                    queue.push_back(Effect { number: *next, then });
                    *next += 1;
                }
            },
            |batch| {
                while let Some(effect) = batch.pop_front() {
                    self.effect(effect);
                }
            },
        );
    }

    fn effect(&self, effect: Effect) {
        // The swap and the store are places where loom lets another thread in.
        assert!(!self.busy.swap(true, Ordering::Relaxed), "two at a time");
        self.ran.lock().unwrap().push(effect.number);
        if matches!(effect.then, Then::Enter) {
            self.enter(&[Then::Nothing]);
        }
        self.busy.store(false, Ordering::Relaxed);
        if matches!(effect.then, Then::Panic) {
            resume_unwind(Box::new("in the handler"));
        }
    }

    /// All that was queued has run, in order.
    fn check(&self, total: u8) {
        assert_eq!(self.pump.look(|next| *next), total);
        assert_eq!(*self.ran.lock().unwrap(), (0..total).collect::<Vec<_>>());
    }
}

/// Lets threads enter at once, one for each list of effects, and the main thread with the last.
fn enter_at_once<const N: usize>(effects: [&'static [Then]; N], total: u8) {
    loom::model(move || {
        let core = Core::new();
        let (main, others) = effects.split_last().unwrap();
        let threads: Vec<_> = others
            .iter()
            .map(|&effects| {
                let core = core.clone();
                // A panic of a handler goes to whoever runs the effects; here it is expected and no more.
                thread::spawn(move || drop(catch_unwind(AssertUnwindSafe(|| core.enter(effects)))))
            })
            .collect();
        drop(catch_unwind(AssertUnwindSafe(|| core.enter(main))));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        core.check(total);
    });
}

#[test]
fn two_threads_with_two_effects_each() {
    enter_at_once([&[Then::Nothing, Then::Nothing], &[Then::Nothing, Then::Nothing]], 4);
}

#[test]
fn three_threads_with_an_effect_each() {
    enter_at_once([&[Then::Nothing], &[Then::Nothing], &[Then::Nothing]], 3);
}

#[test]
fn effects_that_enter_again() {
    enter_at_once([&[Then::Enter], &[Then::Enter, Then::Nothing]], 5);
}

#[test]
fn a_handler_that_panics() {
    enter_at_once([&[Then::Panic, Then::Nothing], &[Then::Enter]], 4);
}
