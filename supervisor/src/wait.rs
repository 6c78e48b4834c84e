//! Waiting as an object: a waiter is there while its future is, and leaves with it.

use std::pin::Pin;
use std::time::Duration;

use fanin_machine::{Answer, Command, Leave, Refusal, Release, Reply, Take, WaiterId, Wanted};
use fanin_protocol::ResultEntry;
use tokio::sync::oneshot;

use crate::core::CallError;
use crate::handle::Handle;
use crate::offered::Offered;
use crate::past;

/// Why a wait returned no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The limit passed first; the jobs go on running.
    #[error("not over after {limit:?}; the jobs go on")]
    TimedOut {
        /// The wait's limit.
        limit: Duration,
    },
    /// The group's session was closed before the group fired: it has no result.
    #[error("the session was closed first, so the group has no result")]
    Voided,
    /// The supervisor or the session is closed; nothing will come.
    #[error("the session or the supervisor is closed")]
    Closed,
    /// The wait could not begin.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl WaitError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TimedOut { .. } => "wait_timed_out",
            Self::Voided => "group_voided",
            Self::Closed => "closed",
            Self::Call(error) => error.code(),
        }
    }
}

impl From<Refusal> for WaitError {
    fn from(refusal: Refusal) -> Self {
        Self::Call(refusal.into())
    }
}

/// What a wait for jobs returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waited {
    /// One entry a job, in the order the jobs were named; of a wait for any, those that are over.
    pub entries: Vec<ResultEntry>,
    /// The parent had all of these before, from another wait or a wake.
    pub already_delivered: bool,
}

/// A live waiter. Dropped before [`Waiter::acknowledge`], it leaves: what it was offered goes to the next in line or
/// stays owed (BAR-12).
pub(crate) struct Waiter {
    handle: Handle,
    id: WaiterId,
    answer: oneshot::Receiver<Answer>,
    is_done: bool,
}

impl Waiter {
    /// Begins to wait.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped at the gate nobody waits.
    pub(crate) async fn begin(handle: &Handle, wanted: Wanted) -> Result<Self, CallError> {
        Self::ask(handle, wanted).await.map(|(waiter, _)| waiter)
    }

    /// As [`Waiter::begin`]; true where the answer is there already, as far as the machine says so.
    pub(crate) async fn ask(handle: &Handle, wanted: Wanted) -> Result<(Self, bool), CallError> {
        // Made before the call, so that a refusal forgets the expected answer as well.
        let waiter = Self::expect(handle);
        let reply = waiter.handle.core().submit(Command::Take(Take { waiter: waiter.id, wanted })).await?;
        Ok((waiter, reply == Reply::Answered))
    }

    /// One who is about to wait.
    pub(crate) fn expect(handle: &Handle) -> Self {
        let (id, answer) = handle.core().expect_answer();
        Self { handle: handle.clone(), id, answer, is_done: false }
    }

    /// Its name.
    pub(crate) const fn id(&self) -> WaiterId {
        self.id
    }

    /// The answer. It is offered, not taken, until it is acknowledged.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the answer stays here.
    pub(crate) async fn answer(&mut self) -> Result<Answer, WaitError> {
        // Where the store failed, that is why nobody answers.
        let closed = |_| self.handle.core().failure().map_or(WaitError::Closed, WaitError::Call);
        (&mut self.answer).await.map_err(closed)
    }

    /// The answer, or the end of the limit; an answer that is there wins.
    ///
    /// # Cancel safety
    ///
    /// As [`Waiter::answer`].
    pub(crate) async fn answer_before(&mut self, limit: Option<Duration>) -> Result<Answer, WaitError> {
        let Some(limit) = limit else { return self.answer().await };
        match tokio::time::timeout(limit, self.answer()).await {
            Ok(answer) => answer,
            Err(_) if self.handle.is_inside() => self.held_answer(limit).await,
            Err(_) => Err(WaitError::TimedOut { limit }),
        }
    }

    /// The limit of a job's wait has passed. An answer that was only held for the job's slot is given now (SC-10);
    /// without one, or where the gate is busy, the waiter leaves.
    async fn held_answer(&mut self, limit: Duration) -> Result<Answer, WaitError> {
        match self.handle.core().submit(Command::Release(Release::Waiter(self.id, Leave::Limit))).await {
            Ok(Reply::Answered) => self.answer().await,
            _ => Err(WaitError::TimedOut { limit }),
        }
    }

    /// Takes what was offered: it is delivered now, once. Where that cannot be said in time it leaves.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped at the gate it leaves, and what it was offered stays owed.
    pub(crate) async fn acknowledge(mut self) -> Result<(), CallError> {
        self.handle.core().submit(Command::Ack(self.id)).await?;
        self.done();
        Ok(())
    }

    /// As [`Waiter::acknowledge`], for what is returned either way: a wait that has its answer does not need the gate.
    pub(crate) fn take(mut self) {
        self.done();
        self.handle.core().post(Command::Ack(self.id));
    }

    fn done(&mut self) {
        self.is_done = true;
        self.handle.core().forget_answer(self.id);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.is_done {
            self.handle.core().forget_answer(self.id);
            self.handle.core().post(Command::Release(Release::Waiter(self.id, Leave::Left)));
        }
    }
}

/// Begins to wait and gives the answer, or the end of the limit, which also bounds the way through the gate. An answer
/// that is there wins over a limit that has passed.
pub(crate) async fn answer_within(
    handle: &Handle,
    wanted: Wanted,
    limit: Option<Duration>,
) -> Result<(Answer, Waiter), WaitError> {
    let mut begun = None;
    let answer = async { begun.insert(Waiter::begin(handle, wanted).await?).answer().await };
    let answer = match limit {
        None => answer.await?,
        Some(limit) => match tokio::time::timeout(limit, answer).await {
            Ok(answer) => answer?,
            Err(_) => match begun.as_mut().filter(|_| handle.is_inside()) {
                Some(waiter) => waiter.held_answer(limit).await?,
                None => return Err(WaitError::TimedOut { limit }),
            },
        },
    };
    begun.map(|waiter| (answer, waiter)).ok_or(WaitError::Closed)
}

/// Waits for jobs and takes their results. Those that have left the memory are looked up in the store.
pub(crate) async fn jobs(
    handle: &Handle,
    wanted: Wanted,
    limit: Option<Duration>,
) -> Result<Waited, WaitError> {
    let Some(again) = handle.core().reader().map(|_| wanted.clone()) else {
        return known_jobs(handle, wanted, limit).await.map(Offered::take);
    };
    match known_jobs(handle, wanted, limit).await.map(Offered::take) {
        Err(WaitError::Call(CallError::Refused(gone @ (Refusal::Expired(_) | Refusal::UnknownJob(_))))) => {
            // One of the others may leave the memory meanwhile.
            let others = |rest| jobs_again(handle, rest, limit);
            past::jobs(handle, again, gone, others).await
        }
        answered => answered,
    }
}

/// As [`jobs`], without taking the results; what has left the memory was delivered before.
pub(crate) async fn jobs_offered(
    handle: &Handle,
    wanted: Wanted,
    limit: Option<Duration>,
) -> Result<Offered<Waited>, WaitError> {
    match known_jobs(handle, wanted.clone(), limit).await {
        Err(WaitError::Call(CallError::Refused(Refusal::Expired(_) | Refusal::UnknownJob(_)))) => {
            jobs(handle, wanted, limit).await.map(Offered::past)
        }
        answered => answered,
    }
}

/// As [`jobs`], which asks for itself.
fn jobs_again(
    handle: &Handle,
    wanted: Wanted,
    limit: Option<Duration>,
) -> Pin<Box<dyn Future<Output = Result<Waited, WaitError>> + Send + '_>> {
    Box::pin(jobs(handle, wanted, limit))
}

/// As [`jobs`], of jobs that are in memory.
async fn known_jobs(
    handle: &Handle,
    wanted: Wanted,
    limit: Option<Duration>,
) -> Result<Offered<Waited>, WaitError> {
    let (answer, waiter) = answer_within(handle, wanted, limit).await?;
    match answer {
        Answer::Jobs { entries, already_delivered } => {
            Ok(Offered::new(Waited { entries, already_delivered }, waiter))
        }
        Answer::Voided => Err(WaitError::Voided),
        Answer::Group { .. }
        | Answer::Wake(_)
        | Answer::Words { .. }
        | Answer::Hit(_)
        | Answer::Mail(_)
        | Answer::Promoted
        | Answer::Background(_)
        | Answer::Idle
        | Answer::Closed => Err(WaitError::Closed),
    }
}
