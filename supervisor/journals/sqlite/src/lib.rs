//! A journal in one SQLite database: committed means on disk, damage is told, and one process owns it.
//!
//! A store is a folder. Its database holds the log of records, a row for each thing that is known, and what jobs put out;
//! beside it lie a lock, a high-water mark that tells of records that vanished, and a file of ballast for the day when
//! the disk is full. How a store behaves, and what it survives: `docs/durability.md`.
//!
//! ```no_run
//! use fanin_sqlite::{Options, SqliteJournal};
//! use fanin_supervisor::Supervisor;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let journal = SqliteJournal::open("state/runs/one", &Options::default())?;
//! let supervisor = Supervisor::builder().journal(journal).start().await?;
//! # Ok(())
//! # }
//! ```

mod ballast;
mod check;
mod database;
mod failure;
mod hash;
mod journal;
mod layout;
mod mark;
mod mend;
mod meta;
mod outputs;
mod owner;
mod prune;
mod reader;
mod repair;
mod salvage;

pub use check::{Report, check};
pub use journal::{Options, SqliteJournal, Syncs};
pub use owner::Owner;
pub use reader::StoreReader;
pub use repair::{Repaired, repair_accept_loss, try_repair};
