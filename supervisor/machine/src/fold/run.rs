//! Records of runs: of their start, their process, their tool calls and their end.

use fanin_protocol::record::{Next, RunEnded, RunOutcome, RunStarted};
use fanin_protocol::{Fence, JobKind, NodeId, ToolPart};

use super::{Applied, Near};
use crate::state::{Facts, LastRun, Meters, Node, OpenRun, Parts, RunDetails};

impl Facts {
    pub(super) fn run_started(&mut self, fence: Fence, ts_ms: u64, body: &RunStarted, hint: Near) -> Applied {
        let meters = |reserved| Box::new(Meters::new(ts_ms, reserved));
        let meters = body.reserved_usd_micros.map(meters);
        let open = |bound| OpenRun { fence, bound, parts: Parts::default(), used: false, meters };
        match &body.node {
            NodeId::Session(id) => {
                let key = self.session_key(id).ok_or("its session is not known")?;
                let session = self.find_session(id)?;
                if session.closed || session.turn.is_some() {
                    return Err("the session is closed or in a turn");
                }
                session.turn = Some(open(true));
                session.turns += 1;
                self.opened(fence, Node::Session(key));
                Ok(self.about(Node::Session(key)))
            }
            NodeId::Job(id) => {
                let (key, job) = self.find_job(id, hint)?;
                if !job.awaits_start() {
                    return Err("the job does not wait for a start");
                }
                job.run = Some(open(job.kind == JobKind::Closure));
                job.runs += 1;
                job.started_at_ms.get_or_insert(ts_ms);
                let session = job.session;
                self.opened(fence, Node::Job(key));
                self.reserve(key, body.reserved_usd_micros.unwrap_or(0));
                self.running += 1;
                self.queued -= 1;
                if let Some(session) = self.sessions.get_mut(session.index()) {
                    session.running += 1;
                    session.queued -= 1;
                }
                Ok(self.about_job(key))
            }
        }
    }

    /// A run of the node began.
    pub(crate) fn opened(&mut self, fence: Fence, node: Node) {
        let (jobs, sessions) = (&self.jobs, &self.sessions);
        self.runs.insert(fence, node, |node| Self::fence_of(jobs, sessions, node));
    }

    pub(super) fn run_bound(&mut self, fence: Fence, hint: Near) -> Applied {
        let node = self.find_run(fence, hint)?;
        let run = self.open_run(node).ok_or("the run is not open")?;
        run.bound = true;
        Ok(self.about(node))
    }

    pub(super) fn run_ended(&mut self, body: &RunEnded, hint: Near) -> Applied {
        let node = self.find_run(body.run, hint)?;
        let run = self.open_run(node).ok_or("the run is not open")?;
        if run.parts.iter().any(|part| !part.state.is_terminal()) {
            return Err("a part of it is open");
        }
        let about = self.about(node);
        let (jobs, sessions) = (&self.jobs, &self.sessions);
        self.runs.remove(body.run, |node| Self::fence_of(jobs, sessions, node));
        match node {
            Node::Session(key) => {
                if let Some(session) = self.sessions.get_mut(key.index()) {
                    session.turn = None;
                }
            }
            Node::Job(key) => {
                self.running -= 1;
                let again = u32::from(matches!(body.next, Next::Retry { .. } | Next::Requeue));
                self.queued += again;
                let over = self.jobs.get_mut(key.index()).and_then(|job| job.run.take());
                if let Some(run) = over {
                    self.refund(key, &run, body.outcome == RunOutcome::Interrupted);
                }
                if let Some(job) = self.jobs.get_mut(key.index()) {
                    if body.next == Next::Requeue {
                        // An orderly stop is none of the host's crashes, and is over with the run.
                        let is_ordered = job.stop.take().is_some();
                        job.suspended += u32::from(is_ordered);
                        job.crashed += u32::from(!is_ordered);
                    }
                    job.last = Some(LastRun {
                        outcome: body.outcome,
                        cause: body.cause,
                        code: body.code,
                        details: details(body),
                    });
                    let session = job.session;
                    if let Some(session) = self.sessions.get_mut(session.index()) {
                        session.running -= 1;
                        session.queued += again;
                    }
                }
            }
        }
        Ok(about)
    }

    pub(super) fn part(&mut self, part: &ToolPart, hint: Near) -> Applied {
        let node = self.find_run(part.run, hint)?;
        let about = self.about(node);
        let run = self.open_run(node).ok_or("the run is not open")?;
        match run.parts.iter_mut().find(|known| known.call == part.call) {
            Some(known) if known.state.is_terminal() => return Err("the part is over"),
            Some(known) if part.state <= known.state => return Err("a part does not go back"),
            Some(known) => *known = part.clone(),
            None => run.parts.push(part.clone()),
        }
        Ok(about)
    }
}

/// What a run left to say, where it is anything.
fn details(body: &RunEnded) -> Option<Box<RunDetails>> {
    let RunEnded { message, exit, output, left, .. } = body;
    let retry_at_ms = match body.next {
        Next::Retry { not_before_ms } => Some(not_before_ms),
        // At once: the next opening starts it as soon as it has a slot.
        Next::Requeue => Some(0),
        Next::Settle => None,
    };
    let is_said =
        message.is_some() || exit.is_some() || output.is_some() || left.is_some() || retry_at_ms.is_some();
    is_said.then(|| {
        let (message, output, left) = (message.clone(), output.clone(), left.clone());
        Box::new(RunDetails { message, exit: *exit, output, left, retry_at_ms })
    })
}
