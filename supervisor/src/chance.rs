//! Chance, drawn in one place: ids, the seed of an epoch, and what only a run shall know.

use fanin_protocol::{GroupId, JobId, LogId, MessageId};
use uuid::Uuid;

/// A job id nobody has used.
pub(crate) fn job_id() -> JobId {
    JobId::from_uuid(Uuid::new_v4().into_bytes())
}

/// A group id nobody has used.
pub(crate) fn group_id() -> GroupId {
    GroupId::from_uuid(Uuid::new_v4().into_bytes())
}

/// A message's key nobody has used.
pub(crate) fn message_id() -> MessageId {
    MessageId::from_uuid(Uuid::new_v4().into_bytes())
}

/// A name for a new log.
pub(crate) fn log_id() -> LogId {
    LogId::from_uuid(Uuid::new_v4().into_bytes())
}

/// The seed from which an epoch's nonces are drawn.
pub(crate) fn seed() -> u64 {
    Uuid::new_v4().as_u64_pair().0
}

/// What nobody can guess: 244 bits of the system's own chance.
pub(crate) fn secret() -> [u8; 32] {
    let mut secret = [0; 32];
    let (one, other) = secret.split_at_mut(16);
    one.copy_from_slice(Uuid::new_v4().as_bytes());
    other.copy_from_slice(Uuid::new_v4().as_bytes());
    secret
}
