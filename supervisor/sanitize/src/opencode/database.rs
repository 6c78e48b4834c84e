//! The database of opencode as a file: whether it is one, of which version, and how it is opened so that nothing of it
//! moves. It knows no row.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::SanitizeError;
use crate::users::LOOKS;

/// The versions that are known, each by its newest migration, with a release that has it.
const VERSIONS: &[(&str, &str)] = &[("20260622202450_simplify_session_input", "1.18.33")];

/// What is read and written of each table.
const COLUMNS: &[(&str, &[&str])] = &[
    ("session", &["id", "parent_id", "title", "time_created"]),
    ("message", &["id", "session_id", "time_created", "time_updated", "data"]),
    ("part", &["id", "message_id", "session_id", "time_created", "time_updated", "data"]),
];

/// How every database of SQLite begins.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// The files of a database.
pub(super) fn files(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|end| beside(path, end))
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// True where a file is a database with the tables of opencode.
pub(super) fn is_one(path: &Path) -> Result<bool, SanitizeError> {
    let io = |error: std::io::Error| SanitizeError::io(path, &error);
    let file = File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.is_dir() {
        return Ok(false);
    }
    let mut start = Vec::new();
    file.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(io)?;
    if start.is_empty() {
        return Err(SanitizeError::Empty(path.to_owned()));
    }
    if start != MAGIC {
        return Ok(false);
    }
    read(path, |connection| {
        let query = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('session', 'message', 'part')";
        let found: i64 = connection
            .query_row(query, [], |row| row.get(0))
            .map_err(|error| SanitizeError::sql(path, &error))?;
        Ok(found == 3)
    })
}

/// The version of a database.
///
/// # Errors
///
/// [`SanitizeError::Version`], where it is not one of those that are known.
pub(super) fn version(connection: &Connection, path: &Path) -> Result<String, SanitizeError> {
    let sql = |error| SanitizeError::sql(path, &error);
    let names = |query: &str| -> rusqlite::Result<Vec<String>> {
        connection.prepare(query)?.query_map([], |row| row.get(0))?.collect()
    };
    let unknown = |found: String| {
        let known: Vec<_> =
            VERSIONS.iter().map(|(version, of)| format!("{version} (opencode {of})")).collect();
        SanitizeError::Version { path: path.to_owned(), found, known: known.join(", ") }
    };
    let tables = names("SELECT name FROM sqlite_schema WHERE type = 'table'").map_err(sql)?;
    if !tables.iter().any(|table| table == "migration") {
        return Err(unknown("unknown, without a table of migrations,".to_owned()));
    }
    // Every name begins with the time at which its migration was written.
    let newest = names("SELECT id FROM migration ORDER BY id DESC LIMIT 1").map_err(sql)?.pop();
    let newest = newest.unwrap_or_else(|| "none".to_owned());
    if !VERSIONS.iter().any(|(known, _)| *known == newest) {
        return Err(unknown(newest));
    }
    for (table, columns) in COLUMNS {
        let there = names(&format!("SELECT name FROM pragma_table_info('{table}')")).map_err(sql)?;
        if let Some(missing) = columns.iter().find(|column| !there.iter().any(|name| name == *column)) {
            return Err(unknown(format!("{newest}, but without {table}.{missing},")));
        }
    }
    Ok(newest)
}

/// Reads a database in one transaction, beside whoever has it open. It makes no file where nobody has.
pub(super) fn read<R>(
    path: &Path,
    read: impl Fn(&Connection) -> Result<R, SanitizeError>,
) -> Result<R, SanitizeError> {
    let is_still = is_still(path);
    let found = read_as(path, is_still, &read);
    // Where somebody has opened it meanwhile, it may have moved although it was taken as something that does not.
    if is_still && !self::is_still(path) { read_as(path, false, &read) } else { found }
}

fn read_as<R>(
    path: &Path,
    is_still: bool,
    read: &impl Fn(&Connection) -> Result<R, SanitizeError>,
) -> Result<R, SanitizeError> {
    let found = open_to_read(path, is_still).and_then(|connection| {
        connection.execute_batch("BEGIN").map_err(|error| SanitizeError::sql(path, &error))?;
        read(&connection)
    });
    found.map_err(|error| match error {
        // The file itself can be read; SQLite needs another one for what lies beside it.
        SanitizeError::ReadOnly { path, .. } if !is_still && File::open(&path).is_ok() => {
            let problem = "its write-ahead log is read through a file beside it, and the folder takes none; \
                           copy it elsewhere, with its -wal";
            SanitizeError::ReadOnly { path, problem: problem.to_owned() }
        }
        other => other,
    })
}

/// True where all of a database is in its one file: nothing that was committed, or is to be taken back, lies beside it.
fn is_still(path: &Path) -> bool {
    let has = |end| fs::metadata(beside(path, end)).is_ok_and(|file| file.len() > 0);
    !has("-wal") && !has("-journal") && !beside(path, "-shm").exists()
}

fn open_to_read(path: &Path, is_still: bool) -> Result<Connection, SanitizeError> {
    let sql = |error| SanitizeError::sql(path, &error);
    // SQLite would say of both that it cannot open them.
    File::open(path).map_err(|error| SanitizeError::io(path, &error))?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let immutable = if is_still { "?immutable=1" } else { "" };
    let connection = Connection::open_with_flags(format!("{}{immutable}", uri(path)), flags).map_err(sql)?;
    prepare(&connection).map_err(sql)?;
    Ok(connection)
}

/// The path as SQLite reads it: whatever is in it, it names a file.
fn uri(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(byte);
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if plain(byte) { uri.push(char::from(*byte)) } else { uri.push_str(&format!("%{byte:02x}")) }
    }
    uri
}

/// Opens a database to change it. Without `force` it is locked against everybody until it is closed.
pub(super) fn open_to_write(path: &Path, force: bool) -> Result<Connection, SanitizeError> {
    let sql = |error| SanitizeError::sql(path, &error);
    let read_only =
        |problem: &str| SanitizeError::ReadOnly { path: path.to_owned(), problem: problem.to_owned() };
    // By its mode, since root may write everything: whoever took the right away meant it.
    let mode = fs::metadata(path).map_err(|error| SanitizeError::io(path, &error))?.permissions().mode();
    if mode & 0o222 == 0 {
        return Err(read_only("nobody has the right to"));
    }
    // What is refused must not be touched, and a database that is opened to be written is, by its write-ahead log.
    read(path, |connection| {
        version(connection, path)?;
        let found: String =
            connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(sql)?;
        if found == "ok" { Ok(()) } else { Err(SanitizeError::damaged(path, found)) }
    })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(sql)?;
    prepare(&connection).map_err(sql)?;
    if connection.is_readonly("main").map_err(sql)? {
        return Err(read_only("this user has no right to"));
    }
    connection.pragma_update(None, "synchronous", "FULL").map_err(sql)?;
    connection.pragma_update(None, "fullfsync", true).map_err(sql)?;
    // In KiB: what a large repair changes is then written once, at its commit.
    connection.pragma_update(None, "cache_size", -131_072).map_err(sql)?;
    if !force {
        // Whoever has it open in WAL mode holds a shared lock on it, whatever else can be seen of that process.
        connection.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(())).map_err(sql)?;
        connection.execute_batch("BEGIN EXCLUSIVE; COMMIT").map_err(|error| match sql(error) {
            SanitizeError::Busy(path) => SanitizeError::InUse { path, user: None },
            other => other,
        })?;
    }
    // It is sound and nobody else's: what is in its write-ahead log may go into it when it is closed.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(sql)?;
    Ok(connection)
}

/// Nothing in a file that others have made is run, and nothing of it is written before that is asked for.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.busy_timeout(LOOKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// Where the other process finds the database.
    const DATABASE: &str = "FANIN_TEST_DATABASE";

    /// The other process. Without the variable it is a test that has nothing to do.
    #[test]
    fn has_a_database_open() {
        let Some(path) = std::env::var_os(DATABASE) else { return };
        let connection = Connection::open(path).unwrap();
        connection.query_row("SELECT count(*) FROM migration", [], |row| row.get::<_, i64>(0)).unwrap();
        println!("\nready");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    }

    #[test]
    fn another_process_that_has_it_open_is_found_by_its_lock_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("opencode.db");
        crate::testing::opencode(&path, crate::testing::Sample::Killed).unwrap();
        let mut other = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "opencode::database::tests::has_a_database_open", "--nocapture"])
            .env(DATABASE, &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut out = other.stdout.take().unwrap();
        while !said.contains("ready") {
            let mut byte = [0];
            out.read_exact(&mut byte).unwrap();
            said.push(char::from(byte[0]));
        }
        let refused = open_to_write(&path, false).unwrap_err();
        assert_eq!(refused.code(), "sanitize_in_use", "{refused}");
        let ours = open_to_write(&path, true).unwrap();
        drop(ours);
        other.stdin.take().unwrap().flush().unwrap();
        assert!(other.wait().unwrap().success());
        // Held by us it is closed to everybody else.
        let held = open_to_write(&path, false).unwrap();
        let mut other = Command::new(std::env::current_exe().unwrap());
        other.args(["--exact", "opencode::database::tests::has_a_database_open"]).env(DATABASE, &path);
        let refused =
            other.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(!refused.success());
        drop(held);
    }

    #[test]
    fn a_path_names_a_file_whatever_is_in_it() {
        assert_eq!(uri(Path::new("/a b/?x=1#é%.db")), "file:/a%20b/%3fx%3d1%23%c3%a9%25.db");
    }
}
