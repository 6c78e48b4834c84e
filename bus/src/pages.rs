//! The seam to what is kept of a log outside of memory: a subscriber that is behind the tail reads there, a page at a
//! time. It decides nothing.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use fanin_protocol::{Entry, Seq};

/// A page on its way.
pub type PageFuture = Pin<Box<dyn Future<Output = Result<Page, Arc<str>>> + Send>>;

/// Reads records that are no longer in memory.
pub trait Pages: Send + Sync + fmt::Debug {
    /// Records from a place on, `max` at the most. The future may be polled from any executor; what reads the disk does
    /// so elsewhere.
    fn page(&self, from: Seq, max: usize) -> PageFuture;
}

/// Records of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The oldest record that is kept.
    pub oldest: Seq,
    /// The newest record that was looked at: one of a kind that this program does not know is passed over.
    pub last: Seq,
    /// In order, from the place that was asked for or from the oldest that is kept.
    pub entries: Vec<Entry>,
}
