//! One task for each line of input. A line is handed to the shell in a variable and never becomes part of the text that
//! this shell reads as a program. What a command makes of its arguments is its own: `eval` and `ssh` read them again.

mod template;

use std::io::{self, Read};

use fanin_protocol::limits::{GROUP_MEMBERS_MAX, INPUT_BYTES_MAX, VARIABLE_BYTES_MAX};

pub(crate) use template::shell_line;

/// The variable that holds the line of a task.
pub(crate) const LINE_VARIABLE: &str = "FANIN_LINE";

/// Longest line: with its variable's name, `=` and a NUL byte it is one text of an environment.
const LINE_BYTES_MAX: usize = VARIABLE_BYTES_MAX - LINE_VARIABLE.len() - 2;

/// Why a template or its lines cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EachError {
    /// The template has no command.
    #[error("--each: the command is empty")]
    Empty,
    /// The shell does not look into single quotes.
    #[error(
        "--each: `{{}}` stands inside single quotes, where the shell fills in nothing; move it out: \
         `{{}}` is one argument already and needs no quotes"
    )]
    SingleQuoted,
    /// Something besides which nobody can be sure how the shell reads a place.
    #[error(
        "--each: beside `{0}` it is not certain what the shell makes of a line; \
         write \"$FANIN_LINE\" where the line belongs, and no `{{}}`"
    )]
    Unsure(&'static str),
    /// A quote without its end.
    #[error("--each: a quote is not closed")]
    Unclosed,
    /// The line could go to any of several commands.
    #[error("--each: this is not one simple command; write `{{}}` where the line belongs")]
    NoPlace,
    /// Nothing to run.
    #[error("--each: there was no line on standard input, so there is nothing to run")]
    NoLine,
    /// More than a group may have.
    #[error("--each: more than {GROUP_MEMBERS_MAX} lines on standard input; split them over several runs")]
    TooMany,
    /// More than we read.
    #[error("--each: more than {INPUT_BYTES_MAX} bytes on standard input; split them over several runs")]
    TooLong,
    /// The line is no text.
    #[error("--each: line {0} of standard input is not UTF-8")]
    NotUtf8(usize),
    /// The line cannot be an argument of a program.
    #[error("--each: line {0} of standard input holds a NUL byte; end each name with a line feed instead")]
    Nul(usize),
    /// The line cannot be in an environment.
    #[error(
        "--each: line {line} of standard input has {bytes} bytes; at most {} are allowed",
        LINE_BYTES_MAX
    )]
    LongLine {
        /// Its number, from 1.
        line: usize,
        /// Its length.
        bytes: usize,
    },
    /// The system's word.
    #[error("--each: standard input cannot be read: {0}")]
    Read(#[source] io::Error),
}

/// The lines of `input` that are not empty. Blanks belong to a line; only the line feed ends it.
///
/// # Errors
///
/// As the variants of [`EachError`] say.
pub(crate) fn lines(input: impl Read) -> Result<Vec<String>, EachError> {
    let mut bytes = Vec::new();
    let read = input.take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(EachError::Read)?;
    if read as u64 > INPUT_BYTES_MAX {
        return Err(EachError::TooLong);
    }
    let mut lines = Vec::new();
    for (n, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let line = str::from_utf8(line).map_err(|_| EachError::NotUtf8(n + 1))?;
        if line.contains('\0') {
            return Err(EachError::Nul(n + 1));
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(EachError::LongLine { line: n + 1, bytes: line.len() });
        }
        if lines.len() == GROUP_MEMBERS_MAX {
            return Err(EachError::TooMany);
        }
        lines.push(line.to_owned());
    }
    if lines.is_empty() { Err(EachError::NoLine) } else { Ok(lines) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_line_feeds_and_empty_ones_are_skipped() {
        assert_eq!(lines(&b"a b\n\n c \nlast"[..]).unwrap(), ["a b", " c ", "last"]);
    }

    #[test]
    fn input_without_a_line_and_input_that_is_no_text_are_refused() {
        assert!(matches!(lines(&b""[..]), Err(EachError::NoLine)));
        assert!(matches!(lines(&b"\n\n"[..]), Err(EachError::NoLine)));
        assert!(matches!(lines(&b"ok\n\xff\n"[..]), Err(EachError::NotUtf8(2))));
        assert!(matches!(lines(&b"a\0b"[..]), Err(EachError::Nul(1))));
    }

    #[test]
    fn a_line_that_no_environment_takes_is_refused_with_its_number() {
        let longest = "x".repeat(LINE_BYTES_MAX);
        assert_eq!(lines(longest.as_bytes()).unwrap(), [longest.as_str()]);
        let error = lines(format!("a\n\n{longest}x\n").as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--each: line 3 of standard input has 131061 bytes; at most 131060 are allowed"
        );
    }

    #[test]
    fn endless_input_is_cut_off() {
        assert!(matches!(lines(io::repeat(b'x')), Err(EachError::TooLong)));
        assert!(matches!(lines(io::repeat(b'\n')), Err(EachError::TooLong)));
    }
}
