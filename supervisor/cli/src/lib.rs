//! fanin-cli
