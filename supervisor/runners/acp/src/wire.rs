//! The two pipes to an agent, as bytes. What comes in is held to one message a line and to bounds, before anything of it
//! reaches the protocol: a line without end, a flood, or words that are no messages cost no memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use fanin_protocol::limits::{
    AGENT_GARBAGE_LINES_MAX, AGENT_LINE_BYTES_MAX, AGENT_REQUESTS_OPEN_MAX, READ_BYTES,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What both directions share.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// Requests that came in, less the lines that went out since: about so many wait for their answer to be taken.
    open: AtomicUsize,
    /// Why nothing more is read.
    fault: std::sync::OnceLock<String>,
}

impl Wire {
    /// Why the wire was given up, if it was.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    fn give_up(&self, why: String) -> io::Error {
        // The first reason is the one that counts.
        let _ = self.fault.set(why.clone());
        io::Error::new(io::ErrorKind::InvalidData, why)
    }
}

/// A message, as far as it says what it is.
#[derive(Deserialize)]
struct Message<'m> {
    #[serde(borrow)]
    jsonrpc: std::borrow::Cow<'m, str>,
    #[serde(borrow)]
    method: Option<std::borrow::Cow<'m, str>>,
    #[serde(default, deserialize_with = "is_there")]
    id: bool,
    // Either can be null, and is there all the same.
    #[serde(default, deserialize_with = "is_there")]
    result: bool,
    #[serde(default, deserialize_with = "is_there")]
    error: bool,
}

fn is_there<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// It wants an answer.
    Request,
    /// It is a note, or an answer.
    Other,
    Garbage,
}

impl Line {
    fn of(line: &[u8]) -> Self {
        match serde_json::from_slice::<Message<'_>>(line) {
            Ok(message) if message.jsonrpc != "2.0" => Self::Garbage,
            Ok(Message { method: Some(_), id: true, .. }) => Self::Request,
            Ok(Message { method: Some(_), .. }) => Self::Other,
            Ok(Message { id: true, result, error, .. }) if result || error => Self::Other,
            Ok(_) | Err(_) => Self::Garbage,
        }
    }
}

/// What an agent writes: whole lines that are messages, and nothing else.
pub(crate) struct Reader<R> {
    inner: R,
    wire: Arc<Wire>,
    /// Lines that are ready to be handed on, from `given`.
    ready: Vec<u8>,
    given: usize,
    /// A line that has not ended.
    partial: Vec<u8>,
    garbage: usize,
    /// Bytes were taken in since others had a turn.
    has_read: bool,
    space: Box<[u8]>,
}

impl<R> Reader<R> {
    pub(crate) fn new(inner: R, wire: Arc<Wire>) -> Self {
        Self {
            inner,
            wire,
            ready: Vec::new(),
            given: 0,
            partial: Vec::new(),
            garbage: 0,
            has_read: false,
            space: vec![0; READ_BYTES].into(),
        }
    }

    /// Takes in bytes of the pipe.
    fn take(&mut self, len: usize) -> io::Result<()> {
        let bytes = self.space.get(..len).unwrap_or_default();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.partial.len() + piece.len() > AGENT_LINE_BYTES_MAX {
                let why = format!("it wrote a line of more than {AGENT_LINE_BYTES_MAX} bytes");
                return Err(self.wire.give_up(why));
            }
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.partial);
                self.garbage = sort(&line, &mut self.ready, &self.wire, self.garbage)?;
                // The room of one large line is not kept for the small ones.
                self.partial = if line.capacity() > READ_BYTES { Vec::new() } else { cleared(line) };
            }
        }
        Ok(())
    }
}

fn cleared(mut line: Vec<u8>) -> Vec<u8> {
    line.clear();
    line
}

/// Puts a line where it belongs; gives the number of lines that were no messages.
fn sort(line: &[u8], ready: &mut Vec<u8>, wire: &Wire, garbage: usize) -> io::Result<usize> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(garbage);
    }
    match Line::of(line) {
        Line::Request => {
            if wire.open.fetch_add(1, Ordering::Relaxed) >= AGENT_REQUESTS_OPEN_MAX {
                let why =
                    format!("it made more than {AGENT_REQUESTS_OPEN_MAX} requests and reads no answers");
                return Err(wire.give_up(why));
            }
        }
        Line::Other => {}
        Line::Garbage => {
            if garbage >= AGENT_GARBAGE_LINES_MAX {
                let why =
                    format!("it wrote more than {AGENT_GARBAGE_LINES_MAX} lines that are no messages of ACP");
                return Err(wire.give_up(why));
            }
            return Ok(garbage + 1);
        }
    }
    ready.extend_from_slice(line);
    Ok(garbage)
}

impl<R: AsyncRead + Unpin> AsyncRead for Reader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            let rest = this.ready.get(this.given..).unwrap_or_default();
            if !rest.is_empty() {
                let len = rest.len().min(buffer.remaining());
                buffer.put_slice(rest.get(..len).unwrap_or_default());
                this.given += len;
                return Poll::Ready(Ok(()));
            }
            (this.ready, this.given) = (Vec::new(), 0);
            if std::mem::take(&mut this.has_read) {
                // What was handed on is acted on first: a flood piles up in the agent's pipe, not with us.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let mut space = ReadBuf::new(&mut this.space);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut space))?;
            let len = space.filled().len();
            if len == 0 {
                return Poll::Ready(Ok(()));
            }
            this.has_read = true;
            this.take(len)?;
        }
    }
}

/// What is written to an agent.
pub(crate) struct Writer<W> {
    inner: W,
    wire: Arc<Wire>,
}

impl<W> Writer<W> {
    pub(crate) const fn new(inner: W, wire: Arc<Wire>) -> Self {
        Self { inner, wire }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Writer<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let len = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        let lines = bytes.iter().take(len).filter(|byte| **byte == b'\n').count();
        if lines > 0 {
            let open = self.wire.open.load(Ordering::Relaxed);
            // One task does both, so nothing comes between.
            self.wire.open.store(open.saturating_sub(lines), Ordering::Relaxed);
        }
        Poll::Ready(Ok(len))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    const NOTE: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{}}\n";
    const REQUEST: &str = "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"n\"}\n";

    /// What comes out of these bytes, and why it ended early.
    async fn read(bytes: &[u8]) -> (String, Option<String>) {
        let wire = Arc::new(Wire::default());
        let mut reader = Reader::new(bytes, Arc::clone(&wire));
        let mut out = Vec::new();
        let ended = reader.read_to_end(&mut out).await;
        assert_eq!(ended.is_err(), wire.fault().is_some());
        (String::from_utf8(out).unwrap(), wire.fault().map(ToOwned::to_owned))
    }

    #[test]
    fn lines_are_told_apart() {
        let of = |line: &str| Line::of(line.as_bytes());
        assert_eq!(of(NOTE), Line::Other);
        assert_eq!(of(REQUEST), Line::Request);
        assert_eq!(of("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}"), Line::Other);
        assert_eq!(of("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":null}"), Line::Other);
        assert_eq!(of("{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{}}"), Line::Other);
        for garbage in
            ["hello", "[]", "7", "{}", "{\"jsonrpc\":\"2.0\"}", "{\"jsonrpc\":\"1.0\",\"method\":\"n\"}"]
        {
            assert_eq!(of(garbage), Line::Garbage, "{garbage}");
        }
    }

    #[tokio::test]
    async fn words_between_messages_are_left_out_and_an_end_without_a_line_feed_is_no_message() {
        let words = format!("starting\n\n{NOTE}warn: x\n{NOTE}{}", NOTE.trim_end());
        assert_eq!(read(words.as_bytes()).await, (NOTE.repeat(2), None));
    }

    #[tokio::test]
    async fn too_many_words_that_are_no_messages_end_it_with_the_reason() {
        let most = "x\n".repeat(AGENT_GARBAGE_LINES_MAX);
        assert_eq!(read(format!("{most}{NOTE}").as_bytes()).await, (NOTE.to_owned(), None));
        let (_, fault) = read(format!("{most}x\n{NOTE}").as_bytes()).await;
        assert!(fault.unwrap().contains("no messages of ACP"));
    }

    #[tokio::test]
    async fn a_line_without_end_is_cut_off() {
        let (out, fault) = read(&vec![b'x'; AGENT_LINE_BYTES_MAX + 1]).await;
        assert_eq!(out, "");
        assert!(fault.unwrap().contains("16777216"));
    }

    #[tokio::test]
    async fn requests_whose_answers_nobody_reads_are_bounded() {
        let (out, fault) = read(REQUEST.repeat(AGENT_REQUESTS_OPEN_MAX).as_bytes()).await;
        assert_eq!((out.lines().count(), fault), (AGENT_REQUESTS_OPEN_MAX, None));
        let (_, fault) = read(REQUEST.repeat(AGENT_REQUESTS_OPEN_MAX + 1).as_bytes()).await;
        assert!(fault.unwrap().contains("reads no answers"));
    }

    #[tokio::test]
    async fn answers_that_are_read_make_room_for_more_requests() {
        use tokio::io::AsyncWriteExt as _;
        let wire = Arc::new(Wire::default());
        let bytes = REQUEST.repeat(AGENT_REQUESTS_OPEN_MAX + 10);
        let (first, rest) = bytes.split_at(REQUEST.len() * AGENT_REQUESTS_OPEN_MAX);
        let mut out = Vec::new();
        Reader::new(first.as_bytes(), Arc::clone(&wire)).read_to_end(&mut out).await.unwrap();
        let mut sunk = Vec::new();
        let answers = "{}\n".repeat(10);
        Writer::new(&mut sunk, Arc::clone(&wire)).write_all(answers.as_bytes()).await.unwrap();
        Reader::new(rest.as_bytes(), Arc::clone(&wire)).read_to_end(&mut out).await.unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), bytes);
        assert_eq!(wire.fault(), None);
    }
}
