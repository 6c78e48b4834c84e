//! What can be set beside agents: the keys with their variables, forms and defaults, and the values that were found for
//! them, each with its origin. One table is behind the files, the variables, `fanin config show` and `docs/config.md`.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fanin_protocol::limits::{DRAIN, GROUP_MEMBERS_MAX, RETRIES_MAX, RUN_SLOTS};
use fanin_protocol::spec::millis;
use fanin_protocol::{Budget, JobLimits, LayoutError, RIGHTS_VARIABLE, Resume, Rights, layout, text};

use crate::budget;
use crate::duration;
use crate::log;
use crate::manifest::reader::{Field, Problems, Section};
use crate::plan::FailOn;

/// Something that can be set.
#[derive(Debug)]
pub(crate) struct Key {
    /// As it is called in a file, with the table that it is in.
    pub(crate) name: &'static str,
    /// The variable that says it as well.
    pub(crate) variable: &'static str,
    /// The flag that wins over both, where there is one.
    pub(crate) flag: Option<&'static str>,
    form: Form,
    default: Option<Fallback>,
}

/// What holds where nobody says anything.
#[derive(Debug, Clone, Copy)]
enum Fallback {
    Count(u64),
    Time(Duration),
    Word(&'static str),
}

impl From<Fallback> for Value {
    fn from(fallback: Fallback) -> Self {
        match fallback {
            Fallback::Count(count) => Self::Count(count),
            Fallback::Time(time) => Self::Time(time),
            Fallback::Word(word) => Self::Word(word),
        }
    }
}

/// What a value looks like.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// A whole number in these bounds.
    Count(u64, u64),
    /// A duration, zero included.
    Time,
    /// A duration above zero.
    Limit,
    /// US dollars.
    Money,
    /// One of these.
    Words(&'static [&'static str]),
    /// An absolute path, which only the user's own file and the variable say.
    Folder,
}

/// A value, as it is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// A whole number.
    Count(u64),
    /// A duration.
    Time(Duration),
    /// Millionths of a US dollar.
    Money(u64),
    /// A word.
    Word(&'static str),
    /// A folder.
    Folder(PathBuf),
}

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody said anything.
    Default,
    /// In this variable.
    Variable(&'static str),
    /// In this file, in this line from 1.
    File(String, usize),
    /// The agent around this program has no more.
    Around,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Variable(name) => f.write_str(name),
            Self::File(file, line) => write!(f, "{file}:{line}"),
            Self::Around => f.write_str("the agent around this"),
        }
    }
}

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// The variable that has all of a budget.
const BUDGET_VARIABLE: &str = "FANIN_BUDGET";

const fn key(name: &'static str, variable: &'static str, form: Form) -> Key {
    Key { name, variable, flag: None, form, default: None }
}

const fn limit(name: &'static str, variable: &'static str) -> Key {
    key(name, variable, Form::Limit)
}

const fn of_budget(name: &'static str, form: Form) -> Key {
    Key { flag: Some("--budget"), ..key(name, BUDGET_VARIABLE, form) }
}

const CONTENT: [&str; 2] = ["off", "on"];
const FAIL_ON: [&str; 2] = ["partial", "none-ok"];
const RIGHTS: [&str; 3] = [Rights::ReadOnly.as_str(), Rights::Edit.as_str(), Rights::Full.as_str()];
const RESUME: [&str; 2] = [Resume::Fail.as_str(), Resume::Rerun.as_str()];

/// All that can be set, as it is shown.
pub(crate) static KEYS: [Key; 20] = [
    Key {
        flag: Some("--concurrency"),
        default: Some(Fallback::Count(RUN_SLOTS as u64)),
        ..key("concurrency", "FANIN_CONCURRENCY", Form::Count(1, GROUP_MEMBERS_MAX as u64))
    },
    Key {
        flag: Some("--drain"),
        default: Some(Fallback::Time(DRAIN)),
        ..key("drain", "FANIN_DRAIN", Form::Time)
    },
    Key { flag: Some("--fail-on"), ..key("fail_on", "FANIN_FAIL_ON", Form::Words(&FAIL_ON)) },
    Key {
        flag: Some("--log"),
        default: Some(Fallback::Word("off")),
        ..key("log", "FANIN_LOG", Form::Words(&log::LEVELS))
    },
    Key {
        flag: Some("--log-format"),
        default: Some(Fallback::Word("text")),
        ..key("log_format", "FANIN_LOG_FORMAT", Form::Words(&log::FORMATS))
    },
    Key {
        default: Some(Fallback::Word("off")),
        ..key("log_content", "FANIN_LOG_CONTENT", Form::Words(&CONTENT))
    },
    Key {
        default: Some(Fallback::Word(Rights::Full.as_str())),
        ..key(CEILING, RIGHTS_VARIABLE, Form::Words(&RIGHTS))
    },
    key(STATE, "FANIN_STATE_DIR", Form::Folder),
    Key { flag: Some("--timeout"), ..limit("limits.timeout", "FANIN_TIMEOUT") },
    limit("limits.idle", "FANIN_IDLE"),
    limit("limits.queue_timeout", "FANIN_QUEUE_TIMEOUT"),
    limit("limits.start_timeout", "FANIN_START_TIMEOUT"),
    limit("limits.total_timeout", "FANIN_TOTAL_TIMEOUT"),
    key("limits.retries", "FANIN_RETRIES", Form::Count(0, RETRIES_MAX as u64)),
    key("limits.resume", "FANIN_RESUME", Form::Words(&RESUME)),
    of_budget("budget.usd", Form::Money),
    of_budget("budget.tokens", Form::Count(1, budget::COUNT_MAX)),
    of_budget("budget.steps", Form::Count(1, budget::COUNT_MAX)),
    of_budget("budget.time", Form::Limit),
    of_budget("budget.estimate", Form::Money),
];

/// What agents may do at the most: of all that say it, the least.
const CEILING: &str = "rights";

/// Where runs are kept.
const STATE: &str = "state_dir";

/// The tables beside those of agents, as they stand before their keys.
pub(crate) const TABLES: [(&str, &str, &str); 2] =
    [("limits", "limits.", "a table of limits"), ("budget", "budget.", "a table like { usd = 1.50 }")];

/// The keys of a table, or of the top for `""`.
pub(crate) fn keys_of(table: &'static str) -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter_map(move |key| match key.name.split_once('.') {
        Some((of, name)) => (of == table).then_some(name),
        None => table.is_empty().then_some(key.name),
    })
}

/// What was found, by the names of the keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings(BTreeMap<&'static str, Found>);

impl Settings {
    /// Adds what variables say: what is there already stays.
    pub(super) fn read_variables(
        &mut self,
        variable: impl Fn(&str) -> Option<OsString>,
        problems: &mut Vec<String>,
    ) {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        for key in KEYS.iter().filter(|key| key.variable != BUDGET_VARIABLE) {
            let Some(value) = set(key.variable) else { continue };
            let origin = Origin::Variable(key.variable);
            match key.form.parse(&value) {
                Ok(value) => self.add(key, Found { value, origin }),
                Err(problem) => problems.push(wrong(key.variable, &value, &problem)),
            }
        }
        let Some(value) = set(BUDGET_VARIABLE) else { return };
        match value.to_str().ok_or_else(|| "it is no UTF-8".to_owned()).and_then(budget::parse) {
            Ok(limits) => self.add_budget(&limits),
            Err(problem) => problems.push(wrong(BUDGET_VARIABLE, &value, &problem)),
        }
    }

    fn add_budget(&mut self, limits: &JobLimits) {
        let Budget { usd_micros, tokens, steps, ms } = limits.budget;
        let values = [
            ("budget.usd", usd_micros.map(Value::Money)),
            ("budget.tokens", tokens.map(Value::Count)),
            ("budget.steps", steps.map(Value::Count)),
            ("budget.time", ms.map(|ms| Value::Time(Duration::from_millis(ms)))),
            ("budget.estimate", limits.estimate_usd_micros.map(Value::Money)),
        ];
        for (name, value) in values {
            if let (Some(key), Some(value)) = (KEYS.iter().find(|key| key.name == name), value) {
                self.add(key, Found { value, origin: Origin::Variable(BUDGET_VARIABLE) });
            }
        }
    }

    /// Adds what a table of a file says: what is there already stays. `prefix` stands before its keys.
    pub(super) fn read_table(
        &mut self,
        (file, is_users): (&str, bool),
        (section, prefix): (&Section<'_, '_>, &str),
        problems: &mut Problems<'_>,
    ) {
        for key in &KEYS {
            let Some(name) = key.name.strip_prefix(prefix).filter(|name| !name.contains('.')) else {
                continue;
            };
            let Some(field) = section.field(name) else { continue };
            if matches!(key.form, Form::Folder) && !is_users {
                field.wrong(
                    "only your own file says where runs are kept, else nothing would find them from another folder",
                    problems,
                );
                continue;
            }
            if let Some(value) = key.form.read(&field, problems) {
                let origin = Origin::File(file.to_owned(), field.line(problems));
                self.add(key, Found { value, origin });
            }
        }
    }

    /// Agents may do no more than an agent around this program.
    pub(super) fn bound(&mut self, rights: Rights) {
        let found = Found { value: Value::Word(rights.as_str()), origin: Origin::Around };
        let key = KEYS.iter().find(|key| key.name == CEILING).filter(|_| rights < Rights::Full);
        key.into_iter().for_each(|key| self.add(key, found.clone()));
    }

    fn add(&mut self, key: &Key, found: Found) {
        let is_less = |known: &Found| key.name == CEILING && rights_of(&found) < rights_of(known);
        match self.0.get(key.name) {
            Some(known) if !is_less(known) => {}
            Some(_) | None => {
                self.0.insert(key.name, found);
            }
        }
    }

    /// Two settings that cannot both be meant, each with where it stands.
    pub(super) fn contradictions(&self) -> Vec<String> {
        let told = |name: &str| {
            let Some((name, found)) = self.0.get_key_value(name) else { return String::new() };
            format!("`{name}` ({}, {})", found.value, found.origin)
        };
        let times = self.limits().contradiction().map(|(below, above)| {
            let (below, above) = (told(&format!("limits.{below}")), told(&format!("limits.{above}")));
            format!("{below} can never pass, since {above} comes first; lower the one, or raise the other")
        });
        let limits = JobLimits { budget: self.budget(), ..self.limits() };
        let money =
            limits.estimate_usd_micros > limits.budget.usd_micros && limits.budget.usd_micros.is_some();
        let money = money.then(|| {
            let (estimate, usd) = (told("budget.estimate"), told("budget.usd"));
            format!(
                "nothing would ever start: {estimate} is more than {usd}; lower the one, or raise the other"
            )
        });
        times.into_iter().chain(money).collect()
    }

    /// What holds for a key, and why; `None` where nothing is set and nothing holds.
    pub(crate) fn found(&self, key: &Key) -> Option<Found> {
        let default = || Some(Found { value: key.default?.into(), origin: Origin::Default });
        self.0.get(key.name).cloned().or_else(default)
    }

    fn value(&self, name: &str) -> Option<Value> {
        let key = KEYS.iter().find(|key| key.name == name);
        debug_assert!(key.is_some(), "{name} is no key");
        Some(self.found(key?)?.value)
    }

    fn count(&self, name: &str) -> Option<u64> {
        if let Value::Count(count) = self.value(name)? { Some(count) } else { None }
    }

    fn ms(&self, name: &str) -> Option<u64> {
        if let Value::Time(time) = self.value(name)? { Some(millis(time)) } else { None }
    }

    fn money(&self, name: &str) -> Option<u64> {
        if let Value::Money(micros) = self.value(name)? { Some(micros) } else { None }
    }

    fn word(&self, name: &str) -> Option<&'static str> {
        if let Value::Word(word) = self.value(name)? { Some(word) } else { None }
    }

    /// Tasks that run at the same time.
    pub(crate) fn concurrency(&self) -> usize {
        let count = self.count("concurrency").and_then(|count| usize::try_from(count).ok());
        count.unwrap_or(RUN_SLOTS)
    }

    /// After a first signal: how long what runs may go on.
    pub(crate) fn drain(&self) -> Duration {
        self.ms("drain").map_or(DRAIN, Duration::from_millis)
    }

    /// What makes a run fail, where somebody said so.
    pub(crate) fn fail_on(&self) -> Option<FailOn> {
        self.word("fail_on").and_then(FailOn::parse)
    }

    /// What agents may do at the most.
    pub(crate) fn rights(&self) -> Rights {
        self.word(CEILING).and_then(Rights::parse).unwrap_or(Rights::Full)
    }

    /// Limits of tasks that set none, and what one start of them is expected to cost.
    pub(crate) fn limits(&self) -> JobLimits {
        let resume = self.word("limits.resume");
        JobLimits {
            run_ms: self.ms("limits.timeout"),
            idle_ms: self.ms("limits.idle"),
            queue_ms: self.ms("limits.queue_timeout"),
            start_ms: self.ms("limits.start_timeout"),
            total_ms: self.ms("limits.total_timeout"),
            retries: self.count("limits.retries").and_then(|count| u32::try_from(count).ok()),
            resume: [Resume::Fail, Resume::Rerun].into_iter().find(|known| Some(known.as_str()) == resume),
            estimate_usd_micros: self.money("budget.estimate"),
            ..JobLimits::NONE
        }
    }

    /// What a run, or all that an agent launches over one connection, may use.
    pub(crate) fn budget(&self) -> Budget {
        Budget {
            usd_micros: self.money("budget.usd"),
            tokens: self.count("budget.tokens"),
            steps: self.count("budget.steps"),
            ms: self.ms("budget.time"),
        }
    }

    /// What is logged.
    pub(crate) fn log(&self) -> log::Options {
        log::Options::new(
            self.word("log").unwrap_or("off"),
            self.word("log_format").unwrap_or("text"),
            self.word("log_content") == Some("on"),
        )
    }

    /// The state folder.
    ///
    /// # Errors
    ///
    /// As [`layout::state`].
    pub(crate) fn state(&self) -> Result<PathBuf, LayoutError> {
        state(self.0.get(STATE).map(|found| &found.value))
    }
}

fn state(set: Option<&Value>) -> Result<PathBuf, LayoutError> {
    layout::state(|name| match set {
        Some(Value::Folder(folder)) if name == "FANIN_STATE_DIR" => Some(folder.clone().into_os_string()),
        _ => env::var_os(name),
    })
}

fn rights_of(found: &Found) -> Option<Rights> {
    if let Value::Word(word) = found.value { Rights::parse(word) } else { None }
}

fn wrong(variable: &str, value: &std::ffi::OsStr, problem: &str) -> String {
    let value = value.to_string_lossy();
    format!("{variable} is {:?}: {problem}; change it, or unset it", text::cut(&value, 64))
}

impl Form {
    /// The value that a variable has.
    fn parse(self, value: &std::ffi::OsStr) -> Result<Value, String> {
        if let Self::Folder = self {
            // Whether it is of use is told by whoever needs it.
            return Ok(Value::Folder(value.into()));
        }
        let text = value.to_str().ok_or("it is no UTF-8")?;
        match self {
            Self::Count(min, max) => {
                let number = text.parse().ok().filter(|number| (min..=max).contains(number));
                number
                    .map(Value::Count)
                    .ok_or_else(|| format!("it can be a whole number from {min} to {max}"))
            }
            Self::Time => duration::parse(text).map(Value::Time).map_err(|error| error.to_string()),
            Self::Limit => duration::parse_limit(text).map(Value::Time).map_err(|error| error.to_string()),
            Self::Money => budget::money(text).map(Value::Money),
            Self::Words(words) => {
                word(text, words).map(Value::Word).ok_or_else(|| format!("it can be {}", words.join(", ")))
            }
            Self::Folder => Err("it is no folder".to_owned()),
        }
    }

    /// The value of a key of a file; `None` where it is none, which is told.
    fn read(self, field: &Field<'_, '_>, problems: &mut Problems<'_>) -> Option<Value> {
        match self {
            Self::Count(min, max) => field.integer(min, max, problems).map(Value::Count),
            Self::Time => field.duration_or_zero(problems).map(Value::Time),
            Self::Limit => field.duration(problems).map(Value::Time),
            Self::Money => field.usd(problems).map(Value::Money),
            Self::Words(words) => {
                let found = word(field.string(problems)?, words);
                if found.is_none() {
                    let all: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
                    field.wrong(format!("it can be {}", all.join(", ")), problems);
                }
                found.map(Value::Word)
            }
            Self::Folder => {
                let path = Path::new(field.string(problems)?);
                if !path.is_absolute() {
                    field.wrong("must be an absolute path", problems);
                    return None;
                }
                Some(Value::Folder(path.to_owned()))
            }
        }
    }
}

/// One of these words, also where it is written with `_`.
fn word(text: &str, words: &'static [&'static str]) -> Option<&'static str> {
    let text = text.replace('_', "-");
    words.iter().copied().find(|word| *word == text)
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Time(time) => write!(f, "{}", duration::show(*time)),
            Self::Money(micros) => {
                let shown = fanin_protocol::budget::usd(*micros);
                f.write_str(shown.strip_suffix(" USD").unwrap_or(&shown))
            }
            Self::Word(word) => f.write_str(word),
            Self::Folder(folder) => f.write_str(&text::path(folder)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_each_key_with_its_variable_flag_and_default() {
        let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md"));
        for key in &KEYS {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", key.name)));
            let row = row.unwrap_or_else(|| panic!("docs/config.md has no row of {}", key.name));
            let cells: Vec<_> = row.split('|').map(|cell| cell.trim().replace(['`', '"'], "")).collect();
            let default = match (&key.default, key.name) {
                (Some(value), _) => Value::from(*value).to_string(),
                (None, STATE) => "~/.local/state/fanin".to_owned(),
                (None, _) => String::new(),
            };
            assert_eq!(cells[2..5], [key.variable, key.flag.unwrap_or_default(), &default], "{}", key.name);
        }
        let rows = page.lines().filter(|line| line.contains("| `FANIN_")).count();
        assert_eq!(rows, KEYS.len(), "docs/config.md has a row of what is no key");
    }

    #[test]
    fn each_flag_that_is_named_is_one() {
        let command = crate::args::command();
        let run = command.find_subcommand("run").unwrap();
        let all: Vec<_> =
            run.get_arguments().chain(command.get_arguments()).filter_map(|arg| arg.get_long()).collect();
        for flag in KEYS.iter().filter_map(|key| key.flag) {
            assert!(all.contains(&flag.trim_start_matches('-')), "{flag} is no flag");
        }
    }
}
