//! Slots that are lent while a job waits, and what a tree may grow to.

use expect_test::expect;
use fanin_tests::timeline::check;

#[test]
fn a_job_that_waits_lends_its_slot_and_has_it_again_first() {
    check(
        "slots 1; launch closure p; launch closure below=p a; launch q; why a; wait w1 group below=p g2; why p; why q; \
         end a ok; why p; ack w1; end p ok",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            job.queued q
            group.sealed [q]
            why a: waits for a slot, place 1 in the queue; slots are held by p
            run.started a
            why p: waits for a
            why q: waits for a slot, place 1 in the queue; slots are held by a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: group [a completed]
            why p: working
            message.taken [a] by waiter
            run.ended p completed
            job.ended p completed
            group.fired all_ok [p completed]
            run.started q
        "#]],
    );
}

#[test]
fn an_answer_is_held_while_no_slot_is_free() {
    check(
        "slots 1; session t; launch closure p; launch closure below=p a; launch in=t x; wait w1 group below=p g2; launch u; end a ok; why p; why-group g2; end x ok; why p; ack w1; end p ok; end u ok",
        expect![[r#"
            session.opened t
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            job.queued x
            group.sealed [x]
            run.started a
            job.queued u
            group.sealed [u]
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            run.started x
            why p: waits for its slot again, place 1; slots are held by x
            why-group g2: offered, not acknowledged yet
            run.ended x completed
            job.ended x completed
            group.fired all_ok [x completed]
            -> w1: group [a completed]
            why p: working
            message.taken [a] by waiter
            run.ended p completed
            job.ended p completed
            group.fired all_ok [p completed]
            run.started u
            run.ended u completed
            job.ended u completed
            group.fired all_ok [u completed]
        "#]],
    );
}

#[test]
fn two_jobs_ask_in_the_order_of_their_answers() {
    check(
        "slots 2; session t; launch closure p q; launch closure below=p a; launch closure below=q b; launch in=t x y; wait w1 group below=p g2; wait w2 group below=q g3; end b ok; end a ok; why q; why p; end x ok; end y ok; end q ok; end p ok",
        expect![[r#"
            session.opened t
            job.queued p
            job.queued q
            group.sealed [p q]
            run.started p
            run.started q
            job.queued a
            group.sealed [a]
            job.queued b
            group.sealed [b]
            job.queued x
            job.queued y
            group.sealed [x y]
            run.started a
            run.started x
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            -> w1: group [a completed]
            why q: waits for b
            why p: working
            run.ended x completed
            job.ended x completed
            run.started y
            run.ended y completed
            job.ended y completed
            group.fired all_ok [x completed, y completed]
            run.started b
            run.ended q completed
            -> w2: closed
            run.ended p completed
            message.taken [a] by void
            job.ended p completed
        "#]],
    );
}

#[test]
fn one_of_two_waits_gives_no_slot_back() {
    check(
        "slots 1; launch closure p; launch closure below=p a; launch closure below=p b; wait w1 group below=p g2; \
         wait w2 group below=p g3; end a ok; why p; end b ok; end p ok",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            job.queued b
            group.sealed [b]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            run.started b
            -> w1: group [a completed]
            why p: waits for b
            run.ended b completed
            job.ended b completed
            group.fired all_ok [b completed]
            -> w2: group [b completed]
            run.ended p completed
            message.taken [a] [b] by void
            job.ended p completed
            group.fired all_ok [p completed]
        "#]],
    );
}

#[test]
fn at_its_limit_a_held_answer_is_given_and_the_slot_is_owed() {
    check(
        "slots 1; session t; launch closure p; launch closure below=p a; launch in=t x y; wait w1 group below=p g2; end a ok; expire w1; why p; end x ok; why y; expire w1; end p ok; end y ok",
        expect![[r#"
            session.opened t
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            job.queued x
            job.queued y
            group.sealed [x y]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            run.started x
            -> w1: group [a completed]
            why p: working
            run.ended x completed
            job.ended x completed
            why y: waits for a slot, place 1 in the queue; slots are held by p
            run.ended p completed
            message.taken [a] by void
            job.ended p completed
            group.fired all_ok [p completed]
            run.started y
            run.ended y completed
            job.ended y completed
            group.fired all_ok [x completed, y completed]
        "#]],
    );
}

#[test]
fn a_wait_that_runs_out_goes_on_at_once_and_is_owed_its_slot() {
    check(
        "slots 1; launch closure p; launch closure below=p a; launch q; wait w1 group below=p g2; expire w1; why p; \
         why q; end a ok; why q; end p ok",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            job.queued q
            group.sealed [q]
            run.started a
            why p: working
            why q: waits for a slot, place 1 in the queue; slots are held by p, a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            why q: waits for a slot, place 1 in the queue; slots are held by p
            run.ended p completed
            message.taken [a] by void
            job.ended p completed
            group.fired all_ok [p completed]
            run.started q
        "#]],
    );
}

#[test]
fn an_open_question_lends_the_slot() {
    check(
        "slots 1; launch agent p; launch q; question p c1 running; why p; part p c1 completed; end q ok; end p ok",
        expect![[r#"
            job.queued p
            group.sealed [p]
            run.started p
            job.queued q
            group.sealed [q]
            part p c1 running 0..-
            run.started q
            why p: waits for an answer to question c1
            part p c1 completed 0..0
            run.ended q completed
            job.ended q completed
            group.fired all_ok [q completed]
            run.ended p completed
            job.ended p completed
            group.fired all_ok [p completed]
        "#]],
    );
}

#[test]
fn a_joining_job_holds_no_slot() {
    check(
        "slots 1; launch closure p; launch closure below=p a; end p ok; end a ok",
        expect![[r#"
        job.queued p
        group.sealed [p]
        run.started p
        job.queued a
        group.sealed [a]
        run.ended p completed
        run.started a
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
fn a_stop_waits_for_no_slot() {
    check(
        "slots 1; session t; launch closure p; launch closure below=p a b; launch in=t x; wait w1 any below=p a b; end a ok; why p; stop p; why p; end p lost; end x ok",
        expect![[r#"
            session.opened t
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            job.queued b
            group.sealed [a b]
            job.queued x
            group.sealed [x]
            run.started a
            run.ended a completed
            job.ended a completed
            run.started x
            why p: waits for its slot again, place 1; slots are held by x
            job.stopping p cancelled/user
            group.voided [a b]
            job.ended b cancelled/parent
            -> Polite stop of p
            -> w1: [a completed, b cancelled/parent]
            why p: stopping (user)
            run.ended p cancelled
            job.ended p cancelled/user
            group.fired none_ok [p cancelled/user]
            run.ended x completed
            job.ended x completed
            group.fired all_ok [x completed]
        "#]],
    );
}

#[test]
fn slots_that_are_lent_come_back_in_a_drain() {
    check(
        "slots 1; session t; launch closure p; launch closure below=p a; launch in=t x; wait w1 group below=p g2; end a ok; drain; end x ok; ack w1; end p ok",
        expect![[r#"
            session.opened t
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            job.queued x
            group.sealed [x]
            run.started a
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            run.started x
            run.ended x completed
            job.ended x completed
            group.fired all_ok [x completed]
            -> w1: group [a completed]
            message.taken [a] by waiter
            run.ended p completed
            job.ended p completed
            group.fired all_ok [p completed]
        "#]],
    );
}

#[test]
fn sessions_take_turns_also_where_one_lends() {
    check(
        "slots 1; session t; launch closure p; launch closure below=p a; launch in=t x y; wait w1 group below=p g2; \
         launch u; end x ok; end a ok; end y ok; end p ok",
        expect![[r#"
            session.opened t
            job.queued p
            group.sealed [p]
            run.started p
            job.queued a
            group.sealed [a]
            job.queued x
            job.queued y
            group.sealed [x y]
            run.started a
            job.queued u
            group.sealed [u]
            run.ended a completed
            job.ended a completed
            group.fired all_ok [a completed]
            run.started x
            run.ended p completed
            message.taken [a] by void
            job.ended p completed
            group.fired all_ok [p completed]
            -> w1: closed
        "#]],
    );
}

#[test]
fn an_agent_tree_has_ten_slots_of_its_own() {
    check(
        "session m agent slots=1; launch in=m a b; launch c d; why b; end c ok; end a ok",
        expect![[r#"
            session.opened m
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            job.queued c
            job.queued d
            group.sealed [c d]
            run.started c
            run.started d
            why b: waits for a slot, place 1 in the queue; slots are held by a, c, d
            run.ended c completed
            job.ended c completed
            run.ended a completed
            job.ended a completed
            run.started b
        "#]],
    );
}

#[test]
fn a_launch_beyond_a_bound_creates_nothing() {
    check(
        "session m agent total=5 queue=2 slots=1 depth=2 prompt=3; launch in=m as=g a; \
         launch in=m as=g a b c d e f g h; launch in=m as=g agent a b; launch in=m as=g a b; launch in=m as=h c d e; \
         start in=m as=i c; start in=m as=j d; start in=m as=k e; start below=a as=l f; session n agent max=1; \
         session n agent depth=0",
        expect![[r#"
            session.opened m
            = refused: 1 members; a group here has at least 2: launch a single job by itself
            = refused: 8 members; a group has at most 7
            = refused: job 0: a prompt of 4 bytes; at most 3 are allowed: put the rest into a file
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            = refused: queue full: 1 jobs wait and 3 more were asked for; at most 2 may wait
            job.queued c
            group.sealed [c]
            = refused: queue full: 2 jobs wait and 1 more were asked for; at most 2 may wait
            = refused: queue full: 2 jobs wait and 1 more were asked for; at most 2 may wait
            = refused: queue full: 2 jobs wait and 1 more were asked for; at most 2 may wait
            = refused: group_min: 2 is not from 1 to 1
            = refused: depth: 0 is not from 1 to 64
        "#]],
    );
}

#[test]
fn a_worker_of_an_agent_launches_nothing() {
    check(
        "session m agent; launch in=m as=g closure a b; start below=a c; launch below=a c d; start below=a as=g a; \
         start below=a again a",
        expect![[r#"
            session.opened m
            job.queued a
            job.queued b
            group.sealed [a b]
            run.started a
            run.started b
            = refused: a job here would be at depth 2; at most 1 is allowed: launch it from a node higher up, or raise `depth`
            = refused: a job here would be at depth 2; at most 1 is allowed: launch it from a node higher up, or raise `depth`
            = refused: a job here would be at depth 2; at most 1 is allowed: launch it from a node higher up, or raise `depth`
            = refused: a job here would be at depth 2; at most 1 is allowed: launch it from a node higher up, or raise `depth`
        "#]],
    );
}

// SC-10, G14: a run that asks for its slot, waits for more and asks again stands in line once.
#[test]
fn a_run_that_asks_twice_stands_in_line_once() {
    check(
        "slots 3; launch a b c d e f>a; wait w1 mail below=b; wait w3 mail below=c; send a b x; wait w2 mail below=b; \
         send a b y; send a c z; why c; end d; end e; ack w1; ack w2; ack w3",
        expect![[r#"
            job.queued a
            job.queued b
            job.queued c
            job.queued d
            job.queued e
            job.queued f
            group.sealed [a b c d e f>a]
            run.started a
            run.started b
            run.started c
            run.started d
            run.started e
            -> w1: mail of a
            why c: waits for its slot again, place 2; slots are held by a, d, e
            run.ended d completed
            job.ended d completed
            -> w2: mail of a
            run.ended e completed
            job.ended e completed
            -> w3: mail of a
        "#]],
    );
}
