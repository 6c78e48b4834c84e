//! Real agents, offline, with a scripted model: as workers, as parents, and the stores that they leave when they are killed.
//!
//! `FANIN_OPENCODE` and `FANIN_CODEX` name their programs, as `tests/agents.sh` installs them. Without them nothing is
//! tested and that is said; with `FANIN_REQUIRE=all` it is a failure. None of them ever runs as root.

#[expect(
    dead_code,
    reason = "some of it is for agents as clients of our tools, beside the program that has them"
)]
mod agent;
mod codex;
#[expect(dead_code, reason = "as above")]
mod model;
mod parent;
mod responses;
mod sanitize;
mod workers;
