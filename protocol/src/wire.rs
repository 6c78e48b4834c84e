//! What a client and a daemon say to each other: frames, and the messages in them. `docs/protocol.md` is for those who
//! speak it without this crate.
//!
//! A frame is its length, four bytes with the highest first, and as many bytes of MessagePack with field names. The
//! first frame of a client is a [`Hello`], the first of the service a [`Welcomed`]; then come [`Asked`] and [`Told`].
//! Nothing here waits or reads from anywhere.

mod answer;
mod call;
mod frame;
mod hello;

pub use answer::{
    Answer, Cancelled, GroupInfo, Item, Launched, OutputPage, ServiceState, StatusInfo, Told, Waited,
};
pub use call::{
    After, Asked, Call, CancelCall, EventFilter, JobCall, LaunchCall, NewJob, OpenSession, OutputCall,
    Request, Since, StopWhat, Subscribe, WaitCall,
};
pub use frame::{FrameError, decode, encode, item_head, take};
pub use hello::{Hello, Range, Refused, VERSIONS, Welcome, Welcomed, agree};
