//! Marks and colours. Colour is for a terminal alone, and not where `NO_COLOR` is set.

use std::io::IsTerminal;

use fanin_protocol::Status;

/// Whether colour is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    colour: bool,
}

/// What a mark stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Not started yet.
    Queued,
    /// At work.
    Running,
    /// Ended well.
    Completed,
    /// Did not end well.
    Failed,
    /// Stopped by somebody.
    Cancelled,
}

impl Mark {
    /// The mark of a status.
    pub(crate) const fn of(status: Status) -> Self {
        match status {
            Status::Queued => Self::Queued,
            Status::Running => Self::Running,
            Status::Completed => Self::Completed,
            Status::Error => Self::Failed,
            Status::Cancelled => Self::Cancelled,
        }
    }
}

impl Style {
    /// No colour.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { colour: false };

    /// The style for what is written to `stream`.
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: stream.is_terminal() && !forbidden && !is_dumb() }
    }

    /// The mark as text, one column wide.
    pub(crate) fn mark(self, mark: Mark) -> String {
        let (sign, colour) = match mark {
            Mark::Queued => ("·", "2"),
            Mark::Running => ("»", "36"),
            Mark::Completed => ("✓", "32"),
            Mark::Failed => ("✗", "31"),
            Mark::Cancelled => ("–", "33"),
        };
        if self.colour { format!("\x1b[{colour}m{sign}\x1b[0m") } else { sign.to_owned() }
    }
}

/// True for a terminal that cannot move its cursor.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_only_around_the_sign() {
        assert_eq!(Style::PLAIN.mark(Mark::Failed), "✗");
        assert_eq!(Style { colour: true }.mark(Mark::Failed), "\x1b[31m✗\x1b[0m");
    }
}
