//! An agent without a model: it does what its prompt says, word by word, and misbehaves where that says so.
//!
//! It speaks the Agent Client Protocol over its standard input and output. The prompt is a script: steps divided by `;`,
//! each a word and what it needs (`script.rs` has them all). Behind `||` stands what its next turns do, which their prompts
//! do not say. It calls the tools that it is given. An argument makes it misbehave before any prompt, or `keeps` its
//! sessions for a later life. With `plain WORDS` it speaks no protocol at all and puts the words out.

mod hello;
mod memory;
mod script;
mod tools;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["plain", words] => {
            println!("plain: {words}");
            ExitCode::SUCCESS
        }
        _ => hello::serve(args.first().copied().unwrap_or("well")),
    }
}
