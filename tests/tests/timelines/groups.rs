//! The barrier: BAR-1 to BAR-9, and the policies.

use expect_test::expect;
use fanin_tests::timeline::check;

// BAR-4: fires with the last end, whatever the order, once, in launch order.
#[test]
fn a_group_fires_with_its_last_member_in_launch_order() {
    check(
        "launch a b c; end c ok; end a failed; end b ok",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a
            run.started b
            run.started c
            run.ended c completed
            job.ended c completed
            run.ended a failed
            job.ended a error/failed
            run.ended b completed
            job.ended b completed
            group.fired partial [a error/failed, b completed, c completed]
        "#]],
    );
}

// BAR-8, B06: members that are dead at birth count like all others.
#[test]
fn members_that_are_dead_at_birth_fire_the_group() {
    check(
        "launch a b; end a spawn; end b spawn",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a failed
            job.ended a error/spawn.program_not_found
            run.ended b failed
            job.ended b error/spawn.program_not_found
            group.fired none_ok [a error/spawn, b error/spawn]
        "#]],
    );
}

// BAR-5, BAR-6: a turn's launches join one group; what ended before the seal counts, and the seal fires.
#[test]
fn a_turns_launches_are_one_group_that_its_end_seals() {
    check(
        "turn; start a; start b; end a ok; end b failed; turn-end",
        expect![[r#"
            run.started turn of s
            job.queued a
            run.started a
            job.queued b
            run.started b
            run.ended a completed
            job.ended a completed
            run.ended b failed
            job.ended b error/failed
            run.ended turn of s completed
            group.sealed [a b]
            group.fired partial [a completed, b error/failed]
        "#]],
    );
}

// BAR-6: sealed first, then the last end fires.
#[test]
fn a_turns_group_fires_after_its_turn() {
    check(
        "turn; start a; turn-end; end a ok",
        expect![[r#"
            run.started turn of s
            job.queued a
            run.started a
            run.ended turn of s completed
            group.sealed [a]
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// BAR-6: a fan-out in a turn is a group of its own.
#[test]
fn a_fan_out_in_a_turn_is_sealed_at_once() {
    check(
        "turn; start a; launch b c; start d; end a; end b; end c; end d; turn-end",
        expect![[r#"
            run.started turn of s
            job.queued a
            run.started a
            job.queued b
            job.queued c
            group.sealed [b c]
            run.started b
            run.started c
            job.queued d
            run.started d
            run.ended a completed
            job.ended a completed
            run.ended b completed
            job.ended b completed
            run.ended c completed
            job.ended c completed
            group.fired all_ok [b completed, c completed]
            run.ended d completed
            job.ended d completed
            run.ended turn of s completed
            group.sealed [a d]
            group.fired all_ok [a completed, d completed]
        "#]],
    );
}

// BAR-6: without a turn each start is a group of one.
#[test]
fn without_a_turn_each_start_is_a_group_of_one() {
    check(
        "start a; start b; end b; end a",
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
        "#]],
    );
}

// BAR-6: a turn without launches seals nothing.
#[test]
fn a_turn_without_launches_seals_nothing() {
    check(
        "turn; turn-end; turn; turn-end s lost",
        expect![[r#"
            run.started turn of s
            run.ended turn of s completed
            run.started turn of s
            run.ended turn of s cancelled
        "#]],
    );
}

// BAR-4: no policy fires with live members.
#[test]
fn fail_fast_stops_the_rest_and_fires_when_they_are_gone() {
    check(
        "launch fail_fast a b c; end b failed; end a ok; end c lost",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a
            run.started b
            run.started c
            run.ended b failed
            job.ended b error/failed
            job.stopping a cancelled/group
            job.stopping c cancelled/group
            -> Polite stop of a
            -> Polite stop of c
            run.ended a completed
            job.ended a cancelled/group completed_anyway
            run.ended c cancelled
            job.ended c cancelled/group
            group.fired none_ok by notok [a cancelled/group, b error/failed, c cancelled/group]
        "#]],
    );
}

// Policy `any`: the first success stops the rest; a failure does not.
#[test]
fn any_stops_the_rest_with_the_first_success() {
    check(
        "slots 2; launch any a b c d; end a failed; end b ok; end c ok",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            job.queued d
            group.sealed [a b c d]
            run.started a
            run.started b
            run.ended a failed
            job.ended a error/failed
            run.started c
            run.ended b completed
            job.ended b completed
            job.stopping c cancelled/group
            job.ended d cancelled/group
            -> Polite stop of c
            run.ended c completed
            job.ended c cancelled/group completed_anyway
            group.fired partial by ok [a error/failed, b completed, c cancelled/group, d cancelled/group]
        "#]],
    );
}

// Policy `quorum`.
#[test]
fn a_quorum_stops_the_rest() {
    check(
        "launch ok=2 a b c; end a ok; end b failed; end c ok",
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
            run.ended b failed
            job.ended b error/failed
            run.ended c completed
            job.ended c completed
            group.fired partial [a completed, b error/failed, c completed]
        "#]],
    );
}

#[test]
fn a_quorum_that_is_met_stops_the_rest() {
    check(
        "launch ok=2 a b c; end a ok; end c ok; end b lost",
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
            run.ended c completed
            job.ended c completed
            job.stopping b cancelled/group
            -> Polite stop of b
            run.ended b cancelled
            job.ended b cancelled/group
            group.fired partial by ok [a completed, b cancelled/group, c completed]
        "#]],
    );
}

// Policy `not_ok`: cancelled members count as not completed.
#[test]
fn a_cancelled_member_counts_for_not_ok() {
    check(
        "launch not_ok=2 a b c d; stop a; end a lost; end b failed; end c lost; end d lost",
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
            job.stopping a cancelled/user
            -> Polite stop of a
            run.ended a cancelled
            job.ended a cancelled/user
            run.ended b failed
            job.ended b error/failed
            job.stopping c cancelled/group
            job.stopping d cancelled/group
            -> Polite stop of c
            -> Polite stop of d
            run.ended c cancelled
            job.ended c cancelled/group
            run.ended d cancelled
            job.ended d cancelled/group
            group.fired none_ok by notok [a cancelled/user, b error/failed, c cancelled/group, d cancelled/group]
        "#]],
    );
}

// Policy `deadline`, B17.
#[test]
fn a_deadline_stops_the_rest() {
    check(
        "slots 2; launch deadline=500 a b c d; end a ok; after 499; after 1; end b lost; end c lost; end d lost",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            job.queued d
            group.sealed [a b c d]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            run.started c
            job.stopping b cancelled/group
            job.stopping c cancelled/group
            job.ended d cancelled/group
            -> Polite stop of b
            -> Polite stop of c
            run.ended b cancelled
            job.ended b cancelled/group
            run.ended c cancelled
            job.ended c cancelled/group
            group.fired partial by deadline [a completed, b cancelled/group, c cancelled/group, d cancelled/group]
        "#]],
    );
}

// A deadline after the fire means nothing.
#[test]
fn a_deadline_of_a_fired_group_does_nothing() {
    check(
        "launch deadline=500 a; end a ok; after 1000",
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

// Two rules at once: each stop is one stop.
#[test]
fn the_second_rule_of_a_policy_stops_nobody_again() {
    check(
        "launch ok=1 deadline=50 a b; end a ok; after 50; end b lost",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            job.stopping b cancelled/group
            -> Polite stop of b
            run.ended b cancelled
            job.ended b cancelled/group
            group.fired partial by ok [a completed, b cancelled/group]
        "#]],
    );
}

// A member cancelled by somebody else still lets the group fire (B05).
#[test]
fn a_member_that_somebody_cancels_is_data() {
    check(
        "launch a b; stop a; end b ok; end a lost",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            job.stopping a cancelled/user
            -> Polite stop of a
            run.ended b completed
            job.ended b completed
            run.ended a cancelled
            job.ended a cancelled/user
            group.fired partial [a cancelled/user, b completed]
        "#]],
    );
}

// BAR-9: parent closed, not fired: voided, members stopped.
#[test]
fn closing_a_session_voids_what_has_not_fired() {
    check(
        "slots 2; launch a b c; end a ok; close s; end b ok; end c lost",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a
            run.started b
            run.ended a completed
            job.ended a completed
            run.started c
            session.closed s
            group.voided [a b c]
            job.stopping b cancelled/parent
            job.stopping c cancelled/parent
            -> Polite stop of b
            -> Polite stop of c
            run.ended b completed
            job.ended b cancelled/parent completed_anyway
            run.ended c cancelled
            job.ended c cancelled/parent
        "#]],
    );
}

// BAR-9: parent closed, fired: the message is void, the result stays readable.
#[test]
fn closing_a_session_voids_what_is_owed() {
    check(
        "launch a; end a ok; close s; wait w1 group g1",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            session.closed s
            message.taken [a] by void
            -> w1: group [a completed] (already delivered)
        "#]],
    );
}

// BAR-9: an open turn's group too.
#[test]
fn closing_a_session_in_a_turn_voids_its_group() {
    check(
        "turn; start a; end a ok; start b; close s; end b lost; turn-end",
        expect![[r#"
            run.started turn of s
            job.queued a
            run.started a
            run.ended a completed
            job.ended a completed
            job.queued b
            run.started b
            run.ended turn of s cancelled
            group.sealed [a b]
            session.closed s
            group.voided [a b]
            job.stopping b cancelled/parent
            -> Polite stop of b
            run.ended b cancelled
            job.ended b cancelled/parent
            note stale_report
        "#]],
    );
}

// BAR-9: who waits is told.
#[test]
fn closing_a_session_tells_those_who_wait() {
    check(
        "launch a b; wait w1 group g1; wait w2 all a b; wait w3 wake; wait w4 any a; close s; end a ok; end b ok; ack w2",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            session.closed s
            group.voided [a b]
            job.stopping a cancelled/parent
            job.stopping b cancelled/parent
            -> w3: closed
            -> w1: voided
            -> Polite stop of a
            -> Polite stop of b
            run.ended a completed
            job.ended a cancelled/parent completed_anyway
            -> w4: [a cancelled/parent]
            run.ended b completed
            job.ended b cancelled/parent completed_anyway
            -> w2: [a cancelled/parent, b cancelled/parent]
            message.taken a b by waiter
        "#]],
    );
}

// BAR-9: others go on.
#[test]
fn closing_a_session_leaves_others_alone() {
    check(
        "slots 1; session t; launch a b; launch in=t x; close s; end a lost; end x ok",
        expect![[r#"
            session.opened t
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            job.queued x
            group.sealed [x]
            session.closed s
            group.voided [a b]
            job.stopping a cancelled/parent
            job.ended b cancelled/parent
            -> Polite stop of a
            run.ended a cancelled
            job.ended a cancelled/parent
            run.started x
            run.ended x completed
            job.ended x completed
            group.fired all_ok [x completed]
        "#]],
    );
}
