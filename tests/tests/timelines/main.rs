//! Timelines: a script, and all that it gives. Each names the rules it guards.

mod budgets;
mod clocks;
mod foreground;
mod groups;
mod jobs;
mod left;
mod lending;
mod limits;
mod lives;
mod messages;
mod parts;
mod plans;
mod recovery;
mod retries;
mod shutdown;
mod starts;
mod stops;
mod tree;
mod waits;
mod wakes;
mod watches;
