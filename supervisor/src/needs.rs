//! What the jobs of a call need of each other and whom they send mail to, from names to places. It looks at names, and leaves circles to the plan.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use fanin_machine::Member;
use fanin_protocol::{Edges, OnFailedDependency};

use crate::spec::After;

/// What each job needs that needs anything, and to whom it sends, by its place in the call.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    needs: Vec<(usize, Vec<After>, OnFailedDependency)>,
    sends: Vec<(usize, Vec<After>)>,
}

impl Needs {
    /// The job at this place needs these. Places rise from call to call.
    pub(crate) fn add(&mut self, index: usize, needs: Vec<After>, on_failed: OnFailedDependency) {
        if !needs.is_empty() {
            self.needs.push((index, needs, on_failed));
        }
    }

    /// The job at this place may send mail to these.
    pub(crate) fn sends(&mut self, index: usize, to: Vec<After>) {
        if !to.is_empty() {
            self.sends.push((index, to));
        }
    }

    /// The edges; `None` where no job needs another or sends to one.
    ///
    /// # Errors
    ///
    /// All that is wrong, a sentence each.
    pub(crate) fn edges(self, members: &[Member]) -> Result<Option<Arc<Edges>>, Vec<String>> {
        let Self { needs, sends } = self;
        if needs.is_empty() && sends.is_empty() {
            return Ok(None);
        }
        let (places, mut problems) = (places(members), Vec::new());
        let called = |place: usize| members.get(place).map(name).unwrap_or_default();
        let mut find = |index: usize, verb: &str, named: Vec<After>| -> Vec<u32> {
            let place = |wanted: After| {
                let problem = match wanted {
                    After::Place(place) => return Some(place),
                    After::Name(wanted) => match places.get(&*wanted) {
                        Some(Some(place)) => return Some(*place),
                        Some(None) => format!("`{wanted}`, which is the name of several; give them ids"),
                        None => format!("`{wanted}`, and no job of the call is called so"),
                    },
                };
                problems.push(format!("`{}` {verb} {problem}", called(index)));
                None
            };
            named.into_iter().filter_map(place).collect()
        };
        let mut all = vec![(Vec::new(), OnFailedDependency::Skip); members.len()];
        for (index, needed, on_failed) in needs {
            if let Some(place) = all.get_mut(index) {
                *place = (find(index, "needs", needed), on_failed);
            }
        }
        let sends = sends
            .into_iter()
            .filter_map(|(index, to)| Some((u32::try_from(index).ok()?, find(index, "sends to", to))));
        let sends: Vec<(u32, Vec<u32>)> = sends.collect();
        let edges = Edges::new(all).sending(sends);
        let found = edges.problems(members.len());
        problems.extend(found.iter().map(|problem| problem.describe(|place| called(place as usize))));
        if problems.is_empty() {
            Ok(Some(edges).filter(|edges| !edges.is_empty()).map(Arc::new))
        } else {
            Err(problems)
        }
    }
}

/// What a job is called: by its label, as its launcher did, else by its id.
fn name(member: &Member) -> Cow<'_, str> {
    let label = member.label.as_deref().map(Cow::Borrowed);
    label.unwrap_or_else(|| Cow::Owned(member.id.to_string()))
}

/// The places by ids that somebody gave, and by labels; `None` where a label is that of several. An id comes first.
fn places(members: &[Member]) -> BTreeMap<Cow<'_, str>, Option<u32>> {
    let mut places = BTreeMap::new();
    for (place, member) in (0..).zip(members) {
        if let Some(label) = member.label.as_deref() {
            places.entry(Cow::Borrowed(label)).and_modify(|known| *known = None).or_insert(Some(place));
        }
    }
    let given = (0..).zip(members).filter(|(_, member)| !member.is_fresh);
    places.extend(given.map(|(place, member)| (Cow::Owned(member.id.to_string()), Some(place))));
    places
}
