//! Cases of lists and of ids: pages without hole or duplicate, and a start of an id that means one thing.

use std::collections::HashSet;

use fanin_supervisor::protocol::limits::REASON_IDS_MAX;
use fanin_supervisor::protocol::{JobId, Lifetime, NodeId};
use fanin_supervisor::{FindError, JobFilter, JobSpec, Named, RunContext, Supervisor};
use fanin_tests::cases::*;

fn id(text: &str) -> JobId {
    JobId::parse(text).unwrap()
}

/// The lives that a filter shows, read in pages of these sizes, with `between` after each.
async fn paged(
    supervisor: &Supervisor,
    filter: &JobFilter,
    mut size: impl FnMut() -> usize,
    mut between: impl AsyncFnMut(),
) -> Vec<Lifetime> {
    let (mut lives, mut from) = (Vec::new(), None);
    loop {
        let limit = size();
        let page = supervisor.list(&JobFilter { from, limit, ..filter.clone() }).unwrap();
        assert!(page.jobs.len() <= limit);
        lives.extend(page.jobs.iter().map(|job| job.lifetime));
        match page.next {
            None => return lives,
            next => from = next,
        }
        between().await;
    }
}

// Pages of any size are the whole list cut in pieces, and jobs that come or go between them move nothing.
#[tokio::test(start_paused = true)]
async fn pages_join_while_jobs_come_and_go() {
    let (supervisor, session) = start_with_parent().await;
    let mut chance = Chance::new();
    for n in 0..60 {
        let name = id(&format!("job-{}", n % 20));
        session.start(idle(&format!("{}-{n}", ["scan", "lint"][n % 2])).id(name).again()).await.unwrap();
        let jobs: Vec<_> = (0..=n.min(19)).map(|n| id(&format!("job-{n}"))).collect();
        session.wait_all(&jobs, STUCK).await.unwrap();
    }
    let filters = [
        JobFilter::default(),
        JobFilter { label_prefix: Some("scan-".into()), ..JobFilter::default() },
        JobFilter { label_prefix: Some("scan-1".into()), ..JobFilter::default() },
    ];
    for filter in filters {
        let whole = supervisor.list(&JobFilter { limit: usize::MAX, ..filter.clone() }).unwrap();
        let whole: Vec<_> = whole.jobs.iter().map(|job| job.lifetime).collect();
        for _ in 0..30 {
            let mut sizes = chance.fork();
            let still = paged(&supervisor, &filter, || 1 + sizes.below(9), async || {}).await;
            assert_eq!(still, whole);
        }
        let mut launched = 0;
        let moved = paged(
            &supervisor,
            &filter,
            || 1 + chance.below(9),
            async || {
                // A new life of an id that was on an earlier page, and one of a later page.
                launched += 1;
                let job =
                    session.start(idle("scan-new").id(id(&format!("job-{}", launched % 20))).again()).await;
                job.unwrap().wait(STUCK).await.unwrap();
            },
        )
        .await;
        assert_eq!(moved[..whole.len()], whole, "what was there is there once, in its order");
        assert!(moved.is_sorted() && moved.iter().collect::<HashSet<_>>().len() == moved.len());
    }
}

// A list of a subtree: all below a session or a job, at any depth, and nothing beside it.
#[tokio::test(start_paused = true)]
async fn a_subtree_is_listed_by_its_top() {
    fn tree(label: &'static str, depth: usize) -> JobSpec {
        JobSpec::run(label, move |context: RunContext| async move {
            if depth > 0 {
                let names = ["left", "right"].map(|name| tree(name, depth - 1));
                context.fan_out(names).await?.wait(None).await?;
            }
            Ok(().into())
        })
    }
    let (supervisor, session) = start_with_parent().await;
    let other = supervisor.session("other").await.unwrap();
    let group = session.fan_out([tree("a", 3).id(id("a")), tree("b", 1).id(id("b"))]).await.unwrap();
    let beside = other.start(tree("c", 2).id(id("c"))).await.unwrap();
    group.wait(STUCK).await.unwrap();
    beside.wait(STUCK).await.unwrap();
    let below = |node: NodeId| {
        supervisor.list(&JobFilter { below: Some(node), ..JobFilter::default() }).unwrap().jobs
    };
    assert_eq!(below(NodeId::Job(id("a"))).len(), 2 + 4 + 8);
    assert_eq!(below(NodeId::Job(id("b"))).len(), 2);
    assert_eq!(below(NodeId::Job(id("c"))).len(), 2 + 4);
    assert_eq!(below(NodeId::Session(session.id().clone())).len(), 2 + 14 + 2);
    assert_eq!(below(NodeId::Session(other.id().clone())).len(), 1 + 6);
    assert_eq!(below(NodeId::Job(id("nobody"))), []);
    let children = below(NodeId::Job(id("a")));
    let left = children.iter().find(|job| job.label.as_deref() == Some("left")).unwrap();
    assert_eq!(below(NodeId::Job(left.job.clone())).len(), 2 + 4);
    let filter = JobFilter {
        below: Some(NodeId::Job(id("a"))),
        label_prefix: Some("le".into()),
        ..JobFilter::default()
    };
    assert_eq!(supervisor.list(&filter).unwrap().jobs.len(), 1 + 2 + 4);
}

// B39: a million ids of two supervisors, and no two alike.
#[tokio::test(start_paused = true)]
async fn a_million_ids_of_two_supervisors_do_not_collide() {
    const EACH: usize = 250_000;
    let mut seen = HashSet::with_capacity(4 * EACH);
    for _ in 0..2 {
        let (supervisor, session) = start_with_parent().await;
        // Held back, so that the ids are all that is made.
        supervisor.set_slots(std::num::NonZeroU32::MIN).await.unwrap();
        let gate = Gate::new();
        let held = session.start(gated("holds the slot", &gate)).await.unwrap();
        for _ in 0..2 {
            let group = session.fan_out((0..EACH).map(|_| idle(""))).await.unwrap();
            assert!(group.jobs().iter().all(|job| seen.insert(job.clone())), "an id twice");
            group.cancel().await.unwrap();
        }
        drop(held);
    }
    assert_eq!(seen.len(), 4 * EACH);
}

// B39, C-7: the start of an id is as good as the whole where it can mean one thing only.
#[tokio::test(start_paused = true)]
async fn a_start_of_an_id_is_refused_where_it_is_ambiguous() {
    let (supervisor, session) = start_with_parent().await;
    let digits = |n: u32| format!("job_{:04x}{}", 0xab00 + n / 2, format!("{n:x}").repeat(28));
    let ids: Vec<JobId> = (0..4).map(|n| id(&digits(n))).collect();
    assert!(ids.iter().all(|id| id.to_string().len() == 36));
    let group = session.fan_out(ids.iter().map(|id| idle("").id(id.clone()))).await.unwrap();
    group.wait(STUCK).await.unwrap();
    // A second life is no second thing.
    session.start(idle("").id(ids[0].clone()).again()).await.unwrap().wait(STUCK).await.unwrap();
    let error = supervisor.find("job_ab00").unwrap_err();
    assert_eq!(error.code(), "ambiguous_id");
    let FindError::Ambiguous { count, candidates, .. } = &error else { panic!("{error}") };
    let meant: Vec<_> = [&ids[0], &ids[1]].map(|id| Named::Job(id.clone())).into();
    assert_eq!((*count, candidates.0.iter().all(|named| meant.contains(named))), (2, true));
    assert!(ids[..2].iter().all(|id| error.to_string().contains(&id.to_string())), "{error}");
    for (n, one) in ids.iter().enumerate() {
        assert_eq!(supervisor.find(&digits(n as u32)[..9]).unwrap(), Named::Job(one.clone()));
        assert_eq!(supervisor.find(&one.to_string()).unwrap(), Named::Job(one.clone()));
    }
    let whole = group.id().to_string();
    assert_eq!(supervisor.find(&whole[..8]).unwrap(), Named::Group(group.id().clone()));
    assert_eq!(supervisor.find("parent").unwrap(), Named::Session(session.id().clone()));
    for (start, code) in [
        ("job_ab0", "bad_prefix"),
        ("job_AB00", "bad_prefix"),
        ("ab00", "bad_prefix"),
        ("", "bad_prefix"),
        ("par", "bad_prefix"),
        ("job_", "bad_prefix"),
        ("job_ffff", "unknown_id"),
        ("ses_ab00", "unknown_id"),
    ] {
        assert_eq!(supervisor.find(start).unwrap_err().code(), code, "{start:?}");
    }
    // An id of a caller's own that others begin with is itself; as the start of many it names a few of them.
    let many = (0..40).map(|n| idle("").id(id(&format!("job_cafe-{n}"))));
    session.fan_out(many.chain([idle("").id(id("job_cafe"))])).await.unwrap().wait(STUCK).await.unwrap();
    assert_eq!(supervisor.find("job_cafe").unwrap(), Named::Job(id("job_cafe")));
    session.start(idle("").id(id("parent"))).await.unwrap().wait(STUCK).await.unwrap();
    let both = supervisor.find("parent").unwrap_err();
    assert_eq!(both.to_string(), "`parent` stands for 2: session parent, job parent; write more of it");
    let many = (0..40).map(|n| idle("").id(id(&format!("job_beef-{n}"))));
    session.fan_out(many).await.unwrap().wait(STUCK).await.unwrap();
    let error = supervisor.find("job_beef").unwrap_err();
    let FindError::Ambiguous { count, candidates, .. } = error else { panic!("{error}") };
    assert_eq!((count, candidates.0.len()), (40, REASON_IDS_MAX), "a few are named, all are counted");
}
