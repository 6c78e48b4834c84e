//! What subscribers are promised, on a log of their own: no machine and no runtime.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests")]

mod common;
mod filter;
mod snapshot;
mod subscription;
