//! The store against a naive reference, at every cap and every way to cut a stream into writes.

use fanin_protocol::limits::OUTPUT_PAGE_BYTES_MAX;
use proptest::prelude::*;

use super::*;

fn kept(max: usize, writes: &[&[u8]]) -> JobOutput {
    let mut store = HeadTail::new(max as u64);
    writes.iter().for_each(|bytes| store.push(bytes));
    assert_eq!(store.total(), writes.iter().map(|bytes| bytes.len() as u64).sum::<u64>());
    let output = store.output();
    assert_eq!(store.finish(), output, "as it is kept is as it ends");
    output
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
        let output = kept(max, &[text.as_bytes()]);
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
                let output = kept(max, &[&all]);
                assert_eq!(output.bytes(), &reference(max, &all), "cap {max}, {len} bytes of {filler:?}");
            }
        }
    }
}

/// What a reader gets who asks for pages of `max` bytes from the start.
fn read(store: &HeadTail, max: usize) -> (Vec<u8>, Vec<Range<u64>>) {
    let (mut bytes, mut dropped, mut next) = (Vec::new(), Vec::new(), 0);
    while next < store.total() {
        let page = store.kept().page(next, max, |range| store.copy(range).into());
        assert!(page.bytes.len() <= max && page.next > next, "{page:?}");
        assert_eq!(page.next - page.offset, page.bytes.len() as u64);
        bytes.extend_from_slice(&page.bytes);
        dropped.extend(page.dropped);
        next = page.next;
    }
    (bytes, dropped)
}

#[test]
fn pages_of_every_size_give_what_is_kept_and_tell_what_is_not() {
    let text = "aé€😀\n".repeat(60);
    for max in (1..=text.len() + 1).step_by(7) {
        let mut store = HeadTail::new(max as u64);
        store.push(text.as_bytes());
        let kept = store.kept();
        let (head, tail) = (kept.head as usize, kept.tail as usize);
        let wanted = [&text.as_bytes()[..head], &text.as_bytes()[tail..]].concat();
        let hole = (head < tail).then_some(kept.head..kept.tail);
        for size in [1, 2, 3, 5, 47, 96, 601] {
            let (bytes, dropped) = read(&store, size);
            assert_eq!(bytes, wanted, "cap {max}, pages of {size}");
            assert_eq!(dropped, hole.clone().into_iter().collect::<Vec<_>>(), "cap {max}, pages of {size}");
        }
        let (pages, output) = (read(&store, 10), store.finish());
        let mut next = 0;
        let mut bytes = Vec::new();
        while next < output.bytes_total() {
            let page = output.page(next, 10).unwrap();
            bytes.extend_from_slice(&page.bytes);
            next = page.next;
        }
        assert_eq!(bytes, pages.0, "cap {max}: the same when it is over");
    }
}

#[test]
fn a_page_in_the_hole_begins_behind_it() {
    let mut store = HeadTail::new(200);
    store.push(&[b'x'; 1_000]);
    let Kept { head, tail, total } = store.kept();
    assert_eq!((head, total - tail), (76, 76), "half of what the marker leaves");
    for asked in [head, head + 1, tail - 1] {
        let page = store.kept().page(asked, 10, |range| store.copy(range).into());
        assert_eq!((page.offset, page.next, page.dropped), (tail, tail + 10, Some(asked..tail)));
    }
    for asked in [total, total + 5] {
        let page = store.kept().page(asked, 10, |range| store.copy(range).into());
        assert_eq!((page.bytes.len(), page.offset, page.next, page.dropped), (0, asked, asked, None));
    }
}

#[test]
fn a_page_is_bounded_whatever_is_asked_for() {
    let mut store = HeadTail::new(1 << 20);
    store.push(&vec![b'x'; 1 << 19]);
    for max in [0, usize::MAX] {
        let page = store.kept().page(0, max, |range| store.copy(range).into());
        assert_eq!(page.bytes.len(), OUTPUT_PAGE_BYTES_MAX);
    }
}

#[test]
fn memory_is_flat_whatever_is_pushed() {
    let max = 64 * 1024;
    for chunk in [vec![0; 32 * 1024], b"\xE2\x82".repeat(16 * 1024), vec![b'x']] {
        let mut store = HeadTail::new(max as u64);
        assert_eq!(store.memory(), 0);
        for _ in 0..(64 << 20) / chunk.len().max(1_000) {
            store.push(&chunk);
            assert!(store.memory() <= max + SLACK, "{} bytes held", store.memory());
        }
        assert!(store.finish().bytes().len() <= max);
    }
    let mut store = HeadTail::new(64 << 20);
    store.push(b"done\n");
    assert!(store.memory() < 100, "{} bytes held", store.memory());
}

/// Bytes with much UTF-8, some that is broken.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("é".as_bytes().to_vec()),
        Just("€".as_bytes().to_vec()),
        Just("😀".as_bytes().to_vec()),
        Just(b"word\n".to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
        Just("€".repeat(60).into_bytes()),
    ];
    prop::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_stream_matches_the_reference(
        all in stream(),
        max in 1usize..600,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(all.len() + 1)).collect();
        cuts.extend([0, all.len()]);
        cuts.sort_unstable();
        let writes: Vec<_> = cuts.windows(2).map(|cut| &all[cut[0]..cut[1]]).collect();
        let output = kept(max, &writes);
        prop_assert_eq!(output.bytes(), &reference(max, &all));
        prop_assert_eq!(output.bytes_total(), all.len() as u64);
        prop_assert_eq!(output.is_truncated(), all.len() > max);
    }
}
