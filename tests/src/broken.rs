//! A promise that was not kept, by the id of its rule.

use std::fmt;

/// What went wrong, and which rule says that it must not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The rule: `G5`, `BAR-10`.
    pub rule: &'static str,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is broken: {}", self.rule, self.what)
    }
}

impl std::error::Error for Broken {}

/// Whether a check held.
pub type Kept = Result<(), Broken>;

/// The check itself; the words are made only where it fails.
pub(crate) fn ensure(holds: bool, rule: &'static str, what: impl FnOnce() -> String) -> Kept {
    if holds { Ok(()) } else { Err(Broken { rule, what: what() }) }
}

/// What must be there, or the rule is broken.
pub(crate) fn some<T>(
    value: Option<T>,
    rule: &'static str,
    what: impl FnOnce() -> String,
) -> Result<T, Broken> {
    value.ok_or_else(|| Broken { rule, what: what() })
}
