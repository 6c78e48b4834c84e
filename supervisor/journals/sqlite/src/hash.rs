//! Checksums of what a store holds. A record's covers the one before it, so that none can be lost from the middle.

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
