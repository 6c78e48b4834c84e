//! What an agent may do: three profiles in order, and their minimum. Nothing widens rights that were given (SEC-4).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The variable that tells a `fanin` inside of an agent's job what the agents that it starts may do at the most. It only
/// narrows: who drops it is told by the processes above, and has the least of all that they say (SEC-3, SEC-4).
pub const RIGHTS_VARIABLE: &str = "FANIN_RIGHTS";

/// What an agent may do, from least to most.
///
/// The least of several holds: that of the agent's configuration, of its task, and of each job above it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rights {
    /// Look at files and search them. Workers that nobody gave more have this (SEC-5).
    #[default]
    ReadOnly,
    /// And change, move and delete files.
    Edit,
    /// And whatever else it asks for: run programs, use the network.
    Full,
}

impl Rights {
    /// All of them, from least to most.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::Edit, Self::Full];

    /// The name on the wire and in a manifest.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Edit => "edit",
            Self::Full => "full",
        }
    }

    /// The profile of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rights| rights.as_str() == name)
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_in_order_and_read_by_their_names() {
        assert!(Rights::ALL.is_sorted());
        assert_eq!(Rights::default(), Rights::ALL[0]);
        for rights in Rights::ALL {
            assert_eq!(Rights::parse(rights.as_str()), Some(rights));
            assert_eq!(serde_json::to_value(rights).unwrap(), rights.as_str());
        }
        assert_eq!(Rights::parse("root"), None);
    }
}
