//! Messages that somebody posts: a user's words to a session's inbox, and follow-ups to the run of a job (S-2, J-24).
//! None is dropped without a record: it is taken, or void and shown.

use fanin_protocol::limits::{INBOX_MESSAGES_MAX, MESSAGE_KEYS_MAX, PROMPT_BYTES_MAX};
use fanin_protocol::record::{MessageClass, MessagePosted, MessageTaken, TakenBy};
use fanin_protocol::{JobId, MessageId, NodeId, Private, RowKind, Seq};

use crate::command::{NotAccepted, PostTarget, Posting, Refusal, Reply, RunNode, RunRef};
use crate::effect::Effect;
use crate::fold::{Applied, distinct};
use crate::out::Out;
use crate::state::{Closing, Facts, JobKey, Node, Posted, State};
use crate::{autonomy, run, session, tree, view};

type Place = (Node, Seq);

impl Facts {
    pub(crate) fn message_posted(&mut self, seq: Seq, body: &MessagePosted) -> Applied {
        let watch = match body.class {
            MessageClass::Watch => Some(self.firing(body)?),
            MessageClass::User | MessageClass::FollowUp => None,
        };
        let (node, fits) = match &body.to {
            NodeId::Session(id) => {
                let key = self.session_key(id).ok_or("its session is not known")?;
                (Node::Session(key), body.class == MessageClass::User)
            }
            NodeId::Job(id) => {
                let key = self.job_key(id).ok_or("its job is not known")?;
                let runs = self.jobs.get(key.index()).is_some_and(|job| job.run.is_some());
                (Node::Job(key), body.class == MessageClass::FollowUp && runs)
            }
        };
        if watch.is_none() && !fits || self.is_going(node) {
            return Err("it cannot be taken there");
        }
        if self.message_keys.places.contains_key(&body.key) {
            return Err("the message is known");
        }
        let text = body.body.reveal().ok_or("it has no text")?;
        let hit = watch.and_then(|watch| self.count_firing(watch, text)).map(Box::new);
        self.posted.insert((node, seq), Posted { key: body.key.clone(), text: text.clone(), hit });
        self.message_keys.places.insert(body.key.clone(), (node, seq));
        self.message_keys.order.push_back(body.key.clone());
        self.forget_keys();
        Ok(self.about(watch.map_or(node, Node::Job)))
    }

    /// Forgets the oldest keys where there are too many; one whose message is owed is kept.
    fn forget_keys(&mut self) {
        while self.message_keys.order.len() > MESSAGE_KEYS_MAX
            && let Some(oldest) = self.message_keys.order.front().cloned()
            && self.message_keys.places.get(&oldest).is_none_or(|place| !self.posted.contains_key(place))
        {
            if let Some((_, seq)) = self.message_keys.places.get(&oldest).copied() {
                self.retire_row(RowKind::Message, seq.0);
            }
            self.message_keys.places.remove(&oldest);
            self.message_keys.order.pop_front();
        }
    }

    pub(crate) fn owed_posts(&self, keys: &[MessageId]) -> Result<Vec<Place>, &'static str> {
        let owed = |key: &MessageId| {
            let place = self.message_keys.places.get(key).copied();
            place.filter(|place| self.posted.contains_key(place))
        };
        distinct(keys.iter().map(owed)).ok_or("the message is not owed")
    }

    pub(crate) fn take_posts(&mut self, places: Vec<Place>, by: TakenBy) {
        for place in places {
            self.posted.remove(&place);
            if let (Node::Job(key), TakenBy::Void) = (place.0, by)
                && let Some(job) = self.jobs.get_mut(key.index())
            {
                job.unanswered += 1;
            }
        }
    }

    /// True where a message of this key is known.
    pub(crate) fn is_posted(&self, key: &MessageId) -> bool {
        self.message_keys.places.contains_key(key)
    }

    /// What is posted to a node and not taken, oldest first.
    pub(crate) fn posts(&self, node: Node) -> impl Iterator<Item = (Place, &Posted)> {
        self.posted.range((node, Seq(0))..=(node, Seq(u64::MAX))).map(|(place, posted)| (*place, posted))
    }
}

/// Posts a message, or finds it posted.
pub(crate) fn post(state: &mut State, post: Posting, out: &mut Out) -> Result<Reply, Refusal> {
    if state.facts.message_keys.places.contains_key(&post.key) {
        return Ok(Reply::Posted { created: false });
    }
    if post.text.len() > PROMPT_BYTES_MAX {
        return Err(Refusal::TooLarge { index: None, bytes: post.text.len(), max: PROMPT_BYTES_MAX });
    }
    if state.memory.closing == Closing::Stopping {
        return Err(Refusal::Draining);
    }
    let (node, to) = match &post.to {
        PostTarget::Session(id) => (Node::Session(session::find(state, id)?), NodeId::Session(id.clone())),
        PostTarget::Job(id) => {
            let key = state.facts.job_key(id).ok_or_else(|| state.no_job(id))?;
            accept(state, key, id)?;
            (Node::Job(key), NodeId::Job(id.clone()))
        }
        PostTarget::Exact(id, lifetime) => {
            let key = view::exact(state, id, *lifetime)?;
            accept(state, key, id)?;
            (Node::Job(key), NodeId::Job(id.clone()))
        }
    };
    if state.facts.posts(node).count() >= INBOX_MESSAGES_MAX {
        return Err(Refusal::InboxFull { max: INBOX_MESSAGES_MAX });
    }
    let class = match node {
        Node::Session(_) => MessageClass::User,
        Node::Job(_) => MessageClass::FollowUp,
    };
    let Posting { key, text, .. } = post;
    let body = Private::new(text.clone());
    out.record(state, MessagePosted { key: key.clone(), to, class, from: None, body });
    match node {
        Node::Session(key) => {
            autonomy::forget(state, key);
            autonomy::look(state, key);
            state.memory.dirty.inboxes.push_back(node);
        }
        Node::Job(job) => {
            if let Some(fence) = run::open_fence(state, node) {
                let run = RunRef { node: RunNode::Job(job), fence };
                out.effect(Effect::Deliver { run, tag: state.tag(job), key, text });
            }
        }
    }
    Ok(Reply::Posted { created: true })
}

/// Whether a follow-up can still be answered (J-24).
fn accept(state: &State, key: JobKey, id: &JobId) -> Result<(), Refusal> {
    let Some(job) = state.job(key) else { return Err(state.no_job(id)) };
    let why = match &job.run {
        _ if job.ended.is_some() => NotAccepted::Over,
        _ if tree::check_stays(state, Node::Job(key)).is_err() => NotAccepted::Stopping,
        None if job.last.is_some() => NotAccepted::Over,
        None => NotAccepted::NotStarted,
        Some(run) if state.memory.listening.contains(&run.fence) => return Ok(()),
        Some(_) => NotAccepted::NotListening,
    };
    Err(Refusal::NotAccepted { job: id.clone(), why })
}

/// A run takes follow-ups from now on.
pub(crate) fn listen(state: &mut State, run: RunRef) {
    state.memory.listening.insert(run.fence);
}

/// A run takes no more follow-ups, where none is left: refused, it has to take that one first.
pub(crate) fn silence(state: &mut State, run: RunRef) -> Result<Reply, Refusal> {
    let left = state.facts.posts(tree::node_of(run.node)).count();
    if left > 0 {
        return Err(Refusal::MessagesLeft(left));
    }
    state.memory.listening.remove(&run.fence);
    Ok(Reply::Done)
}

/// A run has taken a follow-up.
pub(crate) fn took(state: &mut State, run: RunRef, key: MessageId, out: &mut Out) {
    let node = tree::node_of(run.node);
    if state.facts.posts(node).any(|(_, posted)| posted.key == key) {
        out.record(state, taken(vec![key], TakenBy::Run));
    }
}

/// The run of a job is over: follow-ups that it has not taken are void. Says how many those are.
pub(crate) fn run_over(state: &mut State, key: JobKey, out: &mut Out) -> usize {
    if let Some(fence) = run::open_fence(state, Node::Job(key)) {
        state.memory.listening.remove(&fence);
    }
    let left = keys(state, Node::Job(key));
    let count = left.len();
    if count > 0 {
        out.record(state, taken(left, TakenBy::Void));
    }
    count
}

/// Keys of what is posted to a node and not taken.
pub(crate) fn keys(state: &State, node: Node) -> Vec<MessageId> {
    state.facts.posts(node).map(|(_, posted)| posted.key.clone()).collect()
}

const fn taken(messages: Vec<MessageId>, by: TakenBy) -> MessageTaken {
    MessageTaken { keys: Vec::new(), results: Vec::new(), messages, by }
}
