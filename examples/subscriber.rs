//! Prints what happens in a service, from the first record on, also over its restarts.
//!
//! Run it beside `fanin serve`: `cargo run -p fanin-tests --example subscriber -- "$(cat ~/.local/state/fanin/store/socket)"`.

use fanin_client::{Client, ClientError, Item, Subscribe};

#[tokio::main]
async fn main() -> Result<(), ClientError> {
    let socket = std::env::args().nth(1).unwrap_or_default();
    let mut events = Client::unix(socket).subscribe(Subscribe::default());
    while let Some(item) = events.next().await? {
        match item {
            Item::Event(event) => println!("{} {} {:?}", event.seq, event.kind, event.ids.job),
            Item::Gap { from, to, .. } => println!("{from} to {to} are kept no more"),
            _ => {}
        }
    }
    Ok(())
}
