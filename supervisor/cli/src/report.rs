//! The result for people: what became of each task, in launch order, and what the failed ones said, last of all.
//!
//! Text of tasks is made harmless and set in, so that a task can neither move the cursor nor write an entry of its own.

use std::borrow::Cow;
use std::io::{self, Write};

use fanin_protocol::limits::{SHOWN_LINE_BYTES_MAX, SHOWN_LINES_MAX};
use fanin_protocol::result::EntryOutput;
use fanin_protocol::{Cause, Code, CombinedResult, ResultEntry, Status, Threshold, text};

use crate::style::{Mark, Style};

/// Labels longer than this do not push the column behind them further out.
const LABEL_COLUMNS: usize = 40;

/// Writes the result. `kept` gives all that was kept of a task's output; it is asked only where the result has not all
/// of it.
///
/// # Errors
///
/// The writer's.
pub(crate) fn write(
    out: &mut impl Write,
    description: Option<&str>,
    result: &CombinedResult,
    style: Style,
    kept: impl Fn(&ResultEntry) -> Option<String>,
) -> io::Result<()> {
    if let Some(description) = description {
        writeln!(out, "{}", text::one_line(description))?;
    }
    writeln!(out, "{}", header(result))?;
    let width = result.entries.iter().map(|entry| console::measure_text_width(&label(entry))).max();
    let width = width.unwrap_or(0).min(LABEL_COLUMNS);
    for entry in &result.entries {
        writeln!(out, "{}", line(entry, width, style))?;
        if entry.status != Status::Error {
            write_output(out, entry, &kept)?;
        }
    }
    if result.entries_omitted > 0 {
        writeln!(out, "({} more tasks are not listed)", result.entries_omitted)?;
    }
    for entry in result.entries.iter().filter(|entry| entry.status == Status::Error) {
        let mark = style.mark(Mark::Failed);
        writeln!(out, "\n{mark} {}: {}{}", label(entry), entry.summary(), details(entry))?;
        if entry.output.is_none() {
            writeln!(out, "    (no output)")?;
        }
        write_output(out, entry, &kept)?;
    }
    Ok(())
}

fn header(result: &CombinedResult) -> String {
    let counts = result.counts;
    let tasks = if counts.launched == 1 { "task" } else { "tasks" };
    let mut header = format!("{} {tasks}: {} completed", counts.launched, counts.completed);
    for (n, word) in [(counts.error, "failed"), (counts.cancelled, "cancelled")] {
        if n > 0 {
            header.push_str(&format!(", {n} {word}"));
        }
    }
    header.push_str(&format!(", in {}", text::duration(result.duration_ms)));
    header.push_str(match result.stopped_by {
        None => "",
        Some(Threshold::Ok) => "; the rest was stopped once enough had completed",
        Some(Threshold::NotOk) => "; the rest was stopped once too many had not completed",
        Some(Threshold::Deadline) => "; the deadline stopped the rest",
    });
    header
}

fn line(entry: &ResultEntry, width: usize, style: Style) -> String {
    let mark = style.mark(Mark::of(entry.status));
    let label = label(entry);
    let label = console::pad_str(&label, width, console::Alignment::Left, None);
    let ran = |start: u64| text::duration(entry.ended_at_ms.unwrap_or(start).saturating_sub(start));
    let took = entry.started_at_ms.map_or_else(|| "-".to_owned(), ran);
    format!("{mark} {label}  {took:>7}  {}{}", entry.summary(), details(entry))
}

/// What the words of a status leave open.
fn details(entry: &ResultEntry) -> String {
    let mut details: Vec<Cow<'_, str>> = Vec::new();
    match (entry.cause, entry.code) {
        (Some(Cause::Timeout), Some(Code::Run)) => details.push("it ran longer than its `timeout`".into()),
        (Some(Cause::Timeout), Some(Code::Queue)) => {
            details.push("it waited longer than its `queue_timeout`".into());
        }
        _ => {}
    }
    match (&entry.message, entry.exit_code, entry.signal) {
        (Some(message), _, _) => details.push(text::one_line(message).into()),
        (None, Some(code), _) if code != 0 => details.push(format!("exit status {code}").into()),
        (None, _, Some(signal)) => details.push(format!("signal {signal}").into()),
        (None, _, None) => {}
    }
    for (flag, words) in [
        (entry.started_at_ms.is_none(), "it was never started"),
        (entry.completed_anyway, "it had done its work when it was stopped"),
        (entry.unreaped, "it did not end in time and may still be alive"),
    ] {
        if flag {
            details.push(words.into());
        }
    }
    if details.is_empty() { String::new() } else { format!(": {}", details.join("; ")) }
}

fn label(entry: &ResultEntry) -> String {
    entry.label.as_ref().map_or_else(|| entry.job.to_string(), |label| text::one_line(label))
}

/// The last lines of an output, set in.
fn write_output(
    out: &mut impl Write,
    entry: &ResultEntry,
    kept: impl Fn(&ResultEntry) -> Option<String>,
) -> io::Result<()> {
    let Some(output) = &entry.output else { return Ok(()) };
    let all: Cow<'_, str> = match output.truncated.then(|| kept(entry)).flatten() {
        Some(all) => all.into(),
        None => output.text.as_ref().into(),
    };
    let shown = text::printable(&all);
    let lines: Vec<_> = shown.trim_end().lines().collect();
    let first = lines.len().saturating_sub(SHOWN_LINES_MAX);
    if first > 0 {
        writeln!(out, "    {}", cut_mark(output))?;
    }
    for line in lines.iter().skip(first) {
        let line = line.trim_end();
        let cut = text::cut(line, SHOWN_LINE_BYTES_MAX);
        match line.len() - cut.len() {
            0 if line.is_empty() => writeln!(out)?,
            0 => writeln!(out, "    {line}")?,
            more => writeln!(out, "    {cut} [... {more} bytes more]")?,
        }
    }
    Ok(())
}

fn cut_mark(output: &EntryOutput) -> String {
    format!("[... the last {SHOWN_LINES_MAX} lines of {} bytes]", output.bytes_total)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::testing::{entry, result, with_output};

    fn check(result: &CombinedResult, expected: &Expect) {
        let mut out = Vec::new();
        write(&mut out, Some("what  this\nis"), result, Style::PLAIN, |_| None).unwrap();
        expected.assert_eq(&String::from_utf8(out).unwrap());
    }

    fn numbers(n: usize) -> String {
        (1..=n).map(|n| format!("{n}\n")).collect()
    }

    #[test]
    fn entries_stand_in_launch_order_and_failed_output_at_the_end() {
        let mut never = entry("never", Status::Cancelled, Some((Cause::Group, None)));
        never.started_at_ms = None;
        let mut crashed = entry("crashed", Status::Error, Some((Cause::Failed, Some(Code::ExitStatus))));
        crashed.exit_code = Some(101);
        let mut spawn = entry("no such", Status::Error, Some((Cause::Spawn, Some(Code::ProgramNotFound))));
        spawn.message = Some("program `x` was not found".into());
        let mut all = result(vec![
            with_output(crashed, "why it crashed\n"),
            with_output(entry("fine", Status::Completed, None), "an answer\n\nof three lines\n"),
            spawn,
            never,
            with_output(entry("too slow", Status::Error, Some((Cause::Timeout, Some(Code::Run)))), "half"),
        ]);
        all.stopped_by = Some(Threshold::NotOk);
        check(
            &all,
            &expect![[r#"
            what this is
            5 tasks: 1 completed, 3 failed, 1 cancelled, in 2.0s; the rest was stopped once too many had not completed
            ✗ crashed      1.0s  error{failed exit_status}: exit status 101
            ✓ fine         1.0s  completed
                an answer

                of three lines
            ✗ no such      1.0s  error{spawn program_not_found}: program `x` was not found
            – never           -  cancelled{group}: it was never started
            ✗ too slow     1.0s  error{timeout run}: it ran longer than its `timeout`

            ✗ crashed: error{failed exit_status}: exit status 101
                why it crashed

            ✗ no such: error{spawn program_not_found}: program `x` was not found
                (no output)

            ✗ too slow: error{timeout run}: it ran longer than its `timeout`
                half
        "#]],
        );
    }

    #[test]
    fn a_long_output_is_cut_to_its_last_lines_and_says_so() {
        let members = [Status::Completed, Status::Error].map(|status| {
            let cause = (status == Status::Error).then_some((Cause::Failed, None));
            with_output(entry(status.as_str(), status, cause), &numbers(30))
        });
        check(
            &result(members.into()),
            &expect![[r#"
            what this is
            2 tasks: 1 completed, 1 failed, in 2.0s
            ✓ completed     1.0s  completed
                [... the last 20 lines of 81 bytes]
                11
                12
                13
                14
                15
                16
                17
                18
                19
                20
                21
                22
                23
                24
                25
                26
                27
                28
                29
                30
            ✗ error         1.0s  error{failed}

            ✗ error: error{failed}
                [... the last 20 lines of 81 bytes]
                11
                12
                13
                14
                15
                16
                17
                18
                19
                20
                21
                22
                23
                24
                25
                26
                27
                28
                29
                30
        "#]],
        );
    }

    #[test]
    fn an_output_of_exactly_one_screen_is_not_cut() {
        let mut out = Vec::new();
        let one = result(vec![with_output(entry("a", Status::Completed, None), &numbers(SHOWN_LINES_MAX))]);
        write(&mut out, None, &one, Style::PLAIN, |_| None).unwrap();
        assert!(!String::from_utf8(out).unwrap().contains("[..."));
    }

    #[test]
    fn text_of_a_task_cannot_forge_an_entry_or_reach_the_terminal() {
        let hostile = "\x1b[2J\u{2713} other  completed\r\u{202e}x\n".to_owned() + &"y".repeat(2_000);
        check(
            &result(vec![with_output(entry("bad\x1b[1m\nlabel", Status::Completed, None), &hostile)]),
            &expect![[r#"
                what this is
                1 task: 1 completed, in 2.0s
                ✓ bad label     1.0s  completed
                    ✓ other  completed
                    x
                    yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy [... 1000 bytes more]
            "#]],
        );
    }

    #[test]
    fn what_the_result_leaves_out_is_read_from_what_was_kept() {
        let mut cut = with_output(entry("a", Status::Error, Some((Cause::Failed, None))), "cut");
        cut.output.as_mut().unwrap().truncated = true;
        let mut out = Vec::new();
        write(&mut out, None, &result(vec![cut]), Style::PLAIN, |_| Some("all of it".into())).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("    all of it\n"), "{text}");
    }

    #[test]
    fn what_is_not_sure_is_said() {
        let mut lost = entry("lost", Status::Cancelled, Some((Cause::Shutdown, None)));
        lost.unreaped = true;
        let mut late = entry("late", Status::Cancelled, Some((Cause::User, None)));
        late.completed_anyway = true;
        let mut many = result(vec![lost, late]);
        many.entries_omitted = 3;
        check(
            &many,
            &expect![[r#"
            what this is
            2 tasks: 0 completed, 2 cancelled, in 2.0s
            – lost     1.0s  cancelled{shutdown}: it did not end in time and may still be alive
            – late     1.0s  cancelled{user}: it had done its work when it was stopped
            (3 more tasks are not listed)
        "#]],
        );
    }
}
