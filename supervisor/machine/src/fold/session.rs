//! Records of sessions.

use std::sync::Arc;

use fanin_protocol::{About, Bounds, SessionId};

use super::{Applied, next_key};
use crate::state::{Below, Facts, Session, SessionKey};

impl Facts {
    pub(super) fn session_opened(&mut self, id: &SessionId, bounds: Bounds) -> Applied {
        let key = SessionKey(next_key(self.sessions.next())?);
        let sessions = &self.sessions;
        let is = |key: SessionKey| sessions.get(key.index()).is_some_and(|session| session.id == *id);
        if !self.session_index.put(id, key, is, |_| false) {
            return Err("the session exists");
        }
        let about = Arc::new(About::of(Some(id.clone()), None));
        self.sessions.push(Session {
            id: id.clone(),
            about: Arc::clone(&about),
            closed: false,
            turn: None,
            turns: 0,
            turn_group: None,
            below: Below::default(),
            bounds,
            spawned: 0,
            queued: 0,
            running: 0,
            jobs: 0,
            ledger: None,
        });
        Ok((about, None))
    }

    pub(super) fn session_closed(&mut self, id: &SessionId) -> Applied {
        let session = self.find_session(id)?;
        if session.closed {
            return Err("the session is closed");
        }
        session.closed = true;
        Ok((Arc::clone(&session.about), None))
    }
}
