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

// SH-4: over a store what another epoch can take up waits for it; closures, what hangs below a job, and what has
// launched cannot.
#[test]
fn an_orderly_end_over_a_store_leaves_what_can_go_on() {
    check(
        "slots 4; launch resume=rerun a; launch b; launch closure resume=rerun c; launch resume=rerun p; \
         launch below=p resume=rerun k; launch q; launch closure d; spawn a; spawn b; part a c1 running; suspend; end a failed; \
         end b lost; end c lost; end p lost; end k lost; finish; crash; open; end a ok; end q ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            job.queued c
            group.sealed [c]
            run.started c
            job.queued p
            group.sealed [p]
            run.started p
            job.queued k
            group.sealed [k]
            job.queued q
            group.sealed [q]
            job.queued d
            group.sealed [d]
            run.bound a
            run.bound b
            part a c1 running 0..-
            job.stopping a requeue/shutdown
            job.stopping b cancelled/shutdown
            job.stopping c cancelled/shutdown
            job.stopping p cancelled/shutdown
            job.ended k cancelled/shutdown
            job.ended d cancelled/shutdown
            group.voided [k]
            group.fired none_ok [d cancelled/shutdown]
            -> Polite stop of a
            -> Polite stop of b
            -> Polite stop of c
            -> Polite stop of p
            part a c1 error interrupted 0..0
            run.ended a interrupted, to be queued again
            run.ended b cancelled
            job.ended b cancelled/shutdown
            group.fired none_ok [b cancelled/shutdown]
            run.ended c cancelled
            job.ended c cancelled/shutdown
            group.fired none_ok [c cancelled/shutdown]
            run.ended p cancelled
            job.ended p cancelled/shutdown
            group.fired none_ok [p cancelled/shutdown]
            store.closed 2 queued
            store.opened clean
            run.started q
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            run.ended q completed
            job.ended q completed
            group.fired all_ok [q completed]
        "#]],
    );
}

// SH-4, J-17: one that has done its work has done it, a cancel wins, and what may be alive is not run again.
#[test]
fn what_is_to_be_queued_again_can_end_otherwise() {
    check(
        "launch resume=rerun a; launch resume=rerun b; launch resume=rerun grace=10 c; launch resume=rerun d; \
         launch resume=rerun run=50 e; spawn e; suspend; end a ok; stop b; end b lost; after 10; after 3000; end d left; \
         end e failed; finish; crash; open",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            job.queued c
            group.sealed [c]
            run.started c
            job.queued d
            group.sealed [d]
            run.started d
            job.queued e
            group.sealed [e]
            run.started e
            run.bound e
            job.stopping a requeue/shutdown
            job.stopping b requeue/shutdown
            job.stopping c requeue/shutdown
            job.stopping d requeue/shutdown
            job.stopping e requeue/shutdown
            -> Polite stop of a
            -> Polite stop of b
            -> Polite stop of c
            -> Polite stop of d
            -> Polite stop of e
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            job.stopping b cancelled/user
            run.ended b cancelled
            job.ended b cancelled/user
            group.fired none_ok [b cancelled/user]
            -> Forced stop of c
            run.ended c cancelled
            note unreaped c
            job.ended c cancelled/shutdown unreaped
            group.fired none_ok [c cancelled/shutdown]
            -> Forced stop of d
            -> Forced stop of e
            -> Abandoned stop of c
            run.ended d interrupted
            note unreaped d
            job.ended d cancelled/shutdown interrupted unreaped
            group.fired none_ok [d cancelled/shutdown]
            run.ended e interrupted, to be queued again
            store.closed 1 queued
            store.opened clean
            run.started e
        "#]],
    );
}

// SH-4: a stop of all that comes later is one.
#[test]
fn a_stop_of_all_takes_back_what_was_to_wait() {
    check(
        "slots 1; launch resume=rerun a; launch b; suspend; stop-all; end a lost; finish",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            job.stopping a requeue/shutdown
            -> Polite stop of a
            job.stopping a cancelled/shutdown
            job.ended b cancelled/shutdown
            group.fired none_ok [b cancelled/shutdown]
            run.ended a cancelled
            job.ended a cancelled/shutdown
            group.fired none_ok [a cancelled/shutdown]
            store.closed 0 queued
        "#]],
    );
}

// RE-5: an orderly stop is no crash, and no try that failed; a crash inside it does not undo it.
#[test]
fn orderly_stops_do_not_count() {
    check(
        "launch resume=rerun retries=1 a; suspend; end a lost; finish; crash; open; after 0; suspend; end a lost; finish; crash; \
         open; after 0; suspend; crash; open; after 0; end a failed; alarm; crash; open; after 0; crash; open; \
         after 0; crash; open",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a requeue/shutdown
            -> Polite stop of a
            run.ended a interrupted, to be queued again
            store.closed 1 queued
            store.opened clean
            run.started a
            job.stopping a requeue/shutdown
            -> Polite stop of a
            run.ended a interrupted, to be queued again
            store.closed 1 queued
            store.opened clean
            run.started a
            job.stopping a requeue/shutdown
            -> Polite stop of a
            store.opened after a crash
            run.ended a interrupted, to be queued again
            run.started a
            run.ended a failed, to be tried again
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

// SH-4: what waits for its next try waits on.
#[test]
fn what_waits_for_its_next_try_waits_for_the_next_opening() {
    check(
        "launch retries=1 a; end a failed; suspend; finish; crash; open; alarm; end a ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a failed, to be tried again
            store.closed 1 queued
            store.opened clean
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
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
