//! Which command met which state: the pairs that a search has to reach, told from records and answers alone.

use fanin_machine::{KillStage, WaiterId};
use fanin_protocol::record::{StopTarget, TakenBy};
use fanin_protocol::{GroupId, JobId, NodeId, PartState, SessionId};

use crate::ledger::JobSeen;
use crate::mails;
use crate::op::{Aim, How, Op, Promoted, Wish};
use crate::parent::Offer;
use crate::world::World;

/// The pair of a command and what it finds; empty for what is no command. While the store opens or closes, the
/// command and that are the pair.
pub fn pair(world: &World, op: &Op) -> String {
    let found = match op {
        Op::Beat(_) | Op::Crash | Op::Forged(..) | Op::Wall(_) | Op::Why(_) | Op::WhyGroup(_) => {
            return String::new();
        }
        Op::Open => "Open".into(),
        Op::Drain => "Close drain".into(),
        Op::StopAll(_) => format!("Close stop, {}", runs(world)),
        Op::Suspend(_) => format!("Close suspend, {}", runs(world)),
        Op::Finish => format!("Close finish, {}", runs(world)),
        Op::Session(id) => format!("Session open, {}", session(world, id)),
        Op::Bounded(id, _) => format!("Session open agent, {}", session(world, id)),
        Op::CloseSession(id) => format!("Session close, {}", session(world, id)),
        Op::Turn(id) => format!("Session turn, {}", session(world, id)),
        Op::Launch(launching) => {
            let verb = if launching.joins { "start" } else { "fan-out" };
            let known = world.ledger.groups.contains_key(&launching.group)
                || launching.jobs.iter().any(|id| world.ledger.jobs.contains_key(id));
            let known = match (known, launching.again) {
                (true, true) => "again",
                (true, false) => "known",
                (false, _) => "new",
            };
            let call = if launching.foreground.is_some() { " in the foreground" } else { "" };
            let verb = if launching.needs.is_empty() { verb } else { "plan" };
            format!("Launch {verb}{call}, {known}, {}", node(world, &launching.parent))
        }
        Op::Wait(_, Wish::Mail(..)) => format!("Take mail, {}", mailed(world, op)),
        Op::Wait(_, wanted) => format!("Take {}", taken(world, wanted)),
        Op::Leave(id) => format!("Release, {}", waiter(world, *id)),
        Op::Promote(Promoted::Job(id)) => format!("Release promoted job, {}", calls(world, of(world, id))),
        Op::Promote(Promoted::Group(id)) => format!("Release promoted group, {}", calls(world, Some(id))),
        Op::Expire(id) => format!("Release at its limit, {}", waiter(world, *id)),
        Op::Ack(id) => format!("Ack, {}", waiter(world, *id)),
        Op::Stop(Aim::Job(id), ..) => format!("Stop job, {}", job(world, id)),
        Op::Stop(Aim::Exact(id), ..) => format!("Stop exact, {}", job(world, id)),
        Op::Stop(Aim::Other(_), ..) => "Stop exact, another lifetime".into(),
        Op::Stop(Aim::Old(_), ..) => "Stop exact, an older life".into(),
        Op::Stop(Aim::Group(id), ..) => format!("Stop group, {}", group(world, id)),
        Op::Bind(id) => format!("Report bound, {}", job(world, id)),
        Op::Part(id, call, _, state) => {
            format!("Report part {state:?}, {} of {}", part(world, id, *call), job(world, id))
        }
        Op::Call(id, call, _) => format!("Report call, {} of {}", part(world, id, *call), job(world, id)),
        Op::Used(id, ..) => format!("Report used, {}", job(world, id)),
        Op::TurnUsed(id, ..) => format!("Report turn used, {}", turn(world, id)),
        Op::Budget(..) => format!("Limit budget, {}", runs(world)),
        Op::Slots(_) => format!("Limit slots, {}", runs(world)),
        Op::Extend(id, _) => format!("Limit extend, {}", job(world, id)),
        Op::TurnPart(id, _, state) => format!("Report turn part {state:?}, {}", turn(world, id)),
        Op::End(id, how) => format!("Report ended {}, {}", ended(*how), job(world, id)),
        Op::Post(to, key) => {
            let known = if world.ledger.posts.contains_key(key) { "known" } else { "new" };
            match to {
                NodeId::Session(id) => format!("Post words, {known} to {}", session(world, id)),
                NodeId::Job(id) => format!("Post follow-up, {known} to {}", job(world, id)),
            }
        }
        Op::Fire(id) => format!("Report fired, {}", job(world, id)),
        Op::Send(..) => format!("Post mail, {}", mailed(world, op)),
        Op::Listen(id) => format!("Report listens, {}", job(world, id)),
        Op::Silent(id) => format!("Report silent, {}", job(world, id)),
        Op::Took(id, _) => format!("Report took, {}", job(world, id)),
        Op::Late(id, how) => {
            let had = if world.host.old_runs.contains_key(id) { "an older life" } else { NOBODY };
            format!("Report ended {}, {had}", ended(*how))
        }
        Op::Gone(id) => format!("Report gone, {}", job(world, id)),
        Op::TurnEnd(id, how) => format!("Report turn ended {}, {}", ended(*how), turn(world, id)),
        Op::After(_) | Op::Alarm => {
            let due = world.host.alarm.is_some_and(|at| at <= world.now.mono || *op == Op::Alarm);
            format!("Tick, {}", if due { "due" } else { "nothing due" })
        }
    };
    match epoch(world) {
        _ if found.ends_with(NOBODY) => String::new(),
        "" => found,
        epoch => {
            format!("{}, {epoch}", found.split_once(", ").map_or(found.as_str(), |(command, _)| command))
        }
    }
}

/// A turn that never was: there is nobody to report, and no command.
const NOBODY: &str = "no turn";

/// How far the epoch is, where it is not simply open.
fn epoch(world: &World) -> &'static str {
    match (world.opened, world.ledger.open, world.closing) {
        (false, false, _) if world.crashes > 0 => "after a close",
        (false, _, _) => "before the opening",
        (true, false, _) => "closed",
        (true, true, 1) => "draining",
        (true, true, 2) => "stopping",
        (true, true, _) => "",
    }
}

fn runs(world: &World) -> &'static str {
    let turns = world.ledger.sessions.values().any(|session| session.turn.is_some());
    match (world.ledger.running > 0, turns, world.ledger.queued > 0) {
        (true, ..) => "jobs run",
        (false, true, _) => "a turn is open",
        (false, false, true) => "jobs are queued",
        (false, false, false) => "nothing is open",
    }
}

fn session(world: &World, id: &SessionId) -> &'static str {
    match world.ledger.sessions.get(id) {
        None => "unknown session",
        Some(session) if session.closed => "closed session",
        Some(session) if session.turn.is_some() => "busy session",
        Some(_) => "idle session",
    }
}

fn node(world: &World, id: &NodeId) -> &'static str {
    match id {
        NodeId::Session(id) => session(world, id),
        NodeId::Job(id) => job(world, id),
    }
}

fn turn(world: &World, id: &SessionId) -> &'static str {
    match world.host.turns.get(id) {
        None => NOBODY,
        Some(run) if world.ledger.is_open(run.fence) => "open turn",
        Some(_) => "turn is over",
    }
}

fn job(world: &World, id: &JobId) -> &'static str {
    let Some(job) = world.ledger.jobs.get(id) else { return "unknown job" };
    let Some(fence) = job.run else { return queued(job) };
    let forced = world.host.stage(fence) >= Some(KillStage::Forced);
    match (job.stop.map(|(target, _)| target), world.ledger.runs[&fence].bound) {
        (Some(StopTarget::Cancelled), _) if forced => "job forced to cancelled",
        (Some(StopTarget::Cancelled), _) => "job stopping as cancelled",
        (Some(_), _) if forced => "job forced to error",
        (Some(_), _) => "job stopping as error",
        (None, false) => "started job",
        (None, true) => "bound job",
    }
}

const fn queued(job: &JobSeen) -> &'static str {
    match (&job.ended, job.retry_at_ms) {
        (Some(_), _) => "job is over",
        (None, Some(_)) => "job to be tried again",
        (None, None) => "queued job",
    }
}

fn part(world: &World, id: &JobId, call: u8) -> &'static str {
    let run = world.ledger.jobs.get(id).and_then(|job| job.run);
    let run = run.and_then(|fence| world.ledger.runs.get(&fence));
    let call = format!("c{call}");
    match run.and_then(|run| run.parts.iter().find(|part| *part.call == *call)).map(|part| part.state) {
        None => "new part",
        Some(PartState::Pending) => "pending part",
        Some(PartState::Running) => "running part",
        Some(PartState::Completed | PartState::Error) => "part is over",
    }
}

fn group(world: &World, id: &GroupId) -> &'static str {
    let Some(group) = world.ledger.groups.get(id) else { return "unknown group" };
    match (group.policy.is_some(), &group.fired, group.voided, group.taken) {
        (_, _, true, _) => "voided group",
        (_, Some(_), _, Some(TakenBy::Void)) => "fired group, void",
        (_, Some(_), _, Some(_)) => "fired group, taken",
        (_, Some(_), _, None) if world.parent.wake_is_out(id) => "fired group, wake is out",
        (_, Some(_), _, None) if world.parent.held(id, group) => "fired group, held by a wait",
        (_, Some(_), _, None) => "fired group, owed",
        (false, None, false, _) => "open group",
        (true, None, false, _) => "running group",
    }
}

fn taken(world: &World, wish: &Wish) -> String {
    match wish {
        Wish::All(_, ids) => format!("all, {}", jobs(world, ids)),
        Wish::Any(_, ids) => format!("any, {}", jobs(world, ids)),
        Wish::Exact(_, id, lifetime) => match world.ledger.life(*lifetime) {
            None => "exact, unknown job".into(),
            Some(_) if world.ledger.past.contains_key(lifetime) => "exact, an older life".into(),
            Some(_) => format!("exact, {}", job(world, id)),
        },
        Wish::Group(_, id) => format!("group, {}", group(world, id)),
        Wish::Wake(id) => {
            let owed = world.ledger.owed().any(|(_, group)| group.parent == *id);
            format!("wake, {}, {}", if owed { "owed" } else { "nothing owed" }, node(world, id))
        }
        Wish::Message(id) => {
            let owed = world.ledger.owed().any(|(_, group)| group.parent == *id);
            let words = matches!(id, NodeId::Session(id) if world.ledger.owed_posts(id).next().is_some());
            let owed = match (owed, words) {
                (true, true) => "results and words owed",
                (true, false) => "results owed",
                (false, true) => "words owed",
                (false, false) => "nothing owed",
            };
            format!("message, {owed}")
        }
        Wish::Hit(id) => {
            let hit = matches!(id, NodeId::Session(id) if world.ledger.owed_posts(id).any(|(_, key)| {
                world.ledger.posts.get(key).is_some_and(|post| post.hit.is_some())
            }));
            format!("hit, {}", if hit { "owed" } else { "nothing owed" })
        }
        // What it finds is asked of the reference, as for a send.
        Wish::Mail(..) => "mail".into(),
        Wish::Background(id) => format!("background, {}", calls(world, of(world, id))),
        Wish::Idle => {
            format!("idle, {}", if world.ledger.running > 0 { "jobs run" } else { "no job runs" })
        }
    }
}

/// What a send or a receive has to be answered.
fn mailed(world: &World, op: &Op) -> &'static str {
    match mails::due(world, op) {
        None => "nobody's",
        Some(Ok(true)) => "mail is there",
        Some(Ok(false)) => "taken in",
        Some(Err(code)) => code,
    }
}

fn jobs(world: &World, ids: &[JobId]) -> &'static str {
    let over = |id: &&JobId| world.ledger.jobs.get(*id).is_some_and(|job| job.ended.is_some());
    let known = ids.iter().all(|id| world.ledger.jobs.contains_key(id));
    let taken = |id: &&JobId| world.ledger.jobs.get(*id).is_some_and(|job| world.parent.has(&job.lifetime));
    let had = ids.iter().filter(taken).count();
    match ids.iter().filter(over).count() {
        _ if !known => "unknown job",
        0 => "none over",
        n if n < ids.len() => "some over",
        n if had == n => "all over and taken",
        _ if had > 0 => "all over, some taken",
        _ => "all over",
    }
}

fn of<'a>(world: &'a World, id: &JobId) -> Option<&'a GroupId> {
    world.ledger.jobs.get(id).map(|job| &job.group)
}

fn calls(world: &World, id: Option<&GroupId>) -> &'static str {
    let Some((id, group)) = id.and_then(|id| world.ledger.groups.get_key_value(id)) else {
        return "unknown";
    };
    match world.parent.calls(id).count() {
        _ if group.fired.is_some() || group.voided => "already done",
        0 => "nobody waits",
        1 => "one call waits",
        _ => "calls wait",
    }
}

fn waiter(world: &World, id: WaiterId) -> &'static str {
    match world.parent.waits.get(&id).map(|wait| &wait.offer) {
        None => "nobody",
        Some(None) => "waits",
        Some(Some(Offer::Results(_))) => "holds results",
        Some(Some(Offer::Group(_))) => "holds a group",
        Some(Some(Offer::Wake(..))) => "holds a wake",
        Some(Some(Offer::Words(_))) => "holds words",
        Some(Some(Offer::Mail)) => "holds mail",
        Some(Some(Offer::Known)) => "holds what is known",
    }
}

const fn ended(how: How) -> &'static str {
    match how {
        How::Ok | How::Empty | How::Stopped => "well",
        How::Failed | How::Panic | How::Spawn | How::Os | How::Left => "badly",
        How::Safe => "badly and safe",
        How::Lost => "by its guard",
    }
}
