//! Plans: what starts after what, and what follows where one did not complete (T-2 to T-4).

use expect_test::expect;
use fanin_tests::timeline::check;

// T-3: what needs others starts once they are over, ties in launch order.
#[test]
fn a_member_starts_once_all_that_it_needs_are_over() {
    check(
        "launch a b c>a+b d>a; end a; why c; end b",
        expect![[r#"
        job.queued a
        job.queued b
        job.queued c
        job.queued d
        group.sealed [a b c>a+b d>a]
        run.started a
        run.started b
        run.ended a completed
        job.ended a completed
        run.started d
        why c: waits for 1 that it needs: b
        run.ended b completed
        job.ended b completed
        run.started c
    "#]],
    );
}

// B67, T-4: one fails, what needs it is skipped, and so is what needs that; one result has all four.
#[test]
fn a_failure_skips_all_that_needs_it_in_one_step_and_says_why() {
    check(
        "launch a b>a c>b d; end a failed; end d",
        expect![[r#"
        job.queued a
        job.queued b
        job.queued c
        job.queued d
        group.sealed [a b>a c>b d]
        run.started a
        run.started d
        run.ended a failed
        job.ended a error/failed
        job.ended b error/dependency because of a
        job.ended c error/dependency because of a
        run.ended d completed
        job.ended d completed
        group.fired partial [a error/failed, b error/dependency, c error/dependency, d completed]
    "#]],
    );
}

// T-4: a dependency that was cancelled did not complete.
#[test]
fn a_cancelled_dependency_skips_as_a_failed_one() {
    check(
        "launch a b>a; stop a; end a",
        expect![[r#"
        job.queued a
        job.queued b
        group.sealed [a b>a]
        run.started a
        job.stopping a cancelled/user
        -> Polite stop of a
        run.ended a completed
        job.ended a cancelled/user completed_anyway
        job.ended b error/dependency because of a
        group.fired none_ok [a cancelled/user, b error/dependency]
    "#]],
    );
}

// T-4: `run` starts where one failed, once all are over.
#[test]
fn who_runs_all_the_same_waits_for_all_and_starts() {
    check(
        "launch a b c>a+b?; end a failed; why c; end b; end c",
        expect![[r#"
        job.queued a
        job.queued b
        job.queued c
        group.sealed [a b c>a+b?]
        run.started a
        run.started b
        run.ended a failed
        job.ended a error/failed
        why c: waits for 1 that it needs: b
        run.ended b completed
        job.ended b completed
        run.started c
        run.ended c completed
        job.ended c completed
        group.fired partial [a error/failed, b completed, c completed]
    "#]],
    );
}

// T-4: `fail_team` stops the rest.
#[test]
fn where_the_group_cannot_do_without_one_the_rest_is_stopped() {
    check(
        "launch a b>a! c d>c; end a failed; end c",
        expect![[r#"
        job.queued a
        job.queued b
        job.queued c
        job.queued d
        group.sealed [a b>a! c d>c]
        run.started a
        run.started c
        run.ended a failed
        job.ended a error/failed
        job.ended b error/dependency because of a
        job.stopping c cancelled/group
        job.ended d cancelled/group
        -> Polite stop of c
        run.ended c completed
        job.ended c cancelled/group completed_anyway
        group.fired none_ok by dependency [a error/failed, b error/dependency, c cancelled/group, d cancelled/group]
    "#]],
    );
}

// T-4: `skip` goes on through `run`: that one starts, since what it needs is over.
#[test]
fn a_skipped_dependency_is_over_for_who_runs_all_the_same() {
    check(
        "launch a b>a c>b?; end a failed; end c",
        expect![[r#"
        job.queued a
        job.queued b
        job.queued c
        group.sealed [a b>a c>b?]
        run.started a
        run.ended a failed
        job.ended a error/failed
        job.ended b error/dependency because of a
        run.started c
        run.ended c completed
        job.ended c completed
        group.fired partial [a error/failed, b error/dependency, c completed]
    "#]],
    );
}

// T-3: both ends of one edge, named twice, and a diamond.
#[test]
fn a_diamond_starts_its_end_once() {
    check(
        "launch a b>a+a c>a d>b+c; end a; end b; end c; end d",
        expect![[r#"
        job.queued a
        job.queued b
        job.queued c
        job.queued d
        group.sealed [a b>a c>a d>b+c]
        run.started a
        run.ended a completed
        job.ended a completed
        run.started b
        run.started c
        run.ended b completed
        job.ended b completed
        run.ended c completed
        job.ended c completed
        run.started d
        run.ended d completed
        job.ended d completed
        group.fired all_ok [a completed, b completed, c completed, d completed]
    "#]],
    );
}

// T-3: what stands first in launch order may need what stands behind it.
#[test]
fn a_member_may_need_a_later_one() {
    check(
        "launch a>b b>c c; end c; end b; end a",
        expect![[r#"
        job.queued a
        job.queued b
        job.queued c
        group.sealed [a>b b>c c]
        run.started c
        run.ended c completed
        job.ended c completed
        run.started b
        run.ended b completed
        job.ended b completed
        run.started a
        run.ended a completed
        job.ended a completed
        group.fired all_ok [a completed, b completed, c completed]
    "#]],
    );
}

// T-4: what is to be skipped is, and then the policy stops the rest; what that stops skips nobody.
#[test]
fn a_policy_that_stops_the_rest_stops_what_waits() {
    check(
        "launch fail_fast a b>a c d>c; end a failed; end c",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            job.queued d
            group.sealed [a b>a c d>c]
            run.started a
            run.started c
            run.ended a failed
            job.ended a error/failed
            job.ended b error/dependency because of a
            job.stopping c cancelled/group
            job.ended d cancelled/group
            -> Polite stop of c
            run.ended c completed
            job.ended c cancelled/group completed_anyway
            group.fired none_ok by notok [a error/failed, b error/dependency, c cancelled/group, d cancelled/group]
        "#]],
    );
}

// J-9: a job that waits for others is cancelled at once, and what needs it is skipped.
#[test]
fn a_waiting_member_that_is_cancelled_is_over_at_once() {
    check(
        "launch a b>a c>b; stop b; end a",
        expect![[r#"
        job.queued a
        job.queued b
        job.queued c
        group.sealed [a b>a c>b]
        run.started a
        job.ended b cancelled/user
        job.ended c error/dependency because of b
        run.ended a completed
        job.ended a completed
        group.fired partial [a completed, b cancelled/user, c error/dependency]
    "#]],
    );
}

// A stop of the group stops what waits as well: nothing is skipped.
#[test]
fn a_stopped_group_has_one_cause() {
    check(
        "launch a b>a c>b; stop-group g1; end a",
        expect![[r#"
        job.queued a
        job.queued b
        job.queued c
        group.sealed [a b>a c>b]
        run.started a
        job.stopping a cancelled/user
        job.ended b cancelled/user
        job.ended c cancelled/user
        -> Polite stop of a
        run.ended a completed
        job.ended a cancelled/user completed_anyway
        group.fired none_ok [a cancelled/user, b cancelled/user, c cancelled/user]
    "#]],
    );
}

// BAR-9: where the parent goes all go.
#[test]
fn where_the_parent_goes_what_waits_goes_with_it() {
    check(
        "launch a b>a; close s; end a",
        expect![[r#"
        job.queued a
        job.queued b
        group.sealed [a b>a]
        run.started a
        session.closed s
        group.voided [a b]
        job.stopping a cancelled/parent
        job.ended b cancelled/parent
        -> Polite stop of a
        run.ended a completed
        job.ended a cancelled/parent completed_anyway
    "#]],
    );
}

// SC-14: the queue limit counts from the launch, also where a job waits for others.
#[test]
fn the_queue_limit_counts_while_others_are_waited_for() {
    check(
        "launch queue=50 a b>a c>b; after 60; end a",
        expect![[r#"
        job.queued a
        job.queued b
        job.queued c
        group.sealed [a b>a c>b]
        run.started a
        job.ended b error/timeout.queue
        job.ended c error/timeout.queue
        run.ended a completed
        job.ended a completed
        group.fired partial [a completed, b error/timeout, c error/timeout]
    "#]],
    );
}

// J-7: another try is no end.
#[test]
fn a_dependency_that_is_tried_again_is_not_over() {
    check(
        "launch retries=1 a b>a; end a failed; why b; alarm; end a; end b",
        expect![[r#"
        job.queued a
        job.queued b
        group.sealed [a b>a]
        run.started a
        run.ended a failed, to be tried again
        why b: waits for 1 that it needs: a
        run.started a
        run.ended a completed
        job.ended a completed
        run.started b
        run.ended b completed
        job.ended b completed
        group.fired all_ok [a completed, b completed]
    "#]],
    );
}

// RE-7: what waits goes on after a crash, and what was not followed is.
#[test]
fn a_plan_goes_on_after_a_crash() {
    check(
        "launch a b>a c>b d>a?; spawn a; crash; open; end d",
        expect![[r#"
        job.queued a
        job.queued b
        job.queued c
        job.queued d
        group.sealed [a b>a c>b d>a?]
        run.started a
        run.bound a
        store.opened after a crash
        run.ended a interrupted
        job.ended a error/interrupted interrupted
        job.ended b error/dependency because of a
        job.ended c error/dependency because of a
        run.started d
        run.ended d completed
        job.ended d completed
        group.fired partial [a error/interrupted, b error/dependency, c error/dependency, d completed]
    "#]],
    );
}

// RE-4: a rerun is no end: what needs it waits on.
#[test]
fn what_waits_for_a_job_that_is_queued_again_waits_on() {
    check(
        "launch resume=rerun a b>a; spawn a; crash; open; why b; end a; crash; open; end b",
        expect![[r#"
        job.queued a
        job.queued b
        group.sealed [a b>a]
        run.started a
        run.bound a
        store.opened after a crash
        run.ended a interrupted, to be queued again
        run.started a
        why b: waits for 1 that it needs: a
        run.ended a completed
        job.ended a completed
        run.started b
        store.opened after a crash
        run.ended b interrupted, to be queued again
        run.started b
        run.ended b completed
        job.ended b completed
        group.fired all_ok [a completed, b completed]
    "#]],
    );
}

// RE-7: closures are gone with their process, whatever they waited for.
#[test]
fn closures_of_a_plan_end_with_a_crash() {
    check(
        "launch closure a b>a; crash; open",
        expect![[r#"
        job.queued a
        job.queued b
        group.sealed [a b>a]
        run.started a
        store.opened after a crash
        run.ended a interrupted
        job.ended b error/interrupted interrupted
        job.ended a error/interrupted interrupted
        group.fired none_ok [a error/interrupted, b error/interrupted]
    "#]],
    );
}

// SH-4: an orderly end that keeps what waits.
#[test]
fn a_plan_is_kept_over_an_orderly_end() {
    check(
        "launch resume=rerun a b>a; spawn a; suspend; end a lost; finish; crash; open; end a; end b",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b>a]
            run.started a
            run.bound a
            job.stopping a requeue/shutdown
            -> Polite stop of a
            run.ended a interrupted, to be queued again
            store.closed 2 queued
            store.opened clean
            run.started a
            run.ended a completed
            job.ended a completed
            run.started b
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
        "#]],
    );
}

// SH-1: nothing new starts once the end has begun, also what has become ready.
#[test]
fn what_is_ready_waits_where_nothing_starts() {
    check(
        "launch a b>a; drain; end a; why b; stop-all",
        expect![[r#"
        job.queued a
        job.queued b
        group.sealed [a b>a]
        run.started a
        run.ended a completed
        job.ended a completed
        why b: the supervisor is shutting down and starts nothing more
        job.ended b cancelled/shutdown
        group.fired partial [a completed, b cancelled/shutdown]
    "#]],
    );
}

// T-2: nothing exists where it is no plan, and all that is wrong is told.
#[test]
fn what_is_no_plan_is_refused_whole() {
    check(
        "launch a>a b>c c>b d>nobody; launch start>end mid>start end>mid",
        expect![[r#"
        = refused: `a` needs itself; `d` needs the job at place 99, and there is none; a circle: `b` needs `c` needs `b`
        = refused: a circle: `start` needs `end` needs `mid` needs `start`
    "#]],
    );
}

// J-21: the edges are part of what a group is.
#[test]
fn a_known_group_with_other_edges_says_so() {
    check(
        "launch as=g a b>a; launch as=g a b",
        expect![[r#"
        job.queued a
        job.queued b
        group.sealed [a b>a]
        run.started a
        = known: [a b], another spec
    "#]],
    );
}

// SC-9, T-3: what becomes ready stands behind what waits by then.
#[test]
fn what_becomes_ready_stands_in_line() {
    check(
        "slots 1; launch a b>a c; launch d; end a; end c; end d",
        expect![[r#"
        job.queued a
        job.queued b
        job.queued c
        group.sealed [a b>a c]
        run.started a
        job.queued d
        group.sealed [d]
        run.ended a completed
        job.ended a completed
        run.started c
        run.ended c completed
        job.ended c completed
        run.started d
        run.ended d completed
        job.ended d completed
        group.fired all_ok [d completed]
        run.started b
    "#]],
    );
}

// BAR-15: a wait on what waits for others.
#[test]
fn a_wait_for_a_member_that_is_skipped_is_answered() {
    check(
        "launch a b>a; wait w1 all b; end a failed; ack w1",
        expect![[r#"
        job.queued a
        job.queued b
        group.sealed [a b>a]
        run.started a
        run.ended a failed
        job.ended a error/failed
        job.ended b error/dependency because of a
        group.fired none_ok [a error/failed, b error/dependency]
        -> w1: [b error/dependency]
        message.taken b by waiter
    "#]],
    );
}

// A group of a plan in a turn is sealed at once.
#[test]
fn a_plan_in_a_turn_is_a_group_of_its_own() {
    check(
        "turn; launch a b>a; end a; turn-end; end b",
        expect![[r#"
        run.started turn of s
        job.queued a
        job.queued b
        group.sealed [a b>a]
        run.started a
        run.ended a completed
        job.ended a completed
        run.started b
        run.ended turn of s completed
        run.ended b completed
        job.ended b completed
        group.fired all_ok [a completed, b completed]
    "#]],
    );
}

// RE-7, T-3: what a job needs may be over before a crash, and is followed after it, also where the job had no slot yet.
#[test]
fn what_was_over_before_a_crash_is_followed_after_it() {
    check(
        "slots 1; launch a b>a c; end a; spawn c; crash; open; end b",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b>a c]
            run.started a
            run.ended a completed
            job.ended a completed
            run.started c
            run.bound c
            store.opened after a crash
            run.ended c interrupted
            job.ended c error/interrupted interrupted
            run.started b
            run.ended b completed
            job.ended b completed
            group.fired partial [a completed, b completed, c error/interrupted]
        "#]],
    );
}

// RE-7, T-3: the same where nothing was to start any more.
#[test]
fn what_became_ready_while_nothing_started_starts_in_the_next_epoch() {
    check(
        "launch a b>a; drain; end a; crash; open; end b",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b>a]
            run.started a
            run.ended a completed
            job.ended a completed
            store.opened after a crash
            run.started b
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
        "#]],
    );
}

// RE-8, T-4: two that are needed fail in one step. What is skipped is told its root in the order of the plan, so that what
// comes last names the first root, however the ends came.
#[test]
fn of_two_that_failed_at_once_the_first_is_the_root_of_what_needs_both() {
    check(
        "launch a b c>a d>b e>c+d; crash; open",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            job.queued d
            job.queued e
            group.sealed [a b c>a d>b e>c+d]
            run.started a
            run.started b
            store.opened after a crash
            run.ended a interrupted
            run.ended b interrupted
            job.ended a error/interrupted interrupted
            job.ended b error/interrupted interrupted
            job.ended c error/dependency because of a
            job.ended d error/dependency because of b
            job.ended e error/dependency because of a
            group.fired none_ok [a error/interrupted, b error/interrupted, c error/dependency, d error/dependency, e error/dependency]
        "#]],
    );
}

// T-4: all edges at once: both ends of one are named twice, a diamond, and who runs all the same behind it.
#[test]
fn a_diamond_with_a_failure_on_one_side_skips_its_end_once() {
    check(
        "launch a b>a+a c>a d>b+c e>d+a? f>e; end a; end b failed; end c; end e; end f",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            job.queued d
            job.queued e
            job.queued f
            group.sealed [a b>a c>a d>b+c e>a+d? f>e]
            run.started a
            run.ended a completed
            job.ended a completed
            run.started b
            run.started c
            run.ended b failed
            job.ended b error/failed
            job.ended d error/dependency because of b
            run.started e
            run.ended c completed
            job.ended c completed
            run.ended e completed
            job.ended e completed
            run.started f
            run.ended f completed
            job.ended f completed
            group.fired partial [a completed, b error/failed, c completed, d error/dependency, e completed, f completed]
        "#]],
    );
}

// P7, T-3, SC-10: a circle over two doors, a wait and a plan. Each says for whom it waits, and a limit ends it.
#[test]
fn a_circle_of_a_wait_and_a_plan_is_named_and_bounded() {
    check(
        "slots 1; launch closure run=50 a b>a; wait w1 all below=a b; why a; why b; after 60; end a",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b>a]
            run.started a
            why a: waits for b
            why b: waits for 1 that it needs: a
            job.stopping a error/timeout
            -> Polite stop of a
            run.ended a completed
            job.ended a error/timeout.run completed_anyway
            job.ended b error/dependency because of a
            group.fired none_ok [a error/timeout, b error/dependency]
            -> w1: closed
        "#]],
    );
}

// P7, T-7: a circle over two other doors, mail and a wait: named as well, and whoever receives stops to by itself.
#[test]
fn a_circle_of_mail_and_a_wait_is_named_and_bounded() {
    check(
        "launch closure a b c>a; wait w1 mail below=b from=a; wait w2 all below=a b; why a; why b; expire w1; why b; \
         end b; ack w2; end a",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c>a]
            run.started a
            run.started b
            why a: waits for b
            why b: waits for a
            why b: working
            run.ended b completed
            job.ended b completed
            -> w2: [b completed]
            run.ended a completed
            job.ended a completed
            run.started c
        "#]],
    );
}

// P7: two that wait for each other.
#[test]
fn a_circle_of_two_waits_is_named_and_ends_with_one_of_them() {
    check(
        "launch a b; wait w1 all below=a b; wait w2 all below=b a; why a; why b; stop b grace=0; end b lost; ack w1; end a",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            why a: waits for b
            why b: waits for a
            job.stopping b cancelled/user
            -> Polite stop of b
            -> Forced stop of b
            run.ended b cancelled
            job.ended b cancelled/user
            -> w2: closed
            -> w1: [b cancelled/user]
            run.ended a completed
            job.ended a completed
            group.fired partial [a completed, b cancelled/user]
        "#]],
    );
}
