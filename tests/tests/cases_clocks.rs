//! Cases of clocks: limits run on time that is worked, records carry the wall clock and never fall.

use std::time::Duration;

use fanin_supervisor::protocol::record::NoteCode;
use fanin_supervisor::protocol::{Policy, Record, ResultEntry};
use fanin_supervisor::testing::TestClock;
use fanin_supervisor::{
    Delivery, Filter, GroupOptions, JobSpec, RunContext, Session, Since, Subscription, Supervisor,
    TryNextError,
};
use fanin_tests::cases::*;
use tokio::time::Instant;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
/// Some time in 2026.
const START: u64 = 1_780_000_000_000;

async fn start_at(wall: &TestClock, slots: usize) -> (Supervisor, Session, Watched) {
    let builder = Supervisor::builder().slots(slots).clock(wall.clone());
    let supervisor = builder.start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let events = supervisor.subscribe(Filter::all(), Since::Start).await.unwrap();
    (supervisor, session, Watched { events, last: (0, 0), jumps: 0 })
}

/// All records, read as they come.
struct Watched {
    events: Subscription,
    /// Place and time of the last one.
    last: (u64, u64),
    /// Jumps of the clock that were noted.
    jumps: usize,
}

impl Watched {
    /// Reads on: no record is missing, and none is older than the one before it.
    #[track_caller]
    fn assert_in_order(&mut self) {
        loop {
            match self.events.try_next() {
                Ok(Delivery::Event(event)) => {
                    assert_eq!(event.seq().0, self.last.0 + 1);
                    assert!(event.ts_ms() >= self.last.1, "time fell at {event:?}");
                    self.last = (event.seq().0, event.ts_ms());
                    if let Record::Note(note) = event.record() {
                        self.jumps += usize::from(note.code == NoteCode::ClockJump);
                    }
                }
                Ok(other) => panic!("{other:?}"),
                Err(TryNextError::Empty | TryNextError::Closed) => return,
            }
        }
    }
}

#[track_caller]
fn assert_in_time_order(entry: &ResultEntry) {
    let (started, ended) = (entry.started_at_ms, entry.ended_at_ms.unwrap());
    assert!(started.is_none_or(|started| entry.queued_at_ms <= started && started <= ended), "{entry:?}");
    assert!(entry.queued_at_ms <= ended, "{entry:?}");
}

/// Lets all that is due now happen.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

// B64, SC-16, C-8: the machine slept for 17 hours; working time stood still, so nobody's limit has passed.
#[tokio::test(start_paused = true)]
async fn a_sleep_of_the_machine_stops_nothing() {
    let wall = TestClock::new();
    let (supervisor, session, mut records) = start_at(&wall, 1).await;
    let seconds = Duration::from_secs;
    let alive = Alive::new();
    let policy = Policy { at_ms: Some(90_000), ..Policy::ALL };
    let hung = || stubborn("hung", &alive).timeout(seconds(60)).grace(seconds(1));
    let queued = idle("queued").queue_timeout(seconds(30));
    let started = Instant::now();
    let options = GroupOptions { policy, ..GroupOptions::default() };
    let group = session.fan_out_with(options, [hung(), queued, hung()]).await.unwrap();
    let asleep = session.start(idle("last")).await.unwrap();
    tokio::time::advance(seconds(29)).await;

    wall.jump_ahead(Duration::from_millis(17 * HOUR));
    let woken_up = session.start(idle("after the sleep")).await.unwrap();
    settle().await;
    assert_eq!(alive.count(), 1, "a sleep killed it");
    for job in group.jobs().iter().chain([asleep.id(), woken_up.id()]) {
        assert!(!supervisor.get(job).unwrap().status.is_terminal(), "a sleep ended it");
    }

    let wake = woken_within(QUIET, &session).await;
    // What limits mean over a sleep: they count the time that was worked.
    assert_eq!(started.elapsed(), seconds(91));
    let ends: Vec<_> = wake.entries.iter().map(ResultEntry::summary).collect();
    assert_eq!(ends, ["error{timeout run}", "error{timeout queue}", "cancelled{group}"]);
    assert_eq!(wake.duration_ms, 91_000, "durations are of the working clock");
    wake.entries.iter().for_each(assert_in_time_order);
    records.assert_in_order();
    assert_eq!(records.jumps, 1, "the jump is noted, once");
}

// B65, A-4, C-8: the wall clock steps back in the middle of a job.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_makes_no_time_fall_and_delays_no_limit() {
    let wall = TestClock::new();
    let (_supervisor, session, mut records) = start_at(&wall, 3).await;
    let body = JobSpec::run("calls", |context: RunContext| async move {
        let call = context.tool("call", "read");
        call.begin();
        tokio::time::sleep(Duration::from_secs(10)).await;
        call.complete();
        context.tool("left open", "read").begin();
        Ok("done".into())
    });
    let alive = Alive::new();
    let late = stubborn("late", &alive).timeout(Duration::from_secs(20)).grace(Duration::ZERO);
    let started = Instant::now();
    session.fan_out([body, late]).await.unwrap();
    settle().await;
    wall.jump_back(Duration::from_millis(HOUR + 1));
    let wake = woken_within(QUIET, &session).await;
    assert_eq!(started.elapsed(), Duration::from_secs(20));
    let ends: Vec<_> = wake.entries.iter().map(ResultEntry::summary).collect();
    assert_eq!(ends, ["completed", "error{timeout run}"]);
    wake.entries.iter().for_each(assert_in_time_order);
    assert_eq!(wake.duration_ms, 20_000);
    records.assert_in_order();
    assert_eq!(records.jumps, 1);
}

// C-8, J-13: a clock that jumps at each step by anything up to the ends of what a number holds.
#[tokio::test(start_paused = true)]
async fn a_clock_gone_mad_changes_nothing_but_times() {
    watch_panics();
    let mut chance = Chance::new();
    let wall = TestClock::new();
    let (supervisor, session, mut records) = start_at(&wall, 2).await;
    // First the ends of the scale, both ways, with and without working time between.
    for (ms, worked) in [(u64::MAX, 0), (0, 1), (u64::MAX, 1), (0, 0), (u64::MAX / 2, 5), (1, 5)] {
        wall.set(ms);
        tokio::time::advance(Duration::from_millis(worked)).await;
        session.fan_out([idle("a")]).await.unwrap().wait(STUCK).await.unwrap();
    }
    drop(supervisor);
    records.assert_in_order();

    let wall = TestClock::new();
    let (supervisor, session, mut records) = start_at(&wall, 2).await;
    for _ in 0..500 {
        let year = 365 * DAY as usize;
        wall.set((START + chance.below(20 * year) as u64).saturating_sub(10 * year as u64));
        let seconds = 1 + chance.below(3) as u64;
        let lasts = JobSpec::run("lasts", move |context: RunContext| async move {
            let _open = context.tool("call", "read");
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok("done".into())
        });
        let started = Instant::now();
        let group = session.fan_out([lasts.timeout(Duration::from_secs(2)), idle("b")]).await.unwrap();
        settle().await;
        wall.set(START + chance.below(year) as u64);
        let result = group.wait(STUCK).await.unwrap();
        let expected = if seconds < 2 { "completed" } else { "error{timeout run}" };
        if seconds != 2 {
            assert_eq!(result.entries[0].summary(), expected);
        }
        assert_eq!(started.elapsed().as_secs(), seconds);
        assert_eq!(result.duration_ms, 1_000 * seconds);
        result.entries.iter().for_each(assert_in_time_order);
        records.assert_in_order();
    }
    soon(supervisor.shutdown()).await;
    assert_no_panic_of_ours();
}
