//! fanin-supervisor
