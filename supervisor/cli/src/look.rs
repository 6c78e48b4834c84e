//! The commands that look at stores: their words, and what each writes to standard output. What they show is made in
//! files of their own.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use fanin_protocol::LayoutError;

use crate::events::{self, EventsArgs};
use crate::exit::Exit;
use crate::output::{self, OutputArgs};
use crate::ps::{self, PsArgs};
use crate::sanitize::{self, SanitizeArgs};
use crate::show::{self, ShowArgs, WhyArgs};
use crate::store::{self, StoreCommand};
use crate::stores::{LookError, Places};

/// What to look at.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Look {
    /// List the jobs of all runs that are not over
    Ps(PsArgs),
    /// Show a run or a job: its time line, what became of it, and why
    Show(ShowArgs),
    /// Say what a job, or the result of a run, waits for
    Why(WhyArgs),
    /// Print what a job put out
    Output(OutputArgs),
    /// Print the records of a run
    Events(EventsArgs),
    /// Check a store, go on with what is left of a damaged one, or take over a copy
    #[command(subcommand)]
    Store(StoreCommand),
    /// Find tool calls, messages and jobs that a crash left open in transcripts, and close them
    Sanitize(SanitizeArgs),
}

/// The state folder, or why there is none.
pub(crate) type State = Result<PathBuf, LayoutError>;

/// Which stores are looked at.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Where {
    /// The store in this folder, instead of those of all runs
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
}

impl Where {
    /// The stores.
    ///
    /// # Errors
    ///
    /// As [`Places::of`].
    pub(crate) fn places(&self, state: &State) -> Result<Places, LookError> {
        Places::of(self.store.as_deref(), state.clone())
    }
}

impl Look {
    /// True where documents are asked for.
    pub(crate) const fn is_json(&self) -> bool {
        match self {
            Self::Ps(args) => args.json,
            Self::Show(args) => args.json,
            Self::Why(args) => args.json,
            Self::Events(args) => args.json,
            Self::Sanitize(args) => args.json,
            Self::Output(_) | Self::Store(_) => false,
        }
    }

    /// Looks, and writes what there is. `warn` is told of each store that cannot be read where others can.
    ///
    /// # Errors
    ///
    /// [`LookError`]; that nobody reads any more is none.
    pub(crate) fn run(&self, state: &State, warn: &dyn Fn(&str)) -> Result<Exit, LookError> {
        let mut out = BufWriter::new(io::stdout().lock());
        let done = match self {
            Self::Ps(args) => ps::run(args, state, &mut out, warn),
            Self::Show(args) => show::run(args, state, &mut out),
            Self::Why(args) => show::why(args, state, &mut out),
            Self::Output(args) => output::run(args, state, &mut out, warn),
            Self::Events(args) => events::run(args, state, &mut out),
            Self::Store(command) => store::run(command, state, &mut out),
            Self::Sanitize(args) => sanitize::run(args, &mut out, warn),
        };
        match done.and_then(|exit| Ok(out.flush().map(|()| exit)?)) {
            Err(LookError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
            done => done,
        }
    }
}
