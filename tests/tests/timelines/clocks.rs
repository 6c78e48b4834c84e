//! Clocks that jump, stand still and go back: C-8, SC-16, B64, B65.

use expect_test::expect;
use fanin_tests::timeline::check;

// B64: the machine slept: wall time jumps, working time does not; no limit comes due.
#[test]
fn seventeen_hours_of_sleep_end_nothing() {
    check(
        "launch run=1000 queue=1000 a; launch deadline=1000 b; wall 61200000; after 10; end a ok; end b ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            note clock_jump 61200000
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            run.ended b completed
            job.ended b completed
            group.fired all_ok [b completed]
        "#]],
    );
}

// B65: one hour back: time in records stands still, limits still come due.
#[test]
fn an_hour_back_keeps_order_and_limits() {
    check(
        "launch run=1000 a; after 100; wall -3600001; after 899; after 1; end a failed",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            note clock_jump -3600001
            job.stopping a error/timeout
            -> Polite stop of a
            run.ended a failed: `timeout` of 1.0s passed; it failed
            job.ended a error/timeout.run
            group.fired none_ok [a error/timeout]
        "#]],
    );
}

// C-8: less than an hour is no note.
#[test]
fn a_small_step_of_the_wall_clock_is_no_note() {
    check(
        "launch a; wall 3600000; after 1; wall -3600000; after 1; end a",
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

// C-8: and with a clock ahead there is nothing to say.
#[test]
fn a_recovery_with_a_clock_ahead_says_nothing() {
    check(
        "launch a; wall 86400000; crash; open",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            store.opened after a crash
            run.ended a interrupted
            job.ended a error/interrupted interrupted
            group.fired none_ok [a error/interrupted]
        "#]],
    );
}

// C-8: an opening with a clock far behind the log is noted.
#[test]
fn an_opening_with_a_clock_behind_the_log_is_noted() {
    check(
        "launch a; after 10; wall -3600011; crash; open; end a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            store.opened after a crash
            run.ended a interrupted
            note clock_jump -3600001
            job.ended a error/interrupted interrupted
            group.fired none_ok [a error/interrupted]
            note stale_report a
        "#]],
    );
}

// C-8: an hour behind is not yet far.
#[test]
fn an_opening_with_a_clock_an_hour_behind_is_no_note() {
    check(
        "launch a; after 10; wall -3600000; crash; open",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            store.opened after a crash
            run.ended a interrupted
            job.ended a error/interrupted interrupted
            group.fired none_ok [a error/interrupted]
        "#]],
    );
}
