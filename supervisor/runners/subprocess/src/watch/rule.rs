//! When a watch fires: pure rules over what was seen and when. It looks at nothing and waits for nothing.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use fanin_protocol::cause::Exit;
use fanin_protocol::limits::{
    WATCH_BAD_CHECKS_MAX, WATCH_GAP, WATCH_LINES_MAX, WATCH_PATTERN_BYTES_MAX, WATCH_TEXT_BYTES_MAX,
};
use fanin_protocol::{Cause, CommandLine, CommandSpec, WatchSpec, When, text};
use fanin_supervisor::Ending;
use regex_lite::{Regex, RegexBuilder};
use tokio::time::Instant;

/// Bytes that a pattern may have as a program: `(a{100}){100}` is short and would be large.
const PATTERN_SIZE_MAX: usize = 1 << 20;

/// Statuses of a shell that say that there was no such program, or that it could not be run.
const NOT_RUN: [i32; 2] = [126, 127];

/// What a check came to.
#[derive(Debug)]
pub(crate) enum Check {
    /// It was made.
    Made {
        /// Its status was 0.
        is_ok: bool,
        /// What it put out.
        output: String,
    },
    /// It could not be made, or did not come to its end, and this is why.
    Bad(String),
}

impl Check {
    /// What a command that came to its end says.
    pub(crate) fn of(ending: &Ending, command: &CommandSpec, output: String) -> Self {
        let message = ending.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
        let spawned = ending.failure.as_ref().is_none_or(|failure| failure.cause != Cause::Spawn);
        match ending.exit {
            Some(Exit::Status(status)) if matches!(command.line, CommandLine::Shell(_)) => {
                if NOT_RUN.contains(&status) {
                    Self::Bad(format!("{message}: {}", text::cut(output.trim_end(), WATCH_PATTERN_BYTES_MAX)))
                } else {
                    Self::Made { is_ok: status == 0, output }
                }
            }
            Some(Exit::Status(status)) if spawned => Self::Made { is_ok: status == 0, output },
            Some(Exit::Status(_) | Exit::Signal(_)) | None => Self::Bad(message),
        }
    }
}

#[derive(Debug)]
enum Condition {
    Succeeds,
    Changes,
    Matches(Regex),
}

/// What was seen and not told yet.
#[derive(Debug, Default)]
struct Seen {
    /// How often, or how many lines.
    count: u64,
    /// The first lines, or the newest check.
    quoted: Vec<String>,
    /// Bytes that nobody could look at.
    missed: u64,
}

/// Decides when a watch fires.
#[derive(Debug)]
pub(crate) struct Rule {
    condition: Condition,
    gap: Duration,
    /// What the last check came to, as a digest.
    last: Option<u64>,
    /// Checks in a row that could not be made.
    bad: u32,
    seen: Seen,
    /// It does not fire before.
    not_before: Option<Instant>,
}

impl Rule {
    /// The rule of a watch.
    ///
    /// # Errors
    ///
    /// What is wrong with its pattern.
    pub(crate) fn new(spec: &WatchSpec) -> Result<Self, String> {
        let condition = match &spec.when {
            When::Succeeds => Condition::Succeeds,
            When::Changes => Condition::Changes,
            When::Matches(pattern) => {
                let built = RegexBuilder::new(pattern).size_limit(PATTERN_SIZE_MAX).build();
                Condition::Matches(built.map_err(|error| format!("pattern: {error}"))?)
            }
        };
        let gap = spec.gap_ms.map_or(WATCH_GAP, Duration::from_millis);
        Ok(Self { condition, gap, last: None, bad: 0, seen: Seen::default(), not_before: None })
    }

    /// Takes in a check. It fires where the condition comes true, and not again while that stays so.
    ///
    /// # Errors
    ///
    /// Why the watch gives up: so many checks in a row could not be made.
    pub(crate) fn check(&mut self, check: Check) -> Result<(), String> {
        let (is_ok, output) = match check {
            Check::Made { is_ok, output } => (is_ok, output),
            Check::Bad(why) => {
                self.bad += 1;
                return if self.bad < WATCH_BAD_CHECKS_MAX {
                    Ok(())
                } else {
                    Err(format!("{} checks in a row could not be made; the last: {why}", self.bad))
                };
            }
        };
        self.bad = 0;
        let before = self.last;
        let (digest, is_seen, words) = match &self.condition {
            Condition::Succeeds => {
                (u64::from(is_ok), is_ok && before != Some(1), format!("the check succeeded\n{output}"))
            }
            Condition::Changes => {
                let digest = digest_of(&output);
                let is_other = before.is_some_and(|before| before != digest);
                (digest, is_other, format!("the output changed\n{output}"))
            }
            Condition::Matches(pattern) => {
                let matching: Vec<&str> = output.lines().filter(|line| pattern.is_match(line)).collect();
                let matching = matching.join("\n");
                let digest = digest_of(&matching);
                (digest, !matching.is_empty() && before != Some(digest), matching)
            }
        };
        self.last = Some(digest);
        if is_seen {
            self.seen.count += 1;
            self.seen.quoted = vec![text::excerpt(words.trim_end(), WATCH_TEXT_BYTES_MAX / 2).into_owned()];
        }
        Ok(())
    }

    /// Takes in a line as it comes.
    pub(crate) fn line(&mut self, line: &str) {
        let Condition::Matches(pattern) = &self.condition else { return };
        if !pattern.is_match(line) {
            return;
        }
        self.seen.count += 1;
        if self.seen.quoted.len() < WATCH_LINES_MAX {
            self.seen.quoted.push(text::cut(line, WATCH_TEXT_BYTES_MAX / WATCH_LINES_MAX - 1).to_owned());
        }
    }

    /// So many bytes were put out and nobody could look at them.
    pub(crate) const fn missed(&mut self, bytes: u64) {
        self.seen.missed = self.seen.missed.saturating_add(bytes);
    }

    /// When it is to fire, `now` at the earliest; `None` where nothing was seen.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        (self.seen.count > 0).then(|| self.not_before.map_or(now, |at| at.max(now)))
    }

    /// What it says when it fires.
    pub(crate) fn text(&self) -> String {
        let Seen { count, quoted, missed } = &self.seen;
        let mut words = quoted.join("\n");
        let more = count - quoted.len() as u64;
        if more > 0 {
            words.push_str(&match self.condition {
                Condition::Matches(_) if quoted.len() > 1 => format!("\n[and {more} more lines that match]"),
                _ => format!("\n[and {more} times more since it fired last; this is the newest]"),
            });
        }
        if *missed > 0 {
            words.push_str(&format!("\n[{missed} bytes of output were not kept, and nobody looked at them]"));
        }
        if words.len() > WATCH_TEXT_BYTES_MAX {
            text::excerpt(&words, WATCH_TEXT_BYTES_MAX).into_owned()
        } else {
            words
        }
    }

    /// It has fired.
    pub(crate) fn fired(&mut self, now: Instant) {
        self.seen = Seen::default();
        self.not_before = now.checked_add(self.gap);
    }

    /// It could not be told now, and is told with what comes until then.
    pub(crate) fn defer(&mut self, now: Instant) {
        self.not_before = now.checked_add(self.gap);
    }

    /// Nothing more comes: what was seen is due.
    pub(crate) const fn hurry(&mut self) {
        self.not_before = None;
    }
}

fn digest_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(when: When) -> Rule {
        Rule::new(&WatchSpec::checks(CommandSpec::shell("true"), when)).unwrap()
    }

    fn made(is_ok: bool, output: &str) -> Check {
        Check::Made { is_ok, output: output.to_owned() }
    }

    /// Which of these checks are seen.
    fn seen(rule: &mut Rule, checks: impl IntoIterator<Item = Check>) -> Vec<bool> {
        let see = |check| {
            rule.check(check).unwrap();
            let is_due = rule.due(Instant::now()).is_some();
            rule.fired(Instant::now());
            is_due
        };
        checks.into_iter().map(see).collect()
    }

    #[test]
    fn it_fires_where_the_condition_comes_true_and_not_while_it_stays_so() {
        let checks = [false, true, true, false, true].map(|is_ok| made(is_ok, ""));
        assert_eq!(seen(&mut rule(When::Succeeds), checks), [false, true, false, false, true]);
    }

    #[test]
    fn the_first_check_is_what_changes_are_told_from() {
        let checks = ["a", "a", "b", "b", "a"].map(|output| made(true, output));
        assert_eq!(seen(&mut rule(When::Changes), checks), [false, false, true, false, true]);
    }

    #[test]
    fn lines_that_were_told_are_not_told_again_by_the_next_check() {
        let when = || When::Matches("ERR|FAIL".into());
        let checks = ["ok", "ok\nERR 1", "fine\nERR 1", "ERR 1\nFAIL", "ok", "ERR 1"];
        let checks = checks.map(|output| made(false, output));
        assert_eq!(seen(&mut rule(when()), checks), [false, true, false, true, false, true]);
    }

    #[test]
    fn a_check_that_cannot_be_made_changes_nothing_and_three_in_a_row_end_it() {
        let mut rule = rule(When::Succeeds);
        let bad = || Check::Bad("no such program".into());
        assert!(!seen(&mut rule, [made(true, ""), bad(), bad(), made(true, ""), bad(), bad()])[3]);
        let why = rule.check(bad()).unwrap_err();
        assert!(why.starts_with("3 checks in a row") && why.ends_with("no such program"), "{why}");
    }

    #[test]
    fn a_flood_of_lines_is_counted_and_its_text_is_bounded() {
        let mut rule = Rule::new(&WatchSpec::lines(CommandSpec::shell("yes"), "x")).unwrap();
        let line = "x".repeat(10_000);
        (0..100_000).for_each(|_| rule.line(&line));
        rule.line("no match");
        rule.missed(7);
        let text = rule.text();
        assert!(text.len() <= WATCH_TEXT_BYTES_MAX, "{}", text.len());
        assert!(text.contains("[and 99980 more lines that match]"), "{text}");
        assert!(text.contains("7 bytes"), "{text}");
    }

    #[test]
    fn what_comes_within_the_gap_is_told_with_the_next_firing() {
        let mut rule = Rule::new(&WatchSpec::lines(CommandSpec::shell("yes"), "x")).unwrap();
        let now = Instant::now();
        rule.line("x1");
        assert_eq!(rule.due(now), Some(now));
        rule.fired(now);
        assert_eq!(rule.due(now), None, "it was told");
        rule.line("x2");
        rule.line("x3");
        assert_eq!((rule.due(now), rule.text().as_str()), (Some(now + WATCH_GAP), "x2\nx3"));
        rule.defer(now + WATCH_GAP);
        assert_eq!((rule.due(now), rule.text().as_str()), (Some(now + 2 * WATCH_GAP), "x2\nx3"));
        rule.hurry();
        assert_eq!(rule.due(now), Some(now));
    }

    #[test]
    fn a_pattern_that_is_none_or_would_be_large_is_refused() {
        for pattern in ["(", "(a{100}){100}{100}"] {
            let spec = WatchSpec::lines(CommandSpec::shell("yes"), pattern);
            assert!(Rule::new(&spec).unwrap_err().starts_with("pattern: "), "{pattern}");
        }
    }
}
