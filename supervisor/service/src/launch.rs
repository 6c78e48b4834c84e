//! Calls that launch.

use std::time::Duration;

use fanin_protocol::Fault;
use fanin_protocol::wire::{Answer, Item, LaunchCall, Launched, Told};
use fanin_supervisor::{Group, GroupOptions, JobSpec, Launcher, Returned};

use crate::client::Client;
use crate::convert;
use crate::fault::AsFault;
use crate::held::Held;

/// A launch whose jobs were looked at.
struct Ready {
    launcher: Launcher,
    options: GroupOptions,
    joins_turn: bool,
    specs: Vec<JobSpec>,
}

fn ready(client: &Client, launch: LaunchCall) -> Result<Ready, Fault> {
    client.enter_launch()?;
    client.caller.check_jobs(&launch.jobs)?;
    let launcher = client.caller.launcher(client.supervisor(), launch.session.as_ref())?;
    let specs = launch.jobs.into_iter().enumerate().map(|(index, job)| convert::job(index, job));
    let specs = specs.collect::<Result<Vec<_>, _>>()?;
    let options = GroupOptions { id: launch.group, policy: launch.policy };
    Ok(Ready { launcher, options, joins_turn: launch.joins_turn, specs })
}

/// Launches in the background.
pub(crate) async fn launch(client: &Client, launch: LaunchCall) -> Result<Answer, Fault> {
    let Ready { launcher, options, joins_turn, mut specs } = ready(client, launch)?;
    if joins_turn && specs.len() == 1 && options.id.is_none() {
        let spec = specs.pop().into_iter().next();
        if let Some(spec) = spec {
            let job = launcher.start(spec).await.map_err(|error| error.fault())?;
            return Ok(Answer::Launched(Launched {
                group: job.group().clone(),
                jobs: vec![job.id().clone()],
                lifetimes: vec![job.lifetime()],
                created: job.is_created(),
                spec_differs: job.is_different(),
            }));
        }
    }
    let group: Group = launcher.fan_out_with(options, specs).await.map_err(|error| error.fault())?;
    Ok(Answer::Launched(convert::launched(&group)))
}

/// Launches and waits in the foreground. What exists is told before the wait.
pub(crate) async fn run(
    client: &Client,
    id: u64,
    launch: LaunchCall,
    limit_ms: Option<u64>,
) -> Result<Answer, Fault> {
    let Ready { launcher, options, specs, .. } = ready(client, launch)?;
    let call = launcher.call(options, specs).await.map_err(|error| error.fault())?;
    client.tell(&Told::Item { id, item: Item::Launched(convert::launched(call.group())) }).await?;
    match call.returned(limit_ms.map(Duration::from_millis)).await.map_err(|error| error.fault())? {
        Returned::Over(offered) => {
            let answer = Answer::Group {
                result: offered.result.clone(),
                already_delivered: offered.already_delivered,
            };
            client.holdings.keep(id, Held::Group(offered))?;
            Ok(answer)
        }
        Returned::Backgrounded(why) => {
            Ok(Answer::Background { promoted: why == fanin_supervisor::Backgrounded::Promoted })
        }
    }
}
