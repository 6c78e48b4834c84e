//! What a run looks like while it goes on, kept from its events alone. It decides nothing: the result comes from the
//! group, never from here.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use fanin_protocol::{Cause, Code, JobId, JobInfo, NodeId, Record, Status, text};

use crate::words::End;

/// A job as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The job.
    pub(crate) job: JobId,
    /// Its name for people, on one line.
    pub(crate) label: String,
    /// Its status.
    pub(crate) status: Status,
    /// It was told to stop and is not gone yet.
    pub(crate) stopping: bool,
    started_ms: Option<u64>,
    ended_ms: Option<u64>,
    why: Option<(Cause, Option<Code>)>,
    message: Option<Arc<str>>,
}

impl Line {
    /// What is known of its end, for the job at `place`.
    pub(crate) fn end(&self, place: usize) -> End<'_> {
        End {
            place,
            status: self.status,
            cause: self.why.map(|(cause, _)| cause),
            code: self.why.and_then(|(_, code)| code),
            message: self.message.as_deref(),
            is_started: self.started_ms.is_some(),
        }
    }

    /// How long it has been running, or ran; `None` where it never started.
    pub(crate) fn took_ms(&self, now_ms: u64) -> Option<u64> {
        Some(self.ended_ms.unwrap_or(now_ms).saturating_sub(self.started_ms?))
    }
}

/// Something that happened to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It started; the number is its place.
    Started(usize),
    /// It is over.
    Ended(usize),
}

/// The jobs of one group in launch order.
#[derive(Debug, Default)]
pub(crate) struct View {
    lines: Vec<Line>,
    places: HashMap<JobId, usize>,
    running: BTreeSet<usize>,
    ended: Ended,
    /// The first launch.
    began_ms: Option<u64>,
}

/// Jobs that are over, by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) completed: usize,
    pub(crate) failed: usize,
    pub(crate) cancelled: usize,
}

impl Ended {
    /// One more of this status; one that is not over counts nothing.
    const fn add(&mut self, status: Status) {
        match status {
            Status::Queued | Status::Running => {}
            Status::Completed => self.completed += 1,
            Status::Error => self.failed += 1,
            Status::Cancelled => self.cancelled += 1,
        }
    }

    /// All of them.
    pub(crate) const fn all(self) -> usize {
        self.completed + self.failed + self.cancelled
    }
}

impl View {
    /// The view of jobs as a snapshot gives them.
    pub(crate) fn new(jobs: impl IntoIterator<Item = JobInfo>) -> Self {
        let mut jobs: Vec<_> = jobs.into_iter().collect();
        jobs.sort_by_key(|job| job.index);
        let began_ms = jobs.iter().map(|job| job.queued_at_ms).min();
        let mut view = Self { began_ms, ..Self::default() };
        for job in jobs {
            let stopping = job.why.iter().any(|why| why.phase() == "stopping");
            view.push(Line {
                label: label(job.label.as_ref(), &job.job),
                job: job.job,
                status: job.status,
                stopping,
                started_ms: job.started_at_ms,
                ended_ms: job.ended_at_ms,
                why: job.cause.map(|cause| (cause, job.code)),
                message: job.message,
            });
        }
        view
    }

    fn push(&mut self, line: Line) {
        let place = self.lines.len();
        if line.status == Status::Running {
            self.running.insert(place);
        }
        self.ended.add(line.status);
        self.places.insert(line.job.clone(), place);
        self.lines.push(line);
    }

    /// Takes one event in. An event of a job that is not in the view, or that tells nothing new, changes nothing.
    pub(crate) fn apply(&mut self, record: &Record, ts_ms: u64) -> Option<Change> {
        match record {
            Record::RunStarted(run) => {
                let NodeId::Job(job) = &run.node else { return None };
                let (place, line) = self.line(job).filter(|(_, line)| line.status == Status::Queued)?;
                line.status = Status::Running;
                line.started_ms = Some(ts_ms);
                self.running.insert(place);
                Some(Change::Started(place))
            }
            Record::JobStopping(stop) => {
                let (_, line) = self.line(&stop.job).filter(|(_, line)| !line.status.is_terminal())?;
                line.stopping = true;
                None
            }
            Record::JobEnded(end) => {
                let (place, line) = self.line(&end.job).filter(|(_, line)| !line.status.is_terminal())?;
                line.status = end.status;
                line.stopping = false;
                line.ended_ms = Some(ts_ms);
                line.why = end.cause.map(|cause| (cause, end.code));
                self.running.remove(&place);
                self.ended.add(end.status);
                Some(Change::Ended(place))
            }
            _ => None,
        }
    }

    /// What happened between an `older` view of the same jobs and this one, in launch order. An empty one is older
    /// than any.
    pub(crate) fn since(&self, older: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (place, line) in self.lines.iter().enumerate() {
            let old = older.get(place);
            if line.started_ms.is_some() && old.is_none_or(|old| old.started_ms.is_none()) {
                changes.push(Change::Started(place));
            }
            if line.status.is_terminal() && old.is_none_or(|old| !old.status.is_terminal()) {
                changes.push(Change::Ended(place));
            }
        }
        changes
    }

    fn line(&mut self, job: &JobId) -> Option<(usize, &mut Line)> {
        let place = *self.places.get(job)?;
        Some((place, self.lines.get_mut(place)?))
    }

    /// The job at a place.
    pub(crate) fn get(&self, place: usize) -> Option<&Line> {
        self.lines.get(place)
    }

    /// All jobs, in launch order.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The running ones, in launch order.
    pub(crate) fn running(&self) -> impl ExactSizeIterator<Item = usize> {
        self.running.iter().copied()
    }

    /// How many are over.
    pub(crate) const fn ended(&self) -> Ended {
        self.ended
    }

    /// How long ago the first was launched.
    pub(crate) fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.began_ms.unwrap_or(now_ms))
    }

    /// Adds the failure in words, which the event of a job's end has not.
    pub(crate) fn explain(&mut self, place: usize, message: Option<Arc<str>>) {
        if let Some(line) = self.lines.get_mut(place) {
            line.message = message;
        }
    }
}

fn label(label: Option<&Arc<str>>, job: &JobId) -> String {
    label.map_or_else(|| job.to_string(), |label| text::one_line(label))
}

#[cfg(test)]
mod tests {
    use fanin_protocol::record::{JobEnded, JobStopping, RunStarted, StopTarget};

    use super::*;
    use crate::testing::job;

    fn started(id: &str) -> Record {
        RunStarted { node: NodeId::Job(JobId::parse(id).unwrap()), attempt: 1, reserved_usd_micros: None }
            .into()
    }

    fn ended(id: &str, status: Status, why: Option<(Cause, Option<Code>)>) -> Record {
        JobEnded {
            job: JobId::parse(id).unwrap(),
            status,
            cause: why.map(|(cause, _)| cause),
            code: why.and_then(|(_, code)| code),
            after: None,
            root: None,
            interrupted: false,
            unreaped: false,
            completed_anyway: false,
        }
        .into()
    }

    #[test]
    fn events_move_a_job_from_queued_to_its_end() {
        let mut view = View::new([job("b", 1), job("a", 0)]);
        assert_eq!(view.apply(&started("b"), 100), Some(Change::Started(1)));
        assert_eq!(view.running().collect::<Vec<_>>(), [1]);
        assert_eq!(view.get(1).unwrap().took_ms(150), Some(50));
        let stopping = JobStopping {
            job: JobId::parse("b").unwrap(),
            target: StopTarget::Error,
            cause: Cause::Timeout,
            code: Some(Code::Run),
            grace_ms: 1,
        };
        assert_eq!(view.apply(&stopping.into(), 200), None);
        assert!(view.get(1).unwrap().stopping);
        let why = Some((Cause::Timeout, Some(Code::Run)));
        assert_eq!(view.apply(&ended("b", Status::Error, why), 300), Some(Change::Ended(1)));
        view.explain(1, Some("why".into()));
        let end = view.get(1).unwrap().end(1);
        assert_eq!((end.status, end.cause, end.code), (Status::Error, Some(Cause::Timeout), Some(Code::Run)));
        assert_eq!((end.message, end.is_started), (Some("why"), true));
        assert!(!view.get(1).unwrap().stopping);
        assert_eq!(view.get(1).unwrap().took_ms(999), Some(200));
        assert_eq!((view.running().len(), view.ended()), (0, Ended { failed: 1, ..Ended::default() }));
        assert_eq!(view.get(0).unwrap().status, Status::Queued);
        assert_eq!(view.age_ms(400), 400);
    }

    #[test]
    fn what_happened_between_two_snapshots_is_found() {
        let mut jobs = [job("a", 0), job("b", 1), job("c", 2), job("d", 3)];
        (jobs[0].status, jobs[0].started_at_ms) = (Status::Running, Some(1));
        let older = View::new(jobs.clone());
        assert_eq!(older.since(&View::default()), [Change::Started(0)]);
        (jobs[0].status, jobs[0].ended_at_ms) = (Status::Completed, Some(2));
        (jobs[1].status, jobs[1].started_at_ms, jobs[1].ended_at_ms) = (Status::Error, Some(2), Some(3));
        (jobs[2].status, jobs[2].ended_at_ms) = (Status::Cancelled, Some(3));
        let newer = View::new(jobs);
        let ended = [Change::Ended(0), Change::Started(1), Change::Ended(1), Change::Ended(2)];
        assert_eq!(newer.since(&older), ended);
        assert_eq!(newer.since(&newer), []);
    }

    #[test]
    fn an_event_that_a_snapshot_has_already_changes_nothing() {
        let mut over = job("a", 0);
        (over.status, over.started_at_ms, over.ended_at_ms) = (Status::Completed, Some(1), Some(2));
        let mut view = View::new([over]);
        assert_eq!(view.apply(&started("a"), 1), None);
        assert_eq!(view.apply(&ended("a", Status::Completed, None), 2), None);
        assert_eq!(view.apply(&started("of_another_group"), 3), None);
        assert_eq!((view.running().len(), view.ended()), (0, Ended { completed: 1, ..Ended::default() }));
    }
}
