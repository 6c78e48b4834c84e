//! What came of a hosted parent, for people and for programs: `fanin.exec/1`.

use std::io::{self, Write};

use fanin_protocol::{CombinedResult, Fault, JobId, SessionId};
use serde::Serialize;

use crate::exit::Exit;

/// All that is known in the end.
#[derive(Debug)]
pub(crate) struct Report<'r> {
    pub(crate) session: &'r SessionId,
    pub(crate) agent: &'r str,
    pub(crate) exit: Exit,
    /// The last message of the closing turn.
    pub(crate) text: &'r str,
    pub(crate) turns: u32,
    pub(crate) wakes: u32,
    /// Why there is no closing turn.
    pub(crate) fault: Option<&'r Fault>,
    /// What the parent was woken with, in that order.
    pub(crate) results: &'r [CombinedResult],
    /// Jobs that were still to end when it was cut short.
    pub(crate) unfinished: &'r [JobId],
}

#[derive(Debug, Serialize)]
struct Document<'r> {
    schema: &'static str,
    exit: ExitOf,
    session: &'r SessionId,
    agent: &'r str,
    text: &'r str,
    turns: u32,
    wakes: u32,
    error: Option<&'r Fault>,
    unfinished: &'r [JobId],
    results: &'r [CombinedResult],
}

#[derive(Debug, Serialize)]
struct ExitOf {
    code: u8,
    name: &'static str,
}

impl Report<'_> {
    /// The document and a line feed.
    ///
    /// # Errors
    ///
    /// None that a text in memory has.
    pub(crate) fn document(&self) -> io::Result<Vec<u8>> {
        let Self { session, agent, exit, text, turns, wakes, fault, results, unfinished } = *self;
        let exit = ExitOf { code: exit.code(), name: exit.name() };
        let document = Document {
            schema: "fanin.exec/1",
            exit,
            session,
            agent,
            text,
            turns,
            wakes,
            error: fault,
            unfinished,
            results,
        };
        let mut out = serde_json::to_vec(&document)?;
        out.write_all(b"\n")?;
        Ok(out)
    }

    /// What people read on standard output: the parent's last words as they are.
    pub(crate) fn words(&self) -> Vec<u8> {
        let mut out = self.text.as_bytes().to_vec();
        if !out.is_empty() && !out.ends_with(b"\n") {
            out.push(b'\n');
        }
        out
    }
}
