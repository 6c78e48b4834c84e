//! Which answer may be given when, and that none comes late.

use fanin_machine::{Answer, Background, WaiterId};
use fanin_protocol::{CombinedResult, GroupId, JobId, Lifetime, MessageId, NodeId, ResultEntry, SessionId};

use super::{Offer, Parent, Wait};
use crate::broken::{Kept, ensure, some};
use crate::ledger::{GroupSeen, Ledger};
use crate::lending;
use crate::op::Wish;
use crate::world::World;

impl Parent {
    /// A waiter is answered.
    ///
    /// # Errors
    ///
    /// [`Broken`](crate::Broken) where the answer is not due, not true, or gives what another holds.
    pub fn answered(&mut self, waiter: WaiterId, answer: &Answer, ledger: &Ledger) -> Kept {
        let wait =
            some(self.waits.get(&waiter), "BAR-12", || format!("{waiter:?} has left and is answered"))?;
        ensure(wait.offer.is_none(), "BAR-10", || format!("{waiter:?} is answered twice"))?;
        let wait = wait.clone();
        let (wish, lives) = (wait.wish.clone(), wait.lives.clone());
        let offer = match (answer, &wish) {
            (Answer::Jobs { entries, already_delivered }, Wish::All(..) | Wish::Exact(..)) => {
                ensure(entries.len() == lives.len(), "BAR-10", || format!("{waiter:?} lacks results"))?;
                self.jobs(&wait, &lives, entries, *already_delivered, ledger)?
            }
            (Answer::Jobs { entries, already_delivered }, Wish::Any(..)) => {
                ensure(!entries.is_empty(), "BAR-10", || format!("{waiter:?} gets nothing"))?;
                self.jobs(&wait, &lives, entries, *already_delivered, ledger)?
            }
            (Answer::Group { result, already_delivered }, Wish::Group(_, group)) => {
                self.group(&wait, group, result, *already_delivered, ledger)?
            }
            (Answer::Words { key, .. }, Wish::Message(by)) => {
                let due = self.due_message(by, ledger);
                ensure(due == Some(Err(key)), "S-2", || format!("{key} is offered, due is {due:?}"))?;
                Offer::Words(key.clone())
            }
            (Answer::Hit(hit), Wish::Message(by) | Wish::Hit(by)) => {
                let due = match &wish {
                    Wish::Hit(_) => self.due_hit(by, ledger),
                    _ => self.due_message(by, ledger).and_then(Result::err),
                };
                let key = some(due, "SC-22", || format!("{hit} is offered and not due"))?;
                let own = ledger.posts.get(key).and_then(|post| post.hit);
                ensure(own == Some((hit.lifetime, hit.number)), "SC-22", || format!("{hit} is {own:?}"))?;
                Offer::Words(key.clone())
            }
            (Answer::Wake(result), Wish::Message(by)) => {
                let due = self.due_message(by, ledger);
                ensure(due == Some(Ok(&result.group)), "S-2", || {
                    format!("{} is offered, due is {due:?}", result.group)
                })?;
                self.wake(by, result, ledger)?
            }
            (Answer::Wake(result), Wish::Wake(by)) => self.wake(by, result, ledger)?,
            (Answer::Mail(mail), Wish::Mail(by, from, _)) => {
                self.mails.offered(waiter, (by, from.as_ref()), mail, ledger)?;
                Offer::Mail
            }
            (Answer::Voided, Wish::Group(_, group)) => {
                let voided = ledger.groups.get(group).is_some_and(|group| group.voided);
                ensure(voided, "BAR-9", || format!("{group} is said to be voided"))?;
                self.left(waiter);
                return Ok(());
            }
            (Answer::Promoted, Wish::Group(_, group)) => {
                let told = wait.is_foreground && self.promoted.as_ref() == Some(group);
                ensure(told, "SC-20", || format!("{waiter:?} is told that it is promoted"))?;
                self.left(waiter);
                return Ok(());
            }
            (Answer::Background(background), Wish::Background(_)) => {
                let due = self.background(&lives, ledger);
                ensure(due == Some(*background), "SC-20", || {
                    format!("{waiter:?} is told {background:?}, due is {due:?}")
                })?;
                self.left(waiter);
                return Ok(());
            }
            (Answer::Idle, Wish::Idle) => {
                ensure(ledger.running == 0, "SH", || "said to be idle while runs are open".into())?;
                self.left(waiter);
                return Ok(());
            }
            (Answer::Closed, wish) => {
                let run_over = wish.by().is_some_and(|by| match by {
                    NodeId::Job(id) => ledger.jobs.get(id).is_none_or(|job| job.run.is_none()),
                    NodeId::Session(_) => false,
                });
                let asks_for_more = matches!(
                    wish,
                    Wish::Wake(by) | Wish::Message(by) | Wish::Hit(by) | Wish::Mail(by, ..) if ledger.is_going(by)
                );
                let closed = run_over || asks_for_more;
                ensure(closed || !ledger.open, "SH", || format!("{waiter:?} is told that all is over"))?;
                self.left(waiter);
                return Ok(());
            }
            (answer, wish) => {
                return ensure(false, "BAR-10", || format!("{wish:?} is answered {answer:?}"));
            }
        };
        if let Some(wait) = self.waits.get_mut(&waiter) {
            wait.offer = Some(offer);
        }
        Ok(())
    }

    fn jobs(
        &self,
        wait: &Wait,
        asked: &[Lifetime],
        entries: &[ResultEntry],
        already: bool,
        ledger: &Ledger,
    ) -> Result<Offer, crate::Broken> {
        let mut rest = asked.iter();
        let mut news = Vec::new();
        let mut others = 0;
        for entry in entries {
            ensure(rest.any(|life| *life == entry.lifetime), "BAR-10", || format!("order of {}", entry.job))?;
            let job = some(ledger.life(entry.lifetime), "BAR-10", || format!("no job {}", entry.job))?;
            let true_to_it = job.ended.as_ref().is_some_and(|end| {
                (entry.status, entry.cause) == (end.status, end.cause) && entry.job == end.job
            });
            ensure(true_to_it, "BAR-10", || format!("{entry:?} of {job:?}"))?;
            let known = match self.has(&entry.lifetime) || self.wake_is_out(&job.group) {
                true if self.void_now.contains(&entry.lifetime) => entry.reference,
                known => known,
            };
            ensure(entry.reference == known, "BAR-15", || {
                format!("{} is marked as delivered: {}", entry.job, !known)
            })?;
            if !known {
                if ledger.groups.get(&job.group).is_some_and(|group| wait.is_parent_of(group)) {
                    news.push(entry.lifetime);
                } else {
                    others += 1;
                }
            }
        }
        ensure(already == (news.is_empty() && others == 0), "BAR-15", || {
            format!("already delivered: {already}, {news:?}")
        })?;
        Ok(if news.is_empty() { Offer::Known } else { Offer::Results(news) })
    }

    fn group(
        &self,
        wait: &Wait,
        id: &GroupId,
        result: &CombinedResult,
        already: bool,
        ledger: &Ledger,
    ) -> Result<Offer, crate::Broken> {
        let group = some(ledger.groups.get(id), "BAR-10", || format!("no group {id}"))?;
        ensure(group.fired.as_deref() == Some(result), "G5", || format!("{id} has another result"))?;
        let known = match self.has_all(group) || self.wake_is_out(id) {
            true if group.lives.iter().any(|member| self.void_now.contains(member)) => already,
            known => known,
        };
        ensure(already == known, "BAR-15", || format!("already delivered: {already}, but {known}"))?;
        // Another parent only looks on.
        Ok(if known || !wait.is_parent_of(group) { Offer::Known } else { Offer::Group(id.clone()) })
    }

    /// The one wake: nobody else has or holds what it gives in full, and what a wait gave is a reference.
    fn wake(&self, by: &NodeId, result: &CombinedResult, ledger: &Ledger) -> Result<Offer, crate::Broken> {
        let id = &result.group;
        let due = self.due(by, ledger);
        ensure(due == Some(id), "BAR-10", || format!("{id} is offered to {by}, due is {due:?}"))?;
        let group = some(ledger.groups.get(id), "G6", || format!("no group {id}"))?;
        let mut plain = result.clone();
        let mut full = Vec::new();
        let fired = some(group.fired.as_ref(), "G6", || format!("{id} has not fired"))?;
        for (entry, whole) in plain.entries.iter_mut().zip(&fired.entries) {
            let known = self.by_wait.contains(&entry.lifetime);
            ensure(entry.reference == known, "BAR-15", || {
                format!("{} is a reference: {}", entry.job, !known)
            })?;
            ensure(!self.by_wake.contains(&entry.lifetime), "G6", || {
                format!("a second wake for {}", entry.job)
            })?;
            if known {
                entry.reference = false;
                entry.output = whole.output.clone();
            } else {
                full.push(entry.lifetime);
            }
        }
        ensure(plain == **fired, "W-6", || format!("the payload of {id} has changed"))?;
        Ok(Offer::Wake(id.clone(), full))
    }

    /// The message that a taker of this parent must get now: the oldest that is owed and that no waiter covers or
    /// holds; none while the parent is busy (W-4).
    fn due<'a>(&self, by: &NodeId, ledger: &'a Ledger) -> Option<&'a GroupId> {
        let idle = ledger.is_idle(by);
        ledger
            .fired
            .iter()
            .filter(|_| idle)
            .filter_map(|id| ledger.groups.get(id).map(|group| (id, group)))
            .find(|(id, group)| {
                group.parent == *by && !self.has_all(group) && !self.wake_is_out(id) && !self.held(id, group)
            })
            .map(|(id, _)| id)
    }

    /// What a taker of any message must get now: a group's result, or the key of a user's words, whichever came first.
    fn due_message<'a>(
        &self,
        by: &'a NodeId,
        ledger: &'a Ledger,
    ) -> Option<Result<&'a GroupId, &'a MessageId>> {
        let group = self.due(by, ledger);
        let NodeId::Session(session) = by else { return group.map(Ok) };
        let held = |key: &MessageId| {
            self.waits.values().any(|wait| matches!(&wait.offer, Some(Offer::Words(held)) if held == key))
        };
        let words = ledger.owed_posts(session).find(|(_, key)| ledger.is_idle(by) && !held(key));
        match (group, words) {
            (Some(group), Some((place, _))) if ledger.fired_at[group] < place => Some(Ok(group)),
            (_, Some((_, key))) => Some(Err(key)),
            (group, None) => group.map(Ok),
        }
    }

    /// The oldest firing that a session is owed and nobody holds, outside of its turns.
    fn due_hit<'a>(&self, by: &'a NodeId, ledger: &'a Ledger) -> Option<&'a MessageId> {
        let NodeId::Session(session) = by else { return None };
        let held = |key: &MessageId| {
            self.waits.values().any(|wait| matches!(&wait.offer, Some(Offer::Words(held)) if held == key))
        };
        let is_hit = |key: &MessageId| ledger.posts.get(key).is_some_and(|post| post.hit.is_some());
        let owed = ledger.owed_posts(session).map(|(_, key)| key);
        owed.filter(|key| ledger.is_idle(by) && is_hit(key)).find(|key| !held(key))
    }

    /// What one who waits for these lives to be in the background must be told now.
    fn background(&self, lives: &[Lifetime], ledger: &Ledger) -> Option<Background> {
        let job = lives.iter().find_map(|life| ledger.life(*life))?;
        if job.ended.is_some() {
            return Some(Background::Over);
        }
        self.calls(&job.group).next().is_none().then_some(Background::Left)
    }

    /// True where a waiter holds a result of the group, or waits for all that the parent lacks of it.
    pub(crate) fn held(&self, id: &GroupId, group: &GroupSeen) -> bool {
        self.waits.values().any(|wait| match (&wait.offer, &wait.wish) {
            (Some(Offer::Results(jobs)), _) => jobs.iter().any(|job| group.lives.contains(job)),
            (Some(Offer::Group(held)), _) => held == id,
            (Some(Offer::Wake(..) | Offer::Words(_) | Offer::Mail | Offer::Known), _) => false,
            (None, Wish::All(..) | Wish::Exact(..)) => {
                wait.is_parent_of(group)
                    && group.lives.iter().all(|member| self.has(member) || wait.lives.contains(member))
            }
            (None, Wish::Group(_, wanted)) => wait.is_parent_of(group) && wanted == id,
            (
                None,
                Wish::Any(..)
                | Wish::Wake(_)
                | Wish::Message(_)
                | Wish::Hit(_)
                | Wish::Mail(..)
                | Wish::Background(_)
                | Wish::Idle,
            ) => false,
        })
    }

    /// Nobody waits for what is there already: every answer comes in the step that makes it true.
    ///
    /// # Errors
    ///
    /// [`Broken`](crate::Broken) where an answer is late.
    pub fn nothing_is_late(&self, world: &World) -> Kept {
        let ledger = &world.ledger;
        for (waiter, wait) in self.waits.iter().filter(|(_, wait)| wait.offer.is_none()) {
            let run = match wait.wish.by() {
                Some(NodeId::Job(id)) => Some((id, ledger.jobs.get(id).filter(|job| job.run.is_some()))),
                Some(NodeId::Session(_)) | None => None,
            };
            let is_dead = matches!(run, Some((_, None)));
            ensure(!is_dead, "P5", || format!("{waiter:?} of a run that is over waits for {wait:?}"))?;
            let may_wait = match run {
                Some((id, Some(job))) => self.is_held(id, &job.session, world),
                Some((_, None)) | None => false,
            };
            let late = self.is_due(wait, ledger) && !may_wait;
            ensure(!late, "BAR-10", || format!("{waiter:?} still waits for {wait:?}"))?;
        }
        Ok(())
    }

    /// True where what a wait wants is there.
    fn is_due(&self, wait: &Wait, ledger: &Ledger) -> bool {
        let over = |life: &Lifetime| ledger.life(*life).is_some_and(|job| job.ended.is_some());
        match &wait.wish {
            Wish::All(..) | Wish::Exact(..) => wait.lives.iter().all(over),
            Wish::Any(..) => wait.lives.iter().any(over),
            Wish::Group(_, id) => {
                ledger.groups.get(id).is_some_and(|group| group.fired.is_some() || group.voided)
            }
            Wish::Wake(by) | Wish::Message(by) | Wish::Hit(by) if ledger.may_be_spent(by) => {
                ledger.is_going(by)
            }
            Wish::Wake(by) => self.due(by, ledger).is_some() || ledger.is_going(by),
            Wish::Message(by) => self.due_message(by, ledger).is_some() || ledger.is_going(by),
            Wish::Hit(by) => self.due_hit(by, ledger).is_some() || ledger.is_going(by),
            Wish::Mail(by, from, _) => {
                self.mails.next((by, from.as_ref()), ledger).is_some() || ledger.is_going(by)
            }
            Wish::Background(_) => self.background(&wait.lives, ledger).is_some(),
            Wish::Idle => ledger.running == 0,
        }
    }

    /// SC-10: the answers of a run are held while it waits for nothing else and no slot is free for its tree.
    fn is_held(&self, id: &JobId, session: &SessionId, world: &World) -> bool {
        let own = |by: &NodeId| matches!(by, NodeId::Job(by) if by == id);
        let mut live =
            self.waits.values().filter(|wait| wait.offer.is_none() && wait.wish.by().is_some_and(own));
        live.all(|wait| self.is_due(wait, &world.ledger)) && !lending::is_free(world, session)
    }
}
