//! What has left the memory, looked up in the store: jobs and groups that are over (SC-23). It asks for single rows, and
//! decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fanin_machine::{GroupInfo, JobRow, Refusal, State, Wanted};
use fanin_protocol::{GroupId, JobId, JobInfo, Lifetime, RowKind, Seq};

use crate::core::{CallError, Core};
use crate::handle::Handle;
use crate::journal::{JournalError, JournalReader, Row};
use crate::wait::{WaitError, Waited};

/// A life of a job; without a lifetime the newest of its id.
pub(crate) type Life = (JobId, Option<Lifetime>);

/// Jobs as their rows say.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) state: State,
    /// Their lifetimes, in the order in which they were asked for; `None` for one that the store has not got.
    pub(crate) lives: Vec<Option<Lifetime>>,
}

impl Past {
    /// Looks up jobs.
    pub(crate) fn find(reader: &dyn JournalReader, jobs: &[Life]) -> Result<Self, JournalError> {
        let (mut rows, mut lives) = (BTreeMap::new(), Vec::with_capacity(jobs.len()));
        for (id, lifetime) in jobs {
            lives.push(match find_row(reader, id, *lifetime)? {
                None => None,
                Some((row, names)) => {
                    add(reader, &mut rows, RowKind::Session, names.session)?;
                    add(reader, &mut rows, RowKind::Group, names.group)?;
                    rows.insert((RowKind::Job, row.key), row);
                    Some(names.lifetime)
                }
            });
        }
        Ok(Self { state: seen(rows.values())?, lives })
    }

    /// The first of them, as it stands.
    pub(crate) fn first(&self) -> Option<JobInfo> {
        let lifetime = (*self.lives.first()?)?;
        // A row may outlive that of its group by a moment; without it nobody knows what the job was part of.
        self.state.job_info_of(lifetime)
    }
}

/// The row of this life of an id.
fn find_row(
    reader: &dyn JournalReader,
    id: &JobId,
    lifetime: Option<Lifetime>,
) -> Result<Option<(Row, JobRow)>, JournalError> {
    let name = id.to_string();
    let mut before = u64::MAX;
    // Newer lives have later places.
    while let Some(row) = reader.find_before(RowKind::Job, &name, before)? {
        let names = JobRow::read(row.key, &row.body).map_err(|error| damaged(&error))?;
        match lifetime {
            Some(lifetime) if names.lifetime > lifetime => before = row.key,
            Some(lifetime) if names.lifetime < lifetime => return Ok(None),
            Some(_) | None => return Ok(Some((row, names))),
        }
    }
    Ok(None)
}

fn add(
    reader: &dyn JournalReader,
    rows: &mut BTreeMap<(RowKind, u64), Row>,
    kind: RowKind,
    key: u64,
) -> Result<(), JournalError> {
    if !rows.contains_key(&(kind, key))
        && let Some(row) = reader.row(kind, key)?
    {
        rows.insert((kind, key), row);
    }
    Ok(())
}

/// A group that is over, as its row says.
fn group(reader: &dyn JournalReader, id: &GroupId) -> Result<Option<GroupInfo>, JournalError> {
    let Some(row) = reader.find(RowKind::Group, &id.to_string())? else { return Ok(None) };
    let info = seen([&row].into_iter())?.group_info(id);
    Ok(info.filter(|group| group.result.is_some() || group.voided.is_some()))
}

/// The state that some rows say, which are in the order of their kinds and places.
fn seen<'r>(rows: impl Iterator<Item = &'r Row>) -> Result<State, JournalError> {
    let rows = rows.map(|row| (row.kind, row.key, &*row.body));
    State::seen(None, Seq(0), 0, rows).map_err(|error| damaged(&error))
}

fn damaged(error: &dyn std::fmt::Display) -> JournalError {
    JournalError::Damaged { store: String::new(), damage: error.to_string() }
}

impl Core {
    /// A job that is not in memory and over, as the store has it; `gone` where there is no store, or it has not got it.
    pub(crate) fn past(
        &self,
        job: &JobId,
        lifetime: Option<Lifetime>,
        gone: Refusal,
    ) -> Result<(Past, JobInfo), CallError> {
        let Some(reader) = self.reader() else { return Err(gone.into()) };
        let past = Past::find(&**reader, &[(job.clone(), lifetime)]).map_err(CallError::Store)?;
        match past.first().filter(|info| info.status.is_terminal()) {
            Some(info) => Ok((past, info)),
            None => Err(gone.into()),
        }
    }

    /// A job as it stands, in memory or in the store; without a lifetime in its newest life.
    pub(crate) fn job_info(
        self: &Arc<Self>,
        job: &JobId,
        lifetime: Option<Lifetime>,
    ) -> Result<JobInfo, CallError> {
        let info = self.look(|state| match lifetime {
            Some(lifetime) => state.job_info_exact(job, lifetime),
            None => state.job_info(job).ok_or_else(|| state.no_job(job)),
        })?;
        info.or_else(|gone| self.past(job, lifetime, gone).map(|(_, info)| info))
    }

    /// The newest life of an id, in memory or in the store.
    pub(crate) fn lifetime_of(self: &Arc<Self>, job: &JobId) -> Result<Lifetime, CallError> {
        match self.look(|state| state.lifetime_of(job))? {
            Ok(lifetime) => Ok(lifetime),
            Err(gone) => self.past(job, None, gone).map(|(_, info)| info.lifetime),
        }
    }

    /// A group that is not in memory and over, as the store has it.
    pub(crate) async fn past_group(&self, id: &GroupId, gone: Refusal) -> Result<GroupInfo, CallError> {
        let key = id.clone();
        let found = self.read(move |reader| group(reader, &key)).await?;
        found.flatten().ok_or_else(|| gone.into())
    }

    /// Reads the store, on a thread that may wait for a disk; `None` where there is no store.
    async fn read<R: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn JournalReader) -> Result<R, JournalError> + Send + 'static,
    ) -> Result<Option<R>, CallError> {
        let Some(reader) = self.reader().cloned() else { return Ok(None) };
        let read = self.scope.runtime().spawn_blocking(move || read(&*reader)).await;
        let read =
            read.unwrap_or_else(|error| Err(JournalError::Io(format!("reading it did not end: {error}"))));
        read.map(Some).map_err(CallError::Store)
    }
}

/// The answer to a wait of which some jobs are not in memory: those that the store has are over, and the others are
/// waited for with `wait`. `gone` where the store has not got them either.
pub(crate) async fn jobs<F>(
    handle: &Handle,
    wanted: Wanted,
    gone: Refusal,
    wait: impl Fn(Wanted) -> F,
) -> Result<Waited, WaitError>
where
    F: Future<Output = Result<Waited, WaitError>>,
{
    let (by, lives, is_any) = match wanted {
        Wanted::All(by, ids) => (by, ids.into_iter().map(|id| (id, None)).collect::<Vec<Life>>(), false),
        Wanted::Any(by, ids) => (by, ids.into_iter().map(|id| (id, None)).collect(), true),
        Wanted::Exact(by, id, lifetime) => (by, vec![(id, Some(lifetime))], false),
        Wanted::Group(..)
        | Wanted::Wake(_)
        | Wanted::Message(_)
        | Wanted::Hit(_)
        | Wanted::Mail { .. }
        | Wanted::Background(..)
        | Wanted::Idle => {
            return Err(gone.into());
        }
    };
    let mut seen = BTreeSet::new();
    if let Some((twice, _)) = lives.iter().find(|(id, _)| !seen.insert(id)) {
        return Err(Refusal::DuplicateId(twice.clone()).into());
    }
    let core = handle.core();
    // Of each its refusal, or whether it is over.
    let known: Vec<Result<bool, Refusal>> = core
        .look(|state| {
            let info = |(id, lifetime): &Life| match lifetime {
                Some(lifetime) => state.job_info_exact(id, *lifetime),
                None => state.job_info(id).ok_or_else(|| state.no_job(id)),
            };
            lives.iter().map(|life| info(life).map(|info| info.status.is_terminal())).collect()
        })
        .map_err(WaitError::Call)?;
    let asked: Vec<Life> =
        lives.iter().zip(&known).filter(|(_, known)| known.is_err()).map(|(life, _)| life.clone()).collect();
    let past = match core.read(move |reader| Past::find(reader, &asked)).await? {
        Some(past) => past,
        None => return Err(gone.into()),
    };
    let mut found = past.lives.iter();
    let (mut entries, mut rest) = (Vec::with_capacity(lives.len()), Vec::new());
    for ((id, _), known) in lives.iter().zip(known) {
        entries.push(match known {
            // Any is over already, so those that are not over are not waited for.
            Ok(is_over) => {
                if is_over || !is_any {
                    rest.push(id.clone());
                }
                None
            }
            Err(gone) => {
                let lifetime = found.next().copied().flatten();
                let entry = lifetime.and_then(|lifetime| past.state.entry(lifetime, lives.len()));
                Some(entry.ok_or(gone)?)
            }
        });
    }
    let mut already_delivered = entries.iter().flatten().all(|entry| entry.reference);
    if !rest.is_empty() {
        let waited = wait(Wanted::All(by, rest.clone())).await?;
        already_delivered &= waited.already_delivered;
        let mut waited = waited.entries.into_iter();
        let rest: BTreeSet<&JobId> = rest.iter().collect();
        for (entry, (id, _)) in entries.iter_mut().zip(&lives) {
            if rest.contains(id) {
                *entry = waited.next();
            }
        }
    }
    Ok(Waited { entries: entries.into_iter().flatten().collect(), already_delivered })
}
