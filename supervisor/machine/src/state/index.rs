//! From an id to where its thing is kept. It says nothing that the kept things do not say, so it shows nothing either.

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::marker::PhantomData;

use hashbrown::HashTable;

/// The newest key of each id, eight bytes each: the ids themselves stay with what they name, and are compared there.
///
/// The hash has a key of its own that nobody outside can know, since ids come from callers: nobody can choose ids that
/// all meet in one place.
#[derive(Clone)]
pub(crate) struct Index<I, K> {
    table: HashTable<(u32, K)>,
    hasher: RandomState,
    ids: PhantomData<fn(I)>,
}

impl<I, K> Default for Index<I, K> {
    fn default() -> Self {
        Self { table: HashTable::new(), hasher: RandomState::new(), ids: PhantomData }
    }
}

// Two indexes over the same things are the same.
impl<I, K> PartialEq for Index<I, K> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<I, K> Eq for Index<I, K> {}

impl<I, K> fmt::Debug for Index<I, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl<I: Hash, K: Copy> Index<I, K> {
    /// The key of an id; `is` says whether a key's thing has that id.
    pub(crate) fn get(&self, id: &I, mut is: impl FnMut(K) -> bool) -> Option<K> {
        let hash = self.hash(id);
        self.table.find(spread(hash), |(known, key)| *known == hash && is(*key)).map(|(_, key)| *key)
    }

    /// Keeps a key under an id. Where a key's thing has that id, `may` says whether the new one may take its place.
    /// False where not.
    pub(crate) fn put(
        &mut self,
        id: &I,
        key: K,
        mut is: impl FnMut(K) -> bool,
        may: impl FnOnce(K) -> bool,
    ) -> bool {
        let hash = self.hash(id);
        match self.table.find_mut(spread(hash), |(known, key)| *known == hash && is(*key)) {
            Some((_, known)) if may(*known) => *known = key,
            Some(_) => return false,
            None => {
                self.table.insert_unique(spread(hash), (hash, key), |(hash, _)| spread(*hash));
            }
        }
        true
    }

    /// Lets go of a key that `is` knows.
    pub(crate) fn remove(&mut self, id: &I, mut is: impl FnMut(K) -> bool) {
        let hash = self.hash(id);
        if let Ok(found) = self.table.find_entry(spread(hash), |(known, key)| *known == hash && is(*key)) {
            found.remove();
        }
    }

    pub(crate) fn reserve(&mut self, more: usize) {
        self.table.reserve(more, |(hash, _)| spread(*hash));
    }

    #[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
    fn hash(&self, id: &I) -> u32 {
        self.hasher.hash_one(id) as u32
    }
}

/// The table looks at the lowest bits and at the highest.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}
