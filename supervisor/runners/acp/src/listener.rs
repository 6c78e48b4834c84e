//! What an agent tells while it works: tool calls become parts, its last message the output, and its questions are
//! answered by the rights of the job. It never waits, so that a flood is taken in as fast as it comes.

use std::collections::HashMap;
use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, PermissionOption, PermissionOptionKind, RequestPermissionOutcome,
    RequestPermissionRequest, SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate,
    ToolCall, ToolCallStatus, ToolCallUpdate, ToolKind, UsageUpdate,
};
use fanin_protocol::limits::{OUTPUT_BYTES_MAX, PARTS_PER_RUN_MAX, PROGRESS_BYTES_MAX, USAGE_EVERY};
use fanin_protocol::{Rights, text};
use fanin_supervisor::{HeadTail, JobOutput, ToolCall as Part, Used, Voice};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::life::Life;

/// The name of the meter in records of usage.
const METER: &str = "acp";

/// One conversation, as what its agent tells is kept of the run that is open: of a job's only one, or of each turn.
pub(crate) struct Listener {
    life: Life,
    rights: Rights,
    output_max: u64,
    /// Tools of ours that the agent may always call, by the names that agents give them.
    ours: Vec<String>,
    /// What it uses is told at once: nothing stops it before.
    is_budgeted: bool,
    heard: Mutex<Heard>,
}

/// What was heard.
#[derive(Default)]
struct Heard {
    /// Says things of the run that is open. Between two turns there is none, and nothing is kept.
    voice: Option<Voice>,
    /// Our session. What is said of another one is not for us.
    session: Option<SessionId>,
    /// Calls of an earlier life of the session that have no end, while the agent tells of that life.
    replayed: Option<HashMap<Arc<str>, Arc<str>>>,
    /// The last message.
    message: Option<HeadTail>,
    /// The id of the last message, where the agent gives any.
    message_id: Option<String>,
    /// Something else came since, so that the next words begin a message.
    is_cut: bool,
    calls: HashMap<Arc<str>, Call>,
    /// It has said or done something in this run.
    is_heard: bool,
    questions: u64,
    denied: Option<Rights>,
    used: Option<Used>,
    /// What the session has cost when this run began, and by now: an agent tells the sum of its session, and a run is
    /// charged for its own share of that.
    cost_before: u64,
    cost_now: u64,
    /// Calls of its model, as far as they can be told from outside.
    steps: u64,
    /// Its model has been called and what it says is coming.
    is_in_step: bool,
    /// When the last record of usage was made.
    told_at: Option<Instant>,
    /// There is something to tell since.
    is_untold: bool,
}

/// A tool call; without a part it is over.
struct Call {
    part: Option<Part>,
    kind: ToolKind,
    /// It is a call of a tool of ours.
    is_ours: bool,
}

/// What a run of an agent came to.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// The last message, where there was one.
    pub(crate) output: Option<JobOutput>,
    /// There was any output, tool call or usage (J-23).
    pub(crate) is_any: bool,
    /// The last thing that it asked for and was denied: what that needs.
    pub(crate) denied: Option<Rights>,
}

impl Listener {
    pub(crate) fn new(life: Life, rights: Rights, output_max: Option<u64>) -> Self {
        let output_max = output_max.unwrap_or(OUTPUT_BYTES_MAX);
        let voice = match &life {
            Life::Run(context) => Some(context.voice()),
            Life::Parent { .. } => None,
        };
        let is_budgeted = life.is_budgeted();
        let heard = Mutex::new(Heard { voice, ..Heard::default() });
        Self { life, rights, output_max, is_budgeted, ours: Vec::new(), heard }
    }

    /// With tools of ours, by all names that agents give them.
    pub(crate) fn with_tools(mut self, ours: Vec<String>) -> Self {
        self.ours = ours;
        self
    }

    pub(crate) const fn life(&self) -> &Life {
        &self.life
    }

    /// What the agent may do.
    pub(crate) const fn rights(&self) -> Rights {
        self.rights
    }

    /// A turn begins: what is heard from now on is of it.
    pub(crate) fn begin(&self, voice: Voice) {
        self.life.beat();
        let mut heard = self.heard.lock();
        let (session, cost_now) = (heard.session.take(), heard.cost_now);
        *heard = Heard { voice: Some(voice), session, cost_before: cost_now, cost_now, ..Heard::default() };
    }

    /// Says something of the run that is open.
    pub(crate) fn voice(&self) -> Option<Voice> {
        self.heard.lock().voice.clone()
    }

    /// Another prompt follows in the same run: what is said to it is another message.
    pub(crate) fn ask_again(&self) {
        self.heard.lock().is_cut = true;
    }

    /// From now on it hears of this session.
    pub(crate) fn follow(&self, session: SessionId) {
        self.heard.lock().session = Some(session);
    }

    /// True once it hears of a session: from then on a prompt may have been sent.
    pub(crate) fn is_following(&self) -> bool {
        self.heard.lock().session.is_some()
    }

    /// What is heard from now on is of an earlier life of this session, until [`Listener::replayed`].
    pub(crate) fn replay(&self, session: SessionId) {
        let mut heard = self.heard.lock();
        (heard.session, heard.replayed) = (Some(session), Some(HashMap::new()));
    }

    /// The earlier life was told. Calls of it that have no end become parts of the run that is open, whose end closes them
    /// as interrupted.
    pub(crate) fn replayed(&self) {
        let mut heard = self.heard.lock();
        let open = heard.replayed.take().unwrap_or_default();
        if let Some(voice) = &heard.voice {
            open.into_iter().for_each(|(call, name)| voice.tool(call, name).leave());
        }
    }

    /// The earlier life cannot be told: nothing of it counts.
    pub(crate) fn forget_replay(&self) {
        let mut heard = self.heard.lock();
        (heard.session, heard.replayed) = (None, None);
    }

    /// The run is over: what came of it. What is open stays open: the end of the run closes it.
    pub(crate) fn finish(&self) -> Said {
        let mut heard = self.heard.lock();
        let is_any = heard.is_heard;
        for (_, call) in heard.calls.drain() {
            if let Some(part) = call.part {
                part.leave();
            }
        }
        self.tell_usage(&mut heard, true);
        heard.voice = None;
        let denied = heard.denied.take();
        Said { output: heard.message.take().map(HeadTail::finish), is_any, denied }
    }

    /// Takes in an update.
    pub(crate) fn update(&self, told: SessionNotification) {
        let mut heard = self.heard.lock();
        if heard.session.as_ref() != Some(&told.session_id) {
            return;
        }
        if heard.replayed.is_some()
            && let SessionUpdate::UsageUpdate(usage) = &told.update
        {
            // What it cost in its earlier life was charged then.
            heard.cost_now = cost_of(usage).unwrap_or(heard.cost_now);
            heard.cost_before = heard.cost_now;
        }
        if let Some(open) = &mut heard.replayed {
            self.life.beat();
            return replay(open, told.update);
        }
        // What comes between two turns belongs to none, and nobody reads it.
        let Some(voice) = heard.voice.clone() else { return };
        match told.update {
            SessionUpdate::AgentMessageChunk(chunk) => {
                self.step(&mut heard);
                self.words(&mut heard, &chunk);
            }
            SessionUpdate::AgentThoughtChunk(_) | SessionUpdate::Plan(_) => {
                self.step(&mut heard);
                heard.is_cut = true;
                self.life.beat();
            }
            SessionUpdate::ToolCall(call) => self.call(&mut heard, &voice, call),
            SessionUpdate::ToolCallUpdate(update) => self.call_moved(&mut heard, &voice, update),
            SessionUpdate::UsageUpdate(usage) => self.usage(&mut heard, &usage),
            // Commands, modes and titles are no work; of what a newer protocol adds nothing is known.
            _ => {}
        }
    }

    /// Something comes of the model: after the prompt, or after the result of a call, it was called for that. The protocol
    /// tells of no calls of models, so this is the least there can have been.
    fn step(&self, heard: &mut Heard) {
        if heard.is_in_step {
            return;
        }
        heard.is_in_step = true;
        heard.steps += 1;
        if self.is_budgeted {
            let used =
                heard.used.take().unwrap_or_else(|| Used { source: METER.to_owned(), ..Used::default() });
            heard.used = Some(Used { steps: Some(heard.steps), ..used });
            heard.is_untold = true;
            self.tell_usage(heard, false);
        }
    }

    fn words(&self, heard: &mut Heard, chunk: &ContentChunk) {
        let id = chunk.message_id.as_ref().map(ToString::to_string);
        let is_new = heard.is_cut || id.is_some() && id != heard.message_id;
        heard.message_id = id;
        let words = match &chunk.content {
            ContentBlock::Text(text) => text.text.as_str(),
            ContentBlock::ResourceLink(link) => link.uri.as_str(),
            ContentBlock::Image(_) => "[image]",
            ContentBlock::Audio(_) => "[audio]",
            _ => "[content]",
        };
        if words.is_empty() {
            return;
        }
        if is_new {
            heard.message = None;
        }
        heard.is_cut = false;
        heard.is_heard = true;
        let message = heard.message.get_or_insert_with(|| HeadTail::new(self.output_max));
        message.push(words.as_bytes());
        match words.lines().rfind(|line| !line.trim().is_empty()) {
            Some(line) => self.life.progress(text::cut(line, PROGRESS_BYTES_MAX)),
            None => self.life.beat(),
        }
    }

    fn call(&self, heard: &mut Heard, voice: &Voice, call: ToolCall) {
        heard.is_cut = true;
        heard.is_heard = true;
        let ToolCall { tool_call_id, title, name, kind, status, raw_input, .. } = call;
        let id: Arc<str> = tool_call_id.0;
        if !heard.calls.contains_key(&id) {
            if heard.calls.len() >= PARTS_PER_RUN_MAX {
                return;
            }
            self.step(heard);
            let is_ours = self.is_ours(name.as_deref(), Some(&title));
            let part = announce(voice, &id, name, kind, raw_input.as_ref());
            heard.calls.insert(Arc::clone(&id), Call { part: Some(part), kind, is_ours });
        }
        self.moved(heard, &id, (Some(kind), Some(status)), Some(&title));
    }

    fn call_moved(&self, heard: &mut Heard, voice: &Voice, update: ToolCallUpdate) {
        heard.is_cut = true;
        heard.is_heard = true;
        let id: Arc<str> = update.tool_call_id.0;
        let fields = update.fields;
        if !heard.calls.contains_key(&id) {
            if heard.calls.len() >= PARTS_PER_RUN_MAX {
                return;
            }
            // Nothing announced it: it is one all the same.
            self.step(heard);
            let kind = fields.kind.unwrap_or_default();
            let is_ours = self.is_ours(fields.name.as_deref(), fields.title.as_deref());
            let part = announce(voice, &id, fields.name, kind, fields.raw_input.as_ref());
            heard.calls.insert(Arc::clone(&id), Call { part: Some(part), kind, is_ours });
        }
        self.moved(heard, &id, (fields.kind, fields.status), fields.title.as_deref());
    }

    /// True where a call is one of a tool of ours, by the whole of its name or title.
    fn is_ours(&self, name: Option<&str>, title: Option<&str>) -> bool {
        [name, title].into_iter().flatten().any(|word| self.ours.iter().any(|ours| ours == word))
    }

    fn moved(
        &self,
        heard: &mut Heard,
        id: &Arc<str>,
        (kind, status): (Option<ToolKind>, Option<ToolCallStatus>),
        title: Option<&str>,
    ) {
        if let Some(title) = title.filter(|title| !title.trim().is_empty()) {
            self.life.progress(text::cut(title, PROGRESS_BYTES_MAX));
        } else {
            self.life.beat();
        }
        let Some(call) = heard.calls.get_mut(id) else { return };
        call.kind = kind.unwrap_or(call.kind);
        if matches!(status, Some(ToolCallStatus::Completed | ToolCallStatus::Failed)) {
            heard.is_in_step = false;
        }
        match status {
            Some(ToolCallStatus::InProgress) => {
                if let Some(part) = &call.part {
                    part.begin();
                }
            }
            Some(ToolCallStatus::Completed) => {
                if let Some(part) = call.part.take() {
                    part.complete();
                }
            }
            Some(ToolCallStatus::Failed) => {
                if let Some(part) = call.part.take() {
                    part.fail();
                }
            }
            // Announced, or a word that is not known yet: it stays where it is.
            Some(_) | None => {}
        }
    }

    fn usage(&self, heard: &mut Heard, usage: &UsageUpdate) {
        self.life.beat();
        // The tokens that it tells of are those in its context now, and no sum.
        let cost = cost_of(usage);
        heard.cost_now = cost.unwrap_or(0).max(heard.cost_now);
        let cost_usd_micros = cost.map(|cost| cost.saturating_sub(heard.cost_before));
        let steps = Some(heard.steps).filter(|steps| *steps > 0);
        let used = Used { source: METER.to_owned(), cost_usd_micros, steps, ..Used::default() };
        if usage.used == 0 && cost_usd_micros.unwrap_or(0) == 0 || heard.used.as_ref() == Some(&used) {
            return;
        }
        heard.used = Some(used);
        heard.is_heard = true;
        heard.is_untold = true;
        self.tell_usage(heard, false);
    }

    fn tell_usage(&self, heard: &mut Heard, is_last: bool) {
        let is_due =
            is_last || self.is_budgeted || heard.told_at.is_none_or(|at| at.elapsed() >= USAGE_EVERY);
        if let Some(used) = heard.used.clone().filter(|_| heard.is_untold && is_due) {
            heard.is_untold = false;
            heard.told_at = Some(Instant::now());
            if let Some(voice) = &heard.voice {
                voice.used(used);
            }
        }
    }

    /// Answers a question for permission: by the rights of the job, and by the kind of each answer, never by its place.
    pub(crate) fn answer(&self, asked: &RequestPermissionRequest) -> RequestPermissionOutcome {
        let mut heard = self.heard.lock();
        let Some(voice) = heard.voice.clone() else { return RequestPermissionOutcome::Cancelled };
        if heard.session.as_ref() != Some(&asked.session_id) || self.life.is_cancelled() {
            return RequestPermissionOutcome::Cancelled;
        }
        let fields = &asked.tool_call.fields;
        let known = heard.calls.get(&asked.tool_call.tool_call_id.0);
        let is_ours = known.is_some_and(|call| call.is_ours)
            || self.is_ours(fields.name.as_deref(), fields.title.as_deref());
        // Of two words about the same call the one that asks for more counts.
        let kinds = [known.map(|call| call.kind), fields.kind].into_iter().flatten();
        let mut needed = kinds.clone().map(needs).max().unwrap_or(Rights::Full);
        // What is launched through them is held to the same rights, at use.
        if is_ours && kinds.clone().all(|kind| kind == ToolKind::Other) {
            needed = Rights::ReadOnly;
        }
        let may = needed <= self.rights;
        heard.questions += 1;
        let number = heard.questions;
        // Nobody was asked, so nobody has denied it (14.9).
        let word = if may { "allowed_by_rights" } else { "denied_no_human" };
        let question = voice.question(format!("permission-{number}"), format!("{needed}: {word}"));
        if may {
            question.complete();
        } else {
            heard.denied = Some(needed);
            question.fail();
        }
        choose(&asked.options, may)
    }
}

/// Notes which calls of an earlier life have no end.
fn replay(open: &mut HashMap<Arc<str>, Arc<str>>, update: SessionUpdate) {
    let (id, name, kind, status) = match update {
        SessionUpdate::ToolCall(call) => (call.tool_call_id.0, call.name, call.kind, Some(call.status)),
        SessionUpdate::ToolCallUpdate(update) => {
            let fields = update.fields;
            (update.tool_call_id.0, fields.name, fields.kind.unwrap_or_default(), fields.status)
        }
        _ => return,
    };
    if let Some(ToolCallStatus::Completed | ToolCallStatus::Failed) = status {
        open.remove(&id);
    } else if open.len() < PARTS_PER_RUN_MAX {
        open.entry(id).or_insert_with(|| called(name, kind));
    }
}

/// What a call is called in records. A title can hold what the call is about, and records hold no content (SEC-6).
fn called(name: Option<String>, kind: ToolKind) -> Arc<str> {
    name.filter(|name| !name.is_empty()).map_or_else(|| word(kind).into(), Into::into)
}

fn announce(
    voice: &Voice,
    id: &Arc<str>,
    name: Option<String>,
    kind: ToolKind,
    input: Option<&serde_json::Value>,
) -> Part {
    let name = called(name, kind);
    // Many announce a call before its input is there: that is no call with the same input as the last.
    match input.filter(|input| !is_empty(input)) {
        Some(input) => voice.tool_with(Arc::clone(id), name, &input.to_string()),
        None => voice.tool(Arc::clone(id), name),
    }
}

/// The answer that lets a call go on, or does not: for this once, where that can be had.
fn choose(options: &[PermissionOption], may: bool) -> RequestPermissionOutcome {
    let wanted = if may {
        [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways]
    } else {
        [PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways]
    };
    let found = wanted.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind));
    // Without an answer that fits none is given, which lets nothing go on.
    found.map_or(RequestPermissionOutcome::Cancelled, |option| {
        RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
    })
}

/// What a call of this kind needs.
const fn needs(kind: ToolKind) -> Rights {
    match kind {
        ToolKind::Read | ToolKind::Search | ToolKind::Think => Rights::ReadOnly,
        ToolKind::Edit | ToolKind::Delete | ToolKind::Move => Rights::Edit,
        // Whatever runs, leaves the machine, changes its own rules, or is not known.
        _ => Rights::Full,
    }
}

const fn word(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read => "read",
        ToolKind::Edit => "edit",
        ToolKind::Delete => "delete",
        ToolKind::Move => "move",
        ToolKind::Search => "search",
        ToolKind::Execute => "execute",
        ToolKind::Think => "think",
        ToolKind::Fetch => "fetch",
        ToolKind::SwitchMode => "switch_mode",
        _ => "other",
    }
}

fn is_empty(input: &serde_json::Value) -> bool {
    input.is_null() || input.as_object().is_some_and(serde_json::Map::is_empty)
}

/// What the session has cost by now, where it tells that in US dollars.
fn cost_of(usage: &UsageUpdate) -> Option<u64> {
    let cost = usage.cost.as_ref().filter(|cost| cost.currency.eq_ignore_ascii_case("usd"));
    cost.and_then(|cost| micros(cost.amount))
}

/// Millionths; `None` for what is no amount.
fn micros(amount: f64) -> Option<u64> {
    let micros = amount * 1e6;
    // The range is looked at first, so that nothing is cut off.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range")]
    (0.0..1e18).contains(&micros).then(|| micros.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_chosen_by_their_kind_and_for_this_once_where_that_can_be_had() {
        use PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
        let option = |kind| PermissionOption::new(format!("{kind:?}"), "words that lie", kind);
        let chosen = |kinds: &[PermissionOptionKind], may| {
            let options: Vec<_> = kinds.iter().map(|kind| option(*kind)).collect();
            match choose(&options, may) {
                RequestPermissionOutcome::Selected(chosen) => chosen.option_id.0.to_string(),
                _ => "-".to_owned(),
            }
        };
        let all = [RejectAlways, AllowAlways, RejectOnce, AllowOnce];
        assert_eq!((chosen(&all, true).as_str(), chosen(&all, false).as_str()), ("AllowOnce", "RejectOnce"));
        assert_eq!(chosen(&[AllowAlways, RejectOnce], true), "AllowAlways");
        assert_eq!(chosen(&[AllowOnce, RejectAlways], false), "RejectAlways");
        assert_eq!(chosen(&[AllowOnce, AllowAlways], false), "-", "nothing is let go on for want of a no");
        assert_eq!(chosen(&[RejectOnce], true), "-");
    }

    #[test]
    fn each_kind_of_call_needs_rights_and_what_is_not_known_needs_all() {
        let needing = |rights: Rights| {
            use ToolKind::{Delete, Edit, Execute, Fetch, Move, Other, Read, Search, SwitchMode, Think};
            let all = [Read, Edit, Delete, Move, Search, Execute, Think, Fetch, SwitchMode, Other];
            all.into_iter().filter(|kind| needs(*kind) == rights).map(word).collect::<Vec<_>>()
        };
        assert_eq!(needing(Rights::ReadOnly), ["read", "search", "think"]);
        assert_eq!(needing(Rights::Edit), ["edit", "delete", "move"]);
        assert_eq!(needing(Rights::Full), ["execute", "fetch", "switch_mode", "other"]);
    }

    #[test]
    fn a_cost_is_an_amount_or_nothing() {
        assert_eq!(micros(0.002_34), Some(2_340));
        for none in [-0.1, f64::NAN, f64::INFINITY, 1e13] {
            assert_eq!(micros(none), None);
        }
    }
}
