//! How a run with an agent ended, in the words of a result. It decides nothing: a recorded stop wins over what it says.

use agent_client_protocol::v1::schema::StopReason;
use fanin_protocol::cause::Exit;
use fanin_protocol::limits::MESSAGE_BYTES_MAX;
use fanin_protocol::{Cause, Code, Rights, text};
use fanin_supervisor::{Ending, Failure};

use crate::listener::Said;
use crate::program::Gone;
use crate::talk::{Talked, Trouble};

/// The ending of a run whose program was started. `talked` is `None` where the program was gone first, or was killed.
pub(crate) fn of(
    talked: Option<Talked>,
    fault: Option<&str>,
    was_prompted: bool,
    gone: Gone,
    said: Said,
) -> Ending {
    let Said { output, denied, .. } = said;
    let failure = match talked {
        Some(Talked::Answered { reason, was_cancelled }) => answered(reason, was_cancelled, denied),
        Some(Talked::Unprompted(trouble)) => Some(unprompted(&trouble, fault, &gone)),
        Some(Talked::Broken(trouble)) => Some(broken(&trouble, fault, &gone)),
        None if was_prompted => Some(broken(&Trouble::Gone, fault, &gone)),
        None => Some(unprompted(&Trouble::Gone, fault, &gone)),
    };
    // An agent that did its work and left something nobody can stop has not ended well: it goes on.
    let failure = failure.or_else(|| {
        let code = if gone.is_shim_lost { Code::ShimLost } else { Code::Os };
        let is_left = gone.is_shim_lost || gone.left.as_ref().is_some_and(|left| left.is_unreaped());
        is_left.then(|| Failure::new(Cause::Failed, Some(code), "processes of it may still be alive"))
    });
    let is_told = |failure: &Failure| matches!(failure.code, Some(Code::ExitStatus | Code::Signal));
    let exit = gone.exit.filter(|_| failure.as_ref().is_some_and(is_told));
    Ending { failure, exit, output: output.unwrap_or_default(), left: gone.left }
}

/// What is wrong with a turn of a parent whose prompt was answered; `None` where that is nothing.
pub(crate) fn of_turn(reason: StopReason, was_cancelled: bool, said: &Said) -> Option<Failure> {
    answered(reason, was_cancelled, said.denied).or_else(|| {
        let nothing = "the agent ended its turn without any output or tool call";
        (!said.is_any).then(|| Failure::new(Cause::Failed, Some(Code::NoOutput), nothing))
    })
}

/// Why there is no answer of an agent that is gone.
pub(crate) fn without_answer(
    trouble: &Trouble,
    fault: Option<&str>,
    gone: &Gone,
    was_prompted: bool,
) -> Failure {
    if was_prompted { broken(trouble, fault, gone) } else { unprompted(trouble, fault, gone) }
}

/// What is wrong, of an agent that is still there.
pub(crate) fn alone(trouble: &Trouble, was_prompted: bool) -> Failure {
    let there = Gone { exit: None, left: None, is_shim_lost: false, errors: String::new() };
    without_answer(trouble, None, &there, was_prompted)
}

fn answered(reason: StopReason, was_cancelled: bool, denied: Option<Rights>) -> Option<Failure> {
    let failed = |code, words: &str| Some(Failure::new(Cause::Failed, code, words));
    match reason {
        // Whatever it says of a turn that we ended: it did not come to its end.
        _ if was_cancelled => failed(None, "its turn was cancelled"),
        StopReason::EndTurn => None,
        StopReason::MaxTokens => failed(Some(Code::AgentLimit), "it reached its limit of tokens"),
        StopReason::MaxTurnRequests => {
            failed(Some(Code::AgentLimit), "it reached its limit of model requests in one turn")
        }
        StopReason::Refusal => failed(Some(Code::Refusal), "it refused to go on"),
        // Some have no answer that denies and lets them go on.
        StopReason::Cancelled => match denied {
            Some(needed) => {
                failed(None, &format!("it ended its turn when it was denied what needs the right `{needed}`"))
            }
            None => failed(None, "it cancelled its turn, and nobody had asked for that"),
        },
        _ => failed(Some(Code::Protocol), "it ended its turn for a reason that is not known"),
    }
}

/// Nothing of the job has taken effect: another try does nothing twice.
fn unprompted(trouble: &Trouble, fault: Option<&str>, gone: &Gone) -> Failure {
    let code = match trouble {
        Trouble::LoggedOut(_) => Code::AuthRequired,
        Trouble::Late { .. }
        | Trouble::Refused { .. }
        | Trouble::Unheld(_)
        | Trouble::Gone
        | Trouble::Stopped
        | Trouble::Forced
        | Trouble::NotKept(_) => Code::Handshake,
    };
    let failure = Failure::new(Cause::Spawn, Some(code), words(trouble, fault, gone));
    // By the next try nobody has logged in, and the agent has no other modes.
    let is_for_good = matches!(trouble, Trouble::LoggedOut(_) | Trouble::Unheld(_));
    if is_for_good { failure } else { failure.before_start() }
}

fn broken(trouble: &Trouble, fault: Option<&str>, gone: &Gone) -> Failure {
    let code = match (trouble, fault, gone.exit) {
        (Trouble::LoggedOut(_), _, _) => Some(Code::AuthRequired),
        (_, Some(_), _) => Some(Code::Protocol),
        (Trouble::Gone, None, Some(Exit::Status(_))) => Some(Code::ExitStatus),
        (Trouble::Gone, None, Some(Exit::Signal(_))) => Some(Code::Signal),
        (Trouble::Gone, None, None) if gone.is_shim_lost => Some(Code::ShimLost),
        (Trouble::Gone, None, None) => Some(Code::Protocol),
        // It answered, or was not waited for any longer: how its program left then says nothing.
        (_, None, _) => None,
    };
    Failure::new(Cause::Failed, code, words(trouble, fault, gone))
}

pub(crate) fn words(trouble: &Trouble, fault: Option<&str>, gone: &Gone) -> String {
    let said = match (trouble, fault, gone.exit) {
        (_, Some(fault), _) => format!("the agent was given up: {fault}"),
        (Trouble::Late { to, limit }, _, _) => format!("the agent did not answer `{to}` within {limit:?}"),
        (Trouble::LoggedOut(text), _, _) => format!("the agent wants somebody to log in: {text}"),
        (Trouble::Refused { to, text }, _, _) => format!("the agent answered `{to}` with an error: {text}"),
        (Trouble::Unheld(why), _, _) => why.clone(),
        (Trouble::Gone, _, Some(Exit::Status(status))) => {
            format!("the agent ended without an answer (exit status {status})")
        }
        (Trouble::Gone, _, Some(Exit::Signal(signal))) => {
            format!("the agent was killed without an answer (signal {signal})")
        }
        (Trouble::Gone, _, None) => "the agent closed its output without an answer".to_owned(),
        (Trouble::Stopped, _, _) => "stopped before it was given its prompt".to_owned(),
        (Trouble::Forced, _, _) => {
            "the agent did not end its turn when it was told to, and was killed".to_owned()
        }
        (Trouble::NotKept(why), _, _) => format!("its session could not be recorded: {why}"),
    };
    let lost = if gone.is_shim_lost { "; its shim is lost, and processes of it may be alive" } else { "" };
    let errors = match (trouble, gone.errors.as_str()) {
        (Trouble::Gone | Trouble::Late { .. }, errors) if !errors.is_empty() => {
            format!("; it wrote: {errors}")
        }
        // It said itself what is wrong, or it was us.
        _ => String::new(),
    };
    text::cut(&format!("{said}{lost}{errors}"), MESSAGE_BYTES_MAX).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(exit: Option<Exit>) -> Gone {
        Gone { exit, left: None, is_shim_lost: false, errors: "last words".into() }
    }

    fn ending(talked: Option<Talked>, fault: Option<&str>, exit: Option<Exit>) -> Option<Failure> {
        of(talked, fault, true, gone(exit), Said::default()).failure
    }

    #[test]
    fn only_a_turn_that_came_to_its_end_is_a_success() {
        use StopReason::{Cancelled, EndTurn, MaxTokens, MaxTurnRequests, Refusal};
        let code = |reason, was_cancelled| {
            let talked = Some(Talked::Answered { reason, was_cancelled });
            ending(talked, None, Some(Exit::Status(1))).map(|failure| (failure.cause, failure.code))
        };
        let failed = |code| Some((Cause::Failed, code));
        assert_eq!(code(EndTurn, false), None, "how its program leaves then does not matter");
        assert_eq!(code(EndTurn, true), failed(None));
        assert_eq!(code(MaxTokens, false), failed(Some(Code::AgentLimit)));
        assert_eq!(code(MaxTurnRequests, false), failed(Some(Code::AgentLimit)));
        assert_eq!(code(Refusal, false), failed(Some(Code::Refusal)));
        assert_eq!(code(Cancelled, false), failed(None));
    }

    #[test]
    fn before_the_prompt_all_but_a_missing_login_is_safe_to_try_again() {
        for (trouble, code, is_safe) in [
            (Trouble::LoggedOut("x".into()), Code::AuthRequired, false),
            (Trouble::Gone, Code::Handshake, true),
            (Trouble::Late { to: "x", limit: std::time::Duration::ZERO }, Code::Handshake, true),
        ] {
            let failure = ending(Some(Talked::Unprompted(trouble)), None, None).unwrap();
            assert_eq!((failure.cause, failure.code, failure.is_safe), (Cause::Spawn, Some(code), is_safe));
        }
    }

    #[test]
    fn after_the_prompt_nothing_is_safe_and_the_cause_is_named() {
        for (talked, fault, exit, code, words) in [
            (None, None, Some(Exit::Status(3)), Code::ExitStatus, "(exit status 3); it wrote: last words"),
            (Some(Trouble::Gone), None, Some(Exit::Signal(9)), Code::Signal, "(signal 9)"),
            (Some(Trouble::Gone), Some("too long"), None, Code::Protocol, "given up: too long"),
            (Some(Trouble::Gone), None, None, Code::Protocol, "closed its output"),
        ] {
            let failure = ending(talked.map(Talked::Broken), fault, exit).unwrap();
            assert_eq!((failure.cause, failure.code, failure.is_safe), (Cause::Failed, Some(code), false));
            assert!(failure.message.contains(words), "{}", failure.message);
        }
    }
}
