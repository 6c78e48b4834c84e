//! `docs/errors.md` against every `code()` of the workspace.
//!
//! The error enums are `#[non_exhaustive]`, so a match in this crate could not be made to miss a new variant. Inside
//! its own crate `code()` is such a match, and it is read from there.

use std::collections::{BTreeMap, BTreeSet};

use fanin_machine::{NotAccepted, Refusal, WaiterId};
use fanin_protocol::spec::SpecError;
use fanin_protocol::{BoundsError, Fence, GroupId, IdError, JobId, Lifetime, SessionId};
use fanin_supervisor::{
    CallError, Candidates, FindError, LaunchError, OutputError, RunError, SessionError, StartError, WaitError,
};

use crate::tree;

/// Variant to code; a variant that passes another type's codes on has none.
type Codes = BTreeMap<String, Option<String>>;

#[test]
fn every_code_has_a_row_and_every_row_a_code() {
    let (there, page) = (there(), tree::read("docs/errors.md"));
    for (error, codes) in &there {
        assert_eq!(
            &shown(&page, error),
            codes,
            "`{error}` in docs/errors.md against its code(), which is right"
        );
    }
    let headings: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`')).collect();
    assert_eq!(headings, there.keys().map(String::as_str).collect(), "the headings of docs/errors.md");
}

#[test]
fn a_code_means_one_thing() {
    // `closed` is a wait's as well as a call's: both say that the supervisor is gone. `busy` is one thing at every call.
    let shared = ["busy", "closed"];
    let mut seen = BTreeSet::new();
    for code in there().into_values().flat_map(BTreeMap::into_values).flatten() {
        assert!(
            seen.insert(code.clone()) || shared.contains(&code.as_str()),
            "`{code}` stands for two things"
        );
    }
}

#[test]
fn the_codes_that_are_read_are_those_that_are_given() {
    let there = there();
    for (error, variant, code) in samples() {
        assert_eq!(there[error][variant].as_deref(), Some(code), "{error}::{variant}");
    }
    let refusals = samples().iter().filter(|(error, ..)| *error == "Refusal").count();
    assert_eq!(refusals, there["Refusal"].len(), "a sample of each refusal");
}

#[test]
fn the_exit_codes_are_those_of_the_program() {
    let source = tree::read("supervisor/cli/src/exit.rs");
    let arms = |head: &str| -> Vec<(Vec<String>, String)> {
        let (_, body) = source.split_once(head).unwrap_or_else(|| panic!("there is no `{head}`"));
        let lines =
            body.lines().take_while(|line| *line != "    }").filter_map(|line| line.split_once(" => "));
        let words =
            |pattern: &str| pattern.split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect();
        lines.map(|(pattern, value)| (words(pattern), value.trim_matches([',', '"']).to_owned())).collect()
    };
    // The last word of a pattern tells the variants apart; those that share a number stand in one pattern.
    let (numbers, names) = (arms("fn code(self) -> u8 {"), arms("fn name(self) -> &'static str {"));
    let there: BTreeSet<(String, String)> = names
        .into_iter()
        .map(|(pattern, name)| {
            let variant = pattern.iter().rfind(|word| !word.is_empty()).unwrap();
            let (_, number) = numbers.iter().find(|(words, _)| words.contains(variant)).unwrap();
            (number.clone(), name)
        })
        .collect();
    assert!(there.len() >= 7, "{there:?}: they are not read rightly");
    let rows = tree::table(&tree::read("docs/errors.md"), "## Exit codes of `fanin run`");
    let shown = rows.iter().map(|row| (row[0].clone(), row[1].trim_matches('`').to_owned())).collect();
    assert_eq!(there, shown);
}

/// The rows below an error's heading.
fn shown(page: &str, error: &str) -> Codes {
    tree::table(page, &format!("## `{error}`"))
        .iter()
        .map(|row| {
            assert!(row[2..].iter().all(|cell| !cell.is_empty()), "{error}: {row:?} says too little");
            let code = (!row[0].starts_with("codes of")).then(|| row[0].trim_matches('`').to_owned());
            (row[1].trim_matches('`').to_owned(), code)
        })
        .collect()
}

/// All error types with a `code()`.
fn there() -> BTreeMap<String, Codes> {
    let mut found = BTreeMap::new();
    for folder in ["protocol", "bus", "supervisor"] {
        for (_, source) in tree::files(folder).into_iter().filter(|(path, _)| path.ends_with(".rs")) {
            for block in source.split("\nimpl ").skip(1) {
                let name: String = block.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
                if let Some((_, body)) = block.split_once("fn code(&self) -> &'static str {") {
                    found.insert(name, arms(body.split("\n    }").next().unwrap_or_default()));
                }
            }
        }
    }
    assert!(found.len() >= 6, "{:?}: they are not read rightly", found.keys());
    found
}

/// The arms of a `code()`: `Self::Closed => "closed"`, or one that asks what it wraps.
fn arms(body: &str) -> Codes {
    let arms = body.lines().filter_map(|line| line.trim().strip_prefix("Self::")?.split_once(" => "));
    arms.map(|(variant, code)| {
        let variant = variant.chars().take_while(char::is_ascii_alphanumeric).collect();
        (variant, code.strip_prefix('"').map(|code| code.trim_end_matches([',', '"']).to_owned()))
    })
    .collect()
}

/// Errors as they are given, with the code that each gives.
fn samples() -> Vec<(&'static str, &'static str, &'static str)> {
    let job = || JobId::parse("scan").unwrap();
    let (session, group) = (SessionId::parse("main").unwrap(), GroupId::parse("survey").unwrap());
    let bounds = BoundsError { bound: "depth", value: 0, min: 1, max: 2 };
    let refusals = [
        ("UnknownSession", Refusal::UnknownSession(session.clone())),
        ("SessionClosed", Refusal::SessionClosed(session.clone())),
        ("Stopping", Refusal::Stopping(job())),
        ("RunOver", Refusal::RunOver(Fence(3))),
        ("OwnAncestor", Refusal::OwnAncestor(job())),
        ("Depth", Refusal::Depth { depth: 2, max: 1 }),
        ("TurnOpen", Refusal::TurnOpen(session)),
        ("UnknownJob", Refusal::UnknownJob(job())),
        ("Expired", Refusal::Expired(job())),
        ("NotCurrent", Refusal::NotCurrent { job: job(), current: Lifetime(2), asked: Lifetime(1) }),
        ("UnknownGroup", Refusal::UnknownGroup(group.clone())),
        ("ForeignGroup", Refusal::ForeignGroup(group)),
        ("Empty", Refusal::Empty),
        ("TooMany", Refusal::TooMany { members: 2, max: 1 }),
        ("TooFew", Refusal::TooFew { members: 1, min: 2 }),
        ("SpawnTotal", Refusal::SpawnTotal { spawned: 1, asked: 1, max: 1 }),
        ("BadBounds", Refusal::BadBounds(bounds)),
        ("DuplicateId", Refusal::DuplicateId(job())),
        ("IdInUse", Refusal::IdInUse(job())),
        (
            "BadSpec",
            Refusal::BadSpec {
                index: 0,
                job: job(),
                error: SpecError { field: "label", problem: "long".into() },
            },
        ),
        ("NoWatch", Refusal::NoWatch(job())),
        ("FiringsSpent", Refusal::FiringsSpent { job: job(), max: 1 }),
        ("BadWatch", Refusal::BadWatch { index: 0, problem: "it is a launch of its own" }),
        ("BadLimit", Refusal::BadLimit(SpecError { field: "slots", problem: "zero".into() })),
        ("BadPlan", Refusal::BadPlan(vec!["`a` needs itself".into()])),
        ("UnboundBudget", Refusal::UnboundBudget { index: None }),
        ("BadPolicy", Refusal::BadPolicy("ok = 0".into())),
        ("QueueFull", Refusal::QueueFull { queued: 1, asked: 1, max: 1 }),
        ("Draining", Refusal::Draining),
        ("NotOpen", Refusal::NotOpen),
        ("RunsOpen", Refusal::RunsOpen(1)),
        ("NotAccepted", Refusal::NotAccepted { job: job(), why: NotAccepted::Over }),
        ("TooLarge", Refusal::TooLarge { index: None, bytes: 2, max: 1 }),
        ("InboxFull", Refusal::InboxFull { max: 1 }),
        ("NoTeam", Refusal::NoTeam),
        ("UnknownTarget", Refusal::UnknownTarget { name: "b".into(), known: Vec::new() }),
        ("SelfTarget", Refusal::SelfTarget("a".into())),
        ("NotAllowed", Refusal::NotAllowed { from: "b".into(), to: "a".into() }),
        ("TargetFinished", Refusal::TargetFinished("b".into())),
        ("MailboxFull", Refusal::MailboxFull("64 mails wait".into())),
        ("SendsSpent", Refusal::SendsSpent(256)),
        ("MailboxReset", Refusal::MailboxReset),
        ("MailboxClosed", Refusal::MailboxClosed),
        ("MessagesLeft", Refusal::MessagesLeft(1)),
        ("DuplicateWaiter", Refusal::DuplicateWaiter(WaiterId(1))),
        ("StillReaping", Refusal::StillReaping { job: job(), lifetime: Lifetime(1) }),
    ];
    // What wraps a refusal says what the refusal says.
    for (_, refusal) in &refusals {
        let call = CallError::from(refusal.clone());
        assert_eq!(call.code(), refusal.code());
        assert_eq!(LaunchError::from(call.clone()).code(), refusal.code());
        assert_eq!(WaitError::from(call.clone()).code(), refusal.code());
        assert_eq!(RunError::from(LaunchError::from(call.clone())).code(), refusal.code());
        assert_eq!(RunError::from(WaitError::from(call.clone())).code(), refusal.code());
        assert_eq!(SessionError::from(call.clone()).code(), refusal.code());
        assert_eq!(StartError::from(call).code(), refusal.code());
    }
    let limit = std::time::Duration::from_secs(1);
    let candidates = Candidates(Vec::new());
    let ambiguous = FindError::Ambiguous { start: "job_ffff".into(), count: 2, candidates };
    let mut samples: Vec<_> =
        refusals.iter().map(|(variant, refusal)| ("Refusal", *variant, refusal.code())).collect();
    samples.extend([
        ("CallError", "Closed", CallError::Closed.code()),
        ("CallError", "Poisoned", CallError::Poisoned.code()),
        ("LaunchError", "NoRunner", LaunchError::NoRunner { index: 0, kind: "command" }.code()),
        ("LaunchError", "Rejected", LaunchError::Rejected { index: 0, problem: "no".into() }.code()),
        ("WaitError", "TimedOut", WaitError::TimedOut { limit }.code()),
        ("WaitError", "Voided", WaitError::Voided.code()),
        ("WaitError", "Closed", WaitError::Closed.code()),
        ("SessionError", "Id", SessionError::from(IdError::Empty).code()),
        ("OutputError", "NotKept", OutputError::NotKept { job: job(), total: 1 }.code()),
        ("FindError", "NoPrefix", FindError::NoPrefix("job_".into()).code()),
        ("FindError", "Unknown", FindError::Unknown("job_ffff".into()).code()),
        ("FindError", "Ambiguous", ambiguous.code()),
        ("StartError", "Setting", StartError::Setting { setting: "slots", problem: "0" }.code()),
        ("StartError", "NoRuntime", StartError::NoRuntime.code()),
    ]);
    samples
}
