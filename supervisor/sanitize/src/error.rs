//! Why a store was not looked at, or not repaired. Whatever it is, the store is as it was.

use std::path::{Path, PathBuf};

use fanin_protocol::text;

/// Why a store was not looked at, or not repaired. It is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SanitizeError {
    /// Nothing is there.
    #[error("there is no store at {}", text::path(.0))]
    None(PathBuf),
    /// Nothing is where a variable says.
    #[error("there is no store at {path}, which ${variable} names", path = text::path(.path))]
    NotThere {
        /// Where.
        path: PathBuf,
        /// The variable.
        variable: &'static str,
    },
    /// A file without content.
    #[error("{} is empty", text::path(.0))]
    Empty(PathBuf),
    /// It is none of the formats that are known.
    #[error("{path} is no store that is known; known are {known}", path = text::path(.path))]
    Unknown {
        /// Where.
        path: PathBuf,
        /// The formats.
        known: String,
    },
    /// It is of a version that this program does not know.
    #[error("{path} is of version {found}; known are {known}", path = text::path(.path), found = text::one_line(.found))]
    Version {
        /// Where.
        path: PathBuf,
        /// Its version.
        found: String,
        /// Those that are known.
        known: String,
    },
    /// It cannot be read as what it is.
    #[error("{path} is damaged: {damage}", path = text::path(.path), damage = text::one_line(.damage))]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        damage: String,
    },
    /// A process has it open.
    #[error("{path} is in use{}; end that first, or give --force", by(.user.as_deref()), path = text::path(.path))]
    InUse {
        /// Where.
        path: PathBuf,
        /// Who that is, where it can be told.
        user: Option<String>,
    },
    /// A process is in the middle of a change of it, and holds it against everybody else.
    #[error("{} is being written by another process; wait until it is done, or end it, and try again", text::path(.0))]
    Busy(PathBuf),
    /// It must not be written.
    #[error("{path} cannot be written: {problem}", path = text::path(.path))]
    ReadOnly {
        /// Where.
        path: PathBuf,
        /// What is in the way.
        problem: String,
    },
    /// It is repaired by somebody else's hand.
    #[error("{path} is not repaired here: {how}", path = text::path(.path))]
    Elsewhere {
        /// Where.
        path: PathBuf,
        /// Who does it.
        how: String,
    },
    /// There is no such session in it.
    #[error("{path} has no session {session}", path = text::path(.path), session = text::one_line(.session))]
    NoSession {
        /// Where.
        path: PathBuf,
        /// What was asked for.
        session: String,
    },
    /// There is no backup of a repair to be put back.
    #[error("there is no backup of {} beside it", text::path(.0))]
    NoBackup(PathBuf),
    /// It was written by somebody else meanwhile.
    #[error("{} was changed while it was looked at", text::path(.0))]
    Changed(PathBuf),
    /// What a repair should have closed is still open.
    #[error("{path} would still have {left} open after the repair, so it was taken back", path = text::path(.path))]
    NotRepaired {
        /// Where.
        path: PathBuf,
        /// How many.
        left: usize,
    },
    /// The system refused.
    #[error("{path}: {problem}", path = text::path(.path))]
    Io {
        /// Where.
        path: PathBuf,
        /// What it said.
        problem: String,
    },
}

fn by(user: Option<&str>) -> String {
    user.map(|user| format!(" by {}", text::one_line(user))).unwrap_or_default()
}

impl SanitizeError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::None(_) => "sanitize_none",
            Self::NotThere { .. } => "sanitize_not_there",
            Self::Empty(_) => "sanitize_empty",
            Self::Unknown { .. } => "sanitize_unknown",
            Self::Version { .. } => "sanitize_version",
            Self::Damaged { .. } => "sanitize_damaged",
            Self::InUse { .. } => "sanitize_in_use",
            Self::Busy(_) => "sanitize_busy",
            Self::ReadOnly { .. } => "sanitize_read_only",
            Self::Elsewhere { .. } => "sanitize_elsewhere",
            Self::NoSession { .. } => "sanitize_no_session",
            Self::NoBackup(_) => "sanitize_no_backup",
            Self::Changed(_) => "sanitize_changed",
            Self::NotRepaired { .. } => "sanitize_not_repaired",
            Self::Io { .. } => "sanitize_io",
        }
    }

    pub(crate) fn damaged(path: &Path, damage: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), damage: damage.into() }
    }

    /// An error of a file.
    pub(crate) fn io(path: &Path, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::None(path.to_owned()),
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { path: path.to_owned(), problem: error.to_string() }
            }
            _ => Self::Io { path: path.to_owned(), problem: error.to_string() },
        }
    }

    /// An error of a database.
    pub(crate) fn sql(path: &Path, error: &rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseBusy, DatabaseCorrupt, DatabaseLocked, NotADatabase, PermissionDenied,
            ReadOnly,
        };
        let (path, problem) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(DatabaseBusy | DatabaseLocked) => Self::Busy(path),
            Some(DatabaseCorrupt | NotADatabase) => Self::Damaged { path, damage: problem },
            Some(CannotOpen | PermissionDenied | ReadOnly) => Self::ReadOnly { path, problem },
            // What has no code of SQLite is a value of another type than its column's.
            None => Self::Damaged { path, damage: problem },
            Some(_) => Self::Io { path, problem },
        }
    }
}
