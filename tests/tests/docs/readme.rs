//! What the README shows and nobody can run from there.

use crate::tree;

#[test]
fn the_readmes_test_of_a_parent_loop_is_one_of_the_examples() {
    let readme = tree::read("README.md");
    let (_, section) = readme.split_once("### Test your wake handling").expect("the section is there");
    let (_, rest) = section.split_once("```rust,ignore\n").expect("it has a test");
    let (shown, _) = rest.split_once("```").expect("the test has an end");
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    let (shown, example) = (lines(shown), lines(&tree::read("examples/parent_loop.rs")));
    assert!(shown.len() >= 10, "{shown:?}");
    assert!(
        example.windows(shown.len()).any(|lines| lines == shown),
        "examples/parent_loop.rs has no {shown:#?}"
    );
}
