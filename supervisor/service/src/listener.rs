//! The socket of a service: where it lies, and who may come in (SEC-1).

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fanin_protocol::limits::{GATE_PAUSE, SOCKET_PATH_BYTES_MAX};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::caller::Peer;
use crate::service::{ConnectionError, Service};

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The path is longer than a socket's may be.
    #[error(
        "{path:?} has more than {SOCKET_PATH_BYTES_MAX} bytes, which no socket's path may have; set XDG_RUNTIME_DIR or FANIN_STATE_DIR to a shorter one"
    )]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// The folder is not ours alone.
    #[error("{folder:?} is not safe for a socket: {problem}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Something else is in the socket's place.
    #[error("{path:?} is there and is no socket of ours; take it away")]
    Taken {
        /// The path.
        path: PathBuf,
    },
    /// The system's word.
    #[error("the socket {path:?} cannot be made: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The system's.
        source: io::Error,
    },
}

impl SocketError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "socket_path",
            Self::Folder { .. } => "socket_folder",
            Self::Taken { .. } => "socket_taken",
            Self::Io { .. } => "socket_io",
        }
    }
}

/// A socket that is listened at. Dropped, it is gone.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// Ours: whoever else comes stays outside.
    uid: u32,
}

impl Listener {
    /// Makes the socket, and its folder where that is not there. One that is there is replaced: so the caller owns the store
    /// that the socket is for, and whoever had it is gone.
    ///
    /// # Errors
    ///
    /// [`SocketError`] where it would not be ours alone, or cannot be made.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let io = |source| SocketError::Io { path: path.to_owned(), source };
        if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
            return Err(SocketError::TooLong { path: path.to_owned() });
        }
        let uid = own_uid().map_err(io)?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io)?;
        // Not through a link: it could lead elsewhere in a moment.
        let found = fs::symlink_metadata(folder).map_err(io)?;
        if let Some(problem) = unsafe_folder(&found, uid) {
            return Err(SocketError::Folder { folder: folder.to_owned(), problem });
        }
        match fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() && found.uid() == uid => {
                fs::remove_file(path).map_err(io)?
            }
            Ok(_) => return Err(SocketError::Taken { path: path.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io(error)),
        }
        let socket = UnixListener::bind(path).map_err(io)?;
        let listener = Self { socket, path: path.to_owned(), uid };
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(io)?;
        Ok(listener)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves whoever comes in, each until it goes. It ends by being dropped, and the connections with it.
    ///
    /// # Cancel safety
    ///
    /// Dropped, all clients are gone, as by [`Service::serve`].
    pub async fn serve(&self, service: &Service, clients: &mut JoinSet<Result<(), ConnectionError>>) {
        loop {
            let stream = tokio::select! {
                came = self.socket.accept() => match came {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "a client could not come in");
                        // Out of descriptors, for one: it stays so for a moment.
                        tokio::time::sleep(GATE_PAUSE).await;
                        continue;
                    }
                },
                Some(ended) = clients.join_next() => {
                    told(ended);
                    continue;
                }
            };
            match self.admit(&stream) {
                Ok(peer) => {
                    let service = service.clone();
                    clients.spawn(async move { service.serve(stream.into_split(), peer).await });
                }
                Err(why) => tracing::warn!(why, "a client stays outside"),
            }
        }
    }

    /// Who may come in: what runs as our user.
    fn admit(&self, stream: &UnixStream) -> Result<Peer, &'static str> {
        const UNKNOWN: &str = "nobody can say whose it is";
        let peer = stream.peer_cred().map_err(|_| UNKNOWN)?;
        if peer.uid() != self.uid {
            return Err("it is another user's");
        }
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).ok_or(UNKNOWN)?;
        Ok(Peer::Process(pid))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // What stays is replaced by the next one that owns the store.
        let _ = fs::remove_file(&self.path);
    }
}

/// Logs how a client ended, where that was no end like any other.
fn told(ended: Result<Result<(), ConnectionError>, tokio::task::JoinError>) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::info!(code = error.code(), %error, "a client was cut off"),
        Err(error) => tracing::error!(%error, "a connection ended by an internal error"),
    }
}

/// Our user, as the system names it to others.
fn own_uid() -> io::Result<u32> {
    let (one, _other) = UnixStream::pair()?;
    Ok(one.peer_cred()?.uid())
}

fn unsafe_folder(found: &Metadata, uid: u32) -> Option<&'static str> {
    if !found.is_dir() {
        Some("it is a link, or no folder")
    } else if found.uid() != uid {
        Some("it is another user's")
    } else if found.mode() & 0o077 != 0 {
        Some("others may enter it; `chmod 700` makes it yours alone")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        folder
    }

    #[tokio::test]
    async fn a_socket_is_for_its_user_alone_and_goes_with_its_owner() {
        let folder = folder(0o700);
        let path = folder.path().join("made/here.sock");
        let listener = Listener::bind(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let (stream, _) = UnixStream::pair().unwrap();
        assert_eq!(listener.admit(&stream), Ok(Peer::Process(std::process::id())));
        let mut stranger = Listener::bind(&folder.path().join("x")).unwrap();
        stranger.uid = listener.uid.wrapping_add(1);
        assert_eq!(stranger.admit(&stream), Err("it is another user's"));
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_folder_that_others_may_enter_or_a_link_to_one_is_refused() {
        let (open, ours) = (folder(0o755), folder(0o700));
        let code = |path: &Path| Listener::bind(path).unwrap_err().code();
        assert_eq!(code(&open.path().join("s")), "socket_folder");
        std::os::unix::fs::symlink(ours.path(), ours.path().join("link")).unwrap();
        assert_eq!(code(&ours.path().join("link/s")), "socket_folder");
        assert_eq!(code(&ours.path().join("x".repeat(SOCKET_PATH_BYTES_MAX))), "socket_path");
    }

    #[tokio::test]
    async fn what_one_that_was_killed_has_left_is_replaced_and_nothing_else() {
        let folder = folder(0o700);
        let path = folder.path().join("s");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a socket outlives its listener");
        drop(Listener::bind(&path).unwrap());
        fs::write(&path, "a file of somebody").unwrap();
        assert_eq!(Listener::bind(&path).unwrap_err().code(), "socket_taken");
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file of somebody");
    }
}
