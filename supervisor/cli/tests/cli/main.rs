//! The built program `fanin`, from its command line to its exit code. Nothing here looks inside.

#[cfg(test)]
mod again;
#[cfg(test)]
mod agents;
#[cfg(test)]
mod budgets;
#[cfg(test)]
mod common;
#[cfg(test)]
mod config;
#[cfg(test)]
mod damaged;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod doors;
#[cfg(test)]
mod each;
#[cfg(test)]
mod github;
#[cfg(test)]
mod json;
#[cfg(test)]
mod junit;
#[cfg(test)]
mod large;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod manifests;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod mcp_clients;
#[cfg(test)]
mod nested;
#[cfg(test)]
mod notice;
#[cfg(test)]
mod on_done;
#[cfg(test)]
mod place;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod resumed;
#[cfg(test)]
mod run;
#[cfg(test)]
mod sanitize;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod service;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod stores;
#[cfg(test)]
mod team;
#[cfg(test)]
mod watches;
