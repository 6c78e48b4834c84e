//! Budgets in manifests, and how they are told. It reads and finds words; what is counted is counted elsewhere.

use fanin_protocol::limits::USD_MICROS_MAX;
use fanin_protocol::spec::millis;
use fanin_protocol::{Account, Budget, Dimension, JobKind, JobLimits, Spent, budget};

use crate::manifest::reader::{Field, Problems};

const KEYS: [&str; 5] = ["usd", "tokens", "steps", "time", "estimate"];

/// Reads a budget, and the estimate of a start beside it, into limits that have nothing else.
pub(crate) fn read(field: &Field<'_, '_>, prefix: &'static str, problems: &mut Problems<'_>) -> JobLimits {
    let expected = "a table like { usd = 1.50 }";
    let Some(section) = field.section(prefix, expected, problems) else { return JobLimits::NONE };
    section.refuse_unknown(&KEYS, (&[], ""), problems);
    let mut money = |key: &str| section.field(key).and_then(|field| field.usd(USD_MICROS_MAX, problems));
    let (usd_micros, estimate_usd_micros) = (money("usd"), money("estimate"));
    let mut count =
        |key: &str| section.field(key).and_then(|field| field.integer(1, i64::MAX.unsigned_abs(), problems));
    let (tokens, steps) = (count("tokens"), count("steps"));
    let ms = section.field("time").and_then(|field| field.duration(problems)).map(millis);
    let budget = Budget { usd_micros, tokens, steps, ms };
    if section.fields().next().is_none() {
        field.wrong("is empty; write { usd = 1.50 }, or one of tokens, steps, time", problems);
    }
    JobLimits { budget, estimate_usd_micros, ..JobLimits::NONE }
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
pub(crate) fn parse_usd(text: &str) -> Result<u64, String> {
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
