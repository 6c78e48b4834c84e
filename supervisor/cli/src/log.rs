//! Log lines: what the crates tell about their work, with ids, on standard error, for people or as JSON. It adds nothing of
//! its own. Prompts, arguments, outputs and values of variables are told only where `log_content` is on; secrets that are
//! known never are.

use std::fmt::{self, Write as _};
use std::time::SystemTime;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::stderr::Stderr;

/// How much is told, the least first.
pub(crate) const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// How it is written.
pub(crate) const FORMATS: [&str; 2] = ["text", "json"];

/// Whose words are told: those of other crates may hold anything.
const OURS: &str = "fanin";

/// The words of any command about its log lines.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct LogArgs {
    /// Tell what happens inside: off, error, warn, info, debug or trace [default: off]
    #[arg(long, global = true, value_name = "LEVEL", value_parser = level, help_heading = "Log")]
    pub(crate) log: Option<&'static str>,

    /// How log lines are written: text or json [default: text]
    #[arg(long, global = true, value_name = "FORMAT", value_parser = format, help_heading = "Log")]
    pub(crate) log_format: Option<&'static str>,
}

fn level(word: &str) -> Result<&'static str, String> {
    LEVELS.into_iter().find(|level| *level == word).ok_or_else(|| format!("write {}", LEVELS.join(", ")))
}

fn format(word: &str) -> Result<&'static str, String> {
    FORMATS
        .into_iter()
        .find(|format| *format == word)
        .ok_or_else(|| format!("write {}", FORMATS.join(" or ")))
}

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    level: LevelFilter,
    is_json: bool,
    /// Prompts, arguments, outputs and the like as well.
    pub(crate) has_content: bool,
}

impl Options {
    /// Of these words; one that is none stands for nothing.
    pub(crate) fn new(level: &str, format: &str, has_content: bool) -> Self {
        let level = level.parse().unwrap_or(LevelFilter::OFF);
        Self { level, is_json: format == "json", has_content }
    }

    /// With what the command line says instead.
    pub(crate) fn with(self, args: &LogArgs) -> Self {
        let level = args.log.and_then(|level| level.parse().ok()).unwrap_or(self.level);
        Self { level, is_json: args.log_format.map_or(self.is_json, |format| format == "json"), ..self }
    }
}

/// From now on what happens is told, unless nothing shall be. Only the first call has an effect.
pub(crate) fn begin(options: Options, stderr: &Stderr) {
    if options.level == LevelFilter::OFF {
        return;
    }
    let lines = Lines { options, stderr: stderr.clone() };
    // There is one program, and so one that comes first.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines));
}

/// Writes a line for each event.
struct Lines {
    options: Options,
    stderr: Stderr,
}

/// The fields of a span or an event, in the order in which they were told; each name once.
#[derive(Clone, Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    /// What happened, taken out.
    fn message(&mut self) -> Option<Value> {
        let place = self.0.iter().position(|(name, _)| *name == MESSAGE)?;
        Some(self.0.remove(place).1)
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Lines {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= self.options.level && metadata.target().starts_with(OURS)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.options.level)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut Seen { fields: &mut fields, stderr: &self.stderr });
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut() {
            values.record(&mut Seen { fields, stderr: &self.stderr });
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(Fields(of_span)) = span.extensions().get() {
                of_span.iter().for_each(|(name, value)| fields.set(name, value.clone()));
            }
        }
        event.record(&mut Seen { fields: &mut fields, stderr: &self.stderr });
        let at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let line = if self.options.is_json {
            json(at, event.metadata(), fields)
        } else {
            text(&at, event.metadata(), fields)
        };
        self.stderr.progress(&line);
    }
}

/// The key under which what happened is said.
const MESSAGE: &str = "message";

fn json(at: String, metadata: &Metadata<'_>, mut fields: Fields) -> String {
    let mut line = Map::new();
    line.insert("ts".to_owned(), at.into());
    line.insert("level".to_owned(), word(*metadata.level()).into());
    line.insert("target".to_owned(), metadata.target().into());
    line.extend(fields.message().map(|message| (MESSAGE.to_owned(), message)));
    line.extend(fields.0.into_iter().map(|(name, value)| (name.to_owned(), value)));
    Value::Object(line).to_string()
}

fn text(at: &str, metadata: &Metadata<'_>, mut fields: Fields) -> String {
    let mut line = format!("{at} {:5} {}:", word(*metadata.level()), metadata.target());
    if let Some(Value::String(message)) = fields.message() {
        line.push(' ');
        line.push_str(&fanin_protocol::text::one_line(&message));
    }
    for (name, value) in fields.0 {
        let shown = match value {
            Value::String(text) if is_plain(&text) => text,
            other => other.to_string(),
        };
        let _ = write!(line, " {name}={shown}");
    }
    fanin_protocol::text::printable(&line).into_owned()
}

/// True where a text needs no quotes.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_-./:".contains(c))
}

const fn word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// Takes fields down, without secrets.
struct Seen<'s> {
    fields: &'s mut Fields,
    stderr: &'s Stderr,
}

impl Seen<'_> {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.fields.set(field.name(), value.into());
    }
}

impl Visit for Seen<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let masked = self.stderr.masked(value).into_owned();
        self.put(field, masked);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
