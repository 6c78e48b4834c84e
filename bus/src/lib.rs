//! fanin-bus
