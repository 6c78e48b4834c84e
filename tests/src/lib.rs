//! The harness of the suites: the promises as checkers, scripts, the state search and the random sequences.
//!
//! Nothing here decides for the product; what a checker knows it learned from records, effects and replies.

pub mod accounts;
mod broken;
pub mod calm;
pub mod cases;
pub mod coverage;
pub mod cut;

pub mod host;
pub mod invariants;
pub mod ledger;
pub mod lending;
pub mod mails;
pub mod nested;
pub mod op;
pub mod parent;
pub mod posts;
pub mod random;
pub mod recover;
pub mod rows;
pub mod search;
pub mod stores;
pub mod timeline;
pub mod world;

pub use broken::{Broken, Kept};
pub use world::{Options, World};

/// The README's program, compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub mod readme {}
