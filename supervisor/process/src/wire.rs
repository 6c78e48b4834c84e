//! What supervisor and shim say to each other: one order, then single bytes one way and short reports the other. It
//! moves bytes and touches nothing.
//!
//! Both ends are the same build, as a rule. Where they are not, the first byte tells, and nothing is started.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use fanin_protocol::LeftProcess;
use fanin_protocol::cause::Exit;
use fanin_protocol::limits::SHIM_MESSAGE_BYTES_MAX;

/// Number of these rules. A shim of other rules refuses an order.
const VERSION: u8 = 2;

/// Ask all of the tree to end: SIGTERM, once.
pub(crate) const ASK: u8 = b'T';

/// End all of the tree: SIGKILL, until nothing is left.
pub(crate) const KILL: u8 = b'K';

/// What a shim shall run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// A descriptor comes with the order: the job's standard input. Else that is at its end at once.
    pub(crate) has_stdin: bool,
    /// The variables above are all that it has; else they come beside those of the shim.
    pub(crate) is_bare: bool,
}

/// What a shim says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The job runs.
    Started { pid: u32, start: u64 },
    /// The system did not start it; `errno` is 0 where the text is all there is.
    NotStarted { errno: i32, text: String },
    /// Its main process has ended.
    Ended(Exit),
    /// Nothing of it is left. So many were alive after the main process and were stopped.
    Gone { stopped: u32 },
    /// These could not be ended; the shim leaves them.
    Left { stopped: u32, alive: Vec<LeftProcess> },
}

/// Bytes that are no message of these rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken;

impl Order {
    /// The order as it is sent.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Writer(vec![0; 4]);
        let flags = [self.has_stdin, self.cwd.is_some(), self.is_bare];
        body.0.push(VERSION);
        body.0.extend(flags.map(u8::from));
        body.bytes(self.cwd.as_deref().map(Path::as_os_str).unwrap_or_default().as_bytes());
        body.bytes(self.program.as_bytes());
        body.list(self.args.iter().map(OsString::as_os_str));
        body.list(self.env.iter().flat_map(|(name, value)| [name.as_os_str(), value]));
        body.framed()
    }

    /// Reads the body of an order.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Broken> {
        let mut body = Reader(body);
        if body.byte()? != VERSION {
            return Err(Broken);
        }
        let [has_stdin, has_cwd, is_bare] = [body.byte()? == 1, body.byte()? == 1, body.byte()? == 1];
        let cwd = body.text()?;
        let program = body.text()?;
        let args = body.list()?;
        let mut words = body.list()?.into_iter();
        let mut env = Vec::with_capacity(words.len() / 2);
        while let Some(name) = words.next() {
            env.push((name, words.next().ok_or(Broken)?));
        }
        body.end()?;
        Ok(Self { program, args, cwd: has_cwd.then(|| cwd.into()), env, has_stdin, is_bare })
    }
}

impl Report {
    /// The report as it is sent.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Writer(vec![0; 4]);
        match self {
            Self::Started { pid, start } => {
                body.0.push(1);
                body.number(*pid);
                body.0.extend(start.to_le_bytes());
            }
            Self::NotStarted { errno, text } => {
                body.0.push(2);
                body.number(errno.cast_unsigned());
                body.bytes(text.as_bytes());
            }
            Self::Ended(exit) => {
                let (kind, value) = match exit {
                    Exit::Status(status) => (3, *status),
                    Exit::Signal(signal) => (4, *signal),
                };
                body.0.push(kind);
                body.number(value.cast_unsigned());
            }
            Self::Gone { stopped } => {
                body.0.push(5);
                body.number(*stopped);
            }
            Self::Left { stopped, alive } => {
                body.0.push(6);
                body.number(*stopped);
                body.number(u32::try_from(alive.len()).unwrap_or(u32::MAX));
                for process in alive {
                    body.number(process.pid);
                    body.0.extend(process.pid_start.to_le_bytes());
                    body.bytes(process.program.as_bytes());
                }
            }
        }
        body.framed()
    }

    /// Reads the body of a report.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Broken> {
        let mut body = Reader(body);
        let report = match body.byte()? {
            1 => Self::Started { pid: body.number()?, start: body.long()? },
            2 => Self::NotStarted {
                errno: body.number()?.cast_signed(),
                text: body.text()?.to_string_lossy().into_owned(),
            },
            3 => Self::Ended(Exit::Status(body.number()?.cast_signed())),
            4 => Self::Ended(Exit::Signal(body.number()?.cast_signed())),
            5 => Self::Gone { stopped: body.number()? },
            6 => {
                let (stopped, count) = (body.number()?, body.number()?);
                let mut alive = Vec::new();
                for _ in 0..count {
                    let (pid, pid_start) = (body.number()?, body.long()?);
                    let program = body.text()?.to_string_lossy().into_owned();
                    alive.push(LeftProcess { pid, pid_start, program });
                }
                Self::Left { stopped, alive }
            }
            _ => return Err(Broken),
        };
        body.end()?;
        Ok(report)
    }
}

/// Length of the whole frame that begins with these bytes; `None` while too few of them are there to tell.
pub(crate) fn frame_len(bytes: &[u8]) -> Result<Option<usize>, Broken> {
    let Some(prefix) = bytes.first_chunk::<4>() else { return Ok(None) };
    let len = u32::from_le_bytes(*prefix) as usize;
    if len > SHIM_MESSAGE_BYTES_MAX { Err(Broken) } else { Ok(Some(4 + len)) }
}

/// Takes the body of the first whole frame out of what was read.
pub(crate) fn take_frame(bytes: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Broken> {
    let Some(len) = frame_len(bytes)?.filter(|len| *len <= bytes.len()) else { return Ok(None) };
    let rest = bytes.split_off(len);
    let mut frame = std::mem::replace(bytes, rest);
    frame.drain(..4);
    Ok(Some(frame))
}

/// A frame under way; its first four bytes are for its length.
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.0.extend(bytes);
    }

    fn list<'a>(&mut self, words: impl Iterator<Item = &'a OsStr>) {
        let words: Vec<&OsStr> = words.collect();
        self.number(u32::try_from(words.len()).unwrap_or(u32::MAX));
        words.into_iter().for_each(|word| self.bytes(word.as_bytes()));
    }

    fn framed(mut self) -> Vec<u8> {
        let len = u32::try_from(self.0.len() - 4).unwrap_or(u32::MAX);
        if let Some(prefix) = self.0.first_chunk_mut::<4>() {
            *prefix = len.to_le_bytes();
        }
        self.0
    }
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(Broken)?;
        self.0 = rest;
        Ok(*first)
    }

    fn byte(&mut self) -> Result<u8, Broken> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u32, Broken> {
        self.take().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Result<u64, Broken> {
        self.take().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<OsString, Broken> {
        let len = self.number()? as usize;
        let (text, rest) = self.0.split_at_checked(len).ok_or(Broken)?;
        self.0 = rest;
        Ok(OsString::from_vec(text.to_vec()))
    }

    fn list(&mut self) -> Result<Vec<OsString>, Broken> {
        // Not as long as it claims to be, but as long as it is.
        (0..self.number()?).map(|_| self.text()).collect()
    }

    fn end(self) -> Result<(), Broken> {
        if self.0.is_empty() { Ok(()) } else { Err(Broken) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words() -> impl Strategy<Value = Vec<OsString>> {
        let word = prop::collection::vec(any::<u8>(), 0..20).prop_map(OsString::from_vec);
        prop::collection::vec(word, 0..6)
    }

    fn processes() -> impl Strategy<Value = Vec<LeftProcess>> {
        let process = (any::<u32>(), any::<u64>(), "[a-zé(]{0,15}")
            .prop_map(|(pid, pid_start, program)| LeftProcess { pid, pid_start, program });
        prop::collection::vec(process, 0..4)
    }

    fn report() -> impl Strategy<Value = Report> {
        prop_oneof![
            (any::<u32>(), any::<u64>()).prop_map(|(pid, start)| Report::Started { pid, start }),
            (any::<i32>(), ".{0,30}").prop_map(|(errno, text)| Report::NotStarted { errno, text }),
            any::<i32>().prop_map(|status| Report::Ended(Exit::Status(status))),
            any::<i32>().prop_map(|signal| Report::Ended(Exit::Signal(signal))),
            any::<u32>().prop_map(|stopped| Report::Gone { stopped }),
            (any::<u32>(), processes()).prop_map(|(stopped, alive)| Report::Left { stopped, alive }),
        ]
    }

    proptest! {
        #[test]
        fn an_order_comes_out_as_it_went_in(
            args in words(), env in words(), cwd in words(), has_stdin: bool, is_bare: bool,
        ) {
            let env = env.iter().map(|word| (word.clone(), "v".into())).collect();
            let cwd = cwd.first().map(PathBuf::from);
            let order = Order { program: "p".into(), args, cwd, env, has_stdin, is_bare };
            let mut bytes = order.encode();
            let body = take_frame(&mut bytes).unwrap().unwrap();
            prop_assert!(bytes.is_empty());
            prop_assert_eq!(Order::decode(&body), Ok(order));
            // Every part of it is needed, and nothing may follow.
            for len in 0..body.len() {
                prop_assert_eq!(Order::decode(&body[..len]), Err(Broken));
            }
        }

        #[test]
        fn reports_come_out_as_they_went_in_however_they_are_cut(reports in prop::collection::vec(report(), 0..5), cut: prop::sample::Index) {
            let all: Vec<u8> = reports.iter().flat_map(Report::encode).collect();
            let (first, rest) = all.split_at(cut.index(all.len() + 1));
            let (mut bytes, mut read) = (Vec::new(), Vec::new());
            for piece in [first, rest] {
                bytes.extend_from_slice(piece);
                while let Some(body) = take_frame(&mut bytes).unwrap() {
                    read.push(Report::decode(&body).unwrap());
                }
            }
            prop_assert!(bytes.is_empty());
            prop_assert_eq!(read, reports);
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            drop((Order::decode(&bytes), Report::decode(&bytes)));
            drop(take_frame(&mut bytes.clone()));
        }
    }

    #[test]
    fn an_order_of_other_rules_is_refused() {
        let (has_stdin, is_bare) = (false, false);
        let order = Order { program: "p".into(), args: vec![], cwd: None, env: vec![], has_stdin, is_bare };
        let mut body = order.encode().split_off(4);
        body[0] = VERSION + 1;
        assert_eq!(Order::decode(&body), Err(Broken));
        assert_eq!(frame_len(&[0xff; 4]), Err(Broken));
    }
}
