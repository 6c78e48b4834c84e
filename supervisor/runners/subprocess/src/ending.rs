//! How a command ended, in the words of a result. It decides nothing: a recorded stop wins over what it says.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use fanin_protocol::cause::Exit;
use fanin_protocol::limits::MESSAGE_BYTES_MAX;
use fanin_protocol::{Cause, Code, text};
use fanin_supervisor::{Ending, Failure, JobOutput};
use rustix::process::Signal;

/// The ending of a command that was started. `survivors` names what not even a KILL has ended.
pub(crate) fn of(status: io::Result<ExitStatus>, survivors: Option<&str>, output: JobOutput) -> Ending {
    let (exit, code, mut message) = match status.map(|status| (status.code(), status.signal())) {
        Ok((Some(status), _)) => {
            let code = (status != 0).then_some(Code::ExitStatus);
            (Some(Exit::Status(status)), code, format!("exit status {status}"))
        }
        Ok((None, Some(signal))) => {
            (Some(Exit::Signal(signal)), Some(Code::Signal), format!("killed by {}", name(signal)))
        }
        Ok((None, None)) => (None, Some(Code::Os), "it ended without an exit status".to_owned()),
        Err(error) => (None, Some(Code::Os), format!("its exit status is lost: {error}")),
    };
    // A command that did its work and left something nobody can stop has not ended well: it goes on.
    let code = code.or_else(|| survivors.map(|_| Code::Os));
    if let Some(survivors) = survivors {
        message = format!("{message}; still alive after SIGKILL: {survivors}");
    }
    let message = text::cut(&message, MESSAGE_BYTES_MAX).to_owned();
    let failure = code.map(|code| Failure::new(Cause::Failed, Some(code), message));
    Ending { failure, exit, output }
}

/// `signal 9 (SIGKILL)`; the number alone for those without a fixed one.
fn name(signal: i32) -> String {
    let names = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    match names.iter().find(|(known, _)| known.as_raw() == signal) {
        Some((_, name)) => format!("signal {signal} ({name})"),
        None => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(status: io::Result<ExitStatus>, survivors: Option<&str>) -> Option<(Option<Code>, String)> {
        let failure = of(status, survivors, JobOutput::default()).failure?;
        assert_eq!(failure.cause, Cause::Failed);
        Some((failure.code, failure.message))
    }

    #[test]
    fn what_could_not_be_stopped_is_named_and_no_success() {
        let survivors = Some("4711 (sleep)");
        let ended = |raw| Ok(ExitStatus::from_raw(raw));
        let words = |start: &str| format!("{start}; still alive after SIGKILL: 4711 (sleep)");
        assert_eq!(said(ended(0), None), None);
        assert_eq!(said(ended(0), survivors), Some((Some(Code::Os), words("exit status 0"))));
        assert_eq!(said(ended(3 << 8), survivors), Some((Some(Code::ExitStatus), words("exit status 3"))));
        assert_eq!(
            said(ended(9), survivors),
            Some((Some(Code::Signal), words("killed by signal 9 (SIGKILL)")))
        );
    }

    #[test]
    fn a_lost_status_is_no_success() {
        let (code, message) = said(Err(io::Error::other("why")), None).unwrap();
        assert_eq!((code, message.as_str()), (Some(Code::Os), "its exit status is lost: why"));
    }

    #[test]
    fn a_signal_without_a_name_is_shown_by_its_number() {
        assert_eq!(said(Ok(ExitStatus::from_raw(40)), None).unwrap().1, "killed by signal 40");
    }
}
