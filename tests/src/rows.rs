//! A store in a test: rows as the machine gives them, and facts made from them again (G1).

use std::collections::BTreeMap;

use fanin_machine::{Facts, State};
use fanin_protocol::RowKind;

use crate::broken::{Broken, Kept, ensure};

/// What a store holds of what is open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Rows(BTreeMap<(RowKind, u64), Vec<u8>>);

impl Rows {
    /// Takes in what a step has changed.
    ///
    /// # Errors
    ///
    /// [`Broken`] where a row cannot be written.
    pub fn take(&mut self, state: &mut State) -> Kept {
        for row in state.take_rows() {
            let body = row.body.encode().map_err(|error| Broken { rule: "ST-1", what: error.to_string() })?;
            if row.retired {
                self.0.remove(&(row.kind, row.key));
            } else {
                self.0.insert((row.kind, row.key), body.to_vec());
            }
        }
        Ok(())
    }

    /// What differs in two stores of one log, but for the row that says which epoch it is.
    pub fn other_than<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (RowKind, u64)> + 'a {
        let differs = |(one, two): (&'a Self, &'a Self)| {
            let not_in_two =
                move |(place, body): &(&(RowKind, u64), &Vec<u8>)| two.0.get(place) != Some(body);
            one.0.iter().filter(not_in_two).map(|(place, _)| *place)
        };
        let both = [(self, other), (other, self)].into_iter().flat_map(differs);
        both.filter(|(kind, _)| *kind != RowKind::Store)
    }

    /// The facts that the rows say, which are those that the records said.
    ///
    /// # Errors
    ///
    /// [`Broken`] where they are others.
    pub fn restored(&self, facts: &Facts) -> Result<Facts, Broken> {
        let rows = self.0.iter().map(|((kind, key), body)| (*kind, *key, body.as_slice()));
        let restored = Facts::restore(facts.log().cloned(), facts.head(), facts.ts_ms(), rows);
        let restored = restored.map_err(|error| Broken { rule: "ST-1", what: error.to_string() })?;
        ensure(restored == *facts, "G1", || format!("the rows say {restored:?}\nand not {facts:?}"))?;
        Ok(restored)
    }
}
