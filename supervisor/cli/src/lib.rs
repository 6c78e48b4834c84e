//! `fanin`: many commands at once, one result.
//!
//! This file only puts the parts in a row. The program's word is its exit code; wherever it is not 0, the document or
//! the last line on standard error names it.

mod again;
mod args;
mod ask;
mod budget;
mod completions;
mod config;
mod demo;
mod detach;
mod doctor;
mod drive;
mod duration;
mod each;
mod events;
mod exec;
mod exit;
mod file;
mod github;
mod hand;
mod init;
mod json;
mod junit;
mod keep;
mod leave;
mod log;
mod look;
mod lookout;
mod manifest;
mod mask;
mod mcp;
mod nested;
mod notice;
mod obey;
mod on_done;
mod output;
mod over;
mod plan;
mod prepare;
mod progress;
mod ps;
mod reach;
mod report;
mod resume;
mod sanitize;
mod serve;
mod show;
mod shown;
mod signals;
mod socket;
mod status;
mod stderr;
mod store;
mod stores;
mod style;
mod tasks;
mod team;
#[cfg(test)]
mod testing;
mod timeline;
mod view;
mod wait;
mod warning;
mod watch;
mod words;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use fanin_protocol::limits::STDERR_WAIT;
use fanin_protocol::{GroupId, text};
use fanin_subprocess::shim;

use crate::args::{Asked, Words};
use crate::config::Config;
use crate::config::show::ConfigCommand;
use crate::doctor::DoctorArgs;
use crate::drive::{DriveError, Driven};
use crate::exit::Exit;
use crate::look::Look;
use crate::mask::Mask;
use crate::mcp::McpArgs;
use crate::plan::Refused;
use crate::prepare::Prepared;
use crate::reach::ReachError;
use crate::resume::Resumed;
use crate::signals::Signals;
use crate::stderr::Stderr;
use crate::stores::LookError;

/// The program, from its arguments to its exit code.
pub fn main() -> ExitCode {
    // Before anything else: there is one for each task, and all that is done here is done for each of them.
    if shim::is_called() {
        return shim::main();
    }
    let stderr = match Stderr::open() {
        Ok(stderr) => stderr,
        Err(error) => {
            // Nothing was started, and nobody may be left to read it.
            let (code, name) = (Exit::Internal.code(), Exit::Internal.name());
            let _ = writeln!(
                io::stderr(),
                "error: no thread could be started: {error}\nfanin: exit {code} ({name})"
            );
            return ExitCode::from(code);
        }
    };
    stderr.hide(Mask::known().clone());
    if github::is_there() {
        stderr.defuse();
    }
    let Ended { exit, is_json, again } = run(&stderr);
    // A document says it already.
    if exit != Exit::Done && !is_json {
        stderr.say(&format!("fanin: exit {} ({})", exit.code(), exit.name()));
        // Alone on the last line, so that it can be taken as it is.
        if let Some(group) = again {
            stderr.say(&format!("fanin run --again {group}"));
        }
    }
    stderr.settle(Some(STDERR_WAIT));
    ExitCode::from(exit.code())
}

/// How the program ends, and whether documents are asked for.
#[derive(Debug)]
struct Ended {
    exit: Exit,
    is_json: bool,
    /// The run that has something to be run again.
    again: Option<GroupId>,
}

impl Ended {
    fn new(exit: Exit, is_json: bool) -> Self {
        Self { exit, is_json, again: None }
    }

    /// Says why it ends so.
    fn saying(self, stderr: &Stderr, code: &str, message: &str) -> Self {
        if self.is_json {
            stderr.document(&json::error(code, message, None));
        } else {
            stderr.say(&format!("error: {message}"));
        }
        self
    }
}

fn run(stderr: &Stderr) -> Ended {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let ended = Ended::new(Exit::Internal, wants_json());
            return ended.saying(stderr, "internal", &format!("no runtime could be started: {error}"));
        }
    };
    let ended = runtime.block_on(program(stderr));
    // Not dropped: a writer stuck on a full pipe must not keep the program.
    runtime.shutdown_background();
    ended
}

async fn program(stderr: &Stderr) -> Ended {
    let failed = |is_json: bool, error: &DriveError| {
        Ended::new(error.exit(), is_json).saying(stderr, error.code(), &error.to_string())
    };
    let mut signals = match Signals::catch() {
        Ok(signals) => signals,
        Err(error) => return failed(wants_json(), &DriveError::Signals(error)),
    };
    // Beside the runtime: standard input may never end, and a signal must still end the program.
    let theirs = stderr.clone();
    let reading = tokio::task::spawn_blocking(move || read(&theirs));
    let prepared = tokio::select! {
        read = reading => match read {
            Ok(Ok(Ready::Run(prepared))) => *prepared,
            Ok(Ok(Ready::Mcp(served))) => return serve(*served, signals, stderr).await,
            Ok(Ok(Ready::Serve(prepared))) => return serve_all(*prepared, signals, stderr).await,
            Ok(Ok(Ready::Watch(prepared))) => return look_out(*prepared, signals, stderr).await,
            Ok(Ok(Ready::Exec(prepared))) => return host(*prepared, signals, stderr).await,
            Ok(Ok(Ready::Wait(prepared))) => return wait(*prepared, signals, stderr).await,
            Ok(Ok(Ready::Ask(prepared))) => return ask(*prepared, signals, stderr).await,
            Ok(Ok(Ready::Detach(prepared))) => return detach(*prepared, signals, stderr).await,
            Ok(Err(ended)) => return ended,
            Err(panic) => {
                let ended = Ended::new(Exit::Internal, wants_json());
                return ended.saying(stderr, "internal", &panic.to_string());
            }
        },
        signal = signals.next() => return unstarted(stderr, Exit::Signal(signal)),
    };
    let is_json = prepared.args.json;
    let (group, is_kept) = (prepared.group.clone(), prepared.keep.is_some());
    let again = |is_wanted: bool| (is_wanted && is_kept).then_some(group);
    match drive::run(prepared, signals, stderr).await {
        Ok(Driven { exit: Ok(exit), is_complete }) => Ended { exit, is_json, again: again(!is_complete) },
        Ok(Driven { exit: Err(error), is_complete }) => {
            Ended { again: again(!is_complete), ..failed(is_json, &error) }
        }
        Err(error) => Ended { again: again(true), ..failed(is_json, &error) },
    }
}

/// What was asked for, ready to begin.
enum Ready {
    Run(Box<Prepared>),
    Exec(Box<exec::Prepared>),
    Watch(Box<lookout::Prepared>),
    Mcp(Box<mcp::Served>),
    Serve(Box<serve::Prepared>),
    Wait(Box<wait::Prepared>),
    Ask(Box<ask::Prepared>),
    Detach(Box<detach::Prepared>),
}

/// Why a service did not do what was asked.
fn unreached(is_json: bool, error: &ReachError, stderr: &Stderr) -> Ended {
    Ended::new(error.exit(), is_json).saying(stderr, error.code(), &error.to_string())
}

/// Waits for what is served.
async fn wait(prepared: wait::Prepared, signals: Signals, stderr: &Stderr) -> Ended {
    let is_json = prepared.is_json();
    match wait::run(prepared, signals, stderr).await {
        Ok(exit) => Ended::new(exit, is_json),
        Err(error) => unreached(is_json, &error, stderr),
    }
}

/// Asks the service something. A signal ends the program, whatever became of it.
async fn ask(prepared: ask::Prepared, mut signals: Signals, stderr: &Stderr) -> Ended {
    tokio::select! {
        asked = ask::run(prepared) => match asked {
            Ok(exit) => Ended::new(exit, false),
            Err(error) => unreached(false, &error, stderr),
        },
        signal = signals.next() => Ended::new(Exit::Signal(signal), false),
    }
}

/// Launches in the service. A signal ends the program; whether it was launched is not known then.
async fn detach(prepared: detach::Prepared, mut signals: Signals, stderr: &Stderr) -> Ended {
    let is_json = prepared.is_json;
    let told = tokio::select! {
        told = detach::run(prepared) => told,
        signal = signals.next() => return Ended::new(Exit::Signal(signal), is_json),
    };
    let printed = told.and_then(|told| {
        if let Some(warning) = told.warning {
            stderr.say(&format!("fanin: warning: {warning}"));
        }
        wait::print(&told.text).map_err(ReachError::Write)
    });
    match printed {
        Ok(()) => Ended::new(Exit::Done, is_json),
        Err(error) => unreached(is_json, &error, stderr),
    }
}

/// Watches to the end.
async fn look_out(prepared: lookout::Prepared, signals: Signals, stderr: &Stderr) -> Ended {
    let is_json = prepared.is_json;
    match lookout::run(prepared, signals, stderr).await {
        Ok(exit) => Ended::new(exit, is_json),
        Err(error) => Ended::new(error.exit(), is_json).saying(stderr, error.code(), &error.to_string()),
    }
}

/// Hosts a parent to its end.
async fn host(prepared: exec::Prepared, signals: Signals, stderr: &Stderr) -> Ended {
    let is_json = prepared.is_json();
    match exec::run(prepared, signals, stderr).await {
        Ok(exit) => Ended::new(exit, is_json),
        Err(error) => Ended::new(error.exit(), is_json).saying(stderr, error.code(), &error.to_string()),
    }
}

/// Serves an agent. Standard output is its own; what there is to say goes to standard error.
async fn serve(served: mcp::Served, signals: Signals, stderr: &Stderr) -> Ended {
    match mcp::serve(served, signals, stderr).await {
        Ok(exit) => Ended::new(exit, false),
        Err(error) => Ended::new(Exit::Usage, false).saying(stderr, error.code(), &error.to_string()),
    }
}

/// Serves all clients. What there is to say of it goes to standard error.
async fn serve_all(prepared: serve::Prepared, signals: Signals, stderr: &Stderr) -> Ended {
    match serve::run(prepared, signals, stderr).await {
        Ok(exit) => Ended::new(exit, false),
        Err(error) => Ended::new(error.exit(), false).saying(stderr, error.code(), &error.to_string()),
    }
}

/// The end by a signal that came first. For people the last line says it all.
fn unstarted(stderr: &Stderr, exit: Exit) -> Ended {
    let ended = Ended::new(exit, wants_json());
    if ended.is_json {
        ended.saying(stderr, exit.name(), "a signal came before anything was started")
    } else {
        ended
    }
}

/// Reads what shall be run, and prepares it; where that is nothing, says why.
fn read(stderr: &Stderr) -> Result<Ready, Ended> {
    let Words { asked, log } = args::parse(std::env::args_os()).map_err(|error| usage(stderr, &error))?;
    let is_json = asked.is_json();
    let config = match Config::resolve() {
        Ok(config) => config,
        Err(refused) if asked.is_configured() => return Err(refuse(&refused, is_json, stderr)),
        // It says so itself, or does without.
        Err(_) => Config::of_variables(),
    };
    log::begin(config.settings.log().with(&log), stderr);
    tell_interrupted(&asked, &config, stderr);
    let prepared = match asked {
        Asked::Run(args, inline) if args.detach => {
            stderr.hide_more(args.flags.variables());
            let prepared = detach::prepare(&args, &inline, &config, io::stdin().lock());
            prepared.map(Box::new).map(Ready::Detach)
        }
        Asked::Wait(args) => {
            let prepared = wait::prepare(args, &config.settings.state()).map(Box::new).map(Ready::Wait);
            return prepared.map_err(|error| unreached(is_json, &error, stderr));
        }
        Asked::Ask(ask) => {
            let prepared = ask::prepare(ask, &config.settings.state()).map(Box::new).map(Ready::Ask);
            return prepared.map_err(|error| unreached(is_json, &error, stderr));
        }
        Asked::Run(args, inline) => {
            stderr.hide_more(args.flags.variables());
            let prepared = prepare::prepare(*args, &inline, &config, io::stdin().lock());
            prepared.map(Box::new).map(Ready::Run)
        }
        Asked::Resume(args) => match resume::prepare(&args, &config) {
            Ok(Resumed::Nothing) => {
                if !is_json {
                    stderr.say("fanin: no run was interrupted");
                }
                return Err(Ended::new(Exit::Done, is_json));
            }
            Ok(Resumed::Run(prepared)) => Ok(Ready::Run(prepared)),
            Ok(Resumed::Exec(prepared)) => Ok(Ready::Exec(prepared)),
            Err(refused) => Err(refused),
        },
        Asked::Exec(args) => exec::prepare(*args, &config).map(Box::new).map(Ready::Exec),
        Asked::Serve(args) => serve::prepare(&args, &config).map(Box::new).map(Ready::Serve),
        Asked::Watch(args) => lookout::prepare(*args).map(Box::new).map(Ready::Watch),
        Asked::Mcp(McpArgs { door: Some(door), member: true, .. }) => {
            return Err(of_team(team::through(&door).map(|()| Exit::Done), false, stderr));
        }
        Asked::Mcp(McpArgs { door: Some(door), .. }) => return Err(go_through(&door, stderr)),
        Asked::Mcp(args) => {
            mcp::prepare(&args, config.settings.state(), stderr).map(Box::new).map(Ready::Mcp)
        }
        Asked::Team(args) => return Err(of_team(team::run(args), is_json, stderr)),
        Asked::Look(look) => return Err(look_at(&look, &config, stderr)),
        Asked::Demo(part) => return Err(demonstrate(&part, stderr)),
        Asked::Doctor(args) => return Err(examine(&args, &config, stderr)),
        Asked::Status(args) => return Err(written(is_json, stderr, |out| status::run(&args, &config, out))),
        Asked::Config(ConfigCommand::Show(args)) => {
            return Err(written(is_json, stderr, |out| {
                config::show::run(&args, &config, out)?;
                Ok(Exit::Done)
            }));
        }
        Asked::Completions(shell) => {
            return Err(written(is_json, stderr, |out| {
                completions::run(shell, out);
                Ok(Exit::Done)
            }));
        }
        Asked::Init(args) => return Err(written(is_json, stderr, |out| init::run(&args, out))),
    };
    prepared.map_err(|refused| refuse(&refused, is_json, stderr))
}

/// Says why nothing is done.
fn refuse(refused: &Refused, is_json: bool, stderr: &Stderr) -> Ended {
    let (problems, hint) = (refused.problems.join("\n"), refused.hint.as_deref());
    if is_json {
        stderr.document(&json::error(refused.exit.name(), &problems, hint));
    } else {
        stderr.say(&refused.lines().join("\n"));
    }
    Ended::new(refused.exit, is_json)
}

/// Does what only writes to standard output. That nobody reads it is no failure.
fn written(
    is_json: bool,
    stderr: &Stderr,
    work: impl FnOnce(&mut dyn Write) -> Result<Exit, LookError>,
) -> Ended {
    let mut out = Vec::new();
    let done = work(&mut out).and_then(|exit| {
        io::stdout().write_all(&out)?;
        Ok(exit)
    });
    match done {
        Ok(exit) => Ended::new(exit, is_json),
        Err(LookError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ended::new(Exit::Done, is_json)
        }
        Err(error) => Ended::new(error.exit(), is_json).saying(stderr, error.code(), &error.to_string()),
    }
}

/// What came of mail.
fn of_team(done: Result<Exit, team::Refused>, is_json: bool, stderr: &Stderr) -> Ended {
    let team::Refused { exit, fault } = match done {
        Ok(exit) => return Ended::new(exit, is_json),
        Err(refused) => refused,
    };
    if is_json {
        stderr.document(&json::fault(&fault));
    } else {
        stderr.say(&format!("error: {}: {}", fault.code, fault.message));
    }
    Ended::new(exit, is_json)
}

/// `fanin mcp` of an agent that we host.
fn go_through(door: &Path, stderr: &Stderr) -> Ended {
    match exec::through(door) {
        Ok(()) => Ended::new(Exit::Done, false),
        Err(error) => {
            let why = format!("{}: nobody opens: {error}", text::path(door));
            Ended::new(Exit::Usage, false).saying(stderr, Exit::Usage.name(), &why)
        }
    }
}

/// The first command after a crash says what it found, but for documents, and inside of a job.
fn tell_interrupted(asked: &Asked, config: &Config, stderr: &Stderr) {
    let is_told = match asked {
        Asked::Run(args, _) => !args.json,
        Asked::Exec(args) => !args.json,
        Asked::Look(look) => !look.is_json(),
        Asked::Wait(args) => !args.json,
        Asked::Resume(_)
        | Asked::Watch(_)
        | Asked::Ask(_)
        | Asked::Mcp(_)
        | Asked::Team(_)
        | Asked::Serve(_)
        | Asked::Doctor(_)
        | Asked::Demo(_) => false,
        Asked::Status(_) | Asked::Init(_) | Asked::Config(_) | Asked::Completions(_) => false,
    };
    if let (true, Ok(state)) = (is_told && !nested::is_inside(), config.settings.state()) {
        resume::tell(&state, |line| stderr.say(line));
    }
}

/// `fanin demo`, from a thread that may block.
fn demonstrate(part: &[String], stderr: &Stderr) -> Ended {
    match tokio::runtime::Handle::current().block_on(demo::run(part)) {
        Ok(()) => Ended::new(Exit::Done, false),
        Err(error) => Ended::new(Exit::Internal, false).saying(stderr, "demo", &error.to_string()),
    }
}

/// `fanin doctor`, from a thread that may block.
fn examine(args: &DoctorArgs, config: &Config, stderr: &Stderr) -> Ended {
    let mut out = Vec::new();
    let examined = tokio::runtime::Handle::current().block_on(doctor::run(args, &config.agents, &mut out));
    match examined.and_then(|examined| io::stdout().write_all(&out).map(|()| examined)) {
        Ok(Ok(exit)) => Ended::new(exit, args.json),
        Ok(Err(why)) => Ended::new(Exit::Usage, args.json).saying(stderr, Exit::Usage.name(), &why),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ended::new(Exit::Done, args.json),
        Err(error) => Ended::new(Exit::Internal, args.json).saying(stderr, "io", &error.to_string()),
    }
}

fn look_at(look: &Look, config: &Config, stderr: &Stderr) -> Ended {
    let is_json = look.is_json();
    let warn = |line: &str| stderr.say(&format!("fanin: warning: {line}"));
    match look.run(&config.settings.state(), &warn) {
        Ok(exit) => Ended::new(exit, is_json),
        Err(error) => Ended::new(error.exit(), is_json).saying(stderr, error.code(), &error.to_string()),
    }
}

/// Shows why the command line is none, or the help that was asked for.
fn usage(stderr: &Stderr, error: &clap::Error) -> Ended {
    if let ErrorKind::DisplayHelp | ErrorKind::DisplayVersion = error.kind() {
        // Nobody is left to read it where this fails.
        let _ = error.print();
        return Ended::new(Exit::Done, false);
    }
    let is_json = wants_json();
    if is_json {
        stderr.document(&json::usage(error, &args::named(std::env::args_os())));
    } else {
        stderr.say(error.to_string().trim_end());
    }
    Ended::new(Exit::Usage, is_json)
}

/// True where the command line asks for documents, as far as that can be told without reading it.
fn wants_json() -> bool {
    std::env::args_os().any(|word| word == "--json")
}
