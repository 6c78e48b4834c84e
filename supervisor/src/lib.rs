//! Launch many background jobs, be woken once.
//!
//! A [`Supervisor`] runs jobs, each as a task of its own, and counts launched against finished. A [`Session`] is the
//! parent: it launches a group and goes on with its work; when all jobs of the group are over, however they ended, it
//! is woken exactly once with one combined result in launch order.
//!
//! ```
//! use fanin_supervisor::{JobSpec, Supervisor};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let supervisor = Supervisor::builder().start().await?;
//! let session = supervisor.session("main").await?;
//! session
//!     .fan_out([
//!         JobSpec::run("scan", |_| async { Ok("42 files".into()) }),
//!         JobSpec::run("lint", |_| async { Err(fanin_supervisor::JobError::new("2 warnings")) }),
//!     ])
//!     .await?;
//! // The parent does other work here.
//! let wake = session.next_wake().await?;
//! assert_eq!(wake.result().counts.completed, 1);
//! assert_eq!(wake.result().counts.error, 1);
//! wake.ack().await?;
//! supervisor.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod body;
mod builder;
mod call_rate;
mod chance;
mod clock;
mod committed;
mod context;
mod core;
mod find;
mod follow;
mod foreground;
mod handle;
mod head_tail;
mod hosted;
pub mod journal;
mod launched;
mod launcher;
mod limits;
mod lines;
mod mailbox;
mod message;
mod needs;
mod offered;
mod output;
mod outputs;
mod page;
mod pages;
mod past;
mod recover;
mod run_output;
mod runner;
mod scope;
mod session;
mod spec;
mod stop;
pub mod stored;
mod stored_follow;
mod supervisor;
#[cfg(feature = "testing")]
pub mod testing;
mod token;
mod turn;
mod voice;
mod wait;
mod wake;
mod writer;

pub use builder::{Builder, StartError};
pub use call_rate::CallRate;
pub use clock::{Clock, SystemClock};
pub use context::RunContext;
pub use core::CallError;
pub use fanin_bus::{
    Delivery, Event, Filter, FilterError, Since, Snapshot, SubscribeError, Subscription, TryNextError,
};
pub use fanin_machine::{
    Background, Bound, GroupInfo, JobFilter, Mail, Named, NotAccepted, Promotion, Refusal, StopTarget,
};
pub use fanin_protocol as protocol;
pub use find::{Candidates, FindError};
pub use follow::{Follow, OutputError};
pub use foreground::{Backgrounded, Call, Foreground, Returned, RunError};
pub use head_tail::HeadTail;
pub use launched::{Group, GroupResult, Job};
pub use launcher::{LaunchError, Launcher};
pub use mailbox::Mailbox;
pub use message::{Message, Queued, Words};
pub use offered::Offered;
pub use output::JobOutput;
pub use page::OutputPage;
pub use runner::{Ending, Failure, RunFuture, Runner};
pub use session::{Owing, Session, SessionOptions};
pub use spec::{After, GroupOptions, JobError, JobSpec};
pub use stop::{StopSignal, StopStage};
pub use supervisor::{Cancelled, SessionError, Standings, Supervisor};
pub use token::{KnownRun, RunToken};
pub use turn::Turn;
pub use voice::{ToolCall, Used, Voice};
pub use wait::{WaitError, Waited};
pub use wake::Wake;
