//! `fanin`: many commands at once, one result.
//!
//! This file only puts the parts in a row. The program's word is its exit code; wherever it is not 0, the document or
//! the last line on standard error names it.

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

use crate::args::{Inline, RunArgs};
use crate::exit::Exit;
use crate::progress::say;

fn main() -> ExitCode {
    let (exit, is_json) = match args::parse(std::env::args_os()) {
        Ok((args, inline)) => (run(&args, &inline), args.json),
        Err(error) => usage(&error),
    };
    // A document says it already.
    if exit != Exit::Done && !is_json {
        say(&format!("fanin: exit {} ({})", exit.code(), exit.name()));
    }
    ExitCode::from(exit.code())
}

fn run(args: &RunArgs, inline: &[Inline]) -> Exit {
    let fail = |exit: Exit, code: &str, message: &str| {
        say(&if args.json { json::error(code, message, None) } else { format!("error: {message}") });
        exit
    };
    let plan = match plan::plan(args, inline, io::stdin().lock()) {
        Ok(plan) => plan,
        Err(refused) => {
            let (problems, hint) = (refused.problems.join("\n"), refused.hint.as_deref());
            let name = Exit::Usage.name();
            say(&if args.json { json::error(name, &problems, hint) } else { refused.lines().join("\n") });
            return Exit::Usage;
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return fail(
                Exit::Internal,
                Exit::Internal.name(),
                &format!("no runtime could be started: {error}"),
            );
        }
    };
    let exit = runtime
        .block_on(drive::run(plan, args))
        .unwrap_or_else(|error| fail(error.exit(), error.code(), &error.to_string()));
    // Not dropped: a writer stuck on a full pipe must not keep the program.
    runtime.shutdown_background();
    exit
}

/// Shows why the command line is none, or the help that was asked for. True where documents are asked for.
fn usage(error: &clap::Error) -> (Exit, bool) {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Nobody is left to read it where this fails.
            let _ = error.print();
            (Exit::Done, false)
        }
        // The words could not be read, so only their presence tells what the caller reads.
        _ if std::env::args_os().any(|word| word == "--json") => {
            say(&json::usage(error));
            (Exit::Usage, true)
        }
        _ => {
            let _ = error.print();
            (Exit::Usage, false)
        }
    }
}
