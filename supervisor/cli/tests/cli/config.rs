//! The configuration from files, variables and flags to what holds; `fanin config`, `init`, `completions` and `status`.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Ended, Running, fanin, made, run};

fn folder(here: &str, users: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join(".config/fanin")).unwrap();
    fs::write(folder.path().join("fanin.toml"), here).unwrap();
    fs::write(folder.path().join(".config/fanin/fanin.toml"), users).unwrap();
    folder
}

fn with(folder: &Path, words: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = fanin(folder, words);
    command.envs(variables.iter().copied());
    Running::start(command).end()
}

#[test]
fn what_holds_is_shown_with_where_it_stands() {
    let folder = folder(
        "concurrency = 4\n[agents.mine]\ncommand = [\"x\"]\nenv = { SECRET_WORD = \"hidden\" }\n",
        "drain = \"5s\"\nconcurrency = 2\n",
    );
    let variables = [("FANIN_TIMEOUT", "5m"), ("FANIN_BUDGET", "usd=1.50")];
    let ended = with(folder.path(), &["config", "show", "--origin"], &variables);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let users = folder.path().join(".config/fanin/fanin.toml");
    for line in [
        "concurrency = 4  # fanin.toml:1\n".to_owned(),
        format!("drain = \"5s\"  # {}:1\n", users.display()),
        "log = \"off\"  # default\n".to_owned(),
        "limits.timeout = \"5m\"  # FANIN_TIMEOUT\n".to_owned(),
        "budget.usd = 1.50  # FANIN_BUDGET\n".to_owned(),
        "agents.mine.command = [\"x\"]  # fanin.toml:2\n".to_owned(),
        "# limits.idle is not set\n".to_owned(),
    ] {
        assert!(ended.stdout.contains(&line), "{line}{}", ended.stdout);
    }
    assert!(!ended.stdout.contains("hidden") && ended.stdout.contains("SECRET_WORD"), "{}", ended.stdout);
    let ended = with(folder.path(), &["config", "show", "--json"], &variables);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "fanin.config/1");
    let settings = document["settings"].as_array().unwrap();
    let of = |key: &str| settings.iter().find(|setting| setting["key"] == key).unwrap();
    assert_eq!(of("concurrency")["origin"]["line"], 1);
    assert_eq!(of("concurrency")["flag"], "--concurrency");
    assert_eq!(of("limits.timeout")["origin"]["name"], "FANIN_TIMEOUT");
    assert_eq!(of("limits.idle")["value"], Value::Null);
}

#[test]
fn a_flag_wins_over_a_manifest_and_a_manifest_over_what_is_configured() {
    let folder = folder("[limits]\ntimeout = \"200ms\"\n", "");
    let ended = run(folder.path(), &["sleep 600"]);
    assert!(ended.stdout.contains("`timeout` of 200ms passed"), "{}", ended.stdout);
    fs::write(
        folder.path().join("m.toml"),
        "[limits]\ntimeout = \"300ms\"\n[[task]]\nshell = \"sleep 600\"\n",
    )
    .unwrap();
    let ended = with(folder.path(), &["run", "m.toml"], &[("FANIN_TIMEOUT", "250ms")]);
    assert!(ended.stdout.contains("`timeout` of 300ms passed"), "{}", ended.stdout);
    let ended = with(folder.path(), &["run", "m.toml", "--timeout", "400ms"], &[("FANIN_TIMEOUT", "250ms")]);
    assert!(ended.stdout.contains("`timeout` of 400ms passed"), "{}", ended.stdout);
    let ended = with(folder.path(), &["run", "sleep 600"], &[("FANIN_TIMEOUT", "250ms")]);
    assert!(ended.stdout.contains("`timeout` of 250ms passed"), "{}", ended.stdout);
    // What counts as failure is configured as well.
    fs::write(folder.path().join("fanin.toml"), "").unwrap();
    let ended = with(folder.path(), &["run", "true", "false"], &[("FANIN_FAIL_ON", "none-ok")]);
    assert_eq!(ended.code, Some(0));
    let ended = with(
        folder.path(),
        &["run", "true", "false", "--fail-on", "partial"],
        &[("FANIN_FAIL_ON", "none-ok")],
    );
    assert_eq!(ended.code, Some(1));
}

#[test]
fn what_is_wrong_with_it_stops_each_command_that_goes_by_it_before_anything_starts() {
    let folder = folder("concurency = 3\n", "");
    let idle = [("FANIN_IDLE", "10m"), ("FANIN_TIMEOUT", "5m")];
    let all: [&[&str]; 5] =
        [&["run", "touch started"], &["ps"], &["doctor"], &["config", "show"], &["status", "--line"]];
    for words in all {
        let ended = with(folder.path(), words, &idle);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{words:?}");
        expect_test::expect![[r#"
            fanin.toml:1:1: concurency: unknown key; did you mean `concurrency`?
            `limits.idle` (10m, FANIN_IDLE) can never pass, since `limits.timeout` (5m, FANIN_TIMEOUT) comes first; lower the one, or raise the other
            fanin: exit 2 (usage)
        "#]]
        .assert_eq(&ended.stderr);
    }
    assert!(!folder.path().join("started").exists());
    let ended = with(folder.path(), &["ps", "--json"], &[]);
    let error: Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!(
        (&error["code"], &error["hint"]),
        (&"usage".into(), &"write `concurrency` instead of `concurency`".into())
    );
}

#[test]
fn runs_are_kept_where_the_users_file_says_and_another_file_cannot_say_it() {
    let folder = folder("", "");
    let elsewhere = folder.path().join("elsewhere");
    let says = format!("state_dir = {:?}\n", elsewhere.display().to_string());
    fs::write(folder.path().join(".config/fanin/fanin.toml"), &says).unwrap();
    let at = |words: &[&str]| {
        let mut command = fanin(folder.path(), words);
        command.env_remove("FANIN_STATE_DIR");
        Running::start(command).end()
    };
    assert_eq!(at(&["run", "true"]).code, Some(0));
    assert!(elsewhere.join("runs").is_dir());
    let listed = at(&["ps", "--all"]).stdout;
    assert!(listed.contains("completed"), "{listed}");
    fs::write(folder.path().join("fanin.toml"), &says).unwrap();
    let ended = at(&["ps"]);
    assert!(ended.stderr.starts_with("fanin.toml:1:13: state_dir: only your own file"), "{}", ended.stderr);
}

#[test]
fn init_writes_what_is_not_there_and_what_it_writes_runs() {
    let folder = tempfile::tempdir().unwrap();
    let at = |words: &[&str]| with(folder.path(), words, &[]);
    let ended = at(&["init"]);
    assert_eq!((ended.code, ended.stdout.lines().next()), (Some(0), Some("fanin.toml: written")));
    let ended = at(&["run", "tasks.toml", "--json"]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr));
    assert_eq!(document["counts"]["completed"], 3, "{document}");
    // All of the configuration is a comment, and without the marks of one it is sound.
    let config = fs::read_to_string(folder.path().join("fanin.toml")).unwrap();
    assert!(config.lines().all(|line| line.is_empty() || line.starts_with('#')), "{config}");
    let is_example =
        |line: &&str| line.starts_with("# ") && (line.contains(" = ") || line.starts_with("# ["));
    let examples: Vec<_> =
        config.lines().filter(is_example).filter_map(|line| line.strip_prefix("# ")).collect();
    fs::write(folder.path().join("fanin.toml"), examples.join("\n")).unwrap();
    let ended = at(&["config", "show"]);
    assert!(ended.stdout.contains("agents.mine.command = [\"my-agent\", \"--acp\"]"), "{}", ended.stderr);
    let ended = at(&["init"]);
    assert!(ended.stdout.starts_with("fanin.toml: is there already"), "{}", ended.stdout);
    assert_eq!(fs::read_to_string(folder.path().join("fanin.toml")).unwrap(), examples.join("\n"));
}

#[test]
fn completions_know_the_commands_and_their_flags() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let ended = with(folder.path(), &["completions", shell], &[]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        for word in ["fanin", "resume", "concurrency", "completions", "log-format"] {
            assert!(ended.stdout.contains(word), "{shell}: no {word}");
        }
    }
    let ended = with(folder.path(), &["completions", "csh"], &[]);
    assert_eq!(ended.code, Some(2));
}

#[test]
fn status_counts_what_is_at_work_and_says_nothing_where_nothing_is() {
    let folder = folder("", "");
    let line = || with(folder.path(), &["status", "--line"], &[]).stdout;
    assert_eq!(line(), "");
    assert_eq!(with(folder.path(), &["status"], &[]).stdout, "nothing is at work\n");
    let task = "touch began; until [ -e go ]; do sleep 0.01; done";
    let words = ["run", "--concurrency", "1", task, "true"];
    let running = Running::start(fanin(folder.path(), &words));
    made(folder.path(), "began");
    assert_eq!(line(), "1 running, 1 queued\n");
    let document = with(folder.path(), &["status", "--json"], &[]).stdout;
    assert_eq!(
        document,
        "{\"schema\":\"fanin.status/1\",\"running\":1,\"queued\":1,\"owed\":0,\"interrupted\":0,\"service\":null}\n"
    );
    fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(running.end().code, Some(0));
    assert_eq!(line(), "");
    let killed = Running::start(fanin(folder.path(), &["run", "touch again; sleep 600"]));
    made(folder.path(), "again");
    killed.signal("KILL");
    killed.end();
    assert_eq!(line(), "1 interrupted\n");
}
