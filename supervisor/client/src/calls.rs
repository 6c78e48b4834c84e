//! The calls, one method each. What a call does, and when it is refused, is said by the library's method of its name.

use std::sync::Arc;
use std::time::Duration;

use fanin_protocol::spec::millis;
use fanin_protocol::wire::{
    Answer, Call, CancelCall, Cancelled, GroupInfo, JobCall, OpenSession, OutputCall, OutputPage, StatusInfo,
    WaitCall, Waited,
};
use fanin_protocol::{
    Account, CombinedResult, GroupId, JobFilter, JobId, JobInfo, JobList, Lifetime, MessageId, Named,
    Promotion, Reason, SessionId,
};

use crate::client::Client;
use crate::error::ClientError;
use crate::offered::{Given, GroupResult, Message, Offered, Turn};

/// Asks, and takes the one answer that fits.
macro_rules! ask {
    ($client:expr, $call:expr, $answer:pat => $found:expr) => {{
        let mut pending = $client.ask($call).await?;
        match pending.end().await?.0 {
            $answer => Ok($found),
            _ => Err(pending.unexpected()),
        }
    }};
}

/// As `ask!`, for an answer that is offered.
macro_rules! offered {
    ($client:expr, $call:expr, $($answer:pat => $found:expr),+) => {{
        let mut pending = $client.ask($call).await?;
        match pending.end().await?.0 {
            $($answer => Ok(Offered::new($found, Given::of(&pending))),)+
            _ => Err(pending.unexpected()),
        }
    }};
}

/// # Errors
///
/// Every call gives [`ClientError::Call`] with the service's code where it is refused, and [`ClientError::Lost`] where the
/// connection broke before the answer came.
///
/// # Cancel safety
///
/// Every call that looks or waits is cancel safe: dropped, it has left, and what it would have been offered is owed as
/// before. Of one that changes something, dropped, it is not known whether it did; each can be made again.
impl Client {
    /// Opens a session, or finds it open.
    pub async fn open_session(&self, open: OpenSession) -> Result<SessionId, ClientError> {
        ask!(self, Call::OpenSession(open), Answer::Session(session) => session)
    }

    /// Closes a session: its jobs are stopped, and what it is owed is dropped.
    pub async fn close_session(&self, session: &SessionId) -> Result<(), ClientError> {
        ask!(self, Call::CloseSession { session: session.clone() }, Answer::Done => ())
    }

    /// Waits until all of these jobs are over.
    pub async fn wait_all(&self, wait: WaitCall) -> Result<Offered<Waited>, ClientError> {
        offered!(self, Call::WaitAll(wait), Answer::Waited(waited) => waited)
    }

    /// Waits until the first of these jobs is over.
    pub async fn wait_any(&self, wait: WaitCall) -> Result<Offered<Waited>, ClientError> {
        offered!(self, Call::WaitAny(wait), Answer::Waited(waited) => waited)
    }

    /// Waits until a group has fired. `session` is its parent; `None` for the job that this program is part of.
    pub async fn wait_group(
        &self,
        session: Option<&SessionId>,
        group: &GroupId,
        limit: impl Into<Option<Duration>>,
    ) -> Result<Offered<GroupResult>, ClientError> {
        let limit_ms = limit.into().map(millis);
        let call = Call::WaitGroup { session: session.cloned(), group: group.clone(), limit_ms };
        offered!(self, call, Answer::Group { result, already_delivered } => GroupResult { result, already_delivered })
    }

    /// The next result of a group that nobody has taken.
    pub async fn next_wake(
        &self,
        session: Option<&SessionId>,
    ) -> Result<Offered<Arc<CombinedResult>>, ClientError> {
        offered!(self, Call::NextWake { session: session.cloned() }, Answer::Wake(result) => result)
    }

    /// The next message of a session's inbox: a result, or a user's words.
    pub async fn next_message(&self, session: &SessionId) -> Result<Offered<Message>, ClientError> {
        offered!(
            self,
            Call::NextMessage { session: session.clone() },
            Answer::Wake(result) => Message::Wake(result),
            Answer::Words { key, text } => Message::Words { key, text },
            Answer::Hit(hit) => Message::Hit(hit)
        )
    }

    /// Begins a turn of a session.
    pub async fn turn(&self, session: &SessionId) -> Result<Turn, ClientError> {
        let mut pending = self.ask(Call::TurnBegin { session: session.clone() }).await?;
        match pending.end().await?.0 {
            Answer::Done => Ok(Turn::new(session.clone(), Given::of(&pending))),
            _ => Err(pending.unexpected()),
        }
    }

    /// Stops a job, one life of it, or all jobs of a group; what became of each.
    pub async fn cancel(&self, cancel: CancelCall) -> Result<Vec<(JobId, Cancelled)>, ClientError> {
        ask!(self, Call::Cancel(cancel), Answer::Cancelled(cancelled) => cancelled)
    }

    /// A follow-up to a running job: its key.
    pub async fn extend(
        &self,
        job: &JobId,
        lifetime: Option<Lifetime>,
        text: impl Into<String>,
    ) -> Result<MessageId, ClientError> {
        let call = Call::Extend { job: job.clone(), lifetime, text: text.into() };
        ask!(self, call, Answer::Posted { key, .. } => key)
    }

    /// More time for a job: true where it has it.
    pub async fn extend_time(&self, job: &JobId, by: Duration) -> Result<bool, ClientError> {
        let call = Call::ExtendTime { job: job.clone(), by_ms: millis(by) };
        ask!(self, call, Answer::Extended(extended) => extended)
    }

    /// A user's words for a session's inbox: their key, and whether they are new.
    pub async fn post(
        &self,
        session: &SessionId,
        text: impl Into<String>,
        key: Option<MessageId>,
    ) -> Result<(MessageId, bool), ClientError> {
        let call = Call::Post { session: session.clone(), text: text.into(), key };
        ask!(self, call, Answer::Posted { key, created } => (key, created))
    }

    /// Sends the foreground calls that wait for a job's group, or a group, to the background.
    pub async fn promote(&self, what: Named) -> Result<Promotion, ClientError> {
        ask!(self, Call::Promote(what), Answer::Promoted(promotion) => promotion)
    }

    /// A page of jobs, oldest first.
    pub async fn list(&self, filter: JobFilter) -> Result<JobList, ClientError> {
        ask!(self, Call::List(filter), Answer::Jobs(jobs) => jobs)
    }

    /// A job as it stands.
    pub async fn get(&self, job: impl Into<JobCall>) -> Result<JobInfo, ClientError> {
        ask!(self, Call::Get(job.into()), Answer::Job(job) => *job)
    }

    /// What a job, a group or its wake, or a session waits for.
    pub async fn why(&self, what: Named) -> Result<Vec<Reason>, ClientError> {
        ask!(self, Call::Why(what), Answer::Reasons(reasons) => reasons)
    }

    /// A group as it stands, with its result once it has one.
    pub async fn group(&self, group: &GroupId) -> Result<GroupInfo, ClientError> {
        ask!(self, Call::Group { group: group.clone() }, Answer::GroupInfo(group) => *group)
    }

    /// What has an id that begins so.
    pub async fn find(&self, start: impl Into<String>) -> Result<Named, ClientError> {
        ask!(self, Call::Find { start: start.into() }, Answer::Named(named) => named)
    }

    /// The latest line of progress of a running job.
    pub async fn progress(&self, job: &JobId) -> Result<Option<Arc<str>>, ClientError> {
        ask!(self, Call::Progress { job: job.clone() }, Answer::Progress(line) => line)
    }

    /// A part of what a job put out.
    pub async fn output(&self, output: OutputCall) -> Result<OutputPage, ClientError> {
        ask!(self, Call::Output(output), Answer::Page(page) => page)
    }

    /// What a session, job or group may use, and has used.
    pub async fn account(&self, of: Named) -> Result<Account, ClientError> {
        ask!(self, Call::Account(of), Answer::Account(account) => account)
    }

    /// How the service stands.
    pub async fn status(&self) -> Result<StatusInfo, ClientError> {
        ask!(self, Call::Status, Answer::Status(status) => *status)
    }

    /// Asks the service to end: nothing new is taken on, what runs may go on for `drain`, its own time without one, and is
    /// then stopped. It returns at once.
    pub async fn shutdown(&self, drain: impl Into<Option<Duration>>) -> Result<(), ClientError> {
        ask!(self, Call::Shutdown { drain_ms: drain.into().map(millis) }, Answer::Done => ())
    }
}
