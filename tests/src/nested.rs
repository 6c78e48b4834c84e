//! Trees of jobs that wait for each other, by chance: every job launches a few below itself and waits for them, in one
//! of the ways there are. No schedule may stand still (P7, SC-10).

use fanin_machine::WaiterId;
use fanin_protocol::{GroupId, JobId, JobKind, JobLimits, NodeId, Policy};

use crate::broken::{Kept, ensure};
use crate::op::{self, How, Launching, Op, Wish};
use crate::world::{Options, World};

/// Jobs of a tree at the most.
pub const JOBS_MAX: usize = 20;
/// Levels of a tree.
pub const DEPTH: usize = 3;
/// Steps after which a schedule counts as standing still: each job takes a handful.
const STEPS_MAX: usize = 2_000;

/// Chance that is the same for the same seed.
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// From a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `n`.
    pub const fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

/// A job of the plan.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Its place among the jobs, which is its name.
    pub name: usize,
    /// What it launches, as one group.
    pub below: Vec<Planned>,
    /// How it waits for that.
    pub way: Waiting,
}

/// How a job waits for what it launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// For the group.
    Group,
    /// For all of the jobs.
    All,
    /// For the first of them, then for all.
    AnyThenAll,
    /// To be woken.
    Wake,
    /// For the group, and gives up.
    GivesUp,
    /// Not at all: it joins.
    Joins,
}

/// A forest: the jobs of the session itself.
pub fn plan(draw: &mut Draw) -> Vec<Planned> {
    let mut left = JOBS_MAX;
    let roots = 1 + draw.below(4);
    (0..roots).filter_map(|_| planned(draw, &mut left, 1)).collect()
}

fn planned(draw: &mut Draw, left: &mut usize, depth: usize) -> Option<Planned> {
    *left = left.checked_sub(1)?;
    let name = JOBS_MAX - *left - 1;
    let ways = [
        Waiting::Group,
        Waiting::Group,
        Waiting::All,
        Waiting::AnyThenAll,
        Waiting::Wake,
        Waiting::GivesUp,
        Waiting::Joins,
    ];
    let way = ways[draw.below(ways.len())];
    let count = if depth < DEPTH { draw.below(4) } else { 0 };
    let below = (0..count).filter_map(|_| planned(draw, left, depth + 1)).collect();
    Some(Planned { name, below, way })
}

/// The plan of a job by its name.
fn find(plan: &[Planned], name: usize) -> Option<&Planned> {
    plan.iter().find_map(|job| if job.name == name { Some(job) } else { find(&job.below, name) })
}

/// Where the body of a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It has not launched yet.
    First,
    /// It waits, for the nth thing.
    Waits(u8),
    /// It has nothing more to wait for.
    Last,
    /// It is over.
    Over,
}

/// Runs a schedule of a seed to its end, with so many slots; every step is checked.
///
/// # Errors
///
/// [`Broken`](crate::Broken) where a promise is broken, or nothing more can happen and something is not over.
pub fn run(seed: u64, slots: u32) -> Kept {
    let mut draw = Draw::new(seed);
    let plan = plan(&mut draw);
    let options = Options { slots: Some(slots), grace_ms: 100, sparse: 64, ..Options::default() };
    let mut world = World::new(options);
    for op in op::script("open; session s").ops {
        world.perform(&op)?;
    }
    world.perform(&launch(&plan, None))?;
    let mut places = [Place::First; JOBS_MAX];
    for step in 0.. {
        ensure(step < STEPS_MAX, "P7", || format!("no end after {STEPS_MAX} steps"))?;
        let ready: Vec<usize> = (0..JOBS_MAX).filter(|name| may_go_on(&world, &places, *name)).collect();
        let Some(name) = ready.get(draw.below(ready.len().max(1))) else { break };
        go_on(&mut world, &plan, &mut places, *name, &mut draw)?;
        // The host has more than one thread, so somebody may change the number of slots meanwhile.
        if draw.below(16) == 0 {
            world.perform(&Op::Slots(Some(1 + draw.below(4) as u32)))?;
        }
    }
    let open = world.ledger.jobs.iter().find(|(_, job)| job.ended.is_none());
    ensure(open.is_none(), "P7", || format!("{open:?} stands still: {:?}", world.ledger.jobs))
}

fn id(name: usize) -> JobId {
    op::job(&format!("j{name}"))
}

fn group(parent: Option<usize>) -> GroupId {
    GroupId::parse(&parent.map_or("g".into(), |name| format!("g{name}"))).expect("a name")
}

fn launch(jobs: &[Planned], parent: Option<usize>) -> Op {
    Op::Launch(Box::new(Launching {
        parent: parent.map_or_else(|| NodeId::Session(op::session("s")), |name| NodeId::Job(id(name))),
        group: group(parent),
        is_fresh: false,
        again: false,
        joins: false,
        foreground: None,
        policy: Policy::ALL,
        needs: Vec::new(),
        kind: JobKind::Closure,
        limits: JobLimits::default(),
        jobs: jobs.iter().map(|job| id(job.name)).collect(),
    }))
}

/// True where the body of a job has a turn: it runs, and what it waits for is there.
fn may_go_on(world: &World, places: &[Place], name: usize) -> bool {
    let runs = world.ledger.jobs.get(&id(name)).is_some_and(|job| job.run.is_some());
    let answered = || {
        let wait = world.parent.waits.get(&WaiterId(name as u64));
        wait.is_none_or(|wait| wait.offer.is_some() || matches!(places[name], Place::Waits(u8::MAX)))
    };
    runs && match places[name] {
        Place::First | Place::Last => true,
        Place::Waits(_) => answered(),
        Place::Over => false,
    }
}

fn go_on(world: &mut World, plan: &[Planned], places: &mut [Place], name: usize, draw: &mut Draw) -> Kept {
    let Some(job) = find(plan, name) else { return Ok(()) };
    let (waiter, by) = (WaiterId(name as u64), NodeId::Job(id(name)));
    let below: Vec<JobId> = job.below.iter().map(|child| id(child.name)).collect();
    let wish = |nth: u8| match (job.way, nth) {
        (Waiting::Group | Waiting::GivesUp, 0) => Some(Wish::Group(by.clone(), group(Some(name)))),
        (Waiting::All, 0) | (Waiting::AnyThenAll, 1) => Some(Wish::All(by.clone(), below.clone())),
        (Waiting::AnyThenAll, 0) => Some(Wish::Any(by.clone(), below.clone())),
        (Waiting::Wake, 0) => Some(Wish::Wake(by.clone())),
        _ => None,
    };
    let mut begin = |world: &mut World, nth: u8| -> Result<Place, crate::Broken> {
        let Some(wish) = wish(nth) else { return Ok(Place::Last) };
        world.perform(&Op::Wait(waiter, wish))?;
        // One that gives up does so whenever it has its next turn.
        let gives_up = job.way == Waiting::GivesUp && draw.below(2) == 0;
        Ok(Place::Waits(if gives_up { u8::MAX } else { nth }))
    };
    places[name] = match places[name] {
        Place::First if below.is_empty() => Place::Last,
        Place::First => {
            world.perform(&launch(&job.below, Some(name)))?;
            begin(world, 0)?
        }
        Place::Waits(u8::MAX) => {
            let is_answered =
                world.perform(&Op::Expire(waiter))?.reply == Some(fanin_machine::Reply::Answered);
            if is_answered {
                world.perform(&Op::Ack(waiter))?;
            }
            Place::Last
        }
        Place::Waits(nth) => {
            world.perform(&Op::Ack(waiter))?;
            begin(world, nth + 1)?
        }
        Place::Last => {
            world.perform(&Op::End(id(name), How::Ok))?;
            Place::Over
        }
        Place::Over => Place::Over,
    };
    Ok(())
}
