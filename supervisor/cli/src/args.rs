//! The command line: its words, its help, and nothing else. What the words mean together is decided in `plan`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use fanin_protocol::JobLimits;
use fanin_protocol::limits::GROUP_MEMBERS_MAX;

use crate::ask::Ask;
use crate::budget;
use crate::config::show::ConfigCommand;
use crate::demo;
use crate::doctor::DoctorArgs;
use crate::duration;
use crate::exec::ExecArgs;
use crate::init::InitArgs;
use crate::log::LogArgs;
use crate::look::Look;
use crate::lookout::WatchArgs;
use crate::mcp::McpArgs;
use crate::plan::FailOn;
use crate::resume::ResumeArgs;
use crate::serve::ServeArgs;
use crate::status::StatusArgs;
use crate::team::TeamArgs;
use crate::wait::WaitArgs;

/// Headings of the help.
const WORK: &str = "What to run";
const HOW: &str = "How it runs";
const SHOWN: &str = "What is shown";
const LEFT: &str = "What is left behind";

const EXAMPLES: &str = "\
Examples:
  fanin run 'cargo check' 'cargo test' 'cargo doc'
      three shell lines at once, one result
  fanin run --fail-fast --timeout 5m --task lint='npm run lint' --task test='npm test'
      named tasks; the first that fails stops the others; none runs longer than five minutes
  git ls-files '*.sh' | fanin run --concurrency 4 --each 'shellcheck -- {}'
      one task for each line of input, four at a time
  fanin run examples/survey.toml
      the tasks of a manifest
  fanin run -f ci.toml --json --quiet | jq .counts
      the result as one JSON document
  fanin run -f ci.toml --junit report.xml --on-done 'curl -sf --data-binary @- \"$HOOK\"'
      a report for a server of CI, and the result sent on
  fanin run --again 3f2a
      what did not complete in the run whose id begins so";

const MCP: &str = "\
An agent starts it by itself. In its configuration:
  opencode      { \"mcp\": { \"fanin\": { \"type\": \"local\", \"command\": [\"fanin\", \"mcp\"], \"enabled\": true } } }
  Claude Code   claude mcp add fanin -- fanin mcp
  Codex         [mcp_servers.fanin] with command = \"fanin\" and args = [\"mcp\"]
It ends with its agent, within two seconds, and stops the jobs that it has launched. docs/mcp.md has the contract.";

const EXEC: &str = "\
Examples:
  fanin exec --agent opencode --rights edit 'Review each crate with a worker of its own; then write REVIEW.md'
  fanin exec -a claude --timeout 30m --json 'Find the flaky test' | jq -r .text

The agent gets the tools of `fanin mcp` by itself. What it launches in the background goes on when its turn is over; when
all of it is over the agent is woken with one prompt. fanin ends once nothing is to come, and prints the last message of
the agent's last turn. After a kill -9: fanin resume.

Exit codes: 0 done; 1 the closing turn failed; 2 wrong command line; 3 --timeout ended it; 70 fanin failed, or a process may
still be alive; 75 it is at work elsewhere; 130 or 143 a signal ended it. docs/exec.md has more.";

const SERVE: &str = "\
It owns the store in the state folder and says on one line of standard output when it is ready. Clients find its socket by
the file `socket` in that store. docs/protocol.md is what they speak, docs/service.md how it is run by systemd.

TERM or INT once: nothing new starts, and what runs may finish. Twice: it is stopped. A third time: killed. A hang-up
changes nothing. What is queued then, or may be started again, goes on with the next `fanin serve`.

Exit codes: 0 done; 2 wrong command line; 70 fanin failed; 75 another process owns the store.";

const WATCH: &str = "\
Examples:
  fanin watch --every 5s 'curl -sf localhost:8080/health' && ./deploy
      goes on once the check succeeds
  fanin watch --match 'ERROR|panicked' --times 5 --for 8h -- tail -n 0 -F app.log
      says up to five times what was seen, at most every ten seconds
  fanin watch --changes --every 5m 'git ls-remote origin main'
      says when the output is another one

It fires where the condition comes true, and not again while it stays so. Two checks are never at work at once, and one
that was missed is not made up. What it has seen goes to standard output.

Exit codes: 0 it fired as often as it should; 1 it did not, since --for was over or checks could not be made; 2 wrong command
line; 70 fanin failed; 130 or 143 a signal ended it. docs/watch.md has more.";
const TEAM: &str = "\
Examples, in the command of a task:
  fanin team send report \"$(wc -l < findings)\"
      text for the task `report`; it never waits
  while mail=$(fanin team recv --from search); do [ \"$mail\" = end ] && break; echo \"$mail\"; done
      all that `search` sends, up to the word that both have agreed on

Exit codes: 0 sent or received; 1 refused, or no mail came in time; 2 wrong command line, or not inside of a job with mail;
70 the supervisor is gone; 75 try again, as where a mailbox is full. The exact code is on standard error. Mail is in memory,
goes one way, and is lost with the task that it is for. docs/mail.md has the contract.";

const RULES: &str = "\
A single argument that ends in .toml is a manifest, and so is the value of --file; any other argument is a shell line.
To run a command that ends in .toml alone, name it: --task show='cat Cargo.toml'.

With --each, {} is the line as one argument, whatever it holds, outside quotes or inside double quotes; a template that
is one simple command and has no {} gets it as its last argument. The line is in $FANIN_LINE, too: a template that names
it and has no {} is taken as it is. Beside \\, $(...), ${...}, backquotes, # or << {} is refused: write \"$FANIN_LINE\".
The shell that fanin starts never reads the line as code; a command that starts a shell of its own may (sh -c \"... {}\",
ssh, eval). Write -- before {} where a line may begin with a dash: --each 'wc -l -- {}'. Empty lines are skipped.

A run is kept in $FANIN_STATE_DIR, else state_dir of your fanin.toml, else $XDG_STATE_HOME/fanin, else
~/.local/state/fanin, readable for you alone: its plan with the variables given here before the first task starts, its result at the end; the newest 100, for 14 days. Where
something did not complete, the last line on standard error is the command that runs it again. What completed is not run
again; it is carried into the new result as it was. Tasks run where they ran, with the environment of now.

Progress goes to standard error, the result to standard output. Tasks have no standard input. People see every task.
The document of --json is bounded: at most 32 KiB of output of a task and 256 KiB of all; above 1,000 tasks it lists
only tasks that did not complete, at most 1,000, and `entries_omitted` counts the others (docs/result.md).

Ctrl-C (or TERM) once: nothing new starts, running tasks may finish. Twice: they are stopped. A third time: killed.
A hang-up (HUP) stops at once. HUP or INT stays ignored where it was when fanin started, as nohup does it (on Linux).

In a step of GitHub Actions (GITHUB_ACTIONS=true) each output is a group of the log, failed tasks are annotations, and the
step gets a summary; commands in the output of tasks are not obeyed. The command of --on-done has the result as JSON on
its standard input and FANIN_OUTCOME, FANIN_GROUP, FANIN_EXIT_CODE, FANIN_LAUNCHED, FANIN_COMPLETED, FANIN_FAILED and
FANIN_CANCELLED; it has 60 seconds, 5 after a signal, and its failure changes no exit code. A terminal is told of the end
of a run of more than ten seconds. A run inside a task of another run has slots of its own, is at most 8
deep, stops at the first TERM, and tells neither terminal nor GitHub. More of all this is in docs/run.md.

Exit codes: 0 done; 1 some tasks did not complete (see --fail-on); 2 wrong command line or manifest, nothing was
started; 3 the manifest's deadline ended the run; 70 fanin failed, or a process may still be alive; 75 the run of --again
is still at work; 130 or 143 a signal (INT, HUP or TERM) ended tasks. The code tells of the tasks alone: that standard output is closed, or that its
reader is gone, does not change it.";

const WAIT: &str = "\
Examples:
  fanin wait 3f2a --timeout 10m || echo 'not done, or not well'
      the run whose id begins so: its result as `fanin run` prints it, with the same exit code
  fanin wait job_51c0 job_77aa --any
      until one of two jobs is over

It only looks on: Ctrl-C or a limit that has passed ends the wait, and the jobs go on.

Exit codes: those of `fanin run`; of several the gravest. 3 is also a --timeout that has passed (wait_timed_out).";

/// The program's words.
#[derive(Debug, clap::Parser)]
#[command(name = "fanin", version, after_help = EXAMPLES)]
#[command(about = "Run many commands at once, get one result.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Run commands side by side and print ONE combined result, in the order given
    #[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{RULES}"))]
    Run(Box<RunArgs>),
    /// Give an agent an objective and the tools to launch jobs: it is woken ONCE when they are over
    #[command(after_help = EXEC)]
    Exec(Box<ExecArgs>),
    /// Look again and again, and say when a condition comes true: a check that succeeds, output that changes, a line that
    /// matches
    #[command(after_help = WATCH)]
    Watch(Box<WatchArgs>),
    /// Go on with a run whose fanin died, and print its result
    Resume(ResumeArgs),
    /// Serve an agent over MCP on standard input and output: it launches jobs, and is told once when they are over
    #[command(after_help = MCP)]
    Mcp(McpArgs),
    /// Serve all: jobs that outlive their terminal, for clients over a socket
    #[command(after_help = SERVE)]
    Serve(ServeArgs),
    /// Send mail to another task of the group, or receive it; for commands that fanin runs
    #[command(after_help = TEAM)]
    Team(TeamArgs),
    /// Wait until runs or jobs of `fanin serve` are over, and print what came of them
    #[command(after_help = WAIT)]
    Wait(WaitArgs),
    #[command(flatten)]
    Ask(Ask),
    /// Say which agents are there and answer
    Doctor(DoctorArgs),
    /// Five fake agents, a kill -9, and one wake: what fanin is for, in two seconds
    Demo {
        /// Which part of it this process plays
        #[arg(hide = true)]
        part: Vec<String>,
    },
    #[command(flatten)]
    Look(Look),
    /// Say what is at work and what is owed, in one line
    Status(StatusArgs),
    /// Write a commented fanin.toml and an example of a manifest, beside what is there
    Init(InitArgs),
    /// Show what is configured, and where
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a script that completes the words of fanin in a shell
    Completions {
        /// bash, elvish, fish, powershell or zsh
        shell: clap_complete::Shell,
    },
}

/// The words of `fanin run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Shell lines, or one manifest whose name ends in .toml
    #[arg(value_name = "COMMAND|MANIFEST.toml")]
    pub(crate) lines: Vec<String>,

    /// A named task: a shell line under a name (repeatable, mixes with plain shell lines)
    #[arg(long = "task", value_name = "NAME=COMMAND", help_heading = WORK)]
    pub(crate) tasks: Vec<String>,

    /// One task for each line of standard input; {} stands for the line as one argument
    #[arg(long, value_name = "COMMAND {}", conflicts_with_all = ["lines", "tasks", "file"], help_heading = WORK)]
    pub(crate) each: Option<String>,

    /// A manifest, whatever its name
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["lines", "tasks"], help_heading = WORK)]
    pub(crate) file: Option<PathBuf>,

    /// Run again what did not complete in an earlier run: its group's id, or 4 hex digits or more of it
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["lines", "tasks", "file", "each", "cwd"], help_heading = WORK)]
    pub(crate) again: Option<String>,

    #[command(flatten)]
    pub(crate) flags: Flags,

    /// No progress on standard error, only the result
    #[arg(short, long, help_heading = SHOWN)]
    pub(crate) quiet: bool,

    /// The result as one JSON document (fanin.result/1) on standard output
    #[arg(long, help_heading = SHOWN)]
    pub(crate) json: bool,

    /// The result as a JUnit report in this file, beside what is shown
    #[arg(long, value_name = "FILE", help_heading = LEFT)]
    pub(crate) junit: Option<PathBuf>,

    /// A shell line to be run once when all is over, with the result on its standard input
    #[arg(long, value_name = "COMMAND", help_heading = LEFT)]
    pub(crate) on_done: Option<String>,

    /// A notice on the terminal when this is over, however short it was [default: after 10s]
    #[arg(long, overrides_with = "no_notify", help_heading = SHOWN)]
    pub(crate) notify: bool,

    /// No notice on the terminal when this is over
    #[arg(long, overrides_with = "notify", help_heading = SHOWN)]
    pub(crate) no_notify: bool,

    /// No groups, annotations and summary, though this is a step of GitHub Actions
    #[arg(long, help_heading = LEFT)]
    pub(crate) no_github: bool,

    /// Let `fanin serve` run it, and say its id: it outlives this terminal; `fanin wait` has the result
    #[arg(short = 'D', long, help_heading = HOW, conflicts_with_all = ["again", "junit", "on_done", "notify", "no_keep", "no_store"])]
    pub(crate) detach: bool,

    /// With --detach: the id of the run; one that was launched before is not launched again
    #[arg(long, value_name = "ID", requires = "detach", help_heading = HOW)]
    pub(crate) key: Option<String>,

    /// Keep nothing of this run in the state folder; it cannot be run again then
    #[arg(long, help_heading = LEFT)]
    pub(crate) no_keep: bool,

    /// Keep the run's records and results in memory alone: after a crash nothing of them is left
    #[arg(long, help_heading = LEFT)]
    pub(crate) no_store: bool,

    /// After a first Ctrl-C: how long running tasks may go on [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = HOW)]
    pub(crate) drain: Option<Duration>,
}

/// The words that a manifest can say as well. A flag wins over the manifest.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Flags {
    /// Tasks that run at the same time [default: 10]
    #[arg(short, long, value_name = "N", value_parser = concurrency, allow_negative_numbers = true, help_heading = HOW)]
    pub(crate) concurrency: Option<usize>,

    /// How long each task may run: 500ms, 30s, 5m, 2h
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse_limit, help_heading = HOW)]
    pub(crate) timeout: Option<Duration>,

    /// Stop the others once a task did not complete
    #[arg(long, help_heading = HOW)]
    pub(crate) fail_fast: bool,

    /// What makes exit code 1: `partial`, any task that did not complete; `none-ok`, only if none completed
    /// [default: partial, but a manifest's `release` that was reached is enough]
    #[arg(long, value_name = "WHEN", value_parser = fail_on, help_heading = HOW)]
    pub(crate) fail_on: Option<FailOn>,

    /// What all tasks together may use: usd, tokens, steps, time, and the estimate of one start
    #[arg(long, value_name = "usd=N,...", value_parser = budget::parse, help_heading = HOW)]
    pub(crate) budget: Option<JobLimits>,

    /// Folder of all tasks that a manifest gives no folder of their own
    #[arg(short = 'C', long, value_name = "DIR", help_heading = HOW)]
    pub(crate) cwd: Option<PathBuf>,

    /// A variable for all tasks, beside the present environment (repeatable)
    #[arg(short, long = "env", value_name = "NAME=VALUE", value_parser = variable, help_heading = HOW)]
    pub(crate) env: Vec<(String, String)>,
}

impl Flags {
    /// The variables by name; the last of a name wins.
    pub(crate) fn variables(&self) -> BTreeMap<String, String> {
        self.env.iter().cloned().collect()
    }
}

/// A shell line of the command line, in the order they were typed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inline {
    /// A line alone.
    Line(String),
    /// `NAME=COMMAND`.
    Task(String),
}

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A run, with its shell lines in the order they were typed.
    Run(Box<RunArgs>, Vec<Inline>),
    /// To host a parent.
    Exec(Box<ExecArgs>),
    /// To look until something is seen.
    Watch(Box<WatchArgs>),
    /// To go on with one.
    Resume(ResumeArgs),
    /// To look at stores.
    Look(Look),
    /// To serve an agent.
    Mcp(McpArgs),
    /// To serve clients.
    Serve(ServeArgs),
    /// Mail of the job around it.
    Team(TeamArgs),
    /// To wait for what is served.
    Wait(WaitArgs),
    /// Something of what is served.
    Ask(Ask),
    /// Which agents are there.
    Doctor(DoctorArgs),
    /// The demo, or a part of it.
    Demo(Vec<String>),
    /// What there is to do, in a line.
    Status(StatusArgs),
    /// Files to begin with.
    Init(InitArgs),
    /// What is configured.
    Config(ConfigCommand),
    /// A script for a shell.
    Completions(clap_complete::Shell),
}

/// A command line that was read.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) asked: Asked,
    pub(crate) log: LogArgs,
}

impl Asked {
    /// True where it goes by what is configured, and so not without knowing that.
    pub(crate) const fn is_configured(&self) -> bool {
        match self {
            Self::Run(..) | Self::Exec(_) | Self::Resume(_) | Self::Serve(_) | Self::Look(_) => true,
            Self::Doctor(_) => true,
            Self::Status(_) | Self::Config(_) | Self::Wait(_) | Self::Ask(_) => true,
            // A server says it with its first launch, where its agent hears it.
            Self::Mcp(_) | Self::Watch(_) | Self::Team(_) => false,
            Self::Demo(_) | Self::Init(_) | Self::Completions(_) => false,
        }
    }

    /// True where it asks for documents.
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Run(args, _) => args.json,
            Self::Exec(args) => args.json,
            Self::Watch(args) => args.json,
            Self::Resume(args) => args.json,
            Self::Look(look) => look.is_json(),
            Self::Doctor(args) => args.json,
            Self::Status(args) => args.json,
            Self::Team(args) => args.is_json(),
            Self::Wait(args) => args.json,
            Self::Config(ConfigCommand::Show(args)) => args.json,
            Self::Mcp(_) | Self::Serve(_) | Self::Demo(_) | Self::Init(_) | Self::Completions(_) => false,
            Self::Ask(_) => false,
        }
    }
}

/// The definition of all words, for whoever completes them.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
impl Asked {
    /// The run that it is.
    pub(crate) fn run(self) -> (RunArgs, Vec<Inline>) {
        match self {
            Self::Run(args, inline) => (*args, inline),
            Self::Exec(_)
            | Self::Watch(_)
            | Self::Resume(_)
            | Self::Look(_)
            | Self::Mcp(_)
            | Self::Serve(_)
            | Self::Team(_)
            | Self::Wait(_)
            | Self::Ask(_)
            | Self::Doctor(_)
            | Self::Status(_)
            | Self::Init(_)
            | Self::Config(_)
            | Self::Completions(_)
            | Self::Demo(_) => {
                panic!("{self:?}")
            }
        }
    }
}

/// Reads the command line.
///
/// # Errors
///
/// The parser's own error, which can also be the help that was asked for.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Words, clap::Error> {
    let matches = Cli::command().try_get_matches_from(words)?;
    let Cli { command, log } = Cli::from_arg_matches(&matches)?;
    Ok(Words { asked: asked(command, &matches)?, log })
}

fn asked(command: Command, matches: &clap::ArgMatches) -> Result<Asked, clap::Error> {
    let args = match command {
        Command::Run(args) => args,
        Command::Exec(args) => return Ok(Asked::Exec(args)),
        Command::Watch(args) => return Ok(Asked::Watch(args)),
        Command::Resume(args) => return Ok(Asked::Resume(args)),
        Command::Look(look) => return Ok(Asked::Look(look)),
        Command::Mcp(args) => return Ok(Asked::Mcp(args)),
        Command::Serve(args) => return Ok(Asked::Serve(args)),
        Command::Team(args) => return Ok(Asked::Team(args)),
        Command::Wait(args) => return Ok(Asked::Wait(args)),
        Command::Ask(ask) => return Ok(Asked::Ask(ask)),
        Command::Doctor(args) => return Ok(Asked::Doctor(args)),
        Command::Demo { part } => return demo(part).map(Asked::Demo),
        Command::Status(args) => return Ok(Asked::Status(args)),
        Command::Init(args) => return Ok(Asked::Init(args)),
        Command::Config(command) => return Ok(Asked::Config(command)),
        Command::Completions { shell } => return Ok(Asked::Completions(shell)),
    };
    let places = |id: &str| {
        let run = matches.subcommand_matches("run");
        run.and_then(|run| run.indices_of(id)).into_iter().flatten().collect::<Vec<_>>()
    };
    let lines = places("lines").into_iter().zip(args.lines.iter().cloned().map(Inline::Line));
    let tasks = places("tasks").into_iter().zip(args.tasks.iter().cloned().map(Inline::Task));
    let mut inline: Vec<_> = lines.chain(tasks).collect();
    inline.sort_by_key(|(place, _)| *place);
    Ok(Asked::Run(args, inline.into_iter().map(|(_, inline)| inline).collect()))
}

/// The words of `fanin demo`, which has none for people.
fn demo(part: Vec<String>) -> Result<Vec<String>, clap::Error> {
    let refused = match part.as_slice() {
        [] => return Ok(part),
        [name, _] if demo::PARTS.contains(&name.as_str()) => return Ok(part),
        [word, ..] => format!("unexpected argument '{word}' found"),
    };
    let mut command = Cli::command();
    command.build();
    // The command is there: its words were just read.
    let mut demo = command.find_subcommand("demo").cloned().unwrap_or(command);
    Err(demo.error(ErrorKind::UnknownArgument, refused))
}

/// The command that words name, as they are written before its own words: `fanin store check`.
pub(crate) fn named(words: impl IntoIterator<Item = OsString>) -> String {
    let mut command = Cli::command();
    let mut name = command.get_name().to_owned();
    let mut words = words.into_iter().skip(1);
    while let Some(word) = words.next() {
        let word = word.to_string_lossy();
        if word == "--log" || word == "--log-format" {
            // What follows is its value.
            words.next();
        }
        let Some(next) = command.find_subcommand(&*word) else {
            // A flag may stand before a command; whatever else does is none.
            if word.starts_with('-') {
                continue;
            }
            break;
        };
        name = format!("{name} {}", next.get_name());
        command = next.clone();
    }
    name
}

pub(crate) fn concurrency(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=GROUP_MEMBERS_MAX) => Ok(n),
        _ => Err(format!("write a whole number from 1 to {GROUP_MEMBERS_MAX}")),
    }
}

pub(crate) fn fail_on(text: &str) -> Result<FailOn, String> {
    FailOn::parse(text).ok_or_else(|| "write partial or none-ok".to_owned())
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fanin_protocol::limits::{DRAIN, RUN_SLOTS};

    fn words(words: &[&str]) -> Result<(RunArgs, Vec<Inline>), clap::Error> {
        parse(["fanin", "run"].iter().chain(words).map(OsString::from)).map(|words| words.asked.run())
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn lines_and_named_tasks_keep_the_order_they_were_typed_in() {
        let (_, inline) = words(&["a", "--task", "x=b", "c", "--task=y=d"]).unwrap();
        let line = |text: &str| Inline::Line(text.into());
        let task = |text: &str| Inline::Task(text.into());
        assert_eq!(inline, [line("a"), task("x=b"), line("c"), task("y=d")]);
    }

    #[test]
    fn numbers_and_times_that_cannot_be_meant_are_refused() {
        for bad in [
            ["--concurrency", "0"],
            ["--concurrency", "-1"],
            ["--concurrency", "1000001"],
            ["--concurrency", "NaN"],
            ["--timeout", "0s"],
            ["--timeout", "1e99"],
            ["--timeout", "99999999h"],
            ["--drain", "soon"],
            ["--fail-on", "always"],
            ["--env", "NAME"],
            ["--env", "=value"],
            ["--budget", "1.50"],
            ["--log", "loud"],
        ] {
            let error = words(&["true", bad[0], bad[1]]).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{bad:?}");
            assert!(error.to_string().contains(bad[0]), "{error}");
        }
    }

    #[test]
    fn both_spellings_of_none_ok_are_understood() {
        for word in ["none-ok", "none_ok"] {
            assert_eq!(words(&["true", "--fail-on", word]).unwrap().0.flags.fail_on, Some(FailOn::NoneOk));
        }
    }

    #[test]
    fn the_help_tells_the_defaults_as_they_are() {
        let run = Cli::command().find_subcommand_mut("run").unwrap().render_long_help().to_string();
        assert!(run.contains(&format!("[default: {RUN_SLOTS}]")), "{run}");
        assert!(run.contains(&format!("[default: {}]", duration::show(DRAIN))), "{run}");
    }

    #[test]
    fn ways_to_name_the_work_that_exclude_each_other_are_refused() {
        for bad in [
            &["--each", "x {}", "y"][..],
            &["--each", "x {}", "--task", "a=b"],
            &["--file", "x.toml", "y"],
            &["--file", "x.toml", "--each", "y"],
        ] {
            assert_eq!(words(bad).unwrap_err().exit_code(), 2, "{bad:?}");
        }
    }
}
