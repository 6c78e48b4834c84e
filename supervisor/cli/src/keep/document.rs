//! The documents in the folder of a run: `fanin.plan/1`, and what is read of `fanin.result/1`. It knows their form, and no
//! file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use fanin_protocol::{GroupId, ResultEntry, text};
use serde::{Deserialize, Serialize};

use crate::plan;

/// The number grows only when a field changes its meaning or goes.
const VERSION: u32 = 1;

/// A plan as it is kept.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan<'p> {
    schema: Cow<'p, str>,
    pub(super) group: Cow<'p, GroupId>,
    pub(super) kept_at_ms: u64,
    /// Where tasks run that say nothing else, and where relative folders begin.
    pub(super) started_in: Cow<'p, Path>,
    #[serde(flatten)]
    pub(super) plan: Cow<'p, plan::Plan>,
}

impl<'p> Plan<'p> {
    pub(super) fn new(
        group: &'p GroupId,
        plan: &'p plan::Plan,
        started_in: &'p Path,
        kept_at_ms: u64,
    ) -> Self {
        Self {
            schema: format!("fanin.plan/{VERSION}").into(),
            group: Cow::Borrowed(group),
            kept_at_ms,
            started_in: Cow::Borrowed(started_in),
            plan: Cow::Borrowed(plan),
        }
    }
}

/// What is read of a kept result.
#[derive(Debug, Deserialize)]
pub(super) struct Result {
    pub(super) entries: Vec<ResultEntry>,
    pub(super) tasks: Vec<TaskOf>,
}

/// What a result says of a task beside its entry.
#[derive(Debug, Deserialize)]
pub(super) struct TaskOf {
    pub(super) index: u32,
    #[serde(default)]
    pub(super) carried_from: Option<GroupId>,
}

/// Why a document cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DocumentError {
    /// Somebody newer wrote it.
    #[error("{path} was written by a newer fanin ({schema}; this one reads up to {kind}/{VERSION})", path = text::path(.path))]
    Newer {
        /// The file.
        path: PathBuf,
        /// What it says it is.
        schema: String,
        /// What was expected.
        kind: &'static str,
    },
    /// It is something else.
    #[error("{path} is no {kind} document: {problem}", path = text::path(.path))]
    Broken {
        /// The file.
        path: PathBuf,
        /// What was expected.
        kind: &'static str,
        /// What is wrong.
        problem: String,
    },
}

/// Reads a document of this kind from the bytes of `path`.
///
/// # Errors
///
/// [`DocumentError`]; a newer one is told from a broken one, whatever else is in it.
pub(super) fn read<T: for<'d> Deserialize<'d>>(
    path: &Path,
    kind: &'static str,
    bytes: &[u8],
) -> std::result::Result<T, DocumentError> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let broken = |problem: String| DocumentError::Broken { path: path.to_owned(), kind, problem };
    let head: Head = serde_json::from_slice(bytes).map_err(|error| broken(error.to_string()))?;
    let number = head.schema.strip_prefix(kind).and_then(|rest| rest.strip_prefix('/')?.parse::<u32>().ok());
    match number {
        Some(1..=VERSION) => serde_json::from_slice(bytes).map_err(|error| broken(error.to_string())),
        Some(number) if number > VERSION => {
            Err(DocumentError::Newer { path: path.to_owned(), schema: head.schema, kind })
        }
        Some(_) | None => Err(broken(format!("it says that it is {:?}", head.schema))),
    }
}
