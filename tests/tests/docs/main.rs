//! The pages of `docs/` against the code: a page that no longer says what is there fails here.

mod errors;
mod events;
mod limits;
mod links;
mod readme;
mod samples;
mod states;
#[path = "../tree/mod.rs"]
mod tree;

/// The backticked name in the first cell of each row.
fn first_names(rows: &[Vec<String>]) -> Vec<&str> {
    rows.iter().map(|row| row[0].trim_matches('`')).collect()
}

/// All variants of an enum of unit variants. A variant that is missing in the list stops the build.
macro_rules! every {
    ($enum:ident: $($variant:ident)+) => {{
        let all = [$($enum::$variant),+];
        for one in all {
            match one { $($enum::$variant => {})+ }
        }
        all
    }};
}
pub(crate) use every;

/// The name of a value on the wire.
fn wire(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).expect("it is plain data");
    value.as_str().unwrap_or_else(|| panic!("{value} is no name")).to_owned()
}
