//! The files that a run leaves behind once it is over, each whole or not at all. A file that cannot be written costs no
//! other file, and never the result.

use std::io;
use std::path::PathBuf;

use crate::file;
use crate::github::{self, GitHub};
use crate::keep::Keep;
use crate::over::Over;
use crate::shown::Shown;
use crate::signals::Signal;
use crate::warning::Warning;

/// Writes the JUnit report, where one was asked for. One that cannot be written changes how the program ends.
///
/// # Errors
///
/// The signal that came while a disk took its time.
pub(crate) async fn junit(
    path: Option<PathBuf>,
    over: &mut Over<'_>,
    shown: &mut Shown<'_>,
) -> Result<Option<Warning>, Signal> {
    let Some(path) = path else { return Ok(None) };
    let (place, text) = (path.clone(), over.junit());
    let write = move || file::replace(&place, 0o666, u64::MAX, |out| out.write_all(&text?));
    let Err(error) = shown.aside(write).await? else { return Ok(None) };
    let warning = Warning::Junit { path, error };
    over.exit = warning.exit(over.exit);
    Ok(Some(warning))
}

/// Keeps the result, where the plan was kept. The run counts as over then, for whoever wants to run it again.
///
/// # Errors
///
/// The signal that came while a disk took its time.
pub(crate) async fn kept(
    keep: Option<Keep>,
    over: &Over<'_>,
    shown: &mut Shown<'_>,
) -> Result<Option<Warning>, Signal> {
    let Some(keep) = keep else { return Ok(None) };
    let (folder, document) = (keep.state(), over.kept());
    let written: io::Result<()> = shown.aside(move || keep.result(&document?)).await?;
    Ok(written.err().map(|error| Warning::Keep { folder, error }))
}

/// Adds the summary to the page of the step, where GitHub gives a place for it.
///
/// # Errors
///
/// The signal that came while a disk took its time.
pub(crate) async fn summary(
    github: Option<&GitHub>,
    over: &Over<'_>,
    shown: &mut Shown<'_>,
) -> Result<Option<Warning>, Signal> {
    let Some(path) = github.and_then(|github| github.summary.clone()) else { return Ok(None) };
    let (place, summary) = (path.clone(), github::summary(over));
    let added = shown.aside(move || summary.append(&place)).await?;
    Ok(added.err().map(|error| Warning::Summary { path, error }))
}
