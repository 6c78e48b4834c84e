//! The high-water mark: how far the log had come, kept beside the database. SQLite drops what follows a damaged page of
//! its write-ahead log and calls the rest sound; against the mark the loss is seen (ST-4).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use fanin_protocol::limits::MARK_SYNC;
use fanin_protocol::{LogId, Seq};
use fanin_supervisor::journal::JournalError;

use crate::failure;
use crate::layout::{self, Layout};

/// Two of them, written in turn: a torn write leaves the other.
const SLOT: usize = 128;
/// The log's name at the most; an id has 64 characters.
const NAME: usize = 80;

/// How far a log had come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) log: LogId,
    pub(crate) seq: Seq,
    /// The checksum of that record.
    pub(crate) crc: u32,
    /// Batches that were committed: one without records moves nothing else.
    pub(crate) commits: u64,
}

/// The file.
#[derive(Debug)]
pub(crate) struct Mark {
    file: File,
    turn: u64,
    /// What was written since the last sync.
    is_dirty: bool,
    synced: Instant,
    pub(crate) syncs: u64,
}

impl Mark {
    /// Opens the mark to go on with it.
    pub(crate) fn open(layout: &Layout) -> Result<Self, JournalError> {
        let io = |error: std::io::Error| failure::of_file(layout, "hwm", &error);
        let file = layout::open_private(&layout.mark()).map_err(io)?;
        let turn = read(&file).map_err(io)?.map_or(0, |(_, turn)| turn + 1);
        Ok(Self { file, turn, is_dirty: false, synced: Instant::now(), syncs: 0 })
    }

    /// What a mark shows: `None` where neither half can be read. It makes no file.
    pub(crate) fn look(layout: &Layout) -> Option<Reached> {
        let file = File::open(layout.mark()).ok()?;
        read(&file).ok().flatten().map(|(reached, _)| reached)
    }

    /// Moves the mark on. It is on disk a second later at the latest: it may lag behind, never run ahead.
    pub(crate) fn write(&mut self, layout: &Layout, reached: &Reached) -> Result<(), JournalError> {
        let io = |error: std::io::Error| failure::of_file(layout, "hwm", &error);
        let place = (self.turn % 2) * SLOT as u64;
        self.file.write_all_at(&encode(reached), place).map_err(io)?;
        self.turn += 1;
        self.is_dirty = true;
        if self.synced.elapsed() >= MARK_SYNC { self.sync(layout) } else { Ok(()) }
    }

    /// Brings it to disk.
    pub(crate) fn sync(&mut self, layout: &Layout) -> Result<(), JournalError> {
        if std::mem::take(&mut self.is_dirty) {
            self.file.sync_data().map_err(|error| failure::of_file(layout, "hwm", &error))?;
            self.syncs += 1;
        }
        self.synced = Instant::now();
        Ok(())
    }
}

fn encode(reached: &Reached) -> [u8; SLOT] {
    let mut slot = [0; SLOT];
    let log = reached.log.to_string();
    let parts: [&[u8]; 5] = [
        &reached.seq.0.to_le_bytes(),
        &reached.commits.to_le_bytes(),
        &reached.crc.to_le_bytes(),
        &[u8::try_from(log.len()).unwrap_or(0)],
        log.as_bytes(),
    ];
    let mut rest = &mut slot[..NAME + 21];
    for part in parts {
        let (here, behind) = rest.split_at_mut(part.len().min(rest.len()));
        here.copy_from_slice(part.get(..here.len()).unwrap_or_default());
        rest = behind;
    }
    let crc = crc32c::crc32c(slot.get(..SLOT - 4).unwrap_or_default()).to_le_bytes();
    if let Some(end) = slot.last_chunk_mut() {
        *end = crc;
    }
    slot
}

fn decode(slot: &[u8]) -> Option<Reached> {
    let (body, crc) = slot.split_last_chunk::<4>()?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
        return None;
    }
    let (seq, body) = body.split_first_chunk::<8>()?;
    let (commits, body) = body.split_first_chunk::<8>()?;
    let (crc, body) = body.split_first_chunk::<4>()?;
    let (len, name) = body.split_first()?;
    let log = std::str::from_utf8(name.get(..usize::from(*len))?).ok()?;
    let log = LogId::parse(log).ok()?;
    Some(Reached {
        log,
        seq: Seq(u64::from_le_bytes(*seq)),
        crc: u32::from_le_bytes(*crc),
        commits: u64::from_le_bytes(*commits),
    })
}

/// The further of the two halves, and its turn.
fn read(file: &File) -> std::io::Result<Option<(Reached, u64)>> {
    let mut best = None;
    for turn in 0..2u64 {
        let mut slot = [0; SLOT];
        match file.read_exact_at(&mut slot, turn * SLOT as u64) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => continue,
            Err(error) => return Err(error),
        }
        if let Some(reached) = decode(&slot)
            && best.as_ref().is_none_or(|(known, _): &(Reached, u64)| known.commits <= reached.commits)
        {
            best = Some((reached, turn));
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_half_leaves_the_other_and_two_leave_none() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::of(dir.path());
        let log = LogId::from_uuid([7; 16]);
        let reached = |seq| Reached { log: log.clone(), seq: Seq(seq), crc: 9, commits: seq };
        assert_eq!(Mark::look(&layout), None);
        let mut mark = Mark::open(&layout).unwrap();
        mark.write(&layout, &reached(1)).unwrap();
        mark.write(&layout, &reached(2)).unwrap();
        let bytes = std::fs::read(layout.mark()).unwrap();
        for at in 0..2 * SLOT {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            std::fs::write(layout.mark(), &bytes).unwrap();
            assert_eq!(Mark::look(&layout), Some(reached(if at < SLOT { 2 } else { 1 })), "byte {at}");
            bytes[(at + SLOT) % (2 * SLOT)] ^= 1;
            std::fs::write(layout.mark(), &bytes).unwrap();
            assert_eq!(Mark::look(&layout), None);
        }
    }
}
