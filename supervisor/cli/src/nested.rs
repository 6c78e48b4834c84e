//! What this program is part of: the job of a supervisor around it, if any, and how deep that is. Told by its own
//! environment and by the processes above it; the stricter of both counts.

use std::env;

use fanin_process::Ancestry;
use fanin_protocol::{PARENT_VARIABLE, ParentMark};

use crate::plan::Refused;

/// The job that this program is part of.
///
/// # Errors
///
/// [`Refused`] where the mark in its own environment is damaged.
pub(crate) fn parent() -> Result<Option<ParentMark>, Refused> {
    let ours = ParentMark::read(env::var_os(PARENT_VARIABLE).as_deref());
    let parent = ours.map_err(|error| Refused::one(error.to_string()))?;
    Ok(Ancestry { parent, ..Ancestry::default() }.within(Ancestry::own().clone()).parent)
}

/// The job that this program is part of, where it may launch tasks that are one level deeper (SC-8).
///
/// # Errors
///
/// As [`parent`]; and where they would be too deep.
pub(crate) fn parent_of_tasks(depth_max: u32) -> Result<Option<ParentMark>, Refused> {
    let Some(parent) = parent()? else { return Ok(None) };
    if !parent.is_at_limit(depth_max) {
        return Ok(Some(parent));
    }
    let ParentMark { job, depth, .. } = &parent;
    let limit = depth_max.min(parent.depth_max);
    Err(Refused::one(format!(
        "this is a run inside job {job} at depth {depth}, and its tasks would be deeper than {limit}, which is the limit; \
         run it from further outside"
    )))
}

/// True where this program is part of a job, or claims to be.
pub(crate) fn is_inside() -> bool {
    env::var_os(PARENT_VARIABLE).is_some() || Ancestry::own().parent.is_some()
}
