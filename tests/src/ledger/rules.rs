//! Which record may not follow which. Each rule is written down once more here, from the semantics and not from
//! the machine.

use fanin_protocol::limits::CRASHED_RUNS_MAX;
use fanin_protocol::record::{
    GroupFired, GroupSealed, GroupVoided, JobEnded, JobQueued, JobStopping, LimitName, LimitsSet,
    MessageTaken, Next, RunEnded, RunOutcome, RunStarted, StopTarget, StoreOpened, TakenBy,
};
use fanin_protocol::{
    Bounds, Budget, Cause, Code, Edges, Entry, Fence, JobId, JobKind, Lifetime, Need, NodeId,
    OnFailedDependency, Outcome, PartState, Record, SessionId, Status, ToolPart,
};

use super::{GroupSeen, JobSeen, Ledger, RunSeen, SessionSeen};
use crate::accounts::{self, Payer};
use crate::broken::{Broken, Kept, ensure, some};

impl Ledger {
    /// Takes in the next record.
    ///
    /// # Errors
    ///
    /// [`Broken`] where it cannot follow the ones before it.
    pub fn take_in(&mut self, entry: &Entry) -> Kept {
        let Entry { seq, ts_ms, record, .. } = entry;
        ensure(seq.0 == self.head + 1, "G1", || format!("record {seq} follows {}", self.head))?;
        ensure(*ts_ms >= self.ts_ms, "G1", || format!("time falls from {} to {ts_ms}", self.ts_ms))?;
        let opens = matches!(record, Record::StoreOpened(_));
        ensure(self.open || opens, "G2", || format!("{} outside an epoch", record.kind()))?;
        self.head = seq.0;
        self.ts_ms = *ts_ms;
        match record {
            Record::StoreOpened(body) => self.store_opened(body),
            Record::StoreClosed(_) => self.store_closed(),
            Record::SessionOpened(body) => self.session_opened(&body.session, body.bounds),
            Record::SessionClosed(body) => self.session_closed(&body.session),
            Record::JobQueued(body) => self.job_queued(Lifetime(seq.0), body),
            Record::JobStopping(body) => self.job_stopping(body),
            Record::JobEnded(body) => self.job_ended(body),
            Record::RunStarted(body) => self.run_started(Fence(seq.0), body),
            Record::RunBound(body) => {
                self.open_run(body.run)?.bound = true;
                Ok(())
            }
            Record::RunEnded(body) => self.run_ended(body),
            Record::ToolPart(part) => self.part(part),
            Record::GroupSealed(body) => self.group_sealed(body),
            Record::GroupFired(body) => self.group_fired(body),
            Record::GroupVoided(body) => self.group_voided(body),
            Record::MessagePosted(body) => self.message_posted(body),
            Record::MessageTaken(body) => self.message_taken(body),
            Record::Note(_) => Ok(()),
            Record::LimitsSet(body) => self.limits_set(body),
            Record::Usage(body) => self.accounts.used(body),
            Record::MessageSent(_) => {
                Err(Broken { rule: "G2", what: format!("{} has no command yet", record.kind()) })
            }
        }
    }

    fn store_opened(&mut self, body: &StoreOpened) -> Kept {
        ensure(body.clean != self.open, "G2", || format!("clean is {}", body.clean))?;
        ensure(body.previous.map_or(0, |seq| seq.0) == self.epoch, "G2", || "another epoch before".into())?;
        self.epoch = self.head;
        self.open = true;
        self.sessions.values_mut().for_each(|session| session.passed_by.clear());
        Ok(())
    }

    fn store_closed(&mut self) -> Kept {
        let open = self.runs.values().filter(|run| !run.over).count();
        ensure(open == 0, "G2", || format!("store.closed with {open} open runs"))?;
        self.open = false;
        Ok(())
    }

    fn session_opened(&mut self, id: &SessionId, bounds: Bounds) -> Kept {
        self.is_rated |= !bounds.budget.is_none();
        self.accounts.bound(Payer::Session(id.clone()), bounds.budget);
        let before = self.sessions.insert(id.clone(), SessionSeen { bounds, ..SessionSeen::default() });
        ensure(before.is_none(), "G2", || format!("session {id} opens twice"))
    }

    fn session_closed(&mut self, id: &SessionId) -> Kept {
        let session = self.open_session(id)?;
        ensure(session.turn.is_none(), "G2", || format!("session {id} closes in a turn"))?;
        session.closed = true;
        Ok(())
    }

    fn job_queued(&mut self, lifetime: Lifetime, body: &JobQueued) -> Kept {
        let going = self.is_going_down(&body.parent);
        ensure(!going, "SC-2", || format!("{} is launched below {}, which goes", body.job, body.parent))?;
        let chain = self.chain(&body.parent);
        let session = match chain.last() {
            Some(NodeId::Session(session)) => session.clone(),
            _ => return Err(Broken { rule: "SC-1", what: format!("{} hangs in the air", body.job) }),
        };
        if let NodeId::Job(parent) = &body.parent {
            let runs = self.live_job(parent)?.run.is_some();
            ensure(runs, "P5", || format!("{} is launched by {parent}, which does not run", body.job))?;
        }
        let parent = self.open_session(&session)?;
        let bounds = parent.bounds;
        ensure(chain.len() <= bounds.depth as usize, "G11", || format!("{} below {chain:?}", body.job))?;
        parent.spawned += 1;
        let within = bounds.spawn_total.is_none_or(|total| parent.spawned <= total);
        ensure(within, "SC-21", || format!("{} is one too many of {session}", body.job))?;
        ensure((parent.queued as usize) < bounds.queue, "SC-12", || format!("{} waits as well", body.job))?;
        if parent.queued == 0 {
            parent.passed_by.clear();
        }
        parent.queued += 1;
        let parent_life = self.life_of(&body.parent);
        let group = self.groups.entry(body.group.clone()).or_insert_with(|| GroupSeen {
            parent: body.parent.clone(),
            parent_life,
            members: Vec::new(),
            lives: Vec::new(),
            policy: None,
            fired: None,
            voided: false,
            taken: None,
            edges: Edges::default(),
        });
        let fits = group.parent == body.parent && group.policy.is_none() && !group.voided;
        ensure(fits, "BAR-2", || format!("{} joins group {}", body.job, body.group))?;
        ensure(group.members.len() == body.index as usize, "BAR-1", || format!("index of {}", body.job))?;
        group.members.push(body.job.clone());
        group.lives.push(lifetime);
        let job = JobSeen {
            session,
            parent: body.parent.clone(),
            group: body.group.clone(),
            lifetime,
            kind: body.kind,
            estimate: body.limits.estimate_usd_micros,
            run: None,
            runs: 0,
            last: None,
            retry_at_ms: None,
            crashed: 0,
            stop: None,
            ended: None,
            taken: false,
            firings: body.limits.firings,
            fired: 0,
        };
        // Budgets hold jobs aside, as rates do.
        self.is_rated |= !body.limits.budget.is_none();
        self.accounts.bound(Payer::Job(lifetime), body.limits.budget);
        self.unstarted.insert(lifetime);
        self.queued += 1;
        self.lifetimes.insert(lifetime, body.job.clone());
        let Some(before) = self.jobs.insert(body.job.clone(), job) else { return Ok(()) };
        ensure(before.ended.is_some(), "J-14", || format!("{} lives and is queued again", body.job))?;
        self.past.insert(before.lifetime, before);
        Ok(())
    }

    fn job_stopping(&mut self, body: &JobStopping) -> Kept {
        let job = self.live_job(&body.job)?;
        ensure(job.runs > 0, "J-10", || format!("{} stops and does not run", body.job))?;
        let raises = match job.stop {
            None => true,
            Some((before, _)) => before != StopTarget::Cancelled && body.target == StopTarget::Cancelled,
        };
        ensure(raises, "J-17", || format!("{} is told {:?} after {:?}", body.job, body.target, job.stop))?;
        job.stop = Some((body.target, body.cause));
        Ok(())
    }

    fn job_ended(&mut self, body: &JobEnded) -> Kept {
        self.subtree_over(&body.job)?;
        self.follows_above(body)?;
        let job = self.live_job(&body.job)?;
        ensure(body.status.is_terminal(), "G2", || format!("{} ends as {}", body.job, body.status))?;
        ensure(job.run.is_none(), "J-18", || format!("{} ends and its run is open", body.job))?;
        let fits = match job.stop {
            Some((StopTarget::Cancelled, cause)) => {
                body.status == Status::Cancelled && body.cause == Some(cause)
            }
            Some((StopTarget::Error, cause)) => body.status == Status::Error && body.cause == Some(cause),
            // It could not be queued again; where it did its work it has done it.
            Some((StopTarget::Requeue, cause)) if job.last != Some(RunOutcome::Completed) => {
                body.status == Status::Cancelled && body.cause == Some(cause)
            }
            None | Some((StopTarget::Requeue, _)) if job.runs == 0 || job.retry_at_ms.is_some() => {
                body.status != Status::Completed
            }
            None | Some((StopTarget::Requeue, _)) => {
                let completed = job.last == Some(RunOutcome::Completed);
                body.status == if completed { Status::Completed } else { Status::Error }
            }
        };
        ensure(fits, "G7", || format!("{} ends as {body:?} after {:?}", body.job, job.stop))?;
        let is_told = job.stop.is_some_and(|(target, _)| target != StopTarget::Requeue);
        let anyway = is_told && job.last == Some(RunOutcome::Completed);
        ensure(body.completed_anyway == anyway, "J-17", || format!("{body:?} after {:?}", job.last))?;
        let is_refused = body.cause == Some(Cause::Budget) && job.stop.is_none();
        let estimate = job.estimate;
        self.skipped(body)?;
        if is_refused {
            accounts::refused(self, &body.job, estimate)?;
        }
        let job = self.live_job(&body.job)?;
        let gives_cause = body.cause.is_some() == (body.status != Status::Completed);
        ensure(gives_cause, "G2", || format!("cause of {body:?}"))?;
        let never_ran = job.runs == 0;
        let retries = job.retry_at_ms.take().is_some();
        job.ended = Some(body.clone());
        let (session, lifetime) = (job.session.clone(), job.lifetime);
        self.unstarted.remove(&lifetime);
        self.queued -= u32::from(never_ran || retries);
        self.retrying -= u32::from(retries);
        if let Some(session) = self.sessions.get_mut(&session) {
            session.queued -= u32::from(never_ran);
        }
        Ok(())
    }

    /// J-6, J-8, J-11: a job is over when all below it is: its children, its groups, and what was owed to it.
    fn subtree_over(&self, id: &JobId) -> Kept {
        let own = NodeId::Job(id.clone());
        let below = self.groups.values().filter(|group| group.parent == own);
        let child = below.flat_map(|group| self.members(group)).find(|job| job.ended.is_none());
        ensure(child.is_none(), "J-6", || format!("{id} ends before its child {child:?}"))?;
        let open = |group: &&GroupSeen| {
            let fired = group.fired.is_some() && group.taken.is_some();
            group.parent == own && !group.voided && !fired
        };
        let group = self.groups.values().find(open);
        ensure(group.is_none(), "BAR-9", || format!("{id} ends and leaves {group:?}"))
    }

    /// SC-2: what ends below a stopped job ends cancelled, also where it finished before it was told.
    fn follows_above(&self, body: &JobEnded) -> Kept {
        let chain = self.chain(&NodeId::Job(body.job.clone()));
        let stopped = chain.iter().skip(1).find(|node| match node {
            NodeId::Job(id) => self.jobs.get(id).is_some_and(|job| job.stop.is_some()),
            NodeId::Session(id) => self.sessions.get(id).is_some_and(|session| session.closed),
        });
        let fits = stopped.is_none() || body.status == Status::Cancelled;
        ensure(fits, "SC-2", || format!("{body:?} below {stopped:?}, which was stopped"))
    }

    fn run_started(&mut self, fence: Fence, body: &RunStarted) -> Kept {
        match &body.node {
            NodeId::Session(id) => {
                let session = self.open_session(id)?;
                ensure(session.turn.is_none(), "A-1", || format!("two turns of {id}"))?;
                session.turn = Some(fence);
                session.turns += 1;
                ensure(session.turns == body.attempt, "G2", || format!("turn {} of {id}", body.attempt))?;
            }
            NodeId::Job(id) => {
                // Its own last try may have failed: that takes down what hung below it, not the next try.
                let parent = self.live_job(id)?.parent.clone();
                let going = self.is_going_down(&parent);
                ensure(!going, "SC-2", || format!("{id} starts below one that goes"))?;
                self.needs_are_over(id)?;
                let job = self.live_job(id)?;
                ensure(job.run.is_none(), "A-1", || format!("two runs of {id}"))?;
                let retries = job.retry_at_ms.take().is_some();
                let may_run = (job.runs == 0 || retries) && job.stop.is_none();
                ensure(may_run, "G7", || format!("a new run of {id}"))?;
                ensure(job.runs + 1 == body.attempt, "G2", || format!("try {} of {id}", body.attempt))?;
                job.run = Some(fence);
                job.runs += 1;
                let (group, session, lifetime) = (job.group.clone(), job.session.clone(), job.lifetime);
                self.unstarted.remove(&lifetime);
                self.running += 1;
                self.queued -= 1;
                self.retrying -= u32::from(retries);
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.running += 1;
                    session.queued -= u32::from(!retries);
                }
                // A watch stands in no line.
                if self.jobs.get(id).is_none_or(|job| job.firings.is_none()) {
                    self.in_turn(id, &session, lifetime)?;
                }
                let voided = self.groups.get(&group).is_some_and(|group| group.voided);
                ensure(!voided, "BAR-9", || format!("{id} starts and its group is voided"))?;
            }
        }
        self.accounts.started(fence, self.payers(&body.node), body.reserved_usd_micros)?;
        self.runs
            .insert(fence, RunSeen { node: body.node.clone(), bound: false, over: false, parts: Vec::new() });
        Ok(())
    }

    /// SC-9: sessions in turn, and launch order inside one.
    fn in_turn(&mut self, id: &JobId, session: &SessionId, lifetime: Lifetime) -> Kept {
        if self.is_rated || self.failed_starts > 20 {
            return Ok(());
        }
        // One that is tried again stands behind those that came up meanwhile.
        let mut before = self.unstarted.range(..lifetime).filter_map(|lifetime| self.life(*lifetime));
        let passed = before.find(|job| {
            job.session == *session && !self.is_going_down(&job.parent) && self.needs(job).next().is_none()
        });
        ensure(passed.is_none(), "SC-9", || format!("{id} starts before {passed:?}"))?;
        for (other, seen) in &mut self.sessions {
            // What waits for others takes no turn.
            let is_plan = self.plans > 0;
            if other == session || is_plan {
                seen.passed_by.clear();
            } else if self.from_records || seen.bounds.slots.is_some() || self.granted.contains(other) {
                // It may have had its turn, or no slot of its own.
                seen.passed_by.clear();
            } else if seen.queued > 0 {
                let is_first = seen.passed_by.insert(session.clone());
                ensure(is_first, "SC-9", || format!("{id} starts while {other} waits for its turn again"))?;
            }
        }
        Ok(())
    }

    fn run_ended(&mut self, body: &RunEnded) -> Kept {
        self.posts_at_end(body)?;
        let is_agent = self.is_bound_agent(body.run);
        self.accounts.over(body.run, is_agent, body.outcome == RunOutcome::Interrupted);
        let run = self.open_run(body.run)?;
        let open = run.parts.iter().filter(|part| !part.state.is_terminal()).count();
        ensure(open == 0, "G4", || format!("run {} ends with {open} open parts", body.run))?;
        run.over = true;
        match run.node.clone() {
            NodeId::Session(id) => self.open_session(&id)?.turn = None,
            NodeId::Job(id) => {
                let job = self.live_job(&id)?;
                job.run = None;
                job.last = Some(body.outcome);
                let session = job.session.clone();
                let not_before = match body.next {
                    Next::Settle => None,
                    Next::Retry { not_before_ms } => {
                        let may = job.stop.is_none() && body.outcome == RunOutcome::Failed;
                        ensure(may, "J-17", || format!("{id} is tried again after {:?}", job.stop))?;
                        Some(not_before_ms)
                    }
                    // Only after a crash, and not for ever, or by an orderly stop.
                    Next::Requeue => {
                        let stop = job.stop.take();
                        job.crashed += u32::from(stop.is_none());
                        let is_told = stop.is_none_or(|(target, _)| target == StopTarget::Requeue);
                        let may = is_told && body.outcome == RunOutcome::Interrupted;
                        ensure(may, "RE-4", || format!("{id} is started again after {:?}", job.stop))?;
                        ensure(job.crashed < CRASHED_RUNS_MAX, "RE-5", || format!("{id}: {}", job.crashed))?;
                        ensure(job.kind != JobKind::Closure, "RE-7", || format!("{id} is a closure"))?;
                        Some(0)
                    }
                };
                if not_before.is_some() {
                    job.retry_at_ms = not_before;
                    self.queued += 1;
                    self.retrying += 1;
                }
                let by_system =
                    matches!(body.code, None | Some(Code::Os)) && body.cause == Some(Cause::Spawn);
                let start = body.code == Some(Code::Start) || by_system;
                self.failed_starts += u32::from(start || body.cause == Some(Cause::Failed));
                self.running -= 1;
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.running -= 1;
                }
            }
        }
        Ok(())
    }

    fn limits_set(&mut self, body: &LimitsSet) -> Kept {
        let names: Vec<LimitName> = body.limits.keys().copied().collect();
        if let Some((payer, to)) = self.budget_set(body)? {
            return self.accounts.set(&payer, to);
        }
        match &body.node {
            None => ensure(names == [LimitName::Slots], "SC-11", || format!("{body:?}")),
            Some(NodeId::Job(id)) => {
                self.extended += 1;
                let is_stopping = self.live_job(id)?.stop.is_some();
                let fits = !is_stopping && !names.is_empty() && !names.contains(&LimitName::Slots);
                ensure(fits, "SC-19", || format!("{body:?}"))
            }
            Some(NodeId::Session(_)) => ensure(false, "SC-19", || format!("{body:?}")),
        }
    }

    /// Whose budget was set, and to what, where it was one.
    fn budget_set(&mut self, body: &LimitsSet) -> Result<Option<(Payer, Budget)>, Broken> {
        let of = |name| body.limits.get(&name).copied().flatten();
        let to = Budget {
            usd_micros: of(LimitName::BudgetUsdMicros),
            tokens: of(LimitName::BudgetTokens),
            steps: of(LimitName::BudgetSteps),
            ms: of(LimitName::BudgetMs),
        };
        if to.is_none() {
            return Ok(None);
        }
        let payer = match (&body.node, &body.group) {
            (Some(NodeId::Session(id)), _) => Payer::Session(id.clone()),
            (Some(NodeId::Job(id)), _) => Payer::Job(self.live_job(id)?.lifetime),
            (None, Some(id)) => Payer::Group(id.clone()),
            (None, None) => return Err(Broken { rule: "BU-7", what: "nobody's budget".into() }),
        };
        Ok(Some((payer, to)))
    }

    /// forward only, a start once set stays, an end is not before it.
    fn part(&mut self, part: &ToolPart) -> Kept {
        let run = self.open_run(part.run)?;
        let (start, end) = (part.start_ms, part.end_ms);
        if part.state.is_terminal() {
            let holds = start.is_some() && end >= start && end >= Some(part.created_ms);
            ensure(holds, "A-4", || format!("{part:?} ends before it starts"))?;
        }
        ensure(!part.interrupted || part.state == PartState::Error, "A-3", || format!("{part:?}"))?;
        match run.parts.iter_mut().find(|known| known.call == part.call) {
            None => run.parts.push(part.clone()),
            Some(known) => {
                let forward = !known.state.is_terminal() && part.state > known.state;
                ensure(forward, "A-2", || format!("{known:?} becomes {part:?}"))?;
                let kept = known.start_ms.is_none() || known.start_ms == start;
                ensure(kept && known.created_ms == part.created_ms, "A-4", || format!("{part:?}"))?;
                ensure(part.last_ms >= known.last_ms, "A-4", || format!("{part:?} after {known:?}"))?;
                *known = part.clone();
            }
        }
        Ok(())
    }

    fn group_sealed(&mut self, body: &GroupSealed) -> Kept {
        let group = some(self.groups.get_mut(&body.group), "BAR-2", || format!("no group {}", body.group))?;
        ensure(group.policy.is_none(), "G2", || format!("{} is sealed twice", body.group))?;
        ensure(*group.members == *body.members, "BAR-1", || format!("members of {}", body.group))?;
        group.policy = Some(body.policy);
        self.is_rated |= !body.policy.budget.is_none();
        self.accounts.bound(Payer::Group(body.group.clone()), body.policy.budget);
        self.plan_sealed(body)
    }

    fn group_fired(&mut self, body: &GroupFired) -> Kept {
        let group = some(self.groups.get(&body.group), "G5", || format!("no group {}", body.group))?;
        ensure(group.fired.is_none() && !group.voided, "G5", || format!("{} fires again", body.group))?;
        let policy = some(group.policy, "G5", || format!("{} fires and is not sealed", body.group))?;
        ensure(self.all_over(group), "G5", || format!("{} fires with live members", body.group))?;
        let payload = some(body.payload.reveal().cloned(), "G5", || "no payload".into())?;
        ensure(payload.counts == body.counts, "G5", || "counts differ".into())?;
        ensure(payload.stopped_by == body.stopped_by, "R-1", || "what stopped the rest differs".into())?;

        let ended: Vec<&JobEnded> = self.members(group).filter_map(|job| job.ended.as_ref()).collect();
        let of = |status| ended.iter().filter(|end| end.status == status).count();
        let (ok, error) = (of(Status::Completed), of(Status::Error));
        let counts = body.counts;
        let adds_up = counts.launched as usize == ended.len()
            && counts.completed as usize == ok
            && counts.error as usize == error
            && counts.cancelled as usize == ended.len() - ok - error;
        ensure(adds_up, "BAR-1", || format!("{counts:?} of {ended:?}"))?;
        let outcome = match ok {
            0 => Outcome::NoneOk,
            n if n == ended.len() => Outcome::AllOk,
            _ => Outcome::Partial,
        };
        ensure(body.outcome == outcome, "R-1", || format!("{:?} is not {outcome:?}", body.outcome))?;
        let in_order = payload.entries.len() == ended.len()
            && payload.entries.iter().zip(0..).zip(&ended).zip(&group.lives).all(
                |(((entry, index), end), life)| {
                    entry.index == index
                        && entry.lifetime == *life
                        && self
                            .life(*life)
                            .is_some_and(|job| entry.unanswered as usize == self.unanswered(job))
                        && entry.job == end.job
                        && (entry.status, entry.cause, entry.code) == (end.status, end.cause, end.code)
                        && entry.root == end.root
                        && !entry.reference
                },
            );
        ensure(in_order, "R-2", || format!("{:?} of {ended:?}", payload.entries))?;
        let by_group = ended.iter().any(|end| end.cause == Some(Cause::Group));
        let is_vital = |need: &Need| need.on_failed == OnFailedDependency::FailTeam;
        let has_policy = policy.ok.is_some()
            || policy.not_ok.is_some()
            || policy.at_ms.is_some()
            || group.edges.needs().iter().any(is_vital);
        let told = body.stopped_by.is_some() == by_group;
        ensure(told && (has_policy || !by_group), "R-1", || format!("{ended:?} by {:?}", body.stopped_by))?;

        if let Some(group) = self.groups.get_mut(&body.group) {
            group.fired = Some(payload);
        }
        self.fired_at.insert(body.group.clone(), self.head);
        self.fired.push(body.group.clone());
        Ok(())
    }

    fn group_voided(&mut self, body: &GroupVoided) -> Kept {
        let group = some(self.groups.get_mut(&body.group), "G5", || format!("no group {}", body.group))?;
        ensure(group.fired.is_none() && !group.voided, "G5", || format!("{} is voided", body.group))?;
        group.voided = true;
        let parent = group.parent.clone();
        ensure(self.is_going(&parent), "BAR-9", || format!("{} is voided and its parent lives", body.group))
    }

    fn message_taken(&mut self, body: &MessageTaken) -> Kept {
        let count = body.keys.len() + body.results.len() + body.messages.len();
        ensure(count > 0, "G2", || "nothing is taken".into())?;
        self.posts_taken(&body.messages, body.by)?;
        for id in &body.keys {
            let group = some(self.groups.get_mut(id), "G6", || format!("no group {id}"))?;
            ensure(group.fired.is_some() && group.taken.is_none(), "G6", || format!("{id} is taken"))?;
            group.taken = Some(body.by);
            let parent = group.parent.clone();
            let holds = match (&parent, body.by) {
                (NodeId::Session(_), by) => self.is_going(&parent) == (by == TakenBy::Void),
                // The body of a job is over before the job is, and can take nothing any more.
                (NodeId::Job(_), TakenBy::Void) => !self.is_idle(&parent),
                (NodeId::Job(_), TakenBy::Waiter | TakenBy::Inbox) => self.is_idle(&parent),
                (NodeId::Job(_), TakenBy::Results) => true,
                (NodeId::Job(_), TakenBy::Run) => false,
            };
            ensure(holds, "BAR-9", || format!("{id} by {:?}", body.by))?;
            if let (TakenBy::Inbox, Some(NodeId::Session(root))) = (body.by, self.chain(&parent).pop())
                && let Some(session) = self.sessions.get_mut(&root)
            {
                session.woken += 1;
            }
        }
        for lifetime in &body.results {
            let id = some(self.lifetimes.get(lifetime), "G6", || format!("no lifetime {lifetime}"))?;
            let job = match self.past.get_mut(lifetime) {
                Some(job) => Some(job),
                None => self.jobs.get_mut(id),
            };
            let job = some(job, "G6", || format!("no job {id}"))?;
            let closed = self.groups.get(&job.group).is_some_and(|group| group.taken.is_some());
            let owed = job.ended.is_some() && !job.taken && !closed;
            ensure(owed, "BAR-15", || format!("the result of {id} is taken twice or too early"))?;
            job.taken = true;
        }
        Ok(())
    }

    fn open_session(&mut self, id: &SessionId) -> Result<&mut SessionSeen, Broken> {
        let session = self.sessions.get_mut(id).filter(|session| !session.closed);
        some(session, "G2", || format!("session {id} is not open"))
    }

    fn live_job(&mut self, id: &JobId) -> Result<&mut JobSeen, Broken> {
        let job = self.jobs.get_mut(id).filter(|job| job.ended.is_none());
        some(job, "G2", || format!("job {id} is over or was never queued"))
    }

    fn open_run(&mut self, fence: Fence) -> Result<&mut RunSeen, Broken> {
        let run = self.runs.get_mut(&fence).filter(|run| !run.over);
        some(run, "G7", || format!("run {fence} is not open"))
    }
}
