//! fanin-tests
