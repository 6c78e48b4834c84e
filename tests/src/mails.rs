//! Mail between members of a group as an outsider sees it (T-5 to T-11): boxes are plain lists, and what a send or a
//! receive has to be answered follows from them and from the records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fanin_machine::{Mail, Out, Reply, WaiterId};
use fanin_protocol::limits::{MAIL_BYTES_MAX, MAIL_INBOX_MAX};
use fanin_protocol::{Directions, JobId, Lifetime, NodeId};

use crate::broken::{Kept, ensure};
use crate::ledger::{JobSeen, Ledger};
use crate::lending;
use crate::op::{Op, Wish};
use crate::world::World;

/// The mail of all groups.
#[derive(Debug, Clone, Default)]
pub struct Mails {
    /// What waits for each member, in the life it has, as it came.
    boxes: BTreeMap<Lifetime, Vec<Letter>>,
    /// How many each has sent.
    sent: BTreeMap<Lifetime, u32>,
    /// Members of an older epoch that were told that their mail is gone.
    told: BTreeSet<Lifetime>,
}

#[derive(Debug, Clone)]
struct Letter {
    from: JobId,
    text: Arc<str>,
    /// Who holds it and has not acknowledged it.
    held: Option<WaiterId>,
}

/// Whose mail is wanted, and from whom alone.
type Wanted<'a> = (&'a NodeId, Option<&'a JobId>);

impl Mails {
    /// A mail was taken in.
    pub(crate) fn sent(&mut self, from: &JobId, to: &JobId, text: Arc<str>, ledger: &Ledger) {
        let (sender, target) = (ledger.job(from).lifetime, ledger.job(to).lifetime);
        *self.sent.entry(sender).or_default() += 1;
        self.boxes.entry(target).or_default().push(Letter { from: from.clone(), text, held: None });
    }

    /// The first mail that nobody holds, of those that are wanted.
    pub(crate) fn next(&self, wanted: Wanted<'_>, ledger: &Ledger) -> Option<(&JobId, &str)> {
        let life = ledger.life_of(wanted.0)?;
        let letter = self.boxes.get(&life)?.iter().find(|letter| letter.is_free(wanted.1))?;
        Some((&letter.from, &*letter.text))
    }

    /// A waiter is given a mail, which is the one that is due to it (T-7), from whom it is (T-9).
    pub(crate) fn offered(
        &mut self,
        waiter: WaiterId,
        wanted: Wanted<'_>,
        mail: &Mail,
        ledger: &Ledger,
    ) -> Kept {
        let due = self.next(wanted, ledger);
        ensure(due == Some((&mail.from, &*mail.text)), "T-7", || {
            format!("{waiter:?} is given `{}` of {}, and due is {due:?}", mail.text, mail.from)
        })?;
        let box_of = ledger.life_of(wanted.0).and_then(|life| self.boxes.get_mut(&life));
        let mut letters = box_of.into_iter().flatten();
        if let Some(letter) = letters.find(|letter| letter.is_free(wanted.1)) {
            letter.held = Some(waiter);
        }
        Ok(())
    }

    /// Who held a mail has it.
    pub(crate) fn taken(&mut self, waiter: WaiterId) {
        self.boxes.values_mut().for_each(|letters| letters.retain(|letter| letter.held != Some(waiter)));
    }

    /// Who may hold a mail has left: it stays where it was.
    pub(crate) fn given_back(&mut self, waiter: WaiterId) {
        let held = self.boxes.values_mut().flatten().filter(|letter| letter.held == Some(waiter));
        held.for_each(|letter| letter.held = None);
    }

    /// A member is over, and what waits for it is gone.
    pub(crate) fn over(&mut self, life: Lifetime) {
        self.boxes.remove(&life);
        self.sent.remove(&life);
        self.told.remove(&life);
    }

    /// A member was told that its mail is gone.
    pub(crate) fn was_told(&mut self, life: Lifetime) {
        self.told.insert(life);
    }

    fn has_of(&self, life: Lifetime, from: &JobId) -> bool {
        self.boxes.get(&life).is_some_and(|letters| letters.iter().any(|letter| letter.from == *from))
    }
}

impl Letter {
    fn is_free(&self, from: Option<&JobId>) -> bool {
        self.held.is_none() && from.is_none_or(|from| self.from == *from)
    }
}

/// What a send or a receive has to be answered: whether mail is there for it, or the code of its refusal. `None` where
/// nobody is there who could say it, or it is about no mail.
pub fn due(world: &World, op: &Op) -> Option<Result<bool, &'static str>> {
    let (by, other) = match op {
        Op::Send(from, to, _) => (from, Some(to)),
        Op::Wait(_, Wish::Mail(NodeId::Job(by), from, _)) => (by, from.as_ref()),
        _ => return None,
    };
    let run = world.host.runs.get(by)?;
    let ledger = &world.ledger;
    if !world.opened || !ledger.open {
        return Some(Err("not_open"));
    }
    if let Op::Wait(waiter, _) = op
        && world.parent.waits.contains_key(waiter)
    {
        return Some(Err("duplicate_waiter"));
    }
    if !ledger.is_open(run.fence) {
        return Some(Err("run_over"));
    }
    let group = ledger.groups.get(&ledger.job(by).group)?;
    if group.edges.is_empty() {
        return Some(Err("no_team"));
    }
    if ledger.is_going_down(&NodeId::Job(by.clone())) {
        return Some(Err("closed"));
    }
    Some(match op {
        Op::Send(_, to, text) => send(world, (by, to), text).map(|()| false),
        _ => receive(world, by, other),
    })
}

fn send(world: &World, (from, to): (&JobId, &JobId), text: &str) -> Result<(), &'static str> {
    let Mails { boxes, sent, .. } = &world.parent.mails;
    let ledger = &world.ledger;
    if text.len() > MAIL_BYTES_MAX {
        return Err("too_large");
    }
    way(ledger, (from, from), to)?;
    let (sender, target) = (ledger.job(from), ledger.job(to));
    if is_over(target) {
        return Err("target_finished");
    }
    if sent.get(&sender.lifetime).is_some_and(|sent| *sent >= world.sends()) || world.sends() == 0 {
        return Err("sends_spent");
    }
    if boxes.get(&target.lifetime).is_some_and(|letters| letters.len() >= MAIL_INBOX_MAX) {
        return Err("mailbox_full");
    }
    Ok(())
}

fn receive(world: &World, by: &JobId, from: Option<&JobId>) -> Result<bool, &'static str> {
    let (ledger, mails) = (&world.ledger, &world.parent.mails);
    let life = ledger.job(by).lifetime;
    if life.0 < ledger.epoch && !mails.told.contains(&life) {
        return Err("mailbox_reset");
    }
    if let Some(from) = from {
        way(ledger, (by, from), by)?;
        if is_over(ledger.job(from)) && !mails.has_of(life, from) {
            return Err("target_finished");
        }
    }
    Ok(mails.next((&NodeId::Job(by.clone()), from), ledger).is_some())
}

/// Refuses a way that mail does not go. The first of the two is who asks, the other who would send.
fn way(ledger: &Ledger, (by, from): (&JobId, &JobId), to: &JobId) -> Result<(), &'static str> {
    let own = ledger.job(by);
    let group = ledger.groups.get(&own.group).ok_or("no_team")?;
    let place = |id: &JobId| {
        let life = ledger.jobs.get(id)?.lifetime;
        group.lives.iter().position(|known| *known == life).map(|place| place as u32)
    };
    let (Some(sender), Some(target)) = (place(from), place(to)) else { return Err("unknown_target") };
    let directions = Directions::of(&group.edges, group.lives.len());
    if from == to {
        Err("self_target")
    } else if directions.allow(sender, target) {
        Ok(())
    } else {
        Err("not_allowed")
    }
}

/// True where no run of it will receive any more.
const fn is_over(job: &JobSeen) -> bool {
    let is_joining = job.run.is_none() && job.runs > 0 && job.retry_at_ms.is_none();
    job.ended.is_some() || job.stop.is_some() || is_joining
}

/// A send or a receive is answered as it has to be.
///
/// # Errors
///
/// [`Broken`](crate::Broken) where it is not.
pub fn is_due(due: Option<Result<bool, &'static str>>, world: &World, op: &Op, out: &Out) -> Kept {
    let Some(due) = due else { return Ok(()) };
    let told = match &out.reply {
        Some(Reply::Refused(refusal)) => Err(refusal.code()),
        Some(Reply::Answered) => Ok(true),
        _ => Ok(false),
    };
    // One whose answer is held for its slot is answered later (SC-10).
    let may_be_held = |by: &NodeId| {
        let NodeId::Job(id) = by else { return false };
        world.ledger.jobs.get(id).is_some_and(|job| !lending::is_free(world, &job.session))
    };
    let is_held = matches!(op, Op::Wait(_, Wish::Mail(by, ..)) if may_be_held(by));
    ensure(told == due || is_held && due == Ok(true) && told == Ok(false), "T-8", || {
        format!("`{op}` is answered {told:?}, due is {due:?}")
    })
}
