//! Stores of opencode: what is found in them, what becomes of it, and what is refused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod codex;
mod common;
mod huge;
mod killed;
mod refused;
mod repaired;
