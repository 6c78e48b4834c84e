//! Templates and hostile lines, read by real shells.

use std::path::Path;
use std::process::Command;

use super::*;

const HOSTILE: [&str; 26] = [
    "plain",
    "two  words",
    " blanks around ",
    "it's",
    "a\"b",
    "'; touch pwned; '",
    "\"; touch pwned; \"",
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "& touch pwned",
    "| touch pwned",
    "> pwned",
    "x[$(touch pwned)]",
    "*",
    "? [a-z]*",
    "~",
    "{a,b}",
    "#",
    "-n",
    "--",
    "$HOME",
    "$FANIN_LINE",
    "back\\slash\\",
    "{}",
    "a'$(touch pwned)'\"`touch pwned`\"b",
];

/// Each prints its line between `<` and `>`.
const TEMPLATES: [&str; 15] = [
    "printf '<%s>' {}",
    "printf '<%s>'",
    "printf \"<%s>\" {}",
    "printf '<%s>' \"{}\"",
    "printf %s '<'{}'>'",
    "A=1 B='x y' printf '<%s>'\t",
    "x={}; printf '<%s>' \"$x\"",
    "x=\"{}\" && printf '<%s>' \"$x\"",
    "printf '<%s>' {} | cat",
    "(printf '<%s>' {})",
    "if [ x{} != other ]; then printf '<%s>' {}; fi",
    "case {} in other) ;; *) printf '<%s>' {};; esac",
    "for x in {}; do printf '<%s>' \"$x\"; done",
    "printf '<%s>' \"$FANIN_LINE\"",
    "say() { printf '<%s>' \"$1\"; }; say \"$FANIN_LINE\"",
];

/// What a shell prints for `template` with `line`, in a folder of its own that must stay empty.
fn run(shell: &str, template: &str, line: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let code = shell_line(template).unwrap();
    let mut command = Command::new(shell);
    command.args(["-c", &code]).env(LINE_VARIABLE, line).current_dir(folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{code}: {output:?}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{shell}: {code} ran {line}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_hostile_line_is_one_argument_in_every_template_that_is_taken() {
    for shell in ["/bin/sh", "/bin/bash"].iter().filter(|shell| Path::new(shell).exists()) {
        for line in HOSTILE {
            for template in TEMPLATES {
                assert_eq!(run(shell, template, line), format!("<{line}>"), "{template}");
            }
            assert_eq!(
                run(shell, "printf '<%s>' pre{}'&'\"; {} post\"", line),
                format!("<pre{line}&; {line} post>")
            );
        }
    }
}

#[test]
fn a_place_that_is_not_certain_is_refused_and_the_variable_is_named() {
    for (template, found) in [
        (r"find {} -exec cat \{} \;", r"\"),
        (r#"printf "<%s>\n" {}"#, r"\"),
        ("echo `cat {}`", "`"),
        ("echo \"`cat {}`\"", "`"),
        ("echo $(cat {})", "$("),
        ("echo \"$(cat {})\"", "$("),
        ("echo $((1 + {}))", "$("),
        ("echo ${x:-{}}", "${"),
        ("echo \"${x#{}}\"", "${"),
        ("echo \"${}\"", "${"),
        ("echo $[{}]", "$["),
        ("echo \"$[{}]\"", "$["),
        ("echo $'it\\'s {}'", "$'"),
        ("echo $\"x {}\"", "$\""),
        ("true # {}", "#"),
        ("echo {} # it's", "#"),
        ("cat <<E {}", "<<"),
        ("cat <<< {}", "<<"),
        ("((x={}))", "(("),
        ("[[ {} -eq 1 ]]", "[["),
        ("a[{}]=1", "["),
        ("f(){}", ")"),
        ("f() {}; f", ")"),
        ("cat {}\necho", r"\n"),
        ("cat '\n' {}", r"\n"),
    ] {
        let error = shell_line(template).unwrap_err();
        assert!(matches!(error, EachError::Unsure(what) if what == found), "{template}: {error:?}");
        assert!(error.to_string().contains("\"$FANIN_LINE\""), "{error}");
    }
    for template in ["echo {} 'x", "echo {} \"x", "echo 'it' {} 's", "echo it's"] {
        assert!(matches!(shell_line(template), Err(EachError::Unclosed)), "{template}");
    }
    for template in ["echo '{}'", "sh -c 'cat {}'", "echo {} 'a {}'"] {
        assert!(matches!(shell_line(template), Err(EachError::SingleQuoted)), "{template}");
    }
    for template in ["", "  ", "\t"] {
        assert!(matches!(shell_line(template), Err(EachError::Empty)), "{template}");
    }
}

#[test]
fn the_line_is_appended_to_one_simple_command_alone() {
    for template in [
        "sort | uniq",
        "cd x && cat",
        "cat; true",
        "cat &",
        "cat >out",
        "cat <in",
        "(cat)",
        "A=b",
        "A=b C='x y'",
        "A=\"b c\" ",
    ] {
        let error = shell_line(template).unwrap_err();
        assert!(matches!(error, EachError::NoPlace), "{template}: {error:?}");
        assert!(error.to_string().contains("{}"), "{error}");
    }
    for template in ["cat # all", "cat\ntrue", "echo $(cat)", r"echo a\", "a[1]=2"] {
        assert!(matches!(shell_line(template), Err(EachError::Unsure(_))), "{template}");
    }
    for template in ["wc -l", "grep '|;#\\'", "env A=b cat", "echo \"a=b; c\"", "'a=b'"] {
        assert_eq!(shell_line(template).unwrap(), format!("{template} \"${{FANIN_LINE}}\""));
    }
}

#[test]
fn a_template_that_names_the_variable_is_taken_as_it_is() {
    for template in
        ["cat <<E\n$FANIN_LINE\nE", "f() { cat \"${FANIN_LINE}\"; }; f", "sh -c 'wc \"$FANIN_LINE\"'"]
    {
        assert_eq!(shell_line(template).unwrap(), template);
    }
}
