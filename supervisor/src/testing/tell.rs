//! Results, and what became of a parent, as plain strings for one-line checks. It reads records, and decides nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use fanin_bus::{Delivery, Event, Filter, Since, Subscription};
use fanin_protocol::record::{GroupSealed, MessageTaken, TakenBy};
use fanin_protocol::{Fence, GroupId, JobId, Lifetime, NodeId, Record, ResultEntry, SessionId};

use crate::session::Session;

/// One line for each entry: its label and how it ended, such as `scan: completed` or `lint: error{timeout run}`.
///
/// Behind it stands what a parent must not overlook: `(reference)`, `(completed anyway)`, `(unreaped)`. An entry without
/// a label goes by its id.
///
/// # Examples
///
/// ```
/// use fanin_supervisor::testing::{FakeRunner, script, start_with, summary, woken};
/// use fanin_supervisor::JobSpec;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agents = FakeRunner::agents().on("lint", script().fails("2 warnings")).otherwise(script().completes("ok"));
/// let (_supervisor, session) = start_with(&agents).await;
/// let group = session.fan_out(["scan", "lint"].map(|label| JobSpec::agent(label, "worker", "Go"))).await?;
/// session.wait_all(&group.jobs()[..1], None).await?;
/// let wake = woken(&session).await;
/// assert_eq!(summary(&wake.entries), ["scan: completed (reference)", "lint: error{failed}"]);
/// # Ok(())
/// # }
/// ```
pub fn summary(entries: &[ResultEntry]) -> Vec<String> {
    let line = |entry: &ResultEntry| {
        let mut line = format!("{}: {}", name(entry.label.as_ref(), &entry.job), entry.summary());
        let marks = [
            (entry.reference, " (reference)"),
            (entry.completed_anyway, " (completed anyway)"),
            (entry.unreaped, " (unreaped)"),
        ];
        marks.into_iter().filter(|(is_so, _)| *is_so).for_each(|(_, mark)| line.push_str(mark));
        line
    };
    entries.iter().map(line).collect()
}

/// The text of each entry: what it put out, else the failure in words, else nothing.
///
/// # Examples
///
/// ```
/// use fanin_supervisor::testing::{FakeRunner, script, start_with, texts, woken};
/// use fanin_supervisor::JobSpec;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agents = FakeRunner::agents().on("lint", script().fails("2 warnings")).otherwise(script().echoes());
/// let (_supervisor, session) = start_with(&agents).await;
/// session.fan_out(["scan", "lint"].map(|label| JobSpec::agent(label, "worker", "Go"))).await?;
/// assert_eq!(texts(&woken(&session).await.entries), ["Go", "2 warnings"]);
/// # Ok(())
/// # }
/// ```
pub fn texts(entries: &[ResultEntry]) -> Vec<&str> {
    entries.iter().map(text).collect()
}

fn text(entry: &ResultEntry) -> &str {
    let output = entry.output.as_ref().map(|output| &*output.text);
    output.or(entry.message.as_deref()).unwrap_or_default()
}

/// What became of a parent so far, one line for each thing, in order: its turns, its groups, and who took their
/// results.
///
/// The lines are `turn`, `turn over`; `sealed: LABELS`, `fired: SUMMARY`, `voided: LABELS`; `taken by a wake: LABELS`,
/// `taken by a wait: LABELS`, and `all taken before: LABELS` where waits had taken all results of a group before it
/// fired. A wait that takes the last results of a group has the labels of all its members. It reads the records that the
/// supervisor still keeps.
///
/// # Panics
///
/// Where the first of them are no longer kept.
///
/// # Examples
///
/// ```
/// use fanin_supervisor::testing::{FakeRunner, script, start_with, story, woken};
/// use fanin_supervisor::JobSpec;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agents = FakeRunner::agents().on("lint", script().fails("2 warnings")).otherwise(script().completes("ok"));
/// let (_supervisor, session) = start_with(&agents).await;
/// let turn = session.turn().await?;
/// session.fan_out(["scan", "lint"].map(|label| JobSpec::agent(label, "worker", "Go"))).await?;
/// turn.end().await?;
/// woken(&session).await;
/// let expected = [
///     "turn",
///     "sealed: scan, lint",
///     "turn over",
///     "fired: scan: completed, lint: error{failed}",
///     "taken by a wake: scan, lint",
/// ];
/// assert_eq!(story(&session), expected);
/// # Ok(())
/// # }
/// ```
pub fn story(session: &Session) -> Vec<String> {
    Told::of(session).lines
}

/// What the records say of a parent. Shown, it is the end of a message: its story.
pub(super) struct Told {
    session: SessionId,
    names: HashMap<JobId, String>,
    /// Jobs by their lifetimes, which is how a wait that took single results is told.
    lives: HashMap<Lifetime, JobId>,
    turns: BTreeSet<Fence>,
    /// Groups that have not fired or whose result nobody took, by the labels of their members.
    pub(super) owed: BTreeMap<GroupId, String>,
    /// Wakes that were acknowledged.
    pub(super) wakes: usize,
    lines: Vec<String>,
}

impl Told {
    pub(super) fn of(session: &Session) -> Self {
        let mut told = Self {
            session: session.id().clone(),
            names: HashMap::new(),
            lives: HashMap::new(),
            turns: BTreeSet::new(),
            owed: BTreeMap::new(),
            wakes: 0,
            lines: Vec::new(),
        };
        let log = Arc::clone(&session.handle().core().log);
        let records = Subscription::new(log, Filter::session(session.id().clone()), Since::Start);
        let mut records = records.unwrap_or_else(|error| panic!("{error}"));
        while let Ok(delivery) = records.try_next() {
            match delivery {
                Delivery::Event(event) => told.take_in(&event),
                Delivery::Lagged { missed, .. } => {
                    panic!("{missed} records are no longer kept; give the supervisor a longer tail")
                }
                unreadable @ Delivery::Unreadable { .. } => panic!("{unreadable}"),
            }
        }
        told
    }

    fn take_in(&mut self, event: &Event) {
        let parent = NodeId::Session(self.session.clone());
        match event.record() {
            Record::JobQueued(queued) => {
                self.names.insert(queued.job.clone(), name(queued.label.as_ref(), &queued.job));
                self.lives.insert(Lifetime(event.seq().0), queued.job.clone());
            }
            Record::RunStarted(started) if started.node == parent => {
                self.turns.insert(Fence(event.seq().0));
                self.lines.push("turn".into());
            }
            Record::RunEnded(ended) if self.turns.contains(&ended.run) => self.lines.push("turn over".into()),
            Record::GroupSealed(sealed) if sealed.parent == parent => self.sealed(sealed),
            Record::GroupFired(fired) if self.owed.contains_key(&fired.group) => {
                let entries = fired.payload.reveal().map_or(&[][..], |result| &result.entries);
                self.lines.push(format!("fired: {}", summary(entries).join(", ")));
            }
            Record::GroupVoided(voided) => {
                if let Some(members) = self.owed.remove(&voided.group) {
                    self.lines.push(format!("voided: {members}"));
                }
            }
            Record::MessageTaken(taken) => self.taken(taken),
            // Of the jobs themselves a parent hears by its wakes and waits.
            _ => {}
        }
    }

    fn sealed(&mut self, sealed: &GroupSealed) {
        let members = self.labels(sealed.members.iter());
        self.lines.push(format!("sealed: {members}"));
        self.owed.insert(sealed.group.clone(), members);
    }

    fn taken(&mut self, taken: &MessageTaken) {
        let groups: Vec<String> = taken.keys.iter().filter_map(|group| self.owed.remove(group)).collect();
        let jobs = taken.results.iter().filter_map(|life| self.lives.get(life));
        let (by, what) = match taken.by {
            TakenBy::Inbox => {
                self.wakes += groups.len();
                ("taken by a wake", groups)
            }
            // Single results, or the last of a group, which closes all of it.
            TakenBy::Waiter if groups.is_empty() => ("taken by a wait", vec![self.labels(jobs)]),
            TakenBy::Waiter => ("taken by a wait", groups),
            TakenBy::Results => ("all taken before", groups),
            TakenBy::Void => ("voided", groups),
            TakenBy::Run => ("taken by a run", groups),
        };
        self.lines.extend(what.iter().filter(|what| !what.is_empty()).map(|what| format!("{by}: {what}")));
    }

    fn labels<'a>(&self, jobs: impl Iterator<Item = &'a JobId>) -> String {
        let names: Vec<&str> = jobs.filter_map(|job| self.names.get(job)).map(String::as_str).collect();
        names.join(", ")
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\nthe story so far:")?;
        self.lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

fn name(label: Option<&Arc<str>>, job: &JobId) -> String {
    label.map_or_else(|| job.to_string(), |label| label.to_string())
}
