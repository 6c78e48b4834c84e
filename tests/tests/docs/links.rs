//! What a page points at is there: links, files, rules.

use std::collections::BTreeSet;
use std::path::Path;

use crate::tree;

/// The letters before the number of a rule.
const RULES: [&str; 16] =
    ["P", "C", "J", "A", "S", "BAR", "W", "R", "SC", "B", "BU", "ST", "RE", "T", "SH", "SEC"];

#[test]
fn every_link_of_a_page_leads_to_a_file() {
    let mut links = 0;
    for (page, text) in pages() {
        let folder = Path::new(&page).parent().unwrap().to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if !link.contains("://") && !file.is_empty() {
                links += 1;
                assert!(tree::root().join(&folder).join(file).exists(), "{page}: {link} leads nowhere");
            }
        }
    }
    assert!(links > 10, "only {links} links found: they are not read rightly");
}

#[test]
fn every_file_that_a_page_names_is_there() {
    let sources = ["protocol", "bus", "supervisor"].into_iter().flat_map(tree::files);
    let there: BTreeSet<String> =
        sources.filter_map(|(path, _)| Some(path.rsplit_once('/')?.1.to_owned())).collect();
    let mut named = 0;
    // The semantics name files of users' machines and of stores, not ours.
    for (page, text) in pages().into_iter().filter(|(page, _)| page != "docs/semantics.md") {
        for name in tree::names(&text).filter(|name| !name.contains([' ', '<', '*', ':'])) {
            let is_ours = [".rs", ".md", "/"].iter().any(|end| name.ends_with(end));
            if is_ours {
                named += 1;
                let exists =
                    if name.contains('/') { tree::root().join(name).exists() } else { there.contains(name) };
                assert!(exists, "{page}: there is no {name}");
            }
        }
    }
    assert!(named > 40, "only {named} files named: they are not read rightly");
}

#[test]
fn every_rule_that_the_code_cites_exists() {
    let known: BTreeSet<String> = cited(&tree::read("docs/semantics.md"));
    assert!(known.len() > 150, "only {} rules found: they are not read rightly", known.len());
    let mut used = 0;
    for folder in ["protocol", "bus", "supervisor", "tests", "benches", "examples"] {
        for (path, text) in tree::files(folder).into_iter().filter(|(path, _)| path.ends_with(".rs")) {
            for rule in cited(&text) {
                used += 1;
                assert!(known.contains(&rule), "{path} cites {rule}, which docs/semantics.md does not know");
            }
        }
    }
    assert!(used > 50, "only {used} citations found: they are not read rightly");
}

fn pages() -> Vec<(String, String)> {
    let docs = tree::files("docs").into_iter().filter(|(path, _)| path.ends_with(".md"));
    docs.chain(["README.md", "CHANGELOG.md"].map(|path| (path.to_owned(), tree::read(path)))).collect()
}

/// The rules a text names: letters of a rule, a hyphen, a number. `P5` has no hyphen.
fn cited(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    words.filter(|word| is_rule(word)).map(str::to_owned).collect()
}

fn is_rule(word: &str) -> bool {
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let has_number = letters.len() < word.len();
    has_number
        && (letters == "P" || letters.strip_suffix('-').is_some_and(|letters| RULES.contains(&letters)))
}
