//! `docs/limits.md` is `protocol/src/limits.rs`.

use crate::tree;

#[test]
fn the_table_of_limits_is_the_file_of_limits() {
    let constants = constants(&tree::read("protocol/src/limits.rs"));
    let rows = tree::table(&tree::read("docs/limits.md"), "# Limits");
    assert!(constants.len() > 20, "the file is not read rightly: {constants:?}");
    for (place, constant) in constants.iter().enumerate() {
        let is_shown = rows.get(place) == Some(constant);
        assert!(is_shown, "row {} of docs/limits.md should be\n| {} |", place + 1, constant.join(" | "));
    }
    assert_eq!(rows.len(), constants.len(), "docs/limits.md has rows that are no constants");
}

/// Name, value and reason of each constant, as a row of the table.
fn constants(source: &str) -> Vec<Vec<String>> {
    let (mut reason, mut found) = (Vec::new(), Vec::new());
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("///") {
            reason.push(text.trim());
        } else if let Some(constant) = line.strip_prefix("pub const ") {
            let (name, rest) = constant.split_once(": ").expect("a constant has a type");
            let (_, value) = rest.trim_end_matches(';').split_once(" = ").expect("a constant has a value");
            let reason: Vec<&str> = reason.drain(..).filter(|line| !line.is_empty()).collect();
            assert!(!reason.is_empty(), "{name} has no reason");
            found.push(vec![format!("`{name}`"), shown(name, value), reason.join(" ")]);
        }
    }
    found
}

/// A value as people read it.
fn shown(name: &str, value: &str) -> String {
    if let Some(seconds) = value.strip_prefix("Duration::from_secs(") {
        return unit(product(seconds.trim_end_matches(')')) * 1_000, &TIMES);
    }
    if let Some(millis) = value.strip_prefix("Duration::from_millis(") {
        return unit(product(millis.trim_end_matches(')')), &TIMES);
    }
    if name.contains("BYTES") { unit(product(value), &SIZES) } else { grouped(product(value)) }
}

const TIMES: [(u64, &str); 5] =
    [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
const SIZES: [(u64, &str); 3] = [(1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")];

/// In the largest unit that needs no fraction.
fn unit(value: u64, units: &[(u64, &str)]) -> String {
    let (size, name) = units.iter().find(|(size, _)| value.is_multiple_of(*size)).expect("the last one is 1");
    format!("{} {name}", grouped(value / size))
}

fn product(text: &str) -> u64 {
    let factors = text.split('*').map(|factor| factor.trim().replace('_', ""));
    factors.map(|factor| factor.parse::<u64>().unwrap_or_else(|_| panic!("`{text}` is no product"))).product()
}

fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}
