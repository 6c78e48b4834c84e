//! More than one try of a job: J-7, J-17, SC-17, B41, B81.

use expect_test::expect;
use fanin_tests::timeline::check;

// SC-17: off unless it is asked for.
#[test]
fn a_failed_job_is_not_tried_again_unasked() {
    check(
        "launch a; end a failed; after 60000",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        run.ended a failed
        job.ended a error/failed
        group.fired none_ok [a error/failed]
    "#]],
    );
}

// J-7: asked for, the job waits in the queue, and says for what.
#[test]
fn a_failed_run_is_followed_by_another_one() {
    check(
        "launch retries=1 a; spawn a; end a failed; why a; after 700; why a; after 500; spawn a; end a ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            run.ended a failed, to be tried again
            why a: waits before its next try; 1 so far
            why a: waits before its next try; 1 so far
            run.started a
            run.bound a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// J-7: when no try is left the last failure is the job's.
#[test]
fn the_last_failure_is_the_jobs() {
    check(
        "launch retries=2 a; end a failed; alarm; end a panic; alarm; end a spawn; alarm",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        run.ended a failed, to be tried again
        run.started a
        run.ended a failed, to be tried again
        run.started a
        run.ended a failed
        job.ended a error/spawn.program_not_found
        group.fired none_ok [a error/spawn]
    "#]],
    );
}

// SC-17: what failed before anything had an effect is tried again three times in all, for agents and unasked.
#[test]
fn agents_are_tried_again_where_nothing_had_an_effect() {
    check(
        "launch agent a; end a safe; alarm; end a safe; alarm; end a safe; launch agent b; end b safe; alarm; \
         end b failed; launch c; end c safe; launch agent retries=0 d; end d safe",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a failed, to be tried again
            run.started a
            run.ended a failed, to be tried again
            run.started a
            run.ended a failed
            job.ended a error/failed
            group.fired none_ok [a error/failed]
            job.queued b
            group.sealed [b]
            run.started b
            run.ended b failed, to be tried again
            run.started b
            run.ended b failed
            job.ended b error/failed
            group.fired none_ok [b error/failed]
            job.queued c
            group.sealed [c]
            run.started c
            run.ended c failed
            job.ended c error/failed
            group.fired none_ok [c error/failed]
            job.queued d
            group.sealed [d]
            run.started d
            run.ended d failed
            job.ended d error/failed
            group.fired none_ok [d error/failed]
        "#]],
    );
}

// J-17: a cancel beats a retry, before the end of the run and in the gap.
#[test]
fn a_cancel_beats_a_retry() {
    check(
        "launch retries=3 a b; stop a; end a failed; end b failed; stop b; after 60000",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            job.stopping a cancelled/user
            -> Polite stop of a
            run.ended a cancelled
            job.ended a cancelled/user
            run.ended b failed, to be tried again
            job.ended b cancelled/user
            group.fired none_ok [a cancelled/user, b cancelled/user]
        "#]],
    );
}

// J-17: so does a limit, and an end by the guard is no failure of the job.
#[test]
fn a_limit_and_a_lost_task_are_not_tried_again() {
    check(
        "launch run=10 retries=3 a; launch retries=3 b; spawn a; after 10; end a failed; end b lost; after 60000",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            run.bound a
            job.stopping a error/timeout
            -> Polite stop of a
            run.ended a failed: `timeout` of 10ms passed; it failed
            job.ended a error/timeout.run
            group.fired none_ok [a error/timeout]
            run.ended b interrupted
            job.ended b error/interrupted interrupted
            group.fired none_ok [b error/interrupted]
        "#]],
    );
}

// A-1: the next try waits for its slot and for the queue before it.
#[test]
fn a_retry_stands_in_line() {
    check(
        "slots 1; launch retries=1 a; launch closure b c; end a failed; after 60000; why a; end b ok; end c failed; end a ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            job.queued c
            group.sealed [b c]
            run.ended a failed, to be tried again
            run.started b
            why a: waits for a slot, place 2 in the queue; slots are held by b
            run.ended b completed
            job.ended b completed
            run.started c
            run.ended c failed
            job.ended c error/failed
            group.fired partial [b completed, c error/failed]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// B41, A-1: the timers of a run mean nothing to the next one; each run has limits of its own.
#[test]
fn old_timers_mean_nothing_to_the_next_try() {
    check(
        "launch run=2000 idle=1900 start=1800 retries=1 a; after 1500; end a failed; alarm; spawn a; after 600; \
         after 1000; part a c1 running; after 399; why a; after 1; end a lost",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            note stall a 1500
            run.ended a failed, to be tried again
            run.started a
            run.bound a
            note stall a 1600
            part a c1 running 4260..-
            why a: working
            job.stopping a error/timeout
            -> Polite stop of a
            part a c1 error interrupted 4260..4660
            run.ended a failed: `timeout` of 2.0s passed, while signs of work kept it within its `idle` of 1.9s; the task was dropped before it ended
            job.ended a error/timeout.run
            group.fired none_ok [a error/timeout]
        "#]],
    );
}

// J-16: the run before says something once the next one has begun.
#[test]
fn a_report_of_the_run_before_is_stale() {
    check(
        "launch retries=1 a b; end a failed; end b failed; alarm; alarm; forged a b; end a; end b",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a failed, to be tried again
            run.ended b failed, to be tried again
            run.started a
            run.started b
            note stale_report b
            run.ended a completed
            job.ended a completed
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
        "#]],
    );
}

// BAR-4, R-1: a group fires after the last try, and the entry counts them.
#[test]
fn a_group_waits_for_the_last_try() {
    check(
        "launch retries=1 fail_fast a b; wait w1 all a; end a failed; end b ok; alarm; end a failed; ack w1",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a failed, to be tried again
            run.ended b completed
            job.ended b completed
            run.started a
            run.ended a failed
            job.ended a error/failed
            group.fired partial [a error/failed, b completed]
            -> w1: [a error/failed]
            message.taken a by waiter
        "#]],
    );
}

// RE-7: a job between two tries waits on after a crash; a closure cannot.
#[test]
fn a_job_between_two_tries_waits_on_after_a_crash() {
    check(
        "launch retries=1 a; launch closure retries=1 b; end a failed; end b failed; crash; wall -3000000; open; \
         why a; alarm; why a; end a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            run.ended a failed, to be tried again
            run.ended b failed, to be tried again
            store.opened after a crash
            job.ended b error/interrupted interrupted
            group.fired none_ok [b error/interrupted]
            why a: waits before its next try; 1 so far
            run.started a
            why a: starting
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// 0048: the limit of all runs keeps its place; that of one run, and what it may be idle, begin with each.
#[test]
fn a_total_keeps_its_place_over_a_crash_and_the_limits_of_a_run_begin_with_it() {
    check(
        "launch resume=rerun run=80 idle=60 total=200 a; launch resume=rerun run=80 idle=60 b; spawn a; spawn b; \
         after 50; crash; wall 90; open; after 0; spawn a; spawn b; after 29; beat b; after 29; why a; after 1; \
         after 1; beat b; after 19; after 1; end a failed; end b failed",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            run.bound a
            run.bound b
            note stall a 50
            note stall b 50
            store.opened after a crash
            run.ended a interrupted, to be queued again
            run.ended b interrupted, to be queued again
            run.started a
            run.started b
            run.bound a
            run.bound b
            note stall a 58
            why a: working
            note stall b 30
            job.stopping a error/timeout
            -> Polite stop of a
            job.stopping b error/timeout
            -> Polite stop of b
            run.ended a failed: `total_timeout` of 200ms passed, while signs of work kept it within its `idle` of 60ms; it failed
            job.ended a error/timeout.total
            group.fired none_ok [a error/timeout]
            run.ended b failed: `timeout` of 80ms passed, while signs of work kept it within its `idle` of 60ms; it failed
            job.ended b error/timeout.run
            group.fired none_ok [b error/timeout]
        "#]],
    );
}

// 0048: a total that passed while nobody was there leaves nothing to be started.
#[test]
fn a_total_that_passed_while_nobody_was_there_starts_nothing() {
    check(
        "launch resume=rerun total=200 a; spawn a; launch total=2000 retries=1 b; spawn b; end b failed; after 50; \
         crash; wall 3000; open; alarm",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            job.queued b
            group.sealed [b]
            run.started b
            run.bound b
            run.ended b failed, to be tried again
            store.opened after a crash
            run.ended a interrupted, to be queued again
            job.ended a error/timeout.total
            job.ended b error/timeout.total
            group.fired none_ok [a error/timeout]
            group.fired none_ok [b error/timeout]
        "#]],
    );
}

// SC-17: the gap before the next try counts from the failure, whoever was there meanwhile.
#[test]
fn the_gap_before_the_next_try_goes_on_while_nobody_is_there() {
    check(
        "launch retries=1 a; spawn a; end a failed; crash; wall 700; open; after 99; why a; after 401; why a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            run.ended a failed, to be tried again
            store.opened after a crash
            why a: waits before its next try; 1 so far
            run.started a
            why a: starting
        "#]],
    );
}

// SH-4: a drain starts no further try; a stop ends what waits for one.
#[test]
fn nothing_is_tried_again_while_it_drains() {
    check(
        "launch retries=1 a b; end a failed; drain; end b failed; alarm; alarm; why a; stop-all",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a failed, to be tried again
            run.ended b failed, to be tried again
            why a: the supervisor is shutting down and starts nothing more
            job.ended a cancelled/shutdown
            job.ended b cancelled/shutdown
            group.fired none_ok [a cancelled/shutdown, b cancelled/shutdown]
        "#]],
    );
}

// BAR-9: the parent goes while a job waits for its next try.
#[test]
fn a_closed_session_ends_what_waits_for_its_next_try() {
    check(
        "launch retries=1 a; end a failed; close s; after 60000",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        run.ended a failed, to be tried again
        session.closed s
        group.voided [a]
        job.ended a cancelled/parent
    "#]],
    );
}

// B81: growing gaps, then the error; nothing is tried again for ever.
#[test]
fn a_crash_loop_ends() {
    let tries = "alarm; end a failed; ".repeat(6);
    check(
        &format!("launch retries=5 a; end a failed; {tries}"),
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        run.ended a failed, to be tried again
        run.started a
        run.ended a failed, to be tried again
        run.started a
        run.ended a failed, to be tried again
        run.started a
        run.ended a failed, to be tried again
        run.started a
        run.ended a failed, to be tried again
        run.started a
        run.ended a failed
        job.ended a error/failed
        group.fired none_ok [a error/failed]
        note stale_report a
    "#]],
    );
}

// J-7: what it launched was alive: that is stopped, and there is no other try.
#[test]
fn a_run_that_fails_above_live_jobs_is_not_tried_again() {
    check(
        "launch retries=1 a; launch below=a b; end a failed; end b ok; after 60000; launch retries=1 c; \
         launch below=c d; end d ok; end c failed; alarm; end c ok",
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
            -> Polite stop of b
            run.ended b completed
            job.ended b cancelled/parent completed_anyway
            job.ended a error/failed
            group.fired none_ok [a error/failed]
            job.queued c
            group.sealed [c]
            run.started c
            job.queued d
            group.sealed [d]
            run.started d
            run.ended d completed
            job.ended d completed
            group.fired all_ok [d completed]
            run.ended c failed, to be tried again
            message.taken [d] by void
            run.started c
            run.ended c completed
            job.ended c completed
            group.fired all_ok [c completed]
        "#]],
    );
}
