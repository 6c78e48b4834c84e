//! What the driver keeps for each job until the job is over: its body until it starts, its task while it runs.

use std::sync::Arc;

use fanin_protocol::JobKind;
use tokio::task::AbortHandle;

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
    /// Started at least once.
    Running {
        cell: Arc<RunCell>,
        task: AbortHandle,
        kind: JobKind,
        again: Option<Rerun>,
    },
}

impl Place {
    /// What makes one run more, where that may be.
    fn again(&self) -> Option<Rerun> {
        match self {
            Self::Waiting(Some(Work::Again(again))) => Some(Arc::clone(again)),
            Self::Running { again, .. } => again.clone(),
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

    /// The body, to start it.
    pub(crate) fn take_body(&mut self, tag: u64) -> Option<Body> {
        let place = self.place(tag)?;
        if let Some(again) = place.again() {
            return Some(Box::new(move |context| again(context)));
        }
        match place {
            Place::Waiting(work) => match work.take()? {
                Work::Once(body) => Some(body),
                Work::Again(_) => None,
            },
            Place::Free | Place::Running { .. } => None,
        }
    }

    /// The job runs as this task.
    pub(crate) fn running(&mut self, tag: u64, cell: Arc<RunCell>, task: AbortHandle, kind: JobKind) {
        if let Some(place) = self.place(tag) {
            let again = place.again();
            *place = Place::Running { cell, task, kind, again };
        }
    }

    /// The job's task.
    pub(crate) fn find(&mut self, tag: u64) -> Option<(Arc<RunCell>, AbortHandle, JobKind)> {
        match self.place(tag)? {
            Place::Running { cell, task, kind, .. } => Some((Arc::clone(cell), task.clone(), *kind)),
            Place::Free | Place::Waiting(_) => None,
        }
    }

    /// The job is over. What is returned is dropped without the lock: a body's destructor is anybody's code.
    pub(crate) fn forget(&mut self, tag: u64) -> Option<impl Sized + use<>> {
        let index = usize::try_from(tag).ok()?;
        let place = std::mem::replace(self.places.get_mut(index)?, Place::Free);
        if !matches!(place, Place::Free) {
            self.free.push(index);
        }
        Some(place)
    }

    /// All tasks.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = &AbortHandle> {
        self.places.iter().filter_map(|place| match place {
            Place::Running { task, .. } => Some(task),
            Place::Free | Place::Waiting(_) => None,
        })
    }

    /// All jobs, to be dropped one by one.
    pub(crate) fn into_jobs(self) -> impl Iterator<Item = impl Sized> {
        self.places.into_iter()
    }

    /// Jobs that are kept.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    fn place(&mut self, tag: u64) -> Option<&mut Place> {
        self.places.get_mut(usize::try_from(tag).ok()?)
    }
}
