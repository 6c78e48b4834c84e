//! A crash between any two steps, and what the next opening makes of it: J-13, RE-1 to RE-8, BAR-13.

use expect_test::expect;
use fanin_tests::timeline::check;

// RE-4 `fail`, STYLE's example.
#[test]
fn a_lost_host_ends_running_work_as_interrupted() {
    check(
        "launch a; spawn a; crash; open; end a ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            store.opened after a crash
            run.ended a interrupted
            job.ended a error/interrupted interrupted
            group.fired none_ok [a error/interrupted]
            note stale_report a
        "#]],
    );
}

// RE-7: queued commands stay, queued closures cannot.
#[test]
fn queued_commands_wait_on_and_closures_cannot() {
    check(
        "slots 1; launch a b; launch closure c; crash; open; end b ok",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            job.queued c
            group.sealed [c]
            store.opened after a crash
            run.ended a interrupted
            job.ended c error/interrupted interrupted
            job.ended a error/interrupted interrupted
            group.fired none_ok [c error/interrupted]
            run.started b
            run.ended b completed
            job.ended b completed
            group.fired partial [a error/interrupted, b completed]
        "#]],
    );
}

// RE-4: a recorded wish beats the policy.
#[test]
fn a_cancel_before_the_crash_is_cancelled_after_it() {
    check(
        "launch a; stop a; crash; open",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a cancelled/user
            -> Polite stop of a
            store.opened after a crash
            run.ended a interrupted
            job.ended a cancelled/user interrupted
            group.fired none_ok [a cancelled/user]
        "#]],
    );
}

#[test]
fn a_timeout_before_the_crash_is_a_timeout_after_it() {
    check(
        "launch run=50 a; after 50; crash; open",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a error/timeout
            -> Polite stop of a
            store.opened after a crash
            run.ended a interrupted
            job.ended a error/timeout.run interrupted
            group.fired none_ok [a error/timeout]
        "#]],
    );
}

#[test]
fn a_raised_timeout_before_the_crash_is_cancelled_after_it() {
    check(
        "launch run=50 a; after 50; stop a; crash; open",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a error/timeout
            -> Polite stop of a
            job.stopping a cancelled/user
            store.opened after a crash
            run.ended a interrupted
            job.ended a cancelled/user after timeout interrupted
            group.fired none_ok [a cancelled/user]
        "#]],
    );
}

// P4: fired and not taken is owed after the crash, once.
#[test]
fn a_wake_that_was_owed_is_owed_after_the_crash() {
    check(
        "launch a b; end a ok; end b failed; crash; open; wait w1 wake; ack w1; crash; open; wait w1 wake",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            run.ended b failed
            job.ended b error/failed
            group.fired partial [a completed, b error/failed]
            store.opened after a crash
            -> w1: wake [a completed, b error/failed]
            message.taken [a b] by inbox
            store.opened after a crash
        "#]],
    );
}

#[test]
fn a_wake_that_was_out_comes_again() {
    check(
        "launch a; end a; wait w1 wake; crash; open; wait w1 wake; ack w1",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: wake [a completed]
            store.opened after a crash
            -> w1: wake [a completed]
            message.taken [a] by inbox
        "#]],
    );
}

// BAR-13: a waiter is gone with the crash; the result comes as a wake.
#[test]
fn a_foreground_wait_is_gone_and_its_result_is_the_wake() {
    check(
        "launch a; wait w1 group g1; crash; open; wait w2 wake; ack w2",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            store.opened after a crash
            run.ended a interrupted
            job.ended a error/interrupted interrupted
            group.fired none_ok [a error/interrupted]
            -> w2: wake [a error/interrupted]
            message.taken [a] by inbox
        "#]],
    );
}

// BAR-15: what was taken before the crash is a reference after it.
#[test]
fn results_taken_before_the_crash_are_references_after_it() {
    check(
        "launch a b; end a; wait w1 all a; ack w1; crash; open; wait w2 wake; ack w2",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            -> w1: [a completed]
            message.taken a by waiter
            store.opened after a crash
            run.ended b interrupted
            job.ended b error/interrupted interrupted
            group.fired partial [a completed, b error/interrupted]
            -> w2: wake [a completed (reference), b error/interrupted]
            message.taken [a b] by inbox
        "#]],
    );
}

// RE-6: an open turn's group is sealed by the end of the turn that recovery writes.
#[test]
fn an_open_turns_group_is_sealed_by_recovery() {
    check(
        "turn; start a; start b; end a ok; crash; open; turn-end; wait w1 wake; ack w1",
        expect![[r#"
            run.started turn of s
            job.queued a
            run.started a
            job.queued b
            run.started b
            run.ended a completed
            job.ended a completed
            store.opened after a crash
            run.ended turn of s interrupted
            group.sealed [a b]
            run.ended b interrupted
            job.ended b error/interrupted interrupted
            group.fired partial [a completed, b error/interrupted]
            note stale_report
            -> w1: wake [a completed, b error/interrupted]
            message.taken [a b] by inbox
        "#]],
    );
}

// BAR-9 over a crash.
#[test]
fn a_voided_group_stays_voided() {
    check(
        "launch a; close s; crash; open",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            session.closed s
            group.voided [a]
            job.stopping a cancelled/parent
            -> Polite stop of a
            store.opened after a crash
            run.ended a interrupted
            job.ended a cancelled/parent interrupted
        "#]],
    );
}

// 0048: what passed before the crash counts, and the time until the next opening.
#[test]
fn a_deadline_keeps_its_place_over_a_crash() {
    check(
        "slots 1; launch x; launch deadline=50 a b; after 40; crash; wall 5; open; after 4; after 1",
        expect![[r#"
            job.queued x
            group.sealed [x]
            run.started x
            job.queued a
            job.queued b
            group.sealed [a b]
            store.opened after a crash
            run.ended x interrupted
            job.ended x error/interrupted interrupted
            group.fired none_ok [x error/interrupted]
            run.started a
            job.stopping a cancelled/group
            job.ended b cancelled/group
            -> Polite stop of a
        "#]],
    );
}

// 0048: what was due by the opening is due before anything starts.
#[test]
fn what_came_due_while_nobody_was_there_is_due_at_the_opening() {
    check(
        "slots 1; launch x; launch deadline=50 resume=rerun a; launch queue=50 b; launch queue=50000 c; crash; \
         wall 60; open",
        expect![[r#"
            job.queued x
            group.sealed [x]
            run.started x
            job.queued a
            group.sealed [a]
            job.queued b
            group.sealed [b]
            job.queued c
            group.sealed [c]
            store.opened after a crash
            run.ended x interrupted
            job.ended b error/timeout.queue
            job.ended x error/interrupted interrupted
            group.fired none_ok [x error/interrupted]
            job.ended a cancelled/group
            group.fired none_ok [b error/timeout]
            group.fired none_ok by deadline [a cancelled/group]
            run.started c
        "#]],
    );
}

// 0048: where the clock was set back, what passed until the last record counts, and nothing makes a limit longer.
#[test]
fn a_clock_that_was_set_back_makes_no_limit_longer() {
    check(
        "slots 1; launch x; launch deadline=50 a b; after 20; launch c; after 20; crash; wall -3000000; open; \
         after 29; why a; after 1",
        expect![[r#"
            job.queued x
            group.sealed [x]
            run.started x
            job.queued a
            job.queued b
            group.sealed [a b]
            job.queued c
            group.sealed [c]
            store.opened after a crash
            run.ended x interrupted
            job.ended x error/interrupted interrupted
            group.fired none_ok [x error/interrupted]
            run.started a
            why a: starting
            job.stopping a cancelled/group
            job.ended b cancelled/group
            -> Polite stop of a
        "#]],
    );
}

// RE-8: crash again and again: the same end.
#[test]
fn a_second_recovery_changes_nothing_more() {
    check(
        "launch a b; part a c1 running; crash; open; crash; open",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            part a c1 running 0..-
            store.opened after a crash
            part a c1 error interrupted 0..0
            run.ended a interrupted
            run.ended b interrupted
            job.ended a error/interrupted interrupted
            job.ended b error/interrupted interrupted
            group.fired none_ok [a error/interrupted, b error/interrupted]
            store.opened after a crash
        "#]],
    );
}

// Before the store is open nothing is decided and nothing is written.
#[test]
fn before_the_opening_nothing_is_decided() {
    check(
        "launch a; crash; end a ok; end nobody ok; launch b; stop a; wait w1 idle; open",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            = refused: the supervisor is not open
            = refused: the supervisor is not open
            = refused: the supervisor is not open
            = refused: the supervisor is not open
            store.opened after a crash
            run.ended a interrupted
            job.ended a error/interrupted interrupted
            group.fired none_ok [a error/interrupted]
        "#]],
    );
}

#[test]
fn opening_twice_is_opening_once() {
    check(
        "open; launch a; open; end a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// S-2: messages of one recovery come in the order of their launches.
#[test]
fn recovery_owes_messages_in_the_order_of_their_launches() {
    check(
        "slots 1; launch x; launch closure a; launch closure b; launch closure c; crash; open; wait w1 wake; wait w2 wake; wait w3 wake; wait w4 wake",
        expect![[r#"
            job.queued x
            group.sealed [x]
            run.started x
            job.queued a
            group.sealed [a]
            job.queued b
            group.sealed [b]
            job.queued c
            group.sealed [c]
            store.opened after a crash
            run.ended x interrupted
            job.ended a error/interrupted interrupted
            job.ended b error/interrupted interrupted
            job.ended c error/interrupted interrupted
            job.ended x error/interrupted interrupted
            group.fired none_ok [x error/interrupted]
            group.fired none_ok [a error/interrupted]
            group.fired none_ok [b error/interrupted]
            group.fired none_ok [c error/interrupted]
            -> w1: wake [x error/interrupted]
            -> w2: wake [a error/interrupted]
            -> w3: wake [b error/interrupted]
            -> w4: wake [c error/interrupted]
        "#]],
    );
}

// C-8, J-16: nothing stands in the log before the opening, a stale report neither.
#[test]
fn a_stale_report_before_the_opening_is_not_written() {
    check(
        "launch a; end a; crash; end a failed; open; end a failed",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            store.opened after a crash
            note stale_report a
        "#]],
    );
}

// C-6, SC-14, 0048: the queue limit counts from the launch.
#[test]
fn a_queue_limit_keeps_its_place_over_a_crash() {
    check(
        "slots 1; launch x; launch a; launch queue=50 b; after 40; crash; wall 5; open; after 4; after 1; end a",
        expect![[r#"
            job.queued x
            group.sealed [x]
            run.started x
            job.queued a
            group.sealed [a]
            job.queued b
            group.sealed [b]
            store.opened after a crash
            run.ended x interrupted
            job.ended x error/interrupted interrupted
            group.fired none_ok [x error/interrupted]
            run.started a
            job.ended b error/timeout.queue
            group.fired none_ok [b error/timeout]
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// R-1: the rule that stopped the rest is told after a crash as well.
#[test]
fn what_stopped_the_rest_is_told_after_a_crash() {
    check(
        "launch any a b c; end a ok; crash; open",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a
            run.started b
            run.started c
            run.ended a completed
            job.ended a completed
            job.stopping b cancelled/group
            job.stopping c cancelled/group
            -> Polite stop of b
            -> Polite stop of c
            store.opened after a crash
            run.ended b interrupted
            run.ended c interrupted
            job.ended b cancelled/group interrupted
            job.ended c cancelled/group interrupted
            group.fired partial by ok [a completed, b cancelled/group, c cancelled/group]
        "#]],
    );
}

// R-1: a deadline too, and it is not the rule of a group that it did not stop.
#[test]
fn a_deadline_that_passed_is_told_after_a_crash() {
    check(
        "launch deadline=50 a b; launch deadline=60 c; end a ok; after 50; crash; open",
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
            job.stopping b cancelled/group
            -> Polite stop of b
            store.opened after a crash
            run.ended b interrupted
            run.ended c interrupted
            job.ended b cancelled/group interrupted
            job.ended c error/interrupted interrupted
            group.fired partial by deadline [a completed, b cancelled/group]
            group.fired none_ok [c error/interrupted]
        "#]],
    );
}

// R-1: also where all that it stopped had not started.
#[test]
fn a_rule_that_stopped_only_queued_members_is_told_after_a_crash() {
    check(
        "slots 1; launch deadline=50 a b; stop a; after 50; crash; open",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            job.stopping a cancelled/user
            -> Polite stop of a
            job.ended b cancelled/group
            store.opened after a crash
            run.ended a interrupted
            job.ended a cancelled/user interrupted
            group.fired none_ok by deadline [a cancelled/user, b cancelled/group]
        "#]],
    );
}

// RE-4: what may be done twice is started again by the next opening.
#[test]
fn a_job_that_may_run_again_does_so_after_a_crash() {
    check(
        "launch resume=rerun a; spawn a; part a c1 running; crash; open; after 0; spawn a; end a ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            part a c1 running 0..-
            store.opened after a crash
            part a c1 error interrupted 0..0
            run.ended a interrupted, to be queued again
            run.started a
            run.bound a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// RE-5, B54: not for ever.
#[test]
fn a_job_that_brings_its_supervisor_down_is_set_aside() {
    check(
        "launch resume=rerun a; crash; open; after 0; crash; open; after 0; crash; open; after 0",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            store.opened after a crash
            run.ended a interrupted, to be queued again
            run.started a
            store.opened after a crash
            run.ended a interrupted, to be queued again
            run.started a
            store.opened after a crash
            run.ended a interrupted
            job.ended a error/interrupted.exhausted interrupted
            group.fired none_ok [a error/interrupted]
        "#]],
    );
}

// RE-4, J-17: a cancel beats every policy.
#[test]
fn a_job_that_was_told_to_stop_is_not_started_again() {
    check(
        "launch resume=rerun a; spawn a; stop a user; crash; open; after 0",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        run.bound a
        job.stopping a cancelled/user
        -> Polite stop of a
        store.opened after a crash
        run.ended a interrupted
        job.ended a cancelled/user interrupted
        group.fired none_ok [a cancelled/user]
    "#]],
    );
}
