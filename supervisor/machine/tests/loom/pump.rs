//! The pump: each effect once, in order, never two at a time, and none left behind.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex as Plain;
use std::time::Duration;

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
        let entered = self.pump.enter(Duration::MAX, Self::change(effects), |batch| self.run(batch));
        assert!(entered.is_ok(), "a model has no time that could run out");
    }

    fn post(&self, effects: &'static [Then]) {
        self.pump.post(Self::change(effects), |batch| self.run(batch));
    }

    fn change(effects: &[Then]) -> impl FnOnce(&mut u8, &mut VecDeque<Effect>) {
        move |next, queue| {
            for &then in effects {
                queue.push_back(Effect { number: *next, then });
                *next += 1;
            }
        }
    }

    fn run(&self, batch: &mut VecDeque<Effect>) {
        while let Some(effect) = batch.pop_front() {
            self.effect(effect);
        }
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
        let next = self.pump.enter(Duration::MAX, |next, _| *next, |batch| self.run(batch));
        assert_eq!(next.ok(), Some(total));
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

/// Lets a thread post while the main thread does something.
fn post_beside(main: fn(&Core)) {
    loom::model(move || {
        let core = Core::new();
        let other = core.clone();
        let thread = thread::spawn(move || other.post(&[Then::Nothing]));
        main(&core);
        thread.join().unwrap();
        // Nobody enters again: what was posted has run without it.
        assert_eq!(*core.ran.lock().unwrap(), [0, 1]);
        core.check(2);
    });
}

#[test]
fn a_post_beside_an_enter() {
    post_beside(|core| core.enter(&[Then::Nothing]));
}

#[test]
fn a_post_beside_a_post() {
    post_beside(|core| core.post(&[Then::Nothing]));
}
