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
    /// Keeps the output of a job's newest run in place of those before; `None` where its record has all of it. The
    /// oldest go where it is too much.
    pub(crate) fn keep(&mut self, life: Lifetime, output: Option<JobOutput>) {
        // Most jobs leave no more than their record has, and then nothing is looked up.
        if !self.kept.is_empty() && self.take(life) {
            self.order.retain(|kept| *kept != life);
        }
        let Some(output) = output else { return };
        self.bytes += output.bytes().len() as u64;
        self.order.push_back(life);
        self.kept.insert(life, output);
        while self.bytes > OUTPUTS_BYTES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.take(oldest);
        }
    }

    fn take(&mut self, life: Lifetime) -> bool {
        let taken = self.kept.remove(&life);
        self.bytes -= taken.as_ref().map_or(0, |output| output.bytes().len() as u64);
        taken.is_some()
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
            outputs.keep(life(n), Some(JobOutput::whole(bytes.clone())));
            assert!(outputs.bytes <= OUTPUTS_BYTES_MAX);
        }
        assert_eq!(outputs.get(life(0)), None);
        assert!((1..=fit).all(|n| outputs.get(life(n)).is_some()));
        assert_eq!((outputs.order.len(), outputs.kept.len()), (usize::from(fit), usize::from(fit)));
    }

    #[test]
    fn the_output_of_a_later_run_takes_the_place_of_the_one_before() {
        let (mut outputs, life) = (Outputs::default(), Lifetime(1));
        let output = |text: &'static str| Some(JobOutput::from(text));
        outputs.keep(life, output("first"));
        outputs.keep(Lifetime(2), output("another job"));
        outputs.keep(life, output("second run"));
        assert_eq!(outputs.get(life), output("second run"));
        outputs.keep(life, None);
        assert_eq!(outputs.get(life), None, "the record has all of the newest run's");
        assert_eq!((outputs.order.len(), outputs.bytes), (1, "another job".len() as u64));
    }
}
