//! `fanin output`: what a job put out, as its store keeps it. Text is made harmless unless the bytes are asked for.

use std::io::{self, Write};
use std::thread;

use fanin_protocol::limits::{ESCAPE_HELD_BYTES_MAX, FOLLOW_EVERY};
use fanin_protocol::text;
use fanin_supervisor::JobOutput;

use crate::exit::Exit;
use crate::look::{State, Where};
use crate::stores::{Found, LookError};

/// The words of `fanin output`.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// The job: its id, or 4 hex digits or more of it
    #[arg(value_name = "JOB")]
    job: String,

    /// Go on with what comes, to the end of a job that is not over
    #[arg(short, long)]
    follow: bool,

    /// The bytes as they came, control characters and all, and nothing else: what is left out is said on standard error
    #[arg(long)]
    raw: bool,

    #[command(flatten)]
    place: Where,
}

/// Prints the output of a job. `warn` is told what the bytes themselves cannot say.
///
/// # Errors
///
/// [`LookError`].
pub(crate) fn run(
    args: &OutputArgs,
    state: &State,
    out: &mut dyn Write,
    warn: &dyn Fn(&str),
) -> Result<Exit, LookError> {
    let found = args.place.places(state)?.find(&args.job)?;
    let (job, stored) = (found.job()?, &found.stored);
    let mut shown = Shown { out, warn, is_raw: args.raw, held: Vec::new(), is_line: false };
    if args.follow && !found.is_over() {
        let end = follow(&found, &mut shown);
        shown.end()?;
        shown.out.flush()?;
        return end.map(|()| Exit::Done);
    }
    if let Some(output) = stored.output(job)? {
        shown.all(&output)?;
    }
    shown.end()?;
    Ok(Exit::Done)
}

/// Writes what comes until the job is over.
///
/// # Errors
///
/// [`LookError`], also where its supervisor died.
fn follow(found: &Found, shown: &mut Shown<'_>) -> Result<(), LookError> {
    let Some(mut output) = found.stored.follow(found.job()?, 0) else { return Ok(()) };
    loop {
        // First: what an owner that goes in between has written last is read after that.
        let is_owned = found.place.is_owned()?;
        while let Some(page) = output.next_page()? {
            if let Some(dropped) = page.dropped {
                shown.left_out(dropped.end - dropped.start)?;
            }
            shown.write(&page.bytes)?;
        }
        shown.out.flush()?;
        if output.is_over() || !is_owned && !found.may_go_on()? {
            return Ok(());
        }
        thread::sleep(FOLLOW_EVERY);
    }
}

/// What is shown of an output, which comes in parts.
struct Shown<'o> {
    out: &'o mut dyn Write,
    /// Where that is said which is not of the output.
    warn: &'o dyn Fn(&str),
    is_raw: bool,
    /// The beginning of something whose end is still to come.
    held: Vec<u8>,
    /// The last line was begun and has not ended.
    is_line: bool,
}

impl Shown<'_> {
    /// Writes all that was kept.
    fn all(&mut self, output: &JobOutput) -> io::Result<()> {
        if !self.is_raw {
            return self.write(output.bytes());
        }
        if output.is_excerpt() {
            (self.warn)(
                "only an excerpt of this output is kept, as text, and with a mark where something is left out",
            );
        }
        let mut end = 0;
        for (at, piece) in output.pieces() {
            if at > end {
                self.left_out(at - end)?;
            }
            self.write(&piece)?;
            end = at + piece.len() as u64;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_raw {
            return self.out.write_all(bytes);
        }
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let (whole, rest) = held.split_at(whole_len(&held));
        self.held.extend_from_slice(rest);
        self.text(whole)
    }

    fn text(&mut self, bytes: &[u8]) -> io::Result<()> {
        let all = String::from_utf8_lossy(bytes);
        let shown = text::printable(&all);
        self.is_line = if shown.is_empty() { self.is_line } else { !shown.ends_with('\n') };
        self.out.write_all(shown.as_bytes())
    }

    /// Says how much is missing, between lines of its own, or beside the bytes.
    fn left_out(&mut self, bytes: u64) -> io::Result<()> {
        if self.is_raw {
            (self.warn)(&format!("of the middle of this output {bytes} bytes are left out"));
            return Ok(());
        }
        self.end()?;
        writeln!(self.out, "[... {bytes} bytes left out ...]")
    }

    /// Ends what was begun.
    fn end(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        self.text(&held)?;
        if std::mem::take(&mut self.is_line) { self.out.write_all(b"\n") } else { Ok(()) }
    }
}

/// How many of these bytes can be shown whatever follows: what comes before the beginning of a character, of an escape
/// sequence, or of the end of a line.
fn whole_len(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(ESCAPE_HELD_BYTES_MAX);
    let begun = bytes.iter().rposition(|byte| matches!(byte, 0x1b | b'\n')).filter(|at| *at >= last);
    let escape = begun.filter(|at| bytes.get(*at) == Some(&0x1b));
    let line = bytes.len() - usize::from(bytes.last() == Some(&b'\r'));
    characters_len(bytes).min(line).min(escape.unwrap_or(line))
}

/// How many of these bytes come before the beginning of a character whose end is still to come.
fn characters_len(bytes: &[u8]) -> usize {
    let (mut at, mut rest) = (0, bytes);
    loop {
        match std::str::from_utf8(rest) {
            Ok(_) => return bytes.len(),
            Err(error) => match error.error_len() {
                None => return at + error.valid_up_to(),
                Some(wrong) => {
                    at += error.valid_up_to() + wrong;
                    rest = bytes.get(at..).unwrap_or_default();
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_raw: bool, parts: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let mut shown = Shown { out: &mut out, warn: &|_| {}, is_raw, held: Vec::new(), is_line: false };
        for part in parts {
            shown.write(part).unwrap();
        }
        shown.end().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn parts_are_shown_as_the_whole_is() {
        let whole = "a€b\u{1f980}\x1b[31mred\n\nend".as_bytes();
        let wrong = [whole, b"\xff\xe2\x82", whole, b"\xf0\x9f"].concat();
        for bytes in [whole, &wrong] {
            let at_once = shown(false, &[bytes]);
            for cut in 0..=bytes.len() {
                let (first, second) = bytes.split_at(cut);
                assert_eq!(shown(false, &[first, second]), at_once, "cut at {cut}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(shown(false, &single), at_once);
        }
        assert!(!shown(false, &[whole]).contains('\x1b'));
        assert_eq!(shown(true, &[whole]).as_bytes(), whole);
    }

    #[test]
    fn what_is_left_out_is_said_on_a_line_of_its_own() {
        let mut out = Vec::new();
        let mut shown =
            Shown { out: &mut out, warn: &|_| {}, is_raw: false, held: Vec::new(), is_line: false };
        shown.write(b"start \xe2").unwrap();
        shown.left_out(7).unwrap();
        shown.write(b"end\n").unwrap();
        shown.end().unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "start \u{fffd}\n[... 7 bytes left out ...]\nend\n");
    }
}
