//! Real agents as clients of `fanin mcp`, offline, with a scripted model. What they are and how they are found is said in
//! `tests/tests/real`, whose rig this is.

#[cfg(test)]
#[expect(dead_code, reason = "the rig has more than is needed here")]
#[path = "../../../../tests/tests/real/agent.rs"]
mod agent;
#[cfg(test)]
mod fan_out;
#[cfg(test)]
#[expect(dead_code, reason = "the rig has more than is needed here")]
#[path = "../../../../tests/tests/real/model.rs"]
mod model;
#[cfg(test)]
#[path = "../../../../tests/tests/real/responses.rs"]
mod responses;
