//! The service of the state folder, as its clients reach it: where it is, what an id names there or elsewhere, and what is
//! said where nobody serves. It carries out nothing.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use fanin_client::{Client, ClientError, Options, Unix};
use fanin_protocol::process::TOKEN_VARIABLE;
use fanin_protocol::{layout, text};
use fanin_sqlite::Owner;

use crate::exit::Exit;
use crate::look::State;
use crate::serve::PLACE_BYTES_MAX;
use crate::stores::{Found, LookError, Places};

/// Why a service was not asked, or did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReachError {
    /// What is meant is not clear, or cannot be looked at.
    #[error(transparent)]
    Look(#[from] LookError),
    /// Nobody serves.
    #[error("no service is at work in {}; start one: fanin serve", text::path(.0))]
    NotRunning(PathBuf),
    /// What is meant is in the store of another process, which takes no word from here.
    #[error("{what} is at work in {owner}, which is no service; {way_out}")]
    Elsewhere {
        /// The job or run.
        what: String,
        /// The process.
        owner: String,
        /// What can be done.
        way_out: String,
    },
    /// The service said no, or is gone.
    #[error(transparent)]
    Client(ClientError),
    /// It is over, and what was asked cannot be done any more.
    #[error("{what} is over: {how}")]
    Over {
        /// The job or run.
        what: String,
        /// How it ended.
        how: String,
    },
    /// The answer could not be written.
    #[error("the answer could not be written: {0}")]
    Write(#[source] io::Error),
}

impl ReachError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::Look(error) => error.code(),
            Self::NotRunning(_) => "not_running",
            Self::Elsewhere { .. } => "owned",
            Self::Client(error) => error.code(),
            Self::Over { .. } => "is_over",
            Self::Write(_) => "write",
        }
    }

    /// What it makes of the program's end.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Look(error) => error.exit(),
            Self::NotRunning(_) => Exit::Usage,
            Self::Elsewhere { .. } => Exit::Owned,
            Self::Client(ClientError::Call(_) | ClientError::Refused(_)) => Exit::Usage,
            Self::Client(_) | Self::Write(_) => Exit::Internal,
            Self::Over { .. } => Exit::SomeNotCompleted,
        }
    }
}

/// A service that may be there: its store is in this state folder.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    state: PathBuf,
}

impl Reach {
    /// That of this state folder.
    ///
    /// # Errors
    ///
    /// [`ReachError::Look`], where there is none.
    pub(crate) fn of(state: &State) -> Result<Self, ReachError> {
        Ok(Self { state: state.clone().map_err(LookError::from)? })
    }

    /// The folder of its store.
    pub(crate) fn store(&self) -> PathBuf {
        layout::store(&self.state)
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// [`ReachError::NotRunning`], and [`ReachError::Client`] where who answers is of another version.
    pub(crate) async fn connect(&self) -> Result<Client, ReachError> {
        let client = self.client()?;
        match client.connect().await {
            Ok(_) => Ok(client),
            // The file of one that was killed.
            Err(ClientError::NotRunning { .. }) => Err(ReachError::NotRunning(self.state.clone())),
            Err(error) => Err(ReachError::Client(error)),
        }
    }

    /// A client of it. Nothing is connected yet: it may be gone, and come again.
    ///
    /// # Errors
    ///
    /// [`ReachError::NotRunning`], where none has said where it is.
    pub(crate) fn client(&self) -> Result<Client, ReachError> {
        let place = socket(&self.state).map_err(|error| ReachError::Look(error.into()))?;
        let place = place.ok_or_else(|| ReachError::NotRunning(self.state.clone()))?;
        let options = Options {
            program: concat!("fanin ", env!("CARGO_PKG_VERSION")).to_owned(),
            token: env::var(TOKEN_VARIABLE).ok(),
        };
        Ok(Client::new(Unix(place), options))
    }

    /// What these ids name, each once, in all stores there are. It reads disks.
    ///
    /// # Errors
    ///
    /// [`ReachError::Look`].
    pub(crate) fn find(&self, ids: &[String]) -> Result<Vec<Found>, ReachError> {
        let places = Places::of(None, Ok(self.state.clone()))?;
        let mut all: Vec<Found> = Vec::new();
        for id in ids {
            let found = places.find(id)?;
            if !all.iter().any(|known| known.named == found.named && known.place.dir == found.place.dir) {
                all.push(found);
            }
        }
        Ok(all)
    }
}

/// Where the service of a state folder says that it is.
fn socket(state: &Path) -> io::Result<Option<PathBuf>> {
    let file = match File::open(layout::store(state).join(layout::SOCKET)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut place = Vec::new();
    file.take(PLACE_BYTES_MAX).read_to_end(&mut place)?;
    Ok(Some(PathBuf::from(OsString::from_vec(place))))
}

/// Who can be asked about a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nobody need be: it is over.
    Over,
    /// The service.
    Served,
}

/// Who can be asked about what was found. `way_out` says what can be done where another process has it, whose number it is
/// told.
///
/// # Errors
///
/// [`ReachError::Elsewhere`] where that is no service; [`LookError::Interrupted`] where its owner died, and
/// [`LookError::ServiceEnded`] where that was a service that has ended.
pub(crate) fn standing(
    found: &Found,
    way_out: impl FnOnce(Option<&str>) -> String,
) -> Result<Standing, ReachError> {
    if found.is_over() {
        return Ok(Standing::Over);
    }
    let what = found.named.to_string();
    match Owner::of(&found.place.dir).map_err(LookError::from)? {
        Owner::Live(_) if found.place.is_shared => Ok(Standing::Served),
        Owner::Live(owner) => {
            let pid = owner.strip_prefix("process ").and_then(|words| words.split(' ').next());
            let owner = pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
            let way_out = way_out(pid);
            Err(ReachError::Elsewhere { what, owner, way_out })
        }
        Owner::None => match found.may_go_on() {
            // It has got an owner again in between: whoever asks next finds that.
            Ok(_) => Err(LookError::Interrupted { what, way_out: found.place.way_out() }.into()),
            Err(error) => Err(error.into()),
        },
    }
}
