//! Tests of the tests: plants one plausible mistake at a time into a copy of the workspace, and expects the test that
//! guards the promise to fail. It never changes a file of the work tree.
//!
//! `cargo run -p fanin-tests --bin planted [-- --list] [-- NAME..]`; a name is a part of a fault's name. A fault is a
//! file `tests/planted/NAME.patch`: what it breaks, the one test command that must catch it, and a diff of the product.

mod command;
mod fault;
mod scratch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::command::{Build, Built, Ran, TestCommand};
use crate::fault::Fault;
use crate::scratch::Scratch;

/// What became of a planted fault.
enum Verdict {
    /// Tests failed, as they must.
    Caught,
    /// It says nothing about the tests: why.
    Broken(String),
    /// The tests did not see it.
    Missed(String),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("planted: {problem}");
            ExitCode::from(2)
        }
    }
}

/// True where all is as it should be.
async fn run(words: &[String]) -> Result<bool, String> {
    let (flags, names): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| word.starts_with('-'));
    if let Some(unknown) = flags.iter().find(|flag| flag.as_str() != "--list") {
        return Err(format!("`{unknown}` is not known; usage: planted [--list] [NAME..]"));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the workspace has no folder")?;
    let mut faults = Fault::all(&root.join("tests/planted"))?;
    faults.retain(|fault| names.is_empty() || names.iter().any(|name| fault.name.contains(name.as_str())));
    if faults.is_empty() {
        return Err("no fault has such a name; --list shows them".into());
    }
    // Neighbours touch the same crate, so that little is built again between two of them.
    faults.sort_by(|a, b| (&a.files, &a.name).cmp(&(&b.files, &b.name)));
    if !flags.is_empty() {
        for Fault { name, breaks, command, .. } in &faults {
            println!("{name}\n    breaks: {breaks}\n    {command}");
        }
        return Ok(true);
    }
    let place = place()?;
    let scratch = Scratch::prepare(root, &place.join("workspace"))?;
    let build = Build::new(scratch.folder(), &place);
    let begin = Instant::now();
    if !baseline(&build, &faults).await? {
        return Ok(false);
    }
    let is_well = plant_all(&build, &scratch, &faults).await?;
    println!("in {:.0} s", begin.elapsed().as_secs_f64());
    Ok(is_well)
}

/// Where copies and builds are kept: beside what this program was built into.
fn place() -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let target = exe.ancestors().nth(2).ok_or("this program is in no target folder")?;
    Ok(target.join("planted"))
}

/// Runs each command once without a fault: a test that always fails proves nothing.
async fn baseline(build: &Build, faults: &[Fault]) -> Result<bool, String> {
    let commands: BTreeMap<String, &TestCommand> =
        faults.iter().map(|fault| (fault.command.to_string(), &fault.command)).collect();
    let (begin, count) = (Instant::now(), commands.len());
    let mut is_well = true;
    for (place, (words, command)) in commands.into_iter().enumerate() {
        if let Some(problem) = not_green(build, command, &format!("baseline_{place}")).await? {
            is_well = false;
            println!("red without a fault: {words}\n    {problem}");
        }
    }
    println!("without a fault: {count} commands in {:.0} s", begin.elapsed().as_secs_f64());
    Ok(is_well)
}

/// Why a command is not green; `None` where tests ran and passed.
async fn not_green(build: &Build, command: &TestCommand, what: &str) -> Result<Option<String>, String> {
    Ok(match build.build(command, what).await? {
        Built::Not(log) => Some(format!("it does not compile; see {}", log.display())),
        Built::Program(program) => match build.run(command, &program, what).await? {
            Ran { hung: true, log, .. } => Some(format!("it hangs; see {}", log.display())),
            Ran { passed: 0, log, .. } => Some(format!("no test of it passed; see {}", log.display())),
            Ran { code: Some(0), .. } => None,
            Ran { log, .. } => Some(format!("it fails; see {}", log.display())),
        },
    })
}

async fn plant_all(build: &Build, scratch: &Scratch, faults: &[Fault]) -> Result<bool, String> {
    let width = faults.iter().map(|fault| fault.name.len()).max().unwrap_or_default();
    let (mut caught, mut slowest) = (0, Duration::ZERO);
    for fault in faults {
        let begin = Instant::now();
        let verdict = plant(build, scratch, fault).await?;
        let took = begin.elapsed();
        slowest = slowest.max(took);
        let (word, what) = match &verdict {
            Verdict::Caught => ("caught", &fault.breaks),
            Verdict::Broken(why) => ("BROKEN", why),
            Verdict::Missed(why) => ("MISSED", why),
        };
        caught += usize::from(matches!(verdict, Verdict::Caught));
        println!("{:width$}  {word} in {:>4.1} s  {what}", fault.name, took.as_secs_f64());
    }
    // What was planted last is out again, and so was everything before it: cargo saw each file come back.
    let last = match faults.last() {
        Some(fault) => not_green(build, &fault.command, "after_the_last").await?,
        None => None,
    };
    if let Some(problem) = &last {
        println!("red after the last fault was taken out: {problem}");
    }
    print!(
        "{caught} of {} planted faults caught, the slowest in {:.1} s, all ",
        faults.len(),
        slowest.as_secs_f64()
    );
    Ok(caught == faults.len() && last.is_none())
}

async fn plant(build: &Build, scratch: &Scratch, fault: &Fault) -> Result<Verdict, String> {
    let verdict = match scratch.plant(fault)? {
        Some(problem) => Verdict::Broken(format!("it does not apply: {problem}")),
        None => look(build, fault).await?,
    };
    scratch.take_out(fault)?;
    Ok(verdict)
}

/// Whether the fault's command sees what was planted.
async fn look(build: &Build, fault: &Fault) -> Result<Verdict, String> {
    let program = match build.build(&fault.command, &fault.name).await? {
        Built::Program(program) => program,
        Built::Not(log) => return Ok(Verdict::Broken(format!("it does not compile; see {}", log.display()))),
    };
    let ran = build.run(&fault.command, &program, &fault.name).await?;
    Ok(match ran {
        Ran { hung: true, .. } if fault.hangs => Verdict::Caught,
        Ran { hung: true, log, .. } => Verdict::Missed(format!("the test hangs; see {}", log.display())),
        // 101 is a test that failed; anything else, as an abort, need not be about the promise.
        Ran { code: Some(101), failed, .. } if !failed.is_empty() => Verdict::Caught,
        Ran { code: Some(0), log, .. } => Verdict::Missed(format!("all tests pass; see {}", log.display())),
        Ran { code, log, .. } => Verdict::Missed(format!("exit {code:?}; see {}", log.display())),
    })
}
