//! `fanin mcp` with the clients of MCP's authors: their two TypeScript SDKs, and the command line of their inspector. Where
//! they are not installed (tests/agents.sh) nothing is tested and that is said; with `FANIN_REQUIRE=all` it is a failure.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::tempdir;

use crate::common::Running;

/// The folder with their packages; `None` where it is not there and need not be.
fn installed() -> Option<PathBuf> {
    let folder = std::env::var_os("FANIN_MCP_CLIENTS");
    if folder.is_none() {
        assert!(std::env::var_os("FANIN_REQUIRE").is_none(), "FANIN_MCP_CLIENTS is needed: tests/agents.sh");
        // Not by a macro, whose words are kept back where a test passes.
        let skipped =
            "SKIPPED: without FANIN_MCP_CLIENTS nothing is tested with the official clients of MCP\n";
        std::io::stderr().write_all(skipped.as_bytes()).unwrap();
    }
    folder.map(PathBuf::from)
}

/// A program of node, with a state folder of its own below `folder`.
fn node(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("node");
    command.args(words).current_dir(folder).env("FANIN_STATE_DIR", folder.join(".state"));
    command.env_remove("FANIN_PARENT");
    let ended = Running::start(command).end();
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    ended.stdout
}

#[test]
fn both_sdks_list_call_cancel_and_disconnect_in_every_version() {
    let Some(clients) = installed() else { return };
    let folder = tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/mcp_clients.mjs");
    let said = node(folder.path(), &[script, env!("CARGO_BIN_EXE_fanin"), &clients.to_string_lossy()]);
    assert_eq!(said, "sdk 1: ok\nclient 2: ok\nclient 2, auto: ok\nclient 2, 2026-07-28: ok\n");
}

#[test]
fn the_inspector_lists_and_calls() {
    let Some(clients) = installed() else { return };
    let folder = tempdir().unwrap();
    let inspector = clients.join("node_modules/.bin/mcp-inspector").canonicalize().unwrap();
    let inspect = |words: &[&str]| -> Value {
        let inspector = inspector.to_string_lossy();
        let mut all = vec![inspector.as_ref(), "--cli", env!("CARGO_BIN_EXE_fanin"), "mcp", "--method"];
        all.extend(words);
        let said = node(folder.path(), &all);
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("no JSON: {said}"))
    };
    assert_eq!(inspect(&["tools/list"])["tools"].as_array().map(Vec::len), Some(7));
    let said = inspect(&["tools/call", "--tool-name", "subagent", "--tool-arg", "shell=echo hi"]);
    assert_eq!(said["structuredContent"]["results"][0]["tasks"][0]["output"], "hi\n", "{said}");
}
