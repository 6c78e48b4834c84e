//! The parts of an open run at the size of one pointer: most runs have none.

use std::fmt;
use std::ops::{Deref, DerefMut};

use fanin_protocol::ToolPart;
use serde::{Deserialize, Serialize};

/// Parts in the order in which they came.
// A box of a vector is what is small: where there is no part there is none of both.
#[expect(clippy::box_collection, reason = "an idle job pays for a pointer and not for a vector")]
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Parts(Option<Box<Vec<ToolPart>>>);

impl Parts {
    pub(crate) fn push(&mut self, part: ToolPart) {
        self.0.get_or_insert_default().push(part);
    }
}

impl Deref for Parts {
    type Target = [ToolPart];

    fn deref(&self) -> &[ToolPart] {
        self.0.as_ref().map(|parts| parts.as_slice()).unwrap_or_default()
    }
}

impl DerefMut for Parts {
    fn deref_mut(&mut self) -> &mut [ToolPart] {
        self.0.as_mut().map(|parts| parts.as_mut_slice()).unwrap_or_default()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
