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
    names: Vec<(u32, Arc<str>)>,
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

    /// The job at this place is called so in its group, where it is called anything but its label.
    pub(crate) fn called(&mut self, index: usize, name: Option<Arc<str>>) {
        self.names.extend(name.and_then(|name| Some((u32::try_from(index).ok()?, name))));
    }

    /// The edges; `None` where no job needs another or sends to one.
    ///
    /// # Errors
    ///
    /// All that is wrong, a sentence each.
    pub(crate) fn edges(self, members: &[Member]) -> Result<Option<Arc<Edges>>, Vec<String>> {
        let Self { needs, sends, names } = self;
        if needs.is_empty() && sends.is_empty() {
            return Ok(None);
        }
        let (places, mut problems) = (places(members, &names), Vec::new());
        let named: BTreeMap<u32, &str> = names.iter().map(|(place, name)| (*place, &**name)).collect();
        let called = |place: usize| {
            let named = u32::try_from(place).ok().and_then(|place| named.get(&place));
            named
                .map(|name| Cow::Borrowed(*name))
                .or_else(|| members.get(place).map(name))
                .unwrap_or_default()
        };
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
            Ok(Some(edges.named(names)).filter(|edges| !edges.is_empty()).map(Arc::new))
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

/// The places by ids that somebody gave, by names in the group, and by labels; `None` where a name or a label is that of
/// several. An id comes first, a label last.
fn places<'m>(members: &'m [Member], names: &'m [(u32, Arc<str>)]) -> BTreeMap<Cow<'m, str>, Option<u32>> {
    let labels = (0..).zip(members).filter_map(|(place, member)| Some((place, member.label.as_deref()?)));
    let mut places = once(labels);
    places.extend(once(names.iter().map(|(place, name)| (*place, &**name))));
    let given = (0..).zip(members).filter(|(_, member)| !member.is_fresh);
    places.extend(given.map(|(place, member)| (Cow::Owned(member.id.to_string()), Some(place))));
    places
}

/// Places by words; `None` where a word is that of several.
fn once<'m>(words: impl Iterator<Item = (u32, &'m str)>) -> BTreeMap<Cow<'m, str>, Option<u32>> {
    let mut places = BTreeMap::new();
    for (place, word) in words {
        places.entry(Cow::Borrowed(word)).and_modify(|known| *known = None).or_insert(Some(place));
    }
    places
}
