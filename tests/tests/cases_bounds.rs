//! Cases of bad input and of bounds: refused by name with nothing made, or cut without breaking.

use std::time::Duration;

use fanin_supervisor::protocol::limits::{
    GRACE_MAX, GROUP_MEMBERS_MAX, ID_BYTES_MAX, LABEL_BYTES_MAX, LIMIT_MAX, MESSAGE_BYTES_MAX,
    PROGRESS_BYTES_MAX, PROMPT_BYTES_MAX, READ_BATCH, RESULT_BYTES_MAX, RESULT_ENTRIES_MAX,
    RESULT_ENTRY_BYTES_MAX,
};
use fanin_supervisor::protocol::{GroupId, JobId, Outcome, Policy, ResultEntry, Status};
use fanin_supervisor::{GroupOptions, JobError, JobFilter, JobSpec, RunContext, Session, Supervisor};
use fanin_tests::cases::*;

fn id(text: &str) -> JobId {
    JobId::parse(text).unwrap()
}

/// A good job whose body is known to be gone when `kept` is at zero.
fn held(label: &str, kept: &Alive) -> JobSpec {
    let one = kept.one();
    JobSpec::run(label, |_| async move {
        drop(one);
        Ok("done".into())
    })
}

/// Launches a bad job between two good ones, or a bad group, and checks that nothing of it exists.
async fn refused(supervisor: &Supervisor, session: &Session, policy: Policy, bad: JobSpec, code: &str) {
    let before = supervisor.list(&JobFilter::default()).unwrap();
    let kept = Alive::new();
    let options = GroupOptions { id: None, policy };
    let specs = [held("1", &kept), bad, held("3", &kept)];
    let error = session.fan_out_with(options, specs).await.expect_err(code);
    assert_eq!(error.code(), code, "{error}");
    assert_eq!(
        supervisor.list(&JobFilter::default()).unwrap(),
        before,
        "{code}: something of it was launched"
    );
    assert_eq!(kept.count(), 0, "{code}: a body of it is kept");
    assert_no_wake_now(session);
}

// B55, B56, BAR-2, SC-12
#[tokio::test(start_paused = true)]
async fn a_bad_job_is_refused_by_name_and_nothing_is_launched() {
    let agents = FakeAgent::new();
    let supervisor = Supervisor::builder().runner(agents.clone()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    session.fan_out([idle("known").id(id("known"))]).await.unwrap();
    woken(&session).await;
    let all = Policy::ALL;
    let too_long = LIMIT_MAX + Duration::from_millis(1);
    let bad = [
        // B55: never a silent default.
        (JobSpec::agent("a", "nobody", "Look"), "rejected"),
        (JobSpec::agent("a", "", "Look"), "rejected"),
        (JobSpec::command("a", ["true"]), "no_runner"),
        (JobSpec::shell("a", "true"), "no_runner"),
        // B56
        (JobSpec::agent("a", "talks", "  \n"), "rejected"),
        (JobSpec::agent("a", "talks", "x".repeat(PROMPT_BYTES_MAX + 1)), "too_large"),
        (idle("a").id(id("known")), "id_in_use"),
        (idle(&"x".repeat(LABEL_BYTES_MAX + 1)), "bad_spec"),
        (idle("a").timeout(Duration::ZERO), "bad_spec"),
        (idle("a").timeout(too_long), "bad_spec"),
        (idle("a").timeout(Duration::MAX), "bad_spec"),
        (idle("a").queue_timeout(Duration::ZERO), "bad_spec"),
        (idle("a").queue_timeout(Duration::MAX), "bad_spec"),
        (idle("a").grace(GRACE_MAX + Duration::from_millis(1)), "bad_spec"),
        (idle("a").grace(Duration::MAX), "bad_spec"),
    ];
    for (bad, code) in bad {
        refused(&supervisor, &session, all, bad, code).await;
    }
    assert_eq!(agents.started(), 0);

    let limit = u64::try_from(LIMIT_MAX.as_millis()).unwrap();
    let policies = [
        Policy { ok: Some(0), ..all },
        Policy { ok: Some(4), ..all },
        Policy { not_ok: Some(0), ..all },
        Policy { not_ok: Some(u32::MAX), ..all },
        Policy { at_ms: Some(0), ..all },
        Policy { at_ms: Some(limit + 1), ..all },
        Policy { at_ms: Some(u64::MAX), ..all },
    ];
    for policy in policies {
        refused(&supervisor, &session, policy, idle("2"), "bad_policy").await;
    }

    let twice = [idle("a").id(id("twice")), idle("b"), idle("c").id(id("twice"))];
    assert_eq!(session.fan_out(twice).await.unwrap_err().code(), "duplicate_id");
    assert_eq!(session.fan_out([]).await.unwrap_err().code(), "empty");
    assert_eq!(supervisor.list(&JobFilter::default()).unwrap().jobs.len(), 1);
    // What was refused left nothing behind: the names are free.
    session.fan_out([idle("a").id(id("twice"))]).await.unwrap().wait(STUCK).await.unwrap();
    no_wake(&session).await;
}

// B56: what is within the bounds is accepted, at the very edge too.
#[tokio::test(start_paused = true)]
async fn what_is_within_the_bounds_is_accepted() {
    let supervisor = Supervisor::builder().runner(FakeAgent::new()).start().await.unwrap();
    let session = supervisor.session("parent").await.unwrap();
    let prompt = "x".repeat(PROMPT_BYTES_MAX);
    let specs = vec![
        idle(&"é".repeat(LABEL_BYTES_MAX / 2)).id(id(&"i".repeat(ID_BYTES_MAX))),
        idle("a").timeout(LIMIT_MAX).queue_timeout(LIMIT_MAX).grace(GRACE_MAX),
        idle("a").timeout(Duration::from_nanos(1)).grace(Duration::ZERO),
        idle(""),
        JobSpec::agent("a", "talks", prompt),
    ];
    let limit = u64::try_from(LIMIT_MAX.as_millis()).unwrap();
    let policy = Policy { ok: Some(5), not_ok: Some(5), at_ms: Some(limit), ..Policy::ALL };
    let group = session.fan_out_with(GroupOptions { id: None, policy }, specs).await.unwrap();
    let result = group.wait(STUCK).await.unwrap();
    assert_eq!(result.outcome, Outcome::AllOk);
    assert_eq!(result.entries[3].label, None);

    for members in [1, 2, 7, 8, 300] {
        let specs: Vec<_> = (0..members).map(|_| idle("a")).collect();
        let group = session.fan_out(specs).await.unwrap();
        assert_eq!(group.wait(STUCK).await.unwrap().entries.len(), members);
    }
    no_wake(&session).await;
}

// B56, 14.14
#[tokio::test(start_paused = true)]
async fn a_group_above_the_bound_is_refused_whole() {
    let (supervisor, session) = start_with_parent().await;
    let specs = (0..=GROUP_MEMBERS_MAX).map(|_| JobSpec::run("", |_| async { Ok(().into()) }));
    let error = session.fan_out(specs).await.unwrap_err();
    assert_eq!(error.code(), "too_many");
    assert!(error.to_string().contains(&GROUP_MEMBERS_MAX.to_string()), "{error}");
    assert!(supervisor.list(&JobFilter::default()).unwrap().jobs.is_empty());
    no_wake(&session).await;
}

// B56, C-7
#[tokio::test(start_paused = true)]
async fn a_text_that_is_no_id_is_refused_at_every_door() {
    let (supervisor, _session) = start_with_parent().await;
    let long = "x".repeat(ID_BYTES_MAX + 1);
    for text in ["", " ", "a b", "..", "a/b", "é", "a\0", "a\n", "$HOME", &long] {
        assert_eq!(supervisor.session(text).await.unwrap_err().code(), "bad_id", "{text:?}");
        assert!(JobId::parse(text).is_err(), "{text:?}");
        assert!(GroupId::parse(text).is_err(), "{text:?}");
    }
}

// B56
#[tokio::test(start_paused = true)]
async fn a_setting_without_sense_is_refused_by_name() {
    let builder = Supervisor::builder;
    let bad = [
        (builder().slots(0), "slots"),
        (builder().tail(0), "tail"),
        (builder().grace(GRACE_MAX + Duration::from_millis(1)), "grace"),
        (builder().grace(Duration::MAX), "grace"),
        (builder().runner(FakeAgent::new()).runner(FakeAgent::new()), "runner"),
    ];
    for (bad, setting) in bad {
        let error = bad.start().await.unwrap_err();
        assert_eq!(error.code(), "bad_setting");
        assert!(error.to_string().starts_with(setting), "{error}");
    }
    let outside = std::thread::spawn(|| at_once(Supervisor::builder().start()).map(drop)).join().unwrap();
    assert_eq!(outside.unwrap_err().code(), "no_runtime");
}

// B56: an enormous setting is as good as none, and a tiny one works.
#[tokio::test(start_paused = true)]
async fn an_enormous_or_tiny_setting_works() {
    watch_panics();
    let builder = Supervisor::builder;
    for builder in [
        builder().slots(usize::MAX).tail(usize::MAX).grace(GRACE_MAX),
        builder().slots(1).tail(1).grace(Duration::ZERO),
    ] {
        let supervisor = builder.start().await.unwrap();
        let session = supervisor.session("parent").await.unwrap();
        // Enough records for more than one segment of the log.
        let group = session.fan_out((0..READ_BATCH).map(|_| idle("a"))).await.unwrap();
        assert_eq!(group.wait(STUCK).await.unwrap().outcome, Outcome::AllOk);
        supervisor.stop_all(Duration::MAX);
        soon(supervisor.shutdown()).await;
    }
    assert_no_panic_of_ours();
}

// B56, R7
#[tokio::test(start_paused = true)]
async fn a_wait_for_nothing_or_nobody_is_refused_at_once() {
    let (supervisor, session) = start_with_parent().await;
    let group = session.fan_out([idle("a")]).await.unwrap();
    let job = group.jobs()[0].clone();
    let cases = [
        (vec![], "empty"),
        (vec![id("nobody")], "unknown_job"),
        (vec![job.clone(), id("nobody")], "unknown_job"),
        (vec![job.clone(), job.clone()], "duplicate_id"),
    ];
    for (jobs, code) in cases {
        assert_eq!(at_once(session.wait_all(&jobs, None)).unwrap_err().code(), code);
        assert_eq!(at_once(session.wait_any(&jobs, None)).unwrap_err().code(), code);
    }
    let nobody = id("nobody");
    assert_eq!(supervisor.get(&nobody).unwrap_err().code(), "unknown_job");
    assert_eq!(supervisor.why(&nobody).unwrap_err().code(), "unknown_job");
    assert_eq!(supervisor.output(&nobody).unwrap_err().code(), "unknown_job");
    assert_eq!(supervisor.cancel(&nobody).await.unwrap_err().code(), "unknown_job");
    assert_eq!(supervisor.progress(&nobody), None);
    // A wait that was refused is no waiter: the wake comes.
    assert_eq!(woken(&session).await.group, *group.id());
}

// J-21: a known group is the answer, and nothing of the call is run or kept.
#[tokio::test(start_paused = true)]
async fn a_group_id_used_again_is_the_same_group() {
    let (supervisor, session) = start_with_parent().await;
    let other = supervisor.session("other").await.unwrap();
    let options = |policy| GroupOptions { id: Some(GroupId::parse("again").unwrap()), policy };
    let (gate, kept) = (Gate::new(), Alive::new());
    let first = session.fan_out_with(options(Policy::ALL), [gated("a", &gate)]).await.unwrap();
    assert!(first.is_created());
    for ended in [false, true] {
        let same = session.fan_out_with(options(Policy::ALL), [held("a", &kept)]).await.unwrap();
        assert_eq!((same.is_created(), same.is_different()), (false, false));
        assert_eq!((same.id(), same.jobs()), (first.id(), first.jobs()));
        let differs = [
            session.fan_out_with(options(Policy::ANY), [held("a", &kept)]).await.unwrap(),
            session.fan_out_with(options(Policy::ALL), [held("b", &kept)]).await.unwrap(),
            session.fan_out_with(options(Policy::ALL), [held("a", &kept), held("b", &kept)]).await.unwrap(),
        ];
        assert!(differs.iter().all(|group| group.is_different() && group.jobs() == first.jobs()));
        let foreign = other.fan_out_with(options(Policy::ALL), [held("a", &kept)]).await.unwrap_err();
        assert_eq!(foreign.code(), "foreign_group");
        assert_eq!(kept.count(), 0, "a body that will never run is kept");
        if !ended {
            gate.open();
            over(&supervisor, first.jobs()).await;
        }
    }
    let wake = woken(&session).await;
    assert_eq!(wake.entries.len(), 1);
    assert_eq!(output(&wake.entries[0]), "a");
    assert_eq!(supervisor.list(&JobFilter::default()).unwrap().jobs.len(), 1);
    no_wake(&session).await;
    no_wake(&other).await;
}

// J-21, B04 without `again`: a known job is the answer; nothing runs twice, also not after its end.
#[tokio::test(start_paused = true)]
async fn a_job_id_used_again_is_the_same_job() {
    let (supervisor, session) = start_with_parent().await;
    let other = supervisor.session("other").await.unwrap();
    let (gate, kept) = (Gate::new(), Alive::new());
    let first = session.start(gated("a", &gate).id(id("again"))).await.unwrap();
    for ended in [false, true] {
        let same = session.start(held("a", &kept).id(id("again"))).await.unwrap();
        assert_eq!((same.is_created(), same.is_different()), (false, false));
        assert_eq!((same.lifetime(), same.group()), (first.lifetime(), first.group()));
        let timed = held("a", &kept).id(id("again")).timeout(Duration::from_secs(1));
        assert!(session.start(timed).await.unwrap().is_different());
        let foreign = other.start(held("a", &kept).id(id("again"))).await.unwrap_err();
        assert_eq!(foreign.code(), "id_in_use");
        let member = session.fan_out([held("b", &kept), held("a", &kept).id(id("again"))]).await.unwrap_err();
        assert_eq!(member.code(), "id_in_use");
        assert_eq!(kept.count(), 0, "a body that will never run is kept");
        if !ended {
            gate.open();
            assert_eq!(output(&same.wait(STUCK).await.unwrap()), "a");
        }
    }
    assert_eq!(supervisor.list(&JobFilter::default()).unwrap().jobs.len(), 1);
    no_wake(&session).await;
    no_wake(&other).await;
}

/// Texts of characters of one width, each shifted by every number of bytes that matters.
fn texts(bytes: usize) -> impl Iterator<Item = (String, &'static str)> {
    ["x", "é", "€", "😀"].into_iter().flat_map(move |unit| {
        (0..unit.len()).map(move |shift| {
            let text = "x".repeat(shift) + &unit.repeat((bytes - shift).div_ceil(unit.len()));
            (text, unit)
        })
    })
}

/// Checks an entry against the full output of its job and the cap of one entry.
#[track_caller]
fn assert_cut(entry: &ResultEntry, full: &str, unit: &str, cap: usize) {
    let shown = entry.output.as_ref().unwrap();
    assert!(shown.text.len() <= cap, "{} bytes of {cap}", shown.text.len());
    assert_eq!(shown.bytes_total, full.len() as u64);
    assert!(!shown.invalid_utf8);
    assert_eq!(shown.truncated, full.len() > cap, "the mark of a cut");
    if !shown.truncated {
        assert_eq!(&*shown.text, full);
        return;
    }
    assert!(shown.text.len() + 60 > cap, "{} bytes of {cap}: more was cut than had to be", shown.text.len());
    assert!(full.ends_with(shown.text.rsplit('\n').next().unwrap()), "the end is kept");
    let odd = |c: char| c != 'x' && !unit.contains(c) && !c.is_ascii();
    assert!(!shown.text.contains(odd), "a character that nobody wrote");
}

// B62, R-3: 1-, 2-, 3- and 4-byte characters against the cap of an entry, at every offset of a character.
#[tokio::test(start_paused = true)]
async fn an_output_is_cut_between_characters_at_every_offset() {
    let (supervisor, session) = start_with_parent().await;
    // From members alone to a share that is far below the cap of an entry, so that each has another cap.
    for members in (1..=12).chain([13, 37, 61, 100]) {
        let cap = RESULT_ENTRY_BYTES_MAX.min(RESULT_BYTES_MAX / members);
        let all: Vec<_> = [cap - 4, cap, cap + 1, cap + 5, cap * 2].into_iter().flat_map(texts).collect();
        let rounds: Vec<_> = all.chunks(members).filter(|round| round.len() == members).collect();
        for round in rounds {
            let specs = round.iter().map(|(text, _)| {
                let said = text.clone();
                JobSpec::run("says", move |_| async move { Ok(said.into()) })
            });
            let group = session.fan_out(specs.collect::<Vec<_>>()).await.unwrap();
            let result = group.wait(STUCK).await.unwrap();
            let waited = session.wait_all(group.jobs(), STUCK).await.unwrap();
            for (entries, door) in [(&result.entries, "result"), (&waited.entries, "wait")] {
                for (entry, (text, unit)) in entries.iter().zip(round) {
                    assert_cut(entry, text, unit, cap);
                    let kept = supervisor.output(&entry.job).unwrap();
                    assert_eq!(kept.text(), *text, "{door}: the full text by the handle");
                }
            }
            let shown: usize = result.entries.iter().map(|entry| output(entry).len()).sum();
            assert!(shown <= RESULT_BYTES_MAX, "{shown}");
        }
    }
}

// B62: progress, failures and panics, cut at every offset of a character.
#[tokio::test(start_paused = true)]
async fn other_texts_are_cut_between_characters() {
    let (supervisor, session) = start_with_parent().await;
    for (text, _) in texts(2 * MESSAGE_BYTES_MAX) {
        let (gate, line, failure, panics) = (Gate::new(), text.clone(), text.clone(), text.clone());
        let wait = gate.clone();
        let group = session
            .fan_out([
                JobSpec::run("progress", |context: RunContext| async move {
                    context.progress(&line);
                    wait.passed().await;
                    Ok(().into())
                }),
                JobSpec::run("fails", |_| async move { Err(JobError::new(failure)) }),
                JobSpec::run("panics", |_| async move { panic!("{panics}") }),
            ])
            .await
            .unwrap();
        over(&supervisor, &group.jobs()[1..]).await;
        let progress = supervisor.progress(&group.jobs()[0]).unwrap();
        assert!(progress.len() <= PROGRESS_BYTES_MAX && progress.len() > PROGRESS_BYTES_MAX - 4);
        assert!(text.starts_with(&*progress));
        gate.open();
        let result = group.wait(STUCK).await.unwrap();
        for entry in &result.entries[1..] {
            let message = entry.message.as_deref().unwrap();
            assert!(message.len() <= MESSAGE_BYTES_MAX && message.len() > MESSAGE_BYTES_MAX - 4);
            assert!(text.starts_with(message));
        }
        assert_eq!(supervisor.progress(&group.jobs()[0]), None, "a job that is over makes none");
    }
}

// B62, B63, R-5: bytes that are no text, and text that nobody should trust.
#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_text_are_marked_and_framed() {
    let (supervisor, session) = start_with_parent().await;
    let broken = vec![b'a', 0xe2, 0x82, b'\n', 0xff, b'\x1b', b'[', b'2', b'J', b'b'];
    let bytes = broken.clone();
    let group = session
        .fan_out([JobSpec::run("bytes", |_| async move { Ok(bytes.into()) }), idle("fine")])
        .await
        .unwrap();
    let result = group.wait(STUCK).await.unwrap();
    let shown = result.entries[0].output.as_ref().unwrap();
    assert!(shown.invalid_utf8 && !shown.truncated);
    assert_eq!(&*shown.text, "a\u{fffd}\n\u{fffd}\x1b[2Jb");
    assert!(!result.entries[1].output.as_ref().unwrap().invalid_utf8);
    assert_eq!(&**supervisor.output(&group.jobs()[0]).unwrap().bytes(), &broken, "kept as it came");
    assert!(!result.to_text().contains('\x1b'), "a result for people holds no control");
}

// beyond a thousand members a result counts all and names those that did not complete.
#[tokio::test(start_paused = true)]
async fn a_large_group_counts_all_and_names_the_failed() {
    let (_supervisor, session) = start_with_parent().await;
    for members in [RESULT_ENTRIES_MAX, RESULT_ENTRIES_MAX + 1] {
        let bad = [3, members - 1];
        let specs = (0..members).map(|n| {
            JobSpec::run(format!("{n}"), move |_| async move {
                if bad.contains(&n) { Err(JobError::new("bad")) } else { Ok("fine".into()) }
            })
        });
        session.fan_out(specs.collect::<Vec<_>>()).await.unwrap();
        let wake = woken(&session).await;
        assert_eq!((wake.counts.launched as usize, wake.counts.error), (members, 2));
        assert_eq!(wake.entries.len() + wake.entries_omitted as usize, members);
        if members > RESULT_ENTRIES_MAX {
            let named: Vec<_> = wake.entries.iter().map(|entry| entry.index as usize).collect();
            assert_eq!(named, bad);
        }
        no_wake(&session).await;
    }
}

// B56, R8: many parents, each with its own line, and a page of jobs at a time.
#[tokio::test(start_paused = true)]
async fn a_list_is_paged_without_hole_or_duplicate() {
    let (supervisor, session) = start_with_parent().await;
    let other = supervisor.session("other").await.unwrap();
    let mut all = Vec::new();
    for _ in 0..10 {
        all.extend(session.fan_out((0..7).map(|_| idle("a"))).await.unwrap().jobs().to_vec());
        other.fan_out([idle("b"), idle("b")]).await.unwrap();
    }
    for limit in [1, 2, 3, 69, 70, 71, usize::MAX] {
        let mut filter = JobFilter { session: Some(session.id().clone()), limit, ..JobFilter::default() };
        let mut seen = Vec::new();
        loop {
            let page = supervisor.list(&filter).unwrap();
            assert!(page.jobs.len() <= limit);
            seen.extend(page.jobs.into_iter().map(|job| job.job));
            let Some(next) = page.next else { break };
            filter.from = Some(next);
        }
        assert_eq!(seen, all, "pages of {limit}");
    }
    over(&supervisor, &all).await;
    let queued = JobFilter { status: Some(Status::Queued), ..JobFilter::default() };
    assert!(supervisor.list(&queued).unwrap().jobs.is_empty());
}
