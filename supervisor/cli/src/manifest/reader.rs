//! A manifest's tables with the place of every key, and the problems found in them. It knows TOML, not what the keys
//! are for.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use fanin_protocol::limits::PROBLEMS_SHOWN_MAX;
use toml::de::{DeArray, DeTable, DeValue};

use crate::budget;
use crate::duration::{self, DurationError};
use crate::exit::Exit;
use crate::plan::Refused;

/// Problems of one file, by their place in it.
#[derive(Debug)]
pub(crate) struct Problems<'t> {
    file: String,
    text: &'t str,
    found: Vec<(usize, String)>,
    /// The way out of the first problem that has a clear one.
    hint: Option<String>,
}

impl<'t> Problems<'t> {
    pub(crate) fn new(file: impl Display, text: &'t str) -> Self {
        Self { file: file.to_string(), text, found: Vec::new(), hint: None }
    }

    /// Adds what is wrong with `key` at byte `at`.
    pub(crate) fn add(&mut self, at: usize, key: &str, what: impl Display) {
        self.found.push((at, format!("{key}: {what}")));
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The line of a byte, from 1.
    fn line(&self, at: usize) -> usize {
        self.text.get(..at).unwrap_or(self.text).matches('\n').count() + 1
    }

    /// Keeps the way out of a problem; the first one stays.
    fn hint(&mut self, hint: String) {
        self.hint.get_or_insert(hint);
    }

    /// The problems as `FILE:LINE:COLUMN: KEY: what is wrong`, in the order of the file.
    fn into_lines(mut self) -> Vec<String> {
        self.found.sort_by_key(|(at, _)| *at);
        let more = self.found.len().saturating_sub(PROBLEMS_SHOWN_MAX);
        let shown = self.found.iter().take(PROBLEMS_SHOWN_MAX);
        let mut lines: Vec<_> = shown
            .map(|(at, what)| {
                let before = self.text.get(..*at).unwrap_or(self.text);
                let line = self.line(*at);
                let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
                format!("{}:{line}:{column}: {what}", self.file)
            })
            .collect();
        if more > 0 {
            lines.push(format!("{}: and {more} problems more", self.file));
        }
        lines
    }
}

impl From<Problems<'_>> for Refused {
    fn from(mut problems: Problems<'_>) -> Self {
        let hint = problems.hint.take();
        Self { problems: problems.into_lines(), has_places: true, hint, exit: Exit::Usage }
    }
}

/// A value with the name and the place of its key.
#[derive(Debug, Clone)]
pub(crate) struct Field<'t, 'i> {
    key: String,
    at: usize,
    value: &'t DeValue<'i>,
}

/// A table whose keys are known by name.
#[derive(Debug, Clone)]
pub(crate) struct Section<'t, 'i> {
    table: &'t DeTable<'i>,
    at: usize,
    prefix: &'static str,
}

impl<'t, 'i> Section<'t, 'i> {
    /// The table that begins at byte `at`. `prefix` stands before its keys where they are named.
    pub(crate) const fn new(table: &'t DeTable<'i>, at: usize, prefix: &'static str) -> Self {
        Self { table, at, prefix }
    }

    /// Adds a problem for each key that is not in `known`. `elsewhere` are the keys of other tables, with the words that
    /// say where those are.
    pub(crate) fn refuse_unknown(
        &self,
        known: &[&str],
        elsewhere: &[(&[&str], &str)],
        problems: &mut Problems<'_>,
    ) {
        for key in self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref().as_ref();
            let hint = if let Some((_, place)) = elsewhere.iter().find(|(keys, _)| keys.contains(&name)) {
                format!("it belongs {place}")
            } else if let Some(near) = nearest(name, known) {
                problems.hint(format!("write `{near}` instead of `{name}`"));
                format!("did you mean `{near}`?")
            } else {
                format!("the keys here are {}", known.join(", "))
            };
            problems.add(key.span().start, &format!("{}{name}", self.prefix), format!("unknown key; {hint}"));
        }
    }

    /// The value of `key`.
    pub(crate) fn field(&self, key: &str) -> Option<Field<'t, 'i>> {
        let (_, value) = self.table.get_key_value(key)?;
        Some(Field { key: format!("{}{key}", self.prefix), at: value.span().start, value: value.get_ref() })
    }

    /// Where the table begins.
    pub(crate) const fn start(&self) -> usize {
        self.at
    }

    /// Where the value of `key` is, or the table where it has none.
    pub(crate) fn place(&self, key: &str) -> usize {
        self.field(key).map_or(self.at, |field| field.at)
    }

    /// All values.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'t str, Field<'t, 'i>)> {
        let prefix = self.prefix;
        self.table.iter().map(move |(key, value)| {
            let name = key.get_ref().as_ref();
            (name, Field { key: format!("{prefix}{name}"), at: value.span().start, value: value.get_ref() })
        })
    }
}

impl<'t, 'i> Field<'t, 'i> {
    /// The line that it is in, of the file whose problems these are.
    pub(crate) fn line(&self, problems: &Problems<'_>) -> usize {
        problems.line(self.at)
    }

    /// Adds a problem with this value.
    pub(crate) fn wrong(&self, what: impl Display, problems: &mut Problems<'_>) {
        problems.add(self.at, &self.key, what);
    }

    fn wrong_type<T>(&self, expected: &str, problems: &mut Problems<'_>) -> Option<T> {
        self.wrong(format!("must be {expected}, not {}", article(self.value.type_str())), problems);
        None
    }

    /// A string.
    pub(crate) fn string(&self, problems: &mut Problems<'_>) -> Option<&'t str> {
        match self.value {
            DeValue::String(text) => Some(text.as_ref()),
            _ => self.wrong_type("a string", problems),
        }
    }

    /// A whole number from `min` to `max`.
    pub(crate) fn integer(&self, min: u64, max: u64, problems: &mut Problems<'_>) -> Option<u64> {
        let DeValue::Integer(number) = self.value else {
            return self.wrong_type("a whole number", problems);
        };
        match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(n) if (min..=max).contains(&n) => Some(n),
            _ => {
                self.wrong(format!("must be a whole number from {min} to {max}, not {number}"), problems);
                None
            }
        }
    }

    /// An amount of US dollars, in millionths.
    pub(crate) fn usd(&self, problems: &mut Problems<'_>) -> Option<u64> {
        let text = match self.value {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            _ => return self.wrong_type("an amount of US dollars, like 1.50", problems),
        };
        budget::money(text).map_err(|error| self.wrong(error, problems)).ok()
    }

    /// A duration above zero, written as a string.
    pub(crate) fn duration(&self, problems: &mut Problems<'_>) -> Option<Duration> {
        self.time(duration::parse_limit, problems)
    }

    /// A duration, zero included.
    pub(crate) fn duration_or_zero(&self, problems: &mut Problems<'_>) -> Option<Duration> {
        self.time(duration::parse, problems)
    }

    fn time(
        &self,
        parse: fn(&str) -> Result<Duration, DurationError>,
        problems: &mut Problems<'_>,
    ) -> Option<Duration> {
        let DeValue::String(text) = self.value else {
            return self.wrong_type("a string like \"30s\" (units: ms, s, m, h)", problems);
        };
        parse(text).map_err(|error| self.wrong(error, problems)).ok()
    }

    /// A table, whose keys are named after `prefix`.
    pub(crate) fn section(
        &self,
        prefix: &'static str,
        expected: &str,
        problems: &mut Problems<'_>,
    ) -> Option<Section<'t, 'i>> {
        match self.value {
            DeValue::Table(table) => Some(Section::new(table, self.at, prefix)),
            _ => self.wrong_type(expected, problems),
        }
    }

    /// A list of strings.
    pub(crate) fn strings(&self, problems: &mut Problems<'_>) -> Option<Vec<String>> {
        let DeValue::Array(array) = self.value else {
            return self.wrong_type("an array of strings, like [\"cargo\", \"check\"]", problems);
        };
        self.items(array).map(|item| item.string(problems).map(ToOwned::to_owned)).collect()
    }

    /// A list of tables.
    pub(crate) fn sections(&self, problems: &mut Problems<'_>) -> Vec<Section<'t, 'i>> {
        let expected = "an array of tables; write [[task]] with two brackets";
        let DeValue::Array(array) = self.value else {
            self.wrong_type::<()>(expected, problems);
            return Vec::new();
        };
        self.items(array).filter_map(|item| item.section("", expected, problems)).collect()
    }

    fn items(&self, array: &'t DeArray<'i>) -> impl Iterator<Item = Self> {
        array.iter().map(|item| Self { key: self.key.clone(), at: item.span().start, value: item.get_ref() })
    }

    /// The value where it is a string, for keys that take several types.
    pub(crate) fn as_string(&self) -> Option<&'t str> {
        if let DeValue::String(text) = self.value { Some(text.as_ref()) } else { None }
    }

    /// Variables: a table of strings.
    pub(crate) fn variables(&self, problems: &mut Problems<'_>) -> BTreeMap<String, String> {
        let Some(section) = self.section("env.", "a table of strings", problems) else {
            return BTreeMap::new();
        };
        let mut variables = BTreeMap::new();
        for (name, field) in section.fields() {
            let Some(value) = field.string(problems) else { continue };
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                field.wrong("a name is empty or holds `=`, or a NUL byte is in it or its value", problems);
                // A task that had it would be refused for the same reason.
                continue;
            }
            variables.insert(name.to_owned(), value.to_owned());
        }
        variables
    }
}

/// The key that was probably meant: one that `key` abbreviates, or one a few slips away.
pub(crate) fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let slips = |known: &&'k str| strsim::damerau_levenshtein(key, known);
    let allowed = (key.chars().count() / 3).max(1);
    let abbreviated = known.iter().copied().find(|known| abbreviates(key, known));
    abbreviated.or_else(|| known.iter().copied().filter(|known| slips(known) <= allowed).min_by_key(slips))
}

/// True for three letters or more that stand in `word` in this order, the first one first: `cmd` for `command`.
fn abbreviates(key: &str, word: &str) -> bool {
    let mut letters = word.chars();
    key.len() >= 3
        && key.chars().next() == word.chars().next()
        && key.chars().all(|c| letters.any(|l| l == c))
}

fn article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {noun}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_and_abbreviations_find_the_key_that_was_meant() {
        let known = ["id", "label", "command", "shell", "cwd", "env", "timeout", "queue_timeout"];
        let near = |key| nearest(key, &known);
        assert_eq!(near("comand"), Some("command"));
        assert_eq!(near("tiemout"), Some("timeout"));
        assert_eq!(near("cmd"), Some("command"));
        assert_eq!(near("queue_time"), Some("queue_timeout"));
        assert_eq!(near("shel"), Some("shell"));
        assert_eq!(near("retries"), None);
        assert_eq!(near("idle"), None);
        assert_eq!(near("x"), None);
    }
}
