//! The locks and atomics of this crate, so that a model checker can take their place.
//!
//! An ordinary build gets parking_lot and std, one with `--cfg loom` gets loom. Code that is shared between threads
//! takes them from here and from nowhere else: what loom does not see, it does not check.

#[cfg(not(loom))]
pub use parking_lot::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub use std::sync::{Arc, atomic};

#[cfg(loom)]
pub use loom::sync::{Arc, MutexGuard, atomic};
#[cfg(loom)]
pub use model::Mutex;

#[cfg(loom)]
mod model {
    use super::MutexGuard;

    /// loom's mutex with the interface of parking_lot's: a panic does not poison it.
    #[derive(Debug)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// A mutex around a value.
        pub fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        /// Waits for the lock.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }

        /// The lock, where it is free.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            match self.0.try_lock() {
                Ok(guard) => Some(guard),
                Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(std::sync::TryLockError::WouldBlock) => None,
            }
        }

        /// Waits for the lock. There is no time in a model, so it waits for as long as it takes.
        pub fn try_lock_for(&self, _wait: std::time::Duration) -> Option<MutexGuard<'_, T>> {
            Some(self.lock())
        }

        /// The value, which nobody else can reach.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}
