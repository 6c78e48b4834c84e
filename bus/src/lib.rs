//! What people watch fanin with: subscriptions to its log, filtered, from a place that is theirs.
//!
//! The bus informs and decides nothing. A subscription is a cursor over the log: it sees the records in order, and
//! where it was too slow it is told how many it missed. Nothing waits for it, and nothing depends on what it reads.
//!
//! ```
//! use std::sync::Arc;
//!
//! use fanin_bus::{Delivery, Filter, Since, Subscription};
//! use fanin_machine::log::Log;
//! use fanin_protocol::record::SessionOpened;
//! use fanin_protocol::{About, Entry, LogId, Seq, SessionId};
//!
//! let log = Arc::new(Log::new(LogId::parse("log")?, 64));
//! let mut events = Subscription::new(log.clone(), Filter::session("main"), Since::Start)?;
//!
//! let main = SessionId::parse("main")?;
//! log.append(&mut vec![Entry {
//!     seq: Seq(1),
//!     ts_ms: 0,
//!     about: About::of(Some(main.clone()), None).into(),
//!     run: None,
//!     record: SessionOpened { session: main, profile: Default::default(), bounds: Default::default() }.into(),
//! }]);
//! let Ok(Delivery::Event(event)) = events.try_next() else { panic!("an event") };
//! assert_eq!((event.kind(), events.cursor().to_string()), ("session.opened", "log:1".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod event;
mod filter;
mod pages;
mod snapshot;
mod subscription;

pub use event::{Delivery, Event};
pub use fanin_machine::log::EncodeError;
pub use filter::{Filter, FilterError};
pub use pages::{Page, PageFuture, Pages};
pub use snapshot::Snapshot;
pub use subscription::{Since, SubscribeError, Subscription, TryNextError};
