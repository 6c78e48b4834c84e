//! `subagent` and `task_parallel`: one launch, in the foreground or in the background.

use fanin_protocol::{CombinedResult, text};
use fanin_supervisor::{Backgrounded, Call, Group, GroupOptions, Returned};
use rmcp::RoleServer;
use rmcp::service::RequestContext;

use crate::arguments::Launch;
use crate::calls::{Delivery, Owed};
use crate::fault::ToolError;
use crate::host::{Host, Problem};
use crate::progress::Patience;
use crate::reply::{Over, Reply, Running as Goes};
use crate::running::Running;
use crate::server::Server;

/// Launches, and waits where that was asked for. A call that its client cancels meanwhile stops what it launched; one that
/// has come to its limit stops nothing (BAR-12, BAR-16).
///
/// # Errors
///
/// [`ToolError`]; nothing was launched, or its result does not come here.
pub(crate) async fn launch<H: Host>(
    server: &Server<H>,
    launch: Launch,
    context: &RequestContext<RoleServer>,
    delivery: &mut Delivery,
) -> Result<Reply, ToolError> {
    let Launch { tasks, background, key, policy, budget } = launch;
    let is_single = tasks.len() == 1;
    let made = server.host().jobs(tasks, budget).map_err(|problems| refused(problems, is_single))?;
    let (specs, policy) = (made.jobs, policy.with_budget(made.budget));
    let running = server.start().await?;
    server.host().launching(&running.supervisor, &specs)?;
    let options = GroupOptions { id: key, policy };
    if background {
        let group = running.launch(running.session.fan_out_with(options, specs), |group| group).await?;
        let open = looked(&running, &group).await;
        let left = open.tasks.iter().filter(|task| !task.is_over()).count();
        let summary = match group.jobs().len() {
            of if !group.is_created() => format!("{left} of its {of} jobs are not over"),
            1 => format!("1 job is launched in the background as group `{}`", group.id()),
            count => format!("{count} jobs are launched in the background as group `{}`", group.id()),
        };
        let is_told = running.why(&group).await.is_ok_and(|why| why.is_empty());
        let is_woken = server.host().is_woken();
        let next = if is_told { told_before(&group) } else { told_later(&group, is_woken) };
        let reply = Reply { running: vec![open], next: Some(next), ..Reply::new(summary) };
        return Ok(known(reply, &group));
    }
    let call = running.launch(running.session.call(options, specs), Call::group).await?;
    let group = call.group().clone();
    let patience = Patience::of(context);
    let work = async {
        tokio::select! {
            biased;
            // Before the result: nobody would hear it here.
            () = running.turn_over() => Some(Ok(Returned::Backgrounded(Backgrounded::Promoted))),
            returned = call.returned(patience.limit()) => Some(returned),
            () = context.ct.cancelled() => None,
        }
    };
    let look = || running.tasks(std::slice::from_ref(&group), &[]);
    match patience.wait(context, look, work).await {
        Some(Ok(Returned::Over(result))) => {
            let reply = Reply::new(summary(&result));
            let results = vec![Over::new(&result, result.already_delivered)];
            delivery.push(Owed::Group(result));
            Ok(Reply { results, ..known(reply, &group) })
        }
        Some(Ok(Returned::Backgrounded(why))) => {
            let is_woken = server.host().is_woken();
            let reply = backgrounded(&running, &group, (why, is_woken), &patience).await;
            Ok(known(reply, &group))
        }
        Some(Err(error)) => Err(error.into()),
        None => {
            // What an earlier call launched is that call's. At the end of the server all is stopped anyway.
            if group.is_created() && !server.is_ending() {
                group.cancel().await?;
            }
            Ok(Reply::new("the call was cancelled, and what it launched is told to stop"))
        }
    }
}

/// Where there is one task, its place says nothing.
pub(crate) fn refused(problems: Vec<Problem>, is_single: bool) -> ToolError {
    if !is_single {
        return ToolError::Tasks(problems);
    }
    let line = |Problem { key, what, .. }: &Problem| {
        if key.is_empty() { what.clone() } else { format!("{key}: {what}") }
    };
    ToolError::Arguments(problems.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// A group as it stands. What was launched is said to be, also where nobody can tell how it stands.
async fn looked(running: &Running, group: &Group) -> Goes {
    let looked = running.look(group.id()).await;
    looked.unwrap_or_else(|_| Goes { group: group.id().clone(), tasks: Vec::new() })
}

async fn backgrounded(
    running: &Running,
    group: &Group,
    (why, is_woken): (Backgrounded, bool),
    patience: &Patience,
) -> Reply {
    let open = looked(running, group).await;
    let left = open.tasks.iter().filter(|task| !task.is_over()).count();
    let of = open.tasks.len();
    let summary = match why {
        Backgrounded::Limit => {
            let limit = text::duration(fanin_protocol::spec::millis(patience.limit()));
            format!("{left} of {of} jobs still run after {limit}; nothing was stopped")
        }
        Backgrounded::Promoted => {
            format!("the call was sent to the background; {left} of {of} jobs still run")
        }
    };
    Reply { running: vec![open], next: Some(told_later(group, is_woken)), ..Reply::new(summary) }
}

/// A call that has found what an earlier one launched says so.
fn known(reply: Reply, group: &Group) -> Reply {
    if group.is_created() {
        return reply;
    }
    let differs = if group.is_different() { "; its tasks are not those of this call" } else { "" };
    let id = group.id();
    let summary = format!(
        "key `{id}` is that of an earlier call{differs}, and nothing was launched: {}",
        reply.summary
    );
    Reply { summary, ..reply }
}

/// How a parent goes on that has something in the background.
fn told_later(group: &Group, is_woken: bool) -> String {
    if is_woken {
        return format!(
            "Go on with other work, or end your turn; do not poll, and do not do these tasks yourself. The result comes \
             once, as your next prompt, when all that you have launched is over. Only if you need it within this turn, \
             call wait_for_subagents({{\"ids\":[\"{}\"]}}): it returns as soon as they are over.",
            group.id()
        );
    }
    format!(
        "Go on with other work; do not poll, and do not do these tasks yourself. The result comes once, when all of them \
         are over: with the answer of your next fanin call after that. If there is nothing else to do, call \
         wait_for_subagents({{\"ids\":[\"{}\"]}}): it returns as soon as they are over.",
        group.id()
    )
}

/// How a parent gets a result again.
fn told_before(group: &Group) -> String {
    format!(
        "Its result was handed over before; wait_for_subagents({{\"ids\":[\"{}\"]}}) gives it again.",
        group.id()
    )
}

/// A group that is over, in one sentence.
pub(crate) fn summary(result: &CombinedResult) -> String {
    let counts = result.counts;
    let mut summary = format!("{} of {} completed", counts.completed, counts.launched);
    for (count, how) in [(counts.error, "failed"), (counts.cancelled, "cancelled")] {
        if count > 0 {
            summary.push_str(&format!(", {count} {how}"));
        }
    }
    format!("{summary}, in {}", text::duration(result.duration_ms))
}
