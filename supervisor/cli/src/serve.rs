//! `fanin serve`: the service of the shared store. It puts the parts together, owns the store, and ends in order.

mod notify;

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fanin_acp::Agents;
use fanin_process::{Ancestry, Table, own_mark};
use fanin_protocol::limits::{GRACE_NOW, SERVICE_CLOSE_WAIT};
use fanin_protocol::{ParentMark, layout, text};
use fanin_service::{ConnectionError, Listener, Options, Origin, Service, SocketError};
use fanin_sqlite::{self as sqlite, SqliteJournal};
use fanin_supervisor::journal::JournalError;
use fanin_supervisor::{CallError, StartError, Supervisor};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::args;
use crate::config::Config;
use crate::drive;
use crate::duration;
use crate::exit::Exit;
use crate::file;
use crate::nested;
use crate::plan::Refused;
use crate::prepare;
use crate::serve::notify::Notify;
use crate::signals::{Demand, Escalation, Signal, Signals};
use crate::stderr::Stderr;

/// Bytes of the file that says where the socket is.
pub(crate) const PLACE_BYTES_MAX: u64 = 4096;

/// The words of `fanin serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Jobs that run at the same time [default: 10]
    #[arg(short, long, value_name = "N", value_parser = args::concurrency, allow_negative_numbers = true)]
    concurrency: Option<usize>,

    /// After a first signal: how long running jobs may go on [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    drain: Option<Duration>,
}

/// A service that may begin.
#[derive(Debug)]
pub(crate) struct Prepared {
    state: PathBuf,
    agents: Agents,
    concurrency: usize,
    drain: Duration,
    log_content: bool,
}

/// Why there is no service, or it could not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    /// The store cannot be used.
    #[error("{0}")]
    Store(#[from] JournalError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Clients would not find it, or nobody can be told that it is ready.
    #[error("it cannot be told where the service is: {0}")]
    Told(#[source] io::Error),
}

impl ServiceError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.code(),
            Self::Start(error) => error.code(),
            Self::Call(error) => error.code(),
            Self::Socket(error) => error.code(),
            Self::Told(_) => "service_untold",
        }
    }

    /// What it makes of the program's end.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Store(JournalError::Owned { .. }) => Exit::Owned,
            Self::Store(_) | Self::Start(_) | Self::Call(_) | Self::Socket(_) | Self::Told(_) => {
                Exit::Internal
            }
        }
    }
}

/// Looks where it is. Nothing is made and nothing is locked.
///
/// # Errors
///
/// [`Refused`] inside of a job, which a service would outlive; without a state folder; where the configuration is wrong.
pub(crate) fn prepare(args: &ServeArgs, config: &Config) -> Result<Prepared, Refused> {
    if let Some(parent) = nested::parent()? {
        let why =
            format!("this is inside job {}, and a service would outlive it; start it outside", parent.job);
        return Err(Refused::one(why));
    }
    let settings = &config.settings;
    Ok(Prepared {
        state: settings.state().map_err(|error| Refused::one(error.to_string()))?,
        agents: config.agents.clone(),
        concurrency: args.concurrency.unwrap_or(settings.concurrency()),
        drain: args.drain.unwrap_or(settings.drain()),
        log_content: settings.log().has_content,
    })
}

/// Serves until a signal or a client says that it is enough, and all has ended in order.
///
/// # Errors
///
/// [`ServiceError`], where it did not begin.
pub(crate) async fn run(prepared: Prepared, signals: Signals, stderr: &Stderr) -> Result<Exit, ServiceError> {
    let Prepared { state, agents, concurrency, drain, log_content } = prepared;
    let folder = layout::store(&state);
    let store = open(folder.clone()).await?;
    let socket = layout::socket(&state, store.store(), |name| env::var_os(name));
    let builder = drive::runners(Some(agents), None).slots(concurrency).log_content(log_content);
    let supervisor = builder.journal(store).start().await?;
    // Only now: whoever had the store is gone, and with it whoever had the socket (SEC-1).
    let listener = Listener::bind(&socket)?;
    let place = Place::tell(&folder, &socket).map_err(ServiceError::Told)?;
    let options = Options {
        program: concat!("fanin ", env!("CARGO_PKG_VERSION")).to_owned(),
        since_ms: prepare::now_ms(),
        identify: Box::new(origin),
    };
    let service = Service::new(supervisor.clone(), options)?;
    let notify = Notify::of_environment().map_err(ServiceError::Told)?;
    ready(&folder, &socket).map_err(ServiceError::Told)?;
    notify.ready();
    let serving = Serving {
        supervisor,
        service,
        clients: JoinSet::new(),
        signals,
        escalation: Escalation::default(),
        drain,
        stderr,
        notify,
    };
    serving.until_the_end(listener, place).await;
    Ok(Exit::Done)
}

/// Opens the store, on a thread that may wait for a disk.
async fn open(folder: PathBuf) -> Result<SqliteJournal, JournalError> {
    let open = move || SqliteJournal::open(&folder, &sqlite::Options::default());
    match tokio::task::spawn_blocking(open).await {
        Ok(opened) => opened,
        Err(error) => Err(JournalError::Io(format!("opening it did not end: {error}"))),
    }
}

/// What the processes above a client say of it, where that is more than they say of this one.
fn origin(pid: u32) -> Origin {
    let Ancestry { parent, rights } = Ancestry::of(&Table::default(), pid);
    let depth = |mark: Option<&ParentMark>| mark.map_or(0, |mark| mark.depth);
    let is_deeper = depth(parent.as_ref()) > depth(own_mark());
    Origin { parent: parent.filter(|_| is_deeper), rights }
}

/// The one line that says that clients may come.
fn ready(folder: &Path, socket: &Path) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let (folder, socket) = (text::path(folder), text::path(socket));
    writeln!(out, "fanin: serving {folder} at {socket} (process {})", std::process::id())?;
    out.flush()
}

/// The file in the store that says where the socket is.
#[derive(Debug)]
struct Place(PathBuf);

impl Place {
    fn tell(folder: &Path, socket: &Path) -> io::Result<Self> {
        use std::os::unix::ffi::OsStrExt as _;
        let path = folder.join(layout::SOCKET);
        file::replace(&path, 0o600, PLACE_BYTES_MAX, |out| out.write_all(socket.as_os_str().as_bytes()))?;
        Ok(Self(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What stays names a socket that nobody listens at.
        let _ = fs::remove_file(&self.0);
    }
}

/// A service at work.
struct Serving<'s> {
    supervisor: Supervisor,
    service: Service,
    clients: JoinSet<Result<(), ConnectionError>>,
    signals: Signals,
    escalation: Escalation,
    drain: Duration,
    stderr: &'s Stderr,
    notify: Notify,
}

impl Serving<'_> {
    async fn until_the_end(mut self, listener: Listener, place: Place) {
        self.serve(&listener).await;
        self.notify.stopping();
        // While the store is still ours: what another service has put there by then must stay.
        drop((place, listener));
        self.stop().await;
        self.service.end();
        let gone = async { while self.clients.join_next().await.is_some() {} };
        // Who does not read what is written is gone with us.
        let _ = timeout(SERVICE_CLOSE_WAIT, gone).await;
    }

    /// Serves until nothing runs any more after the first signal, or its time is over, or a second one came.
    async fn serve(&mut self, listener: &Listener) {
        let mut until: Option<Instant> = None;
        loop {
            let is_draining = until.is_some();
            tokio::select! {
                () = listener.serve(&self.service, &mut self.clients) => {}
                signal = self.signals.next() => match self.raise(signal) {
                    None => {}
                    Some(Demand::Drain) => until = Some(self.begin_drain(self.drain)),
                    Some(Demand::Stop | Demand::Kill) => return self.supervisor.stop_and_keep(GRACE_NOW),
                },
                stop = self.service.asked_to_stop(), if !is_draining => {
                    until = Some(self.begin_drain(stop.drain.unwrap_or(self.drain)));
                }
                () = self.supervisor.drained(), if is_draining => return,
                () = self.notify.beat(&self.supervisor) => {}
                () = sleep_until(until.unwrap_or_else(Instant::now)), if is_draining => return,
            }
        }
    }

    fn begin_drain(&self, time: Duration) -> Instant {
        let time_shown = duration::show(time);
        self.stderr
            .say(&format!("fanin: draining: running jobs may finish ({time_shown}), nothing new starts"));
        self.service.set_draining();
        self.supervisor.drain();
        Instant::now() + time
    }

    /// Stops what runs, records it and closes the store. Clients see the end of it.
    async fn stop(&mut self) {
        let supervisor = self.supervisor.clone();
        let stopped = supervisor.shutdown();
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                () = &mut stopped => return,
                signal = self.signals.next() => match self.raise(signal) {
                    None | Some(Demand::Drain) => {}
                    Some(Demand::Stop) => self.supervisor.stop_and_keep(GRACE_NOW),
                    Some(Demand::Kill) => self.supervisor.stop_and_keep(Duration::ZERO),
                },
                Some(_) = self.clients.join_next(), if !self.clients.is_empty() => {}
                () = self.notify.beat(&self.supervisor) => {}
            }
        }
    }

    /// What a signal asks for. That a terminal is gone is nothing to a service (SH-2).
    fn raise(&mut self, signal: Signal) -> Option<Demand> {
        if signal == Signal::HangUp {
            return None;
        }
        let demand = self.escalation.raise(signal)?;
        match demand {
            // Told where it begins.
            Demand::Drain => {}
            Demand::Stop => self.stderr.say("fanin: stopping all jobs; again to kill now"),
            Demand::Kill => self.stderr.say("fanin: killing all jobs"),
        }
        Some(demand)
    }
}
