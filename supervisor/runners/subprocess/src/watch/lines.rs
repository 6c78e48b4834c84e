//! Bytes as lines of text, with a bound on what is held of a long one.

use fanin_protocol::limits::WATCH_LINE_BYTES_MAX;

/// Finds lines in what comes piece by piece. Of a very long one its beginning counts.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    held: Vec<u8>,
}

impl Lines {
    /// Takes bytes, and hands on each line that they complete, without its end.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = match piece {
                [text @ .., b'\n'] => (text, true),
                text => (text, false),
            };
            let room = WATCH_LINE_BYTES_MAX.saturating_sub(self.held.len());
            self.held.extend_from_slice(text.get(..room.min(text.len())).unwrap_or_default());
            if is_whole {
                self.hand_on(&mut line);
            }
        }
    }

    /// Nothing more comes: what is there of a line is one.
    pub(crate) fn finish(&mut self, mut line: impl FnMut(&str)) {
        if !self.held.is_empty() {
            self.hand_on(&mut line);
        }
    }

    fn hand_on(&mut self, line: &mut impl FnMut(&str)) {
        let text = String::from_utf8_lossy(&self.held);
        line(text.trim_end_matches('\r'));
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.feed(piece, |line| found.push(line.to_owned()));
        }
        lines.finish(|line| found.push(line.to_owned()));
        found
    }

    #[test]
    fn a_line_is_whole_however_it_comes() {
        assert_eq!(lines(&[b"a", b"b\r\n\nc", b"\xc3", b"\xa9"]), ["ab", "", "c\u{e9}"]);
        assert_eq!(lines(&[]), [""; 0]);
    }

    #[test]
    fn of_a_line_without_end_the_beginning_is_held_and_the_next_one_is_found() {
        let long = vec![b'x'; 3 * WATCH_LINE_BYTES_MAX];
        let found = lines(&[&long, &long, b"\nnext\n"]);
        assert_eq!((found[0].len(), found[1].as_str(), found.len()), (WATCH_LINE_BYTES_MAX, "next", 2));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(text in "[ab\n\u{e9}]{0,40}", cuts in prop::collection::vec(0usize..40, 0..6)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
            let expected: Vec<&str> = text.lines().collect();
            prop_assert_eq!(lines(&pieces), expected);
        }
    }
}
