//! What is to be written to one client: bytes of whole frames, in the order in which they were put here. Whoever puts more
//! waits while there is no room, and a client that takes nothing is cut off (B-8).

use std::io;
use std::mem;

use bytes::{Buf, BytesMut};
use fanin_protocol::limits::{SERVICE_IDLE_WAIT, SERVICE_ROOM_BYTES};
use fanin_protocol::wire::{self, FrameError};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Why a frame was not put here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PutError {
    /// The client is gone.
    #[error("the client is gone")]
    Gone,
    /// It cannot be written, or is too long.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// The way to one client.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: Mutex<Waiting>,
    /// There is room again.
    room: Notify,
    /// There is something to be written, or nothing will come any more.
    more: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: BytesMut,
    is_closed: bool,
}

impl Outbox {
    /// Puts a message here once there is room.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped before it returns, nothing was put.
    pub(crate) async fn put(&self, message: &impl Serialize) -> Result<(), PutError> {
        self.write(|bytes| wire::encode(message, bytes)).await
    }

    /// As [`Outbox::put`], for an event whose envelope was encoded before.
    pub(crate) async fn put_event(&self, id: u64, envelope: &[u8]) -> Result<(), PutError> {
        let head = wire::item_head(id, envelope.len())?;
        let write = |bytes: &mut BytesMut| {
            bytes.extend_from_slice(&head);
            bytes.extend_from_slice(envelope);
            Ok(())
        };
        self.write(write).await
    }

    async fn write(&self, write: impl Fn(&mut BytesMut) -> Result<(), FrameError>) -> Result<(), PutError> {
        loop {
            // Before the look: what makes room after it is heard of.
            let room = self.room.notified();
            {
                let mut waiting = self.waiting.lock();
                if waiting.is_closed {
                    return Err(PutError::Gone);
                }
                if waiting.bytes.len() < SERVICE_ROOM_BYTES {
                    let is_first = waiting.bytes.is_empty();
                    write(&mut waiting.bytes)?;
                    drop(waiting);
                    if is_first {
                        self.more.notify_one();
                    }
                    return Ok(());
                }
            }
            room.await;
        }
    }

    /// Takes nothing more; what is here is still written.
    pub(crate) fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.more.notify_one();
        self.room.notify_waiters();
    }

    /// Writes what comes here, until it is closed and all is written.
    ///
    /// # Errors
    ///
    /// The stream's; [`io::ErrorKind::TimedOut`] where the client took nothing for [`SERVICE_IDLE_WAIT`].
    pub(crate) async fn write_to(&self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut taken = BytesMut::new();
        loop {
            let is_closed = {
                let mut waiting = self.waiting.lock();
                mem::swap(&mut waiting.bytes, &mut taken);
                waiting.is_closed
            };
            if taken.is_empty() {
                if is_closed {
                    return stream.flush().await;
                }
                self.more.notified().await;
                continue;
            }
            self.room.notify_waiters();
            while taken.has_remaining() {
                match timeout(SERVICE_IDLE_WAIT, stream.write_buf(&mut taken)).await {
                    Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => return Err(error),
                    Err(_) => return Err(io::ErrorKind::TimedOut.into()),
                }
            }
            stream.flush().await?;
            // The room of a very long frame is given back.
            taken = if taken.capacity() > 2 * SERVICE_ROOM_BYTES { BytesMut::new() } else { taken };
            taken.clear();
        }
    }
}
