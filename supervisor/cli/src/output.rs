//! `fanin output`: what a job put out, as its store kept it. Text is made harmless unless the bytes are asked for.

use std::io::Write;
use std::thread;

use fanin_protocol::limits::FOLLOW_EVERY;
use fanin_protocol::text;

use crate::exit::Exit;
use crate::look::Where;
use crate::stores::LookError;

/// The words of `fanin output`.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// The job: its id, or 4 hex digits or more of it
    #[arg(value_name = "JOB")]
    job: String,

    /// Wait for the end of a job that is not over: its store has its output then
    #[arg(short, long)]
    follow: bool,

    /// The bytes as they came, control characters and all
    #[arg(long)]
    raw: bool,

    #[command(flatten)]
    place: Where,
}

/// Prints the output of a job.
///
/// # Errors
///
/// [`LookError`].
pub(crate) fn run(args: &OutputArgs, out: &mut dyn Write) -> Result<Exit, LookError> {
    let found = args.place.places()?.find(&args.job)?;
    let job = found.job()?.clone();
    let mut stored = found.stored;
    let is_over = |info: Option<fanin_protocol::JobInfo>| info.is_none_or(|info| info.status.is_terminal());
    while args.follow && stored.is_owned() && !is_over(stored.get(&job)) {
        thread::sleep(FOLLOW_EVERY);
        stored = found.place.read()?.into();
    }
    let Some(output) = stored.output(&job)? else { return Ok(Exit::Done) };
    if args.raw {
        out.write_all(output.bytes())?;
    } else {
        let all = output.text();
        let shown = text::printable(&all);
        out.write_all(shown.as_bytes())?;
        if !shown.is_empty() && !shown.ends_with('\n') {
            out.write_all(b"\n")?;
        }
    }
    Ok(Exit::Done)
}
