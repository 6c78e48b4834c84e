//! What can happen next in a search. A menu is kept small, so that all of it can be searched.

use fanin_machine::WaiterId;
use fanin_protocol::{JobId, NodeId, PartKind, PartState};

use crate::op::{self, Aim, How, Op, Wish};
use crate::world::{Options, World};

/// An alarm that is further away is far.
const FAR_MS: u64 = 30_000;

/// The operations of a search, and how often each may happen.
#[derive(Debug, Clone, Default)]
pub struct Menu {
    /// Jobs that may run at once.
    pub slots: Option<u32>,
    /// So many commands may start in so many milliseconds.
    pub rate: Option<(usize, u64)>,
    /// Launches to choose from, each as a script; one whose jobs are known is on the menu once more only in
    /// `repeats`.
    pub launches: Vec<&'static str>,
    /// Who can wait at once.
    pub waiters: u64,
    /// Their limits can pass.
    pub expires: bool,
    /// What they can wait for, as a script behind `wait w1`.
    pub waits: Vec<&'static str>,
    /// How a run can end.
    pub ends: Vec<How>,
    /// Runners say that they are up.
    pub binds: bool,
    /// Runs show signs of work that only the host sees.
    pub beats: bool,
    /// States that the one part of a run can be reported in.
    pub parts: Vec<PartState>,
    /// Turns of the session.
    pub turns: u32,
    /// States that the one part of a turn can be reported in.
    pub turn_parts: Vec<PartState>,
    /// Late reports of runs and turns that are over.
    pub late: bool,
    /// Time passes to the next alarm, where that is near.
    pub time: bool,
    /// Also where it is far: limits that nobody set, and the look for quiet groups.
    pub long_time: bool,
    /// Crashes; each is followed by an opening.
    pub crashes: u32,
    /// How often a job may be given more time.
    pub extends: u32,
    /// How many mails a member may send.
    pub sends: u32,
    /// Anything else, as scripts: stops, closes, and what will be refused.
    pub others: Vec<&'static str>,
    /// What may come before the opening after a crash.
    pub early: Vec<&'static str>,
}

/// A menu with its scripts read, once for all states.
pub(super) struct Choices<'m> {
    menu: &'m Menu,
    launches: Vec<Op>,
    /// By waiter, from the first on.
    waits: Vec<Vec<Op>>,
    others: Vec<Op>,
    early: Vec<Op>,
}

impl Menu {
    /// Its scripts, read.
    pub(super) fn choices(&self) -> Choices<'_> {
        let read = |texts: &[&'static str]| texts.iter().flat_map(|text| op::script(text).ops).collect();
        let wait = |waiter: u64| {
            let text = |wait: &&str| op::script(&format!("wait w{waiter} {wait}")).ops;
            self.waits.iter().flat_map(text).collect()
        };
        Choices {
            menu: self,
            launches: read(&self.launches),
            waits: (1..=self.waiters).map(wait).collect(),
            others: read(&self.others),
            early: read(&self.early),
        }
    }

    /// The world before the first choice: open, with session `s`.
    pub(super) fn start(&self) -> World {
        let options = Options {
            slots: self.slots,
            rate: self.rate,
            grace_ms: 10,
            fold_each: true,
            keep_rows: true,
            states_apart: true,
            wall_stands: true,
            sends: Some(self.sends),
            ..Options::default()
        };
        let mut world = World::new(options);
        for op in op::script("open; session s").ops {
            world.perform(&op).unwrap_or_else(|broken| panic!("{broken}"));
        }
        world
    }

    /// How a script of this search begins.
    pub(super) fn head(&self) -> String {
        let slots = self.slots.map_or_else(|| "slots none".into(), |slots| format!("slots {slots}"));
        self.rate.map_or_else(|| slots.clone(), |(starts, ms)| format!("{slots}; rate {starts} {ms}"))
    }
}

impl Choices<'_> {
    /// What can happen in a world. The order is that of the menu, so that a choice can be named by its place.
    pub(super) fn moves(&self, world: &World, ops: &mut Vec<Op>) {
        let menu = self.menu;
        if !world.opened {
            ops.push(Op::Open);
            ops.extend_from_slice(&self.early);
            return;
        }
        self.launches(world, ops);
        self.waits(world, ops);
        for (id, run) in &world.host.runs {
            let is_open = world.ledger.is_open(run.fence);
            menu.reports(id, is_open, ops);
        }
        menu.turns(world, ops);
        let alarm = world.near_alarm().map(|at| at.since(world.now.mono));
        if alarm.is_some_and(|ms| (menu.time && ms < FAR_MS) || menu.long_time) {
            ops.push(Op::Alarm);
        }
        if world.crashes < menu.crashes {
            ops.push(Op::Crash);
        }
        ops.extend_from_slice(&self.others);
        ops.retain(|op| match op {
            Op::Extend(..) => world.ledger.extended < menu.extends,
            Op::Used(id, ..) => menu.late || world.ledger.jobs.get(id).is_some_and(|job| job.run.is_some()),
            _ => true,
        });
    }

    fn launches(&self, world: &World, ops: &mut Vec<Op>) {
        let is_new = |launch: &&Op| match launch {
            Op::Launch(launching) => {
                is_known(world, launch)
                    && !launching.again
                    && launching.jobs.iter().all(|id| !world.ledger.jobs.contains_key(id))
            }
            _ => false,
        };
        ops.extend(self.launches.iter().filter(is_new).cloned());
    }

    fn waits(&self, world: &World, ops: &mut Vec<Op>) {
        let mut is_next = true;
        for (waiter, waits) in (1..).map(WaiterId).zip(&self.waits) {
            if world.parent.waits.contains_key(&waiter) {
                ops.push(Op::Leave(waiter));
                ops.push(Op::Ack(waiter));
                if self.menu.expires {
                    ops.push(Op::Expire(waiter));
                }
            } else if is_next {
                // Names do not matter: the next free one is as good as any other.
                is_next = false;
                ops.extend(waits.iter().filter(|op| is_known(world, op)).cloned());
            }
        }
    }
}

impl Menu {
    fn reports(&self, id: &JobId, is_open: bool, ops: &mut Vec<Op>) {
        if !is_open {
            if self.late {
                ops.extend([
                    Op::Bind(id.clone()),
                    Op::Part(id.clone(), 1, PartKind::Tool, PartState::Running),
                    Op::End(id.clone(), How::Ok),
                ]);
            }
            return;
        }
        if self.binds {
            ops.push(Op::Bind(id.clone()));
        }
        if self.beats {
            ops.push(Op::Beat(id.clone()));
        }
        ops.extend(self.parts.iter().map(|state| Op::Part(id.clone(), 1, PartKind::Tool, *state)));
        ops.extend(self.ends.iter().map(|how| Op::End(id.clone(), *how)));
    }

    fn turns(&self, world: &World, ops: &mut Vec<Op>) {
        let session = op::session("s");
        let Some(seen) = world.ledger.sessions.get(&session) else { return };
        let had = world.host.turns.contains_key(&session);
        if seen.turns < self.turns {
            ops.push(Op::Turn(session.clone()));
        }
        if seen.turn.is_some() || (self.late && had) {
            ops.extend(self.turn_parts.iter().map(|state| Op::TurnPart(session.clone(), 1, *state)));
            ops.push(Op::TurnEnd(session, How::Ok));
        }
    }
}

/// Waits and stops of what nobody has launched yet are for the menu of refusals.
fn is_known(world: &World, op: &Op) -> bool {
    match op {
        Op::Wait(_, Wish::All(by, jobs) | Wish::Any(by, jobs)) => {
            is_there(world, by) && jobs.iter().all(|id| world.ledger.jobs.contains_key(id))
        }
        Op::Wait(_, Wish::Group(by, id)) => is_there(world, by) && world.ledger.groups.contains_key(id),
        Op::Stop(Aim::Group(id), ..) => world.ledger.groups.contains_key(id),
        Op::Wait(_, Wish::Wake(by) | Wish::Message(by) | Wish::Hit(by) | Wish::Mail(by, ..)) => {
            is_there(world, by)
        }
        Op::Wait(_, Wish::Background(id)) => world.ledger.jobs.contains_key(id),
        Op::Launch(launching) => is_there(world, &launching.parent),
        _ => true,
    }
}

/// A job has somebody to speak for it once it has run.
fn is_there(world: &World, by: &NodeId) -> bool {
    match by {
        NodeId::Session(_) => true,
        NodeId::Job(id) => world.host.runs.contains_key(id),
    }
}
