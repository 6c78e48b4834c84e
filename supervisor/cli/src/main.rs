//! `fanin`: many commands at once, one result.
//!
//! This file only puts the parts in a row. The program's word is its exit code; the last line on standard error names
//! it wherever it is not 0.

mod args;
mod drive;
mod duration;
mod each;
mod exit;
mod json;
mod manifest;
mod obey;
mod plan;
mod progress;
mod report;
mod signals;
mod style;
#[cfg(test)]
mod testing;
mod view;
mod watch;

use std::io;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::exit::Exit;
use crate::progress::say;

fn main() -> ExitCode {
    let exit = run();
    if exit != Exit::Done {
        say(&format!("fanin: exit {} ({})", exit.code(), exit.name()));
    }
    ExitCode::from(exit.code())
}

fn run() -> Exit {
    let (args, inline) = match args::parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(error) => {
            // Nobody is left to read it where this fails.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done,
                _ => Exit::Usage,
            };
        }
    };
    let plan = match plan::plan(&args, &inline, io::stdin().lock()) {
        Ok(plan) => plan,
        Err(refused) => {
            refused.0.iter().for_each(|line| say(line));
            return Exit::Usage;
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say(&format!("fanin: failed: {error}"));
            return Exit::Internal;
        }
    };
    let exit = runtime.block_on(drive::run(plan, &args)).unwrap_or_else(|error| {
        say(&format!("fanin: failed: {error}"));
        error.exit()
    });
    // Not dropped: a writer stuck on a full pipe must not keep the program.
    runtime.shutdown_background();
    exit
}
