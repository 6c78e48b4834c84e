//! Who owns a store. The lock is the kernel's: it ends with the process, however that ends, so what is left of one that
//! is gone never blocks. What stands in the file is for people.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fanin_supervisor::journal::JournalError;

use crate::failure;
use crate::layout::{self, Layout};

/// How long others may look at the lock before that counts as owning it.
const LOOKS: Duration = Duration::from_secs(1);

/// The ownership of a store, for as long as it lives. The descriptor is closed in children.
#[derive(Debug)]
pub(crate) struct Ownership {
    _lock: File,
}

/// Who has a store, as far as its lock file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// Nobody.
    None,
    /// A live process, in words: its number and since when.
    Live(String),
}

impl Ownership {
    /// Takes a store over, or says who has it.
    pub(crate) fn take(layout: &Layout) -> Result<Self, JournalError> {
        let io = |error: std::io::Error| failure::of_file(layout, "owner.lock", &error);
        let mut lock = layout::open_private(&layout.owner()).map_err(io)?;
        let until = Instant::now() + LOOKS;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
            // One who only looks shares the lock, and is gone in a moment.
            let is_looked_at = lock.try_lock_shared().is_ok() && lock.unlock().is_ok();
            if !is_looked_at || Instant::now() >= until {
                return Err(JournalError::Owned { store: layout.name(), owner: read(&mut lock) });
            }
            std::thread::yield_now();
        }
        if let Err(error) = sign(&mut lock) {
            // A full disk must not keep anybody from a store; the lock holds without its text.
            tracing::warn!(%error, "the lock does not say who has it");
        }
        Ok(Self { _lock: lock })
    }
}

/// Writes who has it. The old text is cut last, so that a reader finds one at any time.
fn sign(lock: &mut File) -> std::io::Result<()> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let text = format!("process {} since {since} (seconds since 1970)\n", process::id());
    lock.rewind()?;
    lock.write_all(text.as_bytes())?;
    lock.set_len(text.len() as u64)
}

impl Owner {
    /// Who has the store in a folder. It takes nothing over, and makes no file.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`] where the lock cannot be looked at.
    pub fn of(dir: impl AsRef<Path>) -> Result<Self, JournalError> {
        let layout = Layout::of(dir.as_ref());
        let io = |error: std::io::Error| failure::of_file(&layout, "owner.lock", &error);
        let mut lock = match File::options().read(true).write(true).open(layout.owner()) {
            Ok(lock) => lock,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::None),
            Err(error) => return Err(io(error)),
        };
        match lock.try_lock_shared() {
            Ok(()) => Ok(Self::None),
            Err(TryLockError::WouldBlock) => Ok(Self::Live(read(&mut lock))),
            Err(TryLockError::Error(error)) => Err(io(error)),
        }
    }
}

fn read(lock: &mut File) -> String {
    let mut text = String::new();
    match lock.take(200).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        Ok(_) | Err(_) => "another process".to_owned(),
    }
}
