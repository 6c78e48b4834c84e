//! The stores of runs, as they are read: which there are, and what an id names in them. It owns none and changes none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fanin_protocol::limits::{ID_BYTES_MAX, ID_PREFIX_DIGITS_MIN};
use fanin_protocol::{GroupId, JobId, LayoutError, layout, text};
use fanin_sanitize::SanitizeError;
use fanin_sqlite::{Owner, StoreReader};
use fanin_supervisor::journal::JournalError;
use fanin_supervisor::stored::Stored;
use fanin_supervisor::{FindError, JobFilter, Named};

use crate::exec;
use crate::exit::Exit;
use crate::keep;
use crate::prepare;
use crate::ps;
use crate::sanitize;

/// The database of a store.
pub(crate) const DATABASE: &str = "store.db";

/// Why a run that is kept has none.
const NO_STORE: &str = ": it was run with --no-store, or was refused before it began";

/// How far a store has come, as its owner has told others. Where it is there without a database, that is gone.
const MARK: &str = "hwm";

/// Why stores cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookError {
    /// Nothing says where runs are kept.
    #[error(transparent)]
    State(#[from] LayoutError),
    /// There is no store.
    #[error("{0}")]
    NoStore(String),
    /// No store has it.
    #[error("nothing has the id `{0}` or one that begins so; `fanin ps --all` lists what there is")]
    NotFound(String),
    /// Too little of an id.
    #[error("{0}")]
    Find(#[from] FindError),
    /// Several have it.
    #[error("`{start}` stands for {count}: {candidates}; write more of it")]
    Several {
        /// What was asked for.
        start: String,
        /// How many it could be.
        count: usize,
        /// The first of them.
        candidates: String,
    },
    /// It has another kind than what was asked for.
    #[error("{0} is no {1}")]
    Other(String, &'static str),
    /// The place in a log is none, or not one of this log.
    #[error("--from: {0}")]
    From(String),
    /// A store cannot be read.
    #[error(transparent)]
    Store(#[from] JournalError),
    /// A store of transcripts cannot be looked at, or not be repaired.
    #[error(transparent)]
    Sanitize(#[from] SanitizeError),
    /// What was followed will not go on by itself: nobody has the store any more, and it was not closed.
    #[error("{what} was interrupted: its supervisor is gone; {way_out}")]
    Interrupted {
        /// The job or run.
        what: String,
        /// How it goes on.
        way_out: String,
    },
    /// What was followed goes on with another service: this one has ended in order.
    #[error("{what} is not over, and its service has ended; {way_out}")]
    ServiceEnded {
        /// The job or run.
        what: String,
        /// How it goes on.
        way_out: String,
    },
    /// The state folder cannot be read, or the answer not be written.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl LookError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::State(_) => "no_state_folder",
            Self::NoStore(_) => "no_store",
            Self::NotFound(_) => "not_found",
            Self::Find(error) => error.code(),
            Self::Several { .. } => "several_found",
            Self::Other(..) => "other_kind",
            Self::From(_) => "bad_place",
            Self::Store(error) => error.code(),
            Self::Sanitize(error) => error.code(),
            Self::Interrupted { .. } => "interrupted",
            Self::ServiceEnded { .. } => "service_ended",
            Self::Io(_) => "look_io",
        }
    }

    /// What it makes of the program's end.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Store(JournalError::Owned { .. }) => Exit::Owned,
            Self::Store(_) | Self::Io(_) => Exit::Internal,
            Self::Interrupted { .. } | Self::ServiceEnded { .. } => Exit::SomeNotCompleted,
            Self::Sanitize(error) => sanitize::of_error(error),
            Self::State(_)
            | Self::NoStore(_)
            | Self::NotFound(_)
            | Self::Find(_)
            | Self::Several { .. }
            | Self::Other(..)
            | Self::From(_) => Exit::Usage,
        }
    }
}

/// Where a store is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    /// Its folder's own name: that of the run where it is one's.
    pub(crate) name: String,
    /// It is the store that a service owns.
    pub(crate) is_shared: bool,
}

impl Place {
    fn new(dir: &Path) -> Self {
        let name = dir.file_name().unwrap_or(dir.as_os_str());
        Self { dir: dir.to_owned(), name: text::path(Path::new(name)), is_shared: false }
    }

    /// The shared store of a state folder.
    fn shared(state: &Path) -> Self {
        Self { is_shared: true, ..Self::new(&layout::store(state)) }
    }

    /// True where it is a session's, with which nobody goes on.
    pub(crate) fn is_session(&self) -> bool {
        keep::is_session(&self.dir)
    }

    /// True where a live process has it.
    ///
    /// # Errors
    ///
    /// [`LookError::Store`].
    pub(crate) fn is_owned(&self) -> Result<bool, LookError> {
        Ok(Owner::of(&self.dir)? != Owner::None)
    }

    /// What goes on with it where its owner died.
    pub(crate) fn way_out(&self) -> String {
        if self.is_shared {
            return "this goes on with it: fanin serve".to_owned();
        }
        way_out(&self.dir, &self.name)
    }

    /// Reads all that it holds.
    ///
    /// # Errors
    ///
    /// [`LookError::Store`].
    pub(crate) fn read(&self) -> Result<Stored, LookError> {
        // First: an owner that goes in between has closed it by the time that it is read.
        let is_owned = self.is_owned()?;
        let reader = Arc::new(StoreReader::open(&self.dir)?);
        Ok(Stored::read(reader, is_owned)?)
    }
}

/// Stores to look at.
#[derive(Debug)]
pub(crate) struct Places {
    /// The newest first; that of the service last.
    pub(crate) all: Vec<Place>,
    /// Runs that have no store.
    pub(crate) without: Vec<Place>,
}

impl Places {
    /// The store in this folder, or those of all runs of the state folder and of its service.
    ///
    /// # Errors
    ///
    /// [`LookError`], where there is no such store or the state folder cannot be read. No run at all is none.
    pub(crate) fn of(store: Option<&Path>, state: Result<PathBuf, LayoutError>) -> Result<Self, LookError> {
        if let Some(dir) = store {
            if !is_store(dir) {
                let why = if dir.join(layout::PLAN).exists() { NO_STORE } else { "" };
                return Err(LookError::NoStore(format!("there is no store in {}{why}", text::path(dir))));
            }
            return Ok(Self { all: vec![Place::new(dir)], without: Vec::new() });
        }
        let state = state?;
        let runs = keep::folders(&state)?;
        let (with, without): (Vec<_>, Vec<_>) = runs.iter().partition(|folder| is_store(folder));
        let places = |folders: Vec<&PathBuf>| -> Vec<_> {
            folders.into_iter().map(|folder| Place::new(folder)).collect()
        };
        let shared = Some(Place::shared(&state)).filter(|shared| is_store(&shared.dir));
        Ok(Self { all: places(with).into_iter().chain(shared).collect(), without: places(without) })
    }

    /// The newest of them.
    ///
    /// # Errors
    ///
    /// [`LookError::NoStore`].
    pub(crate) fn newest(&self) -> Result<&Place, LookError> {
        let none = || match self.without.first() {
            Some(run) => format!("there is no store of {}{NO_STORE}", run.name),
            None => "no run is kept; `fanin run` makes one".to_owned(),
        };
        self.all.first().ok_or_else(|| LookError::NoStore(none()))
    }

    /// What has this id, or the only one that begins so; hex digits alone may begin any kind of id.
    ///
    /// # Errors
    ///
    /// [`LookError`], where that is nothing, or more than one thing.
    pub(crate) fn find(&self, start: &str) -> Result<Found, LookError> {
        let shown = || text::cut(&text::one_line(start), ID_BYTES_MAX).to_owned();
        let is_digits =
            start.len() >= ID_PREFIX_DIGITS_MIN && start.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
        let mut starts = vec![start.to_owned()];
        if is_digits {
            starts.extend(["grp_", "job_", "ses_"].map(|prefix| format!("{prefix}{start}")));
        }
        let begins = |run: &Place| starts.iter().any(|start| run.name.starts_with(start));
        let (mut found, mut refused, mut damaged) = (Vec::new(), None, None);
        for place in &self.all {
            let stored = match place.read() {
                Ok(stored) => Arc::new(stored),
                // One that cannot be read hides nothing that another has.
                Err(error) => {
                    damaged.get_or_insert(error);
                    continue;
                }
            };
            for start in &starts {
                match stored.find(start) {
                    Ok(named) => {
                        found.push(Found { place: place.clone(), stored: Arc::clone(&stored), named });
                    }
                    Err(FindError::Unknown(_)) => {}
                    Err(error @ FindError::Ambiguous { .. }) => return Err(error.into()),
                    Err(error) => refused = Some(error),
                }
            }
        }
        match (found.len(), found.pop()) {
            (1, Some(found)) => Ok(found),
            (0, _) | (_, None) => Err(match (damaged, refused) {
                (Some(error), _) => error,
                (None, Some(error)) if !is_digits => error.into(),
                (None, _) => match self.without.iter().find(|run| begins(run)) {
                    Some(run) => LookError::NoStore(format!("there is no store of {}{NO_STORE}", run.name)),
                    None => LookError::NotFound(shown()),
                },
            }),
            (count, Some(last)) => {
                let names: Vec<String> = found.iter().chain([&last]).take(8).map(Found::name).collect();
                Err(LookError::Several { start: shown(), count, candidates: names.join(", ") })
            }
        }
    }

    /// What has this id, else the run of the newest store.
    ///
    /// # Errors
    ///
    /// As [`Places::find`].
    pub(crate) fn find_or_newest(&self, start: Option<&str>) -> Result<Found, LookError> {
        if let Some(start) = start {
            return self.find(start);
        }
        let newest = Newest::of(self.newest()?)?;
        let shared = self.all.last().filter(|place| place.is_shared && place.dir != newest.place.dir);
        let newest = match shared.map(Newest::of).transpose()? {
            Some(shared) if shared.launched_ms() > newest.launched_ms() => shared,
            Some(_) | None => newest,
        };
        let none = || LookError::NoStore(format!("nothing was launched in {}", newest.place.name));
        let named = Named::Group(newest.group.clone().ok_or_else(none)?);
        Ok(Found { place: newest.place, stored: newest.stored, named })
    }
}

/// The newest group of a store.
struct Newest {
    place: Place,
    stored: Arc<Stored>,
    group: Option<GroupId>,
}

impl Newest {
    fn of(place: &Place) -> Result<Self, LookError> {
        let stored = Arc::new(place.read()?);
        let group = stored.groups().last().map(|group| group.group);
        Ok(Self { place: place.clone(), stored, group })
    }

    fn launched_ms(&self) -> Option<u64> {
        let filter = JobFilter { group: Some(self.group.clone()?), limit: 1, ..JobFilter::default() };
        self.stored.list(&filter).jobs.first().map(|job| job.queued_at_ms)
    }
}

/// What an id names, and where.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) place: Place,
    pub(crate) stored: Arc<Stored>,
    pub(crate) named: Named,
}

impl Found {
    fn name(&self) -> String {
        format!("{} of {}", self.named, self.place.name)
    }

    /// The job that it is.
    ///
    /// # Errors
    ///
    /// [`LookError::Other`].
    pub(crate) fn job(&self) -> Result<&JobId, LookError> {
        match &self.named {
            Named::Job(job) => Ok(job),
            Named::Group(_) | Named::Session(_) => Err(LookError::Other(self.named.to_string(), "job")),
        }
    }

    /// Whether what was followed can still go on, now that nobody had the store for a moment.
    ///
    /// # Errors
    ///
    /// [`LookError::Interrupted`], where its owner died; [`LookError::Store`].
    pub(crate) fn may_go_on(&self) -> Result<bool, LookError> {
        let stored = self.place.read()?;
        if stored.is_interrupted() {
            let (what, way_out) = (self.named.to_string(), self.place.way_out());
            return Err(LookError::Interrupted { what, way_out });
        }
        if self.place.is_shared && !stored.is_owned() {
            let (what, way_out) = (self.named.to_string(), self.place.way_out());
            return Err(LookError::ServiceEnded { what, way_out });
        }
        // Somebody goes on with it, or it was closed in order.
        Ok(stored.is_owned())
    }

    /// True where nothing comes any more of what it is; a session never ends.
    pub(crate) fn is_over(&self) -> bool {
        match &self.named {
            Named::Job(job) => {
                self.stored.get(job).is_none_or(|job| job.status.is_terminal() && !ps::is_lost(&job))
            }
            Named::Group(group) => {
                let group = self.stored.group(group);
                group.is_none_or(|group| group.result.is_some() || group.voided.is_some())
            }
            Named::Session(_) => false,
        }
    }

    /// The same, read again.
    ///
    /// # Errors
    ///
    /// [`LookError::Store`].
    pub(crate) fn again(&self) -> Result<Self, LookError> {
        let stored = Arc::new(self.place.read()?);
        Ok(Self { place: self.place.clone(), stored, named: self.named.clone() })
    }

    /// The group that it is.
    ///
    /// # Errors
    ///
    /// [`LookError::Other`].
    pub(crate) fn group(&self) -> Result<&GroupId, LookError> {
        match &self.named {
            Named::Group(group) => Ok(group),
            Named::Job(_) | Named::Session(_) => Err(LookError::Other(self.named.to_string(), "run")),
        }
    }
}

/// Until when what is open in a store lasts, in milliseconds since the Unix epoch: now where a process has it, else the
/// last that is known.
pub(crate) fn until_ms(stored: &Stored) -> u64 {
    // A log's times never fall, whatever the clock does.
    if stored.is_owned() { prepare::now_ms().max(stored.last_ms()) } else { stored.last_ms() }
}

/// What goes on with the store in a folder, whose name this is, where its owner died.
pub(crate) fn way_out(dir: &Path, name: &str) -> String {
    if dir.join(layout::PLAN).exists() || exec::is_exec(dir) {
        format!("this goes on with it: fanin resume {name}")
    } else if keep::is_session(dir) {
        "the agent that it served is gone as well, and nobody goes on with it".to_owned()
    } else {
        "only the program that made it goes on with it, where it opens it again".to_owned()
    }
}

/// True where a folder has a store in it, also one whose database is gone.
pub(crate) fn is_store(dir: &Path) -> bool {
    [DATABASE, MARK].iter().any(|name| fs::metadata(dir.join(name)).is_ok_and(|file| file.is_file()))
}

/// Enough of an id for people to tell it from others, and to type.
pub(crate) fn short(id: &impl std::fmt::Display) -> String {
    let id = id.to_string();
    match id.split_once('_') {
        Some(("job" | "grp" | "ses", digits)) if digits.len() == 32 => text::cut(&id, 12).to_owned(),
        _ => id,
    }
}
