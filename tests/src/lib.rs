//! fanin-tests

pub mod cases;
