//! What a kind of store has to say for itself: what is open in it, and how a change is written. What is right is not its
//! business.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::SanitizeError;
use crate::orphan::Scan;
use crate::plan::Plan;

/// A kind of store.
pub trait Format {
    /// What people call it.
    fn name(&self) -> &'static str;

    /// Where such stores lie on this machine; `variable` looks a variable up. Only what is there is listed.
    ///
    /// # Errors
    ///
    /// [`SanitizeError::NotThere`], where a variable names a file and none is there.
    fn places(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Vec<PathBuf>, SanitizeError>;

    /// True where this is one, of whatever version.
    ///
    /// # Errors
    ///
    /// [`SanitizeError`], where it cannot be told.
    fn is_one(&self, path: &Path) -> Result<bool, SanitizeError>;

    /// Who has it open, in words, as far as that can be seen.
    fn user(&self, path: &Path) -> Option<String>;

    /// All that is open in it. It changes nothing, and works beside a process that writes.
    ///
    /// # Errors
    ///
    /// [`SanitizeError`], where it cannot be read or is of a version that is not known.
    fn scan(&self, path: &Path) -> Result<Scan, SanitizeError>;

    /// Opens it to be changed. Without `force` nobody else has it open, and nobody can while this lives.
    ///
    /// # Errors
    ///
    /// [`SanitizeError`], where it must not be changed.
    fn open(&self, path: &Path, force: bool) -> Result<Box<dyn Store>, SanitizeError>;
}

/// A store that can be changed.
pub trait Store {
    /// All that is open in it, within the changes that were made.
    ///
    /// # Errors
    ///
    /// [`SanitizeError`].
    fn scan(&self) -> Result<Scan, SanitizeError>;

    /// Copies it as it is to a file that is not there yet, and brings that to disk.
    ///
    /// # Errors
    ///
    /// [`SanitizeError`].
    fn copy(&self, to: &Path) -> Result<(), SanitizeError>;

    /// Begins changes that become visible together, or not at all.
    ///
    /// # Errors
    ///
    /// [`SanitizeError`].
    fn begin(&self) -> Result<(), SanitizeError>;

    /// Makes the changes of a plan.
    ///
    /// # Errors
    ///
    /// [`SanitizeError`].
    fn apply(&self, plan: &Plan) -> Result<(), SanitizeError>;

    /// Takes the changes of a plan back, by the copy from before it: what is still as the plan left it becomes what it
    /// was; what was changed since stays. How many there were of both.
    ///
    /// # Errors
    ///
    /// [`SanitizeError`].
    fn take_back(&self, copy: &Path, plan: &Plan) -> Result<(usize, usize), SanitizeError>;

    /// Keeps what was changed. A store that is dropped without it is as it was.
    ///
    /// # Errors
    ///
    /// [`SanitizeError`].
    fn commit(&self) -> Result<(), SanitizeError>;
}
