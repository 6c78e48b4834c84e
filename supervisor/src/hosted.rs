//! What the driver keeps for each job until the job is over: its body until it starts, its run while it runs. It stands
//! behind the gate and calls nobody.

use std::sync::Arc;

use crate::body::{Body, Rerun, Work};
use crate::context::RunCell;

/// The jobs of a supervisor by their tags. A tag is a place here; it is used again once its job is over.
#[derive(Default)]
pub(crate) struct Hosted {
    places: Vec<Place>,
    free: Vec<usize>,
}

enum Place {
    Free,
    /// Not started. Jobs of a runner have no work of their own.
    Waiting(Option<Work>),
    /// Started at least once. Few can run again, so that is apart.
    Running {
        cell: Arc<RunCell>,
        again: Option<Box<Rerun>>,
    },
}

impl Place {
    /// What makes one run more, where that may be.
    fn again(&self) -> Option<Rerun> {
        match self {
            Self::Waiting(Some(Work::Again(again))) => Some(Arc::clone(again)),
            Self::Running { again, .. } => again.as_deref().cloned(),
            Self::Waiting(Some(Work::Once(_)) | None) | Self::Free => None,
        }
    }
}

impl Hosted {
    /// Keeps a job that is about to be launched.
    pub(crate) fn keep(&mut self, work: Option<Work>) -> u64 {
        let place = Place::Waiting(work);
        let index = self.free.pop().unwrap_or(self.places.len());
        match self.places.get_mut(index) {
            Some(free) => *free = place,
            None => self.places.push(place),
        }
        index as u64
    }

    /// Makes room for jobs to come.
    pub(crate) fn reserve(&mut self, jobs: usize) {
        self.places.reserve(jobs.saturating_sub(self.free.len()));
    }

    /// The job runs from now on. Returns its body, to start it.
    pub(crate) fn start(&mut self, tag: u64, cell: Arc<RunCell>) -> Option<Body> {
        let place = self.places.get_mut(usize::try_from(tag).ok()?)?;
        let again = place.again();
        let before = std::mem::replace(place, Place::Running { cell, again: again.clone().map(Box::new) });
        match (again, before) {
            (Some(again), _) => Some(Box::new(move |start| again(start))),
            (None, Place::Waiting(Some(Work::Once(body)))) => Some(body),
            (None, Place::Free | Place::Waiting(_) | Place::Running { .. }) => None,
        }
    }

    /// The job's run.
    pub(crate) fn find(&self, tag: u64) -> Option<&Arc<RunCell>> {
        match self.places.get(usize::try_from(tag).ok()?)? {
            Place::Running { cell, .. } => Some(cell),
            Place::Free | Place::Waiting(_) => None,
        }
    }

    /// The job is over. Returns the work of one that never started or could run again, to be dropped outside: its
    /// destructor is anybody's code.
    pub(crate) fn forget(&mut self, tag: u64) -> Option<Work> {
        let index = usize::try_from(tag).ok()?;
        let place = std::mem::replace(self.places.get_mut(index)?, Place::Free);
        if !matches!(place, Place::Free) {
            self.free.push(index);
        }
        match place {
            Place::Waiting(work) => work,
            Place::Running { again, .. } => again.map(|again| Work::Again(*again)),
            // No foreign code runs here: what the run owned was dropped by its task.
            Place::Free => None,
        }
    }

    /// All runs.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Arc<RunCell>> {
        self.places.iter().filter_map(|place| match place {
            Place::Running { cell, .. } => Some(cell),
            Place::Free | Place::Waiting(_) => None,
        })
    }

    /// All jobs, to be dropped one by one.
    pub(crate) fn into_jobs(self) -> impl Iterator<Item = impl Sized> {
        self.places.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_no_larger_than_the_work_it_may_hold() {
        assert_eq!(size_of::<Place>(), size_of::<Work>());
    }
}
