//! The wire of responses, which Codex speaks: its requests as messages of chat completions, and the answers to it.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::model::Reply;

/// A request as one of chat completions.
pub(crate) fn as_chat(request: &Value) -> Value {
    let items = request["input"].as_array().unwrap().iter();
    let messages: Vec<Value> = items
        .filter_map(|item| match item["type"].as_str()? {
            "message" => Some(json!({"role": item["role"], "content": item["content"]})),
            "function_call_output" => Some(json!({"role": "tool", "content": item["output"]})),
            _ => None,
        })
        .collect();
    let tools: Vec<Value> = request["tools"].as_array().into_iter().flatten().flat_map(names).collect();
    json!({"model": request["model"], "messages": messages, "tools": tools})
}

/// A tool by its name, or those of a namespace by `NAMESPACE/NAME`.
fn names(tool: &Value) -> Vec<Value> {
    let named = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    match tool["tools"].as_array() {
        Some(tools) => {
            let full = |inner| format!("{}/{}", named(tool), named(inner));
            tools.iter().map(|inner| json!({"name": full(inner)})).collect()
        }
        None => vec![json!({"name": named(tool)})],
    }
}

/// Writes a whole answer.
pub(crate) fn write(out: &mut impl Write, reply: &Reply) -> io::Result<()> {
    let items: Vec<Value> = match reply {
        Reply::Text(text) | Reply::After(_, text) => {
            vec![json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]})]
        }
        Reply::Calls(calls) => {
            let call = |(nth, (name, arguments)): (usize, &(String, Value))| {
                let mut call = json!({"id": format!("fc_{nth}"), "type": "function_call", "status": "completed",
                    "call_id": format!("call_{nth}"), "name": name, "arguments": arguments.to_string()});
                if let Some((namespace, name)) = name.split_once('/') {
                    (call["namespace"], call["name"]) = (namespace.into(), name.into());
                }
                call
            };
            calls.iter().enumerate().map(call).collect()
        }
        Reply::Cut(..) | Reply::Never | Reply::Busy(_) => return Err(io::ErrorKind::Unsupported.into()),
    };
    let mut number = 0;
    let mut send = |kind: &str, mut event: Value| {
        (event["type"], event["sequence_number"]) = (kind.into(), number.into());
        number += 1;
        write!(out, "event: {kind}\ndata: {event}\n\n").and_then(|()| out.flush())
    };
    let usage = json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 120});
    let response = |status: &str, output: &[Value], usage: Value| {
        json!({"response": {"id": "resp_1", "object": "response", "created_at": 1, "model": "mock-1",
            "status": status, "output": output, "usage": usage, "error": null}})
    };
    send("response.created", response("in_progress", &[], Value::Null))?;
    for (nth, item) in items.iter().enumerate() {
        send("response.output_item.added", json!({"output_index": nth, "item": item}))?;
        send("response.output_item.done", json!({"output_index": nth, "item": item}))?;
    }
    send("response.completed", response("completed", &items, usage))
}
