//! The limits of one job: what may be set, what holds where nothing is set, and which of them contradict. It decides
//! nothing about a job.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::budget::{Budget, usd};
use crate::job::JobKind;
use crate::limits::{
    AGENT_IDLE, AGENT_REPEATS_MAX, AGENT_RUN, GRACE_MAX, LIMIT_MAX, RETRIES_MAX, START_WAIT, USD_MICROS_MAX,
    WATCH_FIRINGS_MAX, WATCH_LIFE_MAX,
};
use crate::spec::{SpecError, millis};
use crate::text;

/// What becomes of a job whose run was interrupted by the end of its supervisor (RE-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resume {
    /// It has failed: what it did may have taken effect.
    #[default]
    Fail,
    /// It is started again from its beginning, [`CRASHED_RUNS_MAX`](crate::limits::CRASHED_RUNS_MAX) times at the most.
    /// For work that may be done twice.
    Rerun,
}

impl Resume {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Rerun => "rerun",
        }
    }
}

/// Limits of one job; times are milliseconds on the wire. What is not set has the default of its kind (SC-14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct JobLimits {
    /// From launch to the first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_ms: Option<u64>,
    /// From the start of a run until its runner has the work in hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<u64>,
    /// One run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<u64>,
    /// All runs and the gaps between them, from the first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_ms: Option<u64>,
    /// A run without a sign of work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// Between the polite stop and the forced one; without a value the supervisor's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// Tries after the first one, where a run fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Calls of one tool with the same arguments in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// What becomes of it where its supervisor ends before it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// What it, and all below it, may use.
    #[serde(default, skip_serializing_if = "Budget::is_none")]
    pub budget: Budget,
    /// Money that one run of it is expected to cost, in millionths of a US dollar: it starts only where so much is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_usd_micros: Option<u64>,
    /// The job is a watch, and may fire so many times: it holds no slot, nobody waits for its end, and its life is
    /// `total_ms` (SC-22).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firings: Option<u32>,
}

impl JobLimits {
    /// No limit.
    pub const NONE: Self = Self {
        queue_ms: None,
        start_ms: None,
        run_ms: None,
        total_ms: None,
        idle_ms: None,
        grace_ms: None,
        retries: None,
        repeats: None,
        resume: None,
        budget: Budget::NONE,
        estimate_usd_micros: None,
        firings: None,
    };

    /// What holds for a kind of job where nothing is set.
    pub fn of_kind(kind: JobKind) -> Self {
        match kind {
            JobKind::Closure => Self::NONE,
            JobKind::Command => Self { start_ms: Some(millis(START_WAIT)), ..Self::NONE },
            JobKind::Agent => Self {
                start_ms: Some(millis(START_WAIT)),
                run_ms: Some(millis(AGENT_RUN)),
                idle_ms: Some(millis(AGENT_IDLE)),
                repeats: Some(AGENT_REPEATS_MAX),
                ..Self::NONE
            },
        }
    }

    /// With what is not set taken from `defaults`. A default that could never pass, since a limit above it is shorter,
    /// is lowered to that one (B74).
    #[must_use]
    pub fn or(self, defaults: Self) -> Self {
        let fit = |set: Option<u64>, default: Option<u64>, above: [Option<u64>; 2]| {
            let lowest = above.into_iter().flatten().min().unwrap_or(u64::MAX);
            set.or(default.map(|default| default.min(lowest)))
        };
        let total_ms = self.total_ms.or(defaults.total_ms);
        let run_ms = fit(self.run_ms, defaults.run_ms, [total_ms, None]);
        Self {
            queue_ms: self.queue_ms.or(defaults.queue_ms),
            start_ms: fit(self.start_ms, defaults.start_ms, [run_ms, total_ms]),
            run_ms,
            total_ms,
            idle_ms: fit(self.idle_ms, defaults.idle_ms, [run_ms, total_ms]),
            grace_ms: self.grace_ms.or(defaults.grace_ms),
            retries: self.retries.or(defaults.retries),
            repeats: self.repeats.or(defaults.repeats),
            resume: self.resume.or(defaults.resume),
            budget: if self.budget.is_none() { defaults.budget } else { self.budget },
            estimate_usd_micros: self.estimate_usd_micros.or(defaults.estimate_usd_micros),
            firings: self.firings.or(defaults.firings),
        }
    }

    /// Checks that each limit can be honoured, and that no two of them contradict.
    ///
    /// # Errors
    ///
    /// [`SpecError`] names the limit that is zero or too long, or both that contradict (B74).
    pub fn check(&self) -> Result<(), SpecError> {
        let times = [
            ("queue_timeout", self.queue_ms),
            ("start_timeout", self.start_ms),
            ("timeout", self.run_ms),
            ("total_timeout", self.total_ms),
            ("idle", self.idle_ms),
        ];
        times.into_iter().try_for_each(|(field, ms)| time(field, ms))?;
        if let Some(grace) = self.grace_ms.filter(|grace| Duration::from_millis(*grace) > GRACE_MAX) {
            return Err(SpecError::new("grace", format!("{grace} ms is more than one hour")));
        }
        if let Some(retries) = self.retries.filter(|retries| *retries > RETRIES_MAX) {
            return Err(SpecError::new("retries", format!("{retries}; at most {RETRIES_MAX} are allowed")));
        }
        if self.repeats == Some(0) {
            return Err(SpecError::new("repeats", "zero would end it at its first call; use 1 or more"));
        }
        if let Some(estimate) = self.estimate_usd_micros.filter(|estimate| *estimate > USD_MICROS_MAX) {
            return Err(SpecError::new("estimate", format!("{} is no estimate", usd(estimate))));
        }
        self.budget.check()?;
        self.check_watch()?;
        self.contradictions()
    }

    /// A watch is bounded in its firings and in its life.
    fn check_watch(&self) -> Result<(), SpecError> {
        let Some(firings) = self.firings else { return Ok(()) };
        if !(1..=WATCH_FIRINGS_MAX).contains(&firings) {
            let problem = format!("{firings}; a watch fires 1 to {WATCH_FIRINGS_MAX} times");
            return Err(SpecError::new("times", problem));
        }
        if self.total_ms.is_none_or(|ms| ms > millis(WATCH_LIFE_MAX)) {
            let max = text::duration(millis(WATCH_LIFE_MAX));
            let problem = format!("a watch needs one of {max} at the most: that is its life");
            return Err(SpecError::new("total_timeout", problem));
        }
        Ok(())
    }

    /// A limit that can never pass, and the one that always passes first, by their names; `None` where there is no such
    /// pair (B74).
    pub fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        self.overtaken().map(|((below, _), (above, _))| (below, above))
    }

    fn contradictions(&self) -> Result<(), SpecError> {
        let Some(((field, ms), (above, limit))) = self.overtaken() else { return Ok(()) };
        let (ms, limit) = (text::duration(ms), text::duration(limit));
        let problem = format!(
            "{ms} can never pass, since `{above}` ({limit}) comes first; lower it, or raise `{above}`"
        );
        Err(SpecError::new(field, problem))
    }

    /// The first limit that another one overtakes, and that one.
    fn overtaken(&self) -> Option<(Limit, Limit)> {
        let (total, run) = (("total_timeout", self.total_ms), ("timeout", self.run_ms));
        let (start, idle) = (("start_timeout", self.start_ms), ("idle", self.idle_ms));
        let pairs = [(run, total), (start, run), (start, total), (idle, run), (idle, total)];
        let both = |((below, ms), (above, limit)): ((_, Option<u64>), (_, Option<u64>))| {
            Some(((below, ms?), (above, limit?)))
        };
        pairs.into_iter().filter_map(both).find(|((_, ms), (_, limit))| ms > limit)
    }
}

/// A limit by its name, in milliseconds.
type Limit = (&'static str, u64);

fn time(field: &'static str, ms: Option<u64>) -> Result<(), SpecError> {
    match ms {
        Some(0) => Err(SpecError::new(field, "zero would end it before it began; leave it out for no limit")),
        Some(ms) if Duration::from_millis(ms) > LIMIT_MAX => {
            Err(SpecError::new(field, format!("{ms} ms is more than ten years; leave it out for no limit")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    #[test]
    fn a_default_is_lowered_to_fit_what_is_set() {
        let agent = JobLimits::of_kind(JobKind::Agent);
        let short = JobLimits { total_ms: Some(5 * MINUTE), ..JobLimits::NONE }.or(agent);
        assert_eq!((short.run_ms, short.idle_ms), (Some(5 * MINUTE), Some(5 * MINUTE)));
        assert_eq!(short.start_ms, Some(MINUTE));
        let brief = JobLimits { run_ms: Some(7), ..JobLimits::NONE }.or(agent);
        assert_eq!((brief.start_ms, brief.idle_ms, brief.total_ms), (Some(7), Some(7), None));
        assert_eq!(short.check(), Ok(()));
    }

    #[test]
    fn what_is_set_wins_over_a_default() {
        let set = JobLimits { idle_ms: Some(MINUTE), repeats: Some(3), ..JobLimits::NONE };
        let all = set.or(JobLimits::of_kind(JobKind::Agent));
        assert_eq!((all.idle_ms, all.repeats, all.run_ms), (Some(MINUTE), Some(3), Some(30 * MINUTE)));
        assert_eq!(set.or(JobLimits::of_kind(JobKind::Closure)), set);
    }

    #[test]
    fn limits_that_contradict_are_refused_and_both_are_named() {
        let total = JobLimits { run_ms: Some(2 * MINUTE), total_ms: Some(MINUTE), ..JobLimits::NONE };
        let error = total.check().unwrap_err().to_string();
        assert!(error.starts_with("timeout: 2m00s") && error.contains("`total_timeout` (1m00s)"), "{error}");
        for (below, above) in [
            (
                JobLimits { start_ms: Some(2), ..JobLimits::NONE },
                JobLimits { run_ms: Some(1), ..JobLimits::NONE },
            ),
            (
                JobLimits { start_ms: Some(2), ..JobLimits::NONE },
                JobLimits { total_ms: Some(1), ..JobLimits::NONE },
            ),
            (
                JobLimits { idle_ms: Some(2), ..JobLimits::NONE },
                JobLimits { run_ms: Some(1), ..JobLimits::NONE },
            ),
            (
                JobLimits { idle_ms: Some(2), ..JobLimits::NONE },
                JobLimits { total_ms: Some(1), ..JobLimits::NONE },
            ),
        ] {
            assert_eq!((below.check(), above.check()), (Ok(()), Ok(())));
            below.or(above).check().unwrap_err();
        }
        let equal = JobLimits { idle_ms: Some(1), run_ms: Some(1), total_ms: Some(1), ..JobLimits::NONE };
        assert_eq!(equal.check(), Ok(()));
    }

    #[test]
    fn a_limit_of_zero_or_of_ages_is_refused() {
        for field in ["queue_ms", "start_ms", "run_ms", "total_ms", "idle_ms"] {
            for (value, fits) in [(0, false), (1, true), (millis(LIMIT_MAX), true), (u64::MAX, false)] {
                let limits: JobLimits = serde_json::from_value(serde_json::json!({ field: value })).unwrap();
                assert_eq!(limits.check().is_ok(), fits, "{field} {value}");
            }
        }
        JobLimits { retries: Some(RETRIES_MAX + 1), ..JobLimits::NONE }.check().unwrap_err();
        JobLimits { repeats: Some(0), ..JobLimits::NONE }.check().unwrap_err();
    }

    #[test]
    fn a_watch_is_bounded_in_its_firings_and_in_its_life() {
        let watch = |firings, total_ms| {
            JobLimits { firings: Some(firings), total_ms, ..JobLimits::NONE }.check().is_ok()
        };
        let day = millis(WATCH_LIFE_MAX);
        assert!(watch(1, Some(1)) && watch(WATCH_FIRINGS_MAX, Some(day)));
        assert!(!watch(0, Some(1)) && !watch(WATCH_FIRINGS_MAX + 1, Some(1)));
        assert!(!watch(1, None) && !watch(1, Some(day + 1)));
    }
}
