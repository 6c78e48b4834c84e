//! From the words of the protocol to those of the library, and back.

use fanin_protocol::wire::{self, After, EventFilter, NewJob};
use fanin_protocol::{Named, Spec};
use fanin_supervisor::{After as Needed, Cancelled, Filter, Group, GroupInfo, JobSpec, OutputPage, Waited};

use crate::fault::CallFault;

/// Members of a group that an answer names; `list` shows the others.
const FIRST_MEMBERS: usize = 1_000;

/// A job of a launch.
pub(crate) fn job(index: usize, job: NewJob) -> Result<JobSpec, CallFault> {
    check_folder(index, &job.spec)?;
    let mut spec = JobSpec::new(job.label, job.spec)
        .limits(job.limits)
        .after(job.after.into_iter().map(needed))
        .on_failed_dependency(job.on_failed_dependency)
        .sends(job.sends.into_iter().map(needed));
    if let Some(id) = job.id {
        spec = spec.id(id);
    }
    Ok(if job.again { spec.again() } else { spec })
}

fn needed(after: After) -> Needed {
    match after {
        After::Place(place) => Needed::Place(place),
        After::Name(name) => Needed::Name(name.into()),
    }
}

fn check_folder(index: usize, spec: &Spec) -> Result<(), CallFault> {
    let folder = match spec {
        Spec::Command(command) => command.cwd.as_ref(),
        Spec::Agent(agent) => agent.cwd.as_ref(),
        Spec::Watch(watch) => watch.command().and_then(|command| command.cwd.as_ref()),
    };
    match folder.filter(|folder| !folder.is_absolute()) {
        Some(folder) => {
            Err(CallFault::RelativeFolder { index, folder: folder.to_string_lossy().into_owned() })
        }
        None => Ok(()),
    }
}

/// What was launched.
pub(crate) fn launched(group: &Group) -> wire::Launched {
    wire::Launched {
        group: group.id().clone(),
        jobs: group.jobs().to_vec(),
        lifetimes: group.lifetimes().to_vec(),
        created: group.is_created(),
        spec_differs: group.is_different(),
    }
}

/// What a wait found.
pub(crate) fn waited(waited: &Waited) -> wire::Waited {
    wire::Waited { entries: waited.entries.clone(), already_delivered: waited.already_delivered }
}

/// What a cancel did.
pub(crate) const fn cancelled(cancelled: Cancelled) -> wire::Cancelled {
    match cancelled {
        Cancelled::Stopping => wire::Cancelled::Stopping,
        Cancelled::Ended => wire::Cancelled::Ended,
        Cancelled::AlreadyEnded(status) => wire::Cancelled::AlreadyEnded(status),
    }
}

/// A group.
pub(crate) fn group(info: GroupInfo) -> wire::GroupInfo {
    let GroupInfo { group, session, parent, policy, spent, mut members, result, voided, is_taken } = info;
    let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
    members.truncate(FIRST_MEMBERS);
    let first = members;
    wire::GroupInfo { group, session, parent, policy, spent, members: count, first, result, voided, is_taken }
}

/// A part of an output. What was dropped before it is told by its offset.
pub(crate) fn page(page: OutputPage) -> wire::OutputPage {
    let OutputPage { bytes, offset, next, total, dropped: _, run, is_over } = page;
    wire::OutputPage { bytes, offset, next, total, run, is_over }
}

/// Which events are wanted. One that is wrong is told by the call that uses it.
pub(crate) fn filter(wanted: EventFilter) -> Filter {
    let filter = match wanted.about {
        None => Filter::all(),
        Some(Named::Session(id)) => Filter::session(id),
        Some(Named::Job(id)) => Filter::job(id),
        Some(Named::Group(id)) => Filter::group(id),
    };
    match wanted.kinds {
        None => filter,
        Some(kinds) => filter.kinds(kinds),
    }
}
