//! Tool calls of runs and turns: A-2 to A-4.

use expect_test::expect;
use fanin_tests::timeline::check;

// A-2: pending, running, completed; a missing step is inserted.
#[test]
fn a_part_goes_forward_only() {
    check(
        "launch a; part a c1 pending; after 5; part a c1 running; part a c1 pending; part a c1 running; after 5; part a c1 completed; part a c1 error; part a c2 error; part a c3 running; end a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            part a c1 pending -..-
            part a c1 running 5..-
            part a c1 completed 5..10
            part a c2 error 10..10
            part a c3 running 10..-
            part a c3 error interrupted 10..10
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// A-3: what a run leaves open is closed before it ends, all of it.
#[test]
fn a_run_that_ends_closes_its_open_parts() {
    check(
        "launch a; part a c1 pending; part a c2 running; part a c3 completed; after 7; end a ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            part a c1 pending -..-
            part a c2 running 0..-
            part a c3 completed 0..0
            part a c1 error interrupted 0..7
            part a c2 error interrupted 0..7
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

#[test]
fn an_unreaped_run_closes_its_open_parts() {
    check(
        "launch a; part a c1 running; stop a grace=0; after 3000",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            part a c1 running 0..-
            job.stopping a cancelled/user
            -> Polite stop of a
            -> Forced stop of a
            part a c1 error interrupted 0..3000
            run.ended a cancelled
            note unreaped a
            job.ended a cancelled/user unreaped
            group.fired none_ok [a cancelled/user]
            -> Abandoned stop of a
        "#]],
    );
}

// A-3: of a turn as well.
#[test]
fn a_turn_that_ends_closes_its_open_parts() {
    check(
        "turn; turn-part s c1 pending; turn-part s c2 running; turn-end s lost; turn-part s c2 completed",
        expect![[r#"
            run.started turn of s
            part turn of s c1 pending -..-
            part turn of s c2 running 0..-
            part turn of s c1 error interrupted 0..0
            part turn of s c2 error interrupted 0..0
            run.ended turn of s cancelled
            note stale_report
        "#]],
    );
}

// A-3, A-4, RE-3: a crash closes them at recovery, before the job settles.
#[test]
fn a_crash_closes_every_open_part_before_its_job_settles() {
    check(
        "launch a b; spawn a; part a c1 pending; part a c2 running; part a c3 completed; question b c1 running; turn; turn-part s c1 running; crash; open",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.bound a
            part a c1 pending -..-
            part a c2 running 0..-
            part a c3 completed 0..0
            part b c1 running 0..-
            run.started turn of s
            part turn of s c1 running 0..-
            store.opened after a crash
            part a c1 error interrupted 0..0
            part a c2 error interrupted 0..0
            run.ended a interrupted
            part b c1 error interrupted 0..0
            run.ended b interrupted
            part turn of s c1 error interrupted 0..0
            run.ended turn of s interrupted
            job.ended a error/interrupted interrupted
            job.ended b error/interrupted interrupted
            group.fired none_ok [a error/interrupted, b error/interrupted]
        "#]],
    );
}

// A-6: a later real result is stale.
#[test]
fn a_result_after_the_repair_is_stale() {
    check(
        "launch a; part a c1 running; crash; open; part a c1 completed; end a ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            part a c1 running 0..-
            store.opened after a crash
            part a c1 error interrupted 0..0
            run.ended a interrupted
            job.ended a error/interrupted interrupted
            group.fired none_ok [a error/interrupted]
            note stale_report a
        "#]],
    );
}

// A-4, B65: the clock went back: an end is never before its start.
#[test]
fn an_end_is_never_before_its_start() {
    check(
        "launch a; after 100; part a c1 pending; part a c2 running; wall -90; part a c1 running; wall -5000000; crash; open",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            part a c1 pending -..-
            part a c2 running 100..-
            part a c1 running 100..-
            store.opened after a crash
            part a c1 error interrupted 100..100
            part a c2 error interrupted 100..100
            run.ended a interrupted
            note clock_jump -5000090
            job.ended a error/interrupted interrupted
            group.fired none_ok [a error/interrupted]
        "#]],
    );
}
