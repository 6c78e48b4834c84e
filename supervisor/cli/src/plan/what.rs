//! What a task runs, wherever it is written: the rules on `command`, `shell`, `agent`, `prompt` and `rights`, and what is
//! said of a task that breaks them. It knows neither a manifest nor a tool.

use fanin_protocol::{CommandLine, Rights};

/// What a task runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// A program, or a line for the shell.
    Line(CommandLine),
    /// A prompt for an agent.
    Agent { agent: String, prompt: String, rights: Option<Rights> },
}

/// A task as somebody wrote it.
pub(crate) trait Written {
    /// How its writer gives it a line for the shell.
    const EXAMPLE: &'static str;
    /// Bytes of a prompt at the most.
    const PROMPT_BYTES_MAX: usize;

    /// True where it has this key, with whatever value.
    fn has(&self, key: &str) -> bool;

    /// The text at this key; `None` where there is none, which it has said itself then.
    fn text(&mut self, key: &str) -> Option<String>;

    /// The texts at this key, as [`Written::text`].
    fn texts(&mut self, key: &str) -> Option<Vec<String>>;

    /// Takes what is wrong at this key.
    fn wrong(&mut self, key: &str, problem: String);

    /// Takes what is wrong with the task as a whole.
    fn wrong_as_a_whole(&mut self, problem: String);
}

impl What {
    /// What a task says that it runs; `None` where something is wrong with that, which was said.
    pub(crate) fn of<W: Written>(task: &mut W) -> Option<Self> {
        if !task.has("agent") {
            for key in ["prompt", "rights"] {
                if task.has(key) {
                    task.wrong(key, "it is for a task with an `agent`".to_owned());
                }
            }
        }
        let keys: Vec<_> = ["command", "shell", "agent"].into_iter().filter(|key| task.has(key)).collect();
        match keys[..] {
            ["command"] => Some(Self::Line(CommandLine::Argv(task.texts("command")?))),
            ["shell"] => Some(Self::Line(CommandLine::Shell(task.text("shell")?))),
            ["agent"] => Self::of_agent(task),
            [first, second, ..] => {
                task.wrong(second, format!("`{first}` is there as well; keep one of the two"));
                None
            }
            _ => {
                let missing = "none of `command`, `shell` and `agent`; add one, like";
                task.wrong_as_a_whole(format!("{missing} {}", W::EXAMPLE));
                None
            }
        }
    }

    fn of_agent<W: Written>(task: &mut W) -> Option<Self> {
        let rights = task.has("rights").then(|| task.text("rights")).flatten().and_then(|name| {
            let rights = Rights::parse(&name);
            if rights.is_none() {
                task.wrong("rights", RIGHTS.to_owned());
            }
            rights
        });
        if !task.has("prompt") {
            let missing = "its `prompt` is missing: write all that the agent shall do; it sees nothing else";
            task.wrong("agent", missing.to_owned());
            return None;
        }
        let prompt = task.text("prompt")?;
        if prompt.len() > W::PROMPT_BYTES_MAX {
            let (bytes, max) = (prompt.len(), W::PROMPT_BYTES_MAX);
            task.wrong(
                "prompt",
                format!("has {bytes} bytes; at most {max} are allowed: put the rest into a file"),
            );
        }
        Some(Self::Agent { agent: task.text("agent")?, prompt, rights })
    }

    /// Its text, for a task that has no name.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Line(CommandLine::Argv(words)) => words.join(" "),
            Self::Line(CommandLine::Shell(line)) => line.clone(),
            Self::Agent { prompt, .. } => prompt.clone(),
        }
    }
}

/// The way out for rights that are none.
pub(crate) const RIGHTS: &str = "use \"read-only\", \"edit\" or \"full\"";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Default)]
    struct Task {
        keys: BTreeMap<&'static str, &'static str>,
        said: Vec<String>,
    }

    impl Written for Task {
        const EXAMPLE: &'static str = "shell: x";
        const PROMPT_BYTES_MAX: usize = 4;

        fn has(&self, key: &str) -> bool {
            self.keys.contains_key(key)
        }

        fn text(&mut self, key: &str) -> Option<String> {
            self.keys.get(key).map(|text| (*text).to_owned())
        }

        fn texts(&mut self, key: &str) -> Option<Vec<String>> {
            self.text(key).map(|text| vec![text])
        }

        fn wrong(&mut self, key: &str, problem: String) {
            self.said.push(format!("{key}: {problem}"));
        }

        fn wrong_as_a_whole(&mut self, problem: String) {
            self.said.push(problem);
        }
    }

    fn of(keys: &[(&'static str, &'static str)]) -> (Option<What>, Vec<String>) {
        let mut task = Task { keys: keys.iter().copied().collect(), said: Vec::new() };
        (What::of(&mut task), task.said)
    }

    // Every set of the five keys: a task runs by exactly one way, and each key that does not fit is named.
    #[test]
    fn of_all_tasks_those_run_that_say_one_thing() {
        const KEYS: [&str; 5] = ["command", "shell", "agent", "prompt", "rights"];
        for set in 0..32_u32 {
            let keys: Vec<_> = (0..5).filter(|n| set >> n & 1 == 1).map(|n| KEYS[n]).collect();
            let given: Vec<_> =
                keys.iter().map(|key| (*key, if *key == "rights" { "edit" } else { "x" })).collect();
            let (what, said) = of(&given);
            let has = |key| keys.contains(&key);
            let ways = keys.iter().filter(|key| KEYS[..3].contains(key)).count();
            let stray =
                if has("agent") { 0 } else { usize::from(has("prompt")) + usize::from(has("rights")) };
            let is_asked = !has("agent") || has("prompt");
            assert_eq!(what.is_some(), ways == 1 && is_asked, "{keys:?}: {said:?}");
            let wrong = stray + usize::from(ways != 1 || !is_asked);
            assert_eq!(said.len(), wrong, "{keys:?}: {said:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_the_way_out() {
        let said = |keys| of(keys).1.join("\n");
        assert_eq!(said(&[]), "none of `command`, `shell` and `agent`; add one, like shell: x");
        assert_eq!(
            said(&[("agent", "a"), ("prompt", "long"), ("rights", "root")]),
            "rights: use \"read-only\", \"edit\" or \"full\""
        );
        assert!(said(&[("agent", "a")]).starts_with("agent: its `prompt` is missing: write"));
        assert!(
            said(&[("agent", "a"), ("prompt", "longer")])
                .starts_with("prompt: has 6 bytes; at most 4 are allowed: put")
        );
    }
}
