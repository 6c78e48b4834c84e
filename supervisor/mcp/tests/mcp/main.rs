//! The tools of fanin as a client sees them, with time that stands still.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod cancels;
mod client;
mod ends;
mod member;
mod refusals;
mod results;
mod waits;
mod watches;
