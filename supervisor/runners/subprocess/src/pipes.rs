//! The two pipes a command writes to. Reading goes on whatever is kept of it, so that the command never blocks on a
//! full pipe, and gives way to other work however much is written.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use fanin_process::read_now;
use fanin_protocol::limits::{PIPE_BYTES_MAX, READ_BYTES, READS_IN_A_ROW};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::{ChildStderr, ChildStdout};

use crate::capture::{Capture, Stream};

/// Our ends of a command's pipes; `None` once its end was read.
#[derive(Debug)]
pub(crate) struct Pipes {
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
}

impl Pipes {
    /// Takes the pipes of a command that was just started.
    pub(crate) fn of(pipes: fanin_process::Pipes) -> Self {
        Self { out: Some(pipes.out), err: Some(pipes.err) }
    }

    /// True once both have ended.
    pub(crate) const fn are_closed(&self) -> bool {
        self.out.is_none() && self.err.is_none()
    }

    /// Reads what is there; ready once both have ended.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, capture: &mut Capture<'_>) -> Poll<()> {
        // The buffer is on the stack and only while something is read: a silent command costs none.
        let mut space = [MaybeUninit::uninit(); READ_BYTES];
        for _ in 0..READS_IN_A_ROW {
            // One read each in turn, so that neither stream's lines come much too late among the other's.
            let out = read(&mut self.out, Stream::Out, cx, &mut space, capture);
            let err = read(&mut self.err, Stream::Err, cx, &mut space, capture);
            if self.are_closed() {
                return Poll::Ready(());
            }
            if !out && !err {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes what the pipes still hold, without waiting, where others keep them open after the command's end.
    pub(crate) fn sweep(self, capture: &mut Capture<'_>) {
        let mut space = vec![0; READ_BYTES];
        if let Some(out) = self.out {
            sweep(out.as_fd(), Stream::Out, &mut space, capture);
        }
        if let Some(err) = self.err {
            sweep(err.as_fd(), Stream::Err, &mut space, capture);
        }
    }
}

/// One read; true where it gave something. Takes the pipe away at its end.
fn read<P: AsyncRead + Unpin>(
    pipe: &mut Option<P>,
    stream: Stream,
    cx: &mut Context<'_>,
    space: &mut [MaybeUninit<u8>],
    capture: &mut Capture<'_>,
) -> bool {
    let Some(open) = pipe else { return false };
    let mut buffer = ReadBuf::uninit(space);
    match Pin::new(open).poll_read(cx, &mut buffer) {
        Poll::Pending => false,
        Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
            capture.feed(stream, buffer.filled());
            true
        }
        Poll::Ready(Ok(())) => {
            *pipe = None;
            false
        }
        Poll::Ready(Err(error)) => {
            unreadable(stream, &error);
            *pipe = None;
            false
        }
    }
}

fn sweep(pipe: BorrowedFd<'_>, stream: Stream, space: &mut [u8], capture: &mut Capture<'_>) {
    for _ in 0..PIPE_BYTES_MAX / READ_BYTES {
        match read_now(pipe, space) {
            Ok(0) => return,
            Ok(len) => capture.feed(stream, space.get(..len).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => return unreadable(stream, &error),
        }
    }
}

fn unreadable(stream: Stream, error: &io::Error) {
    tracing::warn!(?stream, %error, "cannot read a command's output; what follows is lost");
}
