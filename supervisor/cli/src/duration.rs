//! Durations as people write them, on the command line and in a manifest. It never guesses: one number, one unit.

use std::time::Duration;

use fanin_protocol::limits::LIMIT_MAX;

/// Why a text is no duration that could be used. It fits after the name of the key or flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DurationError {
    /// It has another form.
    #[error("`{0}` is no duration; write a whole number and one unit: 500ms, 30s, 5m or 2h")]
    Form(String),
    /// It would end things before they began.
    #[error("`{0}` would end it before it began; leave it out for no limit")]
    Zero(String),
    /// It is beyond what a clock can be trusted with.
    #[error("`{0}` is more than ten years; leave it out for no limit")]
    TooLong(String),
}

/// Reads a duration, zero included.
///
/// # Errors
///
/// [`DurationError::Form`] and [`DurationError::TooLong`].
pub(crate) fn parse(text: &str) -> Result<Duration, DurationError> {
    let form = || DurationError::Form(text.to_owned());
    let too_long = || DurationError::TooLong(text.to_owned());
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).ok_or_else(form)?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(form()),
    };
    if number.is_empty() {
        return Err(form());
    }
    // All digits: what does not fit is too long, not malformed.
    let ms = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit_ms)).ok_or_else(too_long)?;
    let duration = Duration::from_millis(ms);
    if duration > LIMIT_MAX { Err(too_long()) } else { Ok(duration) }
}

/// Reads a duration that limits something.
///
/// # Errors
///
/// As [`parse`], and [`DurationError::Zero`].
pub(crate) fn parse_limit(text: &str) -> Result<Duration, DurationError> {
    match parse(text)? {
        Duration::ZERO => Err(DurationError::Zero(text.to_owned())),
        duration => Ok(duration),
    }
}

/// A duration in the largest unit that shows it exactly, as [`parse`] reads it.
pub(crate) fn show(duration: Duration) -> String {
    let ms = duration.as_millis();
    let units = [(3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_units_are_read() {
        let read = ["500ms", "30s", "5m", "2h", "0s"].map(|text| parse(text).unwrap().as_millis());
        assert_eq!(read, [500, 30_000, 300_000, 7_200_000, 0]);
    }

    #[test]
    fn what_is_shown_is_read_as_the_same() {
        for text in ["500ms", "1500ms", "30s", "90s", "5m", "2h", "0ms"] {
            assert_eq!(show(parse(text).unwrap()), text);
        }
    }

    #[test]
    fn other_forms_are_refused_by_their_text() {
        for text in ["", "s", "5", "-5s", "1.5s", "NaN", "1m30s", "5 s", "5S", "5d", "inf", "٣s", "+5s"] {
            assert_eq!(parse(text), Err(DurationError::Form(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_number_beyond_ten_years_is_too_long_and_never_wraps() {
        for text in ["87601h", "99999999999999999999999ms", "18446744073709551615h"] {
            assert_eq!(parse(text), Err(DurationError::TooLong(text.to_owned())));
        }
        assert_eq!(parse("87600h"), Ok(LIMIT_MAX));
    }

    #[test]
    fn a_limit_of_zero_is_refused() {
        assert_eq!(parse_limit("0ms"), Err(DurationError::Zero("0ms".into())));
    }
}
