//! The supervisor of one server, once there is one: its session, and the groups that were launched over the connection.

use std::sync::Arc;

use fanin_protocol::limits::{GATE_PAUSE, GATE_WAIT, MCP_TELL_WAIT};
use fanin_protocol::{Bounds, GroupId, JobId, Profile, Reason, SessionId};
use fanin_supervisor::{
    CallError, Group, JobFilter, LaunchError, Session, SessionError, SessionOptions, Supervisor,
};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use crate::calls::{Delivery, Owed};
use crate::fault::ToolError;
use crate::host::{Host, StartFailed};
use crate::reply::{Fired, Listed, Over, Running as Goes};

/// What is there once something was launched.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) supervisor: Supervisor,
    pub(crate) session: Session,
    /// In launch order; there are as many as a session of a model may have jobs, at the most. Held while something is
    /// launched: its jobs can be seen before their launch has returned, and whoever has seen them finds their group.
    groups: Mutex<Groups>,
    /// One answer at a time looks for what it could tell.
    telling: Mutex<()>,
    /// The parent is in a turn, and hears what a call answers. Always so of one whose turns nobody sees.
    in_turn: watch::Sender<bool>,
}

/// What a parent may launch. A single job is a group of one here, with a key of its own.
pub(crate) const BOUNDS: Bounds = Bounds { group_min: 1, ..Profile::Agent.bounds() };

/// All groups, and whether there may be more.
#[derive(Debug, Default)]
struct Groups {
    all: Vec<Group>,
    is_closed: bool,
}

/// What an id names.
#[derive(Debug, Clone)]
pub(crate) enum Named {
    Group(Group),
    Job(JobId),
}

impl Running {
    /// Starts the supervisor.
    ///
    /// # Errors
    ///
    /// [`ToolError`]; nothing is there then.
    pub(crate) async fn start(host: &impl Host) -> Result<Self, ToolError> {
        let supervisor = host.start().await?;
        let failed = |error: SessionError| StartFailed { code: error.code(), message: error.to_string() };
        // A result that comes with the answer to a call wakes nobody: the parent was at work already.
        let bounds = Bounds { wakes: None, wakes_per_minute: None, budget: host.session_budget(), ..BOUNDS };
        Ok(Self::of(supervisor, host.session(), bounds).await.map_err(failed)?)
    }

    /// What a supervisor runs for this session, within these bounds.
    ///
    /// # Errors
    ///
    /// [`SessionError`].
    pub(crate) async fn of(
        supervisor: Supervisor,
        session: SessionId,
        bounds: Bounds,
    ) -> Result<Self, SessionError> {
        let options = SessionOptions { profile: Some(Profile::Agent), bounds: Some(bounds) };
        let session = supervisor.session_with(session, options).await?;
        let (groups, telling) = (Mutex::default(), Mutex::default());
        let in_turn = watch::Sender::new(true);
        Ok(Self { supervisor, session, groups, telling, in_turn })
    }

    /// Launches, and notes the group that was launched or found.
    ///
    /// # Errors
    ///
    /// Those of the launch.
    pub(crate) async fn launch<T>(
        &self,
        launch: impl Future<Output = Result<T, LaunchError>>,
        group: impl Fn(&T) -> &Group,
    ) -> Result<T, ToolError> {
        let mut groups = self.groups.lock().await;
        if groups.is_closed {
            return Err(ToolError::Ending);
        }
        let launched = launch.await?;
        let group = group(&launched);
        if !groups.all.iter().any(|known| known.id() == group.id()) {
            groups.all.push(group.clone());
        }
        Ok(launched)
    }

    /// The parent's turn begins, or is over.
    pub(crate) fn set_turn(&self, is_open: bool) {
        self.in_turn.send_replace(is_open);
    }

    /// Waits until the parent is in no turn.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub(crate) async fn turn_over(&self) {
        // The sender is here, so that it ends with a turn alone.
        let _ = self.in_turn.subscribe().wait_for(|in_turn| !in_turn).await;
    }

    /// Launches nothing more from now on, if nothing is to come of what was launched. True where that is so: nothing was
    /// launched between the look and the end.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`].
    pub(crate) async fn close_when_done(&self) -> Result<bool, CallError> {
        let mut groups = self.groups.lock().await;
        let is_done = self.session.owing()?.is_nothing();
        groups.is_closed |= is_done;
        Ok(is_done)
    }

    /// All groups, in launch order.
    pub(crate) async fn groups(&self) -> Vec<Group> {
        self.groups.lock().await.all.clone()
    }

    /// What an id names here.
    pub(crate) async fn find(&self, id: &str) -> Option<Named> {
        let groups = self.groups.lock().await;
        if let Some(group) = groups.all.iter().find(|group| group.id().to_string() == id) {
            return Some(Named::Group(group.clone()));
        }
        groups.all.iter().flat_map(Group::jobs).find(|job| job.to_string() == id).cloned().map(Named::Job)
    }

    /// Groups whose result is still to come, or was not handed over yet.
    ///
    /// # Errors
    ///
    /// [`ToolError::Call`] where the supervisor is busy.
    pub(crate) async fn owing(&self) -> Result<Vec<Group>, ToolError> {
        let mut owing = Vec::new();
        for group in self.groups().await {
            if !self.why(&group).await?.is_empty() {
                owing.push(group);
            }
        }
        Ok(owing)
    }

    /// What a group or its result waits for; empty once that was handed over.
    ///
    /// # Errors
    ///
    /// [`ToolError::Call`] where the supervisor is busy.
    pub(crate) async fn why(&self, group: &Group) -> Result<Vec<Reason>, ToolError> {
        patiently(|| self.supervisor.why_group(group.id())).await
    }

    /// A group as it stands.
    ///
    /// # Errors
    ///
    /// [`ToolError::Call`] where the supervisor is busy.
    pub(crate) async fn look(&self, group: &GroupId) -> Result<Goes, ToolError> {
        let tasks = patiently(|| self.list(group)).await?;
        Ok(Goes { group: group.clone(), tasks })
    }

    fn list(&self, group: &GroupId) -> Result<Vec<Listed>, CallError> {
        let filter = JobFilter { group: Some(group.clone()), ..JobFilter::default() };
        Ok(self.supervisor.list(&filter)?.jobs.iter().map(Listed::new).collect())
    }

    /// The jobs of groups and single jobs as they stand; of what cannot be looked at now, none.
    pub(crate) fn tasks(&self, groups: &[Group], jobs: &[JobId]) -> Vec<Listed> {
        let looked = groups.iter().filter_map(|group| self.list(group.id()).ok());
        let single = jobs.iter().filter_map(|job| self.supervisor.get(job).ok());
        looked.flatten().chain(single.map(|info| Listed::new(&info))).collect()
    }

    /// Takes up the results that nobody waits for, to be told with the answer that is being made.
    pub(crate) async fn tell(&self, delivery: &mut Delivery) -> Vec<Over> {
        let _one = self.telling.lock().await;
        let mut told = Vec::new();
        while self.is_untold().await {
            // What somebody else takes up meanwhile does not come here.
            let wake = match tokio::time::timeout(MCP_TELL_WAIT, self.session.next_wake()).await {
                Ok(Ok(wake)) => wake,
                Ok(Err(_)) | Err(_) => break,
            };
            told.push(Over::new(wake.result(), false));
            delivery.push(Owed::Wake(wake));
        }
        told
    }

    /// Takes up what watches have seen, to be told with the answer that is being made.
    pub(crate) async fn tell_hits(&self, delivery: &mut Delivery) -> Vec<Fired> {
        let _one = self.telling.lock().await;
        let mut told = Vec::new();
        // A supervisor that stays busy is asked again with the next answer.
        let owed = self.session.owing().map_or(0, |owing| owing.hits);
        while told.len() < owed {
            // What another answer holds does not come here.
            let Ok(Ok(hit)) = tokio::time::timeout(MCP_TELL_WAIT, self.session.next_hit()).await else {
                break;
            };
            told.push(Fired::new(&hit));
            delivery.push(Owed::Hit(hit));
        }
        told
    }

    /// True where a group is a watch that is not over.
    ///
    /// # Errors
    ///
    /// [`ToolError::Call`] where the supervisor is busy.
    pub(crate) async fn is_watch(&self, group: &Group) -> Result<bool, ToolError> {
        let [job] = group.jobs() else { return Ok(false) };
        match patiently(|| self.supervisor.get(job)).await {
            Ok(info) => Ok(info.firings.is_some() && !info.status.is_terminal()),
            // It is over for so long that it has left the memory.
            Err(ToolError::Call(CallError::Refused(_))) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// True where a result is owed that nobody holds or waits for. A supervisor that stays busy is asked again with the
    /// next answer.
    async fn is_untold(&self) -> bool {
        for group in self.groups().await {
            if self.why(&group).await.is_ok_and(|why| why.contains(&Reason::Untaken)) {
                return true;
            }
        }
        false
    }
}

/// Looks, and again while the supervisor is busy: with a store a look is at what is committed, and a disk may be slow.
///
/// # Errors
///
/// Those of the look; [`CallError::Busy`] where it stays so.
pub(crate) async fn patiently<T, E: Into<ToolError>>(
    look: impl Fn() -> Result<T, E>,
) -> Result<T, ToolError> {
    let until = Instant::now() + GATE_WAIT;
    loop {
        let looked = look().map_err(Into::into);
        let is_busy = looked.as_ref().is_err_and(|error| error.is_busy());
        if !is_busy || Instant::now() > until {
            return looked;
        }
        tokio::time::sleep(GATE_PAUSE).await;
    }
}

/// Where a server keeps what it has started.
pub(crate) type Started = tokio::sync::OnceCell<Arc<Running>>;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test(start_paused = true)]
    async fn a_look_waits_for_a_busy_supervisor_and_not_for_ever() {
        let looks = AtomicU32::new(0);
        let looked = patiently(|| match looks.fetch_add(1, Ordering::Relaxed) {
            0..3 => Err(CallError::Busy),
            look => Ok(look),
        });
        assert_eq!(looked.await, Ok(3));
        let begun = Instant::now();
        let looked: Result<(), _> = patiently(|| Err(CallError::Busy)).await;
        assert_eq!(looked, Err(ToolError::Call(CallError::Busy)));
        assert_eq!(begun.elapsed().as_secs(), GATE_WAIT.as_secs());
        // Another refusal is none that time would change.
        let closed: Result<(), _> = patiently(|| Err(CallError::Closed)).await;
        assert_eq!(closed, Err(ToolError::Call(CallError::Closed)));
    }
}
