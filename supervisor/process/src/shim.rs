//! The shim: a process between the supervisor and one job, which outlives neither. It is the same program, called
//! again with a hidden word, and must stay cheap: it runs before anything else of the program does, on one thread.

#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod holder;

use std::process::ExitCode;

/// The hidden word: the first argument of a program that is called as a shim.
pub const SUBCOMMAND: &str = "__shim";

/// True where this program was called as a shim; [`main`] is all that it shall do then.
pub fn is_called() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == SUBCOMMAND)
}

/// Runs the job that standard input orders, holds all that it starts, and ends when nothing of it is left.
///
/// Called first in the `main` of a program whose path a runner was given; see [`is_called`]. It becomes the parent of
/// every orphan below it. Once its supervisor is gone, or on SIGTERM, SIGINT or SIGHUP, it ends the job: SIGTERM,
/// SIGKILL after [`ORPHAN_GRACE`](fanin_protocol::limits::ORPHAN_GRACE).
///
/// The exit code is 0 where it did its part, whatever became of the job, and 2 where nobody ordered anything.
pub fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let ended = holder::run();
    #[cfg(not(target_os = "linux"))]
    let ended: std::io::Result<()> = Err(std::io::Error::other("this system has none"));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is the job's until that is started, and nobody's afterwards.
            eprintln!("{SUBCOMMAND} is called by fanin itself: {error}");
            ExitCode::from(2)
        }
    }
}
