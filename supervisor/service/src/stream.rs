//! Streams: records and outputs as they come. Each goes at its client's pace and holds no queue.

use fanin_bus::{Delivery, Subscription, TryNextError};
use fanin_protocol::limits::{MARK_EVERY, PAGE_JOBS};
use fanin_protocol::wire::{Answer, Item, OutputCall, Since, Subscribe, Told};
use fanin_protocol::{Fault, Seq};
use fanin_supervisor::{CallError, OutputError};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::client::Client;
use crate::convert;
use crate::fault::AsFault;

/// Groups of a snapshot in one item.
const GROUPS: usize = 1_000;

/// Records from a place on, until the client or the service ends.
pub(crate) async fn subscribe(client: &Client, id: u64, wanted: Subscribe) -> Result<Answer, Fault> {
    let is_filtered = wanted.filter.about.is_some() || wanted.filter.kinds.is_some();
    let filter = convert::filter(wanted.filter);
    let supervisor = client.supervisor();
    let mut events = match wanted.since {
        Since::Snapshot => {
            let (snapshot, events) = supervisor.snapshot(filter).map_err(|error| error.fault())?;
            for jobs in snapshot.jobs.chunks(PAGE_JOBS) {
                client.tell(&Told::Item { id, item: Item::Jobs(jobs.to_vec()) }).await?;
            }
            for groups in snapshot.groups.chunks(GROUPS) {
                client.tell(&Told::Item { id, item: Item::Groups(groups.to_vec()) }).await?;
            }
            events
        }
        since => {
            let since = match since {
                Since::Now => fanin_bus::Since::Now,
                Since::After(cursor) => fanin_bus::Since::Cursor(cursor),
                Since::Start | Since::Snapshot => fanin_bus::Since::Start,
            };
            supervisor.subscribe(filter, since).await.map_err(|error| error.fault())?
        }
    };
    client.tell(&Told::Item { id, item: Item::Subscribed(events.cursor()) }).await?;
    let mut marks = Marks::new(is_filtered, events.cursor().seq);
    while let Some(delivery) = next(client, id, &mut events, &mut marks).await? {
        let item = match delivery {
            Delivery::Event(event) => {
                marks.told = event.seq();
                let envelope = event.message_pack().map_err(|error| {
                    tracing::error!(seq = event.seq().0, %error, "an event cannot be encoded");
                    Fault::from(crate::fault::CallFault::Internal)
                })?;
                client.tell_event(id, &envelope).await?;
                continue;
            }
            Delivery::Lagged { from, to, missed } => {
                marks.told = to;
                Item::Gap { from, to, missed }
            }
            Delivery::Unreadable { at, problem } => Item::Unreadable { at, problem },
        };
        client.tell(&Told::Item { id, item }).await?;
    }
    Ok(Answer::Done)
}

/// How far a stream has told its client where it is.
struct Marks {
    is_filtered: bool,
    told: Seq,
    /// It is time to tell it: it has just caught up, or was told nothing for a while.
    is_due: bool,
    tick: tokio::time::Interval,
}

impl Marks {
    fn new(is_filtered: bool, told: Seq) -> Self {
        let mut tick = interval_at(Instant::now() + MARK_EVERY, MARK_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { is_filtered, told, is_due: true, tick }
    }
}

/// What comes next. While there is nothing, the client is told how far the records were looked at that it does not want (B-6).
async fn next(
    client: &Client,
    id: u64,
    events: &mut Subscription,
    marks: &mut Marks,
) -> Result<Option<Delivery>, Fault> {
    loop {
        match events.try_next() {
            Ok(delivery) => return Ok(Some(delivery)),
            Err(TryNextError::Closed) => return Ok(None),
            Err(TryNextError::Empty) => {}
        }
        if !marks.is_filtered {
            return Ok(events.next().await);
        }
        let seen = events.cursor().seq;
        if seen > marks.told && std::mem::take(&mut marks.is_due) {
            marks.told = seen;
            client.tell(&Told::Item { id, item: Item::Mark(seen) }).await?;
        }
        tokio::select! {
            biased;
            delivery = events.next() => return Ok(delivery),
            _ = marks.tick.tick() => marks.is_due = true,
        }
    }
}

/// What a job puts out, to the end of the job.
pub(crate) async fn follow(client: &Client, id: u64, wanted: OutputCall) -> Result<Answer, Fault> {
    let supervisor = client.supervisor();
    let follow = match wanted.lifetime {
        Some(lifetime) => supervisor.follow_exact(&wanted.job, lifetime, wanted.offset),
        None => supervisor.follow(&wanted.job, wanted.offset),
    };
    let mut follow = follow.map_err(|error| error.fault())?;
    loop {
        match follow.next_page().await {
            Ok(None) => return Ok(Answer::Done),
            Ok(Some(page)) => {
                client.tell(&Told::Item { id, item: Item::Page(convert::page(page)) }).await?;
            }
            // It only looks, so it looks again.
            Err(OutputError::Call(CallError::Busy)) => tokio::task::yield_now().await,
            Err(error) => return Err(error.fault()),
        }
    }
}
