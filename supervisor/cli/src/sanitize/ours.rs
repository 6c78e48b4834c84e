//! A store of fanin as a kind of transcript: what its dead owner left open. It is only looked at here: what closes it is
//! the recovery of its next owner (RE-3), and there is no second one (decision 0047).

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use fanin_protocol::{Fence, NodeId, PartState, Record, SessionId, ToolPart, layout};
use fanin_sanitize::{Format, Orphan, SanitizeError, Scan, Scanned, Store};
use fanin_sqlite::{Owner, check};
use fanin_supervisor::JobFilter;
use fanin_supervisor::journal::JournalError;
use fanin_supervisor::stored::Stored;

use crate::ps;
use crate::stores::{self, LookError, Places};

/// A store of fanin: the folder of a run, or one that a program made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ours;

impl Format for Ours {
    fn name(&self) -> &'static str {
        "fanin"
    }

    fn places(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Vec<PathBuf>, SanitizeError> {
        // Without a state folder no run was kept.
        let runs = layout::state(variable).ok().and_then(|state| crate::keep::folders(&state).ok());
        let mut runs = runs.unwrap_or_default();
        // A run with a result is over, and has nothing open.
        runs.retain(|run| stores::is_store(run) && !run.join(layout::RESULT).exists());
        Ok(runs)
    }

    fn is_one(&self, path: &Path) -> Result<bool, SanitizeError> {
        Ok(stores::is_store(path))
    }

    fn user(&self, path: &Path) -> Option<String> {
        match Owner::of(path) {
            Ok(Owner::Live(owner)) => Some(owner),
            Ok(Owner::None) | Err(_) => None,
        }
    }

    fn scan(&self, path: &Path) -> Result<Scan, SanitizeError> {
        let stored = read(path)?;
        let mut found = Found::of(&stored);
        if stored.is_interrupted() {
            found.parts(path)?;
        }
        let version = "1".to_owned();
        Ok(Scan { version, sessions: found.sessions })
    }

    fn open(&self, path: &Path, _force: bool) -> Result<Box<dyn Store>, SanitizeError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let how = if path.join(layout::PLAN).exists() {
            format!("`fanin resume {name}` closes what is open, and goes on with the run")
        } else {
            "the program that made it closes what is open when it opens it again".to_owned()
        };
        Err(SanitizeError::Elsewhere { path: path.to_owned(), how })
    }
}

fn read(path: &Path) -> Result<Stored, SanitizeError> {
    let place = Places::of(Some(path), Ok(path.to_owned()));
    let stored = place.and_then(|places| places.newest()?.read());
    stored.map_err(|error| match error {
        LookError::Store(error) => of_journal(path, error),
        other => SanitizeError::Io { path: path.to_owned(), problem: other.to_string() },
    })
}

fn of_journal(path: &Path, error: JournalError) -> SanitizeError {
    let path = path.to_owned();
    match error {
        JournalError::Owned { owner, .. } => SanitizeError::InUse { path, user: Some(owner) },
        JournalError::Foreign { found, known, .. } => SanitizeError::Version { path, found, known },
        JournalError::Damaged { damage, .. } => SanitizeError::Damaged { path, damage },
        other => SanitizeError::Io { path, problem: other.to_string() },
    }
}

/// What is open, by session.
struct Found {
    sessions: Vec<Scanned>,
    places: HashMap<SessionId, usize>,
    /// The session of each job.
    of: HashMap<String, SessionId>,
}

impl Found {
    /// The sessions, with the jobs that ran when their owner died.
    fn of(stored: &Stored) -> Self {
        let mut found = Self { sessions: Vec::new(), places: HashMap::new(), of: HashMap::new() };
        for job in stored.list(&JobFilter { limit: usize::MAX, ..JobFilter::default() }).jobs {
            let id = job.job.to_string();
            found.of.insert(id.clone(), job.session.clone());
            let orphans = found.session(&job.session);
            if ps::is_lost(&job) {
                let label = job.label.as_deref().unwrap_or_default().to_owned();
                let after_ms = job.started_at_ms.unwrap_or(job.queued_at_ms);
                orphans.push(Orphan::Job { key: id.clone(), job: id, label, after_ms });
            }
        }
        found
    }

    fn session(&mut self, session: &SessionId) -> &mut Vec<Orphan> {
        let next = self.sessions.len();
        let place = *self.places.entry(session.clone()).or_insert(next);
        if place == next {
            let session = session.to_string();
            self.sessions.push(Scanned { session, parent: None, title: String::new(), orphans: Vec::new() });
        }
        // The place was just made, or is that of one that stays.
        #[expect(clippy::indexing_slicing, reason = "sessions are never taken out")]
        let scanned = &mut self.sessions[place];
        &mut scanned.orphans
    }

    /// The calls that have no end.
    fn parts(&mut self, path: &Path) -> Result<(), SanitizeError> {
        let (mut nodes, mut open) = (HashMap::new(), Vec::<ToolPart>::new());
        let see = |envelope: &fanin_protocol::Envelope| match envelope.record() {
            Ok(Some(Record::RunStarted(started))) => {
                nodes.insert(Fence(envelope.seq.0), started.node);
            }
            Ok(Some(Record::ToolPart(part))) => {
                open.retain(|known| known.run != part.run || known.call != part.call);
                if matches!(part.state, PartState::Pending | PartState::Running) {
                    open.push(part);
                }
            }
            // What cannot be read is told by the check itself.
            Ok(Some(_) | None) | Err(_) => {}
        };
        check(path, see).map_err(|error| of_journal(path, error))?;
        for part in open {
            let session = match nodes.get(&part.run) {
                Some(NodeId::Session(session)) => Some(session.clone()),
                Some(NodeId::Job(job)) => self.of.get(&job.to_string()).cloned(),
                None => None,
            };
            // A run whose beginning is no longer kept is over.
            let Some(session) = session else { continue };
            let (key, is_timeless) = (part.call.to_string(), false);
            self.session(&session).push(Orphan::Part { key, part, child: None, is_timeless });
        }
        Ok(())
    }
}
