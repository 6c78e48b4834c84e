//! A socket of ours, in a folder of ours: where it is, and that it goes with its owner. Who may come in is decided by whoever
//! listens.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fanin_protocol::limits::{GATE_PAUSE, SOCKET_PATH_BYTES_MAX};
use tokio::net::{UnixListener, UnixStream};

/// A socket that is listened at. Dropped, it goes.
#[derive(Debug)]
pub(crate) struct Socket {
    listener: UnixListener,
    /// Ours: whoever else comes stays outside.
    uid: u32,
    place: Place,
}

/// Where a socket is. Dropped, it is there no more.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// A folder that was made for the socket alone.
    own: Option<PathBuf>,
}

impl Socket {
    /// Opens one by this name in this folder, which is ours alone. Where its path would be too long for a socket or is no
    /// text, or there is no folder, in a new one among the temporary files.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn open(folder: Option<&Path>, name: &str) -> io::Result<Self> {
        let fits = |folder: &&Path| {
            folder.join(name).to_str().is_some_and(|path| path.len() <= SOCKET_PATH_BYTES_MAX)
        };
        let (folder, own) = match folder.filter(fits) {
            Some(folder) => (folder.to_owned(), None),
            None => {
                let own = std::env::temp_dir().join(format!("fanin-{}", uuid::Uuid::new_v4().simple()));
                // It must not be there: nobody else has prepared it for us.
                DirBuilder::new().mode(0o700).create(&own)?;
                (own.clone(), Some(own))
            }
        };
        let path = folder.join(name);
        match listen(&folder, &path) {
            Ok((listener, uid)) => Ok(Self { listener, uid, place: Place { path, own } }),
            Err(error) => {
                // The first error is told.
                own.iter().for_each(|own| drop(fs::remove_dir_all(own)));
                Err(error)
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.place.path
    }

    /// Where it is, in words.
    ///
    /// # Errors
    ///
    /// Where that is no text: nobody could be told of it.
    pub(crate) fn name(&self) -> io::Result<&str> {
        let told = || io::Error::other("its path is no UTF-8, and nobody could be told of it");
        self.path().to_str().ok_or_else(told)
    }

    /// What stays with the owner while somebody else listens.
    pub(crate) fn split(self) -> (Listening, Place) {
        let Self { listener, uid, place } = self;
        (Listening { listener, uid }, place)
    }

    /// Waits for the next who comes. `warn` is told of those who could not.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: whoever came stays in line.
    pub(crate) async fn next(&self, warn: impl Fn(String)) -> UnixStream {
        next(&self.listener, warn).await
    }

    /// The process at the other end, where it is our user's.
    ///
    /// # Errors
    ///
    /// Why it stays outside.
    pub(crate) fn peer(&self, stream: &UnixStream) -> Result<u32, &'static str> {
        peer(stream, self.uid)
    }
}

/// The one who listens, without the place.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: UnixListener,
    uid: u32,
}

impl Listening {
    /// As [`Socket::next`].
    pub(crate) async fn next(&self, warn: impl Fn(String)) -> UnixStream {
        next(&self.listener, warn).await
    }

    /// As [`Socket::peer`].
    pub(crate) fn peer(&self, stream: &UnixStream) -> Result<u32, &'static str> {
        peer(stream, self.uid)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What stays lies in a folder of ours, and the next to open one there takes it away.
        let _ = fs::remove_file(&self.path);
        self.own.iter().for_each(|own| drop(fs::remove_dir(own)));
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

async fn next(listener: &UnixListener, warn: impl Fn(String)) -> UnixStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                warn(format!("a client could not come in: {error}"));
                // Out of descriptors, for one: it stays so for a moment.
                tokio::time::sleep(GATE_PAUSE).await;
            }
        }
    }
}

fn peer(stream: &UnixStream, uid: u32) -> Result<u32, &'static str> {
    const UNKNOWN: &str = "nobody can say whose it is";
    let peer = stream.peer_cred().map_err(|_| UNKNOWN)?;
    if peer.uid() != uid {
        return Err("it is another user's");
    }
    peer.pid().and_then(|pid| u32::try_from(pid).ok()).ok_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_its_user_alone_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        // What one that was killed has left.
        drop(std::os::unix::net::UnixListener::bind(folder.path().join("a.sock")).unwrap());
        let socket = Socket::open(Some(folder.path()), "a.sock").unwrap();
        let mode = fs::metadata(socket.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (stream, _) =
            tokio::join!(socket.next(|why| panic!("{why}")), UnixStream::connect(socket.path()));
        assert_eq!(socket.peer(&stream), Ok(std::process::id()));
        let mut stranger = Socket::open(None, "a.sock").unwrap();
        stranger.uid = socket.uid.wrapping_add(1);
        assert_eq!(stranger.peer(&stream), Err("it is another user's"));
        let (path, own) = (socket.path().to_owned(), stranger.place.own.clone().unwrap());
        drop((socket, stranger));
        assert!(!path.exists() && !own.exists());
    }

    #[tokio::test]
    async fn a_folder_whose_name_is_too_long_gets_a_socket_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(SOCKET_PATH_BYTES_MAX));
        fs::create_dir(&long).unwrap();
        let socket = Socket::open(Some(&long), "a.sock").unwrap();
        assert!(!socket.path().starts_with(&long), "{:?}", socket.path());
        let parent = socket.path().parent().unwrap();
        assert_eq!(fs::metadata(parent).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
