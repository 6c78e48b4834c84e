//! The only code that sees commands: each is sent to the rule set that decides it.

use crate::command::{Close, Command, Leave, Post, Refusal, Release, Reply, SessionCommand};
use crate::out::Out;
use crate::state::State;
use crate::{
    autonomy, epoch, foreground, inbox, lend, limit, mail, message, report, session, stop, timer, waiter,
};

/// Decides a command.
pub(crate) fn decide(state: &mut State, command: Command, out: &mut Out) {
    let reply = if let Command::Open(open) = command {
        epoch::open(state, &open, out)
    } else if epoch::is_open(state) && !state.is_opening() {
        decide_open(state, command, out)
    } else {
        Err(Refusal::NotOpen)
    };
    out.reply = Some(reply.unwrap_or_else(Reply::Refused));
}

fn decide_open(state: &mut State, command: Command, out: &mut Out) -> Result<Reply, Refusal> {
    match command {
        Command::Open(_) => Ok(Reply::Done),
        Command::Close(Close::Drain) => epoch::drain(state, out),
        Command::Close(Close::Stop { grace_ms, keep }) => epoch::stop(state, grace_ms, keep, out),
        Command::Close(Close::Finish) => epoch::finish(state, out),
        Command::Session(SessionCommand::Open(open)) => session::open(state, open, out),
        Command::Session(SessionCommand::Turn(id)) => session::turn(state, &id, out),
        Command::Session(SessionCommand::Spoke(id)) => autonomy::spoke(state, &id),
        Command::Session(SessionCommand::Close(id)) => session::close(state, &id, out),
        Command::Launch(request) => foreground::launch(state, request, out),
        Command::Post(Post::Message(request)) => message::post(state, request, out),
        Command::Post(Post::Mail { from, to, text }) => mail::send(state, &from, &to, text),
        Command::Take(take) => waiter::take(state, take, out),
        Command::Release(Release::Waiter(id, Leave::Left)) => waiter::release(state, id),
        Command::Release(Release::Waiter(id, Leave::Limit)) => lend::limit(state, id, out),
        Command::Release(Release::Promote(target)) => foreground::promote(state, &target, out),
        Command::Ack(id) => inbox::ack(state, id, out),
        Command::Stop(request) => stop::stop(state, &request, out),
        Command::Report(said) => report::report(state, said, out),
        Command::Limit(change) => limit::limit(state, change, out),
        Command::Tick => timer::tick(state, out),
    }
}
