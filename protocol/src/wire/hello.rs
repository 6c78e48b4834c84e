//! The first two frames: who speaks, and which versions. Their fields never change their meaning, so that programs of any
//! two versions can tell each other what they are.

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::id::LogId;

/// Versions of this protocol, from the oldest to the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The oldest.
    pub oldest: u32,
    /// The newest.
    pub newest: u32,
}

/// What this program speaks.
pub const VERSIONS: Range = Range { oldest: 1, newest: 1 };

/// The first frame of a client.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The versions that it speaks.
    pub versions: Range,
    /// Its name and version, for people.
    pub program: String,
    /// What proves that it is part of a run ([`TOKEN_VARIABLE`](crate::process::TOKEN_VARIABLE)), where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the token.
        f.debug_struct("Hello")
            .field("versions", &self.versions)
            .field("program", &self.program)
            .field("token", &self.token.as_ref().map(|_| ".."))
            .finish()
    }
}

/// The first frame of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Welcomed {
    /// Calls may come.
    Welcome(Welcome),
    /// Nothing follows.
    Refused(Refused),
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version that is spoken from here on.
    pub version: u32,
    /// Its name and version, for people.
    pub program: String,
    /// The log of its records: cursors are places of this log.
    pub log: LogId,
    /// Its process.
    pub pid: u32,
}

/// Why a client is not served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The versions that the service speaks.
    pub versions: Range,
    /// Its name and version, for people.
    pub program: String,
    /// Why, and the way out.
    pub fault: Fault,
}

/// The version that both speak: the newest of them.
///
/// # Errors
///
/// The refusal where there is none; it names the older of both.
pub fn agree(ours: Range, program: &str, hello: &Hello) -> Result<u32, Refused> {
    let theirs = hello.versions;
    let version = ours.newest.min(theirs.newest);
    if version >= ours.oldest && version >= theirs.oldest {
        return Ok(version);
    }
    let (code, hint) = if theirs.newest < ours.oldest {
        ("client_too_old", "use the `fanin` that the service was started with, or a newer one")
    } else {
        (
            "service_too_old",
            "end the service and start it again with the newer `fanin`: its jobs are in its store",
        )
    };
    let client = crate::text::cut(&hello.program, crate::limits::LABEL_BYTES_MAX);
    let message = format!(
        "{client} speaks versions {} to {} of the protocol, and the service, {program}, {} to {}",
        theirs.oldest, theirs.newest, ours.oldest, ours.newest
    );
    let fault = Fault { code: code.to_owned(), message, hint: Some(hint.to_owned()), retryable: false };
    Err(Refused { versions: ours, program: program.to_owned(), fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(oldest: u32, newest: u32) -> Hello {
        Hello { versions: Range { oldest, newest }, program: "old one 0.1".to_owned(), token: None }
    }

    #[test]
    fn the_newest_version_of_both_is_spoken() {
        let ours = Range { oldest: 3, newest: 5 };
        for (theirs, spoken) in [(hello(1, 3), 3), (hello(4, 4), 4), (hello(5, 9), 5), (hello(1, 9), 5)] {
            assert_eq!(agree(ours, "fanin 0.1", &theirs).unwrap(), spoken);
        }
    }

    #[test]
    fn the_older_of_both_is_named_with_both_programs_and_the_way_out() {
        let ours = Range { oldest: 3, newest: 5 };
        for (theirs, code) in [(hello(1, 2), "client_too_old"), (hello(6, 7), "service_too_old")] {
            let refused = agree(ours, "fanin 0.1", &theirs).unwrap_err();
            assert_eq!((refused.fault.code.as_str(), refused.versions), (code, ours));
            assert!(
                refused.fault.message.contains("old one 0.1") && refused.fault.message.contains("fanin 0.1")
            );
            assert!(refused.fault.hint.is_some());
        }
    }
}
