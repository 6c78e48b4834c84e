//! Waiter, else inbox: who gets the wake of a group, and where there is none: BAR-10, BAR-12, BAR-15, W-4.

use expect_test::expect;
use fanin_tests::timeline::check;

// BAR-10: nobody waits: the inbox. The oldest first, one at a time.
#[test]
fn wakes_come_oldest_first_and_once() {
    check(
        "launch a; launch b; end b; end a; wait w1 wake; wait w2 wake; ack w1; ack w2; wait w3 wake",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            run.ended b completed
            job.ended b completed
            group.fired all_ok [b completed]
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: wake [b completed]
            -> w2: wake [a completed]
            message.taken [b] by inbox
            message.taken [a] by inbox
        "#]],
    );
}

// BAR-10: a taker that was there first is served by the fire.
#[test]
fn a_taker_that_waits_gets_the_wake_as_it_fires() {
    check(
        "wait w1 wake; launch a; end a; ack w1",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: wake [a completed]
            message.taken [a] by inbox
        "#]],
    );
}

// BAR-12: a taker that leaves gives the wake to the next.
#[test]
fn a_taker_that_leaves_passes_the_wake_on() {
    check(
        "launch a; wait w1 wake; wait w2 wake; end a; leave w1; ack w2",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: wake [a completed]
            -> w2: wake [a completed]
            message.taken [a] by inbox
        "#]],
    );
}

// BAR-15: all taken by a wait, before the fire or after it: no wake.
#[test]
fn a_wait_for_all_leaves_no_wake() {
    check(
        "launch a b; wait w1 all b a; end a; end b; ack w1; wait w2 wake",
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
            -> w1: [b completed, a completed]
            message.taken [a b] by waiter
        "#]],
    );
}

#[test]
fn a_wait_for_the_group_leaves_no_wake() {
    check(
        "launch a b; wait w1 group g1; end a; end b; ack w1; wait w2 wake",
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
            -> w1: group [a completed, b completed]
            message.taken [a b] by waiter
        "#]],
    );
}

#[test]
fn results_that_waits_took_before_the_fire_leave_no_wake() {
    check(
        "launch a b c; wait w1 all a; end a; ack w1; wait w2 all b c; end b; end c; ack w2; wait w3 wake",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a
            run.started b
            run.started c
            run.ended a completed
            job.ended a completed
            -> w1: [a completed]
            message.taken a by waiter
            run.ended b completed
            job.ended b completed
            run.ended c completed
            job.ended c completed
            group.fired all_ok [a completed, b completed, c completed]
            -> w2: [b completed, c completed]
            message.taken [a b c] by waiter
        "#]],
    );
}

#[test]
fn results_that_were_taken_one_by_one_close_the_group_as_it_fires() {
    check(
        "launch a b; end a; wait w1 all a; ack w1; stop b; wait w2 any b; end b; ack w2",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            -> w1: [a completed]
            message.taken a by waiter
            job.stopping b cancelled/user
            -> Polite stop of b
            run.ended b completed
            job.ended b cancelled/user completed_anyway
            group.fired partial [a completed, b cancelled/user]
            -> w2: [b cancelled/user]
            message.taken [a b] by waiter
        "#]],
    );
}

// BAR-15: a turn's group whose results were all taken in the turn wakes nobody.
#[test]
fn a_group_taken_before_its_seal_leaves_no_wake() {
    check(
        "turn; start a; start b; end a; wait w1 all a; ack w1; end b; wait w2 any b; ack w2; wait w3 group g1; turn-end; wait w4 wake",
        expect![[r#"
            run.started turn of s
            job.queued a
            run.started a
            job.queued b
            run.started b
            run.ended a completed
            job.ended a completed
            -> w1: [a completed]
            message.taken a by waiter
            run.ended b completed
            job.ended b completed
            -> w2: [b completed]
            message.taken b by waiter
            run.ended turn of s completed
            group.sealed [a b]
            group.fired all_ok [a completed, b completed]
            message.taken [a b] by results
            -> w3: group [a completed, b completed] (already delivered)
        "#]],
    );
}

// Race: last finish and wait in one step: the waiter is answered first.
#[test]
fn the_waiter_is_answered_before_the_inbox() {
    check(
        "launch a; wait w1 wake; wait w2 all a; end a; ack w2",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w2: [a completed]
            message.taken [a] by waiter
        "#]],
    );
}

// BAR-10: a waiter that covers what is left of a fired group holds its message while it waits for more.
#[test]
fn a_waiter_that_covers_a_fired_group_holds_its_message() {
    check(
        "launch a; launch b; wait w1 all a b; end a; wait w2 wake; end b; ack w1; leave w2",
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
            run.ended b completed
            job.ended b completed
            group.fired all_ok [b completed]
            -> w1: [a completed, b completed]
            message.taken [a] [b] by waiter
        "#]],
    );
}

// BAR-12, B08: two wait for one group, one goes as it fires.
#[test]
fn one_of_two_waiters_leaves_as_the_group_fires() {
    check(
        "launch a; wait w1 group g1; wait w2 group g1; end a; leave w1; ack w2; wait w3 wake",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: group [a completed]
            -> w2: group [a completed]
            message.taken [a] by waiter
        "#]],
    );
}

#[test]
fn both_waiters_leave_as_the_group_fires() {
    check(
        "launch a; wait w1 group g1; wait w2 group g1; end a; wait w3 wake; leave w1; leave w2; ack w3",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: group [a completed]
            -> w2: group [a completed]
            -> w3: wake [a completed]
            message.taken [a] by inbox
        "#]],
    );
}

// W-4, B01, B09: a busy parent's wake stays owed until its turn ends.
#[test]
fn a_busy_parents_wake_waits_for_the_end_of_its_turn() {
    check(
        "launch a; turn; wait w1 wake; end a; turn-end; ack w1",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.started turn of s
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            run.ended turn of s completed
            -> w1: wake [a completed]
            message.taken [a] by inbox
        "#]],
    );
}

// W-4: a turn that begins while the wake is out does not take it back.
#[test]
fn a_turn_may_begin_while_the_wake_is_out() {
    check(
        "launch a; end a; wait w1 wake; turn; ack w1; turn-end",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: wake [a completed]
            run.started turn of s
            message.taken [a] by inbox
            run.ended turn of s completed
        "#]],
    );
}

// W-7: what is above the bound stays owed until the user says something.
#[test]
fn a_session_is_woken_so_often_until_its_user_speaks() {
    check(
        "session t agent wakes=2; start in=t a; end a; wait w1 in=t wake; ack w1; start in=t b; end b; wait w2 in=t wake; ack w2; \
         start in=t c; end c; wait w3 in=t wake; why-group g3; post in=t m1; ack w3; why-group g3",
        expect![[r#"
            session.opened t
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: wake [a completed]
            message.taken [a] by inbox
            job.queued b
            group.sealed [b]
            run.started b
            run.ended b completed
            job.ended b completed
            group.fired all_ok [b completed]
            -> w2: wake [b completed]
            message.taken [b] by inbox
            job.queued c
            group.sealed [c]
            run.started c
            run.ended c completed
            job.ended c completed
            group.fired all_ok [c completed]
            why-group g3: its parent was woken 2 times without a word of its user, and waits for one
            message.posted m1 to t
            -> w3: wake [c completed]
            message.taken [c] by inbox
            why-group g3: over
        "#]],
    );
}

// W-7: and not more often in a minute; what is above that comes by itself.
#[test]
fn a_session_is_woken_so_often_in_a_minute() {
    check(
        "session t agent wakes_per_minute=1; start in=t a; end a; wait w1 in=t wake; ack w1; start in=t b; end b; wait w2 in=t wake; \
         why-group g2; after 59999; why-group g2; after 1; ack w2; start in=t c; end c; wait w3 in=t wake; why-group g3; leave w3",
        expect![[r#"
            session.opened t
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: wake [a completed]
            message.taken [a] by inbox
            job.queued b
            group.sealed [b]
            run.started b
            run.ended b completed
            job.ended b completed
            group.fired all_ok [b completed]
            why-group g2: its parent was woken as often as it may be in a minute, 1 times by now; it comes later
            why-group g2: its parent was woken as often as it may be in a minute, 1 times by now; it comes later
            -> w2: wake [b completed]
            message.taken [b] by inbox
            job.queued c
            group.sealed [c]
            run.started c
            run.ended c completed
            job.ended c completed
            group.fired all_ok [c completed]
            why-group g3: its parent was woken as often as it may be in a minute, 2 times by now; it comes later
        "#]],
    );
}

// Whatever a turn takes beside its first result is the same wake, and a wait is none.
#[test]
fn a_turn_is_one_wake_however_many_results_it_takes_and_a_wait_is_none() {
    check(
        "session t agent wakes=2; launch in=t a b; launch in=t c d; end a; end b; end c; end d; wait w1 in=t wake; wait w2 in=t wake; \
         turn t; ack w1; ack w2; turn-end t; launch in=t e f; end e; end f; wait w3 in=t group g3; ack w3; launch in=t h i; end h; end i; \
         wait w4 in=t wake; ack w4; launch in=t j k; end j; end k; wait w5 in=t wake; why-group g5; \
         post in=t m1; ack w5",
        expect![[r#"
            session.opened t
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            job.queued c
            job.queued d
            group.sealed [c d]
            run.started c
            run.started d
            run.ended a completed
            job.ended a completed
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
            run.ended c completed
            job.ended c completed
            run.ended d completed
            job.ended d completed
            group.fired all_ok [c completed, d completed]
            -> w1: wake [a completed, b completed]
            -> w2: wake [c completed, d completed]
            run.started turn of t
            message.taken [a b] by inbox
            message.taken [c d] by inbox
            run.ended turn of t completed
            job.queued e
            job.queued f
            group.sealed [e f]
            run.started e
            run.started f
            run.ended e completed
            job.ended e completed
            run.ended f completed
            job.ended f completed
            group.fired all_ok [e completed, f completed]
            -> w3: group [e completed, f completed]
            message.taken [e f] by waiter
            job.queued h
            job.queued i
            group.sealed [h i]
            run.started h
            run.started i
            run.ended h completed
            job.ended h completed
            run.ended i completed
            job.ended i completed
            group.fired all_ok [h completed, i completed]
            -> w4: wake [h completed, i completed]
            message.taken [h i] by inbox
            job.queued j
            job.queued k
            group.sealed [j k]
            run.started j
            run.started k
            run.ended j completed
            job.ended j completed
            run.ended k completed
            job.ended k completed
            group.fired all_ok [j completed, k completed]
            why-group g5: its parent was woken 2 times without a word of its user, and waits for one
            message.posted m1 to t
            -> w5: wake [j completed, k completed]
            message.taken [j k] by inbox
        "#]],
    );
}
