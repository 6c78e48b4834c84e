//! The capture against a naive reference, at every cap and every way to cut a stream into reads.

use fanin_protocol::limits::{LINE_HELD_BYTES_MAX, PROGRESS_BYTES_MAX};
use fanin_supervisor::JobOutput;
use proptest::prelude::*;

use crate::capture::{Capture, Stream};

fn captured(max: u64, reads: &[(Stream, &[u8])]) -> JobOutput {
    let mut capture = Capture::new(max);
    for (stream, bytes) in reads {
        capture.feed(*stream, bytes);
    }
    capture.finish()
}

/// What one stream must give, worked out with all of it in memory.
fn reference(max: usize, all: &[u8]) -> Vec<u8> {
    if all.len() <= max {
        return all.to_vec();
    }
    if max < 96 {
        return all[after_char(all, all.len() - max)..].to_vec();
    }
    let room = max - 48;
    let head = &all[..before_char(all, room / 2)];
    let tail = &all[after_char(all, all.len() - (room - room / 2))..];
    let marker = format!("\n[... {} bytes left out ...]\n", all.len() - head.len() - tail.len());
    [head, marker.as_bytes(), tail].concat()
}

fn whole_char(all: &[u8], start: usize, end: usize) -> bool {
    std::str::from_utf8(&all[start..end]).is_ok_and(|text| text.chars().count() == 1)
}

fn across(all: &[u8], at: usize) -> Option<(usize, usize)> {
    let starts = at.saturating_sub(3)..at;
    let mut spans =
        starts.flat_map(|start| (at + 1..=(start + 4).min(all.len())).map(move |end| (start, end)));
    spans.find(|(start, end)| whole_char(all, *start, *end))
}

fn before_char(all: &[u8], at: usize) -> usize {
    across(all, at).map_or(at, |(start, _)| start)
}

fn after_char(all: &[u8], at: usize) -> usize {
    across(all, at).map_or(at, |(_, end)| end)
}

#[test]
fn cutting_at_every_cap_keeps_characters_whole_and_never_passes_the_cap() {
    let text = "aé€😀\n".repeat(60);
    for max in 1..=text.len() + 1 {
        let output = captured(max as u64, &[(Stream::Out, text.as_bytes())]);
        assert!(output.bytes().len() <= max, "{} bytes at cap {max}", output.bytes().len());
        let shown = std::str::from_utf8(output.bytes()).expect("cut through a character");
        assert_eq!(output.is_truncated(), max < text.len());
        assert_eq!(output.bytes_total(), text.len() as u64);
        if max >= 96 && max < text.len() {
            let (head, rest) = shown.split_once("\n[... ").unwrap();
            let (left_out, tail) = rest.split_once(" bytes left out ...]\n").unwrap();
            let left_out: usize = left_out.parse().unwrap();
            assert!(text.starts_with(head) && text.ends_with(tail));
            assert_eq!(head.len() + left_out + tail.len(), text.len());
        }
    }
}

#[test]
fn caps_around_every_boundary_match_the_reference() {
    for len in [0, 1, 2, 3, 47, 48, 49, 94, 95, 96, 97, 98, 191, 192, 193, 400] {
        for filler in ["x", "é", "€", "😀", "x\n"] {
            let all: Vec<u8> = filler.bytes().cycle().take(len).collect();
            for max in 1..=len + 2 {
                let output = captured(max as u64, &[(Stream::Out, &all)]);
                assert_eq!(output.bytes(), &reference(max, &all), "cap {max}, {len} bytes of {filler:?}");
            }
        }
    }
}

#[test]
fn a_split_character_comes_out_whole() {
    // B63, without the process: each byte by itself.
    let bytes = "€".as_bytes();
    let mut capture = Capture::new(100);
    for byte in bytes {
        capture.feed(Stream::Out, &[*byte]);
    }
    assert_eq!(capture.finish().text(), "€");
}

#[test]
fn a_stream_that_ends_inside_a_character_keeps_its_bytes() {
    let output = captured(100, &[(Stream::Out, b"ok \xE2\x82")]);
    assert_eq!(&output.bytes()[..], b"ok \xE2\x82");
    assert_eq!(output.text(), "ok \u{FFFD}");
}

#[test]
fn lines_of_two_streams_stay_whole() {
    let output = captured(
        1_000,
        &[
            (Stream::Out, b"first ha"),
            (Stream::Err, b"a warning\nand a half"),
            (Stream::Out, b"lf\nsecond\n"),
            (Stream::Err, b" one\n"),
        ],
    );
    assert_eq!(output.text(), "a warning\nfirst half\nsecond\nand a half one\n");
}

#[test]
fn a_line_too_long_to_hold_is_let_go_between_two_characters() {
    let long = "€".repeat(LINE_HELD_BYTES_MAX);
    let mut capture = Capture::new(1_000_000);
    // The other stream writes after every byte: were a character ever let go in parts, it would break.
    for byte in long.as_bytes() {
        capture.feed(Stream::Out, &[*byte]);
        capture.feed(Stream::Err, b"!\n");
    }
    let output = capture.finish();
    assert!(std::str::from_utf8(output.bytes()).is_ok());
    assert_eq!(output.text().matches('€').count(), LINE_HELD_BYTES_MAX);
    assert_eq!(output.text().matches('!').count(), long.len());
}

#[test]
fn memory_is_flat_whatever_is_written() {
    let max = 64 * 1024;
    let bound = max + 3 * LINE_HELD_BYTES_MAX;
    for chunk in [vec![0; 32 * 1024], b"a line\n".repeat(4_000), b"\xE2\x82".repeat(16 * 1024), vec![b'x']] {
        let mut capture = Capture::new(max as u64);
        for round in 0..(64 << 20) / chunk.len().max(1_000) {
            capture.feed(Stream::Out, &chunk);
            capture.feed(Stream::Err, &chunk);
            if round % 64 == 0 {
                assert!(capture.memory() <= bound, "{} bytes held", capture.memory());
            }
        }
        assert!(capture.memory() <= bound);
        assert!(capture.finish().bytes().len() <= max);
    }
}

#[test]
fn little_output_takes_little_memory() {
    let mut capture = Capture::new(64 << 20);
    assert_eq!(capture.memory(), 0);
    capture.feed(Stream::Out, b"done\n");
    assert!(capture.memory() < 100, "{} bytes held", capture.memory());
}

#[test]
fn the_latest_line_is_the_last_finished_one_that_says_something() {
    let line = |reads: &[&[u8]]| {
        let mut capture = Capture::new(100);
        for bytes in reads {
            capture.feed(Stream::Out, bytes);
        }
        capture.take_line()
    };
    assert_eq!(line(&[b"one\ntwo\nthr"]).as_deref(), Some("two"));
    assert_eq!(line(&[b"on", b"e", b"\n"]).as_deref(), Some("one"));
    assert_eq!(line(&[b"on", b"e\n \n\n"]).as_deref(), Some("one"));
    assert_eq!(line(&[b"one", b"  \n\n"]).as_deref(), Some("one"));
    assert_eq!(line(&[b"10%\r20%\r", b"30%\r\n"]).as_deref(), Some("30%"));
    assert_eq!(line(&[b"10%\r20", b"%\n"]).as_deref(), Some("20%"));
    assert_eq!(line(&[b"10%\r20%", b"\n"]).as_deref(), Some("20%"));
    assert_eq!(line(&[b"\x1b[31mred\x1b[0m\tline\n"]).as_deref(), Some("red line"));
    assert_eq!(line(&[b"\x1b[0m\n"]), None);
    assert_eq!(line(&[b"bad \xff byte\n"]).as_deref(), Some("bad \u{FFFD} byte"));
    assert_eq!(line(&[b"unfinished"]), None);
    assert_eq!(line(&[b"\n\n"]), None);
    let wide = line(&["€".repeat(2_000).as_bytes(), b"\n"]).unwrap();
    assert!(wide.len() <= PROGRESS_BYTES_MAX && wide.len() > PROGRESS_BYTES_MAX - 3);
}

#[test]
fn a_line_is_taken_once() {
    let mut capture = Capture::new(100);
    capture.feed(Stream::Out, b"one\n");
    assert!(capture.take_line().is_some());
    assert!(capture.take_line().is_none());
    capture.feed(Stream::Out, b"\n");
    assert!(capture.take_line().is_none());
}

/// Bytes with much UTF-8, some that is broken, and line ends.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("é".as_bytes().to_vec()),
        Just("€".as_bytes().to_vec()),
        Just("😀".as_bytes().to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"word".to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
        Just("€".repeat(60).into_bytes()),
    ];
    prop::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn one_stream_matches_the_reference(
        all in stream(),
        max in 1usize..600,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(all.len() + 1)).collect();
        cuts.extend([0, all.len()]);
        cuts.sort_unstable();
        let reads: Vec<_> = cuts.windows(2).map(|cut| (Stream::Out, &all[cut[0]..cut[1]])).collect();
        let output = captured(max as u64, &reads);
        prop_assert_eq!(output.bytes(), &reference(max, &all));
        prop_assert_eq!(output.bytes_total(), all.len() as u64);
        prop_assert_eq!(output.is_truncated(), all.len() > max);
    }

    #[test]
    fn two_streams_lose_nothing_and_keep_their_order(
        reads in prop::collection::vec((any::<bool>(), stream()), 0..12),
    ) {
        let stream_of = |err: bool| if err { Stream::Err } else { Stream::Out };
        let fed: Vec<_> = reads.iter().map(|(err, bytes)| (stream_of(*err), bytes.as_slice())).collect();
        let output = captured(1 << 20, &fed);
        let of = |wanted| fed.iter().filter(move |(stream, _)| *stream == wanted).flat_map(|(_, b)| b.iter().copied());
        // Lines are whole here (none is too long to hold), so the lines of both are those of the two streams.
        let mut expected: Vec<Vec<u8>> = Vec::new();
        for stream in [Stream::Out, Stream::Err] {
            let all: Vec<u8> = of(stream).collect();
            expected.extend(all.split_inclusive(|b| *b == b'\n').filter(|l| l.ends_with(b"\n")).map(<[u8]>::to_vec));
        }
        let mut seen: Vec<Vec<u8>> =
            output.bytes().split_inclusive(|b| *b == b'\n').filter(|l| l.ends_with(b"\n")).map(<[u8]>::to_vec).collect();
        expected.sort();
        seen.sort();
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(output.bytes().len(), fed.iter().map(|(_, bytes)| bytes.len()).sum::<usize>());
    }

    #[test]
    fn taking_lines_never_panics_and_is_safe_to_show(reads in prop::collection::vec(stream(), 0..6)) {
        let mut capture = Capture::new(64);
        for bytes in &reads {
            capture.feed(Stream::Err, bytes);
            if let Some(line) = capture.take_line() {
                prop_assert!(line.len() <= PROGRESS_BYTES_MAX && !line.is_empty());
                prop_assert!(!line.chars().any(char::is_control));
            }
        }
    }
}
