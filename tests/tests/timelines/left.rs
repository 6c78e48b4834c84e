//! What the processes of a run left: named where it may live on, and no more than told where it was stopped (J-18, 14.6).

use expect_test::expect;
use fanin_tests::timeline::check;

// J-18: what cannot be stopped makes the job unreaped; the group fires all the same.
#[test]
fn a_run_that_leaves_something_alive_is_unreaped() {
    check(
        "launch a b; spawn a; end a left; end b ok",
        expect![[r#"
        job.queued a
        job.queued b
        group.sealed [a b]
        run.started a
        run.started b
        run.bound a
        run.ended a failed
        note unreaped a
        job.ended a error/failed.os unreaped
        run.ended b completed
        job.ended b completed
        group.fired partial [a error/failed, b completed]
    "#]],
    );
}

// J-18, J-17: the same at the end of a stop, and at that of a limit: the intent decides, the mark stays.
#[test]
fn a_stopped_run_that_leaves_something_alive_is_unreaped_too() {
    check(
        "launch a b run=50; stop a; end a left; after 50; end b left",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            job.stopping a cancelled/user
            -> Polite stop of a
            run.ended a cancelled
            note unreaped a
            job.ended a cancelled/user unreaped
            job.stopping b error/timeout
            -> Polite stop of b
            run.ended b failed: `timeout` of 50ms passed; it left something
            note unreaped b
            job.ended b error/timeout.run unreaped
            group.fired none_ok [a cancelled/user, b error/timeout]
        "#]],
    );
}

// 14.6: what was left behind and stopped is no reason for anything.
#[test]
fn a_run_whose_leftovers_were_stopped_has_completed() {
    check(
        "launch a; spawn a; end a stopped",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        run.bound a
        run.ended a completed
        job.ended a completed
        group.fired all_ok [a completed]
    "#]],
    );
}

// A late word of what was left changes nothing, and is no second note.
#[test]
fn what_is_left_of_a_run_that_was_given_up_is_late() {
    check(
        "launch grace=0 a; stop a; after 3000; end a left",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        job.stopping a cancelled/user
        -> Polite stop of a
        -> Forced stop of a
        run.ended a cancelled
        note unreaped a
        job.ended a cancelled/user unreaped
        group.fired none_ok [a cancelled/user]
        -> Abandoned stop of a
        note stale_report a
    "#]],
    );
}
