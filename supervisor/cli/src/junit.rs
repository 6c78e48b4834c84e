//! The result as a JUnit report, as servers of CI read it: one suite, a case for each task. Whatever a task wrote, the
//! report is well-formed, and bounded.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use fanin_protocol::limits::{JUNIT_OUTPUT_BYTES_MAX, JUNIT_OUTPUTS_BYTES_MAX};
use fanin_protocol::{Cause, ResultEntry, Status, Threshold, text};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use crate::over::Over;

/// The name of the suite where the run has no description.
const NAME: &str = "fanin run";

/// What a case counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// The task did its work and it was not good, or it took too long.
    Failure,
    /// The task could not do its work.
    Error,
    /// Others were the reason that it was not done.
    Skipped,
}

/// Writes the report.
///
/// # Errors
///
/// The writer's.
pub(crate) fn write(out: &mut impl Write, over: &Over<'_>) -> io::Result<()> {
    let mut xml = Writer::new_with_indent(out, b' ', 1);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let suite = Suite::of(over);
    let whole: Vec<(&str, &str)> = suite.attributes.iter().map(|(name, value)| (*name, &**value)).collect();
    // What stands beside the counts and the time is of the suite alone.
    let sums: Vec<_> = whole.iter().copied().filter(|(name, _)| *name != "timestamp").collect();
    xml.create_element("testsuites").with_attributes(sums).write_inner_content(|xml| {
        xml.create_element("testsuite").with_attributes(whole).write_inner_content(|xml| {
            suite.write_properties(xml, over)?;
            over.tasks.entries().try_for_each(|entry| suite.write_case(xml, over, &entry))
        })?;
        Ok(())
    })?;
    xml.get_mut().write_all(b"\n")
}

/// What holds for all cases.
struct Suite {
    name: String,
    attributes: Vec<(&'static str, String)>,
    /// How often each label is there: one that is there twice has the task's name beside it.
    labels: HashMap<String, usize>,
    /// Bytes of output that each case has at the most.
    share: usize,
}

impl Suite {
    fn of(over: &Over<'_>) -> Self {
        let mut labels = HashMap::new();
        let (mut tests, mut failures, mut errors, mut skipped) = (0_u32, 0_u32, 0_u32, 0_u32);
        let mut began_ms = u64::MAX;
        for entry in over.tasks.entries() {
            *labels.entry(label(&entry)).or_insert(0) += 1;
            tests += 1;
            match verdict(&entry, over.tasks.result.stopped_by) {
                Verdict::Passed => {}
                Verdict::Failure => failures += 1,
                Verdict::Error => errors += 1,
                Verdict::Skipped => skipped += 1,
            }
            began_ms = began_ms.min(entry.queued_at_ms);
        }
        let name = over.description.map_or_else(|| NAME.to_owned(), valid_line);
        let attributes = vec![
            ("name", name.clone()),
            ("tests", tests.to_string()),
            ("failures", failures.to_string()),
            ("errors", errors.to_string()),
            ("skipped", skipped.to_string()),
            ("time", seconds(over.tasks.result.duration_ms)),
            ("timestamp", timestamp(began_ms)),
        ];
        let share = JUNIT_OUTPUT_BYTES_MAX.min(JUNIT_OUTPUTS_BYTES_MAX / over.tasks.members.len().max(1));
        Self { name, attributes, labels, share }
    }

    fn write_properties(&self, xml: &mut Writer<impl Write>, over: &Over<'_>) -> io::Result<()> {
        let result = over.tasks.result;
        let mut properties =
            vec![("fanin.group", result.group.to_string()), ("fanin.outcome", result.outcome.to_string())];
        properties.extend(over.again_of.map(|group| ("fanin.again_of", group.to_string())));
        xml.create_element("properties").write_inner_content(|xml| {
            for (name, value) in &properties {
                let attributes = [("name", *name), ("value", value)];
                xml.create_element("property").with_attributes(attributes).write_empty()?;
            }
            Ok(())
        })?;
        Ok(())
    }

    fn write_case(
        &self,
        xml: &mut Writer<impl Write>,
        over: &Over<'_>,
        entry: &ResultEntry,
    ) -> io::Result<()> {
        let label = label(entry);
        let name = match (self.labels.get(&label), over.tasks.member(entry)) {
            (Some(2..), Some(member)) => format!("{label} ({})", member.name(entry.index)),
            (Some(_) | None, _) => label,
        };
        let time =
            seconds(entry.ended_at_ms.unwrap_or(0).saturating_sub(entry.started_at_ms.unwrap_or(u64::MAX)));
        let attributes = [("name", name.as_str()), ("classname", &self.name), ("time", &time)];
        let verdict = verdict(entry, over.tasks.result.stopped_by);
        xml.create_element("testcase").with_attributes(attributes).write_inner_content(|xml| {
            let element = match verdict {
                Verdict::Passed => None,
                Verdict::Failure => Some("failure"),
                Verdict::Error => Some("error"),
                Verdict::Skipped => Some("skipped"),
            };
            if let Some(element) = element {
                let message = valid_line(&over.words.of(&entry.into()));
                let attributes = [("type", kind(entry)), ("message", message)];
                let attributes = attributes.iter().map(|(name, value)| (*name, value.as_str()));
                xml.create_element(element).with_attributes(attributes).write_empty()?;
            }
            let output = self.output(over, entry);
            if !output.is_empty() {
                xml.create_element("system-out").write_text_content(BytesText::new(&output))?;
            }
            Ok(())
        })?;
        Ok(())
    }

    /// What the task put out, after a word on where it comes from.
    fn output(&self, over: &Over<'_>, entry: &ResultEntry) -> String {
        let from = over.tasks.member(entry).and_then(|member| member.carried_from());
        let mut output =
            from.map(|group| format!("[completed in {group}, not run again]\n")).unwrap_or_default();
        let kept = over.tasks.kept(&entry.job).map(|kept| Cow::Owned(kept.text));
        let said = entry.output.as_ref().map(|said| Cow::Borrowed(&*said.text));
        if let Some(said) = kept.or(said) {
            output.push_str(text::excerpt(&valid(&said), self.share).trim_end());
        }
        output
    }
}

fn verdict(entry: &ResultEntry, stopped_by: Option<Threshold>) -> Verdict {
    let is_started = entry.started_at_ms.is_some();
    match (entry.status, entry.cause) {
        (Status::Completed, _) => Verdict::Passed,
        (Status::Error, Some(Cause::Failed | Cause::Panic)) => Verdict::Failure,
        (Status::Error, Some(Cause::Timeout)) if is_started => Verdict::Failure,
        (Status::Error, Some(Cause::Dependency)) => Verdict::Skipped,
        (Status::Error | Status::Queued | Status::Running, _) => Verdict::Error,
        // Its siblings had decided the group; at the deadline nobody had.
        (Status::Cancelled, Some(Cause::Group)) if stopped_by != Some(Threshold::Deadline) => {
            Verdict::Skipped
        }
        (Status::Cancelled, _) if is_started => Verdict::Error,
        (Status::Cancelled, _) => Verdict::Skipped,
    }
}

/// Cause and code in one word.
fn kind(entry: &ResultEntry) -> String {
    match (entry.cause, entry.code) {
        (None, _) => entry.status.to_string(),
        (Some(cause), None) => cause.to_string(),
        (Some(cause), Some(code)) => format!("{cause}.{code}"),
    }
}

fn label(entry: &ResultEntry) -> String {
    entry.label.as_ref().map_or_else(|| entry.job.to_string(), |label| valid_line(label))
}

/// Text without what XML cannot say, and without what moves a terminal's cursor: some servers show it as it is.
fn valid(text: &str) -> String {
    text::printable(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

fn valid_line(text: &str) -> String {
    valid(&text::one_line(text))
}

/// Seconds with three digits behind the point, the form that every reader takes.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}

/// A time as `2026-01-31T23:59:59`, in UTC: readers take no zone.
fn timestamp(ms: u64) -> String {
    let (days, second) = (ms / 86_400_000, ms / 1_000 % 86_400);
    // Years that begin in March: the leap day is then the last of its year.
    let (era, day_of_era) = ((days + 719_468) / 146_097, (days + 719_468) % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..=9 => (year_of_era + era * 400, month + 3),
        _ => (year_of_era + era * 400 + 1, month - 9),
    };
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests;
