//! `docs/states.md` against the enums.

use fanin_protocol::record::{NoteCode, RunOutcome, TakenBy};
use fanin_protocol::{Cause, Code, JobKind, Outcome, PartState, Reason, Status};
use fanin_supervisor::Promotion;

use crate::{every, first_names, tree, wire};

/// Compares a column of names with what an enum writes.
fn check<T: serde::Serialize>(heading: &str, column: usize, values: &[T]) {
    let rows = tree::table(&tree::read("docs/states.md"), heading);
    let shown: Vec<&str> = rows.iter().map(|row| row[column].trim_matches('`')).collect();
    let names: Vec<String> = values.iter().map(wire).collect();
    assert_eq!(shown, names, "`{heading}` in docs/states.md against the enum, which is right");
}

#[test]
fn statuses() {
    let all = every!(Status: Queued Running Completed Error Cancelled);
    check("## Status of a job", 0, &all);
    assert!(all.iter().all(|status| wire(status) == status.as_str()));
}

#[test]
fn causes_and_the_status_that_each_leads_to() {
    let all = every!(Cause: Failed Panic Spawn Timeout Budget Dependency Interrupted User Parent Group Shutdown
        ClientGone Unknown);
    check("## Causes", 0, &all);
    assert!(all.iter().all(|cause| wire(cause) == cause.as_str()));
}

#[test]
fn codes_and_the_causes_above_them() {
    let all = every!(Code: Queue Start Run Total Idle NoOutput Exhausted NoProgress Unanswered CheckFailed ExitStatus Signal ProgramNotFound BadFolder PermissionDenied Os ShimLost
        AuthRequired Handshake Protocol AgentLimit Refusal Usd Tokens Steps Time Unknown);
    check("## Codes", 0, &all);
    assert!(all.iter().all(|code| wire(code) == code.as_str()));
    let rows = tree::table(&tree::read("docs/states.md"), "## Causes");
    let causes = first_names(&rows);
    for row in tree::table(&tree::read("docs/states.md"), "## Codes").iter().filter(|row| !row[1].is_empty())
    {
        assert!(tree::names(&row[1]).all(|cause| causes.contains(&cause)), "{} is below no cause", row[0]);
    }
}

#[test]
fn run_outcomes_part_states_group_outcomes_takers_and_notes() {
    check("## Runs", 0, &every!(RunOutcome: Completed Failed Cancelled Interrupted));
    check("## Parts", 0, &every!(PartState: Pending Running Completed Error));
    check("### Outcome", 0, &every!(Outcome: AllOk Partial NoneOk Empty));
    check("## Messages", 0, &every!(TakenBy: Waiter Inbox Results Run Void));
    check(
        "## Notes",
        0,
        &every!(NoteCode: ClockJump StaleReport Unreaped SpawnTotal Stall Circuit LowSpace Budget Unknown),
    );
}

#[test]
fn answers_to_a_promotion() {
    let rows = tree::table(&tree::read("docs/states.md"), "## Foreground calls");
    let all = [Promotion::Promoted, Promotion::AlreadyDone, Promotion::NotWaiting];
    assert_eq!(first_names(&rows), all.map(Promotion::as_str));
}

#[test]
fn reasons_in_their_order() {
    let rows = tree::table(&tree::read("docs/states.md"), "## What it waits for (`why`)");
    let phases: Vec<&str> = reasons().iter().map(phase).collect();
    assert_eq!(first_names(&rows), phases);
}

fn reasons() -> Vec<Reason> {
    vec![
        Reason::Slot { position: 1, held_by: Vec::new() },
        Reason::Draining,
        Reason::Dependency { open: 1, first: Vec::new() },
        Reason::Backoff { tries: 1, not_before_ms: 1 },
        Reason::Rate { kind: JobKind::Command },
        Reason::Circuit { kind: JobKind::Agent },
        Reason::Budget { asked_usd_micros: 1, left_usd_micros: 1 },
        Reason::Starting,
        Reason::Working,
        Reason::Question { call: "c".into() },
        Reason::Waiting { first: Vec::new() },
        Reason::Lent { position: 1, held_by: Vec::new() },
        Reason::Children { open: 1, first: Vec::new() },
        Reason::Stopping { cause: Cause::User, forced: false },
        Reason::Members { open: 1, first: Vec::new() },
        Reason::Unsealed,
        Reason::Busy,
        Reason::Offered,
        Reason::Autonomy { wakes: 1, not_before_ms: None },
        Reason::Untaken,
        Reason::NotRecovered,
        Reason::Unowned,
    ]
}

/// The phase of a reason. A new reason stops the build here.
fn phase(reason: &Reason) -> &'static str {
    match reason {
        Reason::Slot { .. }
        | Reason::Draining
        | Reason::Dependency { .. }
        | Reason::Backoff { .. }
        | Reason::Rate { .. }
        | Reason::Circuit { .. }
        | Reason::Budget { .. }
        | Reason::Starting
        | Reason::Working
        | Reason::Question { .. }
        | Reason::Waiting { .. }
        | Reason::Lent { .. }
        | Reason::Children { .. }
        | Reason::Stopping { .. }
        | Reason::Members { .. }
        | Reason::Unsealed
        | Reason::Busy
        | Reason::Offered
        | Reason::Autonomy { .. }
        | Reason::Untaken
        | Reason::NotRecovered
        | Reason::Unowned => reason.phase(),
    }
}

#[test]
fn phases_of_a_group() {
    // The enum is the machine's own, so its source is what can be read here.
    let phases = tree::variants(&tree::read("supervisor/machine/src/state.rs"), "enum Phase");
    let rows = tree::table(&tree::read("docs/states.md"), "## Groups");
    assert_eq!(first_names(&rows), phases);
}
