//! The store of opencode: one SQLite database with a row for each session, message and part, whose content is JSON. What
//! this program does not know of it stays as it is.

mod change;
mod database;
mod scan;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::Backup;

use crate::error::SanitizeError;
use crate::format::{Format, Store};
use crate::orphan::Scan;
use crate::plan::Plan;
use crate::users;

/// The store of opencode.
#[derive(Debug, Clone, Copy)]
pub struct OpenCode;

impl Format for OpenCode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn places(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Vec<PathBuf>, SanitizeError> {
        let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let absolute = |name| path(name).filter(|path| path.is_absolute());
        let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
        let data = data.map(|data| data.join("opencode"));
        if let Some(named) = path(VARIABLE) {
            // It is in memory alone then, and leaves nothing.
            if named.as_os_str() == ":memory:" {
                return Ok(Vec::new());
            }
            let is_known = data.is_some() || named.is_absolute();
            // Joining leaves a path that is absolute as it is.
            let path = data.unwrap_or_default().join(named);
            return match is_known && path.is_file() {
                true => Ok(vec![path]),
                false => Err(SanitizeError::NotThere { path, variable: VARIABLE }),
            };
        }
        // A build of another channel than the released ones has a name of its own.
        let there = data.iter().filter_map(|data| fs::read_dir(data).ok()).flatten().flatten();
        let is_one = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            path.is_file() && is_name(&name)
        };
        let mut places: Vec<PathBuf> = there.map(|entry| entry.path()).filter(is_one).collect();
        places.sort();
        Ok(places)
    }

    fn is_one(&self, path: &Path) -> Result<bool, SanitizeError> {
        database::is_one(path)
    }

    fn user(&self, path: &Path) -> Option<String> {
        users::of(&database::files(path))
    }

    fn scan(&self, path: &Path) -> Result<Scan, SanitizeError> {
        database::read(path, |connection| {
            let version = database::version(connection, path)?;
            scan::scan(connection, path, version)
        })
    }

    fn open(&self, path: &Path, force: bool) -> Result<Box<dyn Store>, SanitizeError> {
        if let (false, Some(user)) = (force, self.user(path)) {
            return Err(SanitizeError::InUse { path: path.to_owned(), user: Some(user) });
        }
        let connection = database::open_to_write(path, force)?;
        Ok(Box::new(Opened { connection, path: path.to_owned() }))
    }
}

/// What names the database, where somebody wants it elsewhere.
const VARIABLE: &str = "OPENCODE_DB";

fn is_name(name: &str) -> bool {
    name == "opencode.db" || (name.starts_with("opencode-") && name.ends_with(".db"))
}

/// A database that is open to be changed.
struct Opened {
    connection: Connection,
    path: PathBuf,
}

impl Opened {
    fn sql(&self, error: &rusqlite::Error) -> SanitizeError {
        SanitizeError::sql(&self.path, error)
    }

    fn run(&self, words: &str) -> Result<(), SanitizeError> {
        self.connection.execute_batch(words).map_err(|error| self.sql(&error))
    }
}

impl Store for Opened {
    fn scan(&self) -> Result<Scan, SanitizeError> {
        let version = database::version(&self.connection, &self.path)?;
        scan::scan(&self.connection, &self.path, version)
    }

    fn copy(&self, to: &Path) -> Result<(), SanitizeError> {
        let copy = || {
            let mut copy = Connection::open(to)?;
            let backup = Backup::new(&self.connection, &mut copy)?;
            backup.step(-1)
        };
        match copy() {
            Ok(rusqlite::backup::StepResult::Done) => Ok(()),
            Ok(_) => Err(SanitizeError::Busy(self.path.clone())),
            Err(error) => Err(SanitizeError::sql(to, &error)),
        }
    }

    fn begin(&self) -> Result<(), SanitizeError> {
        self.run("BEGIN IMMEDIATE")
    }

    fn apply(&self, plan: &Plan) -> Result<(), SanitizeError> {
        for fix in &plan.fixes {
            for change in change::of(&self.connection, &self.path, fix)? {
                change.make(&self.connection).map_err(|error| self.sql(&error))?;
            }
        }
        Ok(())
    }

    fn take_back(&self, copy: &Path, plan: &Plan) -> Result<(usize, usize), SanitizeError> {
        database::read(copy, |before| {
            let (mut restored, mut kept) = (0, 0);
            for fix in &plan.fixes {
                // Parts go before the message that they are of.
                for change in change::of(before, copy, fix)?.iter().rev() {
                    match change.take_back(&self.connection).map_err(|error| self.sql(&error))? {
                        change::TakenBack::Restored => restored += 1,
                        change::TakenBack::Changed => kept += 1,
                        change::TakenBack::NeverMade => {}
                    }
                }
            }
            Ok((restored, kept))
        })
    }

    fn commit(&self) -> Result<(), SanitizeError> {
        self.run("COMMIT")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_where_the_variables_say() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join(".local/share/opencode");
        fs::create_dir_all(&data).unwrap();
        for name in
            ["opencode.db", "opencode-dev.db", "opencode.db-wal", "opencode.db.fanin-backup-1", "x.db"]
        {
            fs::write(data.join(name), "x").unwrap();
        }
        let places = |set: &[(&str, OsString)]| {
            let set = set.to_vec();
            OpenCode.places(&move |name| set.iter().find(|(known, _)| *known == name).map(|(_, v)| v.clone()))
        };
        let found = |set: &[(&str, OsString)]| places(set).unwrap();
        let home_is = ("HOME", home.path().as_os_str().to_owned());
        assert_eq!(
            found(std::slice::from_ref(&home_is)),
            [data.join("opencode-dev.db"), data.join("opencode.db")]
        );
        assert_eq!(found(&[("XDG_DATA_HOME", home.path().join(".local/share").into())]).len(), 2);
        assert_eq!(found(&[home_is.clone(), ("OPENCODE_DB", "x.db".into())]), [data.join("x.db")]);
        assert!(found(&[home_is.clone(), ("OPENCODE_DB", ":memory:".into())]).is_empty());
        assert!(found(&[]).is_empty());
        for (named, path) in [
            ("/nowhere/at/all.db".into(), PathBuf::from("/nowhere/at/all.db")),
            ("y.db".into(), data.join("y.db")),
            (data.clone().into(), data),
        ] {
            let error = places(&[home_is.clone(), ("OPENCODE_DB", named)]).unwrap_err();
            let said = format!("there is no store at {}, which $OPENCODE_DB names", path.display());
            assert_eq!((error.code(), error.to_string()), ("sanitize_not_there", said));
        }
    }
}
