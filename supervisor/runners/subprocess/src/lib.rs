//! fanin-subprocess
