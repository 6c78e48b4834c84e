//! Who sleeps at the head of the log. Nothing here runs foreign code: wakers are handed out, not woken.

use std::mem;
use std::task::Waker;

/// Wakers of readers that sleep, each at its own berth.
///
/// A waker is never woken or dropped here, only handed out: both may run foreign code, which may come back to the log.
#[derive(Default)]
pub(super) struct Sleepers {
    pub(super) berths: Vec<Option<Waker>>,
    free: Vec<usize>,
    /// Berths that hold a waker.
    pub(super) asleep: usize,
}

impl Sleepers {
    /// Keeps a waker for the next append and returns one that it replaced.
    pub(super) fn enter(&mut self, berth: &mut Option<usize>, waker: &Waker) -> Option<Waker> {
        let index = *berth.get_or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.berths.push(None);
                self.berths.len() - 1
            })
        });
        let kept = self.berths.get_mut(index)?;
        match kept {
            Some(old) if old.will_wake(waker) => None,
            Some(old) => Some(mem::replace(old, waker.clone())),
            None => {
                *kept = Some(waker.clone());
                self.asleep += 1;
                None
            }
        }
    }

    /// Gives a berth back and returns its waker if it holds one.
    pub(super) fn leave(&mut self, berth: usize) -> Option<Waker> {
        self.free.push(berth);
        let old = self.berths.get_mut(berth)?.take();
        self.asleep -= usize::from(old.is_some());
        old
    }

    /// Takes all wakers; the berths stay with their readers.
    pub(super) fn take(&mut self) -> Vec<Waker> {
        // Most appends find nobody asleep and must not pay for those who only once were.
        if self.asleep == 0 {
            return Vec::new();
        }
        let mut wakers = Vec::with_capacity(self.asleep);
        wakers.extend(self.berths.iter_mut().filter_map(Option::take));
        self.asleep = 0;
        wakers
    }
}
