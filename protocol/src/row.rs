//! What kinds of things a store keeps a row for. What a row holds is the machine's business.

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowKind {
    /// The store as a whole; one row with key 0.
    Store,
    /// A session.
    Session,
    /// A group.
    Group,
    /// A job in one of its lifetimes.
    Job,
    /// A posted message.
    Message,
}

impl RowKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Store, Self::Session, Self::Group, Self::Job, Self::Message];

    /// The name in a store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Session => "session",
            Self::Group => "group",
            Self::Job => "job",
            Self::Message => "message",
        }
    }
}
