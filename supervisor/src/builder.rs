//! Setting up a supervisor.

use std::sync::Arc;
use std::time::Duration;

use fanin_machine::log::Log;
use fanin_machine::{Command, Open, Rate, Refusal, State};
use fanin_protocol::JobKind;
use fanin_protocol::limits::{
    GATE_WAIT, GRACE, GRACE_MAX, LIMIT_MAX, MAIL_SENDS_MAX, RATE_STARTS_MAX, TAIL_RECORDS,
};
use fanin_protocol::record::Level;
use fanin_protocol::spec::millis;
use fanin_protocol::{Bounds, Profile, Seq};
use tokio::runtime::Handle;

use crate::chance;
use crate::clock::{Clock, Clocks};
use crate::core::{CallError, Core, Origin};
use crate::journal::{Journal, JournalError, Opened};
use crate::recover;
use crate::runner::Runner;
use crate::scope::Scope;
use crate::session::SessionOptions;
use crate::supervisor::{Owner, Supervisor};
use crate::writer::{self, Store};

/// Why a supervisor did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting makes no sense.
    #[error("{setting}: {problem}")]
    Setting {
        /// Its name.
        setting: &'static str,
        /// What is wrong and what would be right.
        problem: &'static str,
    },
    /// There is no tokio runtime here.
    #[error("no tokio runtime: start the supervisor from inside one")]
    NoRuntime,
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] JournalError),
    /// The machine refused to open.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl StartError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Setting { .. } => "bad_setting",
            Self::NoRuntime => "no_runtime",
            Self::Store(error) => error.code(),
            Self::Call(error) => error.code(),
        }
    }
}

/// Settings of a supervisor to be started.
#[derive(Debug)]
pub struct Builder {
    runners: Vec<Arc<dyn Runner>>,
    slots: Option<usize>,
    grace: Duration,
    gate: Duration,
    rates: Vec<(JobKind, usize, Duration)>,
    sends_per_member: u32,
    mail_at: Option<Arc<str>>,
    tail: usize,
    /// `None` for the system's.
    clock: Option<Box<dyn Clock>>,
    sessions: SessionOptions,
    log_content: bool,
    /// `None` for memory.
    journal: Option<Box<dyn Journal>>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            runners: Vec::new(),
            slots: None,
            grace: GRACE,
            gate: GATE_WAIT,
            rates: Vec::new(),
            sends_per_member: MAIL_SENDS_MAX,
            mail_at: None,
            tail: TAIL_RECORDS,
            clock: None,
            sessions: SessionOptions::default(),
            log_content: false,
            journal: None,
        }
    }
}

impl Builder {
    /// Registers a runner. Jobs of a kind without one are refused at launch.
    #[must_use]
    pub fn runner(mut self, runner: impl Runner) -> Self {
        self.runners.push(Arc::new(runner));
        self
    }

    /// Jobs that may run at once; further ones wait in line. Without a bound all run at once.
    #[must_use]
    pub const fn slots(mut self, slots: usize) -> Self {
        self.slots = Some(slots);
        self
    }

    /// Time between the polite and the forced stop, for jobs that set none.
    #[must_use]
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Who drives sessions that do not say so, and with it their bounds: the operator unless set.
    #[must_use]
    pub const fn profile(mut self, profile: Profile) -> Self {
        self.sessions.profile = Some(profile);
        self
    }

    /// What sessions that set no profile and no bounds, and all below them, may grow to: the bounds of their profile
    /// unless set.
    #[must_use]
    pub const fn bounds(mut self, bounds: Bounds) -> Self {
        self.sessions.bounds = Some(bounds);
        self
    }

    /// How long a call waits for its turn before it answers `busy`; without it [`GATE_WAIT`]. A wait's own limit holds
    /// whatever this is.
    #[must_use]
    pub const fn busy_after(mut self, wait: Duration) -> Self {
        self.gate = wait;
        self
    }

    /// At most so many jobs of this kind start in any span of that length; further ones wait, and jobs of other kinds
    /// go on. Without it as many start as have slots.
    #[must_use]
    pub fn rate(mut self, kind: JobKind, starts: usize, per: Duration) -> Self {
        self.rates.push((kind, starts, per));
        self
    }

    /// Mail that each member of a team may send in its life ([`RunContext::team_send`](crate::RunContext::team_send));
    /// without it [`MAIL_SENDS_MAX`]. With 0 there is no mail.
    #[must_use]
    pub const fn sends_per_member(mut self, sends: u32) -> Self {
        self.sends_per_member = sends;
        self
    }

    /// Log lines (`tracing`) tell what jobs are asked and what they put out as well, at the level `debug`, cut to
    /// [`LOG_CONTENT_BYTES_MAX`](fanin_protocol::limits::LOG_CONTENT_BYTES_MAX). Unless this was set they tell none of that
    /// (SEC-6).
    #[must_use]
    pub const fn log_content(mut self, is_told: bool) -> Self {
        self.log_content = is_told;
        self
    }

    /// Where programs that are part of a job send and receive its mail: the socket of whoever hosts this supervisor and
    /// lets them in by [`Supervisor::run_of`], [`Supervisor::run_in`] and [`Supervisor::mailbox`]. It is told to jobs that
    /// may have mail, as [`MAIL_VARIABLE`](fanin_protocol::process::MAIL_VARIABLE).
    #[must_use]
    pub fn mail_at(mut self, path: impl Into<Arc<str>>) -> Self {
        self.mail_at = Some(path.into());
        self
    }

    /// Records kept in memory for subscribers, at the least.
    #[must_use]
    pub const fn tail(mut self, records: usize) -> Self {
        self.tail = records;
        self
    }

    /// Where records, and what has to be known after a crash, are kept; in memory unless set. Nothing is shown or carried
    /// out before it is committed there. A store that was used before is recovered by [`Builder::start`].
    #[must_use]
    pub fn journal(mut self, journal: impl Journal) -> Self {
        self.journal = Some(Box::new(journal));
        self
    }

    /// The wall clock for the times in records.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Starts the supervisor on the runtime of the caller.
    ///
    /// # Errors
    ///
    /// [`StartError::Store`] where the store cannot be read; [`StartError::Setting`] for 0 slots, an empty tail, a grace of more than an hour, two runners of one kind, or a
    /// rate that lets nothing through, cannot be kept, or stands twice; [`Refusal::BadBounds`] for bounds under which
    /// nothing could be launched; [`StartError::NoRuntime`] outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped, nothing runs. A store that was being opened may already have begun an epoch.
    pub async fn start(self) -> Result<Supervisor, StartError> {
        let slots = self.check()?;
        let log_content = self.log_content;
        let runtime = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let stored = match self.journal {
            None => None,
            Some(journal) => Some(load(&runtime, journal).await?),
        };
        let log = stored.as_ref().and_then(|(_, opened)| opened.log.clone()).unwrap_or_else(chance::log_id);
        let level = stored.as_ref().map_or(Level::Memory, |(journal, _)| journal.level());
        let open = Open {
            log: log.clone(),
            level,
            slots,
            grace_ms: millis(self.grace),
            seed: chance::seed(),
            rates: self
                .rates
                .iter()
                .map(|(kind, starts, per)| (*kind, Rate { starts: *starts, per_ms: millis(*per) }))
                .collect(),
            sends_per_member: self.sends_per_member,
        };
        let (state, head, journal) = match stored {
            None => (State::default(), Seq(0), None),
            Some((journal, opened)) => {
                recover::stop_survivors(&runtime, &self.runners, opened.log.as_ref()).await?;
                opened.notes.iter().for_each(|note| tracing::warn!("{note}"));
                (recover::state(&opened)?, opened.head, Some(journal))
            }
        };
        let store = journal.as_ref().map(|journal| Arc::new(Store::new(head, journal.reader())));
        let origin =
            Origin { log: Log::resume(log, self.tail, head), state, store: store.clone(), log_content };
        let core = Core::new(origin, Clocks::new(self.clock), Scope::new(runtime), self.runners, self.gate);
        let core = Arc::new(core);
        if let Some(path) = self.mail_at {
            core.mail_at.get_or_init(|| path);
        }
        if let (Some(store), Some(journal)) = (store, journal) {
            writer::start(&core, store, journal, head)
                .map_err(|error| JournalError::Io(format!("its thread does not start: {error}")))?;
        }
        core.submit(Command::Open(open.clone())).await?;
        // A large recovery goes in slices, each committed before the next; nobody else has a handle yet.
        while core.look_now(State::is_opening)? {
            core.submit(Command::Open(open.clone())).await?;
        }
        Ok(Supervisor { owner: Arc::new(Owner::new(core, self.sessions)) })
    }

    fn check(&self) -> Result<Option<u32>, StartError> {
        let setting = |setting, problem| Err(StartError::Setting { setting, problem });
        if self.slots == Some(0) {
            return setting("slots", "with 0 slots nothing would ever start; use 1 or more");
        }
        if self.tail == 0 {
            return setting("tail", "an empty tail would lose every event; use 1 or more");
        }
        if self.grace > GRACE_MAX {
            return setting("grace", "more than an hour is no stop; use less");
        }
        let (_, bounds) = self.sessions.or(SessionOptions::default());
        bounds.check().map_err(|error| CallError::from(Refusal::BadBounds(error)))?;
        bounds.budget.check().map_err(|error| CallError::from(Refusal::BadLimit(error)))?;
        let is_kept = |(_, starts, per): &(JobKind, usize, Duration)| {
            (1..=RATE_STARTS_MAX).contains(starts) && !per.is_zero() && *per <= LIMIT_MAX
        };
        if !self.rates.iter().all(is_kept) {
            return setting("rate", "use 1 to 10,000 starts in a time above zero");
        }
        let rated: Vec<_> = self.rates.iter().map(|(kind, ..)| kind).collect();
        if (1..rated.len()).any(|index| rated.iter().take(index).any(|kind| rated.get(index) == Some(kind))) {
            return setting("rate", "two rates of one kind; set one");
        }
        let kinds: Vec<_> = self.runners.iter().map(|runner| runner.kind()).collect();
        if (1..kinds.len()).any(|index| kinds.iter().take(index).any(|kind| kinds.get(index) == Some(kind))) {
            return setting("runner", "two runners of one kind; register one");
        }
        Ok(self.slots.map(|slots| u32::try_from(slots).unwrap_or(u32::MAX)))
    }
}

/// Reads what a store holds, on a thread of its own: the disk may be slow.
async fn load(
    runtime: &Handle,
    mut journal: Box<dyn Journal>,
) -> Result<(Box<dyn Journal>, Opened), JournalError> {
    let load = move || journal.load().map(|opened| (journal, opened));
    match runtime.spawn_blocking(load).await {
        Ok(loaded) => loaded,
        Err(error) => Err(JournalError::Io(format!("reading it did not end: {error}"))),
    }
}
