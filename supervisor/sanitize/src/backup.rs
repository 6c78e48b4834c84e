//! The copy of a store that a repair leaves beside it, so that it can be taken back. Its name has the time of the repair,
//! from which the plan of that repair can be made again.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::SanitizeError;
use crate::format::Store;

/// Between the store's name and the time, in milliseconds since 1970.
const MARK: &str = ".fanin-backup-";
/// The same, once the repair was taken back.
const UNDONE: &str = ".fanin-undone-";
/// Behind the name while it is written.
const PART: &str = ".part";

/// The first time from `now_ms` on that no backup has.
pub(crate) fn free(path: &Path, now_ms: u64) -> u64 {
    (now_ms..).find(|at| !name(path, MARK, *at).exists()).unwrap_or(now_ms)
}

/// Copies a store, for its owner's eyes alone. What a killed one has left half written goes.
pub(crate) fn make(store: &dyn Store, path: &Path, at_ms: u64) -> Result<PathBuf, SanitizeError> {
    let to = name(path, MARK, at_ms);
    let io = |error: std::io::Error| SanitizeError::io(&to, &error);
    for (_, half) in beside(path, &format!("{MARK}*{PART}"))? {
        fs::remove_file(half).map_err(io)?;
    }
    let mut half = to.clone().into_os_string();
    half.push(PART);
    let half = PathBuf::from(half);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&half).map_err(io);
    let copied = made.and_then(|_| {
        store.copy(&half)?;
        File::open(&half).and_then(|file| file.sync_all()).map_err(io)?;
        fs::rename(&half, &to).map_err(io)?;
        sync_folder(&to).map_err(io)
    });
    if let Err(error) = copied {
        // The first error is told; the next backup takes what is left away.
        let _ = fs::remove_file(&half);
        return Err(error);
    }
    Ok(to)
}

/// The backups of a store, the newest first.
pub(crate) fn list(path: &Path) -> Result<Vec<(u64, PathBuf)>, SanitizeError> {
    let mut found = beside(path, MARK)?;
    found.sort_by(|a, b| b.cmp(a));
    Ok(found)
}

/// Gives a backup that was put back another name, so that it is not found again.
pub(crate) fn retire(path: &Path, backup: &Path, at_ms: u64) -> Result<PathBuf, SanitizeError> {
    let to = name(path, UNDONE, at_ms);
    let io = |error: std::io::Error| SanitizeError::io(backup, &error);
    fs::rename(backup, &to).map_err(io)?;
    sync_folder(&to).map_err(io)?;
    Ok(to)
}

fn name(path: &Path, mark: &str, at_ms: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("{mark}{at_ms}"));
    PathBuf::from(name)
}

/// What lies beside a store under its name, the mark and a time. In the mark `*` stands for the time; else it is behind.
fn beside(path: &Path, mark: &str) -> Result<Vec<(u64, PathBuf)>, SanitizeError> {
    let (mark, end) = mark.split_once('*').unwrap_or((mark, ""));
    let mut start: OsString = path.file_name().unwrap_or_default().to_owned();
    start.push(mark);
    let folder = folder(path);
    let entries = fs::read_dir(folder).map_err(|error| SanitizeError::io(folder, &error))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| SanitizeError::io(folder, &error))?;
        let (name, start) = (entry.file_name(), start.as_encoded_bytes());
        let time =
            name.as_encoded_bytes().strip_prefix(start).and_then(|rest| rest.strip_suffix(end.as_bytes()));
        if let Some(at_ms) = time.and_then(|time| std::str::from_utf8(time).ok()?.parse().ok()) {
            found.push((at_ms, entry.path()));
        }
    }
    Ok(found)
}

/// The folder that a file lies in.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// Brings to disk which files are there.
pub(crate) fn sync_folder(of: &Path) -> std::io::Result<()> {
    File::open(folder(of))?.sync_all()
}
