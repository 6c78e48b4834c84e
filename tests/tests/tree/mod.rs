//! The files of this repository as the tests of docs and edges read them. Nothing here checks anything.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is below the workspace").to_owned()
}

/// The text of a file of the repository.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All text files below a folder of the repository, by their paths from its root, sorted. Build output and what git
/// keeps are no part of it, nor is what is no text.
pub(crate) fn files(below: &str) -> Vec<(String, String)> {
    let (root, mut found) = (root(), Vec::new());
    let mut folders = vec![root.join(below)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a folder can be read to its end").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if [".git", "target"].contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let path = path.strip_prefix(&root).expect("it is below the root");
                found.push((path.to_string_lossy().into_owned(), text));
            }
        }
    }
    found.sort();
    found
}

/// The cells of the table that follows a heading, without its head. The heading is given with its `#` marks.
pub(crate) fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let rows: Vec<Vec<String>> = text
        .lines()
        .skip_while(|line| *line != heading)
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect();
    assert!(!rows.is_empty(), "no table below `{heading}`");
    rows
}

/// A line of Rust without a comment at its end; empty where it is nothing else.
///
/// Two slashes inside a string are taken for a comment as well, which is harmless here.
pub(crate) fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default().trim()
}

/// The names between backticks.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The variants of an enum, read from its source. `head` is such as `enum Phase`.
pub(crate) fn variants(source: &str, head: &str) -> Vec<String> {
    let start = source.find(&format!("{head} {{")).unwrap_or_else(|| panic!("there is no `{head}`"));
    let (mut depth, mut found) = (0_i32, Vec::new());
    for line in source[start..].lines() {
        let line = code(line);
        if depth == 1 && line.starts_with(|c: char| c.is_ascii_uppercase()) {
            found.push(line.chars().take_while(char::is_ascii_alphanumeric).collect());
        }
        depth += line.chars().map(|c| i32::from("{(".contains(c)) - i32::from("})".contains(c))).sum::<i32>();
        if depth == 0 {
            break;
        }
    }
    found
}
