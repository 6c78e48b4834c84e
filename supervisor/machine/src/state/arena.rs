//! Things by places that are given in order and never again, so that no late key can hit a newer thing. Places of things
//! that are gone cost nothing.

use std::collections::BTreeSet;
use std::fmt;

/// Places that are allocated and freed together: enough that a large fan-out allocates rarely, few enough that one thing
/// that lives long does not hold much.
const CHUNK: usize = 256;

/// Things of one kind.
#[derive(Clone)]
pub(crate) struct Arena<T> {
    chunks: Vec<Chunk<T>>,
    /// Those of them that hold something: what is gone long ago is not walked over.
    full: BTreeSet<usize>,
    /// The next place.
    next: usize,
    /// Things that are there.
    len: usize,
}

#[derive(Clone)]
struct Chunk<T> {
    /// Shorter than a chunk where nothing has come behind; empty and without room where all is gone.
    slots: Vec<Option<T>>,
    live: usize,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), full: BTreeSet::new(), next: 0, len: 0 }
    }
}

impl<T> Arena<T> {
    /// The place that the next thing gets, which is how many there ever were.
    pub(crate) const fn next(&self) -> usize {
        self.next
    }

    /// Puts a thing at the next place.
    pub(crate) fn push(&mut self, thing: T) {
        self.insert(self.next, thing);
    }

    /// Puts a thing at a place that none has had, for one who restores what was there. Places before it stay empty.
    pub(crate) fn insert(&mut self, place: usize, thing: T) {
        let (index, slot) = (place / CHUNK, place % CHUNK);
        while self.chunks.len() <= index {
            self.chunks.push(Chunk { slots: Vec::new(), live: 0 });
        }
        self.next = self.next.max(place + 1);
        let Some(chunk) = self.chunks.get_mut(index) else { return };
        if chunk.slots.capacity() == 0 && place >= CHUNK {
            chunk.slots.reserve_exact(CHUNK);
        }
        while chunk.slots.len() <= slot {
            chunk.slots.push(None);
        }
        if let Some(slot) = chunk.slots.get_mut(slot)
            && slot.replace(thing).is_none()
        {
            if chunk.live == 0 {
                self.full.insert(index);
            }
            chunk.live += 1;
            self.len += 1;
        }
    }

    /// Leaves places empty up to this one.
    pub(crate) fn skip_to(&mut self, next: usize) {
        self.next = self.next.max(next);
    }

    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        self.chunks.get(place / CHUNK)?.slots.get(place % CHUNK)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        self.chunks.get_mut(place / CHUNK)?.slots.get_mut(place % CHUNK)?.as_mut()
    }

    /// Takes a thing out for good.
    pub(crate) fn remove(&mut self, place: usize) -> Option<T> {
        let chunk = self.chunks.get_mut(place / CHUNK)?;
        let thing = chunk.slots.get_mut(place % CHUNK)?.take()?;
        chunk.live -= 1;
        self.len -= 1;
        if chunk.live == 0 {
            self.full.remove(&(place / CHUNK));
            // What is still to come would need the room again.
            if self.next >= (place / CHUNK + 1) * CHUNK {
                chunk.slots = Vec::new();
            }
        }
        Some(thing)
    }

    /// All that are there, with their places, in the order of these.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.from(0)
    }

    /// Those from a place on.
    pub(crate) fn from(&self, place: usize) -> impl Iterator<Item = (u32, &T)> {
        let first = place / CHUNK;
        let chunks = self.full.range(first..).filter_map(|index| Some((*index, self.chunks.get(*index)?)));
        chunks.flat_map(move |(index, chunk)| {
            let skip = if index == first { place % CHUNK } else { 0 };
            let base = index * CHUNK;
            chunk
                .slots
                .iter()
                .enumerate()
                .skip(skip)
                .filter_map(move |(slot, thing)| Some((u32::try_from(base + slot).ok()?, thing.as_ref()?)))
        })
    }

    /// The places of all that are there.
    pub(crate) fn places(&self) -> Vec<u32> {
        self.iter().map(|(place, _)| place).collect()
    }

    /// The first place before which `is_before` holds for all that are there, where it holds for the first so many and
    /// for none behind.
    pub(crate) fn first_not(&self, is_before: impl Fn(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.next);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.from(middle).next() {
                Some((place, thing)) if (place as usize) < high && is_before(thing) => {
                    low = place as usize + 1
                }
                Some(_) | None => high = middle,
            }
        }
        low
    }
}

// Where things are, and what they are; not which places were used before.
impl<T: PartialEq> PartialEq for Arena<T> {
    fn eq(&self, other: &Self) -> bool {
        self.next == other.next && self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for Arena<T> {}

impl<T: fmt::Debug> fmt::Debug for Arena<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_never_given_twice_and_empty_chunks_hold_nothing() {
        let mut arena = Arena::default();
        (0..3 * CHUNK).for_each(|n| arena.push(n));
        for place in 0..2 * CHUNK {
            assert_eq!(arena.remove(place), Some(place));
            assert_eq!(arena.remove(place), None);
        }
        assert!(arena.chunks.iter().take(2).all(|chunk| chunk.slots.capacity() == 0));
        assert_eq!((arena.len, arena.next()), (CHUNK, 3 * CHUNK));
        arena.push(7);
        assert_eq!(arena.get(3 * CHUNK), Some(&7));
        assert_eq!(arena.get(0), None);
        assert_eq!(arena.iter().next(), Some((2 * CHUNK as u32, &(2 * CHUNK))));
    }

    #[test]
    fn a_search_finds_the_edge_whatever_is_gone() {
        let mut arena = Arena::default();
        (0..700).for_each(|n| arena.push(n));
        for step in [1, 2, 3, 50] {
            let mut arena = arena.clone();
            (0..700).filter(|n| n % step != 0).for_each(|n| assert!(arena.remove(n).is_some()));
            for edge in [0, 1, 255, 256, 257, 511, 512, 699, 700] {
                let found = arena.first_not(|n| *n < edge);
                assert!(
                    arena.iter().all(|(place, n)| (*n < edge) == ((place as usize) < found)),
                    "{step} {edge}"
                );
            }
        }
    }

    #[test]
    fn what_is_restored_is_what_was_there() {
        let mut arena = Arena::default();
        (0..600).for_each(|n| arena.push(n));
        (0..600).filter(|n| n % 7 != 0).for_each(|n| assert!(arena.remove(n).is_some()));
        let mut restored = Arena::default();
        arena.iter().for_each(|(place, n)| restored.insert(place as usize, *n));
        restored.skip_to(arena.next());
        assert_eq!(restored, arena);
    }
}
