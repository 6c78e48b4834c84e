//! Files that are there whole or not at all. Nobody ever reads half of one, whatever ends the program.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Puts a file in place of what is at `path`, in one step. It has at most `bytes_max` bytes; `mode` is its permissions,
/// less what the system takes away.
///
/// A link stays one, and what is no plain file, a pipe for one, is written into.
///
/// # Errors
///
/// The system's, or `write`'s; then what was at `path` is as it was. [`io::ErrorKind::FileTooLarge`] beyond `bytes_max`.
pub(crate) fn replace(
    path: &Path,
    mode: u32,
    bytes_max: u64,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let (place, part) = match Place::of(path)? {
        Place::Plain { place, part } => (place, part),
        Place::Stream => return fill(OpenOptions::new().write(true).open(path)?, bytes_max, write).map(drop),
    };
    let written = begin(&part, mode)
        .and_then(|file| fill(file, bytes_max, write)?.sync_all())
        .and_then(|()| fs::rename(&part, &place));
    if written.is_err() {
        // The first error is told; a part that stays is taken away by whoever writes there next.
        let _ = fs::remove_file(&part);
    }
    written
}

/// Finds out whether [`replace`] could write at `path`, without changing what is there.
///
/// # Errors
///
/// The system's reason why not.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    match Place::of(path)? {
        Place::Plain { part, .. } => {
            begin(&part, 0o600)?;
            fs::remove_file(&part)
        }
        // To open a pipe would wait for its reader.
        Place::Stream => Ok(()),
    }
}

/// What is at a path.
enum Place {
    /// A plain file or nothing: where it is, and where its successor is written first.
    Plain { place: PathBuf, part: PathBuf },
    /// Something that is written into.
    Stream,
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        let place = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => return Ok(Self::Stream),
            Ok(_) => fs::canonicalize(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(error),
        };
        let name = place.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let part = place.with_file_name(hidden);
        Ok(Self::Plain { place, part })
    }
}

/// Makes the part, in place of one that an earlier process of our number may have left.
fn begin(part: &Path, mode: u32) -> io::Result<File> {
    let make = || OpenOptions::new().write(true).create_new(true).mode(mode).open(part);
    match make() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(part)?;
            make()
        }
        made => made,
    }
}

fn fill(
    file: File,
    bytes_max: u64,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<File> {
    let mut out = BufWriter::new(Bounded { out: file, left: bytes_max });
    write(&mut out)?;
    Ok(out.into_inner().map_err(io::IntoInnerError::into_error)?.out)
}

/// A writer that takes so much and no more.
struct Bounded {
    out: File,
    left: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let written = self.out.write(bytes)?;
        self.left = self.left.saturating_sub(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tempfile::tempdir;

    fn put(path: &Path, text: &str) -> io::Result<()> {
        replace(path, 0o600, 8, |out| out.write_all(text.as_bytes()))
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("a");
        put(&path, "one").unwrap();
        put(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn what_fails_or_is_too_long_leaves_the_old_file() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("a");
        put(&path, "old").unwrap();
        assert_eq!(put(&path, "nine bytes").unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let failed = replace(&path, 0o600, 8, |out| {
            out.write_all(b"new")?;
            Err(io::Error::other("the writer's own"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_link_stays_a_link_and_a_device_is_written_into() {
        let folder = tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("b"));
        put(&path, "old").unwrap();
        symlink("a", &link).unwrap();
        put(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        put(Path::new("/dev/null"), "gone").unwrap();
    }

    #[test]
    fn a_place_that_takes_no_file_is_found_out_beforehand() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("a");
        check(&path).unwrap();
        assert!(names(folder.path()).is_empty());
        assert_eq!(check(folder.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(check(&path.join("b")).unwrap_err().kind(), io::ErrorKind::NotFound);
        put(&path, "a file").unwrap();
        assert_eq!(check(&path.join("b")).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    }
}
