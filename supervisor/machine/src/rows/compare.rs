//! The rows of a store against the fold of its whole log: they say the same, or the store is damaged (ST-3, G1). It
//! changes nothing.

use std::collections::BTreeSet;

use fanin_protocol::{RowKind, Seq};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{GroupRow, MessageRow, RestoreError, SessionRow, StoreRow, decode};
use crate::evict;
use crate::state::{Facts, Job};

impl Facts {
    /// Compares the rows of what is open, or was not let go yet, with these facts: the fold of all records of the same
    /// store. A thing that is over may have no row any more.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] of the first row that says something else, is of a thing that no record tells of, or is missing.
    pub fn compare<'a>(
        &self,
        rows: impl Iterator<Item = (RowKind, u64, &'a [u8])>,
    ) -> Result<(), RestoreError> {
        let mut missing = self.places_kept();
        for (kind, key, body) in rows {
            missing.remove(&(kind, key));
            let wrong = |why: String| RestoreError { kind, key, why };
            let is_place = kind != RowKind::Store || key == 0;
            let row = self
                .row(kind, key)
                .filter(|_| is_place)
                .ok_or_else(|| wrong("no record tells of it".into()))?;
            let told = row.body.encode().map_err(|error| wrong(error.to_string()))?;
            let says = match kind {
                RowKind::Store => plain::<StoreRow>(body),
                RowKind::Session => plain::<SessionRow>(body),
                RowKind::Group => plain::<GroupRow>(body),
                RowKind::Job => plain::<Job>(body),
                RowKind::Message => plain::<MessageRow>(body),
            };
            if says.map_err(wrong)? != told {
                return Err(wrong("it is not what the records say".into()));
            }
        }
        let gone = |(kind, key)| RestoreError { kind, key, why: "it is gone, and not over".into() };
        missing.first().copied().map_or(Ok(()), |place| Err(gone(place)))
    }

    /// The rows that nobody may have let go.
    fn places_kept(&self) -> BTreeSet<(RowKind, u64)> {
        let store = (self.epoch > Seq(0)).then_some((RowKind::Store, 0));
        let sessions = self.sessions.iter().filter(|(_, session)| !session.closed);
        let sessions = sessions.map(|(key, _)| (RowKind::Session, key.into()));
        let groups = self.groups.iter().filter(|(_, group)| !evict::is_done(group));
        let groups = groups.map(|(key, _)| (RowKind::Group, key.into()));
        let is_kept =
            |job: &Job| self.groups.get(job.group.index()).is_some_and(|group| !evict::is_done(group));
        let jobs = self.jobs.iter().filter(|(_, job)| is_kept(job));
        let jobs = jobs.map(|(key, _)| (RowKind::Job, key.into()));
        let messages = self.message_keys.places.values().map(|(_, seq)| (RowKind::Message, seq.0));
        store.into_iter().chain(sessions).chain(groups).chain(jobs).chain(messages).collect()
    }
}

/// What a row says in the words of this version, which may leave something out that another one wrote.
fn plain<T: DeserializeOwned + Serialize>(body: &[u8]) -> Result<Vec<u8>, String> {
    rmp_serde::to_vec_named(&decode::<T>(body)?).map_err(|error| error.to_string())
}
