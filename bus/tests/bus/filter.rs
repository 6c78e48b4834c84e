//! Filters: what they let through, that a wrong one is refused, and that cursors and pages add up under them.

use std::sync::Arc;

use fanin_bus::{Delivery, Filter, FilterError, Since, SubscribeError, Subscription};
use fanin_machine::log::Log;
use fanin_protocol::record::{KINDS, SessionOpened, StoreClosed};
use fanin_protocol::{About, Bounds, Cursor, Fence, IdError, Lifetime, Profile, Record, Seq, SessionId};
use proptest::prelude::*;

use crate::common::*;

fn all(log: &Arc<Log>, filter: Filter) -> Vec<i64> {
    drain(&mut Subscription::new(log.clone(), filter, Since::Start).unwrap())
}

/// 1 store, 2 session main, 3 to 5 runs of jobs a, b in group g and c in group h, 6 job a of another session,
/// 7 the messages of g and h taken at once.
fn sample() -> Arc<Log> {
    let log = log(64);
    let session = |name: &str| About::of(SessionId::parse(name).ok(), None);
    append(
        &log,
        [
            (About::default(), StoreClosed { queued: 0 }.into()),
            (
                session("main"),
                SessionOpened {
                    session: SessionId::parse("main").unwrap(),
                    profile: Profile::Operator,
                    bounds: Bounds::default(),
                }
                .into(),
            ),
            (about("main", "a", "g"), run_ended()),
            (about("main", "b", "g"), run_ended()),
            (about("main", "c", "h"), run_ended()),
            (about("other", "x", "i"), run_ended()),
            (session("main"), taken(&["g", "h"])),
        ],
    );
    log
}

#[test]
fn a_filter_lets_through_what_belongs_to_its_subject() {
    let log = sample();
    assert_eq!(all(&log, Filter::all()), numbers(1..=7));
    assert_eq!(all(&log, Filter::session("main")), [2, 3, 4, 5, 7]);
    assert_eq!(all(&log, Filter::session("other")), [6]);
    assert_eq!(all(&log, Filter::job("b")), [4]);
    assert_eq!(all(&log, Filter::group("g")), [3, 4, 7], "a message taken with others is the group's too");
    assert_eq!(all(&log, Filter::group("h")), [5, 7]);
    assert_eq!(all(&log, Filter::group("i")), [6]);
    assert_eq!(all(&log, Filter::session("nobody")), NONE);
}

#[test]
fn a_filter_of_kinds_narrows_its_subject() {
    let log = sample();
    assert_eq!(all(&log, Filter::all().kinds(["run.ended"])), [3, 4, 5, 6]);
    assert_eq!(all(&log, Filter::session("main").kinds(["run.ended", "session.opened"])), [2, 3, 4, 5]);
    assert_eq!(all(&log, Filter::group("g").kinds(["message.taken"])), [7]);
    assert_eq!(all(&log, Filter::all().kinds([""; 0])), NONE);
    assert_eq!(all(&log, Filter::all().kinds(KINDS.iter().map(|(kind, _)| kind))), numbers(1..=7));
}

#[test]
fn a_wrong_filter_is_refused_and_says_what_is_wrong() {
    let refused = |filter: Filter| Subscription::new(log(64), filter, Since::Start).unwrap_err();
    let error = refused(Filter::session("no/such").kinds(["job.ended"]));
    assert_eq!(
        error,
        SubscribeError::Filter(FilterError::Id(IdError::Character { id: "no/such".into(), found: '/' }))
    );
    assert_eq!(error.code(), "bad_filter");
    let error = refused(Filter::all().kinds(["job.ended", "job.finished"]));
    assert_eq!(error, SubscribeError::Filter(FilterError::Kind { kind: "job.finished".into() }));
    assert!(error.to_string().contains("job.finished") && error.to_string().contains("job.ended"), "{error}");
}

#[test]
fn an_event_knows_its_ids_and_shows_no_content() {
    let log = sample();
    let mut events = Subscription::new(log.clone(), Filter::job("a"), Since::Start).unwrap();
    let Ok(Delivery::Event(event)) = events.try_next() else { panic!("an event") };
    assert_eq!((event.seq(), event.ts_ms(), event.kind()), (Seq(3), 3, "run.ended"));
    assert_eq!(event.session(), about("main", "a", "g").session());
    assert_eq!(event.job(), about("main", "a", "g").job.as_ref());
    assert_eq!(event.group(), about("main", "a", "g").group());
    assert_eq!((event.lifetime(), event.run()), (Some(Lifetime(1)), Some(Fence(2))));
    assert!(matches!(event.record(), Record::RunEnded(ended) if ended.message.is_some()));
    let shown = [format!("{event:?}"), format!("{:?}", Delivery::Event(event.clone()))];
    assert!(shown.iter().all(|text| text.contains("run.ended") && !text.contains("swordfish")), "{shown:?}");
    let json = event.to_json(log.id()).unwrap();
    assert_eq!((&json["seq"], &json["session"]), (&3.into(), &"main".into()));
    assert!(!json.to_string().contains("swordfish"), "{json}");
}

#[test]
fn a_subscriber_whose_filter_skips_much_comes_up_for_air() {
    let log = log(1_000_000);
    for _ in 0..40 {
        append(&log, (0..256).map(|_| (About::default(), StoreClosed { queued: 0 }.into())));
    }
    append(&log, [(about("main", "a", "g"), run_ended())]);
    let mut events = Subscription::new(log.clone(), Filter::job("a"), Since::Start).unwrap();
    let (bell, waker) = Bell::new();
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(events.poll_next(&mut cx).is_pending());
    assert_eq!(bell.rung(), 1, "it goes on by itself");
    assert!((Seq(1)..Seq(40 * 256)).contains(&events.cursor().seq), "{:?}", events.cursor());
    assert!(events.poll_next(&mut cx).is_ready());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// A client that leaves after any number of deliveries and comes back with its cursor sees what one that stays does.
    #[test]
    fn coming_back_with_the_cursor_equals_staying(
        tail in 1usize..40,
        jobs in prop::collection::vec(0u8..3, 0..120),
        filter in 0u8..4,
        page in 1usize..20,
    ) {
        let log = log(tail);
        for job in jobs {
            append(&log, [(about("main", ["a", "b", "c"][usize::from(job)], "g"), run_ended())]);
        }
        let filter = ["a", "b", "c"].get(usize::from(filter)).map_or(Filter::all(), |job| Filter::job(*job));
        let whole = all(&log, filter.clone());
        let mut pages = Vec::new();
        let mut cursor = Cursor { log: log.id().clone(), seq: Seq(0) };
        loop {
            // As a client keeps it: in text.
            let since = Since::Cursor(cursor.to_string().parse().unwrap());
            let mut events = Subscription::new(log.clone(), filter.clone(), since).unwrap();
            let some: Vec<_> = (0..page).map_while(|_| events.try_next().ok()).map(number).collect();
            if some.is_empty() {
                break;
            }
            pages.extend(some);
            cursor = events.cursor();
        }
        prop_assert_eq!(pages, whole);
    }
}
