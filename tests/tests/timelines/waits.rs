//! What a wait takes and what it leaves, and the races around it: BAR-10 to BAR-16, W-4, W-6.

use expect_test::expect;
use fanin_tests::timeline::check;

// BAR-10: held while a waiter holds an offer; BAR-15: then a reference. W-6: which entries, is fixed by then.
#[test]
fn a_wait_on_a_subset_makes_references() {
    check(
        "launch a b c; wait w1 any a b; end b; end a; end c; wait w2 wake; ack w1; ack w2",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a
            run.started b
            run.started c
            run.ended b completed
            job.ended b completed
            -> w1: [b completed]
            run.ended a completed
            job.ended a completed
            run.ended c completed
            job.ended c completed
            group.fired all_ok [a completed, b completed, c completed]
            message.taken b by waiter
            -> w2: wake [a completed, b completed (reference), c completed]
            message.taken [a b c] by inbox
        "#]],
    );
}

// BAR-12: a waiter that leaves with its offer: nothing is lost, nothing is a reference.
#[test]
fn a_waiter_that_leaves_with_its_answer_gives_it_back() {
    check(
        "launch a; wait w1 all a; end a; wait w2 wake; leave w1; ack w2",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: [a completed]
            -> w2: wake [a completed]
            message.taken [a] by inbox
        "#]],
    );
}

// BAR-10: covering means all that is not taken yet.
#[test]
fn a_waiter_covers_what_others_have_not_taken() {
    check(
        "launch a b; launch c; end a; wait w1 all a; ack w1; wait w2 all b c; end b; wait w3 wake; leave w2; ack w3",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            job.queued c
            group.sealed [c]
            run.started c
            run.ended a completed
            job.ended a completed
            -> w1: [a completed]
            message.taken a by waiter
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
            -> w3: wake [a completed (reference), b completed]
            message.taken [a b] by inbox
        "#]],
    );
}

// Race: a wait that covers a fired group: not offered: the waiter gets it; offered or taken: already delivered.
#[test]
fn a_wait_after_the_fire_takes_it() {
    check(
        "launch a; end a; wait w1 group g1; ack w1; wait w2 wake",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: group [a completed]
            message.taken [a] by waiter
        "#]],
    );
}

#[test]
fn a_wait_after_the_wake_went_out_is_told_so() {
    check(
        "launch a; end a; wait w1 wake; wait w2 all a; wait w3 group g1; ack w2; ack w3; ack w1",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: wake [a completed]
            -> w2: [a completed (reference)] (already delivered)
            -> w3: group [a completed] (already delivered)
            message.taken [a] by inbox
        "#]],
    );
}

#[test]
fn a_wait_after_the_wake_was_taken_is_told_so() {
    check(
        "launch a; end a; wait w1 wake; ack w1; wait w2 all a; wait w3 group g1; wait w4 any a; ack w2; ack w3; ack w4",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: wake [a completed]
            message.taken [a] by inbox
            -> w2: [a completed (reference)] (already delivered)
            -> w3: group [a completed] (already delivered)
            -> w4: [a completed (reference)] (already delivered)
        "#]],
    );
}

// BAR-15: several waits on one job all get its result.
#[test]
fn several_waits_get_one_result() {
    check(
        "launch a; wait w1 all a; wait w2 any a; wait w3 group g1; end a; ack w1; ack w2; ack w3",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: [a completed]
            -> w2: [a completed]
            -> w3: group [a completed]
            message.taken [a] by waiter
        "#]],
    );
}

// Two waits on parts of one group, both acknowledged.
#[test]
fn two_waits_share_a_group() {
    check(
        "launch a b; wait w1 all a; wait w2 all b; end a; end b; ack w2; ack w1; wait w3 wake",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            -> w1: [a completed]
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
            -> w2: [b completed]
            message.taken b by waiter
            message.taken [a b] by waiter
        "#]],
    );
}

// B14: all means all, and any is the first.
#[test]
fn all_means_all_and_any_is_the_first() {
    check(
        "launch a b c; wait w1 all a b c; wait w2 any a b c; end b; end a; end c; ack w1; ack w2",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a
            run.started b
            run.started c
            run.ended b completed
            job.ended b completed
            -> w2: [b completed]
            run.ended a completed
            job.ended a completed
            run.ended c completed
            job.ended c completed
            group.fired all_ok [a completed, b completed, c completed]
            -> w1: [a completed, b completed, c completed]
            message.taken [a b c] by waiter
        "#]],
    );
}

// BAR-11: a wait that runs out is a waiter that leaves; the jobs go on.
#[test]
fn a_wait_that_runs_out_stops_nothing() {
    check(
        "launch a; wait w1 all a; leave w1; end a; wait w2 wake; ack w2",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w2: wake [a completed]
            message.taken [a] by inbox
        "#]],
    );
}

// BAR-16: an explicit cancel stops what the call launched, and its waiter still gets the end.
#[test]
fn a_cancel_of_a_foreground_call_stops_what_it_launched() {
    check(
        "launch a; wait w1 group g1; launch b; stop-group g1 client_gone; end a lost; ack w1",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            job.stopping a cancelled/client_gone
            -> Polite stop of a
            run.ended a cancelled
            job.ended a cancelled/client_gone
            group.fired none_ok [a cancelled/client_gone]
            -> w1: group [a cancelled/client_gone]
            message.taken [a] by waiter
        "#]],
    );
}

// An acknowledgement of nothing, of somebody unknown, twice.
#[test]
fn an_acknowledgement_of_nothing_takes_nothing() {
    check(
        "launch a; wait w1 all a; ack w1; ack w1; ack w9; leave w9; end a; wait w2 wake; ack w2; ack w2",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w2: wake [a completed]
            message.taken [a] by inbox
        "#]],
    );
}

// What cannot be waited for.
#[test]
fn what_cannot_be_waited_for_is_refused() {
    check(
        "launch a; wait w1 all; wait w1 all a a; wait w1 all x; wait w1 all in=t a; wait w1 group x; wait w1 wake t; wait w1 wake; wait w1 wake; close s; wait w1 all a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            = refused: the list is empty; name at least one job
            = refused: job id `a` stands twice in one call
            = refused: job `x` is not known here
            = refused: session `t` is not known; open it first
            = refused: group `x` is not known here
            = refused: session `t` is not known; open it first
            = refused: waiter WaiterId(1) is known already
            session.closed s
            group.voided [a]
            job.stopping a cancelled/parent
            -> w1: closed
            -> Polite stop of a
            = refused: session `s` is closed
        "#]],
    );
}

// W-4: a wait goes on in a turn.
#[test]
fn a_wait_is_answered_in_a_turn() {
    check(
        "turn; launch a; wait w1 all a; end a; ack w1; turn-end; wait w2 wake",
        expect![[r#"
            run.started turn of s
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: [a completed]
            message.taken [a] by waiter
            run.ended turn of s completed
        "#]],
    );
}

// B03: over before anybody looks.
#[test]
fn over_before_anybody_looks() {
    check(
        "launch a b; end a; end b; wait w1 all a b; ack w1; wait w2 wake",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
            -> w1: [a completed, b completed]
            message.taken [a b] by waiter
        "#]],
    );
}

// Idle is told once no run is open, also at once.
#[test]
fn idle_is_told_when_no_run_is_open() {
    check(
        "wait w1 idle; launch a b; wait w2 idle; end a; end b",
        expect![[r#"
            -> w1: idle
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
            -> w2: idle
        "#]],
    );
}

// A wait of another session looks on: it takes nothing, and does not say that the parent has it.
#[test]
fn a_wait_of_another_session_takes_nothing() {
    check(
        "session t; launch a; wait w1 all in=t a; end a; ack w1; wait w2 wake; wait w3 any in=t a; ack w2; wait w4 any in=t a",
        expect![[r#"
            session.opened t
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: [a completed]
            -> w2: wake [a completed]
            -> w3: [a completed (reference)] (already delivered)
            message.taken [a] by inbox
            -> w4: [a completed (reference)] (already delivered)
        "#]],
    );
}
