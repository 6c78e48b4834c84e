//! Cutting text without breaking it, and showing text that nobody vouches for.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

/// The longest start of `text` that is at most `max` bytes and ends between two characters (B62).
pub fn cut(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or_default()
}

/// The longest end of `text` that is at most `max` bytes and begins between two characters.
pub fn cut_front(text: &str, max: usize) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(max))..).unwrap_or_default()
}

/// Head and tail of `text` around a marker that says how many bytes are left out, `max` bytes at the most in all.
///
/// A third goes to the head and the rest to the tail, where a failing program says why. Below 96 bytes there is
/// no room for a marker, and the tail alone is kept.
pub fn excerpt(text: &str, max: usize) -> Cow<'_, str> {
    const MARKER_MAX: usize = 48;
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    if max < 2 * MARKER_MAX {
        return Cow::Borrowed(cut_front(text, max));
    }
    let room = max - MARKER_MAX;
    let head = cut(text, room / 3);
    let tail = cut_front(text, room - room / 3);
    let left_out = text.len() - head.len() - tail.len();
    Cow::Owned(format!("{head}\n[... {left_out} bytes left out ...]\n{tail}"))
}

/// `text` without what could move a terminal's cursor, change its colours or hide text from its reader.
///
/// Escape sequences are dropped whole; other control characters and those that turn the direction of writing are
/// dropped; line feeds and tabs stay; a carriage return before a line feed goes, another becomes a line feed.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => skip_escape(&mut chars),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => out.push('\n'),
            c if is_unsafe(c) => {}
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Writes text of somebody else between marks that hold this number, which its writer cannot know: a line of it that looks
/// like a mark is escaped, so that it can neither close its own frame nor forge another (R-5). `what` says what it is.
pub fn frame(out: &mut String, text: &str, nonce: u64, what: &str) {
    // A `String` takes all that is written.
    let _ = writeln!(out, "<<<{nonce:016x} {}", one_line(what));
    let mark = format!("{nonce:016x}");
    for line in printable(text).lines() {
        if line.contains(&mark) {
            out.push_str("\\ ");
        }
        out.push_str(line);
        out.push('\n');
    }
    let _ = writeln!(out, ">>>{nonce:016x}");
}

/// [`printable`] text on one line: breaks and tabs become spaces.
pub fn one_line(text: &str) -> String {
    printable(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A path for people, as a shell takes it: as it is where nothing in it means anything to one, else in quotes. Nothing of it
/// is left out, and nothing reaches a terminal that is no text.
pub fn path(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:=@%".contains(c);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) => {
            text.to_owned()
        }
        Ok(text) if !text.chars().any(|c| is_unsafe(c) || matches!(c, '\n' | '\t')) => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        Ok(_) | Err(_) => {
            let by_number =
                |bytes: &[u8]| bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
            let shown = |c: char| match c {
                '\'' | '\\' => format!("\\{c}"),
                c if is_unsafe(c) || matches!(c, '\n' | '\t') => {
                    by_number(c.encode_utf8(&mut [0; 4]).as_bytes())
                }
                c => c.to_string(),
            };
            let chunk = |chunk: std::str::Utf8Chunk<'_>| {
                chunk.valid().chars().map(shown).chain([by_number(chunk.invalid())]).collect::<String>()
            };
            format!("$'{}'", bytes.utf8_chunks().map(chunk).collect::<String>())
        }
    }
}

fn is_unsafe(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Drops the rest of an escape sequence: CSI up to its final byte, OSC and its kin up to BEL or ST.
fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            while let Some(c) = chars.peek().copied() {
                if c != '\x1b' && !c.is_control() {
                    chars.next();
                }
                if !matches!(c, ' '..='?') {
                    break;
                }
            }
        }
        Some(']' | 'P' | '^' | '_' | 'X') => {
            // A sequence that is never closed ends at the line, so that it cannot swallow the rest.
            while let Some(c) = chars.peek().copied() {
                if c == '\n' {
                    break;
                }
                chars.next();
                if c == '\x07' {
                    break;
                }
                if c == '\x1b' {
                    chars.next_if_eq(&'\\');
                    break;
                }
            }
        }
        Some(c) if !c.is_control() => {
            chars.next();
        }
        _ => {}
    }
}

/// A duration for people: `450ms`, `3.2s`, `4m07s`, `2h05m`.
pub fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{}.{}s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{}m{:02}s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{}h{:02}m", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cutting_at_every_offset_keeps_whole_characters() {
        let text = "aé€😀".repeat(40);
        for max in 0..=text.len() + 1 {
            assert!(cut(&text, max).len() <= max);
            assert!(cut_front(&text, max).len() <= max);
            assert!(excerpt(&text, max).len() <= max.max(text.len().min(max)));
            assert!(text.starts_with(cut(&text, max)));
            assert!(text.ends_with(cut_front(&text, max)));
        }
    }

    #[test]
    fn an_excerpt_says_how_much_is_missing() {
        let text = format!("start{}end", "x".repeat(1_000));
        let cut = excerpt(&text, 200);
        assert!(cut.starts_with("start") && cut.ends_with("end"));
        let left: usize = cut.split("[... ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let kept = cut.matches('x').count() + "startend".len();
        assert_eq!(kept + left, text.len());
    }

    #[test]
    fn escape_sequences_are_dropped_and_plain_text_stays() {
        assert_eq!(printable("\x1b[1;31mred\x1b[0m"), "red");
        assert_eq!(printable("a\x1b]0;title\x07b"), "ab");
        assert_eq!(printable("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b"), "alinkb");
        assert_eq!(printable("10%\r20%\r\ndone"), "10%\n20%\ndone");
        assert_eq!(printable("tab\tstays"), "tab\tstays");
        assert_eq!(printable("\x1b]0;open\nnext"), "\nnext");
        assert_eq!(printable("file\u{202e}gnp.exe"), "filegnp.exe");
    }

    #[test]
    fn a_path_is_shown_whole_and_as_a_shell_takes_it() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        for (path_is, shown) in [
            (&b"/srv/a-b_c.d/\xc3\xa9.db"[..], "/srv/a-b_c.d/\u{e9}.db"),
            (b"", "''"),
            (b"-rf", "'-rf'"),
            (b"/a b  c/~", "'/a b  c/~'"),
            (b"/it's $HOME", r"'/it'\''s $HOME'"),
            (b"/\x1b[31mred\nfanin: exit 0", r"$'/\x1b[31mred\x0afanin: exit 0'"),
            (b"/a\xff'\\\xe2\x80\xae", r"$'/a\xff\'\\\xe2\x80\xae'"),
        ] {
            assert_eq!(path(Path::new(OsStr::from_bytes(path_is))), shown);
        }
    }

    #[test]
    fn durations_read_well() {
        let shown = [450, 3_249, 247_000, 7_500_000].map(duration);
        assert_eq!(shown, ["450ms", "3.2s", "4m07s", "2h05m"]);
    }

    proptest! {
        #[test]
        fn printable_text_has_no_control_left(text in any::<String>()) {
            let shown = printable(&text);
            prop_assert!(!shown.chars().any(is_unsafe));
            prop_assert_eq!(printable(&shown).into_owned(), shown.clone().into_owned());
        }

        #[test]
        fn an_excerpt_never_passes_its_cap(text in any::<String>(), max in 0usize..300) {
            prop_assert!(excerpt(&text, max).len() <= max);
        }
    }
}
