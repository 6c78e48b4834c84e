//! The parent's loop: a turn, then nothing until all that it has launched is over, then the turn that is woken with it. It
//! ends once nothing is to come.

use std::sync::Arc;
use std::time::Duration;

use fanin_acp::{AcpRunner, Conversation, Hosting, Opened};
use fanin_mcp::Parent;
use fanin_protocol::limits::{GATE_PAUSE, GATE_WAIT, PARENT_TRIES, RETRY_GAP};
use fanin_protocol::{Cause, CombinedResult, Fault, GroupId, Hit, Reason, text};
use fanin_supervisor::{
    CallError, Failure, Filter, Offered, Owing, Refusal, Session, Since, StopSignal, StopStage, Supervisor,
    Voice, Wake,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::host::Told as Say;
use super::kept::{Answer, Folder};
use super::warden::Cut;
use super::words::Told;
use crate::drive::DriveError;

/// How often it was told something.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) turns: u32,
    pub(super) wakes: u32,
}

/// What its last turn came to.
#[derive(Debug, Default)]
pub(super) struct Last {
    pub(super) text: String,
    pub(super) fault: Option<Fault>,
    /// A result that it was woken with was not taken.
    pub(super) is_owed: bool,
    /// It was woken as often as it may be.
    pub(super) is_spent: bool,
    /// Nothing is to come, and nothing has cut it short.
    pub(super) is_done: bool,
}

/// A parent at work.
pub(super) struct Hosted<'h> {
    pub(super) hosting: Hosting,
    pub(super) runner: AcpRunner,
    pub(super) objective: &'h str,
    pub(super) parent: &'h Parent,
    pub(super) supervisor: &'h Supervisor,
    pub(super) conversation: Option<Conversation>,
    pub(super) folder: Option<&'h Folder>,
    pub(super) voice: &'h Say,
    pub(super) stop: Arc<StopSignal>,
    pub(super) cut: watch::Receiver<Option<Cut>>,
    pub(super) told: Count,
    /// What it was woken with.
    pub(super) results: Vec<CombinedResult>,
    /// Processes of its agent may still be alive.
    pub(super) is_left: bool,
    /// How often it was woken, once it is not woken any more without a word of its user (W-7).
    pub(super) spent: Option<u32>,
}

/// What it is woken with.
#[derive(Debug, Default)]
pub(super) struct Woken {
    /// Results of what it has launched.
    wakes: Vec<Wake>,
    /// What its watches have seen.
    hits: Vec<Offered<Hit>>,
}

impl Woken {
    const fn is_empty(&self) -> bool {
        self.wakes.is_empty() && self.hits.is_empty()
    }
}

/// What became of one turn.
enum Turned {
    /// It came to its end, with this last message.
    Well(String),
    /// It did not; whether the agent had its prompt.
    Badly(Failure, bool),
}

impl Hosted<'_> {
    fn session(&self) -> &Session {
        self.parent.session()
    }

    fn is_cut(&self) -> bool {
        self.cut.borrow().is_some() || self.spent.is_some()
    }

    /// As [`Hosted::turns`]. Of one that was woken as often as it may be, what is owed to it stays so.
    ///
    /// # Errors
    ///
    /// [`DriveError`].
    pub(super) async fn converse(&mut self, earlier: Option<Option<Answer>>) -> Result<Last, DriveError> {
        let last = self.turns(earlier).await?;
        Ok(match self.spent {
            Some(wakes) => spent(last, wakes),
            None => last,
        })
    }

    /// Turn after turn, until nothing is to come. `earlier` is there of a parent that was interrupted, with what it said
    /// where its last turn had come to its end.
    ///
    /// # Errors
    ///
    /// [`DriveError`], where fanin could not do its part.
    async fn turns(&mut self, earlier: Option<Option<Answer>>) -> Result<Last, DriveError> {
        let mut last = Last::default();
        let is_resumed = earlier.is_some();
        // One that has no session was never asked.
        let mut is_first = self.hosting.session.is_none();
        let mut woken = Woken::default();
        let mut was_interrupted = false;
        if is_resumed {
            was_interrupted = !is_first;
            woken = self.woken().await?;
        }
        if let Some(answer) = earlier.flatten() {
            was_interrupted = false;
            self.told = Count { turns: answer.turns, wakes: answer.wakes };
            woken = self.untold(woken, &answer).await?;
            last.text = answer.text;
            if woken.is_empty() && self.is_done().await? {
                return Ok(Last { is_done: true, ..last });
            }
        }
        let mut tries = 0;
        loop {
            if self.is_cut() {
                return Ok(Last { is_owed: !woken.is_empty(), ..last });
            }
            let mut is_safe = false;
            match self.turn((is_first, was_interrupted), woken).await? {
                Turned::Well(text) => {
                    (last, tries) = (Last { text, ..Last::default() }, 0);
                    (is_first, was_interrupted) = (false, false);
                }
                Turned::Badly(failure, was_asked) => {
                    tries += 1;
                    (is_first, was_interrupted) = (is_first && !was_asked, was_interrupted || was_asked);
                    is_safe = failure.is_safe;
                    last.fault = Some(fault(failure));
                }
            }
            woken = self.woken().await?;
            if self.is_cut() {
                return Ok(last);
            }
            if last.fault.is_some() {
                // What is owed drives it (W-3); what it was never asked can be asked again.
                if tries >= PARENT_TRIES || woken.is_empty() && !(is_first && is_safe) {
                    return Ok(Last { is_owed: !woken.is_empty(), ..last });
                }
                self.pause(RETRY_GAP * 2_u32.saturating_pow(tries - 1)).await;
                continue;
            }
            while woken.is_empty() {
                if self.is_done().await? {
                    return Ok(Last { is_done: !self.is_cut(), ..last });
                }
                // A call that was still open has launched something since.
                woken = self.woken().await?;
                if self.is_cut() {
                    return Ok(last);
                }
            }
        }
    }

    /// Takes what a turn that came to its end was woken with: it is not told again. Gives the rest.
    async fn untold(&mut self, woken: Woken, answer: &Answer) -> Result<Woken, DriveError> {
        let mut rest = Woken::default();
        for wake in woken.wakes {
            if answer.taken.contains(&wake.result().group) {
                self.take(wake).await?;
            } else {
                rest.wakes.push(wake);
            }
        }
        for hit in woken.hits {
            if answer.fired.contains(&(hit.lifetime, hit.number)) {
                hit.ack().await?;
            } else {
                rest.hits.push(hit);
            }
        }
        Ok(rest)
    }

    /// Waits, unless it is cut short.
    async fn pause(&self, gap: Duration) {
        tokio::select! {
            () = sleep(gap) => {}
            () = self.stop.reached(StopStage::Polite) => {}
        }
    }

    /// One turn: it is given what it is woken with, and has taken that once it has answered.
    async fn turn(
        &mut self,
        (is_first, was_interrupted): (bool, bool),
        woken: Woken,
    ) -> Result<Turned, DriveError> {
        if let Some(folder) = self.folder {
            folder.unanswered().map_err(DriveError::Folder)?;
        }
        let turn = match self.session().turn().await {
            Ok(turn) => turn,
            // It was cut short meanwhile.
            Err(CallError::Refused(Refusal::Draining)) => {
                let failure = Failure::new(Cause::Failed, None, "it was stopped before its turn");
                return Ok(Turned::Badly(failure, false));
            }
            Err(error) => return Err(error.into()),
        };
        let opened = match self.begin(turn.voice()).await {
            Ok(opened) => opened,
            Err(failure) => {
                drop(woken);
                turn.fail(failure.message.as_str()).await?;
                return Ok(Turned::Badly(failure, false));
            }
        };
        self.told.turns += 1;
        self.told.wakes += u32::from(!woken.is_empty());
        let results = woken.wakes.iter().map(Wake::result).collect();
        let hits = woken.hits.iter().map(|hit| &**hit).collect();
        // Nobody whose text is framed can know it.
        let (nonce, _) = uuid::Uuid::new_v4().as_u64_pair();
        let prompt = Told { objective: self.objective, results, hits, nonce, was_interrupted, is_first }
            .prompt(opened);
        let Some(conversation) = &mut self.conversation else {
            return Ok(Turned::Badly(Failure::new(Cause::Failed, None, "no conversation"), false));
        };
        self.parent.begin_turn();
        let answered = conversation.prompt(prompt).await;
        self.parent.end_turn();
        if let Some(failure) = answered.failure {
            // Given back: they come again.
            drop(woken);
            if !answered.is_answered {
                // It may be at work on it for ever, or gone.
                self.leave().await;
            }
            turn.fail(failure.message.as_str()).await?;
            return Ok(Turned::Badly(failure, true));
        }
        let text = answered.output.map(|output| output.text().into_owned()).unwrap_or_default();
        if let Some(folder) = self.folder {
            let taken: Vec<GroupId> = woken.wakes.iter().map(|wake| wake.result().group.clone()).collect();
            let fired = woken.hits.iter().map(|hit| (hit.lifetime, hit.number)).collect();
            let Count { turns, wakes } = self.told;
            let answer = Answer { text: text.clone(), taken, fired, turns, wakes };
            folder.answer(&answer).map_err(DriveError::Folder)?;
        }
        for wake in woken.wakes {
            self.take(wake).await?;
        }
        for hit in woken.hits {
            hit.ack().await?;
        }
        turn.end().await?;
        Ok(Turned::Well(text))
    }

    async fn take(&mut self, wake: Wake) -> Result<(), DriveError> {
        let result = wake.ack().await?;
        self.results.push((*result).clone());
        Ok(())
    }

    /// Begins a turn of the agent, which is started where it does not run.
    async fn begin(&mut self, turn: Voice) -> Result<Opened, Failure> {
        let conversation = match self.conversation.take() {
            Some(conversation) => conversation,
            None => self.runner.host(self.hosting.clone(), &turn).await?,
        };
        let conversation = self.conversation.insert(conversation);
        let opened = conversation.begin(turn).await;
        match conversation.session() {
            Some(session) => self.hosting.session = Some(session.to_owned()),
            // Whatever keeps it from that: the next one begins anew.
            None => self.leave().await,
        }
        opened
    }

    /// Ends the agent's program. The next turn starts it again, and goes on with its session.
    pub(super) async fn leave(&mut self) {
        if let Some(conversation) = self.conversation.take() {
            self.is_left |= conversation.end().await.is_some();
        }
    }

    /// Waits until nothing that it has launched is left, and holds all results that are owed to it; or until a watch has
    /// fired, and holds that alone where its jobs still run. Empty where it is cut short.
    async fn woken(&mut self) -> Result<Woken, DriveError> {
        let changes =
            Filter::session(self.session().id()).kinds(["job.ended", "message.posted", "message.taken"]);
        // Before the first look: what changes since then is seen.
        let mut changes = self.supervisor.subscribe(changes, Since::Now).await?;
        let (mut held, mut is_told, mut is_late) = (Woken::default(), false, false);
        loop {
            let Owing { jobs, groups, hits, autonomy } = patiently(|| self.session().owing()).await?;
            let has_hits = hits <= held.hits.len();
            if has_hits && jobs.is_empty() && groups.len() <= held.wakes.len() {
                let place = |wake: &Wake| groups.iter().position(|group| *group == wake.result().group);
                held.wakes.sort_by_key(place);
                held.wakes.iter().for_each(|wake| self.voice.say(&format!("woken: {}", over(wake.result()))));
                held.hits.iter().for_each(|hit| self.voice.say(&format!("woken: {}", **hit)));
                return Ok(held);
            }
            if has_hits && !jobs.is_empty() && !held.hits.is_empty() {
                held.hits.iter().for_each(|hit| self.voice.say(&format!("woken: {}", **hit)));
                // The results come together, once all of them are there.
                return Ok(Woken { wakes: Vec::new(), ..held });
            }
            match autonomy {
                Some(Reason::Autonomy { wakes, not_before_ms: None }) if jobs.is_empty() => {
                    self.spent = Some(wakes);
                    return Ok(Woken::default());
                }
                Some(reason @ Reason::Autonomy { not_before_ms: Some(_), .. }) if !is_late => {
                    is_late = true;
                    self.voice.say(&reason.to_string());
                }
                Some(_) | None => {}
            }
            if !jobs.is_empty() && !is_told {
                is_told = true;
                let jobs =
                    if jobs.len() == 1 { "1 job is".to_owned() } else { format!("{} jobs are", jobs.len()) };
                self.voice.say(&format!("its turn is over; it is woken when {jobs} over"));
            }
            tokio::select! {
                biased;
                () = self.stop.reached(StopStage::Polite) => return Ok(Woken::default()),
                hit = self.session().next_hit() => held.hits.push(hit?),
                wake = self.session().next_wake() => held.wakes.push(wake?),
                _ = changes.next() => {}
            }
        }
    }

    /// True where nothing is to come, and nothing is launched any more.
    async fn is_done(&self) -> Result<bool, DriveError> {
        let until = Instant::now() + GATE_WAIT;
        loop {
            match self.parent.close_when_done().await {
                Err(CallError::Busy) if Instant::now() < until => sleep(GATE_PAUSE).await,
                done => return Ok(done?),
            }
        }
    }
}

/// The end of one that was woken so often. What is owed to it stays so.
fn spent(last: Last, wakes: u32) -> Last {
    let message =
        format!("it was woken {wakes} times without a word of its user, and is not woken again by itself");
    let fault = Fault { code: "autonomy".to_owned(), message, hint: None, retryable: true };
    Last { fault: Some(fault), is_owed: true, is_spent: true, ..last }
}

fn fault(failure: Failure) -> Fault {
    let code = failure.code.map_or_else(|| failure.cause.to_string(), |code| code.to_string());
    Fault { code, message: failure.message, hint: None, retryable: failure.is_safe }
}

/// A group that is over, in a few words.
fn over(result: &CombinedResult) -> String {
    let counts = result.counts;
    format!(
        "{} of {} completed, in {}",
        counts.completed,
        counts.launched,
        text::duration(result.duration_ms)
    )
}

/// Looks, and again while the supervisor is busy.
pub(super) async fn patiently<T>(look: impl Fn() -> Result<T, CallError>) -> Result<T, DriveError> {
    let until = Instant::now() + GATE_WAIT;
    loop {
        match look() {
            Err(CallError::Busy) if Instant::now() < until => sleep(GATE_PAUSE).await,
            looked => return Ok(looked?),
        }
    }
}
