//! How a stop goes on: grace, force, and a run that does not go (J-18, SC-2, SC-14, B28, B31, B35).

use expect_test::expect;
use fanin_tests::timeline::check;

// SC-2: polite, after the grace by force, then unreaped; each once.
#[test]
fn a_run_that_ignores_every_stop_is_unreaped() {
    check(
        "launch grace=100 a; stop a; after 99; after 1; after 2999; after 1; end a ok",
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

// SC-2: a stop with no grace is a forced one.
#[test]
fn no_grace_is_force_at_once() {
    check(
        "launch a; stop a grace=0; end a lost",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a cancelled/user
            -> Polite stop of a
            -> Forced stop of a
            run.ended a cancelled
            job.ended a cancelled/user
            group.fired none_ok [a cancelled/user]
        "#]],
    );
}

// SC-16, G7: the grace of a stop that is over ends without effect.
#[test]
fn the_grace_of_a_stop_that_is_over_kills_nothing() {
    check(
        "launch grace=100 a; stop a; end a lost; after 200",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a cancelled/user
            -> Polite stop of a
            run.ended a cancelled
            job.ended a cancelled/user
            group.fired none_ok [a cancelled/user]
        "#]],
    );
}

// SC-2: a second, shorter grace brings the force forward.
#[test]
fn a_second_stop_brings_the_force_forward() {
    check(
        "launch grace=1000 a; stop a; after 100; stop a grace=50; after 50; end a lost",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a cancelled/user
            -> Polite stop of a
            -> Forced stop of a
            run.ended a cancelled
            job.ended a cancelled/user
            group.fired none_ok [a cancelled/user]
        "#]],
    );
}

// SC-2: a second, longer grace changes nothing.
#[test]
fn a_second_stop_does_not_put_the_force_off() {
    check(
        "launch grace=100 a; stop a; after 50; stop a grace=1000; after 50; end a lost",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a cancelled/user
            -> Polite stop of a
            -> Forced stop of a
            run.ended a cancelled
            job.ended a cancelled/user
            group.fired none_ok [a cancelled/user]
        "#]],
    );
}

// SC-14, J-10: the limit of a run counts from its start.
#[test]
fn the_run_limit_counts_from_the_start() {
    check(
        "slots 1; launch run=50 a b; after 40; end a ok; after 40; after 10; end b failed",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.ended a completed
            job.ended a completed
            run.started b
            job.stopping b error/timeout
            -> Polite stop of b
            run.ended b failed: `timeout` of 50ms passed; it failed
            job.ended b error/timeout.run
            group.fired partial [a completed, b error/timeout]
        "#]],
    );
}

// SC-14: the limit's end by force, and its unreaped job keeps the timeout as its cause.
#[test]
fn a_run_limit_that_nothing_ends_is_unreaped_as_timeout() {
    check(
        "launch run=50 grace=10 a; after 50; after 10; after 3000",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a error/timeout
            -> Polite stop of a
            -> Forced stop of a
            run.ended a failed: `timeout` of 50ms passed; it did not end after the forced stop and may still be alive
            note unreaped a
            job.ended a error/timeout.run unreaped
            group.fired none_ok [a error/timeout]
            -> Abandoned stop of a
        "#]],
    );
}

// SC-16: the timer of a run that is over does nothing.
#[test]
fn a_timer_of_an_ended_run_does_nothing() {
    check(
        "launch run=50 a; after 10; end a ok; after 1000",
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

// B35: a stop before the runner is up.
#[test]
fn a_stop_before_the_runner_is_up() {
    check(
        "launch a; stop a; spawn a; end a spawn",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a cancelled/user
            -> Polite stop of a
            run.bound a
            run.ended a cancelled
            job.ended a cancelled/user
            group.fired none_ok [a cancelled/user]
        "#]],
    );
}

// J-18: the slot of an unreaped job comes back once.
#[test]
fn the_slot_of_an_unreaped_job_comes_back_once() {
    check(
        "slots 1; launch a b; stop a grace=0; after 3000; end a ok; end b ok",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            job.stopping a cancelled/user
            -> Polite stop of a
            -> Forced stop of a
            run.ended a cancelled
            note unreaped a
            job.ended a cancelled/user unreaped
            run.started b
            -> Abandoned stop of a
            note stale_report a
            run.ended b completed
            job.ended b completed
            group.fired partial [a cancelled/user, b completed]
        "#]],
    );
}

// J-17, J-18: cancelled after a timeout, and then unreaped.
#[test]
fn a_cancel_after_a_timeout_that_is_unreaped() {
    check(
        "launch run=50 a; after 50; stop a grace=0; after 3000",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a error/timeout
            -> Polite stop of a
            job.stopping a cancelled/user
            -> Forced stop of a
            run.ended a cancelled
            note unreaped a
            job.ended a cancelled/user after timeout unreaped
            group.fired none_ok [a cancelled/user]
            -> Abandoned stop of a
        "#]],
    );
}

// A stop of a whole group in launch order, whatever its members are at.
#[test]
fn a_stop_of_a_group_stops_each_member_by_where_it_is() {
    check(
        "slots 2; launch a b c d; end a ok; stop-group g1; end b ok; end c lost",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            job.queued d
            group.sealed [a b c d]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            run.started c
            job.stopping b cancelled/user
            job.stopping c cancelled/user
            job.ended d cancelled/user
            -> Polite stop of b
            -> Polite stop of c
            = a is completed already
            run.ended b completed
            job.ended b cancelled/user completed_anyway
            run.ended c cancelled
            job.ended c cancelled/user
            group.fired partial [a completed, b cancelled/user, c cancelled/user, d cancelled/user]
        "#]],
    );
}
