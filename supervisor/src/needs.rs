//! What the jobs of a call need of each other, from names to places. It looks at names, and leaves circles to the plan.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use fanin_machine::Member;
use fanin_protocol::{Edges, OnFailedDependency};

use crate::spec::After;

/// What each job needs that needs anything, by its place in the call.
#[derive(Debug, Default)]
pub(crate) struct Needs(Vec<(usize, Vec<After>, OnFailedDependency)>);

impl Needs {
    /// The job at this place needs these. Places rise from call to call.
    pub(crate) fn add(&mut self, index: usize, needs: Vec<After>, on_failed: OnFailedDependency) {
        if !needs.is_empty() {
            self.0.push((index, needs, on_failed));
        }
    }

    /// The edges; `None` where no job needs another.
    ///
    /// # Errors
    ///
    /// All that is wrong, a sentence each.
    pub(crate) fn edges(self, members: &[Member]) -> Result<Option<Arc<Edges>>, Vec<String>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (places, mut problems) = (places(members), Vec::new());
        let called = |place: usize| members.get(place).map(name).unwrap_or_default();
        let mut all = vec![(Vec::new(), OnFailedDependency::Skip); members.len()];
        for (index, needs, on_failed) in self.0 {
            let Some(place) = all.get_mut(index) else { continue };
            place.1 = on_failed;
            for needed in needs {
                let found = match needed {
                    After::Place(place) => Ok(place),
                    After::Name(wanted) => match places.get(&*wanted) {
                        Some(Some(place)) => Ok(*place),
                        Some(None) => Err(format!("`{wanted}`, which is the name of several; give them ids")),
                        None => Err(format!("`{wanted}`, and no job of the call is called so")),
                    },
                };
                match found {
                    Ok(on) => place.0.push(on),
                    Err(problem) => {
                        problems.push(format!("`{}` needs {problem}", called(index)));
                    }
                }
            }
        }
        let edges = Edges::new(all);
        problems.extend(
            edges
                .problems(members.len())
                .iter()
                .map(|problem| problem.describe(|place| called(place as usize))),
        );
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
