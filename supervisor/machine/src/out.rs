//! What a step produces, and the only way for it to change facts.

use fanin_protocol::{Entry, Record};

use crate::clock::Mono;
use crate::command::Reply;
use crate::effect::Effect;
use crate::fold::Near;
use crate::state::{JobKey, State};
use crate::{evict, quiet};

/// Records, effects and the reply of a step, in order. The host commits the records before it lets anything else
/// out (C-3).
#[derive(Debug, Default)]
pub struct Out {
    /// The records.
    pub records: Vec<Entry>,
    /// The effects.
    pub effects: Vec<Effect>,
    /// The reply to the command.
    pub reply: Option<Reply>,
    /// There is more to do than fits in a step: the host calls `Tick` once it has carried out what it has, so that a large
    /// launch goes in slices.
    pub unfinished: bool,
    /// Some of it are stops: the host calls `Tick` at once.
    pub is_urgent: bool,
}

impl Out {
    /// Applies a record to the facts and keeps it for the log.
    ///
    /// A record that does not fit is a bug of ours (J-15): debug builds panic, release builds refuse it and leave
    /// the facts as they were.
    pub(crate) fn record(&mut self, state: &mut State, record: impl Into<Record>) {
        self.record_near(state, Near::Unknown, record);
    }

    /// As [`Out::record`], for a record about a job whose place is known.
    pub(crate) fn record_of(&mut self, state: &mut State, key: JobKey, record: impl Into<Record>) {
        self.record_near(state, Near::Job(key), record);
    }

    /// As [`Out::record`], for a record of which something is known beside it.
    pub(crate) fn record_near(&mut self, state: &mut State, hint: Near, record: impl Into<Record>) {
        let record = record.into();
        let seq = state.facts.head.next();
        let ts_ms = state.facts.ts_ms.max(state.memory.clock.wall_ms());
        match state.facts.apply_near(seq, ts_ms, &record, hint) {
            Ok((about, run)) => {
                evict::after(state, &record, hint);
                self.records.push(Entry { seq, ts_ms, about, run, record });
                if let Near::Job(key) = hint {
                    quiet::heard(state, key);
                }
            }
            Err(error) => debug_assert!(false, "{error}"),
        }
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Tells the host when to call next, where that has changed.
    pub(crate) fn alarm(&mut self, state: &mut State, next: Option<Mono>) {
        if state.memory.alarm != next {
            state.memory.alarm = next;
            self.effects.push(Effect::Alarm(next));
        }
    }

    /// Empties it for the next step and keeps its room.
    pub fn clear(&mut self) {
        self.records.clear();
        self.effects.clear();
        self.reply = None;
        self.unfinished = false;
        self.is_urgent = false;
    }
}
