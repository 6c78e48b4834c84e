//! The shim's end of the lifeline: the order comes in by it, then single bytes; its end says that the supervisor is
//! gone. It never waits for a supervisor that does not read.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketType, recv, recvmsg, send, sockopt,
};
use rustix::stdio::stdin;

use crate::wire::{self, Order, Report};

/// Bytes of an order that are read at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// The lifeline.
pub(super) struct Control {
    socket: OwnedFd,
    /// What came with the order and after it.
    early: Vec<u8>,
}

impl Control {
    /// Takes the lifeline from where standard input is to the first free number, which is 3 as a rule.
    ///
    /// # Errors
    ///
    /// The system's, and where standard input is no socket: then nobody meant this to be a shim.
    pub(super) fn take() -> io::Result<Self> {
        if sockopt::socket_type(stdin()).ok() != Some(SocketType::STREAM) {
            return Err(io::Error::other("standard input is no lifeline"));
        }
        Ok(Self { socket: fcntl_dupfd_cloexec(stdin(), 3)?, early: Vec::new() })
    }

    /// Waits for the order and the descriptor that may come with it; `None` where the supervisor is gone first.
    ///
    /// # Errors
    ///
    /// The system's, and where the bytes are no order.
    pub(super) fn order(&mut self) -> io::Result<Option<(Order, Option<OwnedFd>)>> {
        let (mut stdin, mut chunk) = (None, vec![0; CHUNK_BYTES]);
        loop {
            let broken = |_| io::Error::other("the order is of another version");
            if let Some(body) = wire::take_frame(&mut self.early).map_err(broken)? {
                let order = Order::decode(&body).map_err(broken)?;
                return Ok(Some((order, stdin)));
            }
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let slices = &mut [IoSliceMut::new(&mut chunk)];
            let read = match recvmsg(&self.socket, slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Ok(read) => read.bytes,
                Err(Errno::INTR) => continue,
                Err(Errno::CONNRESET) => 0,
                Err(error) => return Err(error.into()),
            };
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    stdin = descriptors.last().or(stdin);
                }
            }
            if read == 0 {
                return Ok(None);
            }
            self.early.extend_from_slice(chunk.get(..read).unwrap_or_default());
        }
    }

    /// What the supervisor has said since; only where there is something. `None` where it is gone.
    pub(super) fn hear(&mut self) -> Option<Vec<u8>> {
        let mut chunk = [0; 16];
        match recv(&self.socket, &mut chunk, RecvFlags::DONTWAIT) {
            Ok((_, 0)) | Err(Errno::CONNRESET) => None,
            Ok((_, read)) => Some(chunk.get(..read).unwrap_or_default().to_vec()),
            Err(_) => Some(Vec::new()),
        }
    }

    /// What came together with the order.
    pub(super) fn early(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.early)
    }

    /// Says something. Nobody may be left to hear it, and that is no error here.
    pub(super) fn say(&self, report: &Report) {
        let bytes = report.encode();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match send(&self.socket, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
