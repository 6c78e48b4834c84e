//! What becomes of a result: the files it is written to, whoever reads it, and what follows. It comes in this order, so that
//! nothing that follows can cost the result.

use std::io::{self, Write};
use std::time::Duration;

use fanin_protocol::limits::NOTIFY_AFTER;
use fanin_supervisor::Wake;

use crate::args::RunArgs;
use crate::drive::DriveError;
use crate::github::{self, GitHub};
use crate::keep::Keep;
use crate::leave;
use crate::notice;
use crate::on_done;
use crate::over::Over;
use crate::shown::Shown;
use crate::signals::Signal;
use crate::stderr::{self, Stderr};
use crate::warning::Warning;

/// Why a result was not handed over.
pub(crate) enum Undone {
    /// Signals asked for the end.
    Interrupted(Signal),
    /// It could not be written, or not be acknowledged.
    Failed(DriveError),
}

/// Whom a run speaks to.
pub(crate) struct Ways<'w> {
    pub(crate) args: &'w RunArgs,
    pub(crate) github: Option<GitHub>,
    pub(crate) stderr: &'w Stderr,
}

impl Ways<'_> {
    /// Tells a warning.
    pub(crate) fn tell(&self, warning: &Warning) {
        warning.tell(self.stderr, self.args.json);
    }

    /// Writes the files that are left behind. A report that cannot be written changes how the program ends, so this comes
    /// before anything that says how.
    ///
    /// # Errors
    ///
    /// The signal that came while a disk took its time.
    pub(crate) async fn leave(
        &self,
        over: &mut Over<'_>,
        keep: Option<Keep>,
        shown: &mut Shown<'_>,
    ) -> Result<(), Signal> {
        let junit = leave::junit(self.args.junit.clone(), over, shown).await?;
        junit.iter().for_each(|warning| self.tell(warning));
        let kept = leave::kept(keep, over, shown).await?;
        kept.iter().for_each(|warning| self.tell(warning));
        let summary = leave::summary(self.github.as_ref(), over, shown).await?;
        summary.iter().for_each(|warning| self.tell(warning));
        Ok(())
    }

    /// Prints the result. It counts as taken when it was written, not before.
    ///
    /// # Errors
    ///
    /// [`Undone`]; that nobody reads it is none.
    pub(crate) async fn hand_over(
        &self,
        over: &Over<'_>,
        wake: Option<Wake>,
        shown: &mut Shown<'_>,
    ) -> Result<(), Undone> {
        let failed = |error| Undone::Failed(DriveError::Write(error));
        let text = if self.args.json { over.document() } else { over.report(self.github.as_ref()) };
        let text = text.map_err(failed)?;
        if self.github.is_some() && self.args.json && !self.args.quiet {
            github::annotations(over).iter().for_each(|annotation| self.stderr.command(annotation));
        }
        match print(text, self.stderr.clone(), shown).await {
            Handed::Written => match wake {
                Some(wake) => wake.ack().await.map(drop).map_err(|error| Undone::Failed(error.into())),
                None => Ok(()),
            },
            Handed::NobodyReads => Ok(()),
            Handed::Interrupted(signal) => Err(Undone::Interrupted(signal)),
            // The terminal is gone, and that is why the run ends.
            Handed::Failed(_) if shown.signal() == Some(Signal::HangUp) => Ok(()),
            Handed::Failed(error) => Err(failed(error)),
        }
    }

    /// What follows once the result is out.
    ///
    /// # Errors
    ///
    /// None that a text in memory has.
    pub(crate) async fn afterwards(&self, over: &Over<'_>, shown: &mut Shown<'_>) -> Result<(), DriveError> {
        if let Some(line) = self.args.on_done.as_deref() {
            let document = over.document().map_err(DriveError::Write)?;
            let done = on_done::run(line, document, over, shown).await;
            done.map_err(Warning::from).unwrap_or_else(|warning| self.tell(&warning));
        }
        let is_long = Duration::from_millis(over.tasks.result.duration_ms) > NOTIFY_AFTER;
        if (is_long || self.args.notify) && over.parent.is_none() && !self.args.no_notify {
            let notice = notice::notice(&over.report_of().header());
            notice.iter().for_each(|notice| self.stderr.notify(notice));
        }
        Ok(())
    }
}

/// What became of the written result.
enum Handed {
    Written,
    /// The reader went away; that is its own choice.
    NobodyReads,
    /// A signal came while a reader took its time.
    Interrupted(Signal),
    Failed(io::Error),
}

/// Writes the result, beside the runtime: a full pipe may block for ever, and a signal must still end the program.
async fn print(text: Vec<u8>, stderr: Stderr, shown: &mut Shown<'_>) -> Handed {
    let write = tokio::task::spawn_blocking(move || {
        // One reader has both, and is as quick with the one as with the other.
        if stderr::is_beside_stdout() {
            stderr.settle(None);
        }
        let mut out = io::stdout().lock();
        out.write_all(&text)?;
        out.flush()
    });
    let written = tokio::select! {
        written = write => written,
        signal = shown.next_signal() => return Handed::Interrupted(signal),
    };
    match written {
        Ok(Ok(())) => Handed::Written,
        Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Handed::NobodyReads,
        Ok(Err(error)) => Handed::Failed(error),
        Err(panic) => Handed::Failed(io::Error::other(panic)),
    }
}
