//! Budgets in manifests, flags, variables and calls, and how they are told. It reads and finds words; what is counted is
//! counted elsewhere.

use std::collections::BTreeMap;

use fanin_protocol::limits::USD_MICROS_MAX;
use fanin_protocol::spec::millis;
use fanin_protocol::{Account, Budget, Dimension, JobKind, JobLimits, Spent, budget};

use crate::duration;
use crate::manifest::reader::{Field, Problems, nearest};

/// What a budget can say, wherever it is written.
pub(crate) const KEYS: [&str; 5] = ["usd", "tokens", "steps", "time", "estimate"];

/// A budget on the command line, and in a variable.
const EXAMPLE: &str = "usd=1.50,steps=200,time=2h,estimate=0.25";

/// The largest count.
pub(crate) const COUNT_MAX: u64 = i64::MAX.unsigned_abs();

/// Reads a budget, and the estimate of a start beside it, into limits that have nothing else.
pub(crate) fn read(field: &Field<'_, '_>, prefix: &'static str, problems: &mut Problems<'_>) -> JobLimits {
    let expected = "a table like { usd = 1.50 }";
    let Some(section) = field.section(prefix, expected, problems) else { return JobLimits::NONE };
    section.refuse_unknown(&KEYS, &[], problems);
    let mut money = |key: &str| section.field(key).and_then(|field| field.usd(problems));
    let (usd_micros, estimate_usd_micros) = (money("usd"), money("estimate"));
    let mut count = |key: &str| section.field(key).and_then(|field| field.integer(1, COUNT_MAX, problems));
    let (tokens, steps) = (count("tokens"), count("steps"));
    let ms = section.field("time").and_then(|field| field.duration(problems)).map(millis);
    let budget = Budget { usd_micros, tokens, steps, ms };
    if section.fields().next().is_none() {
        field.wrong("is empty; write { usd = 1.50 }, or one of tokens, steps, time", problems);
    }
    let limits = JobLimits { budget, estimate_usd_micros, ..JobLimits::NONE };
    if let (Some(problem), Some(field)) = (contradiction(&limits), section.field("estimate")) {
        field.wrong(problem, problems);
    }
    limits
}

/// Reads a budget as it stands in a flag or a variable: `usd=1.50,steps=200`.
///
/// # Errors
///
/// What is wrong with it, in one sentence.
pub(crate) fn parse(text: &str) -> Result<JobLimits, String> {
    let mut parts = BTreeMap::new();
    for part in text.split(',') {
        let Some((key, value)) = part.split_once('=') else {
            return Err(format!("`{part}` has no value; write {EXAMPLE}"));
        };
        let (key, value) = (key.trim(), value.trim());
        let Some(known) = KEYS.into_iter().find(|known| *known == key) else {
            return Err(match nearest(key, &KEYS) {
                Some(near) => format!("unknown key `{key}`; did you mean `{near}`?"),
                None => format!("unknown key `{key}`; the keys are {}", KEYS.join(", ")),
            });
        };
        if parts.insert(known, value.to_owned()).is_some() {
            return Err(format!("`{key}` is there twice"));
        }
    }
    of_words(|key| parts.get(key).cloned()).map_err(|problems| {
        let lines: Vec<_> = problems.into_iter().map(|(key, problem)| format!("{key}: {problem}")).collect();
        lines.join("; ")
    })
}

/// A budget whose amounts are words, by their keys, as limits that have nothing else.
///
/// # Errors
///
/// All that is wrong, each with its key.
pub(crate) fn of_words(
    at: impl Fn(&str) -> Option<String>,
) -> Result<JobLimits, Vec<(&'static str, String)>> {
    let mut problems = Vec::new();
    let mut read = |key: &'static str, read: fn(&str) -> Result<u64, String>| {
        let read = read(&at(key)?);
        read.map_err(|problem| problems.push((key, problem))).ok()
    };
    let budget = Budget {
        usd_micros: read("usd", money),
        tokens: read("tokens", count),
        steps: read("steps", count),
        ms: read("time", time),
    };
    let limits = JobLimits { budget, estimate_usd_micros: read("estimate", money), ..JobLimits::NONE };
    problems.extend(contradiction(&limits).map(|problem| ("estimate", problem)));
    if problems.is_empty() { Ok(limits) } else { Err(problems) }
}

/// Money that can be counted.
pub(crate) fn money(text: &str) -> Result<u64, String> {
    let micros = parse_usd(text)?;
    if micros > USD_MICROS_MAX {
        return Err(format!("at most {} can be counted", budget::usd(USD_MICROS_MAX)));
    }
    Ok(micros)
}

/// A count above zero.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count));
    number.ok_or_else(|| format!("`{text}` is no whole number from 1 to {COUNT_MAX}"))
}

fn time(text: &str) -> Result<u64, String> {
    duration::parse_limit(text).map(millis).map_err(|error| error.to_string())
}

/// What `set` says, and of the rest what `below` says, each dimension for itself.
pub(crate) fn over(set: Budget, below: Budget) -> Budget {
    Budget {
        usd_micros: set.usd_micros.or(below.usd_micros),
        tokens: set.tokens.or(below.tokens),
        steps: set.steps.or(below.steps),
        ms: set.ms.or(below.ms),
    }
}

/// What is wrong with an estimate that no start would ever fit with.
fn contradiction(limits: &JobLimits) -> Option<String> {
    let (estimate, usd) = (limits.estimate_usd_micros?, limits.budget.usd_micros?);
    (estimate > usd).then(|| {
        format!(
            "nothing would ever start: {} is more than `usd` ({}); lower it, or raise `usd`",
            budget::usd(estimate),
            budget::usd(usd)
        )
    })
}

/// What is wrong with a budget for tasks of these kinds: nothing that it bounds would ever be told of.
pub(crate) fn problem(budget: Budget, mut kinds: impl Iterator<Item = JobKind>) -> Option<&'static str> {
    let is_told = |kind: JobKind| match kind {
        JobKind::Command => budget.ms.is_some(),
        JobKind::Agent => budget.limits().any(|(dimension, _)| dimension != Dimension::Tokens),
        JobKind::Closure => true,
    };
    let is_bound = budget.is_none() || kinds.any(is_told);
    (!is_bound).then_some(
        "nothing would ever count for it: a command tells only its `time`, and an agent no sum of its `tokens`; add `time`",
    )
}

/// What a budget allows, and by how much it may be passed before all is stopped (BU-4).
pub(crate) fn allows(account: &Account) -> String {
    let limits: Vec<_> = account.budget.limits().map(|(of, limit)| of.show(limit)).collect();
    let mut words = format!("budget {}", limits.join(", "));
    if account.budget.usd_micros.is_some() {
        let over = budget::usd(account.overshoot_max_usd_micros);
        words.push_str(&format!("; it may cost {over} more before all is stopped, at the most"));
    }
    words
}

/// How a budget stands, each dimension in a line.
pub(crate) fn stands(budget: Budget, spent: &Spent) -> Vec<String> {
    let line = |(of, limit): (Dimension, u64)| {
        let used = spent.of(of);
        let (used_up, percent) = (used >= limit, u128::from(used) * 100 / u128::from(limit.max(1)));
        let word = if used_up { ", used up" } else { "" };
        format!("{of}: {} of {} ({percent} %{word})", of.show(used), of.show(limit))
    };
    budget.limits().map(line).collect()
}

/// Money above zero, as it is written: whole places and at most six more.
///
/// # Errors
///
/// What is wrong with it.
fn parse_usd(text: &str) -> Result<u64, String> {
    let text: String = text.chars().filter(|c| *c != '_').collect();
    let (whole, places) = text.split_once('.').unwrap_or((&text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let wrong = || format!("`{text}` is no amount of US dollars; write one like 1.50, above zero");
    if whole.is_empty() || !are_digits(whole) || !are_digits(places) {
        return Err(wrong());
    }
    if places.len() > 6 {
        return Err(format!("`{text}` has more than six places"));
    }
    let micros = format!("{whole}{places:0<6}").parse::<u64>().map_err(|_| wrong())?;
    if micros == 0 { Err(wrong()) } else { Ok(micros) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_as_it_is_written() {
        for (text, micros) in [
            ("1", 1_000_000),
            ("1.5", 1_500_000),
            ("0.09", 90_000),
            ("0.000001", 1),
            ("1_000.25", 1_000_250_000),
        ] {
            assert_eq!(parse_usd(text), Ok(micros), "{text}");
        }
        for text in ["0", "0.00", "-1", "1e3", "nan", "inf", "", ".5", "1.0000001", "99999999999999999999"] {
            assert!(parse_usd(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_budget_in_one_word_is_read_or_refused_with_what_is_wrong() {
        let all = parse("usd=1.50, tokens=9,steps=200,time=2h,estimate=0.25").unwrap();
        let budget =
            Budget { usd_micros: Some(1_500_000), tokens: Some(9), steps: Some(200), ms: Some(7_200_000) };
        assert_eq!((all.budget, all.estimate_usd_micros), (budget, Some(250_000)));
        for (text, told) in [
            ("", "has no value"),
            ("1.50", "`1.50` has no value; write usd=1.50"),
            ("usdd=1", "did you mean `usd`?"),
            ("money=1", "the keys are usd, tokens, steps, time, estimate"),
            ("usd=1,usd=2", "`usd` is there twice"),
            ("usd=0", "usd: `0` is no amount"),
            ("usd=1e3,steps=0", "; steps: `0` is no whole number from 1"),
            ("tokens=-1", "tokens: `-1`"),
            ("time=2d", "time: `2d` is no duration"),
            ("usd=9999999999999", "usd: at most"),
            (
                "usd=1,estimate=1.01",
                "estimate: nothing would ever start: 1.01 USD is more than `usd` (1.00 USD)",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn each_dimension_that_is_set_wins_for_itself() {
        let (set, below) = (parse("usd=1").unwrap().budget, parse("usd=2,steps=3").unwrap().budget);
        assert_eq!(over(set, below), parse("usd=1,steps=3").unwrap().budget);
    }

    #[test]
    fn a_budget_that_counts_nothing_of_its_tasks_is_a_problem() {
        let usd = Budget { usd_micros: Some(1), ..Budget::NONE };
        let tokens = Budget { tokens: Some(1), ..Budget::NONE };
        let time = Budget { ms: Some(1), ..Budget::NONE };
        let of = |budget, kind| problem(budget, [kind].into_iter()).is_none();
        assert!(!of(usd, JobKind::Command) && of(usd, JobKind::Agent));
        assert!(!of(tokens, JobKind::Agent) && of(time, JobKind::Command));
        assert!(of(Budget::NONE, JobKind::Command));
        assert!(problem(usd, [JobKind::Command, JobKind::Agent].into_iter()).is_none());
    }
}
