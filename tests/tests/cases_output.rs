//! Cases of outputs that are read in parts, and followed while their jobs run.

use std::time::Duration;

use fanin_subprocess::SubprocessRunner;
use fanin_supervisor::protocol::limits::{
    OUTPUT_BYTES_MAX, OUTPUT_PAGE_BYTES_MAX, OUTPUTS_BYTES_MAX, RESULT_BYTES_MAX,
};
use fanin_supervisor::protocol::{JobId, Status};
use fanin_supervisor::{
    Delivery, Filter, Follow, JobError, JobOutput, JobSpec, OutputPage, RunContext, Since, Supervisor,
};
use fanin_tests::cases::*;

/// A job that writes `first`, waits, writes `second`, and returns `last`.
fn writes(first: &'static str, gate: &Gate, second: &'static str, last: &'static str) -> JobSpec {
    let gate = gate.clone();
    JobSpec::run("writes", move |context: RunContext| async move {
        context.write(first);
        gate.passed().await;
        context.write(second);
        Ok(last.into())
    })
}

/// All pages to the end.
async fn to_the_end(mut follow: Follow) -> Vec<OutputPage> {
    let mut pages = Vec::new();
    while let Some(page) = soon(follow.next_page()).await.unwrap() {
        pages.push(page);
    }
    assert_eq!(soon(follow.next_page()).await.unwrap(), None, "the end stays the end");
    pages
}

/// Checks that pages join, and puts each at its place into what it came from.
#[track_caller]
fn assert_joined(pages: &[OutputPage], all: &[u8]) {
    let mut next = 0;
    for page in pages {
        let begin = page.dropped.clone().map_or(next, |dropped| {
            assert_eq!(dropped.start, next, "what was dropped joins what came before");
            assert!(dropped.end > dropped.start);
            dropped.end
        });
        assert_eq!(page.offset, begin, "nothing is missing without a word");
        let at = usize::try_from(page.offset).unwrap();
        assert_eq!(page.bytes, all[at..at + page.bytes.len()]);
        assert!(page.bytes.len() <= OUTPUT_PAGE_BYTES_MAX);
        next = page.next;
    }
    assert_eq!(next, all.len() as u64, "the last bytes are among them");
}

fn bytes(page: &OutputPage) -> &str {
    std::str::from_utf8(&page.bytes).unwrap()
}

// B-1: what a job has written can be read while it runs, in parts, and so it can when it is over.
#[tokio::test(start_paused = true)]
async fn an_output_is_read_in_parts_while_the_job_runs() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let job = session.start(writes("one two ", &gate, "three ", "four")).await.unwrap();
    let mut follow = supervisor.follow(job.id(), 0).unwrap();
    let page = soon(follow.next_page()).await.unwrap().unwrap();
    assert_eq!((bytes(&page), page.run, page.is_over), ("one two ", 1, false));
    let page = supervisor.read_output(job.id(), 4, 3).unwrap();
    assert_eq!((bytes(&page), page.offset, page.next, page.total), ("two", 4, 7, 8));
    assert_eq!(supervisor.output(job.id()).unwrap().text(), "one two ");
    let beyond = job.read_output(8, 0).unwrap();
    assert_eq!((bytes(&beyond), beyond.next, beyond.is_last()), ("", 8, false), "there may be more");
    gate.open();
    assert_eq!(output(&job.wait(STUCK).await.unwrap()), "one two three four");
    let mut read = Vec::new();
    loop {
        let page = job.read_output(read.len() as u64, 5).unwrap();
        assert!(page.is_over && page.dropped.is_none() && page.bytes.len() <= 5);
        read.extend_from_slice(&page.bytes);
        if page.is_last() {
            break;
        }
    }
    assert_eq!(read, b"one two three four");
    let rest: Vec<_> = to_the_end(follow).await;
    assert_eq!(rest.iter().map(bytes).collect::<String>(), "three four");
}

// What a body only returns is read in the same way, and so is nothing at all.
#[tokio::test(start_paused = true)]
async fn a_job_that_only_returns_is_followed_to_its_end() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let (full, empty) = (gate.clone(), gate.clone());
    let says = JobSpec::run("says", move |_| async move {
        full.passed().await;
        Ok("all of it".into())
    });
    let silent = JobSpec::run("silent", move |_| async move {
        empty.passed().await;
        Ok(().into())
    });
    let group = session.fan_out([says, silent]).await.unwrap();
    for from in [0, 4, 9, 100] {
        let follows: Vec<_> = group.jobs().iter().map(|job| supervisor.follow(job, from).unwrap()).collect();
        gate.open();
        let mut read = Vec::new();
        for follow in follows {
            read.push(to_the_end(follow).await.iter().map(bytes).collect::<String>());
        }
        assert_eq!(read, ["all of it".get(from as usize..).unwrap_or_default(), ""]);
    }
    let nobody = JobId::parse("nobody").unwrap();
    assert_eq!(supervisor.read_output(&nobody, 0, 0).unwrap_err().code(), "unknown_job");
    assert_eq!(supervisor.follow(&nobody, 0).unwrap_err().code(), "unknown_job");
}

// B-1, B59: more than is kept, with a reader beside the writer: it gets what is kept and hears what is not.
#[test]
fn a_reader_beside_a_runaway_writer_misses_nothing_that_is_kept() {
    for (round, size) in [1_000, 100_000, 3 << 20].into_iter().enumerate() {
        two_workers().block_on(async move {
            let (_supervisor, session) = start_with_parent().await;
            let mut chance = Chance::new();
            let all: Vec<u8> = (0..size).map(|_| u8::try_from(chance.below(256)).unwrap()).collect();
            let sent = all.clone();
            let job = session
                .start(JobSpec::run("runaway", move |context: RunContext| async move {
                    let mut rest = sent.as_slice();
                    while !rest.is_empty() {
                        let (part, more) = rest.split_at(rest.len().min(1 + chance.below(9_000)));
                        context.write(part);
                        rest = more;
                        chance.dawdle(2).await;
                    }
                    Ok(().into())
                }))
                .await
                .unwrap();
            let pages = to_the_end(job.follow(0).unwrap()).await;
            assert_joined(&pages, &all);
            let late = to_the_end(job.follow(0).unwrap()).await;
            assert_joined(&late, &all);
            let kept: usize = late.iter().map(|page| page.bytes.len()).sum();
            assert!(kept as u64 <= OUTPUT_BYTES_MAX, "round {round}: {kept} bytes are kept");
            let dropped: Vec<_> = late.iter().filter_map(|page| page.dropped.clone()).collect();
            assert_eq!(dropped.len(), usize::from(size as u64 > OUTPUT_BYTES_MAX));
            assert_eq!(
                kept as u64 + dropped.iter().map(|hole| hole.end - hole.start).sum::<u64>(),
                size as u64
            );
            drop(session);
        });
    }
}

// J-7: the newest run's output is read; one who follows gets each, and is told which.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_tried_again_shows_its_newest_run() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let wait = gate.clone();
    let first = "x".repeat(100_000);
    let spec = JobSpec::rerunnable("tries", move |context: RunContext| {
        let (wait, first, fence) = (wait.clone(), first.clone(), context.fence());
        async move {
            context.write(format!("run {fence}\n"));
            if !wait.is_open() {
                context.write(first);
                return Err(JobError::new("once more"));
            }
            Ok("done".into())
        }
    });
    let job = session.start(spec.retries(1)).await.unwrap();
    let mut follow = job.follow(0).unwrap();
    let page = soon(follow.next_page()).await.unwrap().unwrap();
    assert_eq!(page.run, 1);
    gate.open();
    let rest = to_the_end(follow).await;
    let last: String = rest.iter().filter(|page| page.run == 2).map(bytes).collect();
    assert!(last.starts_with("run ") && last.ends_with("done"), "{last}");
    let begins = rest.iter().find(|page| page.run == 2).unwrap();
    assert_eq!(begins.offset, 0, "another run begins at its start");
    let before: usize =
        page.bytes.len() + rest.iter().filter(|page| page.run == 1).map(|p| p.bytes.len()).sum::<usize>();
    assert!(before > 100_000, "all of the first run's");
    assert_eq!(supervisor.output(job.id()).unwrap().text(), last, "not the longer one of the run before");
    let page = supervisor.read_output(job.id(), 0, 0).unwrap();
    assert_eq!((bytes(&page), page.run), (&*last, 2));
}

// A read that is dropped is repeated by the next one, wherever it was.
#[tokio::test(start_paused = true)]
async fn a_dropped_read_loses_nothing() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let job = session.start(writes("first", &gate, "second", "third")).await.unwrap();
    let mut follow = supervisor.follow(job.id(), 0).unwrap();
    let mut read = String::new();
    for round in 0..50 {
        if round == 25 {
            gate.open();
        }
        let page = {
            let mut next = std::pin::pin!(follow.next_page());
            poll_once(next.as_mut())
        };
        if let std::task::Poll::Ready(Ok(Some(page))) = page {
            assert_eq!(page.offset, read.len() as u64);
            read.push_str(bytes(&page));
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(read, "firstsecondthird");
}

// B-1: text is no event, however much there is of it.
#[tokio::test(start_paused = true)]
async fn output_makes_no_events() {
    let (supervisor, session) = start_with_parent().await;
    let mut counts = Vec::new();
    for writes in [0, 1_000] {
        let job = session
            .start(JobSpec::run("writes", move |context: RunContext| async move {
                (0..writes).for_each(|_| context.write("a line\n"));
                Ok(().into())
            }))
            .await
            .unwrap();
        let follow = job.follow(0).unwrap();
        job.wait(STUCK).await.unwrap();
        assert_eq!(to_the_end(follow).await.len(), usize::from(writes > 0));
        let mut events = supervisor.subscribe(Filter::job(job.id().clone()), Since::Start).await.unwrap();
        let mut count = 0;
        while let Ok(Delivery::Event(_)) = events.try_next() {
            count += 1;
        }
        counts.push(count);
    }
    assert_eq!(counts[0], counts[1]);
}

// J-11, B37: what a job had written is in its result, however it ended.
#[tokio::test(start_paused = true)]
async fn what_was_written_is_kept_whatever_became_of_the_job() {
    let (supervisor, session) = start_with_parent().await;
    let gate = Gate::new();
    let panics = JobSpec::run("panics", |context: RunContext| async move {
        context.write("so far");
        panic!("at the end")
    });
    let fails = JobSpec::run("fails", |context: RunContext| async move {
        context.write("so far");
        Err(JobError::new("at the end"))
    });
    // Ignores the polite stop, and is dropped at the forced one.
    let stopped = writes("so far", &gate, "never", "").grace(Duration::from_secs(1));
    let timed = writes("so far", &gate, "never", "").timeout(Duration::from_secs(5)).grace(Duration::ZERO);
    let group = session.fan_out([panics, fails, stopped, timed]).await.unwrap();
    let mut follow = supervisor.follow(&group.jobs()[2], 0).unwrap();
    assert_eq!(bytes(&soon(follow.next_page()).await.unwrap().unwrap()), "so far");
    supervisor.cancel(&group.jobs()[2]).await.unwrap();
    let result = group.wait(STUCK).await.unwrap();
    for entry in &result.entries {
        assert_eq!(output(entry), "so far", "{}", entry.summary());
    }
    assert_eq!(result.entries[2].status, Status::Cancelled);
    assert_eq!(soon(follow.next_page()).await.unwrap(), None);
}

// What is too old to be kept is refused by its name, not shown with offsets that mean something else.
#[tokio::test(start_paused = true)]
async fn an_output_that_is_not_kept_is_not_read_in_parts() {
    const EACH: usize = 32 << 20;
    let (supervisor, session) = start_with_parent().await;
    let all = JobOutput::whole(vec![b'x'; EACH]);
    let mut jobs = Vec::new();
    for _ in 0..=OUTPUTS_BYTES_MAX / EACH as u64 {
        let said = all.clone();
        let job = session.start(JobSpec::run("says", |_| async { Ok(said) })).await.unwrap();
        job.wait(STUCK).await.unwrap();
        jobs.push(job);
    }
    let error = jobs[0].read_output(0, 0).unwrap_err();
    assert_eq!(error.code(), "output_not_kept", "{error}");
    assert_eq!(soon(jobs[0].follow(0).unwrap().next_page()).await.unwrap_err().code(), "output_not_kept");
    assert!(supervisor.output(jobs[0].id()).unwrap().is_truncated(), "the excerpt is left");
    let page = jobs[1].read_output(EACH as u64 - 3, 0).unwrap();
    assert_eq!((bytes(&page), page.is_last()), ("xxx", true));
}

// A reader does not outlast what it reads, and keeps nothing alive.
#[tokio::test(start_paused = true)]
async fn a_reader_ends_with_the_supervisor() {
    for orderly in [true, false] {
        let supervisor = start().await;
        let session = supervisor.session("parent").await.unwrap();
        let gate = Gate::new();
        let job = session.start(writes("first", &gate, "second", "")).await.unwrap();
        let mut follow = job.follow(0).unwrap();
        assert_eq!(bytes(&soon(follow.next_page()).await.unwrap().unwrap()), "first");
        if orderly {
            supervisor.shutdown().await;
            assert_eq!(soon(follow.next_page()).await.unwrap(), None, "the job was stopped");
        } else {
            drop((supervisor, session, job));
            assert_eq!(soon(follow.next_page()).await.unwrap_err().code(), "closed");
        }
    }
}

// B61, R-3: 7 results of 1 MB in one summary: each is there with its share and a mark, and its whole can be read.
#[tokio::test(start_paused = true)]
async fn seven_results_of_a_megabyte_share_one_summary() {
    const EACH: usize = 1 << 20;
    let (supervisor, session) = start_with_parent().await;
    let specs = (0..7).map(|n: usize| {
        JobSpec::run(format!("job {n}"), move |context: RunContext| async move {
            let all = format!("begins {n} {} ends {n}", "é".repeat((EACH - 18) / 2));
            if n.is_multiple_of(2) {
                return Ok(all.into());
            }
            context.write(all);
            Ok(().into())
        })
    });
    let group = session.fan_out(specs.collect::<Vec<_>>()).await.unwrap();
    let result = group.wait(STUCK).await.unwrap();
    assert_eq!((result.counts.completed, result.entries.len()), (7, 7));
    let shown: usize = result.entries.iter().map(|entry| output(entry).len()).sum();
    assert!(shown <= RESULT_BYTES_MAX && shown > RESULT_BYTES_MAX / 7 * 6, "{shown}");
    for (n, entry) in result.entries.iter().enumerate() {
        let shown = entry.output.as_ref().unwrap();
        assert!(shown.truncated && shown.bytes_total >= EACH as u64 - 2 && !shown.invalid_utf8);
        assert!(
            shown.text.starts_with(&format!("begins {n} ")) && shown.text.ends_with(&format!(" ends {n}"))
        );
        assert!(shown.text.contains("bytes left out"), "the mark");
        let mut read = 0;
        for page in to_the_end(supervisor.follow(&entry.job, 0).unwrap()).await {
            assert_eq!(page.dropped, None);
            read += page.bytes.len() as u64;
        }
        assert_eq!(read, shown.bytes_total, "all of it by the handle");
    }
    let text = result.to_text();
    assert!((0..7).all(|n| text.contains(&format!("begins {n} "))), "no member is left out");
}

// A command's lines are read while it runs.
#[tokio::test]
async fn a_command_is_followed_while_it_runs() {
    let supervisor = Supervisor::builder().runner(SubprocessRunner::new()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    // The shell itself says that its sleep was stopped, which is not what this is about. It can be stopped as soon as it
    // has said something.
    let line = "exec 2>/dev/null; trap 'echo bye; exit 0' TERM; printf 'one\\ntwo\\nhalf'; while :; do sleep 0.01; done";
    let job = session.start(JobSpec::shell("talks", line)).await.unwrap();
    let mut follow = supervisor.follow(job.id(), 0).unwrap();
    let mut read = String::new();
    while read != "one\ntwo\n" {
        read.push_str(bytes(&soon(follow.next_page()).await.unwrap().unwrap()));
    }
    assert_eq!(supervisor.get(job.id()).unwrap().status, Status::Running);
    supervisor.cancel(job.id()).await.unwrap();
    read.extend(to_the_end(follow).await.iter().map(bytes));
    assert_eq!(read, "one\ntwo\nhalfbye\n");
    let capped = fanin_supervisor::protocol::CommandSpec {
        output_bytes_max: Some(500),
        ..fanin_supervisor::protocol::CommandSpec::shell("seq 1 20000")
    };
    let job = session.start(JobSpec::new("long", capped)).await.unwrap();
    job.wait(STUCK).await.unwrap();
    let pages = to_the_end(job.follow(0).unwrap()).await;
    let dropped = pages.iter().find_map(|page| page.dropped.clone()).unwrap();
    let kept: usize = pages.iter().map(|page| page.bytes.len()).sum();
    assert!(kept <= 500 && dropped.end - dropped.start + kept as u64 == 108_894, "{dropped:?}");
    supervisor.shutdown().await;
}
