//! fanin-machine
