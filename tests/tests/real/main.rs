//! Real agents, offline, with a scripted model: as workers, as parents, as clients of our tools, and the stores that they
//! leave when they are killed.
//!
//! `FANIN_OPENCODE`, `FANIN_CODEX`, `FANIN_CLAUDE` and, of the adapters to ACP, `FANIN_CODEX_ACP` and `FANIN_CLAUDE_ACP` name
//! their programs, as `tests/agents.sh` installs them. Without them nothing is
//! tested and that is said; with `FANIN_REQUIRE=all` it is a failure. None of them ever runs as root.

mod agent;
mod busy;
mod codex;
mod fan_out;
mod messages;
mod model;
mod parent;
mod responses;
mod sanitize;
mod team;
mod workers;
