//! `fanin store`: whether a store is whole, and going on without what is not. Nothing is changed unless a person says so.

use std::env;
use std::io::Write;
use std::path::PathBuf;

use fanin_protocol::{LogId, layout};
use fanin_sqlite::{Owner, Report, check, repair_accept_loss};
use fanin_supervisor::journal::JournalError;
use fanin_supervisor::stored::LogFold;

use crate::exit::Exit;
use crate::stores::{LookError, Place, Places};

/// What to do with a store.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum StoreCommand {
    /// Look at every record and row of a store, and say whether all is as it was written
    Check(CheckArgs),
    /// Go on with what can be read of a damaged store; as it was it stays beside it
    Repair(RepairArgs),
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

/// Checks or repairs.
///
/// # Errors
///
/// [`LookError`]. Damage that a check finds is told, and makes the exit code 70.
pub(crate) fn run(command: &StoreCommand, out: &mut dyn Write) -> Result<Exit, LookError> {
    let places = |dir: Option<&PathBuf>| {
        Places::of(dir.map(PathBuf::as_path), layout::state(|name| env::var_os(name)))
    };
    match command {
        StoreCommand::Check(args) => check_all(&places(args.dir.as_ref())?, out),
        StoreCommand::Repair(args) => {
            let places = places(Some(&args.dir))?;
            let place = places.newest()?;
            if args.accept_loss { repair(place, out) } else { offer(place, out) }
        }
    }
}

fn check_all(places: &Places, out: &mut dyn Write) -> Result<Exit, LookError> {
    if places.all.is_empty() {
        writeln!(out, "no run is kept, so there is no store to check")?;
    }
    let mut exit = Exit::Done;
    for place in &places.all {
        match compared(place) {
            Ok((report, is_compared)) => {
                let owner = match report.owner {
                    Owner::None => String::new(),
                    Owner::Live(owner) => format!("; in use: {owner}"),
                };
                let (records, rows) = (report.checked, report.rows.len());
                let left = if is_compared { "" } else { ", not compared: the log does not tell all" };
                writeln!(out, "{}: sound, {records} records, {rows} rows{left}{owner}", place.name)?;
            }
            Err(error) => {
                writeln!(out, "{}: {error}", place.name)?;
                exit = Exit::Internal;
            }
        }
    }
    Ok(exit)
}

/// Checks a store, and whether its rows are what its records say, as far as these reach back.
fn compared(place: &Place) -> Result<(Report, bool), JournalError> {
    let mut fold = LogFold::default();
    let report = check(&place.dir, |record| fold.take(record))?;
    if report.is_repaired {
        return Ok((report, false));
    }
    let compared = fold.compare(&report.rows).map_err(|difference| JournalError::Damaged {
        store: place.name.clone(),
        damage: format!("its rows and its records differ: {difference}"),
    });
    Ok((report, compared?))
}

/// Says what a repair would do, and does nothing.
fn offer(place: &Place, out: &mut dyn Write) -> Result<Exit, LookError> {
    match compared(place) {
        Ok(_) => {
            writeln!(out, "{}: sound, there is nothing to repair", place.name)?;
            Ok(Exit::Done)
        }
        Err(error @ JournalError::Damaged { .. }) => {
            writeln!(out, "{error}")?;
            writeln!(out, "nothing was changed; --accept-loss goes on without what cannot be read")?;
            Ok(Exit::Internal)
        }
        Err(error) => Err(error.into()),
    }
}

fn repair(place: &Place, out: &mut dyn Write) -> Result<Exit, LookError> {
    let log = LogId::from_uuid(uuid::Uuid::new_v4().into_bytes());
    let repaired = repair_accept_loss(&place.dir, &log)?;
    let Some(kept) = repaired.kept else {
        writeln!(out, "{}: sound, there is nothing to repair", place.name)?;
        return Ok(Exit::Done);
    };
    writeln!(out, "{}: lost are {}", place.name, repaired.lost.join(", "))?;
    let name = repaired.log.map(|log| format!(" as {log}")).unwrap_or_default();
    writeln!(out, "its log goes on at record {}{name}", repaired.next)?;
    writeln!(out, "as it was it is in {}", kept.display())?;
    Ok(Exit::Done)
}
