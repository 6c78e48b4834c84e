//! Finding what a person means by the start of an id.

use std::fmt;

use fanin_machine::{Named, State};
use fanin_protocol::limits::{ID_BYTES_MAX, ID_PREFIX_DIGITS_MIN, REASON_IDS_MAX};
use fanin_protocol::text;

use crate::core::CallError;
use crate::supervisor::Supervisor;

/// Why the start of an id names nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// It is no id that is known, and too little of one.
    #[error(
        "`{0}` is no id; write `job_`, `ses_` or `grp_` and {ID_PREFIX_DIGITS_MIN} or more of its hex digits"
    )]
    NoPrefix(String),
    /// Nothing has an id that begins so.
    #[error("no id begins with `{0}`")]
    Unknown(String),
    /// Several ids begin so.
    #[error("`{start}` stands for {count}: {candidates}; write more of it")]
    Ambiguous {
        /// What was asked for.
        start: String,
        /// How many it could be.
        count: usize,
        /// The first of them.
        candidates: Candidates,
    },
    /// The supervisor could not be asked.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl FindError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoPrefix(_) => "bad_prefix",
            Self::Unknown(_) => "unknown_id",
            Self::Ambiguous { .. } => "ambiguous_id",
            Self::Call(error) => error.code(),
        }
    }
}

/// The first of what a start of an id could mean, [`REASON_IDS_MAX`] at the most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidates(pub Vec<Named>);

impl fmt::Display for Candidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.0.iter().map(Named::to_string).collect();
        f.write_str(&shown.join(", "))
    }
}

/// What begins so: how many, and the first of them.
#[derive(Default)]
struct Matches {
    count: usize,
    first: Vec<Named>,
}

impl Matches {
    fn push(&mut self, named: Named) {
        self.count += 1;
        if self.first.len() < REASON_IDS_MAX {
            self.first.push(named);
        }
    }
}

impl Supervisor {
    /// Finds a session, a job or a group by its id, or by the start of one: `job_`, `ses_` or `grp_` and at least
    /// [`ID_PREFIX_DIGITS_MIN`] hex digits (C-7). A whole id is found also where others begin with it.
    ///
    /// # Errors
    ///
    /// [`FindError`] where that is nothing, or more than one thing: which of them is meant is never guessed.
    pub fn find(&self, start: &str) -> Result<Named, FindError> {
        check(start)?;
        let named = self.owner.core().look(|state| matches(state, start))?;
        pick(start, named)
    }
}

/// As [`Supervisor::find`], in a state that is at hand.
pub(crate) fn find_in(state: &State, start: &str) -> Result<Named, FindError> {
    check(start)?;
    pick(start, matches(state, start))
}

fn shown(start: &str) -> String {
    text::cut(&text::one_line(start), ID_BYTES_MAX).to_owned()
}

/// What can be no id is not looked for.
fn check(start: &str) -> Result<(), FindError> {
    if !is_prefix(start) && (start.is_empty() || start.len() > ID_BYTES_MAX) {
        return Err(FindError::NoPrefix(shown(start)));
    }
    Ok(())
}

/// What has this id, and what only begins so.
fn matches(state: &State, start: &str) -> (Matches, Matches) {
    let (mut whole, mut begun) = (Matches::default(), Matches::default());
    for named in state.named(start) {
        let matches = if is_whole(&named, start) { &mut whole } else { &mut begun };
        matches.push(named);
    }
    (whole, begun)
}

fn pick(start: &str, (whole, begun): (Matches, Matches)) -> Result<Named, FindError> {
    let found = match whole.count {
        0 if !is_prefix(start) => return Err(FindError::NoPrefix(shown(start))),
        0 => begun,
        _ => whole,
    };
    match (found.count, found.first) {
        (0, _) => Err(FindError::Unknown(shown(start))),
        (1, mut one) => one.pop().ok_or_else(|| FindError::Unknown(shown(start))),
        (count, first) => {
            Err(FindError::Ambiguous { start: shown(start), count, candidates: Candidates(first) })
        }
    }
}

/// True for the start of an id that chance gave.
fn is_prefix(start: &str) -> bool {
    let digits = ["job_", "ses_", "grp_"].iter().find_map(|prefix| start.strip_prefix(prefix));
    digits.is_some_and(|digits| {
        digits.len() >= ID_PREFIX_DIGITS_MIN && digits.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
    })
}

fn is_whole(named: &Named, text: &str) -> bool {
    match named {
        Named::Session(id) => id.to_string() == text,
        Named::Job(id) => id.to_string() == text,
        Named::Group(id) => id.to_string() == text,
    }
}
