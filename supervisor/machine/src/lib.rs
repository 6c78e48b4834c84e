//! The pure state machine of fanin.
//!
//! [`step`] takes a command and the time, and gives records and effects. It knows no runtime, reads no clock, does
//! no I/O and draws no chance, so that its states can be searched whole and any host can drive it. Beside it stand
//! the few parts with threads: the guard, the pump and the log.

mod activity;
mod again;
mod autonomy;
mod bounds;
mod circuit;
mod clock;
mod command;
mod dispatch;
mod effect;
mod epoch;
mod evict;
mod fence;
mod fold;
mod foreground;
mod group;
pub mod guard;
mod inbox;
mod intake;
mod job;
mod launch;
mod lend;
mod limit;
pub mod log;
mod mail;
mod message;
mod out;
mod plan;
pub mod pump;
mod quiet;
mod quota;
mod repeats;
mod report;
mod result;
mod retry;
mod rows;
mod run;
mod session;
mod state;
mod step;
mod stop;
mod stored;
mod sweep;
pub mod sync;
mod timer;
mod timers;
mod tree;
mod view;
mod waiter;
mod watch;
pub mod why;

pub use clock::{Mono, Now};
pub use command::{
    Bound, Close, Command, Ended, Launch, Launched, Leave, Limit, Member, NotAccepted, Open, Parent, Post,
    PostTarget, Posting, Rate, Refusal, Release, Reply, Report, RunNode, RunRef, Said, SessionCommand,
    SessionOpen, Stop, StopTarget, Stopped, Take, WaiterId, Wanted,
};
pub use effect::{Answer, Effect, Forgotten, KillStage};
pub use fanin_protocol::{Background, JobFilter, Named, Promotion};
pub use fold::FoldError;
pub use foreground::PromoteTarget;
pub use mail::Mail;
pub use out::Out;
pub use rows::{EncodeRowError, RestoreError, RowBody, RowChange};
pub use state::{Facts, GroupKey, JobKey, SessionKey, State};
pub use step::step;
pub use stored::{GroupInfo, JobRow};
pub use view::Held;
