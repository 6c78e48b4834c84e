//! One task for each line of standard input: a line is an argument, and no program to the shell that fanin starts.

use crate::common::{run, run_with_input};
use tempfile::tempdir;

const HOSTILE: [&str; 9] = [
    "two words",
    "it's",
    "say \"hi\"",
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned #",
    "$HOME",
    "*",
    "a'$(touch pwned)'\"`touch pwned`\"",
];

#[test]
fn a_hostile_line_is_one_argument_in_every_place_of_the_template() {
    for template in [
        "printf '<%s>\\n' {}",
        "printf '<%s>\\n'",
        "printf '<%s>\\n' \"{}\"",
        "printf \"<%s>\\n\" \"$(printf %s {})\"",
    ] {
        let folder = tempdir().unwrap();
        let ended = run_with_input(folder.path(), &["--each", template], &HOSTILE.join("\n"));
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        for line in HOSTILE {
            assert!(
                ended.stdout.contains(&format!("    <{line}>\n")),
                "{template}: {line}: {}",
                ended.stdout
            );
        }
        assert!(!folder.path().join("pwned").exists(), "{template}");
    }
}

#[test]
fn tasks_are_called_by_their_lines_in_the_order_of_the_input() {
    let folder = tempdir().unwrap();
    let ended = run_with_input(folder.path(), &["--each", "test {} != b"], "c\n\nb\na");
    assert_eq!(ended.code, Some(1));
    let entries: Vec<_> = ended.stdout.lines().skip(1).take(3).map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(entries, [Some("c"), Some("b"), Some("a")], "{}", ended.stdout);
}

#[test]
fn no_line_and_quoted_braces_are_errors_of_usage() {
    let folder = tempdir().unwrap();
    let none = run(folder.path(), &["--each", "touch started {}"]);
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.contains("no line on standard input"), "{}", none.stderr);
    let quoted = run_with_input(folder.path(), &["--each", "touch started '{}'"], "x\n");
    assert_eq!(quoted.code, Some(2));
    assert!(quoted.stderr.contains("single quotes"), "{}", quoted.stderr);
    assert!(!folder.path().join("started").exists());
}
