//! What a command writes, from two streams into one, and its latest line for people. It hands bytes on as they came,
//! reads no clock, and holds no more of them than an unfinished line of each stream.

use fanin_protocol::limits::{LINE_HELD_BYTES_MAX, PROGRESS_BYTES_MAX};
use fanin_protocol::text;

/// Bytes of a line that are looked at for a progress line: room for escape sequences that are dropped.
const LINE_BYTES_MAX: usize = 4 * PROGRESS_BYTES_MAX;

/// Which of its two pipes a command wrote to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// What takes output.
type Put<'h> = Box<dyn FnMut(&[u8]) + Send + 'h>;

/// Both streams in the order in which they arrived, by whole lines.
///
/// An unfinished line is held back until its end comes, so that the other stream does not write into its middle.
/// A longer one than [`LINE_HELD_BYTES_MAX`] is let go in pieces, between two characters.
pub(crate) struct Capture<'h> {
    put: Put<'h>,
    held_out: Vec<u8>,
    held_err: Vec<u8>,
    line: LastLine,
    is_fed: bool,
}

impl<'h> Capture<'h> {
    /// Hands on what is finished to `put`.
    pub(crate) fn new(put: impl FnMut(&[u8]) + Send + 'h) -> Self {
        Self {
            put: Box::new(put),
            held_out: Vec::new(),
            held_err: Vec::new(),
            line: LastLine::default(),
            is_fed: false,
        }
    }

    /// Takes what was read from one stream.
    pub(crate) fn feed(&mut self, stream: Stream, bytes: &[u8]) {
        self.is_fed = true;
        let held = match stream {
            Stream::Out => &mut self.held_out,
            Stream::Err => &mut self.held_err,
        };
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let (lines, rest) = bytes.split_at(end);
        if !lines.is_empty() {
            self.line.look(held, lines);
            if !held.is_empty() {
                (self.put)(held);
                held.clear();
            }
            (self.put)(lines);
        }
        if held.len() + rest.len() <= LINE_HELD_BYTES_MAX {
            held.extend_from_slice(rest);
            return;
        }
        // Too long to hold; a character that is not finished yet stays, so that the other stream cannot split it.
        let len = held.len() + rest.len();
        let last: Vec<u8> = held.iter().chain(rest).skip(len.saturating_sub(4)).copied().collect();
        let leaving = len - unfinished(&last);
        let (rest, kept) = rest.split_at(leaving.saturating_sub(held.len()));
        let leaving = leaving.min(held.len());
        (self.put)(held.get(..leaving).unwrap_or_default());
        (self.put)(rest);
        held.drain(..leaving);
        held.extend_from_slice(kept);
    }

    /// True where something came since the last call.
    pub(crate) fn take_fed(&mut self) -> bool {
        std::mem::take(&mut self.is_fed)
    }

    /// The latest finished line that is not blank, if there is a newer one than at the last call: one line, safe to
    /// show, of [`PROGRESS_BYTES_MAX`] bytes at the most.
    pub(crate) fn take_line(&mut self) -> Option<String> {
        self.line.take()
    }

    /// True where [`Capture::take_line`] has something to look at.
    pub(crate) const fn has_line(&self) -> bool {
        self.line.fresh
    }

    /// Hands on the lines that never ended.
    pub(crate) fn finish(mut self) {
        for held in [&self.held_out, &self.held_err] {
            if !held.is_empty() {
                (self.put)(held);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.held_out.capacity() + self.held_err.capacity() + self.line.bytes.capacity()
    }
}

/// The latest line that says something, as raw bytes and without its far end.
#[derive(Debug, Default)]
struct LastLine {
    bytes: Vec<u8>,
    fresh: bool,
}

impl LastLine {
    /// Looks at finished `lines`; the first of them began with `held`.
    fn look(&mut self, held: &[u8], lines: &[u8]) {
        // A carriage return starts the line again on a terminal: what follows the last one is what is seen.
        let mut parts = lines.rsplit(|byte| matches!(byte, b'\n' | b'\r'));
        let found = parts.find(|part| !is_blank(part));
        let Some(found) = found else {
            if let Some(part) = held.rsplit(|byte| *byte == b'\r').find(|part| !is_blank(part)) {
                self.set(&[], part);
            }
            return;
        };
        let first = parts.next().is_none();
        let before = held.rsplit(|byte| *byte == b'\r').next().filter(|_| first).unwrap_or_default();
        self.set(before, found);
    }

    fn set(&mut self, before: &[u8], part: &[u8]) {
        self.bytes.clear();
        self.bytes.extend(before.iter().chain(part).take(LINE_BYTES_MAX));
        self.fresh = true;
    }

    fn take(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.fresh) {
            return None;
        }
        let line = text::one_line(&String::from_utf8_lossy(&self.bytes));
        // Colours alone are no line.
        (!line.is_empty()).then(|| text::cut(&line, PROGRESS_BYTES_MAX).to_owned())
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// How many bytes at the end of `bytes` begin a character that is not finished yet.
fn unfinished(bytes: &[u8]) -> usize {
    let is_begun = |len: &usize| {
        let end = bytes.len().checked_sub(*len).and_then(|at| bytes.get(at..)).unwrap_or_default();
        std::str::from_utf8(end).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (1..=3).find(is_begun).unwrap_or(0)
}
