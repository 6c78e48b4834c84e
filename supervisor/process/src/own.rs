//! What this process is to others.

use std::sync::LazyLock;

use fanin_protocol::{PARENT_VARIABLE, ParentMark};

/// How deep this process is below all jobs: 0 where it is part of none. Read once.
pub fn own_depth() -> u32 {
    static DEPTH: LazyLock<u32> = LazyLock::new(|| {
        // A mark that is none says nothing; a program that minds refuses it before it launches.
        let ours = ParentMark::read(std::env::var_os(PARENT_VARIABLE).as_deref());
        ours.ok().flatten().map_or(0, |mark| mark.depth)
    });
    *DEPTH
}
