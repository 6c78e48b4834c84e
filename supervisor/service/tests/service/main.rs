//! A service and its clients, end to end: over pipes in memory, and over sockets.

#[cfg(test)]
mod callers;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod common;
#[cfg(test)]
mod ends;
#[cfg(test)]
mod python;
#[cfg(test)]
mod streams;
