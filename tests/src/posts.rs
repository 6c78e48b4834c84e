//! Posted messages as an outsider learns of them: each is taken once or void, none is left with a run that is over, and
//! a job that completed has answered all (S-2, J-6, J-24).

use std::collections::BTreeMap;

use fanin_protocol::record::{MessageClass, MessagePosted, RunEnded, RunOutcome, TakenBy};
use fanin_protocol::{JobId, Lifetime, MessageId, NodeId, SessionId};

use crate::broken::{Broken, Kept, ensure, some};
use crate::ledger::{JobSeen, Ledger};

/// A posted message.
#[derive(Debug, Clone)]
pub struct PostSeen {
    /// Where its record is.
    pub place: u64,
    /// To whom.
    pub to: NodeId,
    /// Which life of a job.
    pub life: Option<Lifetime>,
    /// It is a firing: of which life of a watch, and its number.
    pub hit: Option<(Lifetime, u32)>,
    /// It was taken.
    pub taken: Option<TakenBy>,
}

/// All posted messages by their keys.
pub type Posts = BTreeMap<MessageId, PostSeen>;

impl Ledger {
    pub(crate) fn message_posted(&mut self, body: &MessagePosted) -> Kept {
        let life = match &body.to {
            NodeId::Session(_) => None,
            NodeId::Job(id) => {
                let job = some(self.jobs.get(id), "J-24", || format!("no job {id}"))?;
                ensure(job.run.is_some(), "J-24", || format!("{id} does not run and is told more"))?;
                Some(job.lifetime)
            }
        };
        let is_hit = body.class == MessageClass::Watch;
        ensure(is_hit == body.from.is_some(), "SC-22", || format!("{} comes from nobody", body.key))?;
        let hit = body.from.as_ref().map(|from| self.fired(from, body)).transpose()?;
        let goes = self.is_going_down(&body.to);
        ensure(!goes, "J-24", || format!("{} goes and {} is posted", body.to, body.key))?;
        let post = PostSeen { place: self.head, to: body.to.clone(), life, hit, taken: None };
        let before = self.posts.insert(body.key.clone(), post);
        ensure(before.is_none(), "J-21", || format!("{} is posted twice", body.key))
    }

    /// A watch fires while it runs and is not told to stop, to its parent, and so often and no more.
    fn fired(&mut self, from: &JobId, body: &MessagePosted) -> Result<(Lifetime, u32), Broken> {
        let job = some(self.jobs.get_mut(from), "SC-22", || format!("no job {from}"))?;
        let may = job.run.is_some() && job.stop.is_none() && job.parent == body.to;
        ensure(may, "SC-22", || format!("{from} fires: {job:?}"))?;
        ensure(job.firings.is_some_and(|max| job.fired < max), "SC-22", || {
            format!("{from} has fired {} times of {:?}, and fires again", job.fired, job.firings)
        })?;
        job.fired += 1;
        Ok((job.lifetime, job.fired))
    }

    pub(crate) fn posts_taken(&mut self, keys: &[MessageId], by: TakenBy) -> Kept {
        for key in keys {
            let post = some(self.posts.get(key), "G6", || format!("no message {key}"))?;
            ensure(post.taken.is_none(), "G6", || format!("{key} is taken twice"))?;
            let fits = match (&post.to, by) {
                (NodeId::Session(_), TakenBy::Inbox) => !self.is_going(&post.to),
                (NodeId::Session(_), by) => by == TakenBy::Void && self.is_going(&post.to),
                (NodeId::Job(id), TakenBy::Run | TakenBy::Void) => {
                    self.jobs.get(id).is_some_and(|job| job.run.is_some() && Some(job.lifetime) == post.life)
                }
                (NodeId::Job(_), TakenBy::Waiter | TakenBy::Inbox | TakenBy::Results) => false,
            };
            ensure(fits, "J-24", || format!("{key} ({post:?}) by {by:?}"))?;
            let woken = (post.hit.is_some() && by == TakenBy::Inbox).then(|| post.to.clone());
            if let Some(post) = self.posts.get_mut(key) {
                post.taken = Some(by);
            }
            if let Some(NodeId::Session(id)) = woken
                && let Some(session) = self.sessions.get_mut(&id)
            {
                session.woken += 1;
            }
        }
        Ok(())
    }

    /// The run of a job ends: nothing that it accepted is left, and one that ended well has answered all.
    pub(crate) fn posts_at_end(&self, body: &RunEnded) -> Kept {
        let Some(NodeId::Job(id)) = self.runs.get(&body.run).map(|run| &run.node) else { return Ok(()) };
        let void = self.posts.iter().find(|(_, post)| {
            post.to == NodeId::Job(id.clone()) && post.taken == Some(TakenBy::Void) && post.place > body.run.0
        });
        let is_told = self.jobs.get(id).is_some_and(|job| job.stop.is_some());
        let holds = void.is_none() || is_told || body.outcome != RunOutcome::Completed;
        ensure(holds, "J-6", || format!("{id} completes and {void:?} is unanswered"))?;
        let left =
            self.posts.iter().find(|(_, post)| post.taken.is_none() && post.to == NodeId::Job(id.clone()));
        ensure(left.is_none(), "J-24", || format!("{id} ends and {left:?} is left"))
    }

    /// Follow-ups to this life that nobody will answer.
    pub fn unanswered(&self, job: &JobSeen) -> usize {
        let void = |post: &&PostSeen| post.life == Some(job.lifetime) && post.taken == Some(TakenBy::Void);
        self.posts.values().filter(void).count()
    }

    /// What a session is owed of posted messages, oldest first.
    pub fn owed_posts<'a>(&'a self, session: &'a SessionId) -> impl Iterator<Item = (u64, &'a MessageId)> {
        let to = NodeId::Session(session.clone());
        let mut owed: Vec<_> = self
            .posts
            .iter()
            .filter(|(_, post)| post.taken.is_none() && post.to == to)
            .map(|(key, post)| (post.place, key))
            .collect();
        owed.sort_unstable();
        owed.into_iter()
    }
}
