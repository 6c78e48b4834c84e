//! What a watch looks at and when it fires, as plain data, and what it tells then. It looks at nothing itself.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{JobId, Lifetime};
use crate::limits::{LIMIT_MAX, WATCH_EVERY_MIN, WATCH_PATTERN_BYTES_MAX};
use crate::private::Private;
use crate::spec::{CommandSpec, SpecError, millis};
use crate::text;

/// A watch: what is looked at, how often, and when it fires. It fires where its condition *comes* true, and not again
/// while it stays so. How often it may fire, and how long it lives, is said by its limits (SC-22).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchSpec {
    /// What is looked at.
    pub of: Watched,
    /// When it fires.
    pub when: When,
    /// Time between two firings at the least; what comes meanwhile is told with the next one. Without a value
    /// [`WATCH_GAP`](crate::limits::WATCH_GAP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<u64>,
}

/// What a watch looks at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Watched {
    /// A command that is run again and again, one check after the other and never two at a time.
    Checks {
        /// The command.
        command: CommandSpec,
        /// From the begin of one check to that of the next; a check that takes longer leaves out those that it is in the
        /// way of. Without a value [`WATCH_EVERY`](crate::limits::WATCH_EVERY).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        every_ms: Option<u64>,
        /// How long one check may take. Without a value [`WATCH_CHECK`](crate::limits::WATCH_CHECK).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check_ms: Option<u64>,
    },
    /// A command that goes on, and whose lines are looked at as they come.
    Lines {
        /// The command.
        command: CommandSpec,
    },
    /// The lines that another job of the same session puts out, from its first one on, also where they were there before.
    Output {
        /// The job.
        job: JobId,
    },
}

/// When a watch fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// The check ends with status 0, and the one before did not.
    Succeeds,
    /// The check puts out something else than the one before.
    Changes,
    /// A line matches this regular expression; of a check, other lines than in the one before.
    Matches(String),
}

impl WatchSpec {
    /// A command that is checked at an interval.
    pub const fn checks(command: CommandSpec, when: When) -> Self {
        Self { of: Watched::Checks { command, every_ms: None, check_ms: None }, when, gap_ms: None }
    }

    /// The lines of a command that goes on, as they come.
    pub fn lines(command: CommandSpec, pattern: impl Into<String>) -> Self {
        Self { of: Watched::Lines { command }, when: When::Matches(pattern.into()), gap_ms: None }
    }

    /// The lines of another job, as they come.
    pub fn output(job: JobId, pattern: impl Into<String>) -> Self {
        Self { of: Watched::Output { job }, when: When::Matches(pattern.into()), gap_ms: None }
    }

    /// The command that it runs; `None` where it looks at another job.
    pub const fn command(&self) -> Option<&CommandSpec> {
        match &self.of {
            Watched::Checks { command, .. } | Watched::Lines { command } => Some(command),
            Watched::Output { .. } => None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), SpecError> {
        if let Some(command) = self.command() {
            command.check()?;
        }
        let least = |field: &'static str, ms: Option<u64>, least: u64| match ms {
            Some(ms) if ms < least => {
                let (ms, least) = (text::duration(ms), text::duration(least));
                Err(SpecError::new(field, format!("{ms} is less than {least}")))
            }
            Some(ms) if ms > millis(LIMIT_MAX) => {
                Err(SpecError::new(field, format!("{ms} ms is more than ten years")))
            }
            _ => Ok(()),
        };
        least("gap", self.gap_ms, millis(WATCH_EVERY_MIN))?;
        if let Watched::Checks { every_ms, check_ms, .. } = &self.of {
            least("every", *every_ms, millis(WATCH_EVERY_MIN))?;
            least("check_timeout", *check_ms, 1)?;
        }
        match (&self.of, &self.when) {
            (_, When::Matches(pattern)) if pattern.is_empty() => {
                Err(SpecError::new("pattern", "it is empty and would match every line"))
            }
            (_, When::Matches(pattern)) if pattern.len() > WATCH_PATTERN_BYTES_MAX => {
                let problem =
                    format!("{} bytes; at most {WATCH_PATTERN_BYTES_MAX} are allowed", pattern.len());
                Err(SpecError::new("pattern", problem))
            }
            (Watched::Lines { .. } | Watched::Output { .. }, When::Succeeds | When::Changes) => {
                Err(SpecError::new("pattern", "lines are looked at as they come, so say which ones count"))
            }
            _ => Ok(()),
        }
    }
}

/// A firing of a watch, as its parent is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// The watch.
    pub job: JobId,
    /// Which life of it.
    pub lifetime: Lifetime,
    /// What its launcher called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Arc<str>>,
    /// Which firing, from 1.
    pub number: u32,
    /// What it has seen: data, whoever wrote it.
    pub text: Private<Arc<str>>,
}

impl Hit {
    /// What people call the watch.
    pub fn name(&self) -> String {
        self.label.as_deref().map_or_else(|| self.job.to_string(), text::one_line)
    }

    /// What it has seen.
    pub fn seen(&self) -> &str {
        self.text.reveal().map_or("", |text| &**text)
    }
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "watch {} fired ({})", self.name(), self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(every_ms: Option<u64>, check_ms: Option<u64>) -> WatchSpec {
        let of = Watched::Checks { command: CommandSpec::shell("true"), every_ms, check_ms };
        WatchSpec { of, ..WatchSpec::checks(CommandSpec::shell("true"), When::Succeeds) }
    }

    fn field(watch: &WatchSpec) -> Option<&'static str> {
        watch.check().err().map(|error| error.field)
    }

    #[test]
    fn a_watch_that_would_be_a_loop_is_refused() {
        assert_eq!(field(&checks(None, None)), None);
        assert_eq!(field(&checks(Some(1_000), Some(1))), None);
        assert_eq!(field(&checks(Some(999), None)), Some("every"));
        assert_eq!(field(&checks(None, Some(0))), Some("check_timeout"));
        let gap = WatchSpec { gap_ms: Some(999), ..checks(None, None) };
        assert_eq!(field(&gap), Some("gap"));
        assert_eq!(field(&WatchSpec { gap_ms: Some(u64::MAX), ..gap }), Some("gap"));
    }

    #[test]
    fn lines_need_a_pattern_and_a_command_that_could_be_run() {
        let command = || CommandSpec::shell("tail -F log");
        assert_eq!(field(&WatchSpec::lines(command(), "ERROR")), None);
        assert_eq!(field(&WatchSpec::lines(command(), "")), Some("pattern"));
        let long = "x".repeat(WATCH_PATTERN_BYTES_MAX + 1);
        assert_eq!(field(&WatchSpec::lines(command(), long)), Some("pattern"));
        let of = Watched::Output { job: JobId::parse("a").unwrap() };
        assert_eq!(field(&WatchSpec { of, when: When::Changes, gap_ms: None }), Some("pattern"));
        assert_eq!(field(&WatchSpec::lines(CommandSpec::shell(" "), "x")), Some("shell"));
    }

    #[test]
    fn a_hit_is_named_by_its_label_on_one_line() {
        let job = JobId::parse("w").unwrap();
        let text = Private::new("it is up".into());
        let hit = Hit { job, lifetime: Lifetime(3), label: Some("a\nb".into()), number: 2, text };
        assert_eq!(hit.to_string(), "watch a b fired (2)");
        assert_eq!(hit.seen(), "it is up");
        assert_eq!(Hit { label: None, ..hit }.name(), "w");
    }
}
