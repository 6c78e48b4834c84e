//! Launches: in one frame or, where they are too large for one, in parts; and in the foreground.

use std::time::Duration;

use bytes::BytesMut;
use fanin_protocol::limits::FRAME_BYTES_MAX;
use fanin_protocol::spec::millis;
use fanin_protocol::wire::{self, Answer, Call, Item, LaunchCall, Launched, NewJob};

use crate::client::Client;
use crate::connection::Pending;
use crate::error::ClientError;
use crate::offered::{Given, GroupResult, Offered};

/// Bytes of jobs in one part, but for one that is larger alone.
const PART_BYTES: usize = FRAME_BYTES_MAX / 4;

impl Client {
    /// Launches a group: all of its jobs exist then, or none. One that is too large for a frame goes in parts.
    ///
    /// With an id of its group the same launch can be made again where its answer was lost: what is there is answered.
    ///
    /// # Errors
    ///
    /// [`ClientError::Call`]: nothing exists. [`ClientError::Lost`]: whether it exists is not known.
    ///
    /// # Cancel safety
    ///
    /// Dropped, whether the group exists is not known; in parts, none does before the last one was sent.
    pub async fn launch(&self, mut launch: LaunchCall) -> Result<Launched, ClientError> {
        let connection = self.connection().await?;
        let mut parts = parts(std::mem::take(&mut launch.jobs))?;
        if parts.len() <= 1 {
            launch.jobs = parts.pop().unwrap_or_default();
            return launched(connection.ask(Call::Launch(launch)).await?).await;
        }
        let mut begun = connection.ask(Call::FanOutBegin(launch)).await?;
        begun.end().await?;
        let mut fan_out = Given::of(&begun);
        for jobs in parts {
            connection.ask(Call::FanOutAdd { of: fan_out.id(), jobs }).await?.end().await?;
        }
        let launched = launched(connection.ask(Call::FanOutCommit { of: fan_out.id() }).await?).await?;
        fan_out.is_gone();
        Ok(launched)
    }

    /// Launches a group in the foreground: it is launched and waited for in one step, so that no job ever runs without its
    /// waiter. It comes back with the jobs, whose end is [`Foreground::returned`].
    ///
    /// # Errors
    ///
    /// As [`Client::launch`].
    ///
    /// # Cancel safety
    ///
    /// As [`Client::launch`].
    pub async fn run(
        &self,
        launch: LaunchCall,
        limit: impl Into<Option<Duration>>,
    ) -> Result<Foreground, ClientError> {
        let limit_ms = limit.into().map(millis);
        let mut pending = self.ask(Call::Run { launch, limit_ms }).await?;
        match pending.item().await {
            Some(Item::Launched(launched)) => Ok(Foreground { launched, pending }),
            Some(_) => Err(pending.unexpected()),
            None => match pending.end().await {
                Ok(_) => Err(pending.unexpected()),
                Err(error) => Err(error),
            },
        }
    }
}

async fn launched(mut pending: Pending) -> Result<Launched, ClientError> {
    match pending.end().await? {
        (Answer::Launched(launched), _) => Ok(launched),
        _ => Err(pending.unexpected()),
    }
}

/// The jobs in parts that fit into a frame.
fn parts(jobs: Vec<NewJob>) -> Result<Vec<Vec<NewJob>>, ClientError> {
    let (mut parts, mut part, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut room = BytesMut::new();
    for job in jobs {
        room.clear();
        wire::encode(&job, &mut room)?;
        if bytes + room.len() > PART_BYTES && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += room.len();
        part.push(job);
    }
    parts.push(part);
    Ok(parts)
}

/// A foreground call whose jobs exist. Dropped, it stops none of them; their result then comes as a wake.
#[derive(Debug)]
#[must_use = "a call that is dropped is in the background"]
pub struct Foreground {
    launched: Launched,
    pending: Pending,
}

/// How a foreground call came back.
#[derive(Debug)]
pub enum Returned {
    /// All of its jobs are over.
    Over(Offered<GroupResult>),
    /// Its jobs go on in the background.
    Background {
        /// True where it was promoted, and false where its limit passed.
        promoted: bool,
    },
}

impl Foreground {
    /// What it launched, or found.
    pub const fn launched(&self) -> &Launched {
        &self.launched
    }

    /// Waits until its jobs are over, it is promoted, or its limit has passed.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; the jobs go on.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the call has left: the jobs go on, and their result comes as a wake.
    pub async fn returned(mut self) -> Result<Returned, ClientError> {
        let (answer, _) = self.pending.end().await?;
        match answer {
            Answer::Group { result, already_delivered } => {
                let found = GroupResult { result, already_delivered };
                Ok(Returned::Over(Offered::new(found, Given::of(&self.pending))))
            }
            Answer::Background { promoted } => Ok(Returned::Background { promoted }),
            _ => Err(self.pending.unexpected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use fanin_protocol::CommandSpec;

    use super::*;

    #[test]
    fn jobs_go_in_parts_that_fit_in_order_and_none_is_left_out() {
        let job =
            |n: usize| NewJob::new(n.to_string(), CommandSpec::shell("x".repeat(n * 99_991 % 700_000 + 1)));
        let jobs: Vec<NewJob> = (0..60).map(job).collect();
        let parts = parts(jobs.clone()).unwrap();
        assert!(parts.len() > 5);
        for part in &parts {
            let mut bytes = BytesMut::new();
            wire::encode(&Call::FanOutAdd { of: u64::MAX, jobs: part.clone() }, &mut bytes).unwrap();
        }
        assert_eq!(parts.concat(), jobs);
        assert_eq!(
            super::parts(Vec::new()).unwrap(),
            [Vec::new()],
            "a launch of nothing is asked, and refused"
        );
    }
}
