//! What programs read, and the page that describes it.

use std::collections::BTreeSet;

use clap::CommandFactory;
use fanin_protocol::{Cause, Code, Spent, Status, Threshold};
use serde_json::Value;

use super::*;
use crate::args::{Cli, named};
use crate::plan::Carried;
use crate::tasks::Origin;
use crate::testing::{entry, result, with_output};

fn refused(words: &[&str]) -> Value {
    let words = [&["fanin"], words].concat();
    let error = Cli::command().try_get_matches_from(&words).unwrap_err();
    serde_json::from_str(&usage(&error, &named(words.iter().map(Into::into)))).unwrap()
}

#[test]
fn a_refused_command_line_is_one_sentence_and_a_way_out() {
    let near = refused(&["run", "--concurency", "3", "x"]);
    assert_eq!(near["message"], "unexpected argument '--concurency' found");
    assert_eq!(near["hint"], "a similar argument exists: '--concurrency'");
    let other = refused(&["run", "--fail-on", "always", "x"]);
    assert_eq!(other["message"], "invalid value 'always' for '--fail-on <WHEN>': write partial or none-ok");
    assert_eq!(other["hint"], "`fanin run --help` shows every word, with examples");
}

#[test]
fn the_way_out_of_a_command_is_its_own_help() {
    for (words, command) in [
        (&["why", "--json"][..], "fanin why"),
        (&["sanitize", "--undo", "--json"], "fanin sanitize"),
        (&["--json", "show", "--at"], "fanin show"),
        (&["store", "repair"], "fanin store repair"),
        (&["nothing", "run"], "fanin"),
        (&["run", "why", "--tiemout"], "fanin run"),
    ] {
        let hint = refused(words)["hint"].as_str().unwrap().to_owned();
        let is_help = hint.starts_with(&format!("`{command} --help` shows every word"));
        assert!(is_help || !hint.contains("--help"), "{words:?}: {hint}");
        assert_eq!(named([&["fanin"], words].concat().into_iter().map(Into::into)), command);
    }
}

/// The names in the first column of the table below a heading of the page.
fn rows(heading: &str) -> BTreeSet<&'static str> {
    let page = include_str!("../../../../docs/result.md");
    let (_, below) = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let section = below.split("\n## ").next().unwrap();
    section.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0)).collect()
}

/// The names in a document, with those of the objects and lists in it after a dot.
fn names(prefix: &str, document: &Value, found: &mut BTreeSet<String>) {
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                found.insert(format!("{prefix}{name}"));
                // An entry has a table of its own.
                if name != "entries" {
                    names(&format!("{prefix}{name}."), value, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(prefix, item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check(heading: &str, document: &Value) {
    let mut found = BTreeSet::new();
    names("", document, &mut found);
    assert_eq!(rows(heading), found.iter().map(String::as_str).collect(), "{heading}");
}

#[test]
fn the_page_of_the_result_has_a_row_for_each_field_and_no_other() {
    let failed = entry("a", Status::Error, Some((Cause::Failed, Some(Code::ExitStatus))));
    let mut sample = result(vec![with_output(failed, "text")]);
    sample.stopped_by = Some(Threshold::NotOk);
    sample.entries[0].usage = Some(Spent::default());
    let mut text = Vec::new();
    let carried = Box::new(Carried { from: sample.group.clone(), entry: sample.entries[0].clone() });
    let members = [Member { id: None, origin: Origin::Carried(carried) }];
    let parent = ParentMark::read(Some("run/job/1/2".as_ref())).unwrap();
    let beside = Beside {
        members: &members,
        parent: parent.as_ref(),
        again_of: Some(&sample.group),
        exit: Exit::SomeNotCompleted,
    };
    write(&mut text, &sample, beside).unwrap();
    let document: Value = serde_json::from_slice(&text).unwrap();
    check("The document `fanin.result/1`", &document);
    check("An entry", &document["entries"][0]);
    let error = serde_json::from_str(&error("usage", "what is wrong", Some("the way out"))).unwrap();
    check("The document `fanin.error/1`", &error);
}
