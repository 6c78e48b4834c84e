//! What may be used up and what was: money, tokens, model calls and time of runs, each a whole number. It adds up and
//! compares, and decides nothing about a job.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::{LIMIT_MAX, USD_MICROS_MAX};
use crate::spec::SpecError;
use crate::text;

/// What a budget bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Money.
    Usd,
    /// Tokens of models.
    Tokens,
    /// Calls of models.
    Steps,
    /// The times of all runs, added up.
    Time,
}

impl Dimension {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Usd, Self::Tokens, Self::Steps, Self::Time];

    /// The name on the wire and in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Usd => "usd",
            Self::Tokens => "tokens",
            Self::Steps => "steps",
            Self::Time => "time",
        }
    }

    /// An amount of it in words.
    pub fn show(self, amount: u64) -> String {
        match self {
            Self::Usd => usd(amount),
            Self::Tokens | Self::Steps => format!("{amount} {self}"),
            Self::Time => text::duration(amount),
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Money in words: at least two places, and never rounded.
pub fn usd(micros: u64) -> String {
    let (whole, places) = (micros / 1_000_000, format!("{:06}", micros % 1_000_000));
    let kept = places.trim_end_matches('0').len().max(2);
    format!("{whole}.{} USD", places.get(..kept).unwrap_or(&places))
}

/// What a node of the tree, and all below it, may use. What is not set is not bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct Budget {
    /// Money, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_micros: Option<u64>,
    /// Tokens of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Calls of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// The times of all runs, added up, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
}

impl Budget {
    /// No bound.
    pub const NONE: Self = Self { usd_micros: None, tokens: None, steps: None, ms: None };

    /// True where it bounds nothing.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self { usd_micros: None, tokens: None, steps: None, ms: None })
    }

    /// The bound of a dimension.
    pub const fn limit(&self, dimension: Dimension) -> Option<u64> {
        match dimension {
            Dimension::Usd => self.usd_micros,
            Dimension::Tokens => self.tokens,
            Dimension::Steps => self.steps,
            Dimension::Time => self.ms,
        }
    }

    /// The dimensions that it bounds.
    pub fn limits(self) -> impl Iterator<Item = (Dimension, u64)> {
        Dimension::ALL.into_iter().filter_map(move |dimension| Some((dimension, self.limit(dimension)?)))
    }

    /// The first dimension of which nothing is left.
    pub fn used_up(self, spent: &Spent) -> Option<Dimension> {
        self.limits()
            .find(|(dimension, limit)| spent.of(*dimension) >= *limit)
            .map(|(dimension, _)| dimension)
    }

    /// Checks that something can be used at all, and nothing without end.
    ///
    /// # Errors
    ///
    /// [`SpecError`] names the dimension.
    pub fn check(self) -> Result<(), SpecError> {
        for (dimension, limit) in self.limits() {
            let field = dimension.as_str();
            if limit == 0 {
                return Err(SpecError::new(
                    field,
                    "a budget of nothing starts nothing; leave it out for no bound",
                ));
            }
            if dimension == Dimension::Usd && limit > USD_MICROS_MAX {
                return Err(SpecError::new(field, format!("at most {} can be counted", usd(USD_MICROS_MAX))));
            }
            if dimension == Dimension::Time && Duration::from_millis(limit) > LIMIT_MAX {
                return Err(SpecError::new(field, format!("{limit} ms is more than ten years")));
            }
        }
        Ok(())
    }
}

/// What was used, as far as anybody told. Sums never wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct Spent {
    /// Money, in millionths of a US dollar: `Some(0)` is told to cost nothing, `None` is not told.
    pub cost_usd_micros: Option<u64>,
    /// Runs whose cost nobody told: they are not in the sum.
    pub cost_unknown: u32,
    /// Tokens of models; `None` where nobody told.
    pub tokens: Option<u64>,
    /// Calls of models; `None` where nobody told.
    pub steps: Option<u64>,
    /// The times of runs below a budget of time, added up, in milliseconds; `None` where none was measured.
    pub ms: Option<u64>,
    /// Runs that a crash interrupted had so much money reserved beyond what they had told: more than that is not
    /// missing from the sum, as long as they kept to it.
    #[serde(default)]
    pub unaccounted_max_usd_micros: u64,
}

impl Spent {
    /// True where nothing was told.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// How much of a dimension is known to be used.
    pub fn of(&self, dimension: Dimension) -> u64 {
        match dimension {
            Dimension::Usd => self.cost_usd_micros,
            Dimension::Tokens => self.tokens,
            Dimension::Steps => self.steps,
            Dimension::Time => self.ms,
        }
        .unwrap_or(0)
    }

    /// With more of it.
    #[must_use]
    pub fn plus(self, more: &Self) -> Self {
        Self {
            cost_usd_micros: sum(self.cost_usd_micros, more.cost_usd_micros),
            cost_unknown: self.cost_unknown.saturating_add(more.cost_unknown),
            tokens: sum(self.tokens, more.tokens),
            steps: sum(self.steps, more.steps),
            ms: sum(self.ms, more.ms),
            unaccounted_max_usd_micros: self
                .unaccounted_max_usd_micros
                .saturating_add(more.unaccounted_max_usd_micros),
        }
    }
}

/// As in `cost 0.42 USD, 1200 tokens`; nothing where nothing was told. Zero, not told and real cost are three texts.
impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = Vec::new();
        match (self.cost_usd_micros, self.cost_unknown) {
            (None, 0) => {}
            (None, _) => told.push("cost not known".to_owned()),
            (Some(cost), 0) => told.push(format!("cost {}", usd(cost))),
            (Some(cost), n) => {
                told.push(format!("cost {} and that of {n} runs, which is not known", usd(cost)))
            }
        }
        if self.unaccounted_max_usd_micros > 0 {
            told.push(format!("at most {} lost in a crash", usd(self.unaccounted_max_usd_micros)));
        }
        let others = [Dimension::Tokens, Dimension::Steps];
        let known = [self.tokens, self.steps];
        told.extend(others.iter().zip(known).filter_map(|(of, amount)| Some(of.show(amount?))));
        told.extend(self.ms.map(|ms| format!("{} of runs", text::duration(ms))));
        f.write_str(&told.join(", "))
    }
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

/// How a budget stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// What may be used.
    pub budget: Budget,
    /// What was used.
    pub spent: Spent,
    /// Money that is set aside for what runs.
    pub reserved_usd_micros: u64,
    /// How much more than its budget of money it may cost: the charge that uses it up, and one more of each that may run
    /// at once before it is stopped. It holds where no charge is larger than the estimate of its job, or than
    /// [`DISPATCH_USD_MICROS`](crate::limits::DISPATCH_USD_MICROS) where none is declared.
    pub overshoot_max_usd_micros: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_shown_whole() {
        for (micros, shown) in [
            (0, "0.00 USD"),
            (1, "0.000001 USD"),
            (500_000, "0.50 USD"),
            (2_340, "0.00234 USD"),
            (1_000_000, "1.00 USD"),
            (12_345_678, "12.345678 USD"),
        ] {
            assert_eq!(usd(micros), shown);
        }
    }

    #[test]
    fn zero_unknown_and_real_cost_are_three_things() {
        let told =
            |cost_usd_micros, cost_unknown| Spent { cost_usd_micros, cost_unknown, ..Spent::default() };
        let shown = [told(None, 0), told(Some(0), 0), told(None, 2), told(Some(1_500_000), 1)];
        let shown = shown.map(|spent| spent.to_string());
        let texts =
            ["", "cost 0.00 USD", "cost not known", "cost 1.50 USD and that of 1 runs, which is not known"];
        assert_eq!(shown, texts);
        let sum = told(Some(0), 0).plus(&told(None, 1));
        assert_eq!((sum.cost_usd_micros, sum.cost_unknown), (Some(0), 1));
    }

    #[test]
    fn sums_do_not_wrap() {
        let most = Spent { cost_usd_micros: Some(u64::MAX), cost_unknown: u32::MAX, ..Spent::default() };
        assert_eq!(most.plus(&most), most);
    }

    #[test]
    fn a_budget_of_nothing_or_of_ages_is_refused() {
        assert!(Budget::NONE.check().is_ok() && Budget::NONE.is_none());
        let most = u64::try_from(LIMIT_MAX.as_millis()).unwrap();
        for (budget, fits) in [
            (Budget { usd_micros: Some(0), ..Budget::NONE }, false),
            (Budget { usd_micros: Some(1), ..Budget::NONE }, true),
            (Budget { usd_micros: Some(USD_MICROS_MAX + 1), ..Budget::NONE }, false),
            (Budget { tokens: Some(0), ..Budget::NONE }, false),
            (Budget { tokens: Some(u64::MAX), ..Budget::NONE }, true),
            (Budget { ms: Some(most), ..Budget::NONE }, true),
            (Budget { ms: Some(most + 1), ..Budget::NONE }, false),
        ] {
            assert_eq!(budget.check().is_ok(), fits, "{budget:?}");
        }
    }
}
