//! The end of an epoch: SH-1, SH-2, SH-4, S-3.

use expect_test::expect;
use fanin_tests::timeline::check;

// SH-1: drain: launches are refused, nothing starts, what runs goes on.
#[test]
fn a_drain_starts_nothing_and_stops_nothing() {
    check(
        "slots 1; launch a b; drain; launch c; end a ok; finish",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            = refused: the supervisor is shutting down and takes no new work
            run.ended a completed
            job.ended a completed
            store.closed 1 queued
        "#]],
    );
}

// SH-1: known ids are still answered, and wakes still taken.
#[test]
fn a_drain_still_answers() {
    check(
        "launch a; drain; start a; session s; session t; end a; wait w1 wake; ack w1; finish",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            = known: [a]
            = refused: the supervisor is shutting down and takes no new work
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: wake [a completed]
            message.taken [a] by inbox
            store.closed 0 queued
        "#]],
    );
}

// SH-4: stop: queued jobs end at once, running ones when they are gone.
#[test]
fn a_stop_cancels_all_that_lives() {
    check(
        "slots 1; launch a b; drain; stop-all; finish; end a lost; finish",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            job.stopping a cancelled/shutdown
            job.ended b cancelled/shutdown
            -> Polite stop of a
            = refused: 1 runs are still open
            run.ended a cancelled
            job.ended a cancelled/shutdown
            group.fired none_ok [a cancelled/shutdown, b cancelled/shutdown]
            store.closed 0 queued
        "#]],
    );
}

// SH-2: the second stop is harder.
#[test]
fn a_second_stop_of_all_is_harder() {
    check(
        "launch grace=5000 a; stop-all; stop-all grace=0; end a lost; finish",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a cancelled/shutdown
            -> Polite stop of a
            -> Forced stop of a
            run.ended a cancelled
            job.ended a cancelled/shutdown
            group.fired none_ok [a cancelled/shutdown]
            store.closed 0 queued
        "#]],
    );
}

// SH-1: whoever still waits is told at the end.
#[test]
fn those_who_still_wait_are_told_at_the_end() {
    check(
        "launch a; wait w1 wake; wait w2 idle; drain; end a; ack w1; wait w3 wake; finish; wait w4 wake; launch b; leave w4; finish",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: wake [a completed]
            -> w2: idle
            message.taken [a] by inbox
            store.closed 0 queued
            -> w3: closed
            = refused: the supervisor is not open
            = refused: the supervisor is not open
            = refused: the supervisor is not open
            = refused: the supervisor is not open
        "#]],
    );
}

// SH-4: what stays queued is there at the next opening.
#[test]
fn queued_commands_stay_for_the_next_opening() {
    check(
        "slots 1; launch a b; drain; end a ok; finish; crash; open; end b ok",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.ended a completed
            job.ended a completed
            store.closed 1 queued
            store.opened clean
            run.started b
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
        "#]],
    );
}

// Nothing is written after the last record.
#[test]
fn nothing_is_written_after_the_last_record() {
    check(
        "launch a; end a; finish; end a ok; after 5; wall 9000000; after 1; launch b; open",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            store.closed 0 queued
            = refused: the supervisor is not open
            = refused: the supervisor is not open
            = refused: the supervisor is not open
        "#]],
    );
}

// S-3: an orderly stop ends an open turn as interrupted, and none begins after it.
#[test]
fn a_stop_ends_an_open_turn() {
    check(
        "turn; start a; turn-part s c1 running; drain; stop-all; turn; turn-end; end a lost; finish",
        expect![[r#"
            run.started turn of s
            job.queued a
            run.started a
            part turn of s c1 running 0..-
            part turn of s c1 error interrupted 0..0
            run.ended turn of s interrupted
            group.sealed [a]
            job.stopping a cancelled/shutdown
            -> Polite stop of a
            = refused: the supervisor is shutting down and takes no new work
            note stale_report
            run.ended a cancelled
            job.ended a cancelled/shutdown
            group.fired none_ok [a cancelled/shutdown]
            store.closed 0 queued
        "#]],
    );
}

// S-3: a turn may begin in a drain, and the last record waits for its end.
#[test]
fn the_last_record_waits_for_the_end_of_a_turn() {
    check(
        "launch a; drain; end a; turn; finish; turn-end; finish",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            run.started turn of s
            = refused: 1 runs are still open
            run.ended turn of s completed
            store.closed 0 queued
        "#]],
    );
}

// G12: who holds an answer at the last record keeps nothing in memory, and can acknowledge no more.
#[test]
fn an_answer_that_is_held_at_the_end_stays_owed() {
    check(
        "launch a; end a; wait w1 wake; finish; ack w1; leave w1; crash; open; wait w2 wake",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: wake [a completed]
            store.closed 0 queued
            = refused: the supervisor is not open
            = refused: the supervisor is not open
            store.opened clean
            -> w2: wake [a completed]
        "#]],
    );
}
