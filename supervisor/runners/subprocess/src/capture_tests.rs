//! The capture, at every way to cut streams into reads.

use fanin_protocol::limits::{LINE_HELD_BYTES_MAX, PROGRESS_BYTES_MAX};
use proptest::prelude::*;

use crate::capture::{Capture, Stream};

fn captured(reads: &[(Stream, &[u8])]) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut capture = Capture::new(|bytes| kept.extend_from_slice(bytes));
    for (stream, bytes) in reads {
        capture.feed(*stream, bytes);
    }
    capture.finish();
    kept
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("cut through a character")
}

#[test]
fn a_split_character_comes_out_whole() {
    // B63, without the process: each byte by itself.
    let reads: Vec<_> = "€".as_bytes().chunks(1).map(|byte| (Stream::Out, byte)).collect();
    assert_eq!(text(&captured(&reads)), "€");
}

#[test]
fn a_stream_that_ends_inside_a_character_keeps_its_bytes() {
    assert_eq!(captured(&[(Stream::Out, b"ok \xE2\x82")]), b"ok \xE2\x82");
}

#[test]
fn lines_of_two_streams_stay_whole() {
    let output = captured(&[
        (Stream::Out, b"first ha"),
        (Stream::Err, b"a warning\nand a half"),
        (Stream::Out, b"lf\nsecond\n"),
        (Stream::Err, b" one\n"),
    ]);
    assert_eq!(text(&output), "a warning\nfirst half\nsecond\nand a half one\n");
}

#[test]
fn a_line_too_long_to_hold_is_let_go_between_two_characters() {
    let long = "€".repeat(LINE_HELD_BYTES_MAX);
    // The other stream writes after every byte: were a character ever let go in parts, it would break.
    let bytes = long.as_bytes().chunks(1);
    let reads: Vec<_> =
        bytes.flat_map(|byte| [(Stream::Out, byte), (Stream::Err, b"!\n".as_slice())]).collect();
    let output = captured(&reads);
    assert_eq!(text(&output).matches('€').count(), LINE_HELD_BYTES_MAX);
    assert_eq!(text(&output).matches('!').count(), long.len());
}

#[test]
fn memory_is_flat_whatever_is_written() {
    for chunk in [vec![0; 32 * 1024], b"a line\n".repeat(4_000), b"\xE2\x82".repeat(16 * 1024), vec![b'x']] {
        let (mut put, mut fed) = (0, 0);
        let mut capture = Capture::new(|bytes| put += bytes.len());
        assert_eq!(capture.memory(), 0);
        for _ in 0..(64 << 20) / chunk.len().max(1_000) {
            capture.feed(Stream::Out, &chunk);
            capture.feed(Stream::Err, &chunk);
            fed += 2 * chunk.len();
            assert!(capture.memory() <= 3 * LINE_HELD_BYTES_MAX, "{} bytes held", capture.memory());
        }
        capture.finish();
        assert_eq!(put, fed, "all of it is handed on");
    }
}

#[test]
fn the_latest_line_is_the_last_finished_one_that_says_something() {
    let line = |reads: &[&[u8]]| {
        let mut capture = Capture::new(|_| {});
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
    let mut capture = Capture::new(|_| {});
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
    fn two_streams_lose_nothing_and_keep_their_order(
        reads in prop::collection::vec((any::<bool>(), stream()), 0..12),
    ) {
        let stream_of = |err: bool| if err { Stream::Err } else { Stream::Out };
        let fed: Vec<_> = reads.iter().map(|(err, bytes)| (stream_of(*err), bytes.as_slice())).collect();
        let output = captured(&fed);
        let of = |wanted| fed.iter().filter(move |(stream, _)| *stream == wanted).flat_map(|(_, b)| b.iter().copied());
        // Lines are whole here (none is too long to hold), so the lines of both are those of the two streams.
        let mut expected: Vec<Vec<u8>> = Vec::new();
        for stream in [Stream::Out, Stream::Err] {
            let all: Vec<u8> = of(stream).collect();
            expected.extend(all.split_inclusive(|b| *b == b'\n').filter(|l| l.ends_with(b"\n")).map(<[u8]>::to_vec));
        }
        let mut seen: Vec<Vec<u8>> =
            output.split_inclusive(|b| *b == b'\n').filter(|l| l.ends_with(b"\n")).map(<[u8]>::to_vec).collect();
        expected.sort();
        seen.sort();
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(output.len(), fed.iter().map(|(_, bytes)| bytes.len()).sum::<usize>());
    }

    #[test]
    fn taking_lines_never_panics_and_is_safe_to_show(reads in prop::collection::vec(stream(), 0..6)) {
        let mut capture = Capture::new(|_| {});
        for bytes in &reads {
            capture.feed(Stream::Err, bytes);
            if let Some(line) = capture.take_line() {
                prop_assert!(line.len() <= PROGRESS_BYTES_MAX && !line.is_empty());
                prop_assert!(!line.chars().any(char::is_control));
            }
        }
    }
}
