//! One parent and what it asks for, again and again.

use std::time::Duration;

use fanin_supervisor::protocol::{JobId, MessageId};
use fanin_supervisor::{
    CallError, Foreground, Group, GroupOptions, JobError, JobSpec, Promotion, Refusal, Session, Supervisor,
};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::{Failure, say};

const MS: Duration = Duration::from_millis(1);

pub(crate) struct Client {
    pub(crate) supervisor: Supervisor,
    pub(crate) session: Session,
    pub(crate) who: usize,
    /// What its commands carry, so that they are found.
    pub(crate) token: String,
}

impl Client {
    /// True where a group `LIFE-WHO-N:JOBS` was asked for by this parent.
    pub(crate) fn asked(&self, ask: &str) -> bool {
        ask.split('-').nth(1) == Some(&self.who.to_string())
    }

    pub(crate) async fn work(&self, name: &str, asked: &[String]) -> Result<(), Failure> {
        for ask in asked {
            let (group, jobs) = ask.split_once(':').ok_or("no GROUP:JOBS")?;
            let specs = (0..jobs.parse()?).map(|k| with_id(group, k, calls(k)));
            let launched =
                self.session.fan_out_with(options(group)?, specs.collect::<Result<Vec<_>, _>>()?).await?;
            let was = if launched.is_created() { "new" } else { "known" };
            say(&format!("again {group} {} {was}", launched.jobs().len()));
        }
        for n in 0u64.. {
            let group = format!("{name}-{n}");
            match (n + self.who as u64) % 6 {
                0 => self.fan_out(&group, n % 6).await?,
                1 => self.cancel(&group, (0..3).map(|k| with_id(&group, k, endless()))).await?,
                2 => {
                    self.cancel(
                        &group,
                        (0u64..).zip(self.commands(name)).map(|(k, spec)| with_id(&group, k, spec)),
                    )
                    .await?
                }
                3 => self.promote(&group).await?,
                4 => self.extend(&group).await?,
                _ => self.foreground(&group).await?,
            }
            let key: MessageId = format!("{group}-words").try_into()?;
            self.session.post("go on", key.clone()).await?;
            say(&format!("posted {key}"));
        }
        Ok(())
    }

    /// Two to seven jobs with a tool call every 5 ms.
    async fn fan_out(&self, group: &str, more: u64) -> Result<(), Failure> {
        let specs: Vec<_> = (0..2 + more).map(|k| with_id(group, k, calls(k))).collect::<Result<_, _>>()?;
        self.launch(group, specs).await?;
        sleep(3 * MS).await;
        Ok(())
    }

    async fn launch(&self, group: &str, specs: Vec<JobSpec>) -> Result<Group, Failure> {
        say(&format!("asks {group} {}", specs.len()));
        let launched = self.session.fan_out_with(options(group)?, specs).await?;
        say(&format!("launched {group} {}", launched.jobs().len()));
        Ok(launched)
    }

    /// Jobs that end by a cancel alone.
    async fn cancel(
        &self,
        group: &str,
        specs: impl Iterator<Item = Result<JobSpec, Failure>>,
    ) -> Result<(), Failure> {
        let launched = self.launch(group, specs.collect::<Result<_, _>>()?).await?;
        sleep(8 * MS).await;
        launched.cancel().await?;
        say(&format!("cancelled {group}"));
        Ok(())
    }

    /// Commands of all kinds that do not end: a plain one, one that leaves its session, one without an environment, a
    /// tree; and in some lives one that does not listen.
    fn commands(&self, name: &str) -> Vec<JobSpec> {
        let mut lines =
            vec!["sleep TOKEN", "setsid sleep TOKEN & sleep TOKEN", "env -i sleep TOKEN & sleep TOKEN"];
        if name.ends_with("50-0") {
            lines.push("trap '' TERM; sleep TOKEN & wait; sleep TOKEN");
        }
        lines.iter().map(|line| JobSpec::shell("line", line.replace("TOKEN", &self.token))).collect()
    }

    /// A foreground call that is sent to the background while it waits.
    async fn promote(&self, group: &str) -> Result<(), Failure> {
        say(&format!("asks {group} 2"));
        let specs: Vec<_> = (1..3).map(|k| with_id(group, k, calls(k))).collect::<Result<_, _>>()?;
        let id = group.to_owned().try_into()?;
        // The launch is at the gate before the promotion: it is polled first.
        let promote = async {
            sleep(4 * MS).await;
            let promotion = self.supervisor.promote_group(&id).await?;
            if promotion == Promotion::Promoted {
                say(&format!("promoted {group}"));
            }
            Ok::<_, Failure>(())
        };
        let (called, promoted) = tokio::join!(self.session.run_with(options(group)?, specs, None), promote);
        promoted?;
        told(group, &called?);
        Ok(())
    }

    /// A foreground call that comes back with its result.
    async fn foreground(&self, group: &str) -> Result<(), Failure> {
        say(&format!("asks {group} 2"));
        let specs: Vec<_> = (0..2).map(|k| with_id(group, k, calls(k))).collect::<Result<_, _>>()?;
        told(group, &self.session.run_with(options(group)?, specs, None).await?);
        Ok(())
    }

    /// A job that gets more to do while it is at work.
    async fn extend(&self, group: &str) -> Result<(), Failure> {
        let (listens, listening) = oneshot::channel();
        let listener = JobSpec::run("listener", |context| async move {
            context.listen();
            // It may be stopped before anybody waits for it.
            let _ = listens.send(());
            while context.next_message().await.is_some() {
                let left = context.last_message().await;
                if left.map_err(|error| JobError::new(error.to_string()))?.is_none() {
                    break;
                }
            }
            Ok("done".into())
        });
        let launched = self.launch(group, vec![with_id(group, 0, listener)?]).await?;
        listening.await?;
        let job = launched.jobs().first().ok_or("it launched none")?;
        match self.supervisor.extend(job, "more").await {
            Ok(queued) => say(&format!("extended {}", queued.key)),
            // Its report that it listens is still on its way.
            Err(CallError::Refused(Refusal::NotAccepted { .. })) => launched.cancel().await?,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn options(group: &str) -> Result<GroupOptions, Failure> {
    Ok(GroupOptions { id: Some(group.to_owned().try_into()?), ..GroupOptions::default() })
}

fn with_id(group: &str, k: u64, spec: JobSpec) -> Result<JobSpec, Failure> {
    Ok(spec.id(JobId::try_from(format!("{group}-{k}"))?))
}

fn told(group: &str, called: &Foreground) {
    match called {
        Foreground::Over(result) => say(&format!("over {group} {}", result.entries.len())),
        Foreground::Backgrounded(launched, _) => {
            say(&format!("backgrounded {group} {}", launched.jobs().len()))
        }
    }
}

/// So many tool calls, one every 5 ms.
fn calls(count: u64) -> JobSpec {
    JobSpec::run("calls", move |context| async move {
        for call in 0..count {
            let call = context.tool(format!("call-{call}"), "shell");
            call.begin();
            sleep(5 * MS).await;
            call.complete();
        }
        Ok("done".into())
    })
}

/// A tool call that only a cancel ends.
fn endless() -> JobSpec {
    JobSpec::run("endless", |context| async move {
        let call = context.tool("call", "shell");
        call.begin();
        context.cancelled().await;
        Ok("stopped".into())
    })
}
