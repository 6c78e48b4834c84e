//! The template of `--each`: where in it the line of input goes. A place is filled only where it is certain how the
//! shell reads it; all else is refused, and whoever needs it writes `$FANIN_LINE` there. It never guesses.

use super::{EachError, LINE_VARIABLE};

/// What stands for the line.
const PLACE: &str = "{}";

/// Where these stand inside double quotes, a place may be one of another language than quoted text.
const DOUBTFUL_QUOTED: [&str; 5] = ["\\", "`", "$(", "${", "$["];
/// The same outside quotes. Some shells reckon inside `((` and `[[`, and reckoning can run a command.
const DOUBTFUL: [&str; 11] = ["\\", "`", "$(", "${", "$[", "$'", "$\"", "#", "<<", "((", "[["];
/// Outside quotes these end a command or belong to more than one; what is appended would go to the last.
const OPERATORS: [char; 7] = ['|', '&', ';', '<', '>', '(', ')'];

/// The quotes that a character stands in. An opening quote stands outside, a closing one inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Double,
    Single,
}

/// The shell line for a template: each `{}` becomes the variable with the line, as one argument. The value of a
/// variable is never read as code, unlike any text put there in its place, however it is quoted.
///
/// A template without `{}` is taken as it is where it names the variable; else the line is its last argument, if it
/// is one simple command.
///
/// # Errors
///
/// [`EachError`] where that is not certain.
pub(crate) fn shell_line(template: &str) -> Result<String, EachError> {
    if template.trim().is_empty() {
        return Err(EachError::Empty);
    }
    let has_place = template.contains(PLACE);
    if !has_place && template.contains(LINE_VARIABLE) {
        return Ok(template.to_owned());
    }
    let (chars, end) = chars(template);
    let filled = fill(template, &chars)?;
    if end != Quotes::None {
        return Err(EachError::Unclosed);
    }
    match (has_place, is_simple(&chars)) {
        (true, _) => Ok(filled),
        (false, true) => Ok(format!("{filled} \"${{{LINE_VARIABLE}}}\"")),
        (false, false) => Err(EachError::NoPlace),
    }
}

/// Each character with its place in bytes and its quotes, and the quotes at the end. They hold only where nothing
/// doubtful comes before.
fn chars(template: &str) -> (Vec<(usize, char, Quotes)>, Quotes) {
    let mut quotes = Quotes::None;
    let mut chars = Vec::with_capacity(template.len());
    for (at, c) in template.char_indices() {
        chars.push((at, c, quotes));
        quotes = match (quotes, c) {
            (Quotes::None, '"') => Quotes::Double,
            (Quotes::None, '\'') => Quotes::Single,
            (Quotes::Double, '"') | (Quotes::Single, '\'') => Quotes::None,
            (same, _) => same,
        };
    }
    (chars, quotes)
}

fn fill(template: &str, chars: &[(usize, char, Quotes)]) -> Result<String, EachError> {
    if template.contains('\n') {
        return Err(EachError::Unsure("\\n"));
    }
    let mut out = String::with_capacity(template.len() + 16);
    let (mut last, mut last_but_blanks) = (' ', ' ');
    let mut chars = chars.iter().copied();
    while let Some((at, c, quotes)) = chars.next() {
        let rest = template.get(at..).unwrap_or_default();
        let doubtful: &[&str] = match quotes {
            Quotes::None => &DOUBTFUL,
            Quotes::Double => &DOUBTFUL_QUOTED,
            Quotes::Single => &[],
        };
        if let Some(found) = doubtful.iter().find(|doubtful| rest.starts_with(**doubtful)) {
            return Err(EachError::Unsure(found));
        }
        match (quotes, rest.starts_with(PLACE)) {
            // The index of an array, which is reckoned.
            (Quotes::None, _) if c == '[' && (last.is_alphanumeric() || last == '_') => {
                return Err(EachError::Unsure("["));
            }
            // The body of a function.
            (Quotes::None, true) if last_but_blanks == ')' => return Err(EachError::Unsure(")")),
            (Quotes::Single, true) => return Err(EachError::SingleQuoted),
            (Quotes::None, true) => out.push_str(&format!("\"${{{LINE_VARIABLE}}}\"")),
            (Quotes::Double, true) => out.push_str(&format!("${{{LINE_VARIABLE}}}")),
            (_, false) => out.push(c),
        }
        if rest.starts_with(PLACE) {
            chars.next();
        }
        last = c;
        if !is_blank(c) {
            last_but_blanks = c;
        }
    }
    Ok(out)
}

/// True for a command with arguments and nothing beside it.
fn is_simple(chars: &[(usize, char, Quotes)]) -> bool {
    let is_outside = |quotes| quotes == Quotes::None;
    let has_operator = chars.iter().any(|(_, c, quotes)| is_outside(*quotes) && OPERATORS.contains(c));
    let mut words = chars.split(|(_, c, quotes)| is_outside(*quotes) && is_blank(*c));
    // After assignments alone the line would be the name of the command.
    let has_name = words
        .any(|word| !word.is_empty() && !word.iter().any(|(_, c, quotes)| is_outside(*quotes) && *c == '='));
    !has_operator && has_name
}

const fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

#[cfg(test)]
mod tests;
