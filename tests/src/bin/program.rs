//! The program `fanin`, for tests that need programs of this crate beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    fanin_cli::main()
}
