//! Groups that were sealed and of which nothing is heard any more (BAR-14). It only says so.
//!
//! One timer looks at all of them: a group costs nothing more than a time that its records move on.

use std::sync::Arc;

use fanin_protocol::limits::{GROUP_LOOK, GROUP_QUIET, REASON_IDS_MAX};
use fanin_protocol::record::{Note, NoteCode, NoteDetails};
use fanin_protocol::spec::millis;

use crate::clock::Mono;
use crate::out::Out;
use crate::state::{GroupKey, JobKey, State};
use crate::timers::{Owner, Purpose};
use crate::watch as watches;
use crate::why;

/// When a group whose last record is of now counts as quiet.
pub(crate) fn quiet_at(now: Mono) -> Mono {
    now.after(millis(GROUP_QUIET))
}

/// There is a group more to look at, or one to look at again.
pub(crate) fn watch(state: &mut State) {
    if !state.memory.timers.is_armed(Owner::All, Purpose::Look) {
        let at = quiet_at(state.memory.clock.mono());
        state.memory.timers.arm(at, Owner::All, Purpose::Look);
    }
}

/// A record about a job was written.
pub(crate) fn heard(state: &mut State, key: JobKey) {
    let Some(group) = state.job(key).map(|job| job.group) else { return };
    let at = quiet_at(state.memory.clock.mono());
    let Some(barrier) = state.memory.barriers.get_mut(&group) else { return };
    barrier.quiet_at = at;
    if std::mem::take(&mut barrier.is_quiet) {
        watch(state);
    }
}

/// Looks at all groups, and notes those that are quiet, each once until there is another record of it.
pub(crate) fn look(state: &mut State, out: &mut Out) {
    let now = state.memory.clock.mono();
    let (mut quiet, mut next): (Vec<GroupKey>, Option<Mono>) = (Vec::new(), None);
    for (key, barrier) in state.memory.barriers.iter_mut().filter(|(_, barrier)| !barrier.is_quiet) {
        if barrier.quiet_at <= now {
            barrier.is_quiet = true;
            quiet.push(*key);
        } else {
            next = Some(next.map_or(barrier.quiet_at, |next| next.min(barrier.quiet_at)));
        }
    }
    if let Some(at) = next {
        let at = at.max(now.after(millis(GROUP_LOOK)));
        state.memory.timers.arm(at, Owner::All, Purpose::Look);
    }
    for key in quiet {
        note(state, key, out);
    }
}

fn note(state: &mut State, key: GroupKey, out: &mut Out) {
    let Some(group) = state.group(key) else { return };
    // A watch says nothing until there is something to say.
    if watches::is_of(state, key) {
        return;
    }
    let open =
        group.members.iter().filter(|member| state.job(**member).is_some_and(|job| job.ended.is_none()));
    let waits = open.take(REASON_IDS_MAX).filter_map(|member| {
        let phase: Arc<str> = why::job_reasons(state, *member).first()?.phase().into();
        Some((state.job(*member)?.id.clone(), phase))
    });
    let details =
        NoteDetails { group: Some(group.id.clone()), waits: waits.collect(), ..NoteDetails::default() };
    let value = i64::try_from(millis(GROUP_QUIET)).ok();
    out.record(state, Note { value, details: Some(Box::new(details)), ..Note::new(NoteCode::Stall) });
}
