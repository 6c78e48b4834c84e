//! The start and the end of a stream of any length. It never holds more than its cap and a few bytes, and never
//! cuts through a character.

use std::collections::VecDeque;
use std::ops::Range;

use fanin_supervisor::JobOutput;

/// Room for the line that says how much is missing, with the longest number.
const MARKER_BYTES_MAX: usize = 48;

/// Bytes before the tail's first one, which tell whether a character begins there: its longest form less one.
const SLACK: usize = 3;

/// Keeps the first and the last bytes of what is pushed, half of its cap each, and counts all of them.
///
/// Below twice the marker's size there is no room for head and marker: the end alone is kept.
#[derive(Debug)]
pub(crate) struct HeadTail {
    max: usize,
    head_max: usize,
    tail_max: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl HeadTail {
    /// Keeps `max` bytes at the most, the marker included.
    pub(crate) const fn new(max: usize) -> Self {
        let head_max = if max < 2 * MARKER_BYTES_MAX { 0 } else { max / 2 };
        let tail_max = max.saturating_sub(head_max).saturating_add(SLACK);
        Self { max, head_max, tail_max, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    /// Adds bytes at the end.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
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

    /// What was kept: all of it, or head and tail around a line that says how many bytes are missing.
    pub(crate) fn finish(self) -> JobOutput {
        let Self { max, mut head, mut tail, total, .. } = self;
        let tail: &[u8] = tail.make_contiguous();
        if total <= max as u64 {
            head.reserve_exact(tail.len());
            head.extend_from_slice(tail);
            return JobOutput::whole(head);
        }
        if max < 2 * MARKER_BYTES_MAX {
            let start = char_end(tail, tail.len().saturating_sub(max));
            return JobOutput::cut(tail.get(start..).unwrap_or_default().to_vec(), total);
        }
        let room = max - MARKER_BYTES_MAX;
        head.truncate(char_start(&head, room / 2));
        let start = char_end(tail, tail.len().saturating_sub(room - room / 2));
        let tail = tail.get(start..).unwrap_or_default();
        let left_out = total.saturating_sub((head.len() + tail.len()) as u64);
        let marker = format!("\n[... {left_out} bytes left out ...]\n");
        head.reserve_exact(marker.len() + tail.len());
        head.extend_from_slice(marker.as_bytes());
        head.extend_from_slice(tail);
        head.shrink_to_fit();
        JobOutput::cut(head, total)
    }

    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.head.capacity() + self.tail.capacity()
    }
}

/// How much to reserve for `more` bytes: doubles like a `Vec` would, but never past `max`.
fn growth(len: usize, capacity: usize, more: usize, max: usize) -> usize {
    let need = len + more;
    if need <= capacity { 0 } else { need.max(capacity.saturating_mul(2).min(max)) - len }
}

/// The start of the character that a cut at `at` would break, else `at`.
pub(crate) fn char_start(bytes: &[u8], at: usize) -> usize {
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

/// How many bytes at the end of `bytes` begin a character that is not finished yet.
pub(crate) fn unfinished(bytes: &[u8]) -> usize {
    let end = bytes.get(bytes.len().saturating_sub(SLACK)..).unwrap_or_default();
    let Some(back) = end.iter().rev().position(|byte| !is_continuation(*byte)) else { return 0 };
    let len = back + 1;
    match end.get(end.len() - len).map(|first| width(*first)) {
        Some(width) if width > len => len,
        _ => 0,
    }
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
