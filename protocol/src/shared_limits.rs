//! A job's limits at the size of one pointer: most jobs of a large fan-out set none. It keeps them and decides nothing.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::spec::JobLimits;

/// Limits of a job as they are kept. They read as [`JobLimits`], and are written as these.
///
/// Where nothing is set nothing is allocated, so a limit more costs no job that does without it. Clones share.
#[derive(Clone, Default)]
pub struct SharedLimits(Option<Arc<JobLimits>>);

/// What those read who set nothing.
static NONE: JobLimits = JobLimits::NONE;

impl SharedLimits {
    /// The limits, to set one. What others share with it stays as it is.
    pub fn edit(&mut self) -> &mut JobLimits {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl Deref for SharedLimits {
    type Target = JobLimits;

    fn deref(&self) -> &JobLimits {
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl From<JobLimits> for SharedLimits {
    fn from(limits: JobLimits) -> Self {
        Self((limits != NONE).then(|| Arc::new(limits)))
    }
}

// By what is set, not by where it is kept: limits that were edited back to nothing are none.
impl PartialEq for SharedLimits {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SharedLimits {}

impl fmt::Debug for SharedLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Serialize for SharedLimits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        JobLimits::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_one_pointer_and_nothing_where_none_is_set() {
        assert_eq!(size_of::<SharedLimits>(), size_of::<usize>());
        assert!(SharedLimits::from(JobLimits::default()).0.is_none());
    }

    #[test]
    fn they_read_and_compare_as_what_is_set() {
        let set = JobLimits { run_ms: Some(5), ..JobLimits::default() };
        let mut edited = SharedLimits::default();
        edited.edit().run_ms = Some(5);
        assert_eq!((edited.run_ms, &edited), (Some(5), &set.into()));
        let shared = edited.clone();
        edited.edit().run_ms = None;
        assert_eq!(edited, SharedLimits::default());
        assert_eq!(shared.run_ms, Some(5), "a clone is not edited along");
    }

    #[test]
    fn they_are_written_as_limits() {
        let limits: SharedLimits = JobLimits { queue_ms: Some(7), ..JobLimits::default() }.into();
        let written = serde_json::to_value(&limits).unwrap();
        assert_eq!(written, serde_json::json!({ "queue_ms": 7 }));
        assert_eq!(serde_json::from_value::<SharedLimits>(written).unwrap(), limits);
        assert_eq!(serde_json::to_value(SharedLimits::default()).unwrap(), serde_json::json!({}));
    }
}
