//! A watch: a condition that is looked at again and again, one look after the other. What a look means is the rule's to
//! say; this file looks, fires what is due, and ends in time. It waits for nothing without a limit but what it watches.

mod host;
mod lines;
mod rule;

use std::path::Path;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fanin_protocol::limits::{GATE_PAUSE, WATCH_CHECK, WATCH_EVERY};
use fanin_protocol::{Cause, Code, CommandSpec, JobId, Left, WatchSpec, Watched, text};
use fanin_supervisor::{Bound, CallError, Ending, JobOutput, OutputError, Refusal, RunContext, StopStage};
use tokio::time::{Instant, sleep, sleep_until};

use crate::run;
use host::{CheckHost, LinesHost};
use lines::Lines;
use rule::{Check, Rule};

/// Between the polite stop of what a watch runs and the forced one: it looks, and has nothing to save.
const GRACE: Duration = Duration::from_secs(2);

/// Looks at a spec before there is a watch.
///
/// # Errors
///
/// What is wrong with its pattern.
pub(crate) fn check(spec: &WatchSpec) -> Result<(), String> {
    Rule::new(spec).map(drop)
}

/// Runs a watch until it has fired as often as it may, what it watches is over, or it is stopped. `command` is its own,
/// with what marks it as part of the run.
///
/// # Cancel safety
///
/// As [`run::run`]: dropped, nothing of what it runs is left.
pub(crate) async fn run(
    spec: &WatchSpec,
    command: Option<&CommandSpec>,
    shim: Option<&Path>,
    context: &RunContext,
) -> Ending {
    let rule = match Rule::new(spec) {
        Ok(rule) => rule,
        Err(why) => return Ending::failed(Cause::Spawn, None, why),
    };
    let watch = Watch { context, rule: Mutex::new(rule) };
    // One that was interrupted behind its last firing has nothing left to do.
    if context.firings().is_ok_and(|firings| firings.is_some_and(|firings| firings.left() == 0)) {
        return spent();
    }
    match (&spec.of, command) {
        (Watched::Checks { every_ms, check_ms, .. }, Some(command)) => {
            let every = every_ms.map_or(WATCH_EVERY, Duration::from_millis);
            let limit = check_ms.map_or(WATCH_CHECK, Duration::from_millis);
            watch.checks(command, (every, limit), shim).await
        }
        (Watched::Lines { .. }, Some(command)) => watch.lines(command, shim).await,
        (Watched::Output { job }, _) => watch.output(job).await,
        (Watched::Checks { .. } | Watched::Lines { .. }, None) => {
            Ending::failed(Cause::Spawn, None, "there is no command to look with")
        }
    }
}

/// The next time to look: on the beat of the first look, and later than now. What was missed is not made up.
fn next_look(last: Instant, every: Duration, now: Instant) -> Instant {
    let every = every.max(Duration::from_millis(1));
    let late = now.saturating_duration_since(last);
    let missed = u32::try_from(late.as_nanos() / every.as_nanos()).unwrap_or(u32::MAX);
    last + every.saturating_mul(missed.saturating_add(1))
}

fn spent() -> Ending {
    Ending::completed(JobOutput::whole("it has fired as often as it may\n"))
}

fn stopped() -> Ending {
    Ending::failed(Cause::Failed, None, "stopped while it was watching")
}

struct Watch<'c> {
    context: &'c RunContext,
    rule: Mutex<Rule>,
}

impl Watch<'_> {
    fn rule(&self) -> MutexGuard<'_, Rule> {
        self.rule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fires what is due by now; an ending where nothing is left to do.
    async fn fire_due(&self) -> Option<Ending> {
        let now = Instant::now();
        let seen = {
            let rule = self.rule();
            rule.due(now).filter(|due| *due <= now).map(|_| rule.text())?
        };
        let line = text::one_line(seen.lines().next().unwrap_or_default());
        match self.context.fire(seen).await {
            Ok(left) => {
                self.rule().fired(Instant::now());
                self.context.write(format!("fired, {left} left: {line}\n"));
                (left == 0).then(spent)
            }
            // Nothing is lost: it is told with what comes until then.
            Err(CallError::Busy | CallError::Refused(Refusal::InboxFull { .. })) => {
                self.rule().defer(Instant::now());
                None
            }
            Err(error) => Some(Ending::failed(Cause::Failed, None, error.to_string())),
        }
    }

    /// What was watched is over: fires what is left, whenever it fired last.
    async fn finish(&self) -> Option<Ending> {
        self.rule().hurry();
        loop {
            if let Some(over) = self.fire_due().await {
                return Some(over);
            }
            let due = self.rule().due(Instant::now())?;
            tokio::select! {
                biased;
                () = self.context.cancelled() => return Some(stopped()),
                () = sleep_until(due) => {}
            }
        }
    }

    /// Fires what comes due until then.
    async fn until(&self, at: Instant) -> Option<Ending> {
        loop {
            if let Some(over) = self.fire_due().await {
                return Some(over);
            }
            let due = self.rule().due(Instant::now()).filter(|due| *due < at);
            tokio::select! {
                biased;
                () = self.context.cancelled() => return Some(stopped()),
                () = sleep_until(due.unwrap_or(at)) => {}
            }
            // Without one it is the time itself that has come.
            due?;
        }
    }

    /// One check after the other.
    async fn checks(
        &self,
        command: &CommandSpec,
        (every, limit): (Duration, Duration),
        shim: Option<&Path>,
    ) -> Ending {
        let mut at = Instant::now();
        let mut is_first = true;
        loop {
            self.context.beat();
            let (check, left) = self.look(command, (limit, is_first), shim).await;
            is_first = false;
            if self.context.is_cancelled() {
                return Ending { left, ..stopped() };
            }
            if let Some(left) = left.filter(Left::is_unreaped) {
                let why = "a check left something that may still be alive";
                return Ending { left: Some(left), ..Ending::failed(Cause::Failed, Some(Code::Os), why) };
            }
            if let Check::Bad(why) = &check {
                self.context.write(format!("bad check: {}\n", text::one_line(why)));
            }
            let looked = self.rule().check(check);
            if let Err(why) = looked {
                return Ending::failed(Cause::Failed, Some(Code::CheckFailed), why);
            }
            at = next_look(at, every, Instant::now());
            if let Some(over) = self.until(at).await {
                return over;
            }
        }
    }

    /// One check, which ends in time.
    async fn look(
        &self,
        command: &CommandSpec,
        (limit, is_first): (Duration, bool),
        shim: Option<&Path>,
    ) -> (Check, Option<Left>) {
        let host = CheckHost::new(self.context, is_first);
        let mut ended = pin!(run::run(command, shim, &host));
        let mut is_late = false;
        let mut due = Instant::now() + limit;
        let ending = loop {
            tokio::select! {
                biased;
                ending = &mut ended => break ending,
                () = sleep_until(due), if host.stop.stage() < StopStage::Forced => {
                    let stage = if is_late { StopStage::Forced } else { StopStage::Polite };
                    host.stop.raise(stage);
                    (is_late, due) = (true, Instant::now() + GRACE);
                }
            }
        };
        let check = if is_late {
            let limit = text::duration(fanin_protocol::spec::millis(limit));
            Check::Bad(format!("it took longer than {limit} and was stopped"))
        } else {
            Check::of(&ending, command, host.output())
        };
        (check, ending.left)
    }

    /// The lines of a command that goes on.
    async fn lines(&self, command: &CommandSpec, shim: Option<&Path>) -> Ending {
        let host = LinesHost::new(self.context, |line| self.rule().line(line));
        let mut ended = pin!(run::run(command, shim, &host));
        let mut over: Option<Ending> = None;
        let mut force_at: Option<Instant> = None;
        loop {
            if over.is_none() {
                over = self.fire_due().await;
                if over.is_some() {
                    host.stop.raise(StopStage::Polite);
                    force_at = Some(Instant::now() + GRACE);
                }
            }
            let due = if over.is_none() { self.rule().due(Instant::now()) } else { force_at };
            tokio::select! {
                biased;
                ending = &mut ended => {
                    host.finish();
                    let left = ending.left.clone();
                    if over.is_none() && !self.context.is_cancelled() {
                        over = self.finish().await;
                    }
                    return over.map_or(ending, |over| Ending { left, ..over });
                }
                () = host.more.notified(), if over.is_none() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    if over.is_some() {
                        host.stop.raise(StopStage::Forced);
                        force_at = None;
                    }
                }
            }
        }
    }

    /// The lines of another job, from its first one on.
    async fn output(&self, job: &JobId) -> Ending {
        self.context.bound(Bound::default());
        let mut follow = match self.context.follow(job) {
            Ok(follow) => follow,
            Err(error) => return Ending::failed(Cause::Failed, None, error.to_string()),
        };
        let mut lines = Lines::default();
        let mut run = 0;
        loop {
            if let Some(over) = self.fire_due().await {
                return over;
            }
            let due = self.rule().due(Instant::now());
            tokio::select! {
                biased;
                () = self.context.cancelled() => return stopped(),
                page = follow.next_page() => match page {
                    Ok(Some(page)) => {
                        if page.run != run {
                            // Another try begins with a line of its own.
                            lines.finish(|line| self.rule().line(line));
                            run = page.run;
                        }
                        if let Some(dropped) = page.dropped {
                            self.rule().missed(dropped.end - dropped.start);
                        }
                        lines.feed(&page.bytes, |line| self.rule().line(line));
                    }
                    Ok(None) => {
                        lines.finish(|line| self.rule().line(line));
                        let over = format!("{job} is over, and there is nothing left to watch\n");
                        return self.finish().await.unwrap_or_else(|| Ending::completed(JobOutput::whole(over)));
                    }
                    Err(OutputError::Call(CallError::Busy)) => sleep(GATE_PAUSE).await,
                    Err(error) => return Ending::failed(Cause::Failed, None, error.to_string()),
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_stay_on_their_beat_and_none_is_made_up() {
        let begin = Instant::now();
        let ms = Duration::from_millis;
        for (late, next) in [(0, 10), (9, 10), (10, 20), (11, 20), (59, 60), (60, 70)] {
            assert_eq!(next_look(begin, ms(10), begin + ms(late)), begin + ms(next), "{late}");
        }
        assert!(next_look(begin, Duration::ZERO, begin) > begin);
    }
}
