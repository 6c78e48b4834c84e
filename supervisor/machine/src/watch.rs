//! Watches: jobs that look for something and tell their parent each time they see it. One holds no slot, nobody waits for
//! its end, and it is bounded in its life and its firings (SC-22).

use std::sync::Arc;

use fanin_protocol::limits::{INBOX_MESSAGES_MAX, WATCH_TEXT_BYTES_MAX};
use fanin_protocol::record::{MessageClass, MessagePosted};
use fanin_protocol::{Hit, MessageId, Private, Spec};

use crate::command::{Launch, Refusal, Reply};
use crate::out::Out;
use crate::state::{Facts, GroupKey, Job, JobKey, Node, State};
use crate::tree;

impl Facts {
    /// The watch whose firing a record is.
    pub(crate) fn firing(&self, body: &MessagePosted) -> Result<JobKey, &'static str> {
        let id = body.from.as_ref().ok_or("nobody fired")?;
        let key = self.job_key(id).ok_or("its watch is not known")?;
        let job = self.jobs.get(key.index()).ok_or("its watch is not known")?;
        let fits = job.run.is_some() && job.limits.firings.is_some_and(|max| job.fired < max);
        let parent = self.parent(Node::Job(key)).and_then(|parent| self.node_id(parent));
        if fits && parent.as_ref() == Some(&body.to) { Ok(key) } else { Err("it cannot fire so") }
    }

    /// Counts a firing, and says how its parent is told of it.
    pub(crate) fn count_firing(&mut self, key: JobKey, text: &Arc<str>) -> Option<Hit> {
        let job = self.jobs.get_mut(key.index())?;
        job.fired += 1;
        Some(Hit {
            job: job.id.clone(),
            lifetime: job.lifetime,
            label: job.label.clone(),
            number: job.fired,
            text: Private::new(Arc::clone(text)),
        })
    }
}

/// Refuses a watch that is one of several, that others of its call need, or whose parent is a job: a job ends when its body
/// does, and nobody would be there to be told.
pub(crate) fn check(request: &Launch, parent: Node) -> Result<(), Refusal> {
    for (index, member) in request.members.iter().enumerate() {
        let problem = match (member.spec.as_deref(), member.limits.firings) {
            (None | Some(Spec::Command(_) | Spec::Agent(_)), None) => continue,
            (Some(Spec::Watch(_)), None) => "it does not say how often it may fire",
            (Some(Spec::Command(_) | Spec::Agent(_)), Some(_)) => {
                "only a closure can fire by itself; for others say what is looked at"
            }
            _ if request.members.len() > 1 => "it is a launch of its own; launch the others beside it",
            _ if matches!(parent, Node::Job(_)) => {
                "only a session has watches; a job can wait for what it wants to see"
            }
            (None | Some(Spec::Watch(_)), Some(_)) => continue,
        };
        return Err(Refusal::BadWatch { index, problem });
    }
    Ok(())
}

/// A watch has started: it gives back at once what every run counts for.
pub(crate) fn started(state: &mut State, key: JobKey) {
    if state.job(key).is_some_and(Job::is_watch) {
        state.memory.dirty.lends.push_back(key);
    }
}

/// A watch has seen what it looks for. A text that is too long, or that there is no room for, is refused and nothing is
/// counted: the watch has it and says it later.
pub(crate) fn fired(state: &mut State, node: Node, text: Arc<str>, out: &mut Out) -> Result<Reply, Refusal> {
    let (Node::Job(key), Some(parent)) = (node, state.facts.parent(node)) else { return Ok(Reply::Done) };
    let Some(job) = state.job(key) else { return Ok(Reply::Done) };
    let (id, lifetime, count) = (job.id.clone(), job.lifetime, job.fired);
    let max = job.limits.firings.ok_or_else(|| Refusal::NoWatch(id.clone()))?;
    if count >= max {
        return Err(Refusal::FiringsSpent { job: id, max });
    }
    tree::check_stays(state, node)?;
    if text.len() > WATCH_TEXT_BYTES_MAX {
        return Err(Refusal::TooLarge { index: None, bytes: text.len(), max: WATCH_TEXT_BYTES_MAX });
    }
    if state.facts.posts(parent).count() >= INBOX_MESSAGES_MAX {
        return Err(Refusal::InboxFull { max: INBOX_MESSAGES_MAX });
    }
    let Some(to) = state.facts.node_id(parent) else { return Ok(Reply::Done) };
    // A key is anybody's to give: one that somebody used for words of their own is passed over.
    let keys = (count + 1..).map(|number| MessageId::of_firing(lifetime, number));
    let Some(key) = keys.take(usize::from(u16::MAX)).find(|key| !state.facts.is_posted(key)) else {
        return Err(Refusal::InboxFull { max: INBOX_MESSAGES_MAX });
    };
    let (class, body) = (MessageClass::Watch, Private::new(text));
    out.record(state, MessagePosted { key, to, class, from: Some(id), body });
    state.memory.dirty.inboxes.push_back(parent);
    Ok(Reply::Fired { left: max - count - 1 })
}

/// True where the group is a watch.
pub(crate) fn is_of(state: &State, key: GroupKey) -> bool {
    let first = state.group(key).and_then(|group| group.members.first());
    first.and_then(|key| state.job(*key)).is_some_and(Job::is_watch)
}

/// Watches that are not over.
pub(crate) fn live(state: &State) -> Vec<JobKey> {
    let jobs = state.facts.jobs.iter().filter(|(_, job)| job.ended.is_none() && job.is_watch());
    jobs.map(|(key, _)| JobKey(key)).collect()
}
