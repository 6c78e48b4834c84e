//! All that was kept of what jobs put out, where it is more than the excerpt in their records. The newest is kept
//! within a bound; of an older one the excerpt is left.

use std::collections::{HashMap, VecDeque};

use fanin_protocol::Lifetime;
use fanin_protocol::limits::OUTPUTS_BYTES_MAX;

use crate::output::JobOutput;

/// The outputs of a supervisor's jobs.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    kept: HashMap<Lifetime, JobOutput>,
    /// Oldest first.
    order: VecDeque<Lifetime>,
    bytes: u64,
}

impl Outputs {
    /// Keeps the output of a job that is over, unless there is one; the oldest go where it is too much.
    pub(crate) fn keep(&mut self, life: Lifetime, output: JobOutput) {
        if self.kept.contains_key(&life) {
            return;
        }
        self.bytes += output.bytes().len() as u64;
        self.order.push_back(life);
        self.kept.insert(life, output);
        while self.bytes > OUTPUTS_BYTES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            let bytes = self.kept.remove(&oldest).map_or(0, |output| output.bytes().len() as u64);
            self.bytes -= bytes;
        }
    }

    pub(crate) fn get(&self, life: Lifetime) -> Option<JobOutput> {
        self.kept.get(&life).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_outputs_are_kept_within_the_bound() {
        const EACH: usize = 32 * 1024 * 1024;
        let life = |n: u8| Lifetime(n.into());
        let bytes = bytes::Bytes::from(vec![b'x'; EACH]);
        let fit = u8::try_from(OUTPUTS_BYTES_MAX / EACH as u64).unwrap();
        let mut outputs = Outputs::default();
        for n in 0..=fit {
            outputs.keep(life(n), JobOutput::whole(bytes.clone()));
            assert!(outputs.bytes <= OUTPUTS_BYTES_MAX);
        }
        assert_eq!(outputs.get(life(0)), None);
        assert!((1..=fit).all(|n| outputs.get(life(n)).is_some()));
        outputs.keep(life(fit), JobOutput::default());
        assert_eq!(outputs.get(life(fit)).unwrap().bytes().len(), EACH, "a late one changes nothing");
        assert_eq!((outputs.order.len(), outputs.kept.len()), (usize::from(fit), usize::from(fit)));
    }
}
