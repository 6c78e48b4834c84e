//! Every interleaving of the parts that have threads. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p fanin-machine --test loom --release`; without the cfg this file is empty.
//!
//! All models are full: no bound on preemptions. What a model records for its own assertions is kept in std's types,
//! which loom does not see: they add no interleavings and no order between the threads.
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests")]

mod guard;
mod log;
mod pump;
