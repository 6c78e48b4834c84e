//! A session: a parent outside of all jobs, with turns.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use fanin_machine::{Answer, Command, Parent, PostTarget, Reply, SessionCommand, Wanted, why};
use fanin_protocol::{Bounds, GroupId, Hit, JobId, MessageId, NodeId, Profile, Reason, SessionId};

use crate::core::CallError;
use crate::handle::Handle;
use crate::launcher::Launcher;
use crate::message::{Message, Queued, Words};
use crate::offered::Offered;
use crate::supervisor::Owner;
use crate::turn::Turn;
use crate::wait::{WaitError, Waiter};
use crate::wake::Wake;

/// Who drives a session, and what it and all below it may grow to (14.14). What is not set is as the supervisor's
/// builder has it.
///
/// # Examples
///
/// ```
/// use fanin_supervisor::SessionOptions;
/// use fanin_supervisor::protocol::{Bounds, Profile};
///
/// // A model drives it, and its workers may have workers.
/// let bounds = Bounds { depth: 2, ..Profile::Agent.bounds() };
/// let options = SessionOptions { profile: Some(Profile::Agent), bounds: Some(bounds) };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionOptions {
    /// Who drives it; without bounds, its are used.
    pub profile: Option<Profile>,
    /// What it and all below it may grow to.
    pub bounds: Option<Bounds>,
}

impl SessionOptions {
    /// These, else those.
    pub(crate) fn or(self, others: Self) -> (Profile, Bounds) {
        let profile = self.profile.or(others.profile).unwrap_or_default();
        let others = others.bounds.filter(|_| self.profile.is_none());
        (profile, self.bounds.or(others).unwrap_or(profile.bounds()))
    }
}

/// What is still to come of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owing {
    /// Jobs of its tree that are not over, oldest first. Watches are not among them: nobody waits for their end.
    pub jobs: Vec<JobId>,
    /// Groups that it launched and whose result was not taken, oldest first: fired ones, and those that are still to fire,
    /// but for watches.
    pub groups: Vec<GroupId>,
    /// Why a result that is there is not handed out: it was woken as often as it may be (W-7).
    pub autonomy: Option<Reason>,
    /// Firings of watches that were not taken.
    pub hits: usize,
}

impl Owing {
    /// True where nothing is to come: outside of a turn, the session is done.
    pub const fn is_nothing(&self) -> bool {
        self.jobs.is_empty() && self.groups.is_empty() && self.hits == 0
    }
}

/// A parent that is no job: the root of a tree. Clones are the same session; dropping them all does not close it.
///
/// It launches, waits and is woken as a [`Launcher`].
#[derive(Clone)]
pub struct Session {
    launcher: Launcher,
    id: SessionId,
}

impl Session {
    pub(crate) fn new(owner: Arc<Owner>, id: SessionId) -> Self {
        Self { launcher: Launcher::new(Handle::of(owner), Parent::Session(id.clone())), id }
    }

    /// The session's id.
    pub const fn id(&self) -> &SessionId {
        &self.id
    }

    /// Begins a turn: until it ends, the session is busy and its wakes are held (W-4). Single launches join the
    /// turn's group, which is sealed when the turn ends.
    ///
    /// # Errors
    ///
    /// [`Refusal::TurnOpen`](crate::Refusal::TurnOpen) where a turn is open;
    /// [`Refusal::Draining`](crate::Refusal::Draining) once all was told to stop;
    /// [`CallError`] where the session or the supervisor is closed, or busy.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone.
    pub async fn turn(&self) -> Result<Turn, CallError> {
        let core = self.launcher.handle().core();
        let stepped = core.submit_early(Command::Session(SessionCommand::Turn(self.id.clone()))).await?;
        // Made before the commit: dropped from here on the turn ends.
        let turn = match &stepped.reply {
            Ok(Reply::Turn(run)) => Some(Turn::new(self.launcher.handle().clone(), *run)),
            _ => None,
        };
        match core.committed(stepped).await? {
            Reply::Turn(_) => turn.ok_or(CallError::Poisoned),
            Reply::Done
            | Reply::Answered
            | Reply::Launched(_)
            | Reply::Stopped(_)
            | Reply::Posted { .. }
            | Reply::Extended(_)
            | Reply::Fired { .. }
            | Reply::Promoted(_)
            | Reply::Refused(_) => Err(CallError::Poisoned),
        }
    }

    /// Its user has said something: how often it may be woken is counted anew (W-7). [`Session::post`] does the same. A
    /// session of the operator profile has no such bound.
    ///
    /// # Errors
    ///
    /// [`CallError`] where the session or the supervisor is closed, or busy.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone.
    pub async fn user_spoke(&self) -> Result<(), CallError> {
        let spoke = SessionCommand::Spoke(self.id.clone());
        self.launcher.handle().core().submit(Command::Session(spoke)).await.map(drop)
    }

    /// What is still to come of it, in one look: a program that hosts a parent may end once that is nothing and no turn is
    /// open (SH-3).
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`]: look again.
    pub fn owing(&self) -> Result<Owing, CallError> {
        let parent = NodeId::Session(self.id.clone());
        self.launcher.handle().core().look(|state| {
            let live = || state.live_jobs().filter(|job| job.session == self.id);
            // A watch is a group of its own.
            let watches: BTreeSet<GroupId> =
                live().filter(|job| job.firings.is_some()).map(|job| job.group).collect();
            let jobs = live().filter(|job| job.firings.is_none()).map(|job| job.job);
            let groups = state
                .group_infos()
                .filter(|group| group.parent.as_ref() == Some(&parent))
                .filter(|group| !group.is_taken && group.voided.is_none())
                .filter(|group| !watches.contains(&group.group));
            let groups: Vec<GroupId> = groups.map(|group| group.group).collect();
            let hits = state.owed_hits(&self.id);
            let is_held = |reason: &Reason| matches!(reason, Reason::Autonomy { .. });
            let of_groups = groups.iter().flat_map(|group| why::group(state, group)).find(is_held);
            let autonomy = of_groups.or_else(|| state.held_hits(&self.id));
            Owing { jobs: jobs.collect(), groups, hits, autonomy }
        })
    }

    /// Posts a user's words to the session's inbox: they come with [`Session::next_message`], before the results of groups
    /// that fire later. A known `key` posts nothing again.
    ///
    /// # Errors
    ///
    /// [`CallError`]: `too_large`, `inbox_full`, or the session is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone. Dropped there nothing is posted.
    pub async fn post(
        &self,
        text: impl Into<Arc<str>>,
        key: impl Into<Option<MessageId>>,
    ) -> Result<Queued, CallError> {
        self.launcher.handle().post(PostTarget::Session(self.id.clone()), key.into(), text.into()).await
    }

    /// The next message, whatever it is, in the order in which they came. [`next_wake`](Launcher::next_wake) hands out
    /// results alone, and leaves words where they are.
    ///
    /// # Errors
    ///
    /// As [`next_wake`](Launcher::next_wake).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future, or the message without `ack`, leaves the message owed.
    pub async fn next_message(&self) -> Result<Message, WaitError> {
        let mut waiter = Waiter::begin(self.launcher.handle(), Wanted::Message(self.id.clone())).await?;
        match waiter.answer().await? {
            Answer::Wake(result) => Ok(Message::Wake(Wake::new(result, waiter))),
            Answer::Words { key, text } => Ok(Message::Words(Words::new(key, text, waiter))),
            Answer::Hit(hit) => Ok(Message::Hit(Offered::new(hit, waiter))),
            Answer::Jobs { .. }
            | Answer::Group { .. }
            | Answer::Promoted
            | Answer::Background(_)
            | Answer::Voided
            | Answer::Mail(_)
            | Answer::Idle
            | Answer::Closed => Err(WaitError::Closed),
        }
    }

    /// The next firing of a watch of the session ([`JobSpec::watch`](crate::JobSpec::watch)), and nothing else: results and
    /// words stay where they are. It is delivered once it is [taken](Offered::take).
    ///
    /// # Errors
    ///
    /// As [`next_wake`](Launcher::next_wake).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future, or what it returns without `take`, leaves the firing owed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use fanin_supervisor::{JobSpec, Supervisor};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let supervisor = Supervisor::builder().start().await?;
    /// let session = supervisor.session("main").await?;
    /// let queue = JobSpec::run("queue", |ctx| async move {
    ///     ctx.fire("the queue is empty").await?;
    ///     Ok("looked once".into())
    /// });
    /// session.start(queue.fires(1, Duration::from_secs(3_600))).await?;
    /// let hit = session.next_hit().await?.take();
    /// assert_eq!((&*hit.name(), hit.seen(), hit.number), ("queue", "the queue is empty", 1));
    /// supervisor.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next_hit(&self) -> Result<Offered<Hit>, WaitError> {
        let mut waiter = Waiter::begin(self.launcher.handle(), Wanted::Hit(self.id.clone())).await?;
        match waiter.answer().await? {
            Answer::Hit(hit) => Ok(Offered::new(hit, waiter)),
            Answer::Jobs { .. }
            | Answer::Group { .. }
            | Answer::Wake(_)
            | Answer::Words { .. }
            | Answer::Promoted
            | Answer::Background(_)
            | Answer::Voided
            | Answer::Mail(_)
            | Answer::Idle
            | Answer::Closed => Err(WaitError::Closed),
        }
    }

    /// Closes the session: groups that have not fired are void, their jobs are stopped, and owed wakes are dropped.
    /// Closing it again does nothing.
    ///
    /// # Errors
    ///
    /// [`CallError::Closed`] where the supervisor is shut down; [`CallError::Busy`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it waits for the gate alone, not for the jobs.
    pub async fn close(&self) -> Result<(), CallError> {
        let close = SessionCommand::Close(self.id.clone());
        self.launcher.handle().core().submit(Command::Session(close)).await.map(drop)
    }
}

impl Deref for Session {
    type Target = Launcher;

    fn deref(&self) -> &Launcher {
        &self.launcher
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}
