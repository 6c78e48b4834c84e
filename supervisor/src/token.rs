//! What shows that a process is part of a run: a token that its runner hands to it alone. The supervisor knows it in memory,
//! and writes it nowhere (SEC-3).

use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use fanin_protocol::limits::{DEPTH_MAX, RUN_TOKEN_BYTES_MAX};
use fanin_protocol::{Fence, JobId, Lifetime, ParentMark, SessionId};

use crate::chance;

/// Bytes drawn for one token.
const SECRET_BYTES: usize = 32;

/// Proof of being part of one run, as long as that lives: `<job>/<64 hex digits>`.
///
/// It is for the environment of that run ([`TOKEN_VARIABLE`](fanin_protocol::process::TOKEN_VARIABLE)), and for nothing
/// else: no record, no log, no argument. What a job itself prints is its own affair, and worth nothing once it has ended.
#[derive(Clone, PartialEq, Eq)]
pub struct RunToken(String);

impl RunToken {
    /// Its text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RunToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunToken(..)")
    }
}

/// Where a job stands: the session above, how far below it, and how far below it a job may be.
pub(crate) type Place = (SessionId, u32, u32);

/// A run that lives, as its supervisor knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownRun {
    /// The session above its job.
    pub session: SessionId,
    /// The job.
    pub job: JobId,
    /// Which life of the job's id: what is done in the run's name is done for that life and no other.
    pub lifetime: Lifetime,
    /// How far below its session the job is: 1 for one that the session launched.
    pub depth: u32,
    /// How far below it a job may be. At that depth it launches nothing.
    pub depth_max: u32,
    /// Which run of it: no other has the same.
    pub fence: Fence,
    /// It may have mail: its group has edges.
    pub has_mail: bool,
}

/// Where a run stands, and what proves to be part of it.
pub(crate) struct Standing {
    place: Place,
    has_mail: bool,
    secret: [u8; SECRET_BYTES],
    is_over: AtomicBool,
}

impl Standing {
    pub(crate) fn new(place: Place, has_mail: bool) -> Self {
        Self { place, has_mail, secret: chance::secret(), is_over: AtomicBool::new(false) }
    }

    pub(crate) const fn session(&self) -> &SessionId {
        &self.place.0
    }

    pub(crate) const fn has_mail(&self) -> bool {
        self.has_mail
    }

    /// The run has ended: nothing proves to be part of it any more.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(crate) fn token(&self, job: &JobId) -> RunToken {
        let digits: String = self.secret.iter().map(|byte| format!("{byte:02x}")).collect();
        RunToken(format!("{job}/{digits}"))
    }

    /// True where this is its token. It takes as long however many of the digits are right.
    pub(crate) fn is_proven_by(&self, job: &JobId, token: &str) -> bool {
        is_same(self.token(job).reveal().as_bytes(), token.as_bytes())
    }

    /// The run as others may know it.
    pub(crate) fn known(&self, job: &JobId, lifetime: Lifetime, fence: Fence) -> KnownRun {
        let (session, depth, depth_max) = self.place.clone();
        KnownRun { session, job: job.clone(), lifetime, depth, depth_max, fence, has_mail: self.has_mail }
    }

    /// The mark of its job in a process that is itself part of `own`.
    pub(crate) fn mark(&self, job: &JobId, lifetime: Lifetime, own: Option<&ParentMark>) -> ParentMark {
        let (session, depth, depth_max) = self.place.clone();
        let (above, most) = own.map_or((0, DEPTH_MAX), |own| (own.depth, own.depth_max));
        ParentMark {
            session,
            job: job.clone(),
            lifetime,
            depth: above.saturating_add(depth),
            depth_max: above.saturating_add(depth_max).min(most),
        }
    }
}

/// The job that a token names; `None` for what is none.
pub(crate) fn job_of(token: &str) -> Option<JobId> {
    let token = Some(token).filter(|token| token.len() <= RUN_TOKEN_BYTES_MAX)?;
    JobId::parse(token.split_once('/')?.0).ok()
}

/// Compares every byte, whatever the first ones are. That a length differs may be seen; it is no secret.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |seen, (one, other)| black_box(seen | (one ^ other)));
    one.len() == other.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing() -> Standing {
        Standing::new((SessionId::parse("run").unwrap(), 1, 1), false)
    }

    #[test]
    fn a_token_proves_its_own_run_and_every_other_text_nothing() {
        let (run, next, job) = (standing(), standing(), JobId::parse("lint").unwrap());
        let token = run.token(&job);
        let text = token.reveal();
        assert_eq!((text.len(), job_of(text)), ("lint/".len() + 64, Some(job.clone())));
        assert!(run.is_proven_by(&job, text));
        assert!(!next.is_proven_by(&job, text), "another run of the same job");
        for at in 0..text.len() {
            let mut other = text.as_bytes().to_vec();
            other[at] ^= 1;
            assert!(!run.is_proven_by(&job, &String::from_utf8(other).unwrap()), "{at}");
            assert!(!run.is_proven_by(&job, &text[..at]), "{at}");
        }
        assert!(!run.is_proven_by(&job, &format!("{text}0")));
        assert!(!format!("{token:?}").contains(&text["lint/".len()..]));
    }

    #[test]
    fn what_is_no_token_names_no_job() {
        let long = format!("lint/{}", "0".repeat(RUN_TOKEN_BYTES_MAX));
        for text in ["", "lint", "/", "a b/00", "../00", &long] {
            assert_eq!(job_of(text), None, "{text:.40}");
        }
    }
}
