//! BU-1 to BU-8: what is set aside, charged and given back, who waits for it, and what follows once it is used up. Money is
//! in millionths of a dollar.

use expect_test::expect;
use fanin_tests::timeline::check;

// B77: the first is started, the others wait; once it has used what was set aside for it they are refused, and all are in
// the one result.
#[test]
fn five_ask_for_what_is_left_for_one() {
    check(
        "session t agent usd=1000000 total=64; start agent in=t p; used p cost=900000; end p; \
         launch agent in=t estimate=90000 a b c d e; why b; used a cost=50000; why e; used a cost=90000; \
         wait w1 wake in=t; end a; ack w1; wait w1 wake in=t",
        expect![[r#"
            session.opened t
            job.queued p
            group.sealed [p]
            run.started p, 500000 set aside
            usage p by m1 cost=900000
            note budget p usd 90
            run.ended p completed
            job.ended p completed
            group.fired all_ok [p completed]
            job.queued a
            job.queued b
            job.queued c
            job.queued d
            job.queued e
            group.sealed [a b c d e]
            run.started a, 90000 set aside
            why b: waits for its budget: 0.09 USD for a start, and 0.10 USD is left, part of it set aside for what runs
            usage a by m1 cost=50000
            job.ended b error/budget.usd
            job.ended c error/budget.usd
            job.ended d error/budget.usd
            job.ended e error/budget.usd
            why e: over
            usage a by m1 cost=90000
            -> w1: wake [p completed]
            run.ended a completed
            job.ended a completed
            group.fired partial [a completed, b error/budget, c error/budget, d error/budget, e error/budget]
            message.taken [p] by inbox
            -> w1: wake [a completed, b error/budget, c error/budget, d error/budget, e error/budget]
        "#]],
    );
}

#[test]
fn what_was_set_aside_and_not_used_is_given_back() {
    check(
        "launch agent usd=100000 estimate=60000 a b; used a cost=10000; end a; why b; used b cost=20000; end b",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a, 60000 set aside
            usage a by m1 cost=10000
            run.ended a completed
            job.ended a completed
            run.started b, 60000 set aside
            why b: starting
            usage b by m1 cost=20000
            run.ended b completed
            job.ended b completed
            group.fired all_ok [a completed, b completed]
        "#]],
    );
}

#[test]
fn without_an_estimate_half_a_dollar_is_set_aside_or_what_is_left() {
    check(
        "launch agent usd=1200000 a b c; used a cost=800000; end a; used b cost=0; end b; used c cost=100000; end c",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a, 500000 set aside
            run.started b, 500000 set aside
            usage a by m1 cost=800000
            run.ended a completed
            job.ended a completed
            usage b by m1 cost=0
            run.ended b completed
            job.ended b completed
            run.started c, 400000 set aside
            usage c by m1 cost=100000
            run.ended c completed
            job.ended c completed
            group.fired all_ok [a completed, b completed, c completed]
        "#]],
    );
}

// BU-7: queued ones are over, running ones are told and keep what they have put out; nothing of another group is touched.
#[test]
fn what_is_used_up_refuses_the_queued_and_stops_the_running() {
    check(
        "slots 2; launch closure steps=3 a b c; launch closure x; used a steps=2; used b steps=1; end a; end b failed",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            group.sealed [a b c]
            run.started a
            run.started b
            job.queued x
            group.sealed [x]
            usage a by m1 steps=2
            usage b by m1 steps=1
            job.stopping a error/budget
            job.stopping b error/budget
            job.ended c error/budget.steps
            -> Polite stop of a
            -> Polite stop of b
            run.ended a completed
            job.ended a error/budget.steps completed_anyway
            run.started x
            run.ended b failed: `steps` of the budget of group g1 is used up: 3 steps of 3 steps; it failed
            job.ended b error/budget.steps
            group.fired none_ok [a error/budget, b error/budget, c error/budget]
        "#]],
    );
}

#[test]
fn a_note_says_once_that_four_fifths_are_used() {
    check(
        "launch closure tokens=10 a; used a tokens=7; used a tokens=8; used a tokens=9; used a tokens=9; end a",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            usage a by m1 tokens=7
            usage a by m1 tokens=8
            note budget a g1 tokens 80
            usage a by m1 tokens=9
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
        "#]],
    );
}

// BU-1: a sum that is told again, or falls, is charged no more; another meter begins at nothing.
#[test]
fn what_is_told_twice_counts_once() {
    check(
        "launch closure usd=100 a; used a cost=40; used a cost=40; used a cost=10; used a meter=2 cost=30; \
         used a meter=2 cost=60",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a
            usage a by m1 cost=40
            usage a by m2 cost=30
            usage a by m2 cost=60
            job.stopping a error/budget
            -> Polite stop of a
        "#]],
    );
}

// BU-6: where nobody tells of money, calls bind all the same; and then money alone binds nothing any more.
#[test]
fn unknown_cost_binds_by_other_dimensions() {
    check(
        "launch agent usd=100 steps=2 a; spawn a; used a; used a steps=1; used a steps=2; end a; \
         launch agent usd=100 b; launch agent usd=100 steps=1 c",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a, 100 set aside
            run.bound a
            usage a by m1 and does not say what
            usage a by m1 steps=1
            usage a by m1 steps=2
            job.stopping a error/budget
            -> Polite stop of a
            run.ended a completed
            job.ended a error/budget.steps completed_anyway
            group.fired none_ok [a error/budget]
            = refused: budget: nothing that it bounds is told of by such jobs; add `time`, which is always known
            job.queued c
            group.sealed [c]
            run.started c
        "#]],
    );
}

#[test]
fn a_budget_that_binds_nothing_is_refused() {
    check(
        "launch usd=100 a; launch own_steps=1 a; launch agent tokens=5 a; launch agent usd=0 a; launch time=5 a; \
         launch closure tokens=5 b",
        expect![[r#"
            = refused: budget: nothing that it bounds is told of by such jobs; add `time`, which is always known
            = refused: job 0: budget: nothing that it bounds is told of by such jobs; add `time`, which is always known
            = refused: budget: nothing that it bounds is told of by such jobs; add `time`, which is always known
            = refused: budget: usd: a budget of nothing starts nothing; leave it out for no bound
            job.queued a
            group.sealed [a]
            run.started a
            job.queued b
            group.sealed [b]
            run.started b
        "#]],
    );
}

// Time counts while runs are open, whoever tells what.
#[test]
fn times_of_runs_are_added_up() {
    check(
        "launch time=100 grace=5 a b; spawn a; after 20; end a; after 20; why b; alarm; end b failed; launch c",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            run.bound a
            usage a by time ms=20
            run.ended a completed
            job.ended a completed
            why b: starting
            job.stopping b error/budget
            -> Polite stop of b
            usage b by time ms=80
            run.ended b failed: `time` of the budget of group g1 is used up: 100ms of 100ms; it failed
            job.ended b error/budget.time
            group.fired partial [a completed, b error/budget]
            job.queued c
            group.sealed [c]
            run.started c
        "#]],
    );
}

#[test]
fn a_job_pays_for_what_it_launches() {
    check(
        "launch closure own_usd=100 p; launch closure below=p c; used c cost=100; end c; end p",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued c
            group.sealed [c]
            run.started c
            usage c by m1 cost=100
            job.stopping p error/budget
            group.voided [c]
            job.stopping c cancelled/parent
            -> Polite stop of p
            -> Polite stop of c
            run.ended c completed
            job.ended c cancelled/parent completed_anyway
            run.ended p completed
            job.ended p error/budget.usd completed_anyway
            group.fired none_ok [p error/budget]
        "#]],
    );
}

// A parent that waits for its children lends them what is set aside for it, or neither would ever go on.
#[test]
fn what_a_waiting_parent_was_given_is_lent_to_its_children() {
    check(
        "launch closure usd=100 estimate=60 p; launch closure below=p estimate=60 c; why c; wait w1 all below=p c; \
         used c cost=30; end c; ack w1; end p",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p, 60 set aside
            job.queued c
            group.sealed [c]
            why c: waits for its budget: 0.00006 USD for a start, and 0.0001 USD is left, part of it set aside for what runs
            run.started c, 60 set aside
            usage c by m1 cost=30
            run.ended c completed
            job.ended c completed
            group.fired all_ok [c completed]
            -> w1: [c completed]
            message.taken [c] by waiter
            run.ended p completed
            job.ended p completed
            group.fired all_ok [p completed]
        "#]],
    );
}

#[test]
fn only_a_person_raises_what_is_used_up() {
    check(
        "slots 1; launch closure usd=100 a b; used a cost=100; end a failed; launch closure usd=50 estimate=40 c d; \
         used c cost=20; set-budget group g2 usd=90; end c; set-budget group g2 steps=5; set-budget job d usd=5; \
         set-budget session s usd=5; set-budget group g9 usd=5",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            usage a by m1 cost=100
            job.stopping a error/budget
            job.ended b error/budget.usd
            -> Polite stop of a
            run.ended a failed: `usd` of the budget of group g1 is used up: 0.0001 USD of 0.0001 USD; it failed
            job.ended a error/budget.usd
            group.fired none_ok [a error/budget, b error/budget]
            job.queued c
            job.queued d
            group.sealed [c d]
            run.started c, 40 set aside
            usage c by m1 cost=20
            limits.set group g2 BudgetUsdMicros=90
            run.ended c completed
            job.ended c completed
            run.started d, 40 set aside
            = refused: budget: only what it bounds can be set, to another amount
            = refused: budget: only what it bounds can be set, to another amount
            = refused: budget: only what it bounds can be set, to another amount
            = refused: group `g9` is not known here
        "#]],
    );
}

// BU-8: what dead runs had set aside is free again, what they told stays, and what they may have used beyond is said.
#[test]
fn a_crash_frees_what_was_set_aside_and_keeps_what_was_told() {
    check(
        "slots 1; launch agent usd=1000000 estimate=600000 resume=rerun a b; used a cost=200000; crash; open; \
         used a cost=300000; end a; used b cost=1",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a, 600000 set aside
            usage a by m1 cost=200000
            store.opened after a crash
            run.ended a interrupted, to be queued again
            run.started b, 600000 set aside
            note stale_report a
            usage b by m1 cost=1
        "#]],
    );
}

#[test]
fn what_was_used_up_stays_so_over_a_crash() {
    check(
        "slots 1; launch agent usd=100 resume=rerun a b; used a cost=100; crash; open",
        expect![[r#"
        job.queued a
        job.queued b
        group.sealed [a b]
        run.started a, 100 set aside
        usage a by m1 cost=100
        job.stopping a error/budget
        job.ended b error/budget.usd
        -> Polite stop of a
        store.opened after a crash
        run.ended a interrupted
        job.ended a error/budget.usd interrupted
        group.fired none_ok [a error/budget, b error/budget]
    "#]],
    );
}

#[test]
fn a_launch_below_what_is_used_up_is_over_at_once() {
    check(
        "session t agent usd=10 min=1; launch closure in=t a; used a cost=10; end a failed; launch closure in=t b c; \
         start closure in=t d",
        expect![[r#"
            session.opened t
            job.queued a
            group.sealed [a]
            run.started a
            usage a by m1 cost=10
            job.stopping a error/budget
            -> Polite stop of a
            run.ended a failed: `usd` of the budget of session t is used up: 0.00001 USD of 0.00001 USD; it failed
            job.ended a error/budget.usd
            group.fired none_ok [a error/budget]
            job.queued b
            job.queued c
            group.sealed [b c]
            job.ended b error/budget.usd
            job.ended c error/budget.usd
            group.fired none_ok [b error/budget, c error/budget]
            job.queued d
            group.sealed [d]
            job.ended d error/budget.usd
            group.fired none_ok [d error/budget]
        "#]],
    );
}

// A turn's own use is the session's.
#[test]
fn a_turn_is_charged_to_its_session() {
    check(
        "session t agent usd=10 min=1; turn t; turn-used t cost=4; launch closure in=t a; used a cost=6; end a failed; \
         turn-end t",
        expect![[r#"
            session.opened t
            run.started turn of t
            usage turn of t by m1 cost=4
            job.queued a
            group.sealed [a]
            run.started a
            usage a by m1 cost=6
            job.stopping a error/budget
            -> Polite stop of a
            run.ended a failed: `usd` of the budget of session t is used up: 0.00001 USD of 0.00001 USD; it failed
            job.ended a error/budget.usd
            group.fired none_ok [a error/budget]
            run.ended turn of t completed
        "#]],
    );
}

// SC-9: one that waits for its budget lets others of its session pass that have none above them.
#[test]
fn who_waits_for_a_budget_lets_others_pass() {
    check(
        "slots 3; launch closure usd=100 estimate=60 a b; launch closure x; stop b; end a; end x",
        expect![[r#"
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a, 60 set aside
            job.queued x
            group.sealed [x]
            run.started x
            job.ended b cancelled/user
            run.ended a completed
            job.ended a completed
            group.fired partial [a completed, b cancelled/user]
            run.ended x completed
            job.ended x completed
            group.fired all_ok [x completed]
        "#]],
    );
}

#[test]
fn a_try_more_asks_again() {
    check(
        "launch closure usd=100 estimate=60 retries=3 a; used a cost=50; end a failed; alarm",
        expect![[r#"
            job.queued a
            group.sealed [a]
            run.started a, 60 set aside
            usage a by m1 cost=50
            run.ended a failed, to be tried again
            job.ended a error/budget.usd
            group.fired none_ok [a error/budget]
        "#]],
    );
}
