//! Foreground calls: launch and wait, how they come back, and who is told: BAR-12, SC-20.

use expect_test::expect;
use fanin_tests::timeline::check;

// BAR-12: a foreground call is a wait for what it launched.
#[test]
fn a_foreground_call_takes_its_result() {
    check(
        "launch fg=w1 a b; end a; end b; ack w1; wait w2 wake",
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
            -> w1: group [a completed, b completed]
            message.taken [a b] by waiter
        "#]],
    );
}

// SC-20: promoted before the answer: nothing is stopped, and the result comes as one wake.
#[test]
fn a_promoted_call_leaves_and_its_result_is_a_wake() {
    check(
        "launch fg=w1 a b; end a; promote b; end b; wait w2 wake; ack w2; wait w3 wake",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            -> w1: promoted
            = promoted
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
            -> w2: wake [a completed, b completed]
            message.taken [a b] by inbox
        "#]],
    );
}

#[test]
fn a_group_is_promoted_by_its_own_id_as_well() {
    check(
        "wait w2 wake; launch as=g fg=w1 a; promote-group g; end a; ack w2",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            -> w1: promoted
            = promoted
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w2: wake [a completed]
            message.taken [a] by inbox
        "#]],
    );
}

// SC-20: after the answer, acknowledged or not.
#[test]
fn promote_after_the_answer_comes_too_late() {
    check(
        "launch fg=w1 a; end a; promote a; ack w1; promote a; promote-group g1; wait w2 wake",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: group [a completed]
            = already_done
            message.taken [a] by waiter
            = already_done
            = already_done
        "#]],
    );
}

// SC-20: once for each call.
#[test]
fn promote_answers_once() {
    check(
        "launch fg=w1 a; promote a; promote a; leave w1; promote a; end a; promote a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            -> w1: promoted
            = promoted
            = not_waiting
            = not_waiting
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            = already_done
        "#]],
    );
}

// A job that is over is still waited for while its group is not.
#[test]
fn a_member_that_is_over_promotes_its_group() {
    check(
        "launch fg=w1 a b; end a; promote a; end b; wait w2 wake; ack w2",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            -> w1: promoted
            = promoted
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
            -> w2: wake [a completed, b completed]
            message.taken [a b] by inbox
        "#]],
    );
}

// SC-20: other waits are no foreground calls.
#[test]
fn a_plain_wait_is_not_promoted() {
    check(
        "launch a; wait w1 group g1; wait w2 all a; promote a; end a; ack w1; leave w2",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            = not_waiting
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w2: [a completed]
            -> w1: group [a completed]
            message.taken [a] by waiter
        "#]],
    );
}

#[test]
fn plain_waits_beside_a_promoted_call_stay_and_take() {
    check(
        "launch fg=w1 a; wait w2 group g1; promote a; end a; ack w2; wait w3 wake",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            -> w1: promoted
            = promoted
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w2: group [a completed]
            message.taken [a] by waiter
        "#]],
    );
}

// BAR-12: a call that was repeated, since its answer was lost, waits for what exists; all of them leave.
#[test]
fn all_calls_of_a_group_are_promoted() {
    check(
        "launch as=g fg=w1 a; launch as=g fg=w2 a; promote a; end a; wait w3 wake; ack w3",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            = known: [a]
            -> w1: promoted
            -> w2: promoted
            = promoted
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w3: wake [a completed]
            message.taken [a] by inbox
        "#]],
    );
}

#[test]
fn a_call_for_a_known_group_that_has_fired_is_answered_at_once() {
    check(
        "launch as=g a; end a; launch as=g fg=w1 a; ack w1; launch as=g fg=w2 a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: group [a completed]
            = known: [a]
            message.taken [a] by waiter
            -> w2: group [a completed] (already delivered)
            = known: [a]
        "#]],
    );
}

// SC-20 against a wait's limit, a dropped future, a lost connection: all are a waiter that left.
#[test]
fn whoever_waits_for_promotion_hears_of_every_way_to_leave() {
    check(
        "launch fg=w1 a; wait w2 background a; wait w3 background a; leave w3; promote a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            -> w1: promoted
            -> w2: in the background
            = promoted
        "#]],
    );
    check(
        "launch fg=w1 a; wait w2 background a; leave w1; promote a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            -> w2: in the background
            = not_waiting
        "#]],
    );
    check(
        "launch fg=w1 a; wait w2 background a; close s",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            session.closed s
            group.voided [a]
            job.stopping a cancelled/parent
            -> w1: voided
            -> Polite stop of a
            -> w2: in the background
        "#]],
    );
}

// SC-20: it ends with the job, also where the call goes on waiting for others.
#[test]
fn waiting_for_promotion_ends_with_the_job() {
    check(
        "launch fg=w1 a b; wait w2 background a; wait w3 background b; end a; promote a",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            -> w2: the job is over
            -> w1: promoted
            -> w3: in the background
            = promoted
        "#]],
    );
    check(
        "launch fg=w1 a; wait w2 background a; end a; wait w3 background a; ack w1",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w2: the job is over
            -> w1: group [a completed]
            -> w3: the job is over
            message.taken [a] by waiter
        "#]],
    );
    check(
        "launch fg=w1 a; wait w2 background a; stop a; end a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a cancelled/user
            -> Polite stop of a
            run.ended a completed
            job.ended a cancelled/user completed_anyway
            group.fired none_ok [a cancelled/user]
            -> w2: the job is over
            -> w1: group [a cancelled/user]
        "#]],
    );
}

#[test]
fn what_is_in_the_background_already_is_so_at_once() {
    check(
        "launch a; wait w1 background a; launch fg=w2 b; leave w2; wait w3 background b",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            -> w1: in the background
            job.queued b
            group.sealed [b]
            run.started b
            -> w3: in the background
        "#]],
    );
}

// The last of several calls decides.
#[test]
fn a_job_is_in_the_foreground_while_one_call_is_left() {
    check(
        "launch as=g fg=w1 a; launch as=g fg=w2 a; wait w3 background a; leave w1; leave w2",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            = known: [a]
            -> w3: in the background
        "#]],
    );
}

// The waiter is there before the job starts.
#[test]
fn a_job_finds_its_caller_there() {
    check(
        "slots 1; launch a; launch fg=w1 b; end a; wait w2 background b; promote b",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            run.started b
            -> w1: promoted
            -> w2: in the background
            = promoted
        "#]],
    );
}

// BAR-9, P5: a job that calls goes: its call with it, and what it waits for.
#[test]
fn a_call_of_a_job_ends_with_its_run() {
    check(
        "launch a; launch below=a fg=w1 b; wait w2 background b; end a failed; end b; promote b",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            run.ended a failed
            group.voided [b]
            job.stopping b cancelled/parent
            -> w1: closed
            -> Polite stop of b
            -> w2: in the background
            run.ended b completed
            job.ended b cancelled/parent completed_anyway
            job.ended a error/failed
            group.fired none_ok [a error/failed]
            = already_done
        "#]],
    );
}

// W-4: a call is answered in a turn; promoted, its result waits for the end of the turn.
#[test]
fn promoted_in_a_turn_the_wake_comes_after_it() {
    check(
        "turn; launch fg=w1 a; promote a; end a; wait w2 wake; turn-end; ack w2",
        expect![[r#"
            run.started turn of s
            job.queued a
            group.sealed [a]
            run.started a
            -> w1: promoted
            = promoted
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            run.ended turn of s completed
            -> w2: wake [a completed]
            message.taken [a] by inbox
        "#]],
    );
}

// BAR-13: a crash is one more way to leave.
#[test]
fn a_crash_during_a_call_leaves_a_wake() {
    check(
        "launch closure fg=w1 a; crash; open; promote a; wait w2 wake; ack w2",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            store.opened after a crash
            run.ended a interrupted
            job.ended a error/interrupted interrupted
            group.fired none_ok [a error/interrupted]
            = already_done
            -> w2: wake [a error/interrupted]
            message.taken [a] by inbox
        "#]],
    );
}

// C-1: what is refused changes nothing.
#[test]
fn calls_and_promotions_that_are_refused() {
    check(
        "promote x; promote-group x; wait w1 background x; launch fg=w1; launch fg=w1 a; launch fg=w1 b; end a; \
         ack w1; promote b",
        expect![[r#"
            = refused: job `x` is not known here
            = refused: group `x` is not known here
            = refused: job `x` is not known here
            = refused: the list is empty; name at least one job
            job.queued a
            group.sealed [a]
            run.started a
            = refused: waiter WaiterId(1) is known already
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: group [a completed]
            message.taken [a] by waiter
            = refused: job `b` is not known here
        "#]],
    );
}

// SH: the end of the store ends both waits.
#[test]
fn the_end_tells_those_who_wait() {
    check(
        "slots 1; launch a; launch fg=w1 b; wait w2 background b; drain; end a; finish",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            store.closed 1 queued
            -> w1: closed
            -> w2: closed
        "#]],
    );
}
