//! Content that is stored but never shown by accident: prompts, command lines, outputs (SEC-6, B-10).

use std::fmt;

use serde::{Deserialize, Serialize};

/// A value that `Debug`, logs and events leave out.
///
/// The journal's encoding keeps it whole; [`Record::redacted`](crate::Record::redacted) empties it before an
/// event leaves the process. Reading it is the explicit call [`Private::reveal`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Private<T>(Option<T>);

// Not derived: a hidden value asks nothing of `T`.
impl<T> Default for Private<T> {
    fn default() -> Self {
        Self::hidden()
    }
}

impl<T> Private<T> {
    /// Keeps a value out of sight.
    pub const fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// No value, or one that was taken out before it was passed on.
    pub const fn hidden() -> Self {
        Self(None)
    }

    /// The value, or nothing.
    pub const fn of(value: Option<T>) -> Self {
        Self(value)
    }

    /// True where there is nothing to show.
    pub const fn is_hidden(&self) -> bool {
        self.0.is_none()
    }

    /// The value, for the one who is entitled to it.
    pub const fn reveal(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl<T> fmt::Debug for Private<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "<private>" } else { "<hidden>" })
    }
}
