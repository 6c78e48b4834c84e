//! The way from an agent's MCP server to the `fanin exec` that hosts the agent: a socket in a folder of ours. `fanin mcp
//! --door` only copies bytes; who may come in is decided here, and nowhere else.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream as Blocking;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use fanin_mcp::{Parent, serve_parent};
use fanin_process::{Ancestry, Table, own_mark};
use fanin_protocol::ParentMark;
use fanin_protocol::limits::{DOOR_CLIENTS_MAX, READ_BYTES};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use crate::mcp::Served;
use crate::socket::Socket;

/// The socket's name in its folder.
const NAME: &str = "door.sock";

/// An open door. Dropped, its socket goes.
#[derive(Debug)]
pub(crate) struct Door {
    socket: Socket,
}

impl Door {
    /// Opens it in this folder, which is ours alone, or among the temporary files.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn open(folder: Option<&Path>) -> io::Result<Self> {
        Socket::open(folder, NAME).map(|socket| Self { socket })
    }

    /// Where it is, for whoever is told of it.
    ///
    /// # Errors
    ///
    /// Where that is no text.
    pub(crate) fn name(&self) -> io::Result<&str> {
        self.socket.name()
    }

    /// Serves whoever comes in, each until it goes. It ends by being dropped. `warn` is told what went wrong.
    pub(crate) async fn serve(&self, served: Arc<Served>, parent: Parent, warn: impl Fn(String)) {
        let mut clients = JoinSet::new();
        loop {
            let stream = tokio::select! {
                stream = self.socket.next(&warn) => stream,
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
        let pid = self.socket.peer(stream)?;
        let depth = |mark: Option<&ParentMark>| mark.map_or(0, |mark| mark.depth);
        let theirs = Ancestry::of(&Table::default(), pid).parent;
        if depth(theirs.as_ref()) > depth(own_mark()) {
            return Err("it is part of a job, and workers launch no workers");
        }
        Ok(())
    }
}

/// Goes through a door: copies what comes on standard input there, and what comes back to standard output, until the other
/// side has ended. Blocks its thread.
///
/// # Errors
///
/// The system's, where nobody opens.
pub(crate) fn through(path: &Path) -> io::Result<()> {
    copy_both(Blocking::connect(path)?)
}

/// Copies what comes on standard input to the other side, and what comes from there to standard output, until it has ended.
///
/// # Errors
///
/// The system's.
pub(crate) fn copy_both(mut stream: Blocking) -> io::Result<()> {
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
