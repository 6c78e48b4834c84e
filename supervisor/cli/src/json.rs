//! The result as a document for programs: `fanin.result/1`.

use std::io::{self, Write};

use fanin_protocol::CombinedResult;
use serde::Serialize;

use crate::exit::Exit;

#[derive(Debug, Serialize)]
struct Document<'r> {
    schema: &'static str,
    exit: ExitOf,
    #[serde(flatten)]
    result: &'r CombinedResult,
}

#[derive(Debug, Serialize)]
struct ExitOf {
    code: u8,
    name: &'static str,
}

/// Writes the document and a line feed.
///
/// # Errors
///
/// The writer's.
pub(crate) fn write(out: &mut impl Write, result: &CombinedResult, exit: Exit) -> io::Result<()> {
    let exit = ExitOf { code: exit.code(), name: exit.name() };
    serde_json::to_writer(&mut *out, &Document { schema: "fanin.result/1", exit, result })?;
    out.write_all(b"\n")
}
