//! The notice on a terminal that a long run is over, for whoever has turned to something else. It is made of fanin's own
//! words; nothing that a task said is in it.

use std::env;
use std::io::{self, IsTerminal};

/// Terminals that show `OSC 777 ; notify`, with a title.
const WITH_777: [&str; 5] = ["ghostty", "wezterm", "foot", "rxvt", "contour"];

/// Terminals that show `OSC 9`, and take it for nothing else.
const WITH_9: [&str; 2] = ["iterm", "kitty"];

/// What is written to the terminal of standard error; nothing where there is none to be told, or a machine looks on.
pub(crate) fn notice(words: &str) -> Option<String> {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
    if !io::stderr().is_terminal() || is_set("CI") || is_set("GITHUB_ACTIONS") {
        return None;
    }
    let name = |name| env::var(name).unwrap_or_default();
    let inner = name("TERM");
    let outer = ["TERM_PROGRAM", "LC_TERMINAL"].map(name).join(" ");
    sequence(words, &inner, &outer, is_set("TMUX"))
}

/// What this terminal understands: a desktop notice where it is known to show one, else the bell, which every terminal has.
fn sequence(words: &str, inner: &str, outer: &str, is_multiplexed: bool) -> Option<String> {
    let names = format!("{inner} {outer}").to_lowercase();
    let is_one_of = |known: &[&str]| known.iter().any(|known| names.contains(known));
    // A multiplexer swallows what it does not know, and passes the bell on.
    let is_multiplexed = is_multiplexed || inner.starts_with("tmux") || inner.starts_with("screen");
    // A semicolon would end the text.
    let words = words.replace(';', ",");
    match inner {
        "dumb" => None,
        _ if is_multiplexed => Some("\x07".to_owned()),
        _ if is_one_of(&WITH_777) => Some(format!("\x1b]777;notify;fanin;{words}\x07")),
        _ if is_one_of(&WITH_9) => Some(format!("\x1b]9;fanin: {words}\x07")),
        _ => Some("\x07".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_terminal_gets_what_it_understands() {
        let told = |inner, outer| sequence("2 tasks; done", inner, outer, false);
        assert_eq!(told("xterm-ghostty", ""), Some("\x1b]777;notify;fanin;2 tasks, done\x07".into()));
        assert_eq!(
            told("xterm-256color", "WezTerm "),
            Some("\x1b]777;notify;fanin;2 tasks, done\x07".into())
        );
        assert_eq!(told("xterm-256color", "iTerm.app"), Some("\x1b]9;fanin: 2 tasks, done\x07".into()));
        assert_eq!(told("xterm-kitty", ""), Some("\x1b]9;fanin: 2 tasks, done\x07".into()));
        assert_eq!(told("xterm-256color", "Apple_Terminal"), Some("\x07".into()));
        assert_eq!(told("screen-256color", "iTerm.app"), Some("\x07".into()));
        assert_eq!(sequence("x", "xterm-kitty", "", true), Some("\x07".into()));
        assert_eq!(told("dumb", ""), None);
    }
}
