//! A cursor over the log with a filter: one subscriber's own place. It holds no queue, so being slow costs only itself.

use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fanin_machine::log::{Entries, Log, Read, Reader};
use fanin_protocol::limits::{READ_BATCH, SKIP_BATCHES};
use fanin_protocol::{Cursor, Entry, LogId, Seq};

use crate::event::{Delivery, Event};
use crate::filter::{Filter, FilterError};
use crate::pages::{PageFuture, Pages};

/// Where a subscription begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Since {
    /// At the first record; what is kept nowhere any more is told as [`Delivery::Lagged`].
    Start,
    /// With the next record to come.
    Now,
    /// Behind a place that was seen; a subscription's own is [`Subscription::cursor`].
    Cursor(Cursor),
}

/// Why there is no subscription.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The cursor is of another log and means nothing in this one (B-7).
    #[error("cursor belongs to log {cursor} and this is log {log}; subscribe from the start")]
    OtherLog {
        /// The cursor's log.
        cursor: LogId,
        /// The log that was asked.
        log: LogId,
    },
    /// The cursor is above the newest record: the log lost records, or the cursor is wrong (B-7).
    #[error("cursor is at {at} and the newest record is {head}; subscribe from the start")]
    Regressed {
        /// The cursor's place.
        at: Seq,
        /// The newest record.
        head: Seq,
    },
    /// The filter cannot be used.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The supervisor is busy and could not be asked how far its log goes. The same call may work in a moment.
    #[error("the supervisor is busy; try again")]
    Busy,
}

impl SubscribeError {
    /// The stable name on the wire.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::OtherLog { .. } => "other_log",
            Self::Regressed { .. } => "log_regressed",
            Self::Filter(_) => "bad_filter",
            Self::Busy => "busy",
        }
    }
}

/// Why [`Subscription::try_next`] has nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TryNextError {
    /// Nothing yet.
    #[error("no event yet")]
    Empty,
    /// The log was closed and all was read.
    #[error("the log is closed")]
    Closed,
}

/// One subscriber of a log.
///
/// It delivers the records that its filter lets through, in ascending order and each once. It may sleep as long as it
/// likes: what is no longer kept then comes as one [`Delivery::Lagged`] with the exact number, and it goes on with the
/// oldest record that is. While it sleeps it holds no record, or those of one segment of the log if it was not done
/// with them. Dropping it leaves nothing behind.
///
/// It needs no runtime: any executor can poll it.
pub struct Subscription {
    reader: Reader,
    filter: Filter,
    /// The last place that was delivered or passed over.
    after: Seq,
    /// Records behind `after` that were taken over from the log.
    taken: Option<Entries>,
    /// The newest of them that was found: one handle, moved from record to record.
    found: Option<Event>,
    /// Where older records are read.
    pages: Option<Arc<dyn Pages>>,
    /// What is being read there.
    reading: Option<PageFuture>,
    /// Up to here the page that was taken over goes, records of unknown kinds too.
    page_end: Option<Seq>,
    /// Nothing follows.
    is_over: bool,
}

impl Subscription {
    /// Subscribes to a log.
    ///
    /// # Errors
    ///
    /// [`SubscribeError`] where the cursor does not belong to this log, or the filter cannot be used. It never begins
    /// "from now" instead.
    pub fn new(log: Arc<Log>, filter: Filter, since: Since) -> Result<Self, SubscribeError> {
        let after = match since {
            Since::Start => Seq(0),
            Since::Now => log.head(),
            Since::Cursor(cursor) => place(&log, cursor)?,
        };
        Self::after(log, after, filter)
    }

    /// Subscribes behind a place that the log's writer gave out, such as that of a snapshot.
    ///
    /// The place may be above the head, where the writer decided records that it has not appended yet: those up to it
    /// are passed over.
    ///
    /// # Errors
    ///
    /// [`SubscribeError::Filter`] where the filter cannot be used.
    pub fn after(log: Arc<Log>, seq: Seq, filter: Filter) -> Result<Self, SubscribeError> {
        filter.check()?;
        Ok(Self {
            reader: Reader::new(log),
            filter,
            after: seq,
            taken: None,
            found: None,
            pages: None,
            reading: None,
            page_end: None,
            is_over: false,
        })
    }

    /// Reads what is no longer in memory from here, instead of being told that it was missed (B-5).
    #[must_use]
    pub fn over(mut self, pages: Option<Arc<dyn Pages>>) -> Self {
        self.pages = pages;
        self
    }

    /// Waits for what comes next; `None` once the log was closed and all was read.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what a dropped future did not return comes with the next call.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.next_ref().await.map(Delivery::cloned)
    }

    /// As [`Subscription::next`], with the event lent until the next call: the cheapest way to look at many. What is to be
    /// kept is cloned.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`Subscription::next`].
    pub async fn next_ref(&mut self) -> Option<Delivery<&Event>> {
        // Without this look a future would be made and polled for each record that is at hand.
        let next = if self.advance() { Next::Found } else { poll_fn(|cx| self.poll_step(cx)).await };
        self.lend(next).ok()
    }

    /// As [`Subscription::next`], for those who poll by hand. Only the waker of the last call is woken.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Delivery>> {
        let Poll::Ready(next) = self.poll_step(cx) else { return Poll::Pending };
        Poll::Ready(self.lend(next).ok().map(Delivery::cloned))
    }

    /// Returns what comes next if it is there.
    ///
    /// # Errors
    ///
    /// [`TryNextError`] where there is nothing yet, or nothing more.
    pub fn try_next(&mut self) -> Result<Delivery, TryNextError> {
        let next = loop {
            match self.step(&mut Context::from_waker(Waker::noop()), false) {
                Poll::Ready(Some(next)) => break next,
                Poll::Ready(None) => {}
                Poll::Pending => return Err(TryNextError::Empty),
            }
        };
        self.lend(next).map(Delivery::cloned)
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        for _ in 0..SKIP_BATCHES {
            match self.step(cx, true) {
                Poll::Ready(Some(next)) => return Poll::Ready(next),
                Poll::Ready(None) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
        // A filter that lets little through must not keep its thread to itself.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Looks through what was taken over, then takes over more; `Ready(None)` where that is to be looked through.
    fn step(&mut self, cx: &mut Context<'_>, lies_down: bool) -> Poll<Option<Next>> {
        if self.advance() {
            return Poll::Ready(Some(Next::Found));
        }
        if self.is_over {
            return Poll::Ready(Some(Next::Closed));
        }
        match self.poll_page(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(told)) => return Poll::Ready(Some(Next::Told(told))),
            Poll::Ready(None) if self.taken.is_some() => return Poll::Ready(None),
            Poll::Ready(None) => {}
        }
        if lies_down {
            self.reader.poll_read(cx, self.after, READ_BATCH).map(|found| self.take_over(found))
        } else {
            let found = self.reader.log().read(self.after, READ_BATCH);
            if matches!(found, Read::UpToDate) { Poll::Pending } else { Poll::Ready(self.take_over(found)) }
        }
    }

    /// The name of the log that it reads, for [`Event::to_json`](crate::Event::to_json).
    pub fn log(&self) -> &LogId {
        self.reader.log().id()
    }

    /// Where it is: all up to here was delivered, passed over by the filter, or told as missed.
    ///
    /// [`Since::Cursor`] goes on from here, in this process or in another.
    pub fn cursor(&self) -> Cursor {
        Cursor { log: self.reader.log().id().clone(), seq: self.after }
    }

    /// Finds the next event among the records that were taken over; false where there is none.
    fn advance(&mut self) -> bool {
        let Self { filter, after, taken, found, .. } = self;
        let Some(entries) = taken else { return false };
        let wanted = |entry: &Entry| {
            *after = entry.seq;
            filter.matches(entry)
        };
        let is_found = match found {
            Some(event) => entries.next_into(&mut event.0, wanted),
            None => {
                *found = entries.next_where(wanted).map(Event);
                found.is_some()
            }
        };
        if is_found {
            return true;
        }
        // Given back at once, so that a sleeper holds nothing.
        (*taken, *found) = (None, None);
        if let Some(end) = self.page_end.take() {
            self.after = self.after.max(end);
        }
        false
    }

    fn lend(&self, next: Next) -> Result<Delivery<&Event>, TryNextError> {
        match next {
            Next::Found => self.found.as_ref().map(Delivery::Event).ok_or(TryNextError::Empty),
            Next::Told(told) => Ok(told.map(|never| match never {})),
            Next::Closed => Err(TryNextError::Closed),
        }
    }

    /// Goes on with a page that is being read, if there is one. What it had is taken over, or told.
    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Option<Delivery<Infallible>>> {
        let Some(reading) = self.reading.as_mut() else { return Poll::Ready(None) };
        let Poll::Ready(read) = reading.as_mut().poll(cx) else { return Poll::Pending };
        self.reading = None;
        let page = match read {
            Ok(page) => page,
            Err(problem) => {
                self.is_over = true;
                return Poll::Ready(Some(Delivery::Unreadable { at: self.after.next(), problem }));
            }
        };
        self.page_end = Some(page.last);
        self.taken = Entries::of(self.reader.log().id().clone(), page.entries);
        // Below what is kept there as well: that is told, and then what is there comes.
        let from = self.after.next();
        if page.oldest > from {
            self.after = Seq(page.oldest.0 - 1);
            let missed = page.oldest.0 - from.0;
            return Poll::Ready(Some(Delivery::Lagged { from, to: self.after, missed }));
        }
        if self.taken.is_none() {
            self.after = self.after.max(page.last);
            self.page_end = None;
        }
        Poll::Ready(None)
    }

    /// Goes on with what the log had; `None` where that is records to look through.
    fn take_over(&mut self, found: Read) -> Option<Next> {
        match found {
            Read::Entries(entries) => {
                self.taken = Some(entries);
                None
            }
            Read::Behind { .. } if self.pages.is_some() => {
                let pages = self.pages.as_ref();
                self.reading = pages.map(|pages| pages.page(self.after.next(), READ_BATCH));
                None
            }
            Read::Behind { oldest } => {
                let from = self.after.next();
                self.after = Seq(oldest.0.saturating_sub(1));
                let missed = oldest.0.saturating_sub(from.0);
                Some(Next::Told(Delivery::Lagged { from, to: self.after, missed }))
            }
            Read::UpToDate => None,
            Read::Closed => Some(Next::Closed),
        }
    }
}

/// What a look came to.
enum Next {
    /// An event.
    Found,
    /// Something else.
    Told(Delivery<Infallible>),
    /// Nothing, and nothing will come.
    Closed,
}

/// The place of a client's cursor, if it can be one of this log.
fn place(log: &Log, cursor: Cursor) -> Result<Seq, SubscribeError> {
    if cursor.log != *log.id() {
        return Err(SubscribeError::OtherLog { cursor: cursor.log, log: log.id().clone() });
    }
    let head = log.head();
    if cursor.seq > head {
        return Err(SubscribeError::Regressed { at: cursor.seq, head });
    }
    Ok(cursor.seq)
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("log", self.reader.log().id())
            .field("after", &self.after)
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}
