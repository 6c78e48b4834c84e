//! Types of fanin on the wire and on disk, and how they are encoded.
//!
//! Nothing here waits, reads a clock or touches the outside: a reader of a log, a client in
//! another process and the supervisor itself share these definitions and nothing else.

pub mod budget;
pub mod cause;
pub mod envelope;
pub mod event;
pub mod fault;
pub mod id;
pub mod job;
pub mod job_limits;
pub mod layout;
pub mod limits;
pub mod parent;
pub mod part;
pub mod plan;
pub mod policy;
pub mod private;
pub mod process;
pub mod profile;
pub mod record;
pub mod result;
pub mod rights;
mod row;
pub mod shared_limits;
pub mod spec;
pub mod text;
pub mod watch;
pub mod wire;

pub use budget::{Account, Budget, Dimension, Spent};
pub use cause::{Cause, Code, Status};
pub use envelope::{DecodeError, Envelope, FORMAT_VERSION, Ids};
pub use event::{About, Cursor, Entry, Within};
pub use fault::Fault;
pub use id::{Fence, GroupId, IdError, JobId, Lifetime, LogId, MessageId, Named, NodeId, Seq, SessionId};
pub use job::{Background, Firings, JobFilter, JobInfo, JobKind, JobList, Promotion, Reason};
pub use job_limits::Resume;
pub use layout::LayoutError;
pub use parent::{PARENT_VARIABLE, ParentMark, ParentMarkError};
pub use part::{PartKind, PartState, ToolPart};
pub use plan::{
    DEPENDENCIES_VARIABLE, Dependencies, Directions, Edges, Need, OnFailedDependency, PlanProblem, Tie,
};
pub use policy::{Policy, Threshold};
pub use private::Private;
pub use process::{Containment, Left, LeftProcess};
pub use profile::{Bounds, BoundsError, Profile};
pub use record::Record;
pub use result::{CombinedResult, Counts, Outcome, Output, ResultEntry};
pub use rights::{RIGHTS_VARIABLE, Rights};
pub use row::RowKind;
pub use shared_limits::SharedLimits;
pub use spec::{AgentSpec, CommandLine, CommandSpec, JobLimits, Spec};
pub use watch::{Hit, WatchSpec, Watched, When};
