//! Which events a subscriber wants. A filter reads an entry alone, never the machine's state.

use fanin_protocol::record::KINDS;
use fanin_protocol::{About, Entry, GroupId, IdError, JobId, Record, SessionId};

/// Why a filter cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// It names something by a text that is no id.
    #[error("filter: {0}")]
    Id(#[from] IdError),
    /// It asks for a kind that this program does not know.
    #[error("filter: no event has the kind `{kind}`; kinds are {}", KINDS.iter().map(|(kind, _)| *kind).collect::<Vec<_>>().join(", "))]
    Kind {
        /// The kind.
        kind: String,
    },
}

/// Which events a subscriber wants: those about one thing, or all; of some kinds, or of all.
///
/// Building one never fails, so that it reads well in a call. What was wrong with it is told by [`Filter::check`] and
/// by the call that uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    subject: Subject,
    /// `None` for all.
    kinds: Option<Vec<&'static str>>,
    /// The first thing that was wrong in building it.
    wrong: Option<FilterError>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    All,
    Session(SessionId),
    Job(JobId),
    Group(GroupId),
}

impl Default for Filter {
    fn default() -> Self {
        Self::all()
    }
}

impl Filter {
    /// Every event.
    pub const fn all() -> Self {
        Self { subject: Subject::All, kinds: None, wrong: None }
    }

    /// Events of a session and of all below it: its jobs, groups, turns and messages.
    pub fn session<I: TryInto<SessionId>>(id: I) -> Self
    where
        IdError: From<I::Error>,
    {
        Self::about(id.try_into().map(Subject::Session).map_err(IdError::from))
    }

    /// Events of a job, in all its lifetimes.
    pub fn job<I: TryInto<JobId>>(id: I) -> Self
    where
        IdError: From<I::Error>,
    {
        Self::about(id.try_into().map(Subject::Job).map_err(IdError::from))
    }

    /// Events of a group and of its members.
    pub fn group<I: TryInto<GroupId>>(id: I) -> Self
    where
        IdError: From<I::Error>,
    {
        Self::about(id.try_into().map(Subject::Group).map_err(IdError::from))
    }

    fn about(subject: Result<Subject, IdError>) -> Self {
        match subject {
            Ok(subject) => Self { subject, ..Self::all() },
            Err(error) => Self { wrong: Some(error.into()), ..Self::all() },
        }
    }

    /// Of these, only events of some kinds, such as `job.ended`. No kind at all lets nothing through.
    #[must_use]
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let known = |kind: &str| KINDS.iter().map(|(known, _)| *known).find(|known| *known == kind);
        let found = kinds.into_iter().map(|kind| {
            let kind = kind.as_ref();
            known(kind).ok_or_else(|| FilterError::Kind { kind: kind.to_owned() })
        });
        match found.collect() {
            Ok(kinds) => self.kinds = Some(kinds),
            Err(error) => self.wrong = self.wrong.or(Some(error)),
        }
        self
    }

    /// Says whether the filter can be used.
    ///
    /// # Errors
    ///
    /// [`FilterError`], the first thing that was wrong in building it.
    pub fn check(&self) -> Result<(), FilterError> {
        self.wrong.clone().map_or(Ok(()), Err)
    }

    /// True where something belongs to what the filter is about, whatever the kind.
    ///
    /// It chooses what goes into a snapshot by the rule that chooses the events after it.
    pub fn covers(&self, about: &About) -> bool {
        match &self.subject {
            Subject::All => true,
            Subject::Session(id) => about.session() == Some(id),
            Subject::Job(id) => about.job.as_ref() == Some(id),
            Subject::Group(id) => about.group() == Some(id),
        }
    }

    /// True where the filter lets an entry through.
    pub fn matches(&self, entry: &Entry) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&entry.record.kind()))
            && (self.covers(&entry.about) || self.takes(&entry.record))
    }

    /// True where the record closes the message of the filter's group, maybe as one of many.
    fn takes(&self, record: &Record) -> bool {
        match (&self.subject, record) {
            (Subject::Group(id), Record::MessageTaken(taken)) => taken.keys.contains(id),
            _ => false,
        }
    }
}
