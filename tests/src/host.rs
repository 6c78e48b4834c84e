//! What the host does with effects, and what it may expect of them (C-6, G7).

use std::collections::BTreeMap;

use fanin_machine::{Effect, Forgotten, KillStage, Mono, RunNode, RunRef};
use fanin_protocol::{Entry, Fence, JobId, NodeId, Record, SessionId};

use crate::broken::{Kept, ensure, some};
use crate::ledger::Ledger;

/// What the host keeps.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// When it has to call `Tick`.
    pub alarm: Option<Mono>,
    /// The last run of each job, also where that is over: a late report comes from there.
    pub runs: BTreeMap<JobId, RunRef>,
    /// When each run last showed a sign of work that only the host sees.
    pub beats: BTreeMap<Fence, Mono>,
    /// The last run of the life before, of jobs that were launched again.
    pub old_runs: BTreeMap<JobId, RunRef>,
    /// The last turn of each session.
    pub turns: BTreeMap<SessionId, RunRef>,
    /// Its mark of each job of this epoch.
    tags: BTreeMap<JobId, u64>,
    /// The hardest stop that each run was told.
    stages: BTreeMap<Fence, KillStage>,
}

impl Host {
    /// The mark of a job that is to be launched: another one for each name.
    pub fn tag(job: &JobId) -> u64 {
        job.to_string().bytes().fold(1, |tag, byte| tag * 31 % 1_000_003 + u64::from(byte))
    }

    /// A job exists, and its mark is kept.
    pub fn launched(&mut self, job: &JobId) {
        if let Some(run) = self.runs.remove(job) {
            self.old_runs.insert(job.clone(), run);
        }
        self.tags.insert(job.clone(), Self::tag(job));
    }

    /// The hardest stop that a run was told.
    pub fn stage(&self, run: Fence) -> Option<KillStage> {
        self.stages.get(&run).copied()
    }

    /// A crash takes marks, stops and the alarm.
    pub fn crashed(&mut self) {
        self.tags.clear();
        self.stages.clear();
        self.beats.clear();
        self.alarm = None;
    }

    /// Takes in the effects of a step whose records the ledger has.
    ///
    /// # Errors
    ///
    /// [`Broken`](crate::Broken) where one names no open run, comes twice, or is missing.
    pub fn take_in(&mut self, records: &[Entry], effects: &[Effect], ledger: &Ledger) -> Kept {
        let mut started: Vec<(Fence, &JobId)> = records
            .iter()
            .filter_map(|entry| match &entry.record {
                Record::RunStarted(body) => match &body.node {
                    NodeId::Job(id) => Some((Fence(entry.seq.0), id)),
                    NodeId::Session(_) => None,
                },
                _ => None,
            })
            .collect();
        let mut over: Vec<u64> = records
            .iter()
            .filter_map(|entry| match &entry.record {
                Record::JobEnded(body) => Some(self.tags.get(&body.job).copied().unwrap_or_default()),
                _ => None,
            })
            .collect();
        for effect in effects {
            match effect {
                Effect::Spawn { run, job, tag, .. } => {
                    let place = started.iter().position(|start| *start == (run.fence, job));
                    let place = some(place, "J-2", || format!("{job} is spawned without its record"))?;
                    started.swap_remove(place);
                    self.check_tag(job, *tag)?;
                    self.runs.insert(job.clone(), *run);
                }
                Effect::Kill { run, stage, tag } => self.kill(*run, *stage, *tag, records, ledger)?,
                Effect::Forget(Forgotten::Output(_)) => {}
                Effect::Forget(Forgotten::Work { tag }) => {
                    let place = over.iter().position(|over| over == tag);
                    over.swap_remove(some(place, "G12", || format!("tag {tag} is forgotten too early"))?);
                }
                Effect::Alarm(at) => self.alarm = *at,
                Effect::Deliver { run, tag, key, .. } => {
                    let posted = records.iter().any(
                        |entry| matches!(&entry.record, Record::MessagePosted(body) if body.key == *key),
                    );
                    let to = ledger.runs.get(&run.fence).filter(|seen| !seen.over).map(|seen| &seen.node);
                    let to = to.filter(|to| ledger.posts.get(key).is_some_and(|post| post.to == **to));
                    let Some(NodeId::Job(id)) = to.filter(|_| posted) else {
                        return ensure(false, "J-24", || format!("{key} is delivered to {run:?}"));
                    };
                    self.check_tag(id, *tag)?;
                }
                // Answered by the world, once the step is over.
                Effect::Probe { run, tag } => {
                    let seen = some(ledger.runs.get(&run.fence), "G7", || format!("{run:?} is no run"))?;
                    let is_open = !seen.over || ends(records, run.fence);
                    ensure(is_open, "G7", || format!("{run:?} is over and is asked"))?;
                    if let NodeId::Job(id) = &seen.node {
                        self.check_tag(id, *tag)?;
                    }
                }
                Effect::Answer { .. } => {}
            }
        }
        ensure(started.is_empty(), "J-2", || format!("{started:?} started and nothing was spawned"))?;
        ensure(over.is_empty(), "G12", || format!("tags {over:?} are over and not forgotten"))
    }

    /// A stop names a run that was open when the step began, of a job that was told to stop, each time harder.
    fn kill(&mut self, run: RunRef, stage: KillStage, tag: u64, records: &[Entry], ledger: &Ledger) -> Kept {
        let seen = some(ledger.runs.get(&run.fence), "G7", || format!("{run:?} is no run"))?;
        ensure(!seen.over || ends(records, run.fence), "G7", || format!("{run:?} is over and is stopped"))?;
        let NodeId::Job(id) = &seen.node else {
            return ensure(false, "G7", || format!("{run:?} is a turn and is stopped"));
        };
        ensure(self.runs.get(id) == Some(&run), "G7", || format!("{run:?} is not the run of {id}"))?;
        ensure(matches!(run.node, RunNode::Job(_)), "G7", || format!("{run:?} is no run of a job"))?;
        ensure(ledger.job(id).stop.is_some(), "J-10", || format!("{id} is stopped without a record"))?;
        let before = self.stages.insert(run.fence, stage);
        ensure(before < Some(stage), "J-10", || format!("{id}: {stage:?} after {before:?}"))?;
        ensure(before.is_some() || stage == KillStage::Polite, "J-10", || format!("{id}: first {stage:?}"))?;
        self.check_tag(id, tag)
    }

    fn check_tag(&self, job: &JobId, tag: u64) -> Kept {
        let own = self.tags.get(job).copied().unwrap_or_default();
        ensure(own == tag, "G7", || format!("{job} has tag {own}, not {tag}"))
    }
}

/// True where one of these records ends the run.
fn ends(records: &[Entry], run: Fence) -> bool {
    records.iter().any(|entry| matches!(&entry.record, Record::RunEnded(body) if body.run == run))
}
