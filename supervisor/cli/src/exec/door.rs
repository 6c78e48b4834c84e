//! The way from an agent's MCP server to the `fanin exec` that hosts the agent: a socket in a folder of ours. `fanin mcp
//! --door` only copies bytes; who may come in is decided here, and nowhere else.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as Blocking;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use fanin_mcp::{Parent, serve_parent};
use fanin_process::{Ancestry, Table, own_mark};
use fanin_protocol::ParentMark;
use fanin_protocol::limits::{DOOR_CLIENTS_MAX, GATE_PAUSE, READ_BYTES, SOCKET_PATH_BYTES_MAX};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::mcp::Served;

/// The socket's name in its folder.
const NAME: &str = "door.sock";

/// An open door. Dropped, its socket goes.
#[derive(Debug)]
pub(crate) struct Door {
    listener: UnixListener,
    path: PathBuf,
    /// Ours: whoever else comes stays outside.
    uid: u32,
    /// A folder that was made for the socket alone.
    own: Option<PathBuf>,
}

impl Door {
    /// Opens it in this folder, which is ours alone. Where its path would be too long for a socket, or there is none, in a
    /// new one among the temporary files.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn open(folder: Option<&Path>) -> io::Result<Self> {
        let fits = |folder: &&Path| folder.join(NAME).as_os_str().len() <= SOCKET_PATH_BYTES_MAX;
        let (folder, own) = match folder.filter(fits) {
            Some(folder) => (folder.to_owned(), None),
            None => {
                let own = std::env::temp_dir().join(format!("fanin-{}", uuid::Uuid::new_v4().simple()));
                // It must not be there: nobody else has prepared it for us.
                DirBuilder::new().mode(0o700).create(&own)?;
                (own.clone(), Some(own))
            }
        };
        let path = folder.join(NAME);
        let opened = Self::listen(&folder, &path);
        match opened {
            Ok((listener, uid)) => Ok(Self { listener, path, uid, own }),
            Err(error) => {
                // The first error is told.
                own.iter().for_each(|own| drop(fs::remove_dir_all(own)));
                Err(error)
            }
        }
    }

    fn listen(folder: &Path, path: &Path) -> io::Result<(UnixListener, u32)> {
        let uid = fs::metadata(folder)?.uid();
        // One that was killed has left its own. Whoever owns the store owns what lies beside it.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        Ok((listener, uid))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Serves whoever comes in, each until it goes. It ends by being dropped. `warn` is told what went wrong.
    pub(crate) async fn serve(&self, served: Arc<Served>, parent: Parent, warn: impl Fn(String)) {
        let mut clients = JoinSet::new();
        loop {
            let (stream, _) = tokio::select! {
                came = self.listener.accept() => match came {
                    Ok(came) => came,
                    Err(error) => {
                        warn(format!("a client of the tools could not come in: {error}"));
                        // Out of descriptors, for one: it stays so for a moment.
                        tokio::time::sleep(GATE_PAUSE).await;
                        continue;
                    }
                },
                Some(ended) = clients.join_next() => {
                    if let Ok(Err(error)) = ended {
                        warn(format!("a client of the tools was not served: {error}"));
                    }
                    continue;
                }
            };
            if clients.len() >= DOOR_CLIENTS_MAX {
                warn(format!("{DOOR_CLIENTS_MAX} clients have the tools; one more stays outside"));
                continue;
            }
            if let Err(why) = self.admit(&stream) {
                warn(format!("a client of the tools stays outside: {why}"));
                continue;
            }
            let (served, parent) = (Arc::clone(&served), parent.clone());
            let told = std::future::pending();
            clients.spawn(async move { serve_parent(served, &parent, stream.into_split(), told).await });
        }
    }

    /// Decides who may come in: what runs as our user, and is part of no job that we are not part of ourselves. What it may
    /// do is the host's word, the same for each: it is the parent agent, or something that it has started, but no worker
    /// (SEC-3, SEC-5).
    fn admit(&self, stream: &UnixStream) -> Result<(), &'static str> {
        const UNKNOWN: &str = "nobody can say whose it is";
        let peer = stream.peer_cred().map_err(|_| UNKNOWN)?;
        if peer.uid() != self.uid {
            return Err("it is another user's");
        }
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).ok_or(UNKNOWN)?;
        let depth = |mark: Option<&ParentMark>| mark.map_or(0, |mark| mark.depth);
        let theirs = Ancestry::of(&Table::default(), pid).parent;
        if depth(theirs.as_ref()) > depth(own_mark()) {
            return Err("it is part of a job, and workers launch no workers");
        }
        Ok(())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // What stays lies in a folder of ours, and the next to open a door there takes it away.
        let _ = fs::remove_file(&self.path);
        self.own.iter().for_each(|own| drop(fs::remove_dir(own)));
    }
}

/// Goes through a door: copies what comes on standard input there, and what comes back to standard output, until the other
/// side has ended. Blocks its thread.
///
/// # Errors
///
/// The system's, where nobody opens.
pub(crate) fn through(path: &Path) -> io::Result<()> {
    let mut stream = Blocking::connect(path)?;
    let mut there = stream.try_clone()?;
    // It is not waited for: an input that never ends must not keep us once the other side is gone.
    thread::Builder::new().name("door".to_owned()).spawn(move || {
        // Where nothing is taken any more, the other side ends, and so do we.
        let _ = copy(&mut io::stdin().lock(), &mut there);
        let _ = there.shutdown(Shutdown::Write);
    })?;
    // That nobody reads what comes is an end like any other.
    let _ = copy(&mut stream, &mut io::stdout().lock());
    Ok(())
}

/// Copies to the end, each piece as it comes.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut space = vec![0; READ_BYTES];
    loop {
        let len = match from.read(&mut space) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(space.get(..len).unwrap_or_default())?;
        to.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_door_is_for_its_user_alone_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        // What one that was killed has left.
        drop(std::os::unix::net::UnixListener::bind(folder.path().join(NAME)).unwrap());
        let door = Door::open(Some(folder.path())).unwrap();
        let mode = fs::metadata(door.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let came = tokio::join!(UnixStream::connect(door.path()), door.listener.accept());
        let (stream, _) = came.1.unwrap();
        assert_eq!(door.admit(&stream), Ok(()));
        let mut stranger = Door::open(None).unwrap();
        stranger.uid = door.uid.wrapping_add(1);
        assert_eq!(stranger.admit(&stream), Err("it is another user's"));
        let (path, own) = (door.path().to_owned(), stranger.own.clone().unwrap());
        drop((door, stranger));
        assert!(!path.exists() && !own.exists());
    }

    #[tokio::test]
    async fn a_folder_whose_name_is_too_long_gets_a_door_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(SOCKET_PATH_BYTES_MAX));
        fs::create_dir(&long).unwrap();
        let door = Door::open(Some(&long)).unwrap();
        assert!(!door.path().starts_with(&long), "{:?}", door.path());
        assert_eq!(fs::metadata(door.path().parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
