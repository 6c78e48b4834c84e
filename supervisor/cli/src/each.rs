//! One task for each line of input. A line is handed to the shell in a variable and never becomes part of the text that
//! this shell reads as a program. What a command makes of its arguments is its own: `eval` and `ssh` read them again.

use std::io::{self, Read};

use fanin_protocol::limits::{GROUP_MEMBERS_MAX, INPUT_BYTES_MAX};

/// The variable that holds the line of a task.
pub(crate) const LINE_VARIABLE: &str = "FANIN_LINE";

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
    /// The system's word.
    #[error("--each: standard input cannot be read: {0}")]
    Read(#[source] io::Error),
}

/// What the shell is inside of at one place of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// Nothing.
    Plain,
    /// `"…"`
    Double,
    /// `'…'`
    Single,
    /// `$(…)`, with the parentheses that are open in it.
    Substitution(u32),
    /// `` `…` ``
    Backticks,
}

/// The shell line for a template: each `{}` becomes the variable with the line, as one argument. Without a `{}` the
/// line is the last argument.
///
/// A text put in place of `{}` could break out of double quotes, backticks or a here-document however it is quoted;
/// this shell never reads the value of a variable as a program, wherever it stands. `\{}` stays as it is.
///
/// # Errors
///
/// [`EachError::Empty`] and [`EachError::SingleQuoted`].
pub(crate) fn shell_line(template: &str) -> Result<String, EachError> {
    if template.trim().is_empty() {
        return Err(EachError::Empty);
    }
    let mut out = String::with_capacity(template.len() + 16);
    let mut stack = vec![Inside::Plain];
    let mut replaced = false;
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        let inside = stack.last().copied().unwrap_or(Inside::Plain);
        let next = chars.peek().copied();
        match (c, inside) {
            ('{', Inside::Single) if next == Some('}') => return Err(EachError::SingleQuoted),
            ('{', _) if next == Some('}') => {
                chars.next();
                replaced = true;
                out.push_str(&variable(inside));
                continue;
            }
            ('\\', Inside::Plain | Inside::Double | Inside::Substitution(_) | Inside::Backticks) => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            ('$', Inside::Plain | Inside::Double | Inside::Substitution(_) | Inside::Backticks)
                if next == Some('(') =>
            {
                chars.next();
                out.push_str("$(");
                stack.push(Inside::Substitution(0));
                continue;
            }
            _ => {}
        }
        out.push(c);
        enter_or_leave(&mut stack, inside, c);
    }
    if !replaced {
        out.push(' ');
        out.push_str(&variable(Inside::Plain));
    }
    Ok(out)
}

/// The variable as one argument: quoted, unless quotes are open already.
fn variable(inside: Inside) -> String {
    match inside {
        Inside::Double => format!("${{{LINE_VARIABLE}}}"),
        Inside::Plain | Inside::Single | Inside::Substitution(_) | Inside::Backticks => {
            format!("\"${{{LINE_VARIABLE}}}\"")
        }
    }
}

/// Follows the quotes and substitutions that `c` opens or closes.
fn enter_or_leave(stack: &mut Vec<Inside>, inside: Inside, c: char) {
    let leave = match (inside, c) {
        (Inside::Single, '\'') | (Inside::Double, '"') | (Inside::Backticks, '`') => true,
        (Inside::Substitution(0), ')') => true,
        (Inside::Substitution(open), ')') => {
            replace_last(stack, Inside::Substitution(open - 1));
            false
        }
        (Inside::Substitution(open), '(') => {
            replace_last(stack, Inside::Substitution(open.saturating_add(1)));
            false
        }
        (Inside::Single, _) => false,
        (Inside::Double, '\'') => false,
        (_, '\'') => return stack.push(Inside::Single),
        (_, '"') => return stack.push(Inside::Double),
        (_, '`') => return stack.push(Inside::Backticks),
        _ => false,
    };
    if leave {
        stack.pop();
    }
}

fn replace_last(stack: &mut [Inside], inside: Inside) {
    if let Some(last) = stack.last_mut() {
        *last = inside;
    }
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
    use std::process::Command;

    const HOSTILE: [&str; 12] = [
        "plain",
        "two words",
        "it's",
        "a\"b",
        "$(touch pwned)",
        "`touch pwned`",
        "; touch pwned",
        "*",
        "-n",
        "$HOME",
        "back\\slash",
        "a'$(touch pwned)'\"`touch pwned`\"b",
    ];

    /// What the shell prints for `template` with `line`, in a folder of its own that must stay empty.
    fn run(template: &str, line: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let shell = shell_line(template).unwrap();
        let output = Command::new("/bin/sh")
            .args(["-c", &shell])
            .env(LINE_VARIABLE, line)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{shell}: {output:?}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{shell} ran {line}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_hostile_line_is_one_argument_wherever_the_braces_stand() {
        for line in HOSTILE {
            assert_eq!(run("printf '<%s>' {}", line), format!("<{line}>"));
            assert_eq!(run("printf '<%s>'", line), format!("<{line}>"));
            assert_eq!(run("printf '<%s>' \"{}\"", line), format!("<{line}>"));
            assert_eq!(run("printf '<%s>' pre{}post", line), format!("<pre{line}post>"));
            assert_eq!(run("printf '<%s>' \"$(printf '<%s>' {})\"", line), format!("<<{line}>>"));
            assert_eq!(run("printf '<%s>' \"`printf '<%s>' {}`\"", line), format!("<<{line}>>"));
        }
    }

    #[test]
    fn a_here_document_does_not_run_the_line() {
        assert!(run("cat <<E\n{}\nE", "$(touch pwned)").contains("$(touch pwned)"));
    }

    #[test]
    fn braces_in_single_quotes_are_refused_and_escaped_ones_stay() {
        assert!(matches!(shell_line("echo '{}'"), Err(EachError::SingleQuoted)));
        assert!(matches!(shell_line("sh -c 'cat {}'"), Err(EachError::SingleQuoted)));
        assert!(matches!(shell_line("  "), Err(EachError::Empty)));
        assert_eq!(
            shell_line(r"find {} -exec cat \{} \;").unwrap(),
            r#"find "${FANIN_LINE}" -exec cat \{} \;"#
        );
        assert_eq!(shell_line(r#"echo "it's" {}"#).unwrap(), r#"echo "it's" "${FANIN_LINE}""#);
    }

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
    fn endless_input_is_cut_off() {
        assert!(matches!(lines(io::repeat(b'x')), Err(EachError::TooLong)));
        assert!(matches!(lines(io::repeat(b'\n')), Err(EachError::TooLong)));
    }
}
