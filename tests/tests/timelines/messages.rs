//! Posted messages: a user's words to a session, and follow-ups to a running job (S-2, W-4, J-24; B57).

use expect_test::expect;
use fanin_tests::timeline::check;

#[test]
fn words_go_before_results_that_come_after_them() {
    check(
        "launch as=g a; launch as=h b; end a; post m1; end b; wait w1 message; ack w1; wait w1 message; ack w1; wait w1 message; ack w1",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        job.queued b
        group.sealed [b]
        run.started b
        run.ended a completed
        job.ended a completed
        group.fired all_ok [a completed]
        message.posted m1 to s
        run.ended b completed
        job.ended b completed
        group.fired all_ok [b completed]
        -> w1: wake [a completed]
        message.taken [a] by inbox
        -> w1: words m1
        message.taken m1 by inbox
        -> w1: wake [b completed]
        message.taken [b] by inbox
    "#]],
    );
}

#[test]
fn a_taker_of_wakes_leaves_words_where_they_are() {
    check(
        "post m1; wait w1 wake; wait w2 message; start as=g a; end a; leave w2; wait w2 message; ack w2",
        expect![[r#"
        message.posted m1 to s
        -> w2: words m1
        job.queued a
        group.sealed [a]
        run.started a
        run.ended a completed
        job.ended a completed
        group.fired all_ok [a completed]
        -> w1: wake [a completed]
        -> w2: words m1
        message.taken m1 by inbox
    "#]],
    );
}

#[test]
fn words_wait_for_the_end_of_a_turn_and_come_again_where_they_are_dropped() {
    check(
        "turn; post m1; wait w1 message; turn-end; leave w1; wait w1 message; ack w1; wait w1 message",
        expect![[r#"
        run.started turn of s
        message.posted m1 to s
        run.ended turn of s completed
        -> w1: words m1
        -> w1: words m1
        message.taken m1 by inbox
    "#]],
    );
}

#[test]
fn words_are_posted_once_and_survive_a_crash() {
    check(
        "post m1; post m1; crash; open; wait w1 message; ack w1; post m1",
        expect![[r#"
        message.posted m1 to s
        = known
        store.opened after a crash
        -> w1: words m1
        message.taken m1 by inbox
        = known
    "#]],
    );
}

#[test]
fn words_to_a_session_that_is_closed_are_void_or_refused() {
    check(
        "post m1; close s; post m2; post m3 in=x; stop-all; session t",
        expect![[r#"
        message.posted m1 to s
        session.closed s
        message.taken m1 by void
        = refused: session `s` is closed
        = refused: session `x` is not known; open it first
        = refused: the supervisor is shutting down and takes no new work
    "#]],
    );
}

#[test]
fn a_follow_up_is_answered_before_its_job_ends() {
    check(
        "start as=g a; listen a; tell a m1; silent a; took a m1; silent a; tell a m2; end a",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        message.posted m1 to a
        -> m1 to a
        = refused: 1 follow-ups are left to be taken
        message.taken m1 by its run
        = refused: job `a` did not accept it: its runner takes none now
        run.ended a completed
        job.ended a completed
        group.fired all_ok [a completed]
    "#]],
    );
}

#[test]
fn a_follow_up_is_accepted_only_while_its_run_listens() {
    check(
        "slots 1; tell a m1; start as=g a; tell a m1; start as=h b; tell b m1; listen a; stop a; tell a m1; end a; tell a m1",
        expect![[r#"
        = refused: job `a` is not known here
        job.queued a
        group.sealed [a]
        run.started a
        = refused: job `a` did not accept it: its runner takes none now
        job.queued b
        group.sealed [b]
        = refused: job `b` did not accept it: it has not started
        job.stopping a cancelled/user
        -> Polite stop of a
        = refused: job `a` did not accept it: it is being stopped
        run.ended a completed
        job.ended a cancelled/user completed_anyway
        group.fired none_ok [a cancelled/user]
        run.started b
        = refused: job `a` did not accept it: it is over
    "#]],
    );
}

#[test]
fn a_job_that_leaves_a_follow_up_unanswered_does_not_complete() {
    check(
        "start as=g a; listen a; tell a m1; tell a m2; took a m1; end a; wait w1 wake; ack w1",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        message.posted m1 to a
        -> m1 to a
        message.posted m2 to a
        -> m2 to a
        message.taken m1 by its run
        message.taken m2 by void
        run.ended a failed
        job.ended a error/failed.unanswered
        group.fired none_ok [a error/failed]
        -> w1: wake [a error/failed]
        message.taken [a] by inbox
    "#]],
    );
}

#[test]
fn a_follow_up_is_void_where_its_run_fails_or_is_stopped_or_lost_in_a_crash() {
    check(
        "start as=g a; listen a; tell a m1; end a failed; start as=h b; listen b; tell b m2; stop b grace=0; after 3000; start as=i c; listen c; tell c m3; crash; open",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        message.posted m1 to a
        -> m1 to a
        message.taken m1 by void
        run.ended a failed
        job.ended a error/failed
        group.fired none_ok [a error/failed]
        job.queued b
        group.sealed [b]
        run.started b
        message.posted m2 to b
        -> m2 to b
        job.stopping b cancelled/user
        -> Polite stop of b
        -> Forced stop of b
        message.taken m2 by void
        run.ended b cancelled
        note unreaped b
        job.ended b cancelled/user unreaped
        group.fired none_ok [b cancelled/user]
        -> Abandoned stop of b
        job.queued c
        group.sealed [c]
        run.started c
        message.posted m3 to c
        -> m3 to c
        store.opened after a crash
        message.taken m3 by void
        run.ended c interrupted
        job.ended c error/interrupted interrupted
        group.fired none_ok [c error/interrupted]
    "#]],
    );
}

#[test]
fn a_follow_up_reaches_one_life_only() {
    check(
        "start as=g a; listen a; end a; start again as=h a; tell a m1; late a; took a m1; end a",
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
        = refused: job `a` did not accept it: its runner takes none now
        note stale_report a
        run.ended a completed
        job.ended a completed
        group.fired all_ok [a completed]
    "#]],
    );
}
