//! The wire of messages, as Claude speaks it: its requests as those of chat completions, and the answers to it.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::model::Reply;

/// Tells calls apart.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A request as one of chat completions.
pub(crate) fn as_chat(request: &Value) -> Value {
    let messages = request["messages"].as_array().into_iter().flatten().flat_map(split);
    let messages: Vec<Value> = messages.collect();
    let tools: Vec<_> =
        request["tools"].as_array().into_iter().flatten().map(|tool| json!({"name": tool["name"]})).collect();
    // Whatever it asks a small model for is beside the conversation.
    let is_small = request["model"].as_str().is_some_and(|model| model.contains("haiku"));
    let model = if is_small { "mock-small" } else { "mock-1" };
    json!({"model": model, "messages": messages, "tools": tools})
}

/// A message by its blocks: what tools answered stands in one of the user.
fn split(message: &Value) -> Vec<Value> {
    let Some(blocks) = message["content"].as_array() else { return vec![message.clone()] };
    let mut split = Vec::new();
    let mut texts = Vec::new();
    for block in blocks {
        match block["type"].as_str() {
            Some("tool_result") => split.push(json!({"role": "tool", "content": block["content"]})),
            Some("text") => texts.push(block.clone()),
            _ => {}
        }
    }
    // A reminder beside an answer is no question.
    if split.is_empty() || message["role"] != "user" {
        split.push(json!({"role": message["role"], "content": texts}));
    }
    split
}

/// Writes a whole answer.
pub(crate) fn write(out: &mut impl Write, reply: &Reply) -> io::Result<()> {
    let blocks: Vec<Value> = match reply {
        Reply::Text(text) | Reply::After(_, text) => vec![json!({"type": "text", "text": text})],
        Reply::Calls(calls) => {
            let id = || format!("toolu_{}", NEXT.fetch_add(1, Ordering::Relaxed));
            let call = |(name, input): &(String, Value)| json!({"type": "tool_use", "id": id(), "name": name, "input": input});
            calls.iter().map(call).collect()
        }
        Reply::Cut(..) | Reply::Never | Reply::Busy(_) => return Err(io::ErrorKind::Unsupported.into()),
    };
    let reason = if matches!(reply, Reply::Calls(_)) { "tool_use" } else { "end_turn" };
    let mut send = |kind: &str, mut event: Value| {
        event["type"] = kind.into();
        write!(out, "event: {kind}\ndata: {event}\n\n").and_then(|()| out.flush())
    };
    let none: [Value; 0] = [];
    let id = format!("msg_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let message = json!({"id": id, "type": "message", "role": "assistant", "model": "mock-1", "content": none,
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 100, "output_tokens": 1}});
    send("message_start", json!({"message": message}))?;
    for (index, block) in blocks.iter().enumerate() {
        let (start, delta) = match block["type"].as_str() {
            Some("text") => {
                (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": block["text"]}))
            }
            _ => {
                let mut start = block.clone();
                start["input"] = json!({});
                (start, json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}))
            }
        };
        send("content_block_start", json!({"index": index, "content_block": start}))?;
        send("content_block_delta", json!({"index": index, "delta": delta}))?;
        send("content_block_stop", json!({"index": index}))?;
    }
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    send("message_delta", json!({"delta": delta, "usage": {"output_tokens": 20}}))?;
    send("message_stop", json!({}))
}
