//! Calls that look, and wait for nothing: they are answered where they come in.

use std::ops::ControlFlow;

use fanin_protocol::limits::{LIST_JOBS_MAX, REASON_IDS_MAX};
use fanin_protocol::wire::{Answer, Call, JobCall, LaunchCall, OutputCall, ServiceState, StatusInfo};
use fanin_protocol::{Fault, JobFilter, Named, SessionId};

use crate::client::Client;
use crate::convert;
use crate::fault::{AsFault, CallFault};

/// The answer to a call that waits for nothing, or the call where it does. `bytes` are those that it came in.
pub(crate) fn at_once(
    client: &Client,
    id: u64,
    call: Call,
    bytes: usize,
) -> ControlFlow<Result<Answer, Fault>, Call> {
    let supervisor = client.supervisor();
    ControlFlow::Break(match call {
        Call::Get(job) => get(client, job),
        Call::List(filter) => list(client, filter),
        Call::Why(named) => why(client, named),
        Call::Find { start } => supervisor.find(&start).map(Answer::Named).map_err(|error| error.fault()),
        Call::Progress { job } => Ok(Answer::Progress(supervisor.progress(&job))),
        Call::Output(output) => page(client, output),
        Call::Account(of) => supervisor.account(&of).map(Answer::Account).map_err(|error| error.fault()),
        Call::Status => status(client),
        Call::Release { of } => {
            client.holdings.release(of);
            Ok(Answer::Done)
        }
        Call::FanOutBegin(launch) => begin_fan_out(client, id, launch, bytes),
        Call::FanOutAdd { of, jobs } => {
            client.holdings.add_to_fan_out(of, jobs, bytes).map(|()| Answer::Done).map_err(Fault::from)
        }
        Call::Shutdown { drain_ms } => {
            client.ask_to_stop(drain_ms);
            Ok(Answer::Done)
        }
        waits @ (Call::OpenSession(_)
        | Call::CloseSession { .. }
        | Call::Launch(_)
        | Call::Run { .. }
        | Call::FanOutCommit { .. }
        | Call::WaitAll(_)
        | Call::WaitAny(_)
        | Call::WaitGroup { .. }
        | Call::NextWake { .. }
        | Call::NextMessage { .. }
        | Call::Ack { .. }
        | Call::TurnBegin { .. }
        | Call::TurnEnd { .. }
        | Call::Cancel(_)
        | Call::Extend { .. }
        | Call::ExtendTime { .. }
        | Call::Post { .. }
        | Call::Promote(_)
        | Call::Group { .. }
        | Call::Follow(_)
        | Call::Subscribe(_)) => return ControlFlow::Continue(waits),
    })
}

fn get(client: &Client, job: JobCall) -> Result<Answer, Fault> {
    let info = match job.lifetime {
        Some(lifetime) => client.supervisor().get_exact(&job.job, lifetime),
        None => client.supervisor().get(&job.job),
    };
    info.map(|info| Answer::Job(Box::new(info))).map_err(|error| error.fault())
}

fn list(client: &Client, mut filter: JobFilter) -> Result<Answer, Fault> {
    filter.limit = filter.limit.min(LIST_JOBS_MAX);
    client.supervisor().list(&filter).map(Answer::Jobs).map_err(|error| error.fault())
}

fn why(client: &Client, named: Named) -> Result<Answer, Fault> {
    let reasons = match named {
        Named::Job(job) => client.supervisor().why(&job),
        Named::Group(group) => client.supervisor().why_group(&group),
        Named::Session(session) => return why_session(client, session),
    };
    reasons.map(Answer::Reasons).map_err(|error| error.fault())
}

fn page(client: &Client, output: OutputCall) -> Result<Answer, Fault> {
    let OutputCall { job, lifetime, offset, max } = output;
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let page = match lifetime {
        Some(lifetime) => client.supervisor().read_output_exact(&job, lifetime, offset, max),
        None => client.supervisor().read_output(&job, offset, max),
    };
    page.map(|page| Answer::Page(convert::page(page))).map_err(|error| error.fault())
}

fn begin_fan_out(client: &Client, id: u64, launch: LaunchCall, bytes: usize) -> Result<Answer, Fault> {
    // What it would be refused for at its end is told before all of it has come.
    client.caller.launcher(client.supervisor(), launch.session.as_ref())?;
    client.holdings.begin_fan_out(id, launch, bytes)?;
    Ok(Answer::Done)
}

fn why_session(client: &Client, session: SessionId) -> Result<Answer, Fault> {
    let owing = client.supervisor().opened(session).owing().map_err(|error| error.fault())?;
    let mut reasons = Vec::new();
    for group in owing.groups {
        reasons.extend(client.supervisor().why_group(&group).map_err(|error| error.fault())?);
        if reasons.len() >= REASON_IDS_MAX {
            break;
        }
    }
    Ok(Answer::Reasons(reasons))
}

fn status(client: &Client) -> Result<Answer, Fault> {
    let standings = client.supervisor().standings().map_err(|error| error.fault())?;
    let about = client.about();
    Ok(Answer::Status(Box::new(StatusInfo {
        program: about.program.clone(),
        pid: std::process::id(),
        since_ms: about.since_ms,
        state: if client.is_draining() { ServiceState::Draining } else { ServiceState::Serving },
        head: standings.head,
        running: standings.running,
        queued: standings.queued,
        open_groups: u32::try_from(standings.open_groups).unwrap_or(u32::MAX),
        clients: client.clients(),
    })))
}

/// The answer where it is too long for a frame: outputs are left out of the entries of a wait, which the handle in each reads.
pub(crate) fn shortened(answer: Answer) -> Result<Answer, CallFault> {
    match answer {
        Answer::Waited(mut waited) => {
            for output in waited.entries.iter_mut().filter_map(|entry| entry.output.as_mut()) {
                output.truncated |= !output.text.is_empty();
                output.text = "".into();
            }
            Ok(Answer::Waited(waited))
        }
        _ => Err(CallFault::AnswerTooLong),
    }
}
