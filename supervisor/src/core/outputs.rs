//! Outputs: where that of a job is, and what a run leaves at its end.

use std::sync::Arc;

use fanin_machine::{Command, Ended, Refusal, Report, Said};
use fanin_protocol::limits::MESSAGE_BYTES_MAX;
use fanin_protocol::{JobId, Lifetime, text};

use super::CallError;
use super::Core;
use crate::context::RunCell;
use crate::follow::{Found, Source};
use crate::journal::OutputChange;
use crate::output::JobOutput;
use crate::run_output::RunOutput;
use crate::runner::Ending;

impl Core {
    /// Where the output of a life of a job is: with its newest run until the job is over, then among those that are
    /// kept, else in its record.
    pub(crate) fn find_output(self: &Arc<Self>, job: &JobId, lifetime: Lifetime) -> Result<Found, CallError> {
        let found = self.look_behind(|gated| {
            let state = &gated.state;
            let info = state.job_info_exact(job, lifetime)?;
            let is_over = info.status.is_terminal();
            let tag = state.tag_of(job).filter(|_| !is_over);
            let cell = tag.and_then(|tag| gated.hosted.find(tag)).filter(|cell| cell.lifetime == lifetime);
            Ok::<_, Refusal>((info.runs, is_over, cell.map(Arc::clone), state.output_of(lifetime)))
        });
        let (run, is_over, cell, excerpt) = match found? {
            Ok(found) => found,
            Err(gone) => {
                let (past, info) = self.past(job, Some(lifetime), gone)?;
                (info.runs, true, None, past.state.output_of(lifetime))
            }
        };
        let source = match cell {
            Some(cell) => cell.output.source(),
            None => Source::Kept(
                match self.outputs.lock().get(lifetime).or_else(|| self.stored_output(lifetime)) {
                    Some(kept) => kept,
                    None => excerpt.as_ref().map(JobOutput::of_excerpt).unwrap_or_default(),
                },
            ),
        };
        Ok(Found { run, is_over, source })
    }

    /// A run has put out something: a journal saves it in a moment.
    pub(crate) fn put_out(&self, output: &Arc<RunOutput>) {
        if let Some(store) = &self.store {
            store.put_out(output);
        }
    }

    /// What the store kept of an output, where it kept more than the record.
    fn stored_output(&self, lifetime: Lifetime) -> Option<JobOutput> {
        match self.store.as_ref()?.reader.output(lifetime) {
            Ok(stored) => stored.as_ref().map(JobOutput::of_stored),
            Err(error) => {
                tracing::warn!(%error, "an output cannot be read; the excerpt of its record stands in");
                None
            }
        }
    }
}

impl RunCell {
    /// Reports the end of the run: by the word of its body, or `None` by its guard.
    pub(crate) fn ended(&self, ending: Option<Ending>) {
        if let Some(standing) = &self.standing {
            standing.end();
        }
        let core = self.core();
        let (ending, last) = match ending {
            None => (None, JobOutput::default()),
            Some(Ending { failure, exit, output, left }) => (Some((failure, exit, left)), output),
        };
        let whole = self.output.end(last);
        let output = whole.excerpt();
        let is_more = output.as_ref().is_some_and(|excerpt| excerpt.truncated || excerpt.invalid_utf8);
        let stored = core.store.is_some().then(|| stored(self.lifetime, is_more.then_some(&whole)));
        core.outputs.lock().keep(self.lifetime, is_more.then_some(whole));
        let said = match ending {
            None => Ended::Lost { output },
            Some((None, exit, left)) => Ended::Completed { output, exit, left: left.map(Arc::new) },
            Some((Some(failure), exit, left)) => Ended::Failed {
                cause: failure.cause,
                code: failure.code,
                message: text::cut(&failure.message, MESSAGE_BYTES_MAX).into(),
                output,
                exit,
                left: left.map(Arc::new),
                is_safe: failure.is_safe,
            },
        };
        core.post_with(Command::Report(Report { run: self.run, what: Said::Ended(said) }), stored);
    }
}

/// What a store keeps of an output, where its record has not all of it.
pub(super) fn stored(job: Lifetime, whole: Option<&JobOutput>) -> OutputChange {
    let pieces = whole.map(JobOutput::pieces).unwrap_or_default();
    OutputChange::Replace { job, pieces, total: whole.map_or(0, JobOutput::bytes_total) }
}
