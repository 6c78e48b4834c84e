//! `fanin store`: whether a store is whole, and going on without what is not. Nothing is changed unless a person says so.

use std::io::Write;
use std::path::PathBuf;

use fanin_protocol::{LogId, text};
use fanin_sqlite::{Options, Owner, Report, SqliteJournal, check, repair_accept_loss, try_repair};
use fanin_supervisor::journal::{Journal, JournalError};
use fanin_supervisor::stored::LogFold;

use crate::exit::Exit;
use crate::look::State;
use crate::stores::{LookError, Place, Places};

/// What to do with a store.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum StoreCommand {
    /// Look at every record and row of a store, and say whether all is as it was written
    Check(CheckArgs),
    /// Go on with what can be read of a damaged store; as it was it stays beside it
    Repair(RepairArgs),
    /// Take over a store that is a copy, as one of its own: its run can be resumed then
    Adopt(AdoptArgs),
}

/// The words of `fanin store check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Its folder [default: the stores of all runs]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The words of `fanin store repair`.
#[derive(Debug, clap::Args)]
pub(crate) struct RepairArgs {
    /// Its folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// What cannot be read is lost
    #[arg(long)]
    accept_loss: bool,
}

/// The words of `fanin store adopt`.
#[derive(Debug, clap::Args)]
pub(crate) struct AdoptArgs {
    /// Its folder; what still runs of the store that it is a copy of is stopped when it is resumed
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Checks, repairs or adopts.
///
/// # Errors
///
/// [`LookError`]. Damage that a check finds is told, and makes the exit code 70.
pub(crate) fn run(command: &StoreCommand, state: &State, out: &mut dyn Write) -> Result<Exit, LookError> {
    let places = |dir: Option<&PathBuf>| Places::of(dir.map(PathBuf::as_path), state.clone());
    match command {
        StoreCommand::Check(args) => check_all(&places(args.dir.as_ref())?, out),
        StoreCommand::Repair(args) => {
            let places = places(Some(&args.dir))?;
            let place = places.newest()?;
            if args.accept_loss { repair(place, out) } else { offer(place, out) }
        }
        StoreCommand::Adopt(args) => adopt(places(Some(&args.dir))?.newest()?, out),
    }
}

fn check_all(places: &Places, out: &mut dyn Write) -> Result<Exit, LookError> {
    if places.all.is_empty() {
        match places.without.len() {
            0 => writeln!(out, "no run is kept, so there is no store to check")?,
            runs => {
                writeln!(out, "no store to check: the runs that are kept ({runs}) have none (--no-store)")?
            }
        }
    }
    let mut exit = Exit::Done;
    for place in &places.all {
        match look(place) {
            Ok(Looked { report, rows: rows @ (Rows::Fit | Rows::NotCompared) }) => {
                let owner = match report.owner {
                    Owner::None => String::new(),
                    Owner::Live(owner) => format!("; in use: {owner}"),
                };
                let left = if rows == Rows::Fit { "" } else { ", not compared: the log does not tell all" };
                let (records, rows) = (report.checked, report.rows.len());
                writeln!(out, "{}: sound, {records} records, {rows} rows{left}{owner}", place.name)?;
            }
            Ok(Looked { rows: Rows::Differ(difference), .. }) => {
                writeln!(out, "{}: its rows and its records differ: {difference}", place.name)?;
                exit = Exit::Internal;
            }
            Err(error) => {
                writeln!(out, "{}: {}", place.name, text::printable(&error.to_string()))?;
                exit = Exit::Internal;
            }
        }
    }
    Ok(exit)
}

/// A store of which every record and row is as it was written.
struct Looked {
    report: Report,
    rows: Rows,
}

/// Whether the rows of a store are what its records say.
#[derive(PartialEq, Eq)]
enum Rows {
    Fit,
    /// The records do not reach back to the first, or a repair gave some up.
    NotCompared,
    /// In words; only a fault of the program that wrote them does it.
    Differ(String),
}

/// Checks a store, and whether its rows are what its records say, as far as these reach back.
fn look(place: &Place) -> Result<Looked, JournalError> {
    let mut fold = LogFold::default();
    let report = check(&place.dir, |record| fold.take(record))?;
    let rows = match fold.compare(&report.rows) {
        _ if report.is_repaired => Rows::NotCompared,
        Ok(true) => Rows::Fit,
        Ok(false) => Rows::NotCompared,
        Err(difference) => Rows::Differ(difference),
    };
    Ok(Looked { report, rows })
}

/// Says what a repair would do, and does nothing.
fn offer(place: &Place, out: &mut dyn Write) -> Result<Exit, LookError> {
    match look(place) {
        Ok(looked) => nothing_to_repair(place, &looked.rows, out),
        Err(damage @ JournalError::Damaged { .. }) => match try_repair(&place.dir) {
            Ok(_) => {
                writeln!(out, "{}", text::printable(&damage.to_string()))?;
                writeln!(out, "nothing was changed; --accept-loss goes on without what cannot be read")?;
                Ok(Exit::Internal)
            }
            Err(JournalError::Damaged { .. } | JournalError::Foreign { .. }) => hopeless(place, &damage, out),
            Err(error) => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

fn repair(place: &Place, out: &mut dyn Write) -> Result<Exit, LookError> {
    let log = LogId::from_uuid(uuid::Uuid::new_v4().into_bytes());
    let repaired = match repair_accept_loss(&place.dir, &log) {
        Ok(repaired) => repaired,
        Err(error @ (JournalError::Damaged { .. } | JournalError::Foreign { .. })) => match look(place) {
            Err(damage @ JournalError::Damaged { .. }) => return hopeless(place, &damage, out),
            // Another program's, or a newer one's.
            Ok(_) | Err(_) => return Err(error.into()),
        },
        Err(error) => return Err(error.into()),
    };
    let Some(kept) = repaired.kept else {
        return nothing_to_repair(place, &look(place)?.rows, out);
    };
    writeln!(out, "{}: lost are {}", place.name, text::printable(&repaired.lost.join(", ")))?;
    let name = repaired.log.map(|log| format!(" as {log}")).unwrap_or_default();
    writeln!(out, "its log goes on at record {}{name}", repaired.next)?;
    writeln!(out, "as it was it is in {}", text::path(&kept))?;
    Ok(Exit::Done)
}

/// Gives a copy a name of its own. A store that is none keeps its own.
fn adopt(place: &Place, out: &mut dyn Write) -> Result<Exit, LookError> {
    let options = Options { adopt: true, ..Options::default() };
    Box::new(SqliteJournal::open(&place.dir, &options)?).close()?;
    writeln!(out, "{}: a store of its own", place.name)?;
    Ok(Exit::Done)
}

/// Says that a repair has nothing to go on with.
fn hopeless(place: &Place, damage: &JournalError, out: &mut dyn Write) -> Result<Exit, LookError> {
    writeln!(out, "{}", text::printable(&damage.to_string()))?;
    writeln!(out, "nothing was changed: no repair can go on from what is left of it")?;
    writeln!(out, "a backup helps; without one, remove the folder {}", text::path(&place.dir))?;
    Ok(Exit::Internal)
}

/// Every record and row is as it was written.
fn nothing_to_repair(place: &Place, rows: &Rows, out: &mut dyn Write) -> Result<Exit, LookError> {
    let Rows::Differ(difference) = rows else {
        writeln!(out, "{}: sound, there is nothing to repair", place.name)?;
        return Ok(Exit::Done);
    };
    writeln!(out, "{}: its rows and its records differ: {difference}", place.name)?;
    writeln!(
        out,
        "each is as it was written, so there is nothing to give up; who opens the store goes by its rows"
    )?;
    writeln!(out, "this is a fault of fanin: please report it, with the store")?;
    Ok(Exit::Internal)
}
