//! fanin-benches
