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
mod tasks;
#[cfg(test)]
mod testing;
mod view;
mod watch;
mod words;

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
        Err(error) => return usage(&error),
    };
    let fail = |exit: Exit, code: &str, message: &str| {
        if args.json {
            say(&json::error(code, message));
        } else {
            say(message);
        }
        exit
    };
    let plan = match plan::plan(&args, &inline, io::stdin().lock()) {
        Ok(plan) => plan,
        Err(refused) => return fail(Exit::Usage, Exit::Usage.name(), &refused.0.join("\n")),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(Exit::Internal, Exit::Internal.name(), &format!("fanin: failed: {error}")),
    };
    let exit = runtime
        .block_on(drive::run(plan, &args))
        .unwrap_or_else(|error| fail(error.exit(), error.code(), &format!("fanin: failed: {error}")));
    // Not dropped: a writer stuck on a full pipe must not keep the program.
    runtime.shutdown_background();
    exit
}

/// Shows why the command line is none, or the help that was asked for.
fn usage(error: &clap::Error) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Nobody is left to read it where this fails.
            let _ = error.print();
            Exit::Done
        }
        // The words could not be read, so only their presence tells what the caller reads.
        _ if std::env::args_os().any(|word| word == "--json") => {
            say(&json::error(Exit::Usage.name(), error.to_string().trim_end()));
            Exit::Usage
        }
        _ => {
            let _ = error.print();
            Exit::Usage
        }
    }
}
