//! One job from its launch to its end: J-1 to J-23 as far as they exist.

use expect_test::expect;
use fanin_tests::timeline::check;

// J-1, J-2, J-3, J-6: everything is recorded before it happens.
#[test]
fn a_command_goes_from_queued_to_completed() {
    check(
        "launch a; spawn a; end a ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.bound a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// J-1, B56: all or nothing, and the group is born sealed with its members.
#[test]
fn all_members_of_a_launch_are_queued_and_sealed_in_one_step() {
    check(
        "launch closure a b c",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a
            run.started b
            run.started c
        "#]],
    );
}

// J-1: a launch that cannot be carried out leaves nothing behind.
#[test]
fn a_refused_launch_creates_nothing() {
    check(
        "launch; launch a a; launch ok=3 a b; launch not_ok=0 a; launch run=0 a; launch in=t a; launch a; launch b a; close s; launch c",
        expect![[r#"
            = refused: the list is empty; name at least one job
            = refused: job id `a` stands twice in one call
            = refused: policy: ok = 3 can never be met by 2 members
            = refused: policy: not_ok = 0 would stop all before they start; use 1 or more
            = refused: job 0: timeout: zero would end it before it began; leave it out for no limit
            = refused: session `t` is not known; open it first
            job.queued a
            group.sealed [a]
            run.started a
            = refused: job id `a` is in use by another group; choose another id, or leave it out
            session.closed s
            group.voided [a]
            job.stopping a cancelled/parent
            -> Polite stop of a
            = refused: session `s` is closed
        "#]],
    );
}

// J-2, SC-9: one slot, launch order.
#[test]
fn a_queued_job_starts_when_a_slot_is_free() {
    check(
        "slots 1; launch a b; end a ok; end b ok",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
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

// SC-9: sessions take turns, launch order inside one.
#[test]
fn slots_go_round_the_sessions() {
    check(
        "slots 1; session t; launch a b c; launch in=t x y; end a; end b; end x; end c; end y",
        expect![[r#"
            session.opened t
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a
            job.queued x
            job.queued y
            group.sealed [x y]
            run.ended a completed
            job.ended a completed
            run.started b
            run.ended b completed
            job.ended b completed
            run.started x
            run.ended x completed
            job.ended x completed
            run.started c
            run.ended c completed
            job.ended c completed
            group.fired all_ok [a completed, b completed, c completed]
            run.started y
            run.ended y completed
            job.ended y completed
            group.fired all_ok [x completed, y completed]
        "#]],
    );
}

// J-6: a closure is in hand as soon as it is started.
#[test]
fn a_closure_needs_no_bind() {
    check(
        "launch closure a; end a ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// J-8, SC-7, BAR-8: each kind of failure ends in a terminal record with its cause.
#[test]
fn each_failure_keeps_its_cause() {
    check(
        "launch closure a b c d; end a failed; end b panic; end c spawn; end d lost",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            job.queued d
            group.sealed [a b c d]
            run.started a
            run.started b
            run.started c
            run.started d
            run.ended a failed
            job.ended a error/failed
            run.ended b failed
            job.ended b error/panic
            run.ended c failed
            job.ended c error/spawn.program_not_found
            run.ended d interrupted
            job.ended d error/interrupted interrupted
            group.fired none_ok [a error/failed, b error/panic, c error/spawn, d error/interrupted]
        "#]],
    );
}

// J-23: an agent that ends without output or tool call is no success.
#[test]
fn an_agent_that_did_nothing_failed() {
    check(
        "launch agent a b c; end a empty; part b c1 completed; end b empty; end c ok",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a
            run.started b
            run.started c
            run.ended a failed
            job.ended a error/failed.no_output
            part b c1 completed 0..0
            run.ended b completed
            job.ended b completed
            run.ended c completed
            job.ended c completed
            group.fired partial [a error/failed, b completed, c completed]
        "#]],
    );
}

// J-23: a command with no output is one.
#[test]
fn a_silent_command_completed() {
    check(
        "launch a; end a empty",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// J-4: an open question is what a job waits for.
#[test]
fn a_question_opens_and_ends() {
    check(
        "launch a; question a c1 pending; question a c1 running; question a c1 completed; end a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            part a c1 pending -..-
            part a c1 running 0..-
            part a c1 completed 0..0
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// B33, G14: a queued job says its place and who holds the slot.
#[test]
fn a_queued_job_says_what_it_waits_for() {
    check(
        "slots 1; launch a b c; why b; why c; end a; why b; why c; stop b; why b; drain; why c",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a
            why b: waits for a slot, place 1 in the queue; slots are held by a
            why c: waits for a slot, place 2 in the queue; slots are held by a
            run.ended a completed
            job.ended a completed
            run.started b
            why b: starting
            why c: waits for a slot, place 1 in the queue; slots are held by b
            job.stopping b cancelled/user
            -> Polite stop of b
            why b: stopping (user)
            why c: the supervisor is shutting down and starts nothing more
        "#]],
    );
}

// G14: each thing says what it waits for.
#[test]
fn each_thing_says_what_it_waits_for() {
    check(
        "launch a; why a; spawn a; why a; question a c1 running; why a; stop a; why a; stop a grace=0; why a; why-group g1; turn; end a; why-group g1; turn-end; why-group g1; wait w1 wake; why-group g1; ack w1; why-group g1; turn; start b; why-group g2",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            why a: starting
            run.bound a
            why a: working
            part a c1 running 0..-
            why a: waits for an answer to question c1
            job.stopping a cancelled/user
            -> Polite stop of a
            why a: stopping (user); waits for an answer to question c1
            -> Forced stop of a
            why a: stopping by force (user); waits for an answer to question c1
            why-group g1: waits for 1 members: a
            run.started turn of s
            part a c1 error interrupted 0..0
            run.ended a completed
            job.ended a cancelled/user completed_anyway
            group.fired none_ok [a cancelled/user]
            why-group g1: its parent is in a turn
            run.ended turn of s completed
            why-group g1: nobody has asked for it yet
            -> w1: wake [a cancelled/user]
            why-group g1: offered, not acknowledged yet
            message.taken [a] by inbox
            why-group g1: over
            run.started turn of s
            job.queued b
            run.started b
            why-group g2: its turn is still open
        "#]],
    );
}

// J-9, B33: a queued job is over at once and never starts.
#[test]
fn a_queued_job_that_is_stopped_never_starts() {
    check(
        "slots 1; launch a b; stop b; end a ok",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            job.ended b cancelled/user
            run.ended a completed
            job.ended a completed
            group.fired partial [a completed, b cancelled/user]
        "#]],
    );
}

// J-10, J-11: a running job ends once its run is gone.
#[test]
fn a_running_job_that_is_stopped_ends_when_its_run_is_gone() {
    check(
        "launch a; stop a; end a failed",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a cancelled/user
            -> Polite stop of a
            run.ended a cancelled
            job.ended a cancelled/user
            group.fired none_ok [a cancelled/user]
        "#]],
    );
}

// J-12, B33: the queue limit ends what never started; it does not touch what did.
#[test]
fn the_queue_limit_ends_what_never_started() {
    check(
        "slots 1; launch queue=50 a b; after 49; after 1; end a ok",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            job.ended b error/timeout.queue
            run.ended a completed
            job.ended a completed
            group.fired partial [a completed, b error/timeout]
        "#]],
    );
}

// J-16, B11: the end of a run is reported once; what comes later is noted once and changes nothing.
#[test]
fn a_second_ending_is_noted_once_and_dropped() {
    check(
        "launch a; end a failed; end a ok; end a lost; spawn a; part a c1 running; stop a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a failed
            job.ended a error/failed
            group.fired none_ok [a error/failed]
            note stale_report a
            = a is error already
        "#]],
    );
}

// J-16, B10: three reports of one ending, among other jobs.
#[test]
fn a_late_report_does_not_touch_its_siblings() {
    check(
        "launch a b; end a ok; end a failed; end a lost; end b ok",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            note stale_report a
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
        "#]],
    );
}

// J-17: a finish before the cancel wins.
#[test]
fn a_finish_stepped_before_the_cancel_wins() {
    check(
        "launch a; end a ok; stop a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            = a is completed already
        "#]],
    );
}

// J-17: a cancel before the finish wins, and the effects are told.
#[test]
fn a_cancel_stepped_before_the_finish_wins() {
    check(
        "launch a; stop a; end a ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a cancelled/user
            -> Polite stop of a
            run.ended a completed
            job.ended a cancelled/user completed_anyway
            group.fired none_ok [a cancelled/user]
        "#]],
    );
}

// J-17, J-19: what the body says after a cancel does not change its cause.
#[test]
fn after_a_cancel_a_panic_or_a_dropped_task_is_cancelled() {
    check(
        "launch a b c; stop-group g1; end a panic; end b lost; end c failed",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a
            run.started b
            run.started c
            job.stopping a cancelled/user
            job.stopping b cancelled/user
            job.stopping c cancelled/user
            -> Polite stop of a
            -> Polite stop of b
            -> Polite stop of c
            run.ended a cancelled
            job.ended a cancelled/user
            run.ended b cancelled
            job.ended b cancelled/user
            run.ended c cancelled
            job.ended c cancelled/user
            group.fired none_ok [a cancelled/user, b cancelled/user, c cancelled/user]
        "#]],
    );
}

// J-17: a cancel raises the stop of a timeout.
#[test]
fn a_cancel_raises_a_timeout() {
    check(
        "launch run=50 a; after 50; stop a; end a failed",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a error/timeout
            -> Polite stop of a
            job.stopping a cancelled/user
            run.ended a cancelled
            job.ended a cancelled/user after timeout
            group.fired none_ok [a cancelled/user]
        "#]],
    );
}

// J-17: and nothing lowers a cancel.
#[test]
fn a_timeout_does_not_lower_a_cancel() {
    check(
        "launch run=50 grace=1000 a; stop a; after 50; end a failed",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a cancelled/user
            -> Polite stop of a
            run.ended a cancelled
            job.ended a cancelled/user
            group.fired none_ok [a cancelled/user]
        "#]],
    );
}

// J-17: the second cancel is no second record.
#[test]
fn a_second_cancel_records_nothing() {
    check(
        "launch a; stop a; stop a client_gone; end a lost",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.stopping a cancelled/user
            -> Polite stop of a
            run.ended a cancelled
            job.ended a cancelled/user
            group.fired none_ok [a cancelled/user]
        "#]],
    );
}

// J-21: a known id answers the existing job, and says where the spec differs.
#[test]
fn a_known_id_answers_the_existing_job() {
    check(
        "start as=g a; start as=h a; start as=h closure a; end a; start as=i a; launch as=g a; launch as=g a b",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            = known: [a]
            = known: [a], another spec
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            = known: [a]
            = known: [a]
            = known: [a], another spec
        "#]],
    );
}

// J-21: an id of another parent's job is not taken over.
#[test]
fn an_id_in_use_elsewhere_is_refused() {
    check(
        "session t; start a; start in=t a; launch a b; launch in=t as=g1 x",
        expect![[r#"
            session.opened t
            job.queued a
            group.sealed [a]
            run.started a
            = refused: job id `a` is in use by another group; choose another id, or leave it out
            = refused: job id `a` is in use by another group; choose another id, or leave it out
            = refused: group `g1` belongs to another parent
        "#]],
    );
}

// J-22: an exact stop hits its lifetime or nothing.
#[test]
fn an_exact_stop_of_another_lifetime_does_nothing() {
    check(
        "launch a; stop-other a; stop-exact a; end a; stop nobody; stop-exact nobody; stop-group nobody",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            = refused: job `a` is in lifetime 3, not 4
            job.stopping a cancelled/user
            -> Polite stop of a
            run.ended a completed
            job.ended a cancelled/user completed_anyway
            group.fired none_ok [a cancelled/user]
            = refused: job `nobody` is not known here
            = refused: job `nobody` is not known here
            = refused: group `nobody` is not known here
        "#]],
    );
}

// G14: a place in the queue counts who still waits.
#[test]
fn a_place_in_the_queue_counts_who_still_waits() {
    check(
        "slots 1; launch x; launch a; launch b; stop a; why b",
        expect![[r#"
            job.queued x
            group.sealed [x]
            run.started x
            job.queued a
            group.sealed [a]
            job.queued b
            group.sealed [b]
            job.ended a cancelled/user
            group.fired none_ok [a cancelled/user]
            why b: waits for a slot, place 1 in the queue; slots are held by x
        "#]],
    );
}

// J-16, P5: a fence is good at its own place only.
#[test]
fn a_fence_is_good_at_its_own_place_only() {
    check(
        "launch a b; end a; forged a b; end b",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            note stale_report b
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
        "#]],
    );
}

// SC-9: a job that ended in the queue costs its session no turn.
#[test]
fn a_job_that_ended_in_the_queue_costs_no_turn() {
    check(
        "slots 1; session t; launch x1 x2 x3; launch in=t y1 y2; stop y1; end x1; end x2; end y2; end x3",
        expect![[r#"
            session.opened t
            job.queued x1
            job.queued x2
            job.queued x3
            group.sealed [x1 x2 x3]
            run.started x1
            job.queued y1
            job.queued y2
            group.sealed [y1 y2]
            job.ended y1 cancelled/user
            run.ended x1 completed
            job.ended x1 completed
            run.started x2
            run.ended x2 completed
            job.ended x2 completed
            run.started y2
            run.ended y2 completed
            job.ended y2 completed
            group.fired partial [y1 cancelled/user, y2 completed]
            run.started x3
            run.ended x3 completed
            job.ended x3 completed
            group.fired all_ok [x1 completed, x2 completed, x3 completed]
        "#]],
    );
}
