//! The supervisor of one server, once there is one: its session, and the groups that were launched over the connection.

use std::sync::Arc;

use fanin_protocol::limits::MCP_TELL_WAIT;
use fanin_protocol::{Bounds, GroupId, JobId, Profile, Reason};
use fanin_supervisor::{Group, JobFilter, Session, SessionOptions, Supervisor};
use parking_lot::Mutex;

use crate::calls::{Delivery, Owed};
use crate::fault::ToolError;
use crate::host::Host;
use crate::reply::{Listed, Over, Running as Goes};

/// What is there once something was launched.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) supervisor: Supervisor,
    pub(crate) session: Session,
    /// In launch order; there are as many as a session of a model may have jobs, at the most.
    groups: Mutex<Vec<Group>>,
    /// One answer at a time looks for what it could tell.
    telling: tokio::sync::Mutex<()>,
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
        // A single job is a group of one here, with a key of its own.
        let bounds = Bounds { group_min: 1, ..Profile::Agent.bounds() };
        let options = SessionOptions { profile: Some(Profile::Agent), bounds: Some(bounds) };
        let session = supervisor.session_with(host.session(), options).await;
        let session = session.map_err(|error| {
            ToolError::Start(crate::host::StartFailed { code: error.code(), message: error.to_string() })
        })?;
        let (groups, telling) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Self { supervisor, session, groups, telling })
    }

    /// Notes a group that was launched, or found.
    pub(crate) fn note(&self, group: &Group) {
        let mut groups = self.groups.lock();
        if !groups.iter().any(|known| known.id() == group.id()) {
            groups.push(group.clone());
        }
    }

    /// All groups, in launch order.
    pub(crate) fn groups(&self) -> Vec<Group> {
        self.groups.lock().clone()
    }

    /// What an id names here.
    pub(crate) fn find(&self, id: &str) -> Option<Named> {
        let groups = self.groups.lock();
        if let Some(group) = groups.iter().find(|group| group.id().to_string() == id) {
            return Some(Named::Group(group.clone()));
        }
        groups.iter().flat_map(Group::jobs).find(|job| job.to_string() == id).cloned().map(Named::Job)
    }

    /// Groups whose result is still to come, or was not handed over yet.
    ///
    /// # Errors
    ///
    /// [`ToolError::Call`] where the supervisor is busy.
    pub(crate) fn owing(&self) -> Result<Vec<Group>, ToolError> {
        let mut owing = Vec::new();
        for group in self.groups() {
            if !self.supervisor.why_group(group.id())?.is_empty() {
                owing.push(group);
            }
        }
        Ok(owing)
    }

    /// A group as it stands.
    ///
    /// # Errors
    ///
    /// [`ToolError::Call`] where the supervisor is busy.
    pub(crate) fn look(&self, group: &GroupId) -> Result<Goes, ToolError> {
        let filter = JobFilter { group: Some(group.clone()), ..JobFilter::default() };
        let tasks = self.supervisor.list(&filter)?.jobs.iter().map(Listed::new).collect();
        Ok(Goes { group: group.clone(), tasks })
    }

    /// The jobs of groups and single jobs as they stand; of what cannot be looked at now, none.
    pub(crate) fn tasks(&self, groups: &[Group], jobs: &[JobId]) -> Vec<Listed> {
        let looked = groups.iter().filter_map(|group| self.look(group.id()).ok());
        let single = jobs.iter().filter_map(|job| self.supervisor.get(job).ok());
        looked.flat_map(|group| group.tasks).chain(single.map(|info| Listed::new(&info))).collect()
    }

    /// Takes up the results that nobody waits for, to be told with the answer that is being made.
    pub(crate) async fn tell(&self, delivery: &mut Delivery) -> Vec<Over> {
        let _one = self.telling.lock().await;
        let mut told = Vec::new();
        while self.is_untold() {
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

    /// True where a result is owed that nobody holds or waits for. A busy supervisor is asked again with the next answer.
    fn is_untold(&self) -> bool {
        let is_untaken = |group: &Group| {
            let why = self.supervisor.why_group(group.id());
            why.is_ok_and(|why| why.contains(&Reason::Untaken))
        };
        self.groups().iter().any(is_untaken)
    }
}

/// Where a server keeps what it has started.
pub(crate) type Started = tokio::sync::OnceCell<Arc<Running>>;
