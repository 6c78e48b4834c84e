//! Lives of an id: a known one answers what exists, a new one is asked for (J-14, J-21, J-22; B04, B41).

use expect_test::expect;
use fanin_tests::timeline::check;

#[test]
fn a_job_that_is_over_lives_again_and_its_first_life_stays_as_it_was() {
    check(
        "start as=g a; end a failed; start again as=h a; end a; wait w1 wake; ack w1; wait w1 wake; ack w1; wait w2 group g; wait w3 exact a 3",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a failed
            job.ended a error/failed
            group.fired none_ok [a error/failed]
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: wake [a error/failed]
            message.taken [a] by inbox
            -> w1: wake [a completed]
            message.taken [a] by inbox
            -> w2: group [a error/failed] (already delivered)
            -> w3: [a error/failed (reference)] (already delivered)
        "#]],
    );
}

#[test]
fn a_known_job_is_answered_and_nothing_runs() {
    check(
        "start as=g a; start a; end a; start a; start agent a; launch a; launch a b",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        = known: [a]
        run.ended a completed
        job.ended a completed
        group.fired all_ok [a completed]
        = known: [a]
        = known: [a], another spec
        = known: [a]
        = refused: job id `a` is in use by another group; choose another id, or leave it out
    "#]],
    );
}

#[test]
fn a_job_that_lives_is_not_launched_again() {
    check(
        "start as=g a; start again a; end a; start again a; start again a",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        = known: [a]
        run.ended a completed
        job.ended a completed
        group.fired all_ok [a completed]
        job.queued a
        group.sealed [a]
        run.started a
        = known: [a]
    "#]],
    );
}

#[test]
fn a_group_answers_to_its_id_also_where_its_jobs_should_live_again() {
    check(
        "launch as=g a b; end a; end b; launch again as=h a b; launch again as=h a b; end a; end b; launch again as=g a b; launch a b",
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
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            = known: [a b]
            run.ended a completed
            job.ended a completed
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
            = known: [a b]
            = known: [a b]
        "#]],
    );
}

#[test]
fn a_known_group_is_answered_by_the_ids_of_its_jobs() {
    check(
        "launch as=g a b; launch a b; launch b a; launch a; launch as=h a b; launch any a b",
        expect![[r#"
        job.queued a
        job.queued b
        group.sealed [a b]
        run.started a
        run.started b
        = known: [a b]
        = refused: job id `b` is in use by another group; choose another id, or leave it out
        = refused: job id `a` is in use by another group; choose another id, or leave it out
        = refused: job id `a` is in use by another group; choose another id, or leave it out
        = known: [a b], another spec
    "#]],
    );
}

#[test]
fn an_unreaped_job_lives_again_once_its_run_is_gone() {
    check(
        "slots 1; start as=g a; stop a grace=0; after 3000; start again as=h a; late a; end a; start again as=h a; late a; end a",
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
            = refused: job `a`: its lifetime 3 was left unreaped and may still be alive; a new one has to wait
            note stale_report a
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// J-14: what a run names as left keeps its id from living again until somebody sees that it is gone.
#[test]
fn a_job_that_left_something_lives_again_once_that_is_gone() {
    check(
        "start as=g a; gone a; end a left; end a; start again as=h a; gone a; start again as=h a; end a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a failed
            note unreaped a
            job.ended a error/failed.os unreaped
            group.fired none_ok [a error/failed]
            note stale_report a
            = refused: job `a`: its lifetime 3 was left unreaped and may still be alive; a new one has to wait
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// J-14: a run that was given up and then says what it left is over, and not all gone.
#[test]
fn the_late_word_of_a_run_names_what_it_left() {
    check(
        "start as=g a; stop a grace=0; after 3000; gone a; start again as=h a; end a left; start again as=h a; gone a; \
         start again as=h a",
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
            = refused: job `a`: its lifetime 3 was left unreaped and may still be alive; a new one has to wait
            note stale_report a
            = refused: job `a`: its lifetime 3 was left unreaped and may still be alive; a new one has to wait
            job.queued a
            group.sealed [a]
            run.started a
        "#]],
    );
}

#[test]
fn old_timers_and_late_reports_touch_nothing_of_the_next_life() {
    check(
        "start run=100 queue=50 as=g a; after 20; end a; start again as=h a; after 200; late a failed; stop-old a; end a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            job.queued a
            group.sealed [a]
            run.started a
            note stale_report a
            = refused: job `a` is in lifetime 9, not 3
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

#[test]
fn a_life_is_not_taken_from_another_session() {
    check(
        "session t; start as=g a; end a; start again in=t as=h a",
        expect![[r#"
        session.opened t
        job.queued a
        group.sealed [a]
        run.started a
        run.ended a completed
        job.ended a completed
        group.fired all_ok [a completed]
        = refused: job id `a` is in use by another group; choose another id, or leave it out
    "#]],
    );
}

#[test]
fn two_lives_in_one_turn_are_two_members() {
    check(
        "turn; start as=g a; end a failed; start again a; turn-end; end a; wait w1 wake; ack w1",
        expect![[r#"
            run.started turn of s
            job.queued a
            run.started a
            run.ended a failed
            job.ended a error/failed
            job.queued a
            run.started a
            run.ended turn of s completed
            group.sealed [a a]
            run.ended a completed
            job.ended a completed
            group.fired partial [a error/failed, a completed]
            -> w1: wake [a error/failed, a completed]
            message.taken [a a] by inbox
        "#]],
    );
}

#[test]
fn a_crash_between_two_lives_keeps_both() {
    check(
        "start as=g a; end a; start again as=h a; crash; open; wait w1 wake; ack w1; wait w1 wake; ack w1; start again closure as=i a; crash; open; start again closure as=k a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            job.queued a
            group.sealed [a]
            run.started a
            store.opened after a crash
            run.ended a interrupted
            job.ended a error/interrupted interrupted
            group.fired none_ok [a error/interrupted]
            -> w1: wake [a completed]
            message.taken [a] by inbox
            -> w1: wake [a error/interrupted]
            message.taken [a] by inbox
            job.queued a
            group.sealed [a]
            run.started a
            store.opened after a crash
            run.ended a interrupted
            job.ended a error/interrupted interrupted
            group.fired none_ok [a error/interrupted]
            job.queued a
            group.sealed [a]
            run.started a
        "#]],
    );
}

#[test]
fn an_exact_wait_needs_a_life_that_was() {
    check(
        "start as=g a; wait w1 exact a 4; wait w1 exact b 3",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        = refused: job `a` is not known here
        = refused: job `b` is not known here
    "#]],
    );
}
