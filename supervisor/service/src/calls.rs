//! Calls that wait: for the gate, for a commit, for jobs. Each is a task of its own, and dropped it has done nothing that its
//! client would have to know of.

use std::time::Duration;

use fanin_protocol::Fault;
use fanin_protocol::wire::{Answer, Call, CancelCall, LaunchCall, OpenSession, StopWhat, WaitCall};
use fanin_protocol::{GroupId, JobId, Lifetime, MessageId, Named, SessionId};
use fanin_supervisor::{Message, SessionOptions, StopTarget, Wake};

use crate::client::Client;
use crate::convert;
use crate::fault::AsFault;
use crate::held::Held;
use crate::launch;
use crate::stream;

/// Carries out a call.
pub(crate) async fn carry_out(client: &Client, id: u64, call: Call) -> Result<Answer, Fault> {
    match call {
        Call::OpenSession(open) => open_session(client, open).await,
        Call::CloseSession { session } => {
            let closed = client.supervisor().opened(session).close().await;
            closed.map(|()| Answer::Done).map_err(|error| error.fault())
        }
        Call::Launch(launch) => launch::launch(client, launch).await,
        Call::Run { launch, limit_ms } => launch::run(client, id, launch, limit_ms).await,
        Call::FanOutCommit { of } => {
            let launch: LaunchCall = client.holdings.take_fan_out(of)?;
            launch::launch(client, launch).await
        }
        Call::WaitAll(wait) => wait_jobs(client, id, wait, true).await,
        Call::WaitAny(wait) => wait_jobs(client, id, wait, false).await,
        Call::WaitGroup { session, group, limit_ms } => {
            wait_group(client, id, (session, group), limit_ms).await
        }
        Call::NextWake { session } => {
            let launcher = client.caller.launcher(client.supervisor(), session.as_ref())?;
            let wake = launcher.next_wake().await.map_err(|error| error.fault())?;
            offer_wake(client, id, wake)
        }
        Call::NextMessage { session } => next_message(client, id, session).await,
        Call::Ack { of } => {
            let offer = client.holdings.take_offer(of)?;
            offer.ack().await.map(|()| Answer::Done).map_err(|error| error.fault())
        }
        Call::TurnBegin { session } => {
            let turn = client.supervisor().opened(session).turn().await.map_err(|error| error.fault())?;
            client.holdings.keep(id, Held::Turn(turn))?;
            Ok(Answer::Done)
        }
        Call::TurnEnd { of, failed } => {
            let turn = client.holdings.take_turn(of)?;
            let ended = match failed {
                None => turn.end().await,
                Some(why) => turn.fail(why).await,
            };
            ended.map(|()| Answer::Done).map_err(|error| error.fault())
        }
        Call::Cancel(cancel) => cancel_jobs(client, cancel).await,
        Call::Extend { job, lifetime, text } => extend(client, &job, lifetime, text).await,
        Call::ExtendTime { job, by_ms } => {
            let extended = client.supervisor().extend_time(&job, Duration::from_millis(by_ms)).await;
            extended.map(Answer::Extended).map_err(|error| error.fault())
        }
        Call::Post { session, text, key } => post(client, session, text, key).await,
        Call::Promote(named) => promote(client, named).await,
        Call::Group { group } => {
            let info = client.supervisor().group(&group).await.map_err(|error| error.fault())?;
            Ok(Answer::GroupInfo(Box::new(convert::group(info))))
        }
        Call::Follow(output) => stream::follow(client, id, output).await,
        Call::Subscribe(subscribe) => stream::subscribe(client, id, subscribe).await,
        // They wait for nothing, and were answered before.
        Call::FanOutBegin(_)
        | Call::FanOutAdd { .. }
        | Call::Release { .. }
        | Call::List(_)
        | Call::Get(_)
        | Call::Why(_)
        | Call::Find { .. }
        | Call::Progress { .. }
        | Call::Output(_)
        | Call::Account(_)
        | Call::Status
        | Call::Shutdown { .. } => Err(crate::fault::CallFault::Internal.into()),
    }
}

/// True for a call that changes something: its answer says up to where the records tell of it.
pub(crate) const fn changes(call: &Call) -> bool {
    match call {
        Call::OpenSession(_)
        | Call::CloseSession { .. }
        | Call::Launch(_)
        | Call::Run { .. }
        | Call::FanOutCommit { .. }
        | Call::Ack { .. }
        | Call::TurnBegin { .. }
        | Call::TurnEnd { .. }
        | Call::Cancel(_)
        | Call::Extend { .. }
        | Call::ExtendTime { .. }
        | Call::Post { .. }
        | Call::Promote(_) => true,
        Call::FanOutBegin(_)
        | Call::FanOutAdd { .. }
        | Call::WaitAll(_)
        | Call::WaitAny(_)
        | Call::WaitGroup { .. }
        | Call::NextWake { .. }
        | Call::NextMessage { .. }
        | Call::Release { .. }
        | Call::List(_)
        | Call::Get(_)
        | Call::Why(_)
        | Call::Group { .. }
        | Call::Find { .. }
        | Call::Progress { .. }
        | Call::Output(_)
        | Call::Follow(_)
        | Call::Subscribe(_)
        | Call::Account(_)
        | Call::Status
        | Call::Shutdown { .. } => false,
    }
}

async fn open_session(client: &Client, open: OpenSession) -> Result<Answer, Fault> {
    let OpenSession { session, profile, bounds } = client.caller.session(open)?;
    let session = session.unwrap_or_else(|| SessionId::from_uuid(uuid::Uuid::new_v4().into_bytes()));
    let options = SessionOptions { profile, bounds };
    let opened = client.supervisor().session_with(session, options).await.map_err(|error| error.fault())?;
    client.caller.has_opened(opened.id());
    Ok(Answer::Session(opened.id().clone()))
}

async fn wait_jobs(client: &Client, id: u64, wait: WaitCall, is_all: bool) -> Result<Answer, Fault> {
    let launcher = client.caller.launcher(client.supervisor(), wait.session.as_ref())?;
    let limit = wait.limit_ms.map(Duration::from_millis);
    let offered = if is_all {
        launcher.wait_all_offered(&wait.jobs, limit).await
    } else {
        launcher.wait_any_offered(&wait.jobs, limit).await
    };
    let offered = offered.map_err(|error| error.fault())?;
    let answer = Answer::Waited(convert::waited(&offered));
    client.holdings.keep(id, Held::Jobs(offered))?;
    Ok(answer)
}

async fn wait_group(
    client: &Client,
    id: u64,
    (session, group): (Option<SessionId>, GroupId),
    limit_ms: Option<u64>,
) -> Result<Answer, Fault> {
    let launcher = client.caller.launcher(client.supervisor(), session.as_ref())?;
    let offered = launcher.wait_group_offered(&group, limit_ms.map(Duration::from_millis)).await;
    let offered = offered.map_err(|error| error.fault())?;
    let answer =
        Answer::Group { result: offered.result.clone(), already_delivered: offered.already_delivered };
    client.holdings.keep(id, Held::Group(offered))?;
    Ok(answer)
}

fn offer_wake(client: &Client, id: u64, wake: Wake) -> Result<Answer, Fault> {
    let answer = Answer::Wake(wake.shared());
    client.holdings.keep(id, Held::Wake(wake))?;
    Ok(answer)
}

async fn next_message(client: &Client, id: u64, session: SessionId) -> Result<Answer, Fault> {
    let message = client.supervisor().opened(session).next_message().await;
    match message.map_err(|error| error.fault())? {
        Message::Wake(wake) => offer_wake(client, id, wake),
        Message::Words(words) => {
            let answer = Answer::Words { key: words.key().clone(), text: words.text().into() };
            client.holdings.keep(id, Held::Words(words))?;
            Ok(answer)
        }
        Message::Hit(hit) => {
            let answer = Answer::Hit(hit.clone());
            client.holdings.keep(id, Held::Hit(hit))?;
            Ok(answer)
        }
    }
}

async fn cancel_jobs(client: &Client, cancel: CancelCall) -> Result<Answer, Fault> {
    let what = match cancel.what {
        StopWhat::Job(job) => match job.lifetime {
            Some(lifetime) => StopTarget::Exact(job.job, lifetime),
            None => StopTarget::Job(job.job),
        },
        StopWhat::Group(group) => StopTarget::Group(group),
    };
    let stopped = client.supervisor().stop(what, cancel.grace_ms.map(Duration::from_millis)).await;
    let stopped = stopped.map_err(|error| error.fault())?.into_iter();
    Ok(Answer::Cancelled(stopped.map(|(job, stopped)| (job, convert::cancelled(stopped))).collect()))
}

async fn extend(
    client: &Client,
    job: &JobId,
    lifetime: Option<Lifetime>,
    text: String,
) -> Result<Answer, Fault> {
    let posted = match lifetime {
        Some(lifetime) => client.supervisor().extend_exact(job, lifetime, text).await,
        None => client.supervisor().extend(job, text).await,
    };
    posted
        .map(|posted| Answer::Posted { key: posted.key, created: posted.created })
        .map_err(|error| error.fault())
}

async fn post(
    client: &Client,
    session: SessionId,
    text: String,
    key: Option<MessageId>,
) -> Result<Answer, Fault> {
    let posted = client.supervisor().opened(session).post(text, key).await;
    posted
        .map(|posted| Answer::Posted { key: posted.key, created: posted.created })
        .map_err(|error| error.fault())
}

async fn promote(client: &Client, named: Named) -> Result<Answer, Fault> {
    let promoted = match named {
        Named::Job(job) => client.supervisor().promote(&job).await,
        Named::Group(group) => client.supervisor().promote_group(&group).await,
        Named::Session(session) => {
            let message = format!("{session} is a session; a job or a group is promoted");
            return Err(crate::fault::CallFault::UnknownCall(message).into());
        }
    };
    promoted.map(Answer::Promoted).map_err(|error| error.fault())
}
