//! What the case tests share: gates that force a race, chance with a printed seed, bodies that end in every way, and
//! checks of what must not happen. What a user's tests need as well is in `fanin_supervisor::testing`. It never sleeps.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fanin_supervisor::protocol::{CombinedResult, JobId, ResultEntry};
pub use fanin_supervisor::testing::{
    Gate, assert_no_wake_now, assert_nothing_lives, no_wake, over, woken, woken_within,
};
use fanin_supervisor::{JobError, JobSpec, RunContext, Session, Supervisor};

mod agent;
pub mod process;
mod witness;

pub use agent::FakeAgent;
pub use witness::Witness;

/// Longer than anything a test waits for on a real clock; a test that reaches it hangs and says so.
pub const STUCK: Duration = Duration::from_secs(20);

/// How long nothing may happen, on a paused clock.
pub const QUIET: Duration = Duration::from_secs(1800);

/// A supervisor with nothing set.
pub async fn start() -> Supervisor {
    Supervisor::builder().start().await.unwrap()
}

/// A supervisor with nothing set, and a parent.
pub async fn start_with_parent() -> (Supervisor, Session) {
    let supervisor = start().await;
    let session = supervisor.session("parent").await.unwrap();
    (supervisor, session)
}

/// What our tests do with a [`Gate`] beyond what a user needs: they block threads at it.
pub trait BlockingGate {
    /// Opens it at the latest when what is returned is dropped: a test that fails leaves no thread blocked.
    #[must_use]
    fn at_the_latest(&self) -> OnDrop<impl FnOnce() + use<Self>>;

    /// Blocks the thread until it is open.
    ///
    /// # Panics
    ///
    /// Where that takes longer than [`STUCK`].
    fn block(&self);
}

impl BlockingGate for Gate {
    fn at_the_latest(&self) -> OnDrop<impl FnOnce() + use<>> {
        let gate = self.clone();
        OnDrop::new(move || gate.open())
    }

    fn block(&self) {
        let mut passed = std::pin::pin!(self.passed());
        let (wake, woken) = mpsc::channel();
        let waker = Waker::from(Arc::new(Ring(wake)));
        while passed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            woken.recv_timeout(STUCK).expect("the gate is opened");
        }
    }
}

struct Ring(mpsc::Sender<()>);

impl std::task::Wake for Ring {
    fn wake(self: Arc<Self>) {
        // Refused only where nobody blocks any more.
        let _ = self.0.send(());
    }
}

/// Chance with a seed: the same seed gives the same choices (splitmix64).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// Chance for a test: from the variable `FANIN_SEED`, else new. The seed is printed, to be used again.
    pub fn new() -> Self {
        let seed = match std::env::var("FANIN_SEED") {
            Ok(seed) => seed.parse().expect("FANIN_SEED is a number"),
            Err(_) => std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), 0),
        };
        println!("FANIN_SEED={seed}");
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Chance of its own for a task beside.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.number())
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }

    /// One of these.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Another order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last + 1));
        }
    }

    /// Lets others run for a while: up to `most` turns of the scheduler.
    pub async fn dawdle(&mut self, most: usize) {
        for _ in 0..self.below(most + 1) {
            tokio::task::yield_now().await;
        }
    }

    /// Keeps the thread busy for a while, finer than a turn of the scheduler: up to `most` spins.
    pub fn spin(&mut self, most: usize) {
        for _ in 0..self.below(most + 1) {
            std::hint::spin_loop();
        }
    }
}

impl Default for Chance {
    fn default() -> Self {
        Self::new()
    }
}

/// Counts what is alive, such as bodies of jobs.
#[derive(Debug, Clone, Default)]
pub struct Alive(Arc<AtomicUsize>);

impl Alive {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more, until what is returned is dropped.
    #[must_use]
    pub fn one(&self) -> One {
        self.0.fetch_add(1, Ordering::SeqCst);
        One(self.clone())
    }

    /// Waits until there is none. On a real clock only.
    ///
    /// # Panics
    ///
    /// Where that takes longer than [`STUCK`].
    pub async fn gone(&self) {
        let started = std::time::Instant::now();
        while self.count() > 0 {
            assert!(started.elapsed() < STUCK, "{} are still alive", self.count());
            tokio::task::yield_now().await;
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// One of what is [`Alive`].
#[derive(Debug)]
pub struct One(Alive);

impl Drop for One {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Calls a function when it is dropped: a destructor with an opinion.
pub struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    /// Calls `f` when what is returned is dropped.
    pub const fn new(f: F) -> Self {
        Self(Some(f))
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

/// A job that waits for its gate and then says its label.
pub fn gated(label: &str, gate: &Gate) -> JobSpec {
    let (gate, said) = (gate.clone(), label.to_owned());
    JobSpec::run(label, |_| async move {
        gate.passed().await;
        Ok(said.into())
    })
}

/// A job that has nothing to do.
pub fn idle(label: &str) -> JobSpec {
    JobSpec::run(label, |_| async { Ok("done".into()) })
}

/// A job that never ends by itself, and not when it is asked to either.
pub fn stubborn(label: &str, alive: &Alive) -> JobSpec {
    let alive = alive.clone();
    JobSpec::run(label, |_| async move {
        let _one = alive.one();
        std::future::pending().await
    })
}

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// With its label as output.
    Well,
    /// With a failure.
    Badly,
    /// With a panic of the body.
    Panic,
    /// With a panic of a destructor.
    PanicInDrop,
    /// By a cancel that it follows.
    Cancelled,
    /// By a cancel that it does not follow; it is aborted at once.
    Aborted,
}

/// All ways.
pub const WAYS: [Way; 6] =
    [Way::Well, Way::Badly, Way::Panic, Way::PanicInDrop, Way::Cancelled, Way::Aborted];

impl Way {
    /// A job that ends in this way, by itself once `gate` is open, or once [`Way::end`] is called.
    pub fn job(self, label: &str, gate: &Gate) -> JobSpec {
        let (gate, said) = (gate.clone(), label.to_owned());
        let body = move |context: RunContext| async move {
            match self {
                Self::Cancelled => context.cancelled().await,
                Self::Aborted => std::future::pending().await,
                Self::Well | Self::Badly | Self::Panic | Self::PanicInDrop => gate.passed().await,
            }
            match self {
                Self::Well => Ok(said.into()),
                Self::Panic => panic!("planned: {said}"),
                Self::PanicInDrop => {
                    let _last = OnDrop::new(|| panic!("planned: {said}"));
                    Ok(().into())
                }
                Self::Badly | Self::Cancelled | Self::Aborted => Err(JobError::new(said)),
            }
        };
        let spec = JobSpec::run(label, body);
        if self == Self::Aborted { spec.grace(Duration::ZERO) } else { spec }
    }

    /// Makes the job end.
    pub async fn end(self, supervisor: &Supervisor, job: &JobId, gate: &Gate) {
        match self {
            Self::Well | Self::Badly | Self::Panic | Self::PanicInDrop => gate.open(),
            Self::Cancelled | Self::Aborted => drop(supervisor.cancel(job).await.unwrap()),
        }
    }

    /// How its entry reads.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Well => "completed",
            Self::Badly => "error{failed}",
            Self::Panic | Self::PanicInDrop => "error{panic}",
            Self::Cancelled | Self::Aborted => "cancelled{user}",
        }
    }
}

/// Labels and summaries of a result, in its order.
pub fn summaries(result: &CombinedResult) -> Vec<(String, String)> {
    result
        .entries
        .iter()
        .map(|entry| (entry.label.as_deref().unwrap_or_default().to_owned(), entry.summary()))
        .collect()
}

/// The text of an entry's output.
pub fn output(entry: &ResultEntry) -> &str {
    entry.output.as_ref().map_or("", |output| &output.text)
}

/// What a future gives within [`STUCK`].
///
/// # Panics
///
/// Where it takes longer.
#[track_caller]
pub fn soon<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let at = Location::caller();
    async move { tokio::time::timeout(STUCK, future).await.unwrap_or_else(|_| panic!("stuck at {at}")) }
}

/// Polls a future once; nobody is woken.
pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// What a future gives that never waits.
///
/// # Panics
///
/// Where it waits.
#[track_caller]
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    match poll_once(Box::pin(future).as_mut()) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

/// Runs `f` on a thread of its own.
///
/// # Panics
///
/// Where it panics, or is not done within [`STUCK`]: a lock that is never given back does not hang the suite.
#[track_caller]
pub fn not_stuck<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let thread = std::thread::spawn(move || drop(done.send(f())));
    match result.recv_timeout(STUCK) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("stuck for {STUCK:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it sent nothing"))
        }
    }
}

/// A runtime with two workers and a clock of its own.
pub fn two_workers() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

static OURS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Watches for panics of the product itself, on any thread, also those that somebody catches.
///
/// Call it at the start of a test that forces races, and [`assert_no_panic_of_ours`] at its end.
pub fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let ours = |at: &&Location<'_>| {
                // An overflow panics in the standard library, without a place of ours.
                ["supervisor/", "bus/", "protocol/", "/rustc/"].iter().any(|area| at.file().starts_with(area))
            };
            if let Some(at) = panic.location().filter(ours) {
                OURS.lock().unwrap().push(format!("{at}: {}", panic.payload_as_str().unwrap_or_default()));
            }
            before(panic);
        }));
    });
}

/// Checks that the product has not panicked since [`watch_panics`].
#[track_caller]
pub fn assert_no_panic_of_ours() {
    assert_eq!(*OURS.lock().unwrap(), Vec::<String>::new());
}
