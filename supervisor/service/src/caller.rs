//! Who a client is, and what follows for what it may do (SEC-3, SEC-4, SEC-5). A client that is part of a job acts for that
//! job alone: it launches below it where its depth allows, waits for that, and stops that; it reads what all may read.

use fanin_protocol::wire::{Call, NewJob, OpenSession, StopWhat};
use fanin_protocol::{
    Fault, JobFilter, JobId, JobInfo, Named, NodeId, ParentMark, Profile, Rights, SessionId, Spec,
};
use fanin_supervisor::{CallError, KnownRun, Launcher, Supervisor};
use parking_lot::Mutex;

use crate::fault::{AsFault, CallFault};

/// Who is at the other end, as far as the transport says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// This process: a pipe in memory.
    Own,
    /// The process with this number.
    Process(u32),
}

impl Peer {
    /// Its number; none of our own, of which several clients may be.
    pub(crate) const fn pid(self) -> Option<u32> {
        match self {
            Self::Own => None,
            Self::Process(pid) => Some(pid),
        }
    }
}

/// What is said of a process by those above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The innermost job that it is part of, where that is none that this service is part of itself.
    pub parent: Option<ParentMark>,
    /// What agents may do at the most that are started from there.
    pub rights: Rights,
}

impl Default for Origin {
    /// Part of nothing.
    fn default() -> Self {
        Self { parent: None, rights: Rights::Full }
    }
}

/// Who a client is.
#[derive(Debug)]
pub(crate) struct Caller {
    part_of: PartOf,
    rights: Rights,
    /// Sessions that it has opened, where it may use no others.
    opened: Mutex<Vec<SessionId>>,
}

#[derive(Debug)]
enum PartOf {
    Nothing,
    /// A run of this supervisor.
    Run(KnownRun),
    /// A job of another one.
    Foreign(ParentMark),
}

/// Sessions that one client of another supervisor's job may open.
const OPENED_MAX: usize = 64;

impl Caller {
    /// Looks who it is: by its token, and by the processes above it. The deeper of both counts.
    pub(crate) fn of(
        supervisor: &Supervisor,
        token: Option<&str>,
        origin: Origin,
    ) -> Result<Self, CallError> {
        let by_token = token.map(|token| supervisor.run_of(token)).transpose()?.flatten();
        let by_process = origin.parent.as_ref().map(|mark| supervisor.run_in(mark)).transpose()?.flatten();
        let run = match (by_token, by_process) {
            (Some(token), Some(process)) if process.depth > token.depth => Some(process),
            (token, process) => token.or(process),
        };
        let part_of = match (run, origin.parent) {
            (Some(run), _) => PartOf::Run(run),
            (None, Some(mark)) => PartOf::Foreign(mark),
            (None, None) => PartOf::Nothing,
        };
        Ok(Self { part_of, rights: origin.rights, opened: Mutex::default() })
    }

    /// Who launches and waits where a call names this session.
    pub(crate) fn launcher(
        &self,
        supervisor: &Supervisor,
        session: Option<&SessionId>,
    ) -> Result<Launcher, Fault> {
        match (&self.part_of, session) {
            (PartOf::Nothing, Some(session)) => Ok(Launcher::clone(&supervisor.opened(session.clone()))),
            (PartOf::Foreign(_), Some(session)) if self.opened.lock().contains(session) => {
                Ok(Launcher::clone(&supervisor.opened(session.clone())))
            }
            (PartOf::Nothing | PartOf::Foreign(_), None) => Err(CallFault::SessionMissing.into()),
            (PartOf::Foreign(_), Some(_)) => Err(self.may_not("use a session that it has not opened")),
            (PartOf::Run(run), None) => match supervisor.launcher_of(run).map_err(|error| error.fault())? {
                Some(launcher) => Ok(launcher),
                None => Err(self.may_not("do anything more: its run is over")),
            },
            (PartOf::Run(_), Some(_)) => Err(self.may_not("act for a session")),
        }
    }

    /// What it may open, of what it asks for: no deeper than it is allowed itself.
    pub(crate) fn session(&self, mut open: OpenSession) -> Result<OpenSession, Fault> {
        match &self.part_of {
            PartOf::Nothing => Ok(open),
            PartOf::Run(_) => Err(self.may_not("open a session: it launches below itself")),
            PartOf::Foreign(_) if open.session.is_some() => {
                Err(self.may_not("choose the id of a session: it may be one that is there"))
            }
            PartOf::Foreign(_) if self.opened.lock().len() >= OPENED_MAX => {
                Err(self.may_not("open more sessions over one connection"))
            }
            PartOf::Foreign(mark) => {
                let left = mark.depth_max.saturating_sub(mark.depth);
                if left == 0 {
                    return Err(self.may_not("launch: it is as deep as may be"));
                }
                let mut bounds =
                    open.bounds.unwrap_or_else(|| Profile::bounds(open.profile.unwrap_or_default()));
                bounds.depth = bounds.depth.min(left);
                open.bounds = Some(bounds);
                Ok(open)
            }
        }
    }

    /// It has opened this one.
    pub(crate) fn has_opened(&self, session: &SessionId) {
        if let PartOf::Foreign(_) = self.part_of {
            self.opened.lock().push(session.clone());
        }
    }

    /// Refuses jobs that may do more than the client itself.
    pub(crate) fn check_jobs(&self, jobs: &[NewJob]) -> Result<(), Fault> {
        if self.rights == Rights::Full {
            return Ok(());
        }
        for job in jobs {
            match &job.spec {
                // One that only looks at a job runs nothing.
                Spec::Watch(watch) if watch.command().is_none() => {}
                Spec::Command(_) | Spec::Watch(_) => {
                    let what = format!(
                        "launch a command: that needs the rights `full`, and it has `{}`",
                        self.rights
                    );
                    return Err(self.may_not(&what));
                }
                Spec::Agent(agent) if agent.rights.is_none_or(|rights| rights > self.rights) => {
                    let what = format!("launch an agent with more rights than its own, `{}`", self.rights);
                    return Err(self.may_not(&what));
                }
                Spec::Agent(_) => {}
            }
        }
        Ok(())
    }

    /// Refuses what changes something that is not the client's.
    pub(crate) fn check(&self, supervisor: &Supervisor, call: &Call) -> Result<(), Fault> {
        if let PartOf::Nothing = self.part_of {
            return Ok(());
        }
        let job = |job: &JobId| self.check_job(supervisor, job, call.name());
        match call {
            Call::Cancel(cancel) => match &cancel.what {
                StopWhat::Job(named) => job(&named.job),
                StopWhat::Group(_) => Err(self.may_not("cancel a group: it cancels jobs below it")),
            },
            Call::Extend { job: named, .. } | Call::ExtendTime { job: named, .. } => job(named),
            Call::Promote(Named::Job(named)) => job(named),
            Call::Promote(_) => Err(self.may_not("promote what is no job below it")),
            Call::Post { session, .. }
            | Call::CloseSession { session }
            | Call::TurnBegin { session }
            | Call::NextMessage { session } => {
                if self.opened.lock().contains(session) {
                    Ok(())
                } else {
                    Err(self.may_not("act for a session that it has not opened"))
                }
            }
            Call::Shutdown { .. } => Err(self.may_not("end the service")),
            // They ask for a launcher, or change nothing.
            Call::OpenSession(_)
            | Call::Launch(_)
            | Call::Run { .. }
            | Call::FanOutBegin(_)
            | Call::FanOutAdd { .. }
            | Call::FanOutCommit { .. }
            | Call::WaitAll(_)
            | Call::WaitAny(_)
            | Call::WaitGroup { .. }
            | Call::NextWake { .. }
            | Call::Ack { .. }
            | Call::Release { .. }
            | Call::TurnEnd { .. }
            | Call::List(_)
            | Call::Get(_)
            | Call::Why(_)
            | Call::Group { .. }
            | Call::Find { .. }
            | Call::Progress { .. }
            | Call::Output(_)
            | Call::Follow(_)
            | Call::Subscribe(_)
            | Call::Account(_)
            | Call::Status => Ok(()),
        }
    }

    /// Refuses a job that does not hang below the client.
    fn check_job(&self, supervisor: &Supervisor, job: &JobId, name: &str) -> Result<(), Fault> {
        let info = supervisor.get(job).map_err(|error| error.fault())?;
        let is_below = match &self.part_of {
            PartOf::Nothing => true,
            PartOf::Run(run) => is_below(supervisor, run, &info)?,
            PartOf::Foreign(_) => self.opened.lock().contains(&info.session),
        };
        if is_below { Ok(()) } else { Err(self.may_not(&format!("{name} a job that is not below it"))) }
    }

    fn may_not(&self, what: &str) -> Fault {
        let job = match &self.part_of {
            PartOf::Nothing => "none".to_owned(),
            PartOf::Run(run) => run.job.to_string(),
            PartOf::Foreign(mark) => mark.job.to_string(),
        };
        CallFault::PartOfJob { job, what: what.to_owned() }.into()
    }
}

fn is_below(supervisor: &Supervisor, run: &KnownRun, info: &JobInfo) -> Result<bool, Fault> {
    let below = Some(NodeId::Job(run.job.clone()));
    let filter = JobFilter { below, from: Some(info.lifetime), limit: 1, ..JobFilter::default() };
    let first = supervisor.list(&filter).map_err(|error| error.fault())?;
    Ok(first.jobs.first().is_some_and(|job| job.lifetime == info.lifetime))
}
