//! How a command ended, in the words of a result. It decides nothing: a recorded stop wins over what it says.

use std::io;

use fanin_protocol::cause::Exit;
use fanin_protocol::limits::MESSAGE_BYTES_MAX;
use fanin_protocol::{Cause, Code, Left, text};
use fanin_supervisor::{Ending, Failure, JobOutput};

/// The ending of a command that was started. Its output is with the supervisor by now.
pub(crate) fn of(exit: io::Result<Exit>, is_shim_lost: bool, left: Option<Left>) -> Ending {
    let (exit, code, mut message) = match exit {
        Ok(Exit::Status(status)) => {
            let code = (status != 0).then_some(Code::ExitStatus);
            (Some(Exit::Status(status)), code, format!("exit status {status}"))
        }
        Ok(Exit::Signal(signal)) => {
            (Some(Exit::Signal(signal)), Some(Code::Signal), format!("killed by {}", name(signal)))
        }
        Err(error) if is_shim_lost => (None, Some(Code::ShimLost), error.to_string()),
        Err(error) => (None, Some(Code::Os), format!("its exit status is lost: {error}")),
    };
    // A command that did its work and left something nobody can stop has not ended well: it goes on.
    let code = code.or_else(|| match &left {
        Some(left) if left.shim_lost => Some(Code::ShimLost),
        Some(left) if left.is_unreaped() => Some(Code::Os),
        Some(_) | None => None,
    });
    if let Some(left) = left.as_ref().filter(|left| left.is_unreaped()) {
        message.push_str(&survivors(left));
    }
    let message = text::cut(&message, MESSAGE_BYTES_MAX).to_owned();
    let failure = code.map(|code| Failure::new(Cause::Failed, Some(code), message));
    Ending { failure, exit, output: JobOutput::default(), left }
}

/// What may live on, for people: `; still alive after SIGKILL: 4711 (sleep), 4712 (cat)`.
fn survivors(left: &Left) -> String {
    let lost =
        if left.shim_lost { "; its shim is lost, so that more of it may be alive than is known" } else { "" };
    let names: Vec<String> =
        left.alive.iter().map(|process| format!("{} ({})", process.pid, process.program)).collect();
    if names.is_empty() {
        lost.to_owned()
    } else {
        format!("{lost}; still alive after SIGKILL: {}", names.join(", "))
    }
}

/// `signal 9 (SIGKILL)`; the number alone for those without a fixed one.
fn name(signal: i32) -> String {
    // Numbers that are the same on every system.
    let names = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (5, "SIGTRAP"),
        (6, "SIGABRT"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (14, "SIGALRM"),
        (15, "SIGTERM"),
    ];
    #[cfg(target_os = "linux")]
    let more =
        [(7, "SIGBUS"), (10, "SIGUSR1"), (12, "SIGUSR2"), (24, "SIGXCPU"), (25, "SIGXFSZ"), (31, "SIGSYS")];
    #[cfg(not(target_os = "linux"))]
    let more = [];
    match names.iter().chain(&more).find(|(known, _)| *known == signal) {
        Some((_, name)) => format!("signal {signal} ({name})"),
        None => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use fanin_protocol::LeftProcess;

    use super::*;

    fn said(exit: io::Result<Exit>, is_lost: bool, left: Option<Left>) -> Option<(Option<Code>, String)> {
        let ending = of(exit, is_lost, left.clone());
        assert_eq!(ending.left, left);
        let failure = ending.failure?;
        assert_eq!(failure.cause, Cause::Failed);
        Some((failure.code, failure.message))
    }

    fn alive() -> Option<Left> {
        let process = LeftProcess { pid: 4711, pid_start: 1, program: "sleep".into() };
        Some(Left { alive: [process].into(), ..Left::default() })
    }

    #[test]
    fn what_could_not_be_stopped_is_named_and_no_success() {
        let words = |start: &str| format!("{start}; still alive after SIGKILL: 4711 (sleep)");
        let stopped = Left { stopped: 3, ..Left::default() };
        assert_eq!(said(Ok(Exit::Status(0)), false, None), None);
        assert_eq!(said(Ok(Exit::Status(0)), false, Some(stopped)), None);
        assert_eq!(said(Ok(Exit::Status(0)), false, alive()), Some((Some(Code::Os), words("exit status 0"))));
        assert_eq!(
            said(Ok(Exit::Status(3)), false, alive()),
            Some((Some(Code::ExitStatus), words("exit status 3")))
        );
        assert_eq!(
            said(Ok(Exit::Signal(9)), false, alive()),
            Some((Some(Code::Signal), words("killed by signal 9 (SIGKILL)")))
        );
    }

    #[test]
    fn a_lost_status_is_no_success() {
        let (code, message) = said(Err(io::Error::other("why")), false, None).unwrap();
        assert_eq!((code, message.as_str()), (Some(Code::Os), "its exit status is lost: why"));
    }

    #[test]
    fn a_lost_shim_is_no_success_even_where_nothing_is_known_to_live_on() {
        let lost = || Some(Left { shim_lost: true, ..Left::default() });
        let words = "its shim is lost, so that more of it may be alive than is known";
        assert_eq!(
            said(Err(io::Error::other("it died")), true, lost()),
            Some((Some(Code::ShimLost), format!("it died; {words}")))
        );
        assert_eq!(
            said(Ok(Exit::Status(0)), true, lost()),
            Some((Some(Code::ShimLost), format!("exit status 0; {words}")))
        );
    }

    #[test]
    fn a_signal_without_a_name_is_shown_by_its_number() {
        assert_eq!(said(Ok(Exit::Signal(40)), false, None).unwrap().1, "killed by signal 40");
    }
}
