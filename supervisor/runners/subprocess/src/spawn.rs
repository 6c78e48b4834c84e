//! Starts a command as the leader of a process group of its own, or says exactly why it cannot be started. It adds
//! no code to the child: any would turn the fast spawn of the system into a copy of our whole memory.

use std::io;
use std::path::Path;
use std::process::Stdio;

use fanin_protocol::limits::MESSAGE_BYTES_MAX;
use fanin_protocol::{Cause, Code, CommandLine, CommandSpec, text};
use fanin_supervisor::Failure;
use tokio::process::{Child, Command};

/// The shell of a shell line.
const SHELL: &str = "/bin/sh";

/// Starts the command.
///
/// # Errors
///
/// A failure with cause `spawn` that tells a missing program, a bad working folder, a refusal, and other reasons of
/// the system apart.
///
/// # Panics
///
/// Outside of a tokio runtime with I/O enabled.
pub(crate) fn spawn(spec: &CommandSpec) -> Result<Child, Failure> {
    let (program, mut command) = match &spec.line {
        CommandLine::Shell(line) => {
            let mut command = Command::new(SHELL);
            command.args(["-c", line]);
            (SHELL, command)
        }
        CommandLine::Argv(argv) => {
            let program = argv.first().map(String::as_str).unwrap_or_default();
            let mut command = Command::new(program);
            command.args(argv.iter().skip(1));
            (program, command)
        }
    };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(&spec.env).process_group(0).kill_on_drop(true);
    if let Some(cwd) = &spec.cwd {
        command.current_dir(cwd);
    }
    command.spawn().map_err(|error| explain(spec, program, &error).before_start())
}

/// A failure to start, in words.
pub(crate) fn failure(code: Code, message: &str) -> Failure {
    let message = text::cut(message, MESSAGE_BYTES_MAX).to_owned();
    Failure::new(Cause::Spawn, Some(code), message)
}

/// Why the system did not start it. "Not found" and "denied" are said of the folder and of the program alike, so
/// the folder is looked at first.
fn explain(spec: &CommandSpec, program: &str, error: &io::Error) -> Failure {
    if let Some(failure) = spec.cwd.as_deref().and_then(explain_folder) {
        return failure;
    }
    let (code, message) = match error.kind() {
        io::ErrorKind::NotFound if is_file(spec, program) => {
            (Code::ProgramNotFound, format!("{program:?} names an interpreter that does not exist"))
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if program.contains('/') => {
            (Code::ProgramNotFound, format!("program {program:?} does not exist"))
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            (Code::ProgramNotFound, format!("program {program:?} was not found in PATH"))
        }
        io::ErrorKind::PermissionDenied => {
            (Code::PermissionDenied, format!("no permission to run {program:?}"))
        }
        _ => (Code::Os, format!("cannot start {program:?}: {error}")),
    };
    failure(code, &message)
}

/// What is wrong with a working folder; `None` where a process may work in it.
fn explain_folder(folder: &Path) -> Option<Failure> {
    // The dot asks for what entering the folder asks for: that it is one, and may be searched.
    let error = std::fs::metadata(folder.join(".")).err()?;
    let (code, message) = match error.kind() {
        io::ErrorKind::NotFound => (Code::BadFolder, format!("working folder {folder:?} does not exist")),
        io::ErrorKind::NotADirectory => (Code::BadFolder, format!("working folder {folder:?} is no folder")),
        io::ErrorKind::PermissionDenied => {
            (Code::PermissionDenied, format!("no permission to enter working folder {folder:?}"))
        }
        _ => (Code::BadFolder, format!("working folder {folder:?}: {error}")),
    };
    Some(failure(code, &message))
}

/// Whether a program that was given as a path is there.
fn is_file(spec: &CommandSpec, program: &str) -> bool {
    program.contains('/') && spec.cwd.as_deref().unwrap_or(Path::new("")).join(program).is_file()
}
