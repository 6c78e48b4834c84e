//! The same call again and again, without another one between: a run that makes no progress (SC-15). It sees digests of
//! arguments, never arguments.

use std::hash::{DefaultHasher, Hash, Hasher};

use fanin_protocol::limits::REPEATS_NOTED;
use fanin_protocol::record::{Note, NoteCode, NoteDetails};
use fanin_protocol::{Cause, Code, Fence};

use crate::activity;
use crate::out::Out;
use crate::state::{JobKey, State};

/// The last call of a run, and how often it was made in a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeat {
    /// Tool and arguments.
    call: u64,
    times: u32,
}

/// A run announced a call. Where its arguments are not known it is another one.
pub(crate) fn called(
    state: &mut State,
    key: JobKey,
    fence: Fence,
    (tool, args_hash): (&str, Option<u64>),
    out: &mut Out,
) {
    let Some(args_hash) = args_hash else {
        state.memory.repeats.remove(&key);
        return;
    };
    let mut hasher = DefaultHasher::new();
    (tool, args_hash).hash(&mut hasher);
    let call = hasher.finish();
    let last = state.memory.repeats.entry(key).or_insert(Repeat { call, times: 0 });
    last.times = if last.call == call { last.times.saturating_add(1) } else { 1 };
    last.call = call;
    let times = last.times;
    let Some(job) = state.job(key) else { return };
    let (id, max) = (job.id.clone(), job.limits().repeats);
    if times == REPEATS_NOTED {
        let details = Some(Box::new(NoteDetails { repeats: Some(times), ..NoteDetails::default() }));
        let note = Note { job: Some(id), run: Some(fence), details, ..Note::new(NoteCode::Stall) };
        out.record_of(state, key, note);
    }
    if max.is_some_and(|max| times >= max) {
        let told = format!("`{tool}` was called {times} times in a row with the same arguments");
        activity::stop_told(state, key, (Cause::Failed, Code::NoProgress), told, out);
    }
}
