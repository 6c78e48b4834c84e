//! The start and the end of a stream of any length. It never holds more than its cap and a few bytes, and never
//! cuts through a character.

use std::collections::VecDeque;
use std::ops::Range;

use crate::output::JobOutput;
use crate::page::Kept;

/// Room for the line that says how much is missing, with the longest number.
const MARKER_BYTES_MAX: usize = 48;

/// Bytes before the tail's first one, which tell whether a character begins there: its longest form less one.
const SLACK: usize = 3;

/// Keeps the first and the last bytes of what is pushed, half of its cap each, and counts all of them.
///
/// Below twice the marker's size there is no room for head and marker: the end alone is kept. It takes no memory before
/// the first byte, and no more than its cap and a few bytes after it.
#[derive(Debug)]
pub struct HeadTail {
    max: usize,
    head_max: usize,
    tail_max: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl HeadTail {
    /// Keeps `max` bytes at the most, the marker included.
    pub fn new(max: u64) -> Self {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let head_max = if max < 2 * MARKER_BYTES_MAX { 0 } else { max / 2 };
        let tail_max = max.saturating_sub(head_max).saturating_add(SLACK);
        Self { max, head_max, tail_max, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    /// Adds bytes at the end.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let room = self.head_max.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        if !first.is_empty() {
            let more = growth(self.head.len(), self.head.capacity(), first.len(), self.head_max);
            self.head.reserve_exact(more);
            self.head.extend_from_slice(first);
        }
        let rest = rest.get(rest.len().saturating_sub(self.tail_max)..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..excess.min(self.tail.len()));
        let more = growth(self.tail.len(), self.tail.capacity(), rest.len(), self.tail_max);
        self.tail.reserve_exact(more);
        self.tail.extend(rest);
    }

    /// Which bytes are kept, if nothing more comes.
    pub(crate) fn kept(&self) -> Kept {
        let Self { max, total, .. } = *self;
        if total <= max as u64 {
            return Kept::whole(total);
        }
        if max < 2 * MARKER_BYTES_MAX {
            return Kept { head: 0, tail: total - self.tail_len(max), total };
        }
        let room = max - MARKER_BYTES_MAX;
        let head = char_start(&self.head, room / 2) as u64;
        Kept { head, tail: total - self.tail_len(room - room / 2), total }
    }

    /// How many of the last `max` bytes are kept, so that no character is cut.
    fn tail_len(&self, max: usize) -> u64 {
        let at = self.tail.len().saturating_sub(max);
        let from = at.saturating_sub(SLACK);
        let around: Vec<u8> = self.tail.iter().skip(from).take(2 * SLACK + 1).copied().collect();
        (self.tail.len() - (from + char_end(&around, at - from))) as u64
    }

    /// Bytes of the stream from one place up to another. All of them are kept.
    pub(crate) fn copy(&self, range: Range<u64>) -> Vec<u8> {
        let Range { start, end } = range;
        let len = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        let at = usize::try_from(start).ok().filter(|at| *at < self.head.len());
        let head = at.and_then(|at| self.head.get(at..)).unwrap_or_default();
        let head = head.get(..len.min(head.len())).unwrap_or_default();
        let mut bytes = Vec::with_capacity(len.min(self.head.len() + self.tail.len()));
        bytes.extend_from_slice(head);
        let tail_at = self.total - self.tail.len() as u64;
        let skip = usize::try_from((start + head.len() as u64).saturating_sub(tail_at)).unwrap_or(usize::MAX);
        let from = skip.min(self.tail.len());
        let to = from.saturating_add(len - head.len()).min(self.tail.len());
        bytes.extend(self.tail.range(from..to));
        bytes
    }

    /// Bytes from `from` on, `max` at the most, and where they begin: behind what is no longer there.
    pub(crate) fn after(&self, from: u64, max: usize) -> (u64, Vec<u8>) {
        let (head, tail) = (self.head.len() as u64, self.total - self.tail.len() as u64);
        let (at, end) = if from < head { (from, head) } else { (from.max(tail), self.total) };
        (at, self.copy(at..end.min(at.saturating_add(max as u64))))
    }

    /// Of a stream of this length, the bytes that are neither of its start nor of its end.
    pub(crate) fn middle(&self, total: u64) -> Range<u64> {
        let start = self.head_max as u64;
        start..total.saturating_sub(self.tail_max as u64).max(start)
    }

    /// What is kept so far: all of it, or head and tail around a line that says how many bytes are missing.
    pub fn output(&self) -> JobOutput {
        let kept = self.kept();
        if kept.is_whole() {
            return JobOutput::whole(self.copy(0..kept.total));
        }
        self.joined(self.copy(0..kept.head), kept)
    }

    /// The same of a stream that is over.
    pub fn finish(mut self) -> JobOutput {
        let kept = self.kept();
        let mut head = std::mem::take(&mut self.head);
        if kept.is_whole() {
            head.reserve_exact(self.tail.len());
            head.extend(&self.tail);
            return JobOutput::whole(head);
        }
        head.truncate(usize::try_from(kept.head).unwrap_or(usize::MAX));
        self.joined(head, kept)
    }

    /// The head with marker and tail behind it.
    fn joined(&self, mut head: Vec<u8>, kept: Kept) -> JobOutput {
        let tail_len = usize::try_from(kept.total - kept.tail).unwrap_or(usize::MAX);
        let marker =
            if self.max < 2 * MARKER_BYTES_MAX { String::new() } else { marker(kept.tail - kept.head) };
        head.reserve_exact(marker.len() + tail_len);
        head.extend_from_slice(marker.as_bytes());
        head.extend(self.tail.iter().skip(self.tail.len().saturating_sub(tail_len)));
        head.shrink_to_fit();
        JobOutput::cut(head, kept)
    }

    /// How many bytes were pushed.
    pub const fn total(&self) -> u64 {
        self.total
    }

    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.head.capacity() + self.tail.capacity()
    }
}

/// The line between head and tail.
pub(crate) fn marker(missing: u64) -> String {
    format!("\n[... {missing} bytes left out ...]\n")
}

/// How much to reserve for `more` bytes: doubles like a `Vec` would, but never past `max`.
fn growth(len: usize, capacity: usize, more: usize, max: usize) -> usize {
    let need = len + more;
    if need <= capacity { 0 } else { need.max(capacity.saturating_mul(2).min(max)) - len }
}

/// The start of the character that a cut at `at` would break, else `at`.
fn char_start(bytes: &[u8], at: usize) -> usize {
    char_across(bytes, at).map_or(at, |range| range.start)
}

/// The end of the character that a cut at `at` would break, else `at`.
fn char_end(bytes: &[u8], at: usize) -> usize {
    char_across(bytes, at).map_or(at, |range| range.end)
}

/// The character of UTF-8 with bytes on both sides of `at`. Bytes that are no UTF-8 may be cut anywhere.
fn char_across(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let start = (1..=SLACK).filter_map(|back| at.checked_sub(back)).find(|start| {
        // The nearest byte before the cut that begins a character.
        bytes.get(*start).is_some_and(|byte| !is_continuation(*byte))
    })?;
    let end = start + width(*bytes.get(start)?);
    let valid = end > at && std::str::from_utf8(bytes.get(start..end)?).is_ok();
    valid.then_some(start..end)
}

const fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// Bytes of the character that begins with `first`; 1 where none does.
const fn width(first: u8) -> usize {
    match first {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
