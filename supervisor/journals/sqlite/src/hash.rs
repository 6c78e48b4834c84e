//! Checksums of what a store holds. A record's covers the one before it, so that none can be lost from the middle.

use std::hash::Hasher;

use fanin_protocol::{Envelope, RowKind};
use fanin_supervisor::journal::Row;

/// Of a record, behind the record with the checksum `before`.
pub(crate) fn record(before: u32, record: &Envelope, ids: &[u8]) -> u32 {
    let Envelope { v, seq, ts_ms, kind, ignorable, ids: _, body } = record;
    let crc = crc32c::crc32c_append(before, &seq.0.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &ts_ms.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &v.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &[u8::from(*ignorable)]);
    let crc = bytes(text(crc, kind), ids);
    crc32c::crc32c_append(crc, body)
}

/// Of a row.
pub(crate) fn row(row: &Row) -> u32 {
    let crc = crc32c::crc32c_append(place(row.kind, row.key), row.id.as_bytes());
    crc32c::crc32c_append(crc, &row.body)
}

fn place(kind: RowKind, key: u64) -> u32 {
    crc32c::crc32c_append(text(0, kind.as_str()), &key.to_le_bytes())
}

/// Of a piece of output.
pub(crate) fn piece(job: u64, at: u64, bytes: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&job.to_le_bytes()), &at.to_le_bytes());
    crc32c::crc32c_append(crc, bytes)
}

/// Of what is known of a job's output as a whole.
pub(crate) fn put_out(job: u64, total: u64, pieces: Sum) -> u32 {
    let numbers = [job, total, pieces.count, pieces.digest];
    numbers.iter().fold(0, |crc, number| crc32c::crc32c_append(crc, &number.to_le_bytes()))
}

/// How many things there are, and their checksums in one number that does not depend on their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) count: u64,
    pub(crate) digest: u64,
}

impl Sum {
    pub(crate) const fn add(&mut self, crc: u32) {
        self.count = self.count.wrapping_add(1);
        self.digest ^= spread(crc);
    }

    /// Takes out what was added.
    pub(crate) const fn remove(&mut self, crc: u32) {
        self.count = self.count.wrapping_sub(1);
        self.digest ^= spread(crc);
    }
}

/// Checksums are linear: of plain ones, three wrong ones can add up to a right one.
const fn spread(crc: u32) -> u64 {
    let spread = (crc as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    spread ^ (spread >> 29)
}

fn text(crc: u32, text: &str) -> u32 {
    bytes(crc, text.as_bytes())
}

/// With their length, so that two do not run into each other.
fn bytes(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &(bytes.len() as u64).to_le_bytes()), bytes)
}

/// Hashes the places of rows, which are numbers of our own: what nobody can choose needs no guard against being chosen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OfPlace(u64);

impl Hasher for OfPlace {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_i64(i64::from(*byte)));
    }

    // A table takes its bits from both ends, so those of the kind, which are the highest, have to reach the lowest.
    fn write_i64(&mut self, place: i64) {
        let mix = |n: u64, by: u64| (n ^ n >> 32).wrapping_mul(by);
        let mixed = mix(mix(self.0 ^ place.cast_unsigned(), 0x9e37_79b9_7f4a_7c15), 0xd6e8_feb8_6659_fd93);
        self.0 = mixed ^ mixed >> 32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, BuildHasherDefault};

    use super::*;
    use crate::layout::place_of;

    // A table takes the low bits for a thing's bucket and the seven highest to tell those in one apart.
    #[test]
    fn places_that_follow_each_other_fill_both_ends_of_their_hashes() {
        let hashes: Vec<u64> = RowKind::ALL
            .into_iter()
            .flat_map(|kind| (0..4_096).map(move |key| place_of(kind, key)))
            .map(|place| BuildHasherDefault::<OfPlace>::default().hash_one(place))
            .collect();
        let buckets: HashSet<u64> = hashes.iter().map(|hash| hash % 32_768).collect();
        let marks: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
        // Chance alone fills 15,200 of them.
        assert!(
            buckets.len() > 14_000,
            "{} of {} places share a bucket",
            hashes.len() - buckets.len(),
            hashes.len()
        );
        assert_eq!(marks.len(), 128);
    }
}
