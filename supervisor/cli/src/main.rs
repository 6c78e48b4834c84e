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
mod stderr;
mod style;
mod tasks;
#[cfg(test)]
mod testing;
mod view;
mod watch;
mod words;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use fanin_protocol::limits::STDERR_WAIT;

use crate::args::RunArgs;
use crate::drive::DriveError;
use crate::exit::Exit;
use crate::plan::Plan;
use crate::signals::Signals;
use crate::stderr::Stderr;

fn main() -> ExitCode {
    let stderr = match Stderr::open() {
        Ok(stderr) => stderr,
        Err(error) => {
            // Nothing was started, and nobody may be left to read it.
            let (code, name) = (Exit::Internal.code(), Exit::Internal.name());
            let _ = writeln!(io::stderr(), "fanin: failed: {error}\nfanin: exit {code} ({name})");
            return ExitCode::from(code);
        }
    };
    let exit = run(&stderr);
    if exit != Exit::Done {
        stderr.say(&format!("fanin: exit {} ({})", exit.code(), exit.name()));
    }
    stderr.settle(Some(STDERR_WAIT));
    ExitCode::from(exit.code())
}

fn run(stderr: &Stderr) -> Exit {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let (exit, message) = (Exit::Internal, format!("fanin: failed: {error}"));
            return fail(stderr, wants_json(), exit, exit.name(), &message);
        }
    };
    let exit = runtime.block_on(program(stderr));
    // Not dropped: a writer stuck on a full pipe must not keep the program.
    runtime.shutdown_background();
    exit
}

async fn program(stderr: &Stderr) -> Exit {
    let failed = |json: bool, error: &DriveError| {
        fail(stderr, json, error.exit(), error.code(), &format!("fanin: failed: {error}"))
    };
    let mut signals = match Signals::catch() {
        Ok(signals) => signals,
        Err(error) => return failed(wants_json(), &DriveError::Signals(error)),
    };
    // Beside the runtime: standard input may never end, and a signal must still end the program.
    let theirs = stderr.clone();
    let reading = tokio::task::spawn_blocking(move || read(&theirs));
    let (args, plan) = tokio::select! {
        read = reading => match read {
            Ok(Ok(read)) => read,
            Ok(Err(exit)) => return exit,
            Err(panic) => {
                let message = format!("fanin: failed: {panic}");
                return fail(stderr, wants_json(), Exit::Internal, Exit::Internal.name(), &message);
            }
        },
        signal = signals.next() => return Exit::Signal(signal),
    };
    drive::run(plan, &args, signals, stderr).await.unwrap_or_else(|error| failed(args.json, &error))
}

/// Reads what shall be run; where that is nothing, says why.
fn read(stderr: &Stderr) -> Result<(RunArgs, Plan), Exit> {
    let (args, inline) = args::parse(std::env::args_os()).map_err(|error| usage(stderr, &error))?;
    match plan::plan(&args, &inline, io::stdin().lock()) {
        Ok(plan) => Ok((args, plan)),
        Err(refused) => Err(fail(stderr, args.json, Exit::Usage, Exit::Usage.name(), &refused.0.join("\n"))),
    }
}

/// Says why the program ends so.
fn fail(stderr: &Stderr, json: bool, exit: Exit, code: &str, message: &str) -> Exit {
    if json {
        stderr.say(&json::error(code, message));
    } else {
        stderr.say(message);
    }
    exit
}

/// Shows why the command line is none, or the help that was asked for.
fn usage(stderr: &Stderr, error: &clap::Error) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Nobody is left to read it where this fails.
            let _ = error.print();
            Exit::Done
        }
        _ => fail(stderr, wants_json(), Exit::Usage, Exit::Usage.name(), error.to_string().trim_end()),
    }
}

/// True where the command line could not be read, but asks for documents: only that word tells what its caller reads.
fn wants_json() -> bool {
    std::env::args_os().any(|word| word == "--json")
}
