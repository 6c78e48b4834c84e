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
use fanin_supervisor::{HeadTail, JobOutput, RunContext, ToolCall as Part, Used};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The name of the meter in records of usage.
const METER: &str = "acp";

/// One run, as what its agent tells is kept of it.
pub(crate) struct Listener {
    context: RunContext,
    rights: Rights,
    output_max: u64,
    heard: Mutex<Heard>,
}

/// What was heard.
#[derive(Default)]
struct Heard {
    /// Our session. What is said of another one is not for us.
    session: Option<SessionId>,
    /// The last message.
    message: Option<HeadTail>,
    /// The id of the last message, where the agent gives any.
    message_id: Option<String>,
    /// Something else came since, so that the next words begin a message.
    is_cut: bool,
    calls: HashMap<Arc<str>, Call>,
    questions: u64,
    used: Option<Used>,
    /// When the last record of usage was made.
    told_at: Option<Instant>,
    /// There is something to tell since.
    is_untold: bool,
}

/// A tool call; without a part it is over.
struct Call {
    part: Option<Part>,
    kind: ToolKind,
}

impl Listener {
    pub(crate) fn new(context: RunContext, rights: Rights, output_max: Option<u64>) -> Self {
        let output_max = output_max.unwrap_or(OUTPUT_BYTES_MAX);
        Self { context, rights, output_max, heard: Mutex::default() }
    }

    pub(crate) const fn context(&self) -> &RunContext {
        &self.context
    }

    /// What the agent may do.
    pub(crate) const fn rights(&self) -> Rights {
        self.rights
    }

    /// From now on it hears of this session.
    pub(crate) fn follow(&self, session: SessionId) {
        self.heard.lock().session = Some(session);
    }

    /// True once it hears of a session: from then on a prompt may have been sent.
    pub(crate) fn is_following(&self) -> bool {
        self.heard.lock().session.is_some()
    }

    /// The last message, where there was one. What is open stays open: the end of the run closes it.
    pub(crate) fn finish(&self) -> Option<JobOutput> {
        let mut heard = self.heard.lock();
        for (_, call) in heard.calls.drain() {
            if let Some(part) = call.part {
                part.leave();
            }
        }
        self.tell_usage(&mut heard, true);
        heard.message.take().map(HeadTail::finish)
    }

    /// Takes in an update.
    pub(crate) fn update(&self, told: SessionNotification) {
        let mut heard = self.heard.lock();
        if heard.session.as_ref() != Some(&told.session_id) {
            return;
        }
        match told.update {
            SessionUpdate::AgentMessageChunk(chunk) => self.words(&mut heard, &chunk),
            SessionUpdate::AgentThoughtChunk(_) | SessionUpdate::Plan(_) => {
                heard.is_cut = true;
                self.context.beat();
            }
            SessionUpdate::ToolCall(call) => self.call(&mut heard, call),
            SessionUpdate::ToolCallUpdate(update) => self.call_moved(&mut heard, update),
            SessionUpdate::UsageUpdate(usage) => self.usage(&mut heard, &usage),
            // Commands, modes and titles are no work; of what a newer protocol adds nothing is known.
            _ => {}
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
        let message = heard.message.get_or_insert_with(|| HeadTail::new(self.output_max));
        message.push(words.as_bytes());
        match words.lines().rfind(|line| !line.trim().is_empty()) {
            Some(line) => self.context.progress(text::cut(line, PROGRESS_BYTES_MAX)),
            None => self.context.beat(),
        }
    }

    fn call(&self, heard: &mut Heard, call: ToolCall) {
        heard.is_cut = true;
        let ToolCall { tool_call_id, title, name, kind, status, raw_input, .. } = call;
        let id: Arc<str> = tool_call_id.0;
        if !heard.calls.contains_key(&id) {
            if heard.calls.len() >= PARTS_PER_RUN_MAX {
                return;
            }
            let part = self.announce(&id, name, kind, raw_input.as_ref());
            heard.calls.insert(Arc::clone(&id), Call { part: Some(part), kind });
        }
        self.moved(heard, &id, (Some(kind), Some(status)), Some(&title));
    }

    fn call_moved(&self, heard: &mut Heard, update: ToolCallUpdate) {
        heard.is_cut = true;
        let id: Arc<str> = update.tool_call_id.0;
        let fields = update.fields;
        if !heard.calls.contains_key(&id) {
            if heard.calls.len() >= PARTS_PER_RUN_MAX {
                return;
            }
            // Nothing announced it: it is one all the same.
            let kind = fields.kind.unwrap_or_default();
            let part = self.announce(&id, fields.name, kind, fields.raw_input.as_ref());
            heard.calls.insert(Arc::clone(&id), Call { part: Some(part), kind });
        }
        self.moved(heard, &id, (fields.kind, fields.status), fields.title.as_deref());
    }

    fn announce(
        &self,
        id: &Arc<str>,
        name: Option<String>,
        kind: ToolKind,
        input: Option<&serde_json::Value>,
    ) -> Part {
        // A title can hold what the call is about, and records hold no content (SEC-6).
        let name: Arc<str> =
            name.filter(|name| !name.is_empty()).map_or_else(|| word(kind).into(), Into::into);
        // Many announce a call before its input is there: that is no call with the same input as the last.
        match input.filter(|input| !is_empty(input)) {
            Some(input) => self.context.tool_with(Arc::clone(id), name, &input.to_string()),
            None => self.context.tool(Arc::clone(id), name),
        }
    }

    fn moved(
        &self,
        heard: &mut Heard,
        id: &Arc<str>,
        (kind, status): (Option<ToolKind>, Option<ToolCallStatus>),
        title: Option<&str>,
    ) {
        if let Some(title) = title.filter(|title| !title.trim().is_empty()) {
            self.context.progress(text::cut(title, PROGRESS_BYTES_MAX));
        } else {
            self.context.beat();
        }
        let Some(call) = heard.calls.get_mut(id) else { return };
        call.kind = kind.unwrap_or(call.kind);
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
        self.context.beat();
        // The tokens that it tells of are those in its context now, and no sum.
        let cost = usage.cost.as_ref().filter(|cost| cost.currency.eq_ignore_ascii_case("usd"));
        let cost_usd_micros = cost.and_then(|cost| micros(cost.amount));
        let used = Used { source: METER.to_owned(), cost_usd_micros, ..Used::default() };
        if usage.used == 0 && cost_usd_micros.unwrap_or(0) == 0 || heard.used.as_ref() == Some(&used) {
            return;
        }
        heard.used = Some(used);
        heard.is_untold = true;
        self.tell_usage(heard, false);
    }

    fn tell_usage(&self, heard: &mut Heard, is_last: bool) {
        let is_due = is_last || heard.told_at.is_none_or(|at| at.elapsed() >= USAGE_EVERY);
        if let Some(used) = heard.used.clone().filter(|_| heard.is_untold && is_due) {
            heard.is_untold = false;
            heard.told_at = Some(Instant::now());
            self.context.used(used);
        }
    }

    /// Answers a question for permission: by the rights of the job, and by the kind of each answer, never by its place.
    pub(crate) fn answer(&self, asked: &RequestPermissionRequest) -> RequestPermissionOutcome {
        let mut heard = self.heard.lock();
        if heard.session.as_ref() != Some(&asked.session_id) || self.context.is_cancelled() {
            return RequestPermissionOutcome::Cancelled;
        }
        let known = heard.calls.get(&asked.tool_call.tool_call_id.0).map(|call| call.kind);
        // Of two words about the same call the one that asks for more counts.
        let kinds = [known, asked.tool_call.fields.kind].into_iter().flatten();
        let needed = kinds.map(needs).max().unwrap_or(Rights::Full);
        let may = needed <= self.rights;
        heard.questions += 1;
        let number = heard.questions;
        // Nobody was asked, so nobody has denied it (14.9).
        let word = if may { "allowed_by_rights" } else { "denied_no_human" };
        let question = self.context.question(format!("permission-{number}"), format!("{needed}: {word}"));
        if may {
            question.complete();
        } else {
            question.fail();
        }
        choose(&asked.options, may)
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
