//! Watches: each firing is one message, they hold no slot and nobody waits for their end (SC-22, SH-3; W-4).

use expect_test::expect;
use fanin_tests::timeline::check;

#[test]
fn each_firing_is_one_message_and_there_are_no_more_than_it_may_fire() {
    check(
        "launch as=g w fires=2 total=1000; fire w; wait w1 hit; ack w1; fire w; wait w2 message; ack w2; fire w; end w; wait w3 message; ack w3",
        expect![[r#"
            job.queued w
            group.sealed [w]
            run.started w
            message.posted watch-3-1 to s
            -> w1: hit 1 of w
            message.taken watch-3-1 by inbox
            message.posted watch-3-2 to s
            -> w2: hit 2 of w
            message.taken watch-3-2 by inbox
            = refused: watch `w` has fired 2 times and may fire no more
            run.ended w completed
            job.ended w completed
            group.fired all_ok [w completed]
            -> w3: wake [w completed]
            message.taken [w] by inbox
        "#]],
    );
}

#[test]
fn a_watch_starts_without_a_slot_and_takes_none() {
    check(
        "slots 1; launch a; launch w fires=1 total=1000; launch b; why w; why b; end a",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        job.queued w
        group.sealed [w]
        run.started w
        job.queued b
        group.sealed [b]
        why w: starting
        why b: waits for a slot, place 1 in the queue; slots are held by a
        run.ended a completed
        job.ended a completed
        group.fired all_ok [a completed]
        run.started b
    "#]],
    );
}

#[test]
fn a_firing_waits_for_the_end_of_the_turn_and_comes_before_what_fires_later() {
    check(
        "launch as=g w fires=2 total=1000; launch as=h a; turn; wait w1 hit; fire w; end a; turn-end; leave w1; wait w2 message; wait w3 message; ack w2; ack w3",
        expect![[r#"
            job.queued w
            group.sealed [w]
            run.started w
            job.queued a
            group.sealed [a]
            run.started a
            run.started turn of s
            message.posted watch-3-1 to s
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            run.ended turn of s completed
            -> w1: hit 1 of w
            -> w2: hit 1 of w
            -> w3: wake [a completed]
            message.taken watch-3-1 by inbox
            message.taken [a] by inbox
        "#]],
    );
}

#[test]
fn a_taker_of_firings_leaves_words_and_results_where_they_are() {
    check(
        "post m1; launch as=g a; end a; launch as=h w fires=1 total=1000; wait w1 hit; fire w; leave w1; wait w2 wake; wait w3 hit; ack w3; ack w2; wait w4 message; ack w4",
        expect![[r#"
            message.posted m1 to s
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            job.queued w
            group.sealed [w]
            run.started w
            message.posted watch-10-1 to s
            -> w1: hit 1 of w
            -> w2: wake [a completed]
            -> w3: hit 1 of w
            message.taken watch-10-1 by inbox
            message.taken [a] by inbox
            -> w4: words m1
            message.taken m1 by inbox
        "#]],
    );
}

#[test]
fn a_firing_survives_a_crash_and_the_watch_goes_on_counting() {
    check(
        "launch as=g w fires=2 total=1000 resume=rerun; fire w; crash; open; fire w; fire w; wait w1 hit; ack w1; crash; open; wait w2 hit; ack w2",
        expect![[r#"
            job.queued w
            group.sealed [w]
            run.started w
            message.posted watch-3-1 to s
            store.opened after a crash
            run.ended w interrupted, to be queued again
            run.started w
            message.posted watch-3-2 to s
            = refused: watch `w` has fired 2 times and may fire no more
            -> w1: hit 1 of w
            message.taken watch-3-1 by inbox
            store.opened after a crash
            run.ended w interrupted, to be queued again
            run.started w
            -> w2: hit 2 of w
            message.taken watch-3-2 by inbox
        "#]],
    );
}

#[test]
fn a_watch_that_is_not_to_run_again_ends_with_the_crash_and_its_firing_stays_owed() {
    check(
        "launch as=g w fires=2 total=1000; fire w; crash; open; wait w1 message; ack w1",
        expect![[r#"
        job.queued w
        group.sealed [w]
        run.started w
        message.posted watch-3-1 to s
        store.opened after a crash
        run.ended w interrupted
        job.ended w error/interrupted interrupted
        group.fired none_ok [w error/interrupted]
        -> w1: hit 1 of w
        message.taken watch-3-1 by inbox
    "#]],
    );
}

#[test]
fn its_session_takes_a_watch_along_and_what_it_saw_is_void() {
    check(
        "launch as=g w fires=2 total=1000; fire w; close s; fire w; end w lost",
        expect![[r#"
        job.queued w
        group.sealed [w]
        run.started w
        message.posted watch-3-1 to s
        session.closed s
        group.voided [w]
        message.taken watch-3-1 by void
        job.stopping w cancelled/parent
        -> Polite stop of w
        = refused: job `w` is being stopped: nothing more is launched below it, and no wake comes
        run.ended w cancelled
        job.ended w cancelled/parent
    "#]],
    );
}

#[test]
fn its_life_ends_a_watch_and_what_it_saw_stays_owed() {
    check(
        "launch as=g w fires=3 total=300; fire w; after 300; fire w; end w lost; wait w1 message; ack w1",
        expect![[r#"
            job.queued w
            group.sealed [w]
            run.started w
            message.posted watch-3-1 to s
            job.stopping w error/timeout
            -> Polite stop of w
            = refused: job `w` is being stopped: nothing more is launched below it, and no wake comes
            run.ended w failed: `total_timeout` of 300ms passed; the task was dropped before it ended
            job.ended w error/timeout.total
            group.fired none_ok [w error/timeout]
            -> w1: hit 1 of w
            message.taken watch-3-1 by inbox
        "#]],
    );
}

#[test]
fn a_watch_that_was_told_to_stop_fires_no_more() {
    check(
        "launch as=g w fires=3 total=300; stop w; fire w; end w lost",
        expect![[r#"
        job.queued w
        group.sealed [w]
        run.started w
        job.stopping w cancelled/user
        -> Polite stop of w
        = refused: job `w` is being stopped: nothing more is launched below it, and no wake comes
        run.ended w cancelled
        job.ended w cancelled/user
        group.fired none_ok [w cancelled/user]
    "#]],
    );
}

#[test]
fn who_drains_stops_what_only_looks_at_once() {
    check(
        "launch as=g a; launch as=h w fires=1 total=9000; launch as=i v fires=1 total=9000 resume=rerun; wait w1 idle; drain; end w lost; end v lost; end a; suspend; finish; crash; open; fire v",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued w
            group.sealed [w]
            run.started w
            job.queued v
            group.sealed [v]
            run.started v
            job.stopping w cancelled/shutdown
            job.stopping v requeue/shutdown
            -> Polite stop of w
            -> Polite stop of v
            run.ended w cancelled
            job.ended w cancelled/shutdown
            group.fired none_ok [w cancelled/shutdown]
            run.ended v interrupted, to be queued again
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: idle
            store.closed 1 queued
            store.opened clean
            run.started v
            message.posted watch-9-1 to s
        "#]],
    );
}

#[test]
fn a_watch_is_a_launch_of_its_own_below_a_session_and_only_a_watch_fires() {
    check(
        "launch a w fires=1 total=10; launch b; launch below=b w fires=1 total=10; fire b; launch w fires=0 total=10; launch w fires=11 total=10; launch w fires=1; launch w agent fires=1 total=10",
        expect![[r#"
            = refused: job 0 is a watch: it is a launch of its own; launch the others beside it
            job.queued b
            group.sealed [b]
            run.started b
            = refused: job 0 is a watch: only a session has watches; a job can wait for what it wants to see
            = refused: job `b` is no watch: give it the number of its firings
            = refused: job 0: times: 0; a watch fires 1 to 10 times
            = refused: job 0: times: 11; a watch fires 1 to 10 times
            = refused: job 0: total_timeout: a watch needs one of 24h00m at the most: that is its life
            = refused: job 0 is a watch: only a closure can fire by itself; for others say what is looked at
        "#]],
    );
}

#[test]
fn in_a_turn_a_watch_joins_no_group() {
    check(
        "turn; start as=g a; start as=h w fires=1 total=1000; turn-end; end a; fire w",
        expect![[r#"
        run.started turn of s
        job.queued a
        run.started a
        job.queued w
        group.sealed [w]
        run.started w
        run.ended turn of s completed
        group.sealed [a]
        run.ended a completed
        job.ended a completed
        group.fired all_ok [a completed]
        message.posted watch-6-1 to s
    "#]],
    );
}

#[test]
fn a_key_that_somebody_took_for_words_costs_no_firing() {
    check(
        "post watch-4-1; launch as=g w fires=2 total=1000; fire w; wait w1 hit; ack w1; fire w",
        expect![[r#"
            message.posted watch-4-1 to s
            job.queued w
            group.sealed [w]
            run.started w
            message.posted watch-4-2 to s
            -> w1: hit 1 of w
            message.taken watch-4-2 by inbox
            message.posted watch-4-3 to s
        "#]],
    );
}

#[test]
fn a_watch_that_is_quiet_is_not_noted_as_stalled() {
    check(
        "launch as=g a; launch as=h w fires=1 total=9000000; spawn a; spawn w; after 600000; alarm",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued w
            group.sealed [w]
            run.started w
            run.bound a
            run.bound w
            note stall g 600000 a:working
            job.stopping w error/timeout
            -> Polite stop of w
        "#]],
    );
}

// W-7: a firing wakes like a result, and is counted and held like one; words of the user are not.
#[test]
fn a_firing_is_a_wake_and_is_held_where_there_were_enough() {
    check(
        "session t agent wakes=1; launch in=t as=g w fires=3 total=9000; fire w; wait w1 in=t hit; ack w1; fire w; wait w2 in=t hit; \
         wait w3 in=t message; post m1 in=t; ack w3; ack w2; leave w3",
        expect![[r#"
            session.opened t
            job.queued w
            group.sealed [w]
            run.started w
            message.posted watch-4-1 to t
            -> w1: hit 1 of w
            message.taken watch-4-1 by inbox
            message.posted watch-4-2 to t
            message.posted m1 to t
            -> w2: hit 2 of w
            -> w3: words m1
            message.taken m1 by inbox
            message.taken watch-4-2 by inbox
        "#]],
    );
}
