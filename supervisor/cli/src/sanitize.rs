//! `fanin sanitize`: what crashes left open in the transcripts of agents. It reports; what is changed is changed by
//! `fanin-sanitize`, and only where a person says so.

mod ours;
mod shown;

use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use fanin_protocol::text;
use fanin_sanitize::{
    Codex, Counts, Format, Only, OpenCode, Options, SanitizeError, Scan, Undone, repair, report, undo,
};

use crate::exit::Exit;
use crate::prepare;
use crate::stores::LookError;

use ours::Ours;

/// The kinds that are known.
const FORMATS: [&dyn Format; 3] = [&OpenCode, &Ours, &Codex];

/// The words of `fanin sanitize`.
#[derive(Debug, clap::Args)]
pub(crate) struct SanitizeArgs {
    /// A store: the database of opencode, a rollout of Codex, or the folder of a run [default: all that are where they are made]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,

    /// Only this session and those of its subagents
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Close what is open, with a backup beside the store [default: only report]
    #[arg(long)]
    write: bool,

    /// Take the last repair of a store back
    #[arg(long, requires = "path", conflicts_with_all = ["write", "session"])]
    undo: bool,

    /// Also where a process has the store open: what it is about to write may be lost
    #[arg(long)]
    force: bool,

    /// One JSON document (fanin.sanitize/1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// What came of a store.
struct Outcome {
    format: &'static str,
    path: PathBuf,
    user: Option<String>,
    done: Result<Done, SanitizeError>,
}

/// What was done.
enum Done {
    /// It was looked at.
    Reported(Scan),
    /// It was repaired; without a backup there was nothing to repair.
    Repaired { before: Scan, after: Counts, backup: Option<PathBuf> },
    /// A repair was taken back.
    Undone(Undone),
}

impl Outcome {
    /// What is still open.
    fn left(&self) -> usize {
        match &self.done {
            Ok(Done::Reported(scan)) => scan.counts().total(),
            Ok(Done::Repaired { after, .. }) => after.total(),
            Ok(Done::Undone(_)) | Err(_) => 0,
        }
    }
}

/// Looks at stores, repairs them, or takes a repair back.
///
/// # Errors
///
/// [`LookError`], where the store that was named cannot be used, or none is where a variable says. Of several, one that
/// cannot be is shown among the others, and makes the exit code.
pub(crate) fn run(args: &SanitizeArgs, out: &mut dyn Write, warn: &dyn Fn(&str)) -> Result<Exit, LookError> {
    let stores = match &args.path {
        Some(path) => vec![named(path)?],
        None => known(&|name| env::var_os(name))?,
    };
    let is_named = args.path.is_some();
    let mut outcomes = Vec::new();
    for (format, path) in stores {
        if args.force
            && let Some(user) = format.user(&path)
        {
            warn(&format!("{} is in use: {user}; what it writes meanwhile can be lost", text::path(&path)));
        }
        let outcome = handle(args, format, path);
        match outcome.done {
            Err(error) if is_named => return Err(error.into()),
            // A session is in one store; the others do not have it.
            Err(SanitizeError::NoSession { .. }) => {}
            Ok(_) | Err(_) => outcomes.push(outcome),
        }
    }
    if let (Some(session), true) = (&args.session, outcomes.is_empty()) {
        return Err(LookError::NotFound(text::one_line(session)));
    }
    if args.json {
        shown::document(out, &outcomes)?
    } else {
        shown::text(out, &outcomes)?
    }
    Ok(exit(&outcomes))
}

fn exit(outcomes: &[Outcome]) -> Exit {
    let failed = outcomes.iter().filter_map(|outcome| outcome.done.as_ref().err()).map(of_error);
    let worst = failed.max_by_key(|exit| exit.code());
    let left = outcomes.iter().any(|outcome| outcome.left() > 0);
    worst.unwrap_or(if left { Exit::SomeNotCompleted } else { Exit::Done })
}

/// What an error makes of the program's end.
pub(crate) const fn of_error(error: &SanitizeError) -> Exit {
    match error {
        SanitizeError::InUse { .. } | SanitizeError::Busy(_) | SanitizeError::Changed(_) => Exit::Owned,
        SanitizeError::None(_)
        | SanitizeError::NotThere { .. }
        | SanitizeError::Empty(_)
        | SanitizeError::Unknown { .. }
        | SanitizeError::Version { .. }
        | SanitizeError::Elsewhere { .. }
        | SanitizeError::NoSession { .. }
        | SanitizeError::NoBackup(_) => Exit::Usage,
        // Damage, and whatever the system says.
        _ => Exit::Internal,
    }
}

/// The store at a path, with what it is.
fn named(path: &Path) -> Result<(&'static dyn Format, PathBuf), SanitizeError> {
    // A backup is to lie beside the file itself, also where a link leads to it.
    let path = path.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => SanitizeError::None(path.to_owned()),
        _ => SanitizeError::Io { path: path.to_owned(), problem: error.to_string() },
    })?;
    for format in FORMATS {
        if format.is_one(&path)? {
            return Ok((format, path));
        }
    }
    let known = FORMATS.map(Format::name).join(", ");
    Err(SanitizeError::Unknown { path, known })
}

/// All stores that lie where they are made.
fn known(
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Vec<(&'static dyn Format, PathBuf)>, SanitizeError> {
    let mut stores = Vec::new();
    for format in FORMATS {
        stores.extend(format.places(variable)?.into_iter().map(|path| (format, path)));
    }
    Ok(stores)
}

fn handle(args: &SanitizeArgs, format: &'static dyn Format, path: PathBuf) -> Outcome {
    let user = format.user(&path);
    let only = args.session.as_deref().map_or(Only::All, Only::Session);
    let done = if args.undo {
        undo(format, &path, args.force).map(Done::Undone)
    } else if args.write {
        let options = Options { only, force: args.force, now_ms: prepare::now_ms() };
        let repaired = repair(format, &path, &options);
        repaired.map(|done| Done::Repaired { before: done.before, after: done.after, backup: done.backup })
    } else {
        report(format, &path, &only).map(Done::Reported)
    };
    Outcome { format: format.name(), path, user, done }
}
