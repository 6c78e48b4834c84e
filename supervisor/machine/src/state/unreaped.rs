//! What may have lived on of a job that is over, and what becomes known of it later.

use std::sync::Arc;

use fanin_protocol::{Fence, Left};

/// What may have lived on of a job that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unreaped {
    /// Its run was given up; whoever has it in hand will say so once it is over.
    Runs(Fence),
    /// Its run is over and left this. Nobody will say more unless somebody looks.
    Left(Fence, Arc<Left>),
    /// Nothing lives any more.
    Gone,
}

impl Unreaped {
    /// The run is over, late as that is: what it left is all that may live on.
    pub(crate) fn over(&mut self, run: Fence, left: Option<Arc<Left>>) {
        if *self == Self::Runs(run) {
            let left = left.filter(|left| left.is_unreaped());
            *self = left.map_or(Self::Gone, |left| Self::Left(run, left));
        }
    }

    /// Somebody has looked: nothing is alive of what the run left.
    pub(crate) fn gone(&mut self, run: Fence) {
        if matches!(self, Self::Left(fence, _) if *fence == run) {
            *self = Self::Gone;
        }
    }
}
