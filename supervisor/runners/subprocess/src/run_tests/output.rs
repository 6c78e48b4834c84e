//! What commands write, and what is kept of it.

use super::*;

#[tokio::test]
async fn a_character_written_byte_by_byte_comes_out_whole() {
    // B63
    let line = r"printf '\342'; sleep 0.05; printf '\202'; sleep 0.05; printf '\254'; printf '\n\342\202'";
    let ending = run_shell(line).await;
    assert_eq!(&ending.output.bytes()[..], b"\xE2\x82\xAC\n\xE2\x82");
    assert_eq!(ending.output.text(), "€\n\u{FFFD}");
    assert!(!ending.output.is_truncated());
}

#[tokio::test]
async fn what_was_written_before_a_forced_stop_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let written = dir.path().join("written");
    // This thread is the only one that could read: output and end are seen at once, after the stop.
    let when_bound = move |stop: &StopSignal, pid| {
        poll_until("output", || written.exists());
        kill(pid);
        poll_until("the end", || group(pid).iter().any(|member| member.pid == pid && member.state == 'Z'));
        stop.raise(StopStage::Forced);
    };
    let host = TestHost { when_bound: Some(Box::new(when_bound)), ..TestHost::default() };
    let line = "echo early; echo > written; exec sleep 60";
    let spec = CommandSpec { cwd: Some(dir.path().into()), ..CommandSpec::shell(line) };
    let ending = ended(start_on(host, spec).1).await;
    assert_eq!((ending.exit, &*ending.output.text()), (Some(Exit::Signal(9)), "early\n"));
}

#[tokio::test]
async fn output_is_capped_with_head_tail_and_total() {
    let spec = CommandSpec { output_bytes_max: Some(500), ..CommandSpec::shell("seq 1 20000") };
    let ending = ended(start(spec).1).await;
    let text = ending.output.text();
    assert!(ending.output.bytes().len() <= 500 && ending.output.is_truncated());
    assert_eq!(ending.output.bytes_total(), 108_894);
    assert!(text.starts_with("1\n2\n3\n") && text.ends_with("\n19999\n20000\n"));
    assert!(text.contains("bytes left out"), "{text}");
}

#[tokio::test]
async fn runaway_output_takes_no_memory_and_does_not_block_the_command() {
    // B59
    if !is_alone("output::runaway_output_takes_no_memory_and_does_not_block_the_command", &[]) {
        return;
    }
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = resident();
    let ending = run_shell("head -c 200M /dev/zero | tr '\\0' x; echo; echo end").await;
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB more");
    assert_eq!(ending.output.bytes_total(), 200 * 1024 * 1024 + 5);
    assert!(ending.output.bytes().len() <= 1024 * 1024);
    assert!(ending.output.text().ends_with("x\nend\n"));
}

#[tokio::test]
async fn progress_shows_the_latest_line_and_not_too_many() {
    let started = Instant::now();
    let (host, task) = start(CommandSpec::shell("seq 1 300000; printf 'a\\nb\\nlast\\nopen'; exec sleep 60"));
    host.shown("last").await;
    let most = started.elapsed().as_millis() / PROGRESS_EVERY.as_millis() + 2;
    let lines = host.lines.lock().unwrap().clone();
    assert!(lines.len() as u128 <= most, "{} lines in {:?}", lines.len(), started.elapsed());
    assert_eq!(lines.last().map(String::as_str), Some("last"));
    host.stop.raise(StopStage::Forced);
    assert!(ended(task).await.output.text().ends_with("b\nlast\nopen"));
}
