//! `fanin events`: the records of a run, one line each. It shows ids and facts, and content of jobs never.

use std::io::Write;
use std::thread;

use fanin_protocol::limits::FOLLOW_EVERY;
use fanin_protocol::{Cursor, Entry, LogId, Named, Record, Seq, text};
use fanin_supervisor::stored::{Records, StoredRecord};
use serde_json::json;

use crate::exit::Exit;
use crate::look::{State, Where};
use crate::stores::{LookError, short};

/// The words of `fanin events`.
#[derive(Debug, clap::Args)]
pub(crate) struct EventsArgs {
    /// The run, or the id of anything in it [default: the newest run]
    #[arg(value_name = "RUN")]
    run: Option<String>,

    /// Begin with this record; `LOG:SEQ`, as the last line of --json has it, begins behind it
    #[arg(long, value_name = "SEQ|LOG:SEQ", default_value = "1")]
    from: String,

    /// Go on until the run is over, or its supervisor gone
    #[arg(short, long)]
    follow: bool,

    /// A JSON document (fanin.event/1) for each line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    place: Where,
}

/// Prints the records.
///
/// # Errors
///
/// [`LookError`], also where the supervisor of what is followed died.
pub(crate) fn run(args: &EventsArgs, state: &State, out: &mut dyn Write) -> Result<Exit, LookError> {
    let found = args.place.places(state)?.find_or_newest(args.run.as_deref())?;
    let from = from(&args.from, found.stored.log(), found.stored.head())?;
    let mut records = found.stored.records();
    // The store of a run has nothing else in it.
    let only = found.place.is_shared.then(|| found.named.clone());
    let mut printer = Printer { is_json: args.json, from, begun_ms: None, only, is_over: false };
    let end = loop {
        // Before the look: what an owner wrote last is there once it is gone.
        let is_owned = found.place.is_owned()?;
        while printer.page(&mut records, out)? {}
        out.flush()?;
        if !args.follow || printer.is_over {
            break Ok(Exit::Done);
        }
        if !is_owned {
            match found.may_go_on() {
                Ok(true) => {}
                Ok(false) => break Ok(Exit::Done),
                Err(error) => break Err(error),
            }
        }
        thread::sleep(FOLLOW_EVERY);
    };
    if let (true, Some(log)) = (args.json, records.log()) {
        let mark = Cursor { log: log.clone(), seq: records.head() };
        writeln!(out, "{}", json!({ "mark": { "seq": records.head(), "cursor": mark.to_string() } }))?;
    }
    out.flush()?;
    end
}

/// The first record that is wanted.
fn from(place: &str, log: Option<&LogId>, head: Seq) -> Result<Seq, LookError> {
    let wrong = |problem: String| Err(LookError::From(problem));
    let above = |seq: Seq| wrong(format!("{seq} is above the newest record, {head}; begin with 1"));
    if let Ok(seq) = place.parse() {
        // The first may be waited for where there is none yet.
        return if Seq(seq) > head.max(Seq(1)) { above(Seq(seq)) } else { Ok(Seq(seq)) };
    }
    match place.parse::<Cursor>() {
        Err(error) => wrong(format!("{error}; write a number or LOG:SEQ")),
        Ok(cursor) if Some(&cursor.log) != log => wrong(format!(
            "{} is another log than {}; begin with 1",
            cursor.log,
            log.map(ToString::to_string).unwrap_or_default()
        )),
        Ok(cursor) if cursor.seq > head => above(cursor.seq),
        Ok(cursor) => Ok(cursor.seq.next()),
    }
}

struct Printer {
    is_json: bool,
    from: Seq,
    /// The time of the first record.
    begun_ms: Option<u64>,
    /// What alone is shown, of a store that has more.
    only: Option<Named>,
    /// That is over.
    is_over: bool,
}

impl Printer {
    /// Prints a page; false where there is none.
    fn page(&mut self, records: &mut Records, out: &mut dyn Write) -> Result<bool, LookError> {
        let page = records.page()?;
        let Some(log) = records.log() else { return Ok(false) };
        for record in &page {
            if !self.is_wanted(record) {
                continue;
            }
            let line = if self.is_json { self.document(record, log)? } else { self.line(record) };
            if let Some(line) = line {
                writeln!(out, "{line}")?;
            }
        }
        Ok(!page.is_empty())
    }

    /// True for what is shown at all. It notes the end of that.
    fn is_wanted(&mut self, record: &StoredRecord) -> bool {
        let Some(only) = &self.only else { return true };
        let StoredRecord::Known(entry) = record else { return matches!(record, StoredRecord::Gap { .. }) };
        let is_wanted = match only {
            Named::Job(job) => entry.about.job.as_ref() == Some(job),
            Named::Group(group) => entry.about.group() == Some(group),
            Named::Session(session) => entry.about.session() == Some(session),
        };
        match (&entry.record, only) {
            (Record::JobQueued(queued), Named::Job(job)) if queued.job == *job => self.is_over = false,
            (Record::JobEnded(ended), Named::Job(job)) if ended.job == *job => self.is_over = true,
            (Record::GroupFired(fired), Named::Group(group)) => self.is_over |= fired.group == *group,
            (Record::GroupVoided(voided), Named::Group(group)) => self.is_over |= voided.group == *group,
            _ => {}
        }
        is_wanted
    }

    fn document(&self, record: &StoredRecord, log: &LogId) -> Result<Option<String>, LookError> {
        let document = match record {
            StoredRecord::Known(entry) if entry.seq >= self.from => {
                entry.to_json(log).map_err(std::io::Error::from)?
            }
            StoredRecord::Unknown { seq, ts_ms, kind } if *seq >= self.from => {
                json!({ "log": log, "seq": seq, "ts_ms": ts_ms, "kind": kind })
            }
            StoredRecord::Gap { from, to } if *to >= self.from => {
                json!({ "gap": { "from": from, "to": to } })
            }
            StoredRecord::Known(_) | StoredRecord::Unknown { .. } | StoredRecord::Gap { .. } => {
                return Ok(None);
            }
        };
        Ok(Some(document.to_string()))
    }

    fn line(&mut self, record: &StoredRecord) -> Option<String> {
        let (seq, ts_ms, kind, about) = match record {
            StoredRecord::Known(entry) => (entry.seq, entry.ts_ms, entry.record.kind(), about(entry)),
            StoredRecord::Unknown { seq, ts_ms, kind } => {
                (*seq, *ts_ms, kind.as_str(), "(of a newer fanin)".to_owned())
            }
            StoredRecord::Gap { from, to } if *to >= self.from => {
                return Some(format!("(records {from} to {to} are no longer kept)"));
            }
            StoredRecord::Gap { .. } => return None,
        };
        let begun = *self.begun_ms.get_or_insert(ts_ms);
        let after = text::duration(ts_ms.saturating_sub(begun));
        let line = format!("{seq:>5} {after:>8}  {kind:<16}  {about}", kind = text::one_line(kind));
        (seq >= self.from).then(|| line.trim_end().to_owned())
    }
}

/// The narrowest thing that a record is about.
fn about(entry: &Entry) -> String {
    let about = &entry.about;
    let job = about.job.as_ref().map(short);
    let group = about.group().map(short);
    job.or(group).or_else(|| about.session().map(ToString::to_string)).unwrap_or_default()
}
