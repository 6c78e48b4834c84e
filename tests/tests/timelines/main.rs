//! Timelines: a script, and all that it gives. Each names the rules it guards.

mod clocks;
mod groups;
mod jobs;
mod lending;
mod lives;
mod parts;
mod recovery;
mod shutdown;
mod stops;
mod tree;
mod waits;
