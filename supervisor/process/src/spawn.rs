//! A command line as the system takes it, or the exact reason why it cannot be started. It adds no code to a child:
//! any would turn the fast spawn of the system into a copy of our whole memory.

use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::path::Path;

use fanin_protocol::limits::MESSAGE_BYTES_MAX;
use fanin_protocol::{Code, CommandLine, CommandSpec, text};

/// The shell of a shell line.
const SHELL: &str = "/bin/sh";

/// Why nothing was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotStarted {
    /// A missing program, a bad working folder, a refusal, and other reasons of the system, told apart.
    pub code: Code,
    /// In words, fit after "failed: ".
    pub message: String,
    /// Nothing of it has run, so that another try cannot do anything twice.
    pub is_safe: bool,
}

impl NotStarted {
    pub(crate) fn new(code: Code, message: &str) -> Self {
        Self { code, message: text::cut(message, MESSAGE_BYTES_MAX).to_owned(), is_safe: true }
    }

    /// Something of it may have run before it was given up.
    pub(crate) fn after_start(self) -> Self {
        Self { is_safe: false, ..self }
    }
}

/// A reason of the system, with what it kept from being done.
pub(crate) fn failed(what: impl Display) -> impl FnOnce(io::Error) -> NotStarted {
    move |error| NotStarted::new(Code::Os, &format!("{what}: {error}"))
}

/// Program and arguments.
pub(crate) fn words(spec: &CommandSpec) -> (&str, Vec<OsString>) {
    match &spec.line {
        CommandLine::Shell(line) => (SHELL, vec!["-c".into(), line.into()]),
        CommandLine::Argv(argv) => {
            let program = argv.first().map(String::as_str).unwrap_or_default();
            (program, argv.iter().skip(1).map(OsString::from).collect())
        }
    }
}

/// Why the system did not start it. "Not found" and "denied" are said of the folder and of the program alike, so
/// the folder is looked at first.
pub(crate) fn explain(spec: &CommandSpec, error: &io::Error) -> NotStarted {
    let (program, _) = words(spec);
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
    NotStarted::new(code, &message)
}

/// What is wrong with a working folder; `None` where a process may work in it.
fn explain_folder(folder: &Path) -> Option<NotStarted> {
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
    Some(NotStarted::new(code, &message))
}

/// Whether a program that was given as a path is there.
fn is_file(spec: &CommandSpec, program: &str) -> bool {
    program.contains('/') && spec.cwd.as_deref().unwrap_or(Path::new("")).join(program).is_file()
}
