//! Limits of time and what they do to each other: SC-13, SC-14, SC-16, SC-19, B41, B69, B72 to B75.

use expect_test::expect;
use fanin_tests::timeline::check;

// B73: nothing ever came, and it escapes nothing: half of the limit is noted, all of it stops the run.
#[test]
fn a_run_that_never_shows_work_is_idle_from_its_start() {
    check(
        "launch idle=100 a; spawn a; after 49; after 1; after 49; why a; after 1; end a failed",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            note stall a 50
            why a: working
            job.stopping a error/timeout
            -> Polite stop of a
            run.ended a failed: `idle` of 100ms passed without a sign of work; it failed
            job.ended a error/timeout.idle
            group.fired none_ok [a error/timeout]
        "#]],
    );
}

// SC-14: a part is a sign of work, and the next silence is noted anew.
#[test]
fn a_part_is_a_sign_of_work() {
    check(
        "launch idle=100 a; spawn a; after 60; part a c1 running; after 40; after 10; after 49; why a; after 1; end a ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            note stall a 60
            part a c1 running 60..-
            note stall a 50
            why a: working
            job.stopping a error/timeout
            -> Polite stop of a
            part a c1 error interrupted 60..160
            run.ended a completed
            job.ended a error/timeout.idle completed_anyway
            group.fired none_ok [a error/timeout]
        "#]],
    );
}

// B72: beats that no command tells of keep a run alive for as long as they come.
#[test]
fn a_beat_that_only_the_host_sees_keeps_a_run_alive() {
    check(
        "launch idle=100 a; spawn a; after 45; beat a; after 5; after 40; beat a; after 5; after 50; after 44; why a; after 1; \
         end a lost",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            note stall a 55
            why a: working
            job.stopping a error/timeout
            -> Polite stop of a
            run.ended a failed: `idle` of 100ms passed without a sign of work; the task was dropped before it ended
            job.ended a error/timeout.idle
            group.fired none_ok [a error/timeout]
        "#]],
    );
}

// B75: progress resets the idle limit, never the total, and the message gives both numbers.
#[test]
fn progress_resets_idle_and_never_the_total() {
    check(
        "launch idle=100 total=250 a; spawn a; after 90; beat a; after 90; beat a; after 60; beat a; after 9; why a; after 1; end a failed",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            note stall a 90
            note stall a 90
            note stall a 60
            why a: working
            job.stopping a error/timeout
            -> Polite stop of a
            run.ended a failed: `total_timeout` of 250ms passed, while signs of work kept it within its `idle` of 100ms; it failed
            job.ended a error/timeout.total
            group.fired none_ok [a error/timeout]
        "#]],
    );
}

// B72: one's own limit wins over the default of its kind; a default is lowered to fit and is not what is named.
#[test]
fn an_agents_own_limits_win_over_the_defaults() {
    check(
        "launch agent a; launch agent idle=900000 b; launch agent run=1000 c; spawn a; spawn b; spawn c; \
         after 1000; end c lost; alarm; alarm; end a lost; alarm; end b ok",
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
            run.bound a
            run.bound b
            run.bound c
            job.stopping c error/timeout
            -> Polite stop of c
            run.ended c failed: `timeout` of 1.0s passed; the task was dropped before it ended
            job.ended c error/timeout.run
            group.fired none_ok [c error/timeout]
            note stall a 300000
            note stall b 450000
            run.ended a interrupted
            job.ended a error/interrupted interrupted
            group.fired none_ok [a error/interrupted]
            run.ended b completed
            job.ended b completed
            group.fired all_ok [b completed]
        "#]],
    );
}

// SC-14: an open question stops the clocks of the run, not the total.
#[test]
fn an_open_question_stops_idle_and_run() {
    check(
        "launch idle=50 run=100 total=1000 a; spawn a; after 20; question a c1 running; after 500; \
         question a c1 completed; after 25; beat a; after 49; beat a; after 5; why a; after 1; end a lost; \
         launch run=100 total=200 b; spawn b; question b c1 running; after 200; end b ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            part a c1 running 20..-
            part a c1 completed 20..520
            note stall a 25
            note stall a 49
            why a: working
            job.stopping a error/timeout
            -> Polite stop of a
            run.ended a failed: `timeout` of 100ms passed, while signs of work kept it within its `idle` of 50ms; the task was dropped before it ended
            job.ended a error/timeout.run
            group.fired none_ok [a error/timeout]
            job.queued b
            group.sealed [b]
            run.started b
            run.bound b
            part b c1 running 600..-
            job.stopping b error/timeout
            -> Polite stop of b
            part b c1 error interrupted 600..800
            run.ended b completed
            job.ended b error/timeout.total completed_anyway
            group.fired none_ok [b error/timeout]
        "#]],
    );
}

// SC-14: of two questions the last answer lets the clocks go on.
#[test]
fn the_last_answer_lets_the_clocks_go_on() {
    check(
        "launch run=100 a; spawn a; question a c1 running; question a c2 pending; after 90; \
         question a c1 completed; after 90; question a c2 error; after 99; why a; after 1; end a lost",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            part a c1 running 0..-
            part a c2 pending -..-
            part a c1 completed 0..90
            part a c2 error 0..180
            why a: working
            job.stopping a error/timeout
            -> Polite stop of a
            run.ended a failed: `timeout` of 100ms passed; the task was dropped before it ended
            job.ended a error/timeout.run
            group.fired none_ok [a error/timeout]
        "#]],
    );
}

// SC-14: a runner that never says that it is up; one that does in time.
#[test]
fn a_run_that_is_never_in_hand_times_out_at_start() {
    check(
        "launch start=50 a b; spawn b; after 50; end a failed; end b ok; launch c; alarm; end c failed",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.bound b
            job.stopping a error/timeout
            -> Polite stop of a
            run.ended a failed: `start_timeout` of 50ms passed before its runner had it in hand; it failed
            job.ended a error/timeout.start
            run.ended b completed
            job.ended b completed
            group.fired partial [a error/timeout, b completed]
            job.queued c
            group.sealed [c]
            run.started c
            job.stopping c error/timeout
            -> Polite stop of c
            run.ended c failed: `start_timeout` of 1m00s passed before its runner had it in hand; it failed
            job.ended c error/timeout.start
            group.fired none_ok [c error/timeout]
        "#]],
    );
}

// SC-16: the machine slept for longer than the gap; idle clocks start again, the others stood still with it.
#[test]
fn idle_clocks_start_again_after_a_sleep() {
    check(
        "launch idle=100 a; spawn a; after 90; wall 30001; after 20; after 30; after 50; end a lost",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            note stall a 90
            note stall a 80
            run.ended a interrupted
            job.ended a error/interrupted interrupted
            group.fired none_ok [a error/interrupted]
        "#]],
    );
}

// SC-16: a shorter step of the wall clock is no sleep.
#[test]
fn a_short_step_of_the_wall_clock_is_no_sleep() {
    check(
        "launch idle=100 a; spawn a; after 90; wall 30000; after 10; end a lost",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        run.bound a
        note stall a 90
        job.stopping a error/timeout
        -> Polite stop of a
        run.ended a failed: `idle` of 100ms passed without a sign of work; the task was dropped before it ended
        job.ended a error/timeout.idle
        group.fired none_ok [a error/timeout]
    "#]],
    );
}

// SC-13: the host itself stood still, so that no sign of work could come through.
#[test]
fn a_stall_of_the_host_is_not_the_runs_idling() {
    check(
        "launch idle=100 a; spawn a; after 30051; after 50; after 50; end a lost",
        expect![[r#"
        job.queued a
        group.sealed [a]
        run.started a
        run.bound a
        note stall a 50
        job.stopping a error/timeout
        -> Polite stop of a
        run.ended a failed: `idle` of 100ms passed without a sign of work; the task was dropped before it ended
        job.ended a error/timeout.idle
        group.fired none_ok [a error/timeout]
    "#]],
    );
}

// J-17: a cancel during the stop of an idle limit; a finish in it.
#[test]
fn a_cancel_and_a_finish_during_the_stop_of_a_timeout() {
    check(
        "launch idle=40 grace=100 a b; spawn a; spawn b; after 20; after 20; stop a; end a lost; end b ok",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.bound a
            run.bound b
            note stall a 20
            note stall b 20
            job.stopping a error/timeout
            job.stopping b error/timeout
            -> Polite stop of a
            -> Polite stop of b
            job.stopping a cancelled/user
            run.ended a cancelled
            job.ended a cancelled/user after timeout
            run.ended b completed
            job.ended b error/timeout.idle completed_anyway
            group.fired none_ok [a cancelled/user, b error/timeout]
        "#]],
    );
}

// J-17: finish and limit in either order.
#[test]
fn finish_and_limit_in_either_order() {
    check(
        "launch closure idle=40 a; launch closure idle=40 b; after 20; end a ok; after 20; end b ok; after 100",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            note stall a 20
            note stall b 20
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            job.stopping b error/timeout
            -> Polite stop of b
            run.ended b completed
            job.ended b error/timeout.idle completed_anyway
            group.fired none_ok [b error/timeout]
        "#]],
    );
}

// A limit during the stop of another one changes nothing.
#[test]
fn of_two_limits_the_first_one_is_named() {
    check(
        "launch idle=50 run=60 total=70 grace=100 a; spawn a; after 25; after 25; after 10; after 10; end a failed",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            note stall a 25
            job.stopping a error/timeout
            -> Polite stop of a
            run.ended a failed: `idle` of 50ms passed without a sign of work; it failed
            job.ended a error/timeout.idle
            group.fired none_ok [a error/timeout]
        "#]],
    );
}

// SC-19: more time for a run; the old timer means nothing any more.
#[test]
fn an_extended_run_ends_at_its_new_limit() {
    check(
        "launch run=100 a; spawn a; after 99; extend a 50; after 1; after 49; why a; after 1; why a; end a lost",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            limits.set a RunMs=150
            why a: working
            job.stopping a error/timeout
            -> Polite stop of a
            why a: stopping (timeout)
            run.ended a failed: `timeout` of 150ms passed; the task was dropped before it ended
            job.ended a error/timeout.run
            group.fired none_ok [a error/timeout]
        "#]],
    );
}

// SC-19: run and total are moved alike; what has neither, is over or is stopping has no more time.
#[test]
fn more_time_moves_what_there_is() {
    check(
        "launch run=100 total=150 a; launch b; launch run=50 c; launch run=60 d; end d; extend a 100; extend b 5; \
         extend d 5; spawn a; spawn b; spawn c; after 50; extend c 5; end c lost; extend x 5; extend a 0; \
         extend a 400000000000000; after 149; why a; after 1; why a; end a lost; end b",
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
            run.ended d completed
            job.ended d completed
            group.fired all_ok [d completed]
            limits.set a RunMs=200 TotalMs=250
            = not extended
            = not extended
            run.bound a
            run.bound b
            run.bound c
            job.stopping c error/timeout
            -> Polite stop of c
            = not extended
            run.ended c failed: `timeout` of 50ms passed; the task was dropped before it ended
            job.ended c error/timeout.run
            group.fired none_ok [c error/timeout]
            = refused: job `x` is not known here
            = refused: time: 0 ms is no more time; use 1 ms or more
            = refused: time: 400000000000000 ms more would make it longer than ten years
            why a: working
            job.stopping a error/timeout
            -> Polite stop of a
            why a: stopping (timeout)
            run.ended a failed: `timeout` of 200ms passed; the task was dropped before it ended
            job.ended a error/timeout.run
            group.fired none_ok [a error/timeout]
            run.ended b completed
            job.ended b completed
            group.fired all_ok [b completed]
        "#]],
    );
}

// SC-19: a job that waits in line, and one whose clocks a question stops.
#[test]
fn more_time_for_a_queued_job_and_in_a_question() {
    check(
        "slots 1; launch run=10 a; spawn a; launch run=10 b; extend b 20; question a c1 running; after 50; \
         extend a 5; question a c1 completed; after 14; why a; after 1; end a lost; spawn b; after 29; why b; after 1; end b lost",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            job.queued b
            group.sealed [b]
            limits.set b RunMs=30
            part a c1 running 0..-
            run.started b
            job.stopping b error/timeout
            -> Polite stop of b
            limits.set a RunMs=15
            part a c1 completed 0..50
            why a: working
            job.stopping a error/timeout
            -> Polite stop of a
            run.ended a failed: `timeout` of 15ms passed; the task was dropped before it ended
            job.ended a error/timeout.run
            group.fired none_ok [a error/timeout]
            run.bound b
            why b: stopping (timeout)
            run.ended b failed: `timeout` of 30ms passed; the task was dropped before it ended
            job.ended b error/timeout.run
            group.fired none_ok [b error/timeout]
        "#]],
    );
}

// SC-19: extend against a limit that is due: what is stepped first wins.
#[test]
fn extend_against_a_limit_that_is_due() {
    check(
        "launch run=10 a; launch run=10 b; spawn a; spawn b; after 9; extend a 1; after 1; why a; extend b 1; after 1; \
         end a lost; end b lost",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
            run.bound a
            run.bound b
            limits.set a RunMs=11
            job.stopping b error/timeout
            -> Polite stop of b
            why a: working
            = not extended
            job.stopping a error/timeout
            -> Polite stop of a
            run.ended a failed: `timeout` of 11ms passed; the task was dropped before it ended
            job.ended a error/timeout.run
            group.fired none_ok [a error/timeout]
            run.ended b failed: `timeout` of 10ms passed; the task was dropped before it ended
            job.ended b error/timeout.run
            group.fired none_ok [b error/timeout]
        "#]],
    );
}

// B69: time in the queue is no time of a run, nor of all runs.
#[test]
fn time_in_the_queue_is_no_time_of_a_run() {
    check(
        "slots 1; launch closure a; launch closure run=30 total=40 idle=20 b; after 1000; end a; after 10; end b",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            run.started b
            note stall b 10
            run.ended b completed
            job.ended b completed
            group.fired all_ok [b completed]
        "#]],
    );
}

// SC-14: of all runs, across gaps and tries.
#[test]
fn the_total_counts_runs_and_gaps() {
    check(
        "launch run=900 total=1500 retries=9 a; after 300; end a failed; alarm; alarm; end a failed",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a failed, to be tried again
            run.started a
            job.stopping a error/timeout
            -> Polite stop of a
            run.ended a failed: `total_timeout` of 1.5s passed; it failed
            job.ended a error/timeout.total
            group.fired none_ok [a error/timeout]
        "#]],
    );
}

// B74: limits that contradict are refused at launch, and both are named.
#[test]
fn limits_that_contradict_are_refused() {
    check(
        "launch idle=20 run=10 a; launch run=20 total=10 a; launch start=20 run=10 a; launch idle=10 total=5 a; \
         launch retries=51 a; launch repeats=0 a",
        expect![[r#"
            = refused: job 0: idle: 20ms can never pass, since `timeout` (10ms) comes first; lower it, or raise `timeout`
            = refused: job 0: timeout: 20ms can never pass, since `total_timeout` (10ms) comes first; lower it, or raise `total_timeout`
            = refused: job 0: start_timeout: 20ms can never pass, since `timeout` (10ms) comes first; lower it, or raise `timeout`
            = refused: job 0: idle: 10ms can never pass, since `total_timeout` (5ms) comes first; lower it, or raise `total_timeout`
            = refused: job 0: retries: 51; at most 50 are allowed
            = refused: job 0: repeats: zero would end it at its first call; use 1 or more
        "#]],
    );
}

// C-8: after a crash the limits of older runs mean nothing.
#[test]
fn limits_of_a_dead_run_mean_nothing_after_a_crash() {
    check(
        "slots 1; launch idle=50 run=60 total=70 a b; spawn a; after 25; crash; open; spawn b; after 25; end b; after 100",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.bound a
            note stall a 25
            store.opened after a crash
            run.ended a interrupted
            job.ended a error/interrupted interrupted
            run.started b
            run.bound b
            note stall b 25
            run.ended b completed
            job.ended b completed
            group.fired partial [a error/interrupted, b completed]
        "#]],
    );
}
