//! How many jobs may start: slots that change, rates, a kind that is paused, runs and groups without progress: SC-11,
//! SC-15, SC-18, BAR-14, B82.

use expect_test::expect;
use fanin_tests::timeline::check;

// SC-11: lowered slots drain and kill nothing.
#[test]
fn lowered_slots_drain() {
    check(
        "slots 3; launch closure a b c d; set-slots 1; end a; end b; end c; set-slots 1; end d",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            job.queued d
            group.sealed [a b c d]
            run.started a
            run.started b
            run.started c
            limits.set supervisor Slots=1
            run.ended a completed
            job.ended a completed
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

// SC-11: raised slots start at once, and none are refused.
#[test]
fn raised_slots_start_at_once() {
    check(
        "slots 1; launch closure a b c d; set-slots 2; set-slots none; set-slots 0; end a; end b; end c; end d",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            job.queued d
            group.sealed [a b c d]
            run.started a
            limits.set supervisor Slots=2
            run.started b
            limits.set supervisor Slots=none
            run.started c
            run.started d
            = refused: slots: with 0 slots nothing would ever start; use 1 or more
            run.ended a completed
            job.ended a completed
            run.ended b completed
            job.ended b completed
            run.ended c completed
            job.ended c completed
            run.ended d completed
            job.ended d completed
            group.fired all_ok [a completed, b completed, c completed, d completed]
        "#]],
    );
}

// SC-11: what was set lasts for this opening.
#[test]
fn slots_are_those_of_the_opening_again() {
    check(
        "slots 1; set-slots 5; launch a b; crash; open; launch c d; end c; end d",
        expect![[r#"
            limits.set supervisor Slots=5
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            store.opened after a crash
            run.ended a interrupted
            run.ended b interrupted
            job.ended a error/interrupted interrupted
            job.ended b error/interrupted interrupted
            group.fired none_ok [a error/interrupted, b error/interrupted]
            job.queued c
            job.queued d
            group.sealed [c d]
            run.started c
            run.ended c completed
            job.ended c completed
            run.started d
            run.ended d completed
            job.ended d completed
            group.fired all_ok [c completed, d completed]
        "#]],
    );
}

// So many of a kind in any span of that length; other kinds go on.
#[test]
fn a_rate_holds_one_kind_aside() {
    check(
        "rate 2 100; launch a b c d; launch closure e; why c; after 50; end a; end b; end e; after 49; why d; \
         after 1; end c; end d",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            job.queued d
            group.sealed [a b c d]
            run.started a
            run.started b
            job.queued e
            group.sealed [e]
            run.started e
            why c: waits for the rate of command jobs
            run.ended a completed
            job.ended a completed
            run.ended b completed
            job.ended b completed
            run.ended e completed
            job.ended e completed
            group.fired all_ok [e completed]
            why d: waits for the rate of command jobs
            run.started c
            run.started d
            run.ended c completed
            job.ended c completed
            run.ended d completed
            job.ended d completed
            group.fired all_ok [a completed, b completed, c completed, d completed]
        "#]],
    );
}

// What was launched later does not overtake what stands aside.
#[test]
fn what_stands_aside_comes_first() {
    check(
        "rate 1 100; launch a; after 60; launch b; launch c; stop b; after 40; end a; launch d; alarm; end c; end d",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            job.queued c
            group.sealed [c]
            job.ended b cancelled/user
            group.fired none_ok [b cancelled/user]
            run.started c
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            job.queued d
            group.sealed [d]
            run.started d
            run.ended c completed
            job.ended c completed
            group.fired all_ok [c completed]
            run.ended d completed
            job.ended d completed
            group.fired all_ok [d completed]
        "#]],
    );
}

// SC-18: one failed start too many pauses the kind; a success counts for nothing, other kinds go on.
#[test]
fn too_many_failed_starts_pause_a_kind() {
    let names: Vec<String> = (1..=21).map(|n| format!("a{n}")).collect();
    let ends: Vec<String> = names.iter().map(|id| format!("end {id} os")).collect();
    let script = format!(
        "launch {}; launch ok; end ok; {}; launch b; launch closure c; why b; end c; after 59999; after 1; end b",
        names.join(" "),
        ends.join("; "),
    );
    check(
        &script,
        expect![[r#"
        job.queued a1
        job.queued a2
        job.queued a3
        job.queued a4
        job.queued a5
        job.queued a6
        job.queued a7
        job.queued a8
        job.queued a9
        job.queued a10
        job.queued a11
        job.queued a12
        job.queued a13
        job.queued a14
        job.queued a15
        job.queued a16
        job.queued a17
        job.queued a18
        job.queued a19
        job.queued a20
        job.queued a21
        group.sealed [a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15 a16 a17 a18 a19 a20 a21]
        run.started a1
        run.started a2
        run.started a3
        run.started a4
        run.started a5
        run.started a6
        run.started a7
        run.started a8
        run.started a9
        run.started a10
        run.started a11
        run.started a12
        run.started a13
        run.started a14
        run.started a15
        run.started a16
        run.started a17
        run.started a18
        run.started a19
        run.started a20
        run.started a21
        job.queued ok
        group.sealed [ok]
        run.started ok
        run.ended ok completed
        job.ended ok completed
        group.fired all_ok [ok completed]
        run.ended a1 failed
        job.ended a1 error/spawn.os
        run.ended a2 failed
        job.ended a2 error/spawn.os
        run.ended a3 failed
        job.ended a3 error/spawn.os
        run.ended a4 failed
        job.ended a4 error/spawn.os
        run.ended a5 failed
        job.ended a5 error/spawn.os
        run.ended a6 failed
        job.ended a6 error/spawn.os
        run.ended a7 failed
        job.ended a7 error/spawn.os
        run.ended a8 failed
        job.ended a8 error/spawn.os
        run.ended a9 failed
        job.ended a9 error/spawn.os
        run.ended a10 failed
        job.ended a10 error/spawn.os
        run.ended a11 failed
        job.ended a11 error/spawn.os
        run.ended a12 failed
        job.ended a12 error/spawn.os
        run.ended a13 failed
        job.ended a13 error/spawn.os
        run.ended a14 failed
        job.ended a14 error/spawn.os
        run.ended a15 failed
        job.ended a15 error/spawn.os
        run.ended a16 failed
        job.ended a16 error/spawn.os
        run.ended a17 failed
        job.ended a17 error/spawn.os
        run.ended a18 failed
        job.ended a18 error/spawn.os
        run.ended a19 failed
        job.ended a19 error/spawn.os
        run.ended a20 failed
        job.ended a20 error/spawn.os
        run.ended a21 failed
        note circuit command 60000
        job.ended a21 error/spawn.os
        group.fired none_ok [a1 error/spawn, a2 error/spawn, a3 error/spawn, a4 error/spawn, a5 error/spawn, a6 error/spawn, a7 error/spawn, a8 error/spawn, a9 error/spawn, a10 error/spawn, a11 error/spawn, a12 error/spawn, a13 error/spawn, a14 error/spawn, a15 error/spawn, a16 error/spawn, a17 error/spawn, a18 error/spawn, a19 error/spawn, a20 error/spawn, a21 error/spawn]
        job.queued b
        group.sealed [b]
        job.queued c
        group.sealed [c]
        run.started c
        why b: command jobs are paused, since too many of their starts failed
        run.ended c completed
        job.ended c completed
        group.fired all_ok [c completed]
        run.started b
        run.ended b completed
        job.ended b completed
        group.fired all_ok [b completed]
    "#]],
    );
}

// SC-18: twenty are borne, and what failed long ago is forgotten.
#[test]
fn old_failures_are_forgotten() {
    let names: Vec<String> = (1..=21).map(|n| format!("a{n}")).collect();
    let ends: Vec<String> = names.iter().skip(1).map(|id| format!("end {id} os")).collect();
    let script = format!(
        "launch closure {}; end a1 os; after 60000; {}; launch closure b; end b",
        names.join(" "),
        ends.join("; "),
    );
    check(
        &script,
        expect![[r#"
        job.queued a1
        job.queued a2
        job.queued a3
        job.queued a4
        job.queued a5
        job.queued a6
        job.queued a7
        job.queued a8
        job.queued a9
        job.queued a10
        job.queued a11
        job.queued a12
        job.queued a13
        job.queued a14
        job.queued a15
        job.queued a16
        job.queued a17
        job.queued a18
        job.queued a19
        job.queued a20
        job.queued a21
        group.sealed [a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15 a16 a17 a18 a19 a20 a21]
        run.started a1
        run.started a2
        run.started a3
        run.started a4
        run.started a5
        run.started a6
        run.started a7
        run.started a8
        run.started a9
        run.started a10
        run.started a11
        run.started a12
        run.started a13
        run.started a14
        run.started a15
        run.started a16
        run.started a17
        run.started a18
        run.started a19
        run.started a20
        run.started a21
        run.ended a1 failed
        job.ended a1 error/spawn.os
        run.ended a2 failed
        job.ended a2 error/spawn.os
        run.ended a3 failed
        job.ended a3 error/spawn.os
        run.ended a4 failed
        job.ended a4 error/spawn.os
        run.ended a5 failed
        job.ended a5 error/spawn.os
        run.ended a6 failed
        job.ended a6 error/spawn.os
        run.ended a7 failed
        job.ended a7 error/spawn.os
        run.ended a8 failed
        job.ended a8 error/spawn.os
        run.ended a9 failed
        job.ended a9 error/spawn.os
        run.ended a10 failed
        job.ended a10 error/spawn.os
        run.ended a11 failed
        job.ended a11 error/spawn.os
        run.ended a12 failed
        job.ended a12 error/spawn.os
        run.ended a13 failed
        job.ended a13 error/spawn.os
        run.ended a14 failed
        job.ended a14 error/spawn.os
        run.ended a15 failed
        job.ended a15 error/spawn.os
        run.ended a16 failed
        job.ended a16 error/spawn.os
        run.ended a17 failed
        job.ended a17 error/spawn.os
        run.ended a18 failed
        job.ended a18 error/spawn.os
        run.ended a19 failed
        job.ended a19 error/spawn.os
        run.ended a20 failed
        job.ended a20 error/spawn.os
        run.ended a21 failed
        job.ended a21 error/spawn.os
        group.fired none_ok [a1 error/spawn, a2 error/spawn, a3 error/spawn, a4 error/spawn, a5 error/spawn, a6 error/spawn, a7 error/spawn, a8 error/spawn, a9 error/spawn, a10 error/spawn, a11 error/spawn, a12 error/spawn, a13 error/spawn, a14 error/spawn, a15 error/spawn, a16 error/spawn, a17 error/spawn, a18 error/spawn, a19 error/spawn, a20 error/spawn, a21 error/spawn]
        job.queued b
        group.sealed [b]
        run.started b
        run.ended b completed
        job.ended b completed
        group.fired all_ok [b completed]
    "#]],
    );
}

// SC-18: a program that is not there is the job's own fault, and pauses nobody else's.
#[test]
fn a_wrong_program_pauses_nothing() {
    let names: Vec<String> = (1..=21).map(|n| format!("a{n}")).collect();
    let ends: Vec<String> = names.iter().map(|id| format!("end {id} spawn")).collect();
    check(
        &format!("launch {}; {}; launch b; end b", names.join(" "), ends.join("; ")),
        expect![[r#"
        job.queued a1
        job.queued a2
        job.queued a3
        job.queued a4
        job.queued a5
        job.queued a6
        job.queued a7
        job.queued a8
        job.queued a9
        job.queued a10
        job.queued a11
        job.queued a12
        job.queued a13
        job.queued a14
        job.queued a15
        job.queued a16
        job.queued a17
        job.queued a18
        job.queued a19
        job.queued a20
        job.queued a21
        group.sealed [a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15 a16 a17 a18 a19 a20 a21]
        run.started a1
        run.started a2
        run.started a3
        run.started a4
        run.started a5
        run.started a6
        run.started a7
        run.started a8
        run.started a9
        run.started a10
        run.started a11
        run.started a12
        run.started a13
        run.started a14
        run.started a15
        run.started a16
        run.started a17
        run.started a18
        run.started a19
        run.started a20
        run.started a21
        run.ended a1 failed
        job.ended a1 error/spawn.program_not_found
        run.ended a2 failed
        job.ended a2 error/spawn.program_not_found
        run.ended a3 failed
        job.ended a3 error/spawn.program_not_found
        run.ended a4 failed
        job.ended a4 error/spawn.program_not_found
        run.ended a5 failed
        job.ended a5 error/spawn.program_not_found
        run.ended a6 failed
        job.ended a6 error/spawn.program_not_found
        run.ended a7 failed
        job.ended a7 error/spawn.program_not_found
        run.ended a8 failed
        job.ended a8 error/spawn.program_not_found
        run.ended a9 failed
        job.ended a9 error/spawn.program_not_found
        run.ended a10 failed
        job.ended a10 error/spawn.program_not_found
        run.ended a11 failed
        job.ended a11 error/spawn.program_not_found
        run.ended a12 failed
        job.ended a12 error/spawn.program_not_found
        run.ended a13 failed
        job.ended a13 error/spawn.program_not_found
        run.ended a14 failed
        job.ended a14 error/spawn.program_not_found
        run.ended a15 failed
        job.ended a15 error/spawn.program_not_found
        run.ended a16 failed
        job.ended a16 error/spawn.program_not_found
        run.ended a17 failed
        job.ended a17 error/spawn.program_not_found
        run.ended a18 failed
        job.ended a18 error/spawn.program_not_found
        run.ended a19 failed
        job.ended a19 error/spawn.program_not_found
        run.ended a20 failed
        job.ended a20 error/spawn.program_not_found
        run.ended a21 failed
        job.ended a21 error/spawn.program_not_found
        group.fired none_ok [a1 error/spawn, a2 error/spawn, a3 error/spawn, a4 error/spawn, a5 error/spawn, a6 error/spawn, a7 error/spawn, a8 error/spawn, a9 error/spawn, a10 error/spawn, a11 error/spawn, a12 error/spawn, a13 error/spawn, a14 error/spawn, a15 error/spawn, a16 error/spawn, a17 error/spawn, a18 error/spawn, a19 error/spawn, a20 error/spawn, a21 error/spawn]
        job.queued b
        group.sealed [b]
        run.started b
        run.ended b completed
        job.ended b completed
        group.fired all_ok [b completed]
    "#]],
    );
}

// SC-15, B82: the same call five times is noted, at the limit it ends the job.
#[test]
fn the_same_call_again_and_again_is_no_progress() {
    check(
        "launch closure repeats=6 a; call a c1 args=7; call a c2 args=7; call a c3 args=7; call a c4 args=7; \
         call a c5 args=7; call a c6 args=7; end a failed",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            part a c1 running 0..-
            part a c2 running 0..-
            part a c3 running 0..-
            part a c4 running 0..-
            part a c5 running 0..-
            note stall a 5 times
            part a c6 running 0..-
            job.stopping a error/failed
            -> Polite stop of a
            part a c1 error interrupted 0..0
            part a c2 error interrupted 0..0
            part a c3 error interrupted 0..0
            part a c4 error interrupted 0..0
            part a c5 error interrupted 0..0
            part a c6 error interrupted 0..0
            run.ended a failed: `tool` was called 6 times in a row with the same arguments; it failed
            job.ended a error/failed.no_progress
            group.fired none_ok [a error/failed]
        "#]],
    );
}

// SC-15: another call between begins anew; an agent has a bound without asking.
#[test]
fn another_call_between_is_progress() {
    check(
        "launch closure repeats=3 a; call a c1 args=7; call a c2 args=7; call a c3 args=8; call a c4 args=7; \
         call a c5 args=7; part a c6 running; call a c7 args=7; call a c8 args=7; call a c8 args=7; end a ok",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            part a c1 running 0..-
            part a c2 running 0..-
            part a c3 running 0..-
            part a c4 running 0..-
            part a c5 running 0..-
            part a c6 running 0..-
            part a c7 running 0..-
            part a c8 running 0..-
            part a c1 error interrupted 0..0
            part a c2 error interrupted 0..0
            part a c3 error interrupted 0..0
            part a c4 error interrupted 0..0
            part a c5 error interrupted 0..0
            part a c6 error interrupted 0..0
            part a c7 error interrupted 0..0
            part a c8 error interrupted 0..0
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// BAR-14: a sealed group of which nothing is heard, once, and again after a record of it.
#[test]
fn a_quiet_group_is_noted() {
    check(
        "slots 1; launch closure a b; after 599999; after 1; after 600000; part a c1 running; alarm; end a; end b",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            note stall g1 600000 a:working b:slot
            part a c1 running 1200000..-
            note stall g1 600000 a:working b:slot
            part a c1 error interrupted 1200000..1800000
            run.ended a completed
            job.ended a completed
            run.started b
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
        "#]],
    );
}
