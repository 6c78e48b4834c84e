//! Running an earlier run again: which of its tasks are run, and one result of both. It decides; the earlier run is read
//! elsewhere.

use std::path::Path;

use fanin_protocol::limits::{
    HANDED_JSON_BYTES_MAX, RESULT_BYTES_MAX, RESULT_ENTRIES_MAX, RESULT_ENTRY_BYTES_MAX,
};
use fanin_protocol::spec::millis;
use fanin_protocol::{
    CombinedResult, Counts, DEPENDENCIES_VARIABLE, Dependencies, GroupId, JobLimits, Outcome, Policy,
    ResultEntry, SessionId, Spec, Status,
};

use crate::args::Flags;
use crate::keep::Earlier;
use crate::plan::{Plan, Refused, Task};
use crate::tasks::{Member, Origin};

/// The plan of running `earlier` again. What completed is carried, the rest is run as it was, wherever fanin is started
/// now; a flag wins over the plan.
///
/// # Errors
///
/// [`Refused`], where a task with these flags cannot be launched.
pub(crate) fn plan(earlier: Earlier, flags: &Flags) -> Result<Plan, Refused> {
    let Earlier { group, started_in, mut plan } = earlier;
    let all = plan.tasks.len();
    for (n, task) in plan.tasks.iter_mut().enumerate().filter(|(_, task)| task.carried.is_none()) {
        adjust(task, &started_in, flags);
        let checked = task.spec.check().and_then(|()| task.limits.check());
        checked.map_err(|error| Refused::one(format!("--again: task {}: {error}", n + 1)))?;
    }
    let left = plan.left().count();
    plan.policy = rest(plan.policy, all - left, left);
    plan.again_of = Some(group);
    Ok(plan)
}

fn adjust(task: &mut Task, started_in: &Path, flags: &Flags) {
    match &mut task.spec {
        Spec::Command(command) => {
            let folder = command.cwd.as_deref().unwrap_or(Path::new(""));
            command.cwd = Some(started_in.join(folder));
            command.env.extend(flags.variables());
        }
        Spec::Agent(agent) => {
            let folder = agent.cwd.as_deref().unwrap_or(Path::new(""));
            agent.cwd = Some(started_in.join(folder));
            agent.env.extend(flags.variables());
        }
        // No run has one among its tasks.
        Spec::Watch(_) => {}
    }
    let flag = JobLimits { run_ms: flags.timeout.map(millis), ..JobLimits::NONE };
    task.limits = flag.or(task.limits);
}

/// The policy for the tasks that are left. Completed ones count for it as they did; a count that was reached already
/// asks for nothing more, and one that the rest cannot reach stops nothing.
fn rest(policy: Policy, carried: usize, left: usize) -> Policy {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Policy {
        ok: policy.ok.map(|n| n.saturating_sub(number(carried))).filter(|n| *n > 0),
        not_ok: policy.not_ok.filter(|n| *n <= number(left)),
        at_ms: policy.at_ms,
        budget: policy.budget,
    }
}

/// What tasks need, by their places among those that are run. What is carried has completed: nobody waits for it, and what
/// it put out then is told beside what comes now.
///
/// # Errors
///
/// The place of a task that cannot be told, and why.
pub(crate) fn renumber(tasks: &mut [Task]) -> Result<(), (usize, String)> {
    let carried: Vec<Option<ResultEntry>> =
        tasks.iter().map(|task| task.carried.as_ref().map(|carried| carried.entry.clone())).collect();
    let mut ran = 0..;
    let places: Vec<Option<u32>> =
        tasks.iter().map(|task| task.carried.is_none().then(|| ran.next()).flatten()).collect();
    let place = |at: u32| places.get(usize::try_from(at).ok()?).copied().flatten();
    for (index, task) in tasks.iter_mut().enumerate() {
        let met = task.depends.iter().filter_map(|at| carried.get(usize::try_from(*at).ok()?)?.clone());
        let met = Dependencies { entries: met.collect(), ..Dependencies::default() };
        if !met.is_empty() {
            let told = met.to_json(HANDED_JSON_BYTES_MAX).map_err(|problem| (index, problem))?;
            let env = match &mut task.spec {
                Spec::Command(command) => &mut command.env,
                Spec::Agent(agent) => &mut agent.env,
                Spec::Watch(_) => continue,
            };
            env.insert(DEPENDENCIES_VARIABLE.to_owned(), told);
        }
        task.depends = task.depends.iter().filter_map(|at| place(*at)).collect();
        // What has completed receives nothing any more.
        task.sends = task.sends.iter().filter_map(|at| place(*at)).collect();
    }
    Ok(())
}

/// The result of no task at all, for [`merge`].
pub(crate) fn nothing(group: &GroupId, session: &SessionId) -> CombinedResult {
    CombinedResult {
        group: group.clone(),
        session: session.clone(),
        outcome: Outcome::Empty,
        counts: Counts::default(),
        stopped_by: None,
        duration_ms: 0,
        cost_usd_micros: None,
        cost_unknown: 0,
        tokens: None,
        entries: Vec::new(),
        entries_omitted: 0,
        unreaped: 0,
        nonce: 0,
    }
}

/// One result of all tasks: `ran` is that of the tasks that were run, in their order; the others are carried as they
/// were. It follows the bounds of a combined result, and its time is that of this run alone.
pub(crate) fn merge(mut ran: CombinedResult, members: &[Member]) -> CombinedResult {
    let carried = (0..).zip(members).filter_map(|(index, member)| match &member.origin {
        Origin::Carried(carried) => Some(ResultEntry { index, ..carried.entry.clone() }),
        Origin::Ran(_) => None,
    });
    let places: Vec<u32> =
        (0..).zip(members).filter(|(_, member)| member.carried_from().is_none()).map(|(n, _)| n).collect();
    if places.len() == members.len() {
        return ran;
    }
    let mut entries = std::mem::take(&mut ran.entries);
    for entry in &mut entries {
        let place = usize::try_from(entry.index).ok().and_then(|index| places.get(index));
        entry.index = place.copied().unwrap_or(entry.index);
        let root = entry.root.and_then(|root| places.get(usize::try_from(root).ok()?));
        entry.root = root.copied().or(entry.root);
    }
    for entry in carried {
        ran.counts.launched += 1;
        ran.counts.add(entry.status);
        entries.push(entry);
    }
    if members.len() > RESULT_ENTRIES_MAX {
        entries.retain(|entry| entry.status != Status::Completed);
    }
    entries.sort_by_key(|entry| entry.index);
    entries.truncate(RESULT_ENTRIES_MAX);
    let share = share(members.len());
    entries.iter_mut().for_each(|entry| entry.shorten(share));
    ran.outcome = Outcome::of(ran.counts);
    ran.entries_omitted =
        ran.counts.launched.saturating_sub(u32::try_from(entries.len()).unwrap_or(u32::MAX));
    CombinedResult { entries, ..ran }
}

/// What a result of so many tasks has of the output of each.
pub(crate) fn share(tasks: usize) -> usize {
    RESULT_ENTRY_BYTES_MAX.min(RESULT_BYTES_MAX / tasks.max(1))
}

#[cfg(test)]
mod tests;
