//! Streams of records and outputs: each over a connection of its own, so that being slow costs only itself, made again from
//! the place where it was.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use fanin_protocol::limits::{READ_BYTES, RECONNECT_EVERY};
use fanin_protocol::wire::{
    self, Answer, Asked, Call, Item, OutputCall, OutputPage, Request, Since, Subscribe, Told, Welcome,
};
use fanin_protocol::{Cursor, Lifetime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use crate::client::{Client, Shared};
use crate::connection::{Met, meet};
use crate::error::ClientError;

/// How long a stream tries to reach its service again, unless it is told otherwise.
const AGAIN_FOR: Duration = Duration::from_secs(10);

/// The first time between two tries; it doubles up to [`RECONNECT_EVERY`].
const FIRST_GAP: Duration = Duration::from_millis(20);

impl Client {
    /// Records from a place on. Nothing is connected before the first [`Events::next`].
    pub fn subscribe(&self, wanted: Subscribe) -> Events {
        Events { stream: Stream::new(Arc::clone(self.shared())), wanted, at: None }
    }

    /// What a job puts out, from an offset to its end. Nothing is connected before the first [`Pages::next`].
    pub fn follow(&self, wanted: OutputCall) -> Pages {
        Pages { stream: Stream::new(Arc::clone(self.shared())), wanted, run: 0 }
    }
}

/// Records of a service as they come. Dropped, it ends.
#[derive(Debug)]
pub struct Events {
    stream: Stream,
    wanted: Subscribe,
    at: Option<Cursor>,
}

impl Events {
    /// How long it tries to reach its service again once that is lost, or was not there; 10 s unless this says otherwise, and
    /// with zero not at all.
    #[must_use]
    pub const fn again_for(mut self, time: Duration) -> Self {
        self.stream.again_for = time;
        self
    }

    /// The place up to which everything was seen: where a later subscription goes on ([`Since::After`]). `None` before the
    /// first item that tells it.
    pub const fn cursor(&self) -> Option<&Cursor> {
        self.at.as_ref()
    }

    /// Who answers, once it is connected.
    pub const fn welcome(&self) -> Option<&Welcome> {
        self.stream.welcome.as_ref()
    }

    /// What comes next: events in order, each once, also where the connection broke between two of them; a snapshot that
    /// broke off begins anew. `None` once the service has ended and no other was reached in time.
    ///
    /// # Errors
    ///
    /// [`ClientError::Call`] where the filter or the place is refused, such as `other_log`; [`ClientError::NotRunning`] and
    /// [`ClientError::Lost`] where the service was not reached again in time.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what a dropped future did not return comes with the next call.
    pub async fn next(&mut self) -> Result<Option<Item>, ClientError> {
        loop {
            let wanted = match &self.at {
                Some(at) => Subscribe { since: Since::After(at.clone()), ..self.wanted.clone() },
                None => self.wanted.clone(),
            };
            match self.stream.next(|| Call::Subscribe(wanted)).await? {
                Next::Item(item) => {
                    self.pass(&item);
                    return Ok(Some(item));
                }
                // The service has ended; another may take its place.
                Next::End | Next::Again => {}
                Next::Gone => return Ok(None),
            }
        }
    }

    fn pass(&mut self, item: &Item) {
        let seq = match item {
            Item::Subscribed(cursor) => return self.at = Some(cursor.clone()),
            Item::Event(event) => event.seq,
            Item::Mark(seq) | Item::Gap { to: seq, .. } => *seq,
            Item::Launched(_) | Item::Jobs(_) | Item::Groups(_) | Item::Unreadable { .. } | Item::Page(_) => {
                return;
            }
        };
        if let Some(at) = &mut self.at {
            at.seq = seq;
        }
    }
}

/// What a job puts out, as it comes. Dropped, it ends.
#[derive(Debug)]
pub struct Pages {
    stream: Stream,
    wanted: OutputCall,
    run: u32,
}

impl Pages {
    /// As [`Events::again_for`].
    #[must_use]
    pub const fn again_for(mut self, time: Duration) -> Self {
        self.stream.again_for = time;
        self
    }

    /// The next part; `None` once the job is over and all was read. Where the job is tried again it goes on with the start
    /// of the new run: [`OutputPage::run`] is another then.
    ///
    /// # Errors
    ///
    /// As [`Events::next`].
    ///
    /// # Cancel safety
    ///
    /// As [`Events::next`].
    pub async fn next(&mut self) -> Result<Option<OutputPage>, ClientError> {
        loop {
            let wanted = self.wanted.clone();
            match self.stream.next(|| Call::Follow(wanted)).await? {
                Next::Item(Item::Page(page)) => {
                    if page.run != self.run && self.run != 0 && self.stream.is_first && page.offset != 0 {
                        // Another run began while the connection was broken: from its start.
                        (self.wanted.offset, self.run) = (0, 0);
                        self.stream.connected = None;
                        continue;
                    }
                    (self.wanted.offset, self.run) = (page.next, page.run);
                    return Ok(Some(page));
                }
                Next::Item(_) => return Err(ClientError::Unexpected { call: "follow" }),
                Next::Again => {}
                Next::End | Next::Gone => return Ok(None),
            }
        }
    }

    /// Follows this life of the job and no other.
    #[must_use]
    pub const fn in_lifetime(mut self, lifetime: Lifetime) -> Self {
        self.wanted.lifetime = Some(lifetime);
        self
    }
}

/// What a stream gives.
enum Next {
    Item(Item),
    /// It has ended in order.
    End,
    /// The connection broke.
    Again,
    /// It has ended in order before, and there is none any more.
    Gone,
}

/// A request with many answers, over a connection of its own.
#[derive(Debug)]
struct Stream {
    shared: Arc<Shared>,
    connected: Option<Connected>,
    welcome: Option<Welcome>,
    again_for: Duration,
    /// Since when nobody is reached, and the gap before the next try.
    lost: Option<(Instant, Duration)>,
    /// The last end was one in order.
    is_ended: bool,
    /// The item that was given last is the first of its connection.
    is_first: bool,
}

struct Connected {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    /// Kept open: a client that says nothing more is still one.
    _writer: Box<dyn AsyncWrite + Send + Unpin>,
    come: BytesMut,
    items: u64,
}

impl std::fmt::Debug for Connected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connected").field("items", &self.items).finish_non_exhaustive()
    }
}

impl Stream {
    const fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            connected: None,
            welcome: None,
            again_for: AGAIN_FOR,
            lost: None,
            is_ended: false,
            is_first: false,
        }
    }

    /// What comes next, over a connection that is made where there is none.
    async fn next(&mut self, call: impl FnOnce() -> Call) -> Result<Next, ClientError> {
        if self.connected.is_none() {
            let asked = call();
            loop {
                match self.connect(&asked).await {
                    Ok(connected) => {
                        self.connected = Some(connected);
                        break;
                    }
                    Err(error) if error.is_retryable() => {
                        let now = Instant::now();
                        let (since, gap) = *self.lost.get_or_insert((now, FIRST_GAP));
                        if now.duration_since(since) >= self.again_for {
                            return if self.is_ended { Ok(Next::Gone) } else { Err(error) };
                        }
                        self.lost = Some((since, (gap * 2).min(RECONNECT_EVERY)));
                        sleep(gap).await;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        let Some(connected) = self.connected.as_mut() else { return Ok(Next::Again) };
        let why = match connected.told().await {
            Ok(Told::Item { item, .. }) => {
                connected.items += 1;
                (self.is_first, self.lost) = (connected.items == 1, None);
                self.is_ended = false;
                return Ok(Next::Item(item));
            }
            Ok(Told::Reply { answer: Answer::Done, .. }) => {
                (self.connected, self.is_ended) = (None, true);
                return Ok(Next::End);
            }
            Ok(Told::Fault { fault, .. }) => {
                self.connected = None;
                return Err(fault.into());
            }
            Ok(Told::Reply { .. }) => return Err(ClientError::Unexpected { call: "stream" }),
            Ok(Told::Goodbye(fault)) => {
                self.is_ended = true;
                fault.message
            }
            Err(why) => why,
        };
        self.connected = None;
        self.lost.get_or_insert((Instant::now(), FIRST_GAP));
        if self.again_for.is_zero() {
            return if self.is_ended { Ok(Next::Gone) } else { Err(ClientError::Lost(why)) };
        }
        Ok(Next::Again)
    }

    async fn connect(&mut self, call: &Call) -> Result<Connected, ClientError> {
        let Met { reader, mut writer, come, welcome } = meet(&*self.shared.way, &self.shared.options).await?;
        let mut bytes = BytesMut::new();
        wire::encode(&Asked::Request(Request { id: 1, call: call.clone() }), &mut bytes)?;
        let sent = async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        sent.await.map_err(|error| ClientError::Lost(error.to_string()))?;
        self.welcome = Some(welcome);
        Ok(Connected { reader, _writer: writer, come, items: 0 })
    }
}

impl Connected {
    /// The next frame, or why there is none.
    async fn told(&mut self) -> Result<Told, String> {
        loop {
            match wire::take(&mut self.come) {
                Ok(Some(frame)) => return wire::decode(&frame).map_err(|error| error.to_string()),
                Ok(None) => {}
                Err(error) => return Err(error.to_string()),
            }
            self.come.reserve(READ_BYTES);
            match self.reader.read_buf(&mut self.come).await {
                Ok(0) => return Err("it was closed".to_owned()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}
