//! A rollout of Codex: one session, a line of JSON for each thing that happened. What is repaired is told by lines behind
//! all others; no line that is there is touched.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fanin_protocol::{Fence, PartKind, PartState, ToolPart};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::backup;
use crate::error::SanitizeError;
use crate::format::{Format, Store};
use crate::orphan::{Orphan, Scan, Scanned};
use crate::plan::{Fix, Plan};
use crate::users;

/// The versions of the client whose rollouts are known.
const VERSIONS: &[&str] = &["0.171.0"];

/// A rollout of Codex.
#[derive(Debug, Clone, Copy)]
pub struct Codex;

/// A line, as far as it is looked at.
#[derive(Deserialize)]
struct Line<'l> {
    #[serde(borrow)]
    timestamp: Cow<'l, str>,
    ordinal: Option<u64>,
    #[serde(rename = "type", borrow)]
    kind: Cow<'l, str>,
    #[serde(borrow)]
    payload: Option<&'l RawValue>,
}

#[derive(Deserialize)]
struct Meta {
    id: String,
    cli_version: String,
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    call_id: Option<String>,
    name: Option<String>,
}

/// A call whose output has not come.
struct Call {
    id: String,
    name: String,
    /// The kind of item that its output is.
    output: &'static str,
    at_ms: u64,
}

/// What a rollout says.
#[derive(Default)]
struct Rollout {
    meta: Option<Meta>,
    open: Vec<Call>,
    /// The number of the next line.
    next: u64,
    lines: u64,
}

impl Rollout {
    fn read(path: &Path, more: &[String]) -> Result<Self, SanitizeError> {
        let io = |error: io::Error| SanitizeError::io(path, &error);
        let mut reader = BufReader::new(File::open(path).map_err(io)?);
        let (mut rollout, mut line) = (Self::default(), String::new());
        while reader.read_line(&mut line).map_err(|error| of_text(path, rollout.lines, &error))? > 0 {
            if !line.ends_with('\n') {
                return Err(SanitizeError::damaged(
                    path,
                    format!("its last line, {}, is cut", rollout.lines + 1),
                ));
            }
            rollout.line(path, &line)?;
            line.clear();
        }
        more.iter().try_for_each(|line| rollout.line(path, line))?;
        match &rollout.meta {
            Some(meta) if VERSIONS.contains(&meta.cli_version.as_str()) => Ok(rollout),
            Some(meta) => Err(SanitizeError::Version {
                path: path.to_owned(),
                found: meta.cli_version.clone(),
                known: format!("{} (of Codex)", VERSIONS.join(", ")),
            }),
            None => Err(SanitizeError::damaged(path, "its first line is not that of a rollout")),
        }
    }

    fn line(&mut self, path: &Path, text: &str) -> Result<(), SanitizeError> {
        self.lines += 1;
        let number = self.lines;
        let damaged = |why: String| SanitizeError::damaged(path, format!("line {number}: {why}"));
        let line: Line<'_> = serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        self.next = line.ordinal.map_or(number, |ordinal| ordinal + 1);
        let payload = line.payload.map_or("null", RawValue::get);
        match &*line.kind {
            "session_meta" if self.meta.is_none() => {
                let meta = serde_json::from_str(payload).map_err(|error| damaged(error.to_string()))?;
                self.meta = Some(meta);
            }
            "response_item" => {
                let item: Item = serde_json::from_str(payload).map_err(|error| damaged(error.to_string()))?;
                let at_ms = milliseconds(&line.timestamp).ok_or_else(|| damaged("it has no time".into()))?;
                self.item(item, at_ms);
            }
            // What this program does not know is not its own.
            _ => {}
        }
        Ok(())
    }

    fn item(&mut self, item: Item, at_ms: u64) {
        let Some(id) = item.call_id else { return };
        let output = match item.kind.as_str() {
            "function_call" => "function_call_output",
            "custom_tool_call" => "custom_tool_call_output",
            "function_call_output" | "custom_tool_call_output" => {
                return self.open.retain(|call| call.id != id);
            }
            _ => return,
        };
        let name = item.name.unwrap_or_default();
        self.open.push(Call { id, name, output, at_ms });
    }

    fn scan(self) -> Scan {
        let orphans = self.open.iter().map(Call::orphan).collect();
        let (session, version) = self.meta.map(|meta| (meta.id, meta.cli_version)).unwrap_or_default();
        let title = String::new();
        Scan { version, sessions: vec![Scanned { session, parent: None, title, orphans }] }
    }

    /// The lines that a plan comes to.
    fn lines(&self, plan: &Plan) -> Vec<String> {
        let closed = plan.fixes.iter().filter_map(|fix| match fix {
            Fix::Close { key, part, text } => {
                Some((self.open.iter().find(|call| call.id == *key)?, part, text))
            }
            // A rollout has neither.
            Fix::Complete { .. } | Fix::Tell { .. } => None,
        });
        let line = |(ordinal, (call, part, text)): (u64, (&Call, &ToolPart, &String))| {
            let timestamp = timestamp(part.end_ms.unwrap_or(part.last_ms));
            let payload = json!({"type": call.output, "call_id": call.id, "output": text});
            let line = json!({"timestamp": timestamp, "ordinal": ordinal, "type": "response_item", "payload": payload});
            format!("{line}\n")
        };
        (self.next..).zip(closed).map(line).collect()
    }
}

impl Call {
    /// As the machine knows calls, whose rule then closes it.
    fn orphan(&self) -> Orphan {
        // Its run is none of this program's.
        let (id, name) = (self.id.as_str().into(), self.name.as_str().into());
        let mut part = ToolPart::pending(Fence(0), id, name, PartKind::Tool, self.at_ms);
        (part.state, part.start_ms) = (PartState::Running, Some(self.at_ms));
        Orphan::Part { key: self.id.clone(), part, child: None, is_timeless: false }
    }
}

fn milliseconds(timestamp: &str) -> Option<u64> {
    let since = humantime::parse_rfc3339(timestamp).ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

fn timestamp(ms: u64) -> String {
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(ms)).unwrap_or(SystemTime::UNIX_EPOCH);
    humantime::format_rfc3339_millis(time).to_string()
}

/// An error of reading, of which text that is none is damage.
fn of_text(path: &Path, lines: u64, error: &io::Error) -> SanitizeError {
    if error.kind() == io::ErrorKind::InvalidData {
        return SanitizeError::damaged(path, format!("line {}: {error}", lines + 1));
    }
    SanitizeError::io(path, error)
}

impl Format for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }

    /// None: each session has a file of its own, and there are many. They are looked at by name.
    fn places(&self, _variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Vec<PathBuf>, SanitizeError> {
        Ok(Vec::new())
    }

    fn is_one(&self, path: &Path) -> Result<bool, SanitizeError> {
        /// More than any first line has.
        const FIRST: u64 = 1 << 20;
        if path.is_dir() {
            return Ok(false);
        }
        let file = File::open(path).map_err(|error| SanitizeError::io(path, &error))?;
        let mut first = String::new();
        let read = BufReader::new(file.take(FIRST)).read_line(&mut first);
        // What is no text is no rollout.
        Ok(read.is_ok()
            && serde_json::from_str::<Line<'_>>(&first).is_ok_and(|line| line.kind == "session_meta"))
    }

    fn user(&self, path: &Path) -> Option<String> {
        users::of(&[path.to_owned()])
    }

    fn scan(&self, path: &Path) -> Result<Scan, SanitizeError> {
        Ok(Rollout::read(path, &[])?.scan())
    }

    fn open(&self, path: &Path, force: bool) -> Result<Box<dyn Store>, SanitizeError> {
        if let (false, Some(user)) = (force, self.user(path)) {
            return Err(SanitizeError::InUse { path: path.to_owned(), user: Some(user) });
        }
        // Nothing is locked by whoever has it open, so without a list of processes nobody knows.
        if !force && !Path::new("/proc/self/fd").exists() {
            return Err(SanitizeError::InUse { path: path.to_owned(), user: None });
        }
        let mode = fs::metadata(path).map_err(|error| SanitizeError::io(path, &error))?.permissions().mode();
        if mode & 0o222 == 0 {
            let problem = "nobody has the right to".to_owned();
            return Err(SanitizeError::ReadOnly { path: path.to_owned(), problem });
        }
        Ok(Box::new(Opened { path: path.to_owned(), next: RefCell::default() }))
    }
}

/// What becomes of the file at the commit.
#[derive(Default)]
struct Next {
    /// So much of it stays; all where this says nothing.
    keep: Option<u64>,
    /// Behind that.
    add: Vec<String>,
}

/// A rollout that is open to be changed.
struct Opened {
    path: PathBuf,
    next: RefCell<Next>,
}

impl Opened {
    fn io(&self, error: &io::Error) -> SanitizeError {
        SanitizeError::io(&self.path, error)
    }

    /// Writes the file anew beside itself, and puts that in its place.
    fn replace(&self, next: &Next) -> io::Result<()> {
        let mut half = self.path.clone().into_os_string();
        half.push(".fanin-part");
        let half = PathBuf::from(half);
        let was = fs::metadata(&self.path)?;
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half)?;
        let mut out = BufWriter::new(file);
        io::copy(&mut File::open(&self.path)?.take(next.keep.unwrap_or(u64::MAX)), &mut out)?;
        next.add.iter().try_for_each(|line| out.write_all(line.as_bytes()))?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.set_permissions(was.permissions())?;
        if (file.metadata()?.uid(), file.metadata()?.gid()) != (was.uid(), was.gid()) {
            chown(&half, Some(was.uid()), Some(was.gid()))?;
        }
        file.sync_all()?;
        fs::rename(&half, &self.path)?;
        backup::sync_folder(&self.path)
    }
}

impl Store for Opened {
    fn scan(&self) -> Result<Scan, SanitizeError> {
        Ok(Rollout::read(&self.path, &self.next.borrow().add)?.scan())
    }

    fn copy(&self, to: &Path) -> Result<(), SanitizeError> {
        let copy = || {
            let mut out = File::options().write(true).truncate(true).open(to)?;
            io::copy(&mut File::open(&self.path)?, &mut out)
        };
        copy().map(|_| ()).map_err(|error| SanitizeError::io(to, &error))
    }

    fn begin(&self) -> Result<(), SanitizeError> {
        self.next.take();
        Ok(())
    }

    fn apply(&self, plan: &Plan) -> Result<(), SanitizeError> {
        let lines = Rollout::read(&self.path, &[])?.lines(plan);
        self.next.borrow_mut().add.extend(lines);
        Ok(())
    }

    fn take_back(&self, copy: &Path, plan: &Plan) -> Result<(usize, usize), SanitizeError> {
        let lines = Rollout::read(copy, &[])?.lines(plan);
        let was = fs::read(copy).map_err(|error| SanitizeError::io(copy, &error))?;
        let now = fs::read(&self.path).map_err(|error| self.io(&error))?;
        let Some(rest) = now.strip_prefix(&*was) else { return Ok((0, lines.len())) };
        if rest == lines.concat().as_bytes() {
            self.next.borrow_mut().keep = Some(was.len() as u64);
            return Ok((lines.len(), 0));
        }
        // The lines behind it are numbered, so those of the repair cannot be taken out any more.
        let is_made = rest.starts_with(lines.concat().as_bytes());
        Ok((0, if is_made { lines.len() } else { 0 }))
    }

    fn commit(&self) -> Result<(), SanitizeError> {
        let next = self.next.take();
        if next.keep.is_none() && next.add.is_empty() {
            return Ok(());
        }
        self.replace(&next).map_err(|error| self.io(&error))
    }
}
