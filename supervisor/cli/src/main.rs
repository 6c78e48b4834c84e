//! The program `fanin`; what it does is the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    fanin_cli::main()
}
