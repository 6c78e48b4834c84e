//! The mail of one run, for its body, and for whoever carries it to a program of that run. It decides nothing: who may send
//! what to whom is the machine's.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fanin_machine::{Answer, Command, Mail, Post, Refusal, Wanted};
use fanin_protocol::JobId;
use fanin_protocol::limits::MAIL_WAIT_MAX;

use crate::context::RunCell;
use crate::core::CallError;
use crate::offered::Offered;
use crate::wait::{WaitError, Waiter};

/// The mail of one run. Clones are the same; once the run is over it sends and receives nothing.
#[derive(Clone)]
pub struct Mailbox {
    cell: Arc<RunCell>,
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("job", &self.cell.job).finish_non_exhaustive()
    }
}

impl Mailbox {
    pub(crate) const fn new(cell: Arc<RunCell>) -> Self {
        Self { cell }
    }

    /// The job.
    pub fn job(&self) -> &JobId {
        &self.cell.job
    }

    /// As [`RunContext::team_send`](crate::RunContext::team_send).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// Dropped at the gate nothing was sent; dropped later it may have been.
    pub async fn send(&self, to: impl AsRef<str>, message: impl Into<Arc<str>>) -> Result<(), CallError> {
        self.cell.beat();
        let (from, to) = (self.cell.launcher().parent().clone(), to.as_ref().into());
        let mail = Post::Mail { from, to, text: message.into() };
        self.cell.core().submit(Command::Post(mail)).await.map(drop)
    }

    /// As [`RunContext::team_recv`](crate::RunContext::team_recv), before the mail is taken: dropped without
    /// [`Offered::take`] it is still there for whoever receives next.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is taken here.
    pub async fn receive(
        &self,
        from: Option<&str>,
        timeout: Duration,
    ) -> Result<Option<Offered<Mail>>, WaitError> {
        self.cell.beat();
        let launcher = self.cell.launcher();
        let limit = timeout.min(MAIL_WAIT_MAX);
        let (by, at_once) = (launcher.parent().clone(), limit.is_zero());
        let wanted = Wanted::Mail { by, from: from.map(Into::into), at_once };
        let (mut waiter, is_there) = match Waiter::ask(launcher.handle(), wanted).await {
            Err(CallError::Refused(Refusal::MailboxClosed)) => return Err(WaitError::Closed),
            asked => asked?,
        };
        if at_once && !is_there {
            return Ok(None);
        }
        // What is there comes, also where it has to be committed first what it follows from.
        let answer = waiter.answer_before(Some(limit).filter(|_| !is_there)).await;
        self.cell.beat();
        match answer {
            Ok(Answer::Mail(mail)) => Ok(Some(Offered::new(mail, waiter))),
            Err(WaitError::TimedOut { .. }) => Ok(None),
            Err(error) => Err(error),
            Ok(
                Answer::Jobs { .. }
                | Answer::Group { .. }
                | Answer::Wake(_)
                | Answer::Words { .. }
                | Answer::Hit(_)
                | Answer::Promoted
                | Answer::Background(_)
                | Answer::Voided
                | Answer::Idle
                | Answer::Closed,
            ) => Err(WaitError::Closed),
        }
    }
}
