//! Space that is kept for the day when the disk is full: it is given back then, so that stops and ends of what runs can
//! still be written (ST-9).

use std::fs;
use std::io::{self, Write};

use fanin_protocol::limits::{BALLAST_BYTES, LOW_SPACE_BYTES};

use crate::layout::{self, Layout};

/// The file of ballast.
#[derive(Debug)]
pub(crate) struct Ballast {
    is_there: bool,
}

impl Ballast {
    /// Takes the space, where there is room for it.
    pub(crate) fn take(layout: &Layout) -> Self {
        let is_there = has_all(layout) || (!is_low(layout) && fill(layout).is_ok());
        Self { is_there }
    }

    /// Gives the space back; false where it was given before.
    pub(crate) fn give(&mut self, layout: &Layout) -> bool {
        std::mem::take(&mut self.is_there) && fs::remove_file(layout.ballast()).is_ok()
    }

    /// Takes it again, where there is room.
    pub(crate) fn restore(&mut self, layout: &Layout) {
        if !self.is_there {
            *self = Self::take(layout);
        }
    }
}

/// True where so little space is left that nothing new should be taken on.
pub(crate) fn is_low(layout: &Layout) -> bool {
    fs4::available_space(&layout.dir).is_ok_and(|free| free < LOW_SPACE_BYTES)
}

fn has_all(layout: &Layout) -> bool {
    fs::metadata(layout.ballast()).is_ok_and(|file| file.len() == BALLAST_BYTES)
}

/// Bytes that no file system leaves out: a hole would be no ballast.
fn fill(layout: &Layout) -> io::Result<()> {
    let mut file = layout::open_private(&layout.ballast())?;
    let chunk: Vec<u8> = (0..64 * 1024u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let mut left = BALLAST_BYTES;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
        file.write_all(chunk.get(..part).unwrap_or_default())?;
        left -= part as u64;
    }
    file.sync_data()
}
