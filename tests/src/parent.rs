//! The parent as an outsider sees it: what it asked for, what it was offered, what it acknowledged (G6, BAR-10,
//! BAR-12, BAR-15).
//!
//! It decides by itself what a parent has; the machine's word that something was taken is compared, not believed.

mod answers;

use std::collections::{BTreeMap, BTreeSet};

use fanin_machine::{Promotion, WaiterId};
use fanin_protocol::record::{RunOutcome, TakenBy};
use fanin_protocol::{Fence, GroupId, JobId, Lifetime, MessageId, NodeId, Record};

use crate::broken::{Kept, ensure};
use crate::ledger::{GroupSeen, Ledger};
use crate::mails::Mails;
use crate::op::{Promoted, Wish};
use crate::posts::PostSeen;

/// What a parent asked for and has.
#[derive(Debug, Clone, Default)]
pub struct Parent {
    /// Who waits now, or holds an answer.
    pub waits: BTreeMap<WaiterId, Wait>,
    /// Results that an acknowledged wait delivered.
    pub by_wait: BTreeSet<Lifetime>,
    /// Results that an acknowledged wake delivered in full.
    pub by_wake: BTreeSet<Lifetime>,
    /// A user's words that were acknowledged.
    pub words: BTreeSet<MessageId>,
    /// Results that nobody will get: their parent was closed.
    pub void: BTreeSet<Lifetime>,
    /// Those of them that became so in this step: an answer of the step may have been given before or after.
    pub void_now: BTreeSet<Lifetime>,
    /// The group whose foreground calls are told to leave in this step.
    pub promoted: Option<GroupId>,
    /// Mail between members.
    pub mails: Mails,
}

/// A waiter.
#[derive(Debug, Clone)]
pub struct Wait {
    /// For what.
    pub wish: Wish,
    /// Which life waits, where that is a job.
    pub life: Option<Lifetime>,
    /// The lives of the jobs it named, as they were when it began.
    pub lives: Vec<Lifetime>,
    /// What it holds and has not acknowledged.
    pub offer: Option<Offer>,
    /// It began with the launch.
    pub is_foreground: bool,
}

impl Wait {
    /// True where the group's parent is who waits, in the same life.
    pub(crate) fn is_parent_of(&self, group: &GroupSeen) -> bool {
        self.wish.by() == Some(&group.parent) && self.life == group.parent_life
    }
}

/// What an answer gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer {
    /// These results, which the parent did not have.
    Results(Vec<Lifetime>),
    /// A group's result, by a wait.
    Group(GroupId),
    /// A group's result as the wake; in full for these.
    Wake(GroupId, Vec<Lifetime>),
    /// A user's words.
    Words(MessageId),
    /// A mail, which is marked as held in its box.
    Mail,
    /// Something that the parent has already.
    Known,
}

impl Parent {
    /// The parent after a crash, as far as the records know it: what was acknowledged was recorded.
    pub fn of(ledger: &Ledger) -> Self {
        let mut parent = Self::default();
        let by_inbox = |post: &&PostSeen| post.taken == Some(TakenBy::Inbox);
        parent.words =
            ledger.posts.iter().filter(|(_, post)| by_inbox(post)).map(|(key, _)| key.clone()).collect();
        for job in ledger.lives() {
            match ledger.groups.get(&job.group).and_then(|group| group.taken) {
                _ if job.taken => parent.by_wait.insert(job.lifetime),
                Some(TakenBy::Waiter | TakenBy::Results) => parent.by_wait.insert(job.lifetime),
                Some(TakenBy::Inbox) => parent.by_wake.insert(job.lifetime),
                Some(TakenBy::Void) => parent.void.insert(job.lifetime),
                Some(TakenBy::Run) | None => false,
            };
        }
        parent
    }

    /// True where the parent has the result, or will never get it.
    pub fn has(&self, life: &Lifetime) -> bool {
        self.by_wait.contains(life) || self.by_wake.contains(life) || self.void.contains(life)
    }

    /// True where it has all results of the group.
    pub fn has_all(&self, group: &GroupSeen) -> bool {
        group.lives.iter().all(|member| self.has(member))
    }

    /// True where a taker holds the group's wake.
    pub fn wake_is_out(&self, group: &GroupId) -> bool {
        self.waits
            .values()
            .any(|wait| matches!(&wait.offer, Some(Offer::Wake(offered, _)) if offered == group))
    }

    /// Somebody began to wait.
    pub fn asked(&mut self, waiter: WaiterId, wish: Wish, ledger: &Ledger) {
        let lives = match &wish {
            Wish::All(_, jobs) | Wish::Any(_, jobs) => {
                jobs.iter().filter_map(|id| ledger.jobs.get(id)).map(|job| job.lifetime).collect()
            }
            Wish::Exact(_, _, lifetime) => vec![*lifetime],
            Wish::Background(job) => ledger.jobs.get(job).map(|job| job.lifetime).into_iter().collect(),
            Wish::Group(..) | Wish::Wake(_) | Wish::Message(_) | Wish::Hit(_) => Vec::new(),
            Wish::Mail(..) | Wish::Idle => Vec::new(),
        };
        let life = wish.by().and_then(|by| ledger.life_of(by));
        self.waits.insert(waiter, Wait { wish, life, lives, offer: None, is_foreground: false });
    }

    /// Somebody launched and waits for the group.
    pub fn called(&mut self, waiter: WaiterId, by: NodeId, group: GroupId, ledger: &Ledger) {
        self.asked(waiter, Wish::Group(by, group), ledger);
        if let Some(wait) = self.waits.get_mut(&waiter) {
            wait.is_foreground = true;
        }
    }

    /// The foreground calls that wait for a group and have no answer.
    pub fn calls(&self, group: &GroupId) -> impl Iterator<Item = WaiterId> {
        let is_call = move |wait: &Wait| {
            wait.is_foreground
                && wait.offer.is_none()
                && matches!(&wait.wish, Wish::Group(_, wanted) if wanted == group)
        };
        self.waits.iter().filter(move |(_, wait)| is_call(wait)).map(|(id, _)| *id)
    }

    /// What a promotion has to answer, by what was before it; `None` where it is to be refused.
    pub fn promotion(&self, promoted: &Promoted, ledger: &Ledger) -> Option<(GroupId, Promotion)> {
        let id = match promoted {
            Promoted::Group(id) => id,
            Promoted::Job(id) => &ledger.jobs.get(id)?.group,
        };
        let group = ledger.groups.get(id)?;
        let promotion = match self.calls(id).next() {
            _ if group.fired.is_some() || group.voided => Promotion::AlreadyDone,
            Some(_) => Promotion::Promoted,
            None => Promotion::NotWaiting,
        };
        Some((id.clone(), promotion))
    }

    /// A waiter left.
    pub fn left(&mut self, waiter: WaiterId) {
        self.mails.given_back(waiter);
        self.waits.remove(&waiter);
    }

    /// A waiter acknowledged what it holds.
    pub fn acknowledged(&mut self, waiter: WaiterId, ledger: &Ledger) {
        let Some(wait) = self.waits.remove(&waiter) else { return };
        match wait.offer {
            Some(Offer::Results(jobs)) => {
                let news = jobs.into_iter().filter(|job| !self.has(job)).collect::<Vec<_>>();
                self.by_wait.extend(news);
            }
            Some(Offer::Group(group)) => {
                let members = ledger.groups.get(&group).map(|group| group.lives.clone());
                let news = members.into_iter().flatten().filter(|job| !self.has(job)).collect::<Vec<_>>();
                self.by_wait.extend(news);
            }
            Some(Offer::Wake(_, jobs)) => {
                let news = jobs.into_iter().filter(|job| !self.void.contains(job)).collect::<Vec<_>>();
                self.by_wake.extend(news);
            }
            // What was void before is not taken by a late acknowledgement.
            Some(Offer::Words(key)) => {
                if ledger.posts.get(&key).is_none_or(|post| post.taken != Some(TakenBy::Void)) {
                    self.words.insert(key);
                }
            }
            Some(Offer::Mail) => self.mails.taken(waiter),
            Some(Offer::Known) | None => {}
        }
    }

    /// The parent is gone: what is owed to it is void.
    pub fn closed(&mut self, node: &NodeId, ledger: &Ledger) {
        let owed = ledger.groups.values().filter(|group| group.parent == *node && group.fired.is_some());
        let jobs: Vec<Lifetime> = owed.flat_map(|group| group.lives.iter().copied()).collect();
        let news = jobs.iter().filter(|job| !self.has(job)).copied().collect::<Vec<_>>();
        self.void_now.extend(news);
        self.void.extend(jobs);
    }

    /// A record that ends what a job can be owed.
    pub fn follow(&mut self, record: &Record, ledger: &Ledger) {
        let gone = match record {
            Record::JobStopping(body) => Some(&body.job),
            Record::JobEnded(body) => Some(&body.job),
            Record::RunEnded(body) if body.outcome != RunOutcome::Completed => job_of(ledger, body.run),
            _ => None,
        };
        if let Some(id) = gone {
            self.closed(&NodeId::Job(id.clone()), ledger);
        }
        if let Record::JobEnded(body) = record
            && let Some(job) = ledger.jobs.get(&body.job)
        {
            self.mails.over(job.lifetime);
        }
    }

    /// Once all answers of a step are given: a run that is over takes what it holds along.
    pub fn after(&mut self, record: &Record, ledger: &Ledger) {
        let Record::RunEnded(body) = record else { return };
        if let Some(id) = job_of(ledger, body.run) {
            let node = NodeId::Job(id.clone());
            let mails = &mut self.mails;
            self.waits.retain(|waiter, wait| {
                let stays = wait.offer.is_none() || wait.wish.by() != Some(&node);
                if !stays {
                    mails.given_back(*waiter);
                }
                stays
            });
        }
    }

    /// A crash: nobody waits any more, and what was acknowledged stays so.
    pub fn crashed(&mut self) {
        self.waits.clear();
        self.mails = Mails::default();
    }

    /// What the records say was taken is what the parent has, result by result.
    ///
    /// # Errors
    ///
    /// [`Broken`](crate::Broken) where they differ.
    pub fn compare(&self, ledger: &Ledger) -> Kept {
        for (key, post) in &ledger.posts {
            let taken = post.taken == Some(TakenBy::Inbox);
            ensure(taken == self.words.contains(key), "G6", || {
                format!("{key} ({post:?}) and its parent differ")
            })?;
        }
        for job in ledger.lives() {
            let group = ledger.groups.get(&job.group);
            let taken = job.taken || group.is_some_and(|group| group.taken.is_some());
            ensure(taken == self.has(&job.lifetime), "G6", || {
                format!("the records say that the result of {job:?} is taken: {taken}; the parent does not")
            })?;
        }
        for (id, group) in &ledger.groups {
            let closed = group.fired.is_some() && self.has_all(group);
            ensure(closed == group.taken.is_some(), "BAR-15", || {
                format!("all results of {id} are taken: {closed}; its message: {:?}", group.taken)
            })?;
        }
        Ok(())
    }
}

/// Whose run it is, where that is a job.
fn job_of(ledger: &Ledger, run: Fence) -> Option<&JobId> {
    match &ledger.runs.get(&run)?.node {
        NodeId::Job(id) => Some(id),
        NodeId::Session(_) => None,
    }
}
