//! One task for each line of standard input: a line is an argument, and no program to the shell that fanin starts.

use crate::common::{run, run_with_input};
use fanin_protocol::limits::VARIABLE_BYTES_MAX;
use tempfile::tempdir;

const HOSTILE: [&str; 10] = [
    "two words",
    "it's",
    "say \"hi\"",
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned #",
    "$HOME",
    "*",
    "-n",
    "a'$(touch pwned)'\"`touch pwned`\"",
];

#[test]
fn a_hostile_line_is_one_argument_in_every_place_of_the_template() {
    for template in [
        "printf '<%s>\\n' {}",
        "printf '<%s>\\n'",
        "printf '<%s>\\n' \"{}\"",
        "printf \"<%s>\" {}; echo",
        "printf '<%s>\\n' \"$FANIN_LINE\"",
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
fn the_longest_line_reaches_its_task_and_a_longer_one_starts_nothing() {
    let folder = tempdir().unwrap();
    let longest = "x".repeat(VARIABLE_BYTES_MAX - "FANIN_LINE=".len() - 1);
    let words = ["--each", "touch started; printf %s {} | wc -c"];
    let long = run_with_input(folder.path(), &words, &format!("a\n{longest}x\n"));
    assert_eq!((long.code, long.stdout.as_str()), (Some(2), ""), "{}", long.stderr);
    assert!(long.stderr.contains("line 2 of standard input"), "{}", long.stderr);
    assert!(!folder.path().join("started").exists());
    let fits = run_with_input(folder.path(), &words, &longest);
    assert_eq!(fits.code, Some(0), "{}", fits.stdout);
    assert!(fits.stdout.contains(&format!("{}\n", longest.len())), "{}", fits.stdout);
}

#[test]
fn no_line_and_a_place_that_is_not_certain_are_errors_of_usage() {
    let folder = tempdir().unwrap();
    let none = run(folder.path(), &["--each", "touch started {}"]);
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.contains("no line on standard input"), "{}", none.stderr);
    for (template, said) in [
        ("touch started '{}'", "single quotes"),
        ("touch started \"$(cat {})\"", "\"$FANIN_LINE\""),
        ("touch started | cat", "write `{}` where the line belongs"),
    ] {
        let refused = run_with_input(folder.path(), &["--each", template], "x\n");
        assert_eq!(refused.code, Some(2), "{template}");
        assert!(refused.stderr.contains(said), "{template}: {}", refused.stderr);
    }
    assert!(!folder.path().join("started").exists());
}
