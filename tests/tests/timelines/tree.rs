//! The tree: jobs below jobs, how they join, and how they go.

use expect_test::expect;
use fanin_tests::timeline::check;

#[test]
fn a_body_that_is_over_waits_for_its_children() {
    check(
        "launch closure p; launch closure below=p a b; end p ok; why p; end a ok; end b ok",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended p completed
            why p: its body is over; waits for 2 of its children: a, b
            run.ended a completed
            job.ended a completed
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
            message.taken [a b] by void
            job.ended p completed
            group.fired all_ok [p completed]
        "#]],
    );
}

#[test]
fn a_job_takes_the_result_of_its_children() {
    check(
        "launch closure p; launch closure below=p a; wait w1 group below=p g2; end a ok; ack w1; end p ok",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: group [a completed]
            message.taken [a] by waiter
            run.ended p completed
            job.ended p completed
            group.fired all_ok [p completed]
        "#]],
    );
}

#[test]
fn a_job_is_woken_as_a_session_is() {
    check(
        "launch closure p; launch closure below=p a; launch closure below=p b; wait w1 wake below=p; end b ok; \
         ack w1; end a ok; wait w2 wake below=p; leave w2; end p ok",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            run.ended b completed
            job.ended b completed
            group.fired all_ok [b completed]
            -> w1: wake [b completed]
            message.taken [b] by inbox
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w2: wake [a completed]
            run.ended p completed
            message.taken [a] by void
            job.ended p completed
            group.fired all_ok [p completed]
        "#]],
    );
}

#[test]
fn a_child_of_another_is_looked_at_and_stays_owed() {
    check(
        "launch closure p q; launch closure below=p a; wait w1 group below=q g2; wait w2 all a; end a ok; ack w1; \
         ack w2; wait w3 wake below=p; ack w3",
        expect![[r#"
            job.queued p
            job.queued q
            group.sealed [p q]
            run.started p
            run.started q
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w2: [a completed]
            -> w1: group [a completed]
            -> w3: wake [a completed]
            message.taken [a] by inbox
        "#]],
    );
}

#[test]
fn a_body_that_fails_takes_its_children_along() {
    check(
        "slots 3; launch closure p; launch closure below=p a b c; end p failed; why p; launch below=p d; end a ok; \
         end b lost",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a
            run.started b
            run.ended p failed
            group.voided [a b c]
            job.stopping a cancelled/parent
            job.stopping b cancelled/parent
            job.ended c cancelled/parent
            -> Polite stop of a
            -> Polite stop of b
            why p: its body is over; waits for 2 of its children: a, b
            = refused: run 5 is over and has no say any more
            run.ended a completed
            job.ended a cancelled/parent completed_anyway
            run.ended b cancelled
            job.ended b cancelled/parent
            job.ended p error/failed
            group.fired none_ok [p error/failed]
        "#]],
    );
}

#[test]
fn a_stop_goes_down_the_whole_tree_with_one_deadline() {
    check(
        "launch closure p; launch closure grace=9000 below=p a; launch closure grace=0 below=a b; stop p; \
         launch below=b c; after 100; after 3000",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            job.stopping p cancelled/user
            group.voided [a]
            job.stopping a cancelled/parent
            group.voided [b]
            job.stopping b cancelled/parent
            -> Polite stop of p
            -> Polite stop of a
            -> Polite stop of b
            = refused: job `b` is being stopped: nothing more is launched below it, and no wake comes
            -> Forced stop of p
            -> Forced stop of a
            -> Forced stop of b
            run.ended b cancelled
            note unreaped b
            job.ended b cancelled/parent unreaped
            run.ended a cancelled
            note unreaped a
            job.ended a cancelled/parent unreaped
            run.ended p cancelled
            note unreaped p
            job.ended p cancelled/user unreaped
            group.fired none_ok [p cancelled/user]
            -> Abandoned stop of b
            -> Abandoned stop of a
            -> Abandoned stop of p
        "#]],
    );
}

#[test]
fn force_goes_down_the_whole_tree_at_once() {
    check(
        "launch closure p; launch closure below=p a; launch closure below=a b; stop p; after 10; stop p grace=0; \
         end b lost; end a lost; end p lost",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            job.stopping p cancelled/user
            group.voided [a]
            job.stopping a cancelled/parent
            group.voided [b]
            job.stopping b cancelled/parent
            -> Polite stop of p
            -> Polite stop of a
            -> Polite stop of b
            -> Forced stop of p
            -> Forced stop of a
            -> Forced stop of b
            run.ended b cancelled
            job.ended b cancelled/parent
            run.ended a cancelled
            job.ended a cancelled/parent
            run.ended p cancelled
            job.ended p cancelled/user
            group.fired none_ok [p cancelled/user]
        "#]],
    );
}

#[test]
fn a_joining_job_is_stopped_with_what_it_waits_for() {
    check(
        "launch closure p; launch closure below=p a; end p ok; stop p; why p; end a ok",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            run.started a
            run.ended p completed
            job.stopping p cancelled/user
            group.voided [a]
            job.stopping a cancelled/parent
            -> Polite stop of a
            why p: stopping (user); its body is over; waits for 1 of its children: a
            run.ended a completed
            job.ended a cancelled/parent completed_anyway
            job.ended p cancelled/user completed_anyway
            group.fired none_ok [p cancelled/user]
        "#]],
    );
}

#[test]
fn what_is_owed_to_a_stopped_job_is_void() {
    check(
        "launch closure p; launch closure below=p a; launch closure below=p b; wait w1 wake below=p; end a ok; \
         leave w1; wait w2 group below=p g3; stop p; wait w3 wake below=p; wait w4 group below=p g2; end b ok; end p ok",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: wake [a completed]
            job.stopping p cancelled/user
            group.voided [b]
            message.taken [a] by void
            job.stopping b cancelled/parent
            -> Polite stop of p
            -> Polite stop of b
            -> w2: voided
            = refused: job `p` is being stopped: nothing more is launched below it, and no wake comes
            -> w4: group [a completed] (already delivered)
            run.ended b completed
            job.ended b cancelled/parent completed_anyway
            run.ended p completed
            job.ended p cancelled/user completed_anyway
            group.fired none_ok [p cancelled/user]
        "#]],
    );
}

#[test]
fn a_run_that_is_over_has_no_say() {
    check(
        "launch closure p; launch closure below=p a; wait w1 all below=p a; end p ok; launch below=p b; \
         wait w2 wake below=p; end a ok",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            run.started a
            run.ended p completed
            -> w1: closed
            = refused: run 5 is over and has no say any more
            = refused: run 5 is over and has no say any more
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            message.taken [a] by void
            job.ended p completed
            group.fired all_ok [p completed]
        "#]],
    );
}

#[test]
fn nobody_waits_for_itself_or_for_one_above() {
    check(
        "launch closure as=g p; launch closure as=h below=p a; wait w1 all below=a p; wait w1 any below=a a; \
         wait w1 group below=a h; wait w1 group below=a g; wait w1 group below=p g",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            run.started a
            = refused: the job would wait for `p`, which is the job itself or hangs above it and ends only after it
            = refused: the job would wait for `a`, which is the job itself or hangs above it and ends only after it
            = refused: the job would wait for `a`, which is the job itself or hangs above it and ends only after it
            = refused: the job would wait for `p`, which is the job itself or hangs above it and ends only after it
            = refused: the job would wait for `p`, which is the job itself or hangs above it and ends only after it
        "#]],
    );
}

#[test]
fn a_tree_is_eight_deep_and_no_deeper() {
    check(
        "launch closure a; launch closure below=a b; launch closure below=b c; launch closure below=c d; \
         launch closure below=d e; launch closure below=e f; launch closure below=f g; launch closure below=g h; \
         launch closure below=h i; start closure below=h i; launch below=h as=g1 a; stop a grace=0",
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
            job.queued f
            group.sealed [f]
            run.started f
            job.queued g
            group.sealed [g]
            run.started g
            job.queued h
            group.sealed [h]
            run.started h
            = refused: a job here would be at depth 9; at most 8 is allowed: launch it from a node higher up, or raise `depth`
            = refused: a job here would be at depth 9; at most 8 is allowed: launch it from a node higher up, or raise `depth`
            = refused: a job here would be at depth 9; at most 8 is allowed: launch it from a node higher up, or raise `depth`
            job.stopping a cancelled/user
            group.voided [b]
            job.stopping b cancelled/parent
            group.voided [c]
            job.stopping c cancelled/parent
            group.voided [d]
            job.stopping d cancelled/parent
            group.voided [e]
            job.stopping e cancelled/parent
            group.voided [f]
            job.stopping f cancelled/parent
            group.voided [g]
            job.stopping g cancelled/parent
            group.voided [h]
            job.stopping h cancelled/parent
            -> Polite stop of a
            -> Forced stop of a
            -> Polite stop of b
            -> Forced stop of b
            -> Polite stop of c
            -> Forced stop of c
            -> Polite stop of d
            -> Forced stop of d
            -> Polite stop of e
            -> Forced stop of e
            -> Polite stop of f
            -> Forced stop of f
            -> Polite stop of g
            -> Forced stop of g
            -> Polite stop of h
            -> Forced stop of h
        "#]],
    );
}

#[test]
fn a_closed_session_takes_its_trees_along() {
    check(
        "slots 2; launch closure p; launch closure below=p a b; close s; end p ok; end a ok",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            session.closed s
            group.voided [p]
            job.stopping p cancelled/parent
            group.voided [a b]
            job.stopping a cancelled/parent
            job.ended b cancelled/parent
            -> Polite stop of p
            -> Polite stop of a
            run.ended p completed
            run.ended a completed
            job.ended a cancelled/parent completed_anyway
            job.ended p cancelled/parent completed_anyway
        "#]],
    );
}

#[test]
fn a_shutdown_gives_each_its_true_cause() {
    check(
        "slots 2; launch closure p; launch closure below=p a b; stop-all; end p ok; end a ok",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            job.stopping p cancelled/shutdown
            job.stopping a cancelled/shutdown
            job.ended b cancelled/shutdown
            group.voided [a b]
            -> Polite stop of p
            -> Polite stop of a
            run.ended p completed
            run.ended a completed
            job.ended a cancelled/shutdown completed_anyway
            job.ended p cancelled/shutdown completed_anyway
            group.fired none_ok [p cancelled/shutdown]
        "#]],
    );
}

#[test]
fn a_crash_interrupts_a_tree_and_stops_what_waited_in_it() {
    check(
        "slots 2; launch p; launch below=p a b; crash; open",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            store.opened after a crash
            run.ended p interrupted
            run.ended a interrupted
            job.ended b cancelled/parent
            job.ended a error/interrupted interrupted
            group.voided [a b]
            job.ended p error/interrupted interrupted
            group.fired none_ok [p error/interrupted]
        "#]],
    );
}

#[test]
fn a_stop_before_a_crash_counts_below_after_it() {
    check(
        "launch p; launch below=p a; end p ok; launch q; launch below=q b; stop q; crash; open",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            run.started a
            run.ended p completed
            job.queued q
            group.sealed [q]
            run.started q
            job.queued b
            group.sealed [b]
            run.started b
            job.stopping q cancelled/user
            group.voided [b]
            job.stopping b cancelled/parent
            -> Polite stop of q
            -> Polite stop of b
            store.opened after a crash
            run.ended a interrupted
            run.ended q interrupted
            run.ended b interrupted
            job.ended a error/interrupted interrupted
            job.ended b cancelled/parent interrupted
            job.ended q cancelled/user interrupted
            group.fired none_ok [a error/interrupted]
            message.taken [a] by void
            job.ended p completed
            group.fired none_ok [q cancelled/user]
            group.fired all_ok [p completed]
        "#]],
    );
}

#[test]
fn a_joining_job_joins_on_after_a_crash() {
    check(
        "slots 1; launch p; launch below=p a; end p ok; crash; open; end a ok",
        expect![[r#"
        job.queued p
        group.sealed [p]
        run.started p
        job.queued a
        group.sealed [a]
        run.ended p completed
        run.started a
        store.opened after a crash
        run.ended a interrupted
        job.ended a error/interrupted interrupted
        group.fired none_ok [a error/interrupted]
        message.taken [a] by void
        job.ended p completed
        group.fired all_ok [p completed]
        note stale_report a
    "#]],
    );
}

#[test]
fn one_that_outlives_the_forced_stop_goes_after_what_hangs_on_it() {
    check(
        "launch closure p; launch closure below=p a; stop p grace=0; after 3000",
        expect![[r#"
        job.queued p
        group.sealed [p]
        run.started p
        job.queued a
        group.sealed [a]
        run.started a
        job.stopping p cancelled/user
        group.voided [a]
        job.stopping a cancelled/parent
        -> Polite stop of p
        -> Forced stop of p
        -> Polite stop of a
        -> Forced stop of a
        run.ended a cancelled
        note unreaped a
        job.ended a cancelled/parent unreaped
        run.ended p cancelled
        note unreaped p
        job.ended p cancelled/user unreaped
        group.fired none_ok [p cancelled/user]
        -> Abandoned stop of a
        -> Abandoned stop of p
    "#]],
    );
}

#[test]
fn the_limit_of_a_run_stops_what_it_launched() {
    check(
        "launch run=50 closure p; launch closure below=p a; after 50; end a ok; end p ok",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping p error/timeout
            group.voided [a]
            job.stopping a cancelled/parent
            -> Polite stop of p
            -> Polite stop of a
            run.ended a completed
            job.ended a cancelled/parent completed_anyway
            run.ended p completed
            job.ended p error/timeout.run completed_anyway
            group.fired none_ok [p error/timeout]
        "#]],
    );
}
