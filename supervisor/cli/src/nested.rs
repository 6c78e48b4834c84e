//! What this program is part of: the job of a supervisor around it, if any, how deep that is, and what agents may do from
//! there. Told by its own environment and by the processes above it; the stricter of both counts.

use std::env;

use fanin_process::Ancestry;
use fanin_protocol::{PARENT_VARIABLE, ParentMark, RIGHTS_VARIABLE, Rights};

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

/// What agents may do at the most that are started from here.
///
/// # Errors
///
/// [`Refused`] where the variable in its own environment names no rights.
pub(crate) fn rights() -> Result<Rights, Refused> {
    Ok(most(env::var(RIGHTS_VARIABLE).ok().as_deref())?.min(Ancestry::own().rights))
}

fn most(variable: Option<&str>) -> Result<Rights, Refused> {
    let Some(name) = variable.filter(|name| !name.is_empty()) else { return Ok(Rights::Full) };
    Rights::parse(name).ok_or_else(|| {
        let names = Rights::ALL.map(Rights::as_str).join(", ");
        Refused::one(format!("{RIGHTS_VARIABLE} is {name:?}; it can be {names}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_of_an_agent_that_started_us_are_read_or_refused() {
        assert_eq!(most(None).unwrap(), Rights::Full);
        assert_eq!(most(Some("")).unwrap(), Rights::Full);
        assert_eq!(most(Some("edit")).unwrap(), Rights::Edit);
        assert!(most(Some("all")).unwrap_err().problems[0].contains("read-only, edit, full"));
    }
}
