//! The machine behind fanin: what decides, and the little of it that has threads.

pub mod guard;
pub mod log;
pub mod pump;
pub mod sync;
