//! `fanin team`: mail between the jobs of a group, for the commands of these jobs. It asks at the door of the supervisor around
//! them, and knows nothing of its own.

mod door;
mod mails;
mod wire;

use std::env;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fanin_process::mail_above;
use fanin_protocol::limits::{
    GATE_WAIT, MAIL_BYTES_MAX, MAIL_HELLO_WAIT, MAIL_LINE_BYTES_MAX, MAIL_WAIT_MAX,
};
use fanin_protocol::process::{MAIL_VARIABLE, TOKEN_VARIABLE};
use fanin_protocol::spec::millis;
use fanin_protocol::{Fault, text};
use serde::Serialize;

use crate::duration;
use crate::exec;
use crate::exit::Exit;
use crate::nested;

pub(crate) use door::{Door, OpenDoor};
pub(crate) use mails::Mails;

use wire::{Answer, Ask, Hello, Mail, TAKE};

/// The words of `fanin team`.
#[derive(Debug, clap::Args)]
pub(crate) struct TeamArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Send text to another job of the group; it never waits
    Send {
        /// The job: its id in the manifest or the call
        #[arg(value_name = "TO")]
        to: String,

        /// What is sent [default: what comes on standard input]
        #[arg(value_name = "MESSAGE")]
        message: Option<String>,

        /// Errors as JSON documents (fanin.error/1)
        #[arg(long)]
        json: bool,
    },
    /// Wait for the next mail and print it
    Recv {
        /// Only mail of this job
        #[arg(long, value_name = "ID")]
        from: Option<String>,

        /// How long to wait, 60s at the most; 0s only looks
        #[arg(long, value_name = "TIME", value_parser = patience, default_value = "60s")]
        timeout: Duration,

        /// The mail as one JSON document (fanin.mail/1), exactly as it was sent
        #[arg(long)]
        json: bool,
    },
}

impl TeamArgs {
    pub(crate) const fn is_json(&self) -> bool {
        match &self.what {
            What::Send { json, .. } | What::Recv { json, .. } => *json,
        }
    }
}

fn patience(words: &str) -> Result<Duration, String> {
    let time = duration::parse(words).map_err(|error| error.to_string())?;
    let most = MAIL_WAIT_MAX.as_secs();
    if time > MAIL_WAIT_MAX {
        Err(format!("{most}s at the most; receive again to wait on"))
    } else {
        Ok(time)
    }
}

/// Why a program has no mail, beside what the machine refuses.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TeamError {
    /// There is no door.
    #[error("{0}")]
    NoMail(&'static str),
    /// It is part of no job with mail here.
    #[error("this program is part of no job here: it has no FANIN_TOKEN, and no process above it is a job's")]
    NoJob,
    /// Its token proves nothing.
    #[error("FANIN_TOKEN is of {0}")]
    BadToken(&'static str),
    /// It speaks another language.
    #[error("this is the door of `fanin team`, and what came is none of its words")]
    BadHello,
    /// Nobody answers at the door, or somebody else.
    #[error("the supervisor around this job is gone: {0}")]
    Gone(#[source] io::Error),
    /// It was received, and is lost.
    #[error("the mail was received and could not be written: {0}")]
    Lost(#[source] io::Error),
}

impl TeamError {
    /// A stable name; each has a row in `docs/errors.md`.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::NoMail(_) => "no_mail",
            Self::NoJob => "no_job",
            Self::BadToken(_) => "bad_token",
            Self::BadHello => "bad_hello",
            Self::Gone(_) => "mail_gone",
            Self::Lost(_) => "mail_lost",
        }
    }
}

impl From<TeamError> for Refused {
    fn from(error: TeamError) -> Self {
        Self::new(error.code(), error)
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        TeamError::Gone(error).into()
    }
}

/// Why nothing was sent or received.
#[derive(Debug)]
pub(crate) struct Refused {
    /// How the program ends.
    pub(crate) exit: Exit,
    /// What is told.
    pub(crate) fault: Fault,
}

impl Refused {
    fn new(code: &str, message: impl ToString) -> Self {
        let exit = exit(code);
        let retryable = exit == Exit::TryAgain;
        let fault = Fault { code: code.to_owned(), message: message.to_string(), hint: None, retryable };
        Self { exit, fault }
    }
}

/// How the program ends for a code (SH-5).
fn exit(code: &str) -> Exit {
    match code {
        "no_mail" | "no_job" | "no_team" | "bad_token" | "bad_hello" | "usage" => Exit::Usage,
        "mailbox_full" | "mailbox_reset" | "busy" | "store_low" | "store_full" => Exit::TryAgain,
        "mail_gone" | "mail_lost" | "poisoned" => Exit::Internal,
        _ => Exit::Refused,
    }
}

/// Sends or receives. Blocks its thread.
///
/// # Errors
///
/// [`Refused`].
pub(crate) fn run(args: TeamArgs) -> Result<Exit, Refused> {
    match args.what {
        What::Send { to, message, .. } => {
            let door = door()?;
            let text = match message {
                Some(message) => message,
                None => read(io::stdin().lock(), io::stdin().is_terminal())?,
            };
            send(&door, to, text)
        }
        What::Recv { from, timeout, json } => receive(&door()?, from, timeout, json),
    }
}

/// The text on standard input.
fn read(from: impl Read, is_terminal: bool) -> Result<String, Refused> {
    let usage = |what: String| Refused::new("usage", format!("team send: {what}"));
    let mut bytes = Vec::new();
    if !is_terminal {
        let all = from.take(MAIL_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
        all.map_err(|error| usage(format!("standard input cannot be read: {error}")))?;
    }
    if bytes.is_empty() {
        return Err(usage("there is no message: give it as an argument or on standard input".to_owned()));
    }
    if bytes.len() > MAIL_BYTES_MAX {
        let most = MAIL_BYTES_MAX;
        let what = format!("more than {most} bytes; put it into a file and send its name");
        return Err(Refused::new("too_large", what));
    }
    String::from_utf8(bytes).map_err(|_| usage("the message is no UTF-8 text".to_owned()))
}

fn send(door: &Path, to: String, text: String) -> Result<Exit, Refused> {
    match Asking::begin(door, Ask::Send { to, text: text.into() }, GATE_WAIT)?.answer()? {
        Answer::Sent => Ok(Exit::Done),
        other => Err(unexpected(other)),
    }
}

fn receive(door: &Path, from: Option<String>, limit: Duration, is_json: bool) -> Result<Exit, Refused> {
    let timeout_ms = millis(limit);
    let mut asking = Asking::begin(door, Ask::Receive { from, timeout_ms }, limit + GATE_WAIT)?;
    let mail = match asking.answer()? {
        Answer::Nothing => None,
        Answer::Ready => {
            asking.stream.write_all(TAKE.as_bytes())?;
            match asking.answer()? {
                Answer::Mail(mail) => Some(mail),
                other => return Err(unexpected(other)),
            }
        }
        other => return Err(unexpected(other)),
    };
    let out = if is_json { document(mail.as_ref()) } else { mail.as_ref().map(shown).unwrap_or_default() };
    let mut stdout = io::stdout().lock();
    stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush()).map_err(TeamError::Lost)?;
    Ok(if mail.is_some() { Exit::Done } else { Exit::Empty })
}

/// The text as it was sent, and a line feed where it has none at its end.
fn shown(mail: &Mail) -> String {
    let text = &*mail.text;
    let text = if io::stdout().is_terminal() { text::printable(text).into_owned() } else { text.to_owned() };
    if text.ends_with('\n') { text } else { text + "\n" }
}

fn document(mail: Option<&Mail>) -> String {
    #[derive(Serialize)]
    struct Document<'m> {
        schema: &'static str,
        mail: Option<&'m Mail>,
    }
    wire::line(&Document { schema: "fanin.mail/1", mail })
}

fn unexpected(answer: Answer) -> Refused {
    match answer {
        Answer::Refused { code, message } => Refused::new(&code, message),
        Answer::Welcome | Answer::Sent | Answer::Ready | Answer::Mail(_) | Answer::Nothing => {
            io::Error::other("its answer is none to what was asked; it may be of another version").into()
        }
    }
}

/// Where the mail of the job around us is.
fn door() -> Result<PathBuf, Refused> {
    let ours = env::var_os(MAIL_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    ours.or_else(mail_above).ok_or_else(|| {
        let why = if nested::is_inside() {
            "this job has no mail: no task of its group has `depends` or `sends`, or whoever runs it carries none"
        } else {
            "this is not inside of a job: `fanin team` is for the commands of tasks that fanin runs, whose group has \
             `depends` or `sends`"
        };
        TeamError::NoMail(why).into()
    })
}

/// Goes through the door as the server of an agent's tools: copies what comes on standard input there, and what comes back to
/// standard output. Blocks its thread.
///
/// # Errors
///
/// [`Refused`], where it is not let in.
pub(crate) fn through(door: &Path) -> Result<(), Refused> {
    let mut asking = Asking::begin(door, Ask::Mcp, GATE_WAIT)?;
    match asking.answer()? {
        Answer::Welcome => {}
        other => return Err(unexpected(other)),
    }
    asking.stream.set_read_timeout(None)?;
    Ok(exec::copy_both(asking.stream)?)
}

/// A question at the door.
struct Asking {
    stream: UnixStream,
}

impl Asking {
    /// Asks. An answer comes within `limit`, and what a busy machine needs.
    fn begin(door: &Path, ask: Ask, limit: Duration) -> Result<Self, Refused> {
        let token = env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
        let mut stream = UnixStream::connect(door)?;
        stream.set_read_timeout(Some(limit + MAIL_HELLO_WAIT))?;
        stream.write_all(wire::line(&Hello { token, ask }).as_bytes())?;
        Ok(Self { stream })
    }

    /// The next line. Not a byte more is read: what follows may be another's.
    fn answer(&mut self) -> Result<Answer, Refused> {
        let (mut line, mut byte) = (Vec::new(), [0]);
        loop {
            match self.stream.read(&mut byte) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(_) if byte == *b"\n" => break,
                Ok(_) if line.len() > MAIL_LINE_BYTES_MAX => {
                    return Err(io::Error::other("its answer is too long").into());
                }
                Ok(_) => line.extend(byte),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        serde_json::from_slice(&line).map_err(|error| io::Error::from(error).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_text_within_bounds_or_refused_by_name() {
        let told = |bytes: &[u8]| read(bytes, false).map_err(|refused| refused.fault.code);
        let most = "x".repeat(MAIL_BYTES_MAX);
        assert_eq!(told(most.as_bytes()), Ok(most.clone()));
        assert_eq!(told(format!("{most}x").as_bytes()), Err("too_large".to_owned()));
        assert_eq!(told("é\0\n\u{1b}[m".as_bytes()), Ok("é\0\n\u{1b}[m".to_owned()));
        assert_eq!(told(b"\xff"), Err("usage".to_owned()));
        assert_eq!(told(b""), Err("usage".to_owned()));
        assert!(read(&b"typed"[..], true).is_err(), "nobody is asked to type");
    }

    #[test]
    fn what_can_succeed_in_a_moment_says_so_by_its_exit() {
        for (code, number) in [
            ("mailbox_full", 75),
            ("mailbox_reset", 75),
            ("not_allowed", 1),
            ("no_mail", 2),
            ("mail_gone", 70),
        ] {
            assert_eq!(exit(code).code(), number, "{code}");
        }
    }

    #[test]
    fn no_line_is_longer_than_its_bound() {
        let text = "\u{1}".repeat(MAIL_BYTES_MAX).into();
        let hello = Hello { token: Some("x".repeat(200)), ask: Ask::Send { to: "y".repeat(200), text } };
        assert!(wire::line(&hello).len() <= MAIL_LINE_BYTES_MAX);
    }
}
