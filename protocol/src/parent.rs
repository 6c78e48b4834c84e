//! The mark that tells a process of a job whose child it is, in one variable of its environment.
//!
//! It is a name, not a proof: a process may drop it or forge it. So who reads it asks the processes above as well, and the
//! stricter of both counts (SEC-3): a mark may narrow, and never widens.

use std::ffi::OsStr;
use std::fmt;

use crate::id::{JobId, Lifetime, SessionId};
use crate::limits::{DEPTH_MAX, PARENT_MARK_BYTES_MAX};

/// The variable that holds the mark.
pub const PARENT_VARIABLE: &str = "FANIN_PARENT";

/// Whose child a process is: `<session>/<job>/<lifetime>/<depth>`, and `/<depth_max>` where that is less than
/// [`DEPTH_MAX`].
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ParentMark {
    /// The session that launched the job.
    pub session: SessionId,
    /// The job that the process is part of.
    pub job: JobId,
    /// Which life of that id.
    pub lifetime: Lifetime,
    /// How deep the job is: 1 for one that was launched from outside of all jobs (SC-8).
    pub depth: u32,
    /// How deep a job may be that is launched from inside of this one (SEC-5).
    #[serde(default = "deepest")]
    pub depth_max: u32,
}

const fn deepest() -> u32 {
    DEPTH_MAX
}

/// Why a text is no mark.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{PARENT_VARIABLE} is {shown:?}, which is no mark of a job (session/job/lifetime/depth); unset it")]
pub struct ParentMarkError {
    /// The text, cut.
    pub shown: String,
}

impl ParentMark {
    /// Reads the variable. An empty one counts as not set.
    ///
    /// # Errors
    ///
    /// [`ParentMarkError`], where the value has another form, is longer than any mark, or has the depth 0. A damaged mark
    /// is never taken for none: that would make a nested run a run of its own.
    pub fn read(value: Option<&OsStr>) -> Result<Option<Self>, ParentMarkError> {
        let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
        let mark = value.to_str().and_then(Self::parse);
        mark.map(Some).ok_or_else(|| ParentMarkError {
            shown: crate::text::cut(&value.to_string_lossy(), PARENT_MARK_BYTES_MAX / 4).to_owned(),
        })
    }

    /// True where a job that is launched from inside would be deeper than is allowed, by its mark or by this limit.
    pub const fn is_at_limit(&self, depth_max: u32) -> bool {
        self.depth >= self.depth_max || self.depth >= depth_max
    }

    fn parse(text: &str) -> Option<Self> {
        if text.len() > PARENT_MARK_BYTES_MAX {
            return None;
        }
        let mut parts = text.split('/');
        let mark = Self {
            session: SessionId::parse(parts.next()?).ok()?,
            job: JobId::parse(parts.next()?).ok()?,
            lifetime: Lifetime(number(parts.next()?)?),
            depth: u32::try_from(number(parts.next()?)?).ok().filter(|depth| *depth > 0)?,
            depth_max: match parts.next() {
                Some(most) => u32::try_from(number(most)?).ok().filter(|most| *most < DEPTH_MAX)?,
                None => DEPTH_MAX,
            },
        };
        parts.next().is_none().then_some(mark)
    }
}

/// Digits alone: a sign or a blank is no part of a mark.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl fmt::Display for ParentMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, job, lifetime, depth, depth_max } = self;
        write!(f, "{session}/{job}/{lifetime}/{depth}")?;
        if *depth_max < DEPTH_MAX { write!(f, "/{depth_max}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Option<ParentMark>, ParentMarkError> {
        ParentMark::read(Some(OsStr::new(text)))
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        for depth_max in [0, 1, DEPTH_MAX] {
            let mark = ParentMark {
                session: SessionId::from_uuid([1; 16]),
                job: JobId::parse("lint").unwrap(),
                lifetime: Lifetime(u64::MAX),
                depth: 8,
                depth_max,
            };
            assert_eq!(read(&mark.to_string()), Ok(Some(mark)));
        }
    }

    #[test]
    fn nothing_is_no_mark_and_garbage_is_refused_by_name() {
        assert_eq!(ParentMark::read(None), Ok(None));
        assert_eq!(read(""), Ok(None));
        let long = format!("run/job/1/{}", "0".repeat(PARENT_MARK_BYTES_MAX));
        for bad in [
            "1",
            "run/job/1",
            "run/job/1/0",
            "run/job/1/-1",
            "run/job/+1/1",
            "run/job/1/1/8",
            "run/job/1/1/-1",
            "run/job/1/1/1/1",
            "/job/1/1",
            "run//1/1",
            "run/../1/1",
            "run/job/1/4294967296",
            "run/job/18446744073709551616/1",
            " run/job/1/1",
            "run/job/1/1\n",
            &long,
        ] {
            let error = read(bad).unwrap_err().to_string();
            assert!(
                error.starts_with("FANIN_PARENT is ") && error.len() < 2 * PARENT_MARK_BYTES_MAX,
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            if let Ok(Some(mark)) = read(&text) {
                prop_assert_eq!(read(&mark.to_string()), Ok(Some(mark)));
            }
        }
    }
}
