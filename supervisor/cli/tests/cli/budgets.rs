//! Budgets of a manifest: what is admitted, who is told, what it says beforehand and afterwards.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Ended, Running, fanin, run};

/// An agent whose answer costs what its prompt says.
const AGENT: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  update() { printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":%s}}\n' "$1"; }
  case $line in
  *'"initialize"'*) answer '{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"sh","version":"7"}}' ;;
  *'"session/new"'*) answer '{"sessionId":"s"}' ;;
  *'"session/prompt"'*)
    cost=$(printf '%s' "$line" | sed -n 's/.*cost-\([0-9.]*\).*/\1/p')
    update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"half"}}'
    if [ -n "$cost" ]; then
      update "{\"sessionUpdate\":\"usage_update\",\"used\":9,\"size\":99,\"cost\":{\"amount\":$cost,\"currency\":\"USD\"}}"
    fi
    case $line in
    *hangs*) while read -r more; do case $more in *session/cancel*) break ;; esac; done
      answer '{"stopReason":"cancelled"}' ;;
    *) answer '{"stopReason":"end_turn"}' ;;
    esac ;;
  esac
done
"#;

pub(crate) fn folder(manifest: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = "[agents.worker]\ncommand = [\"sh\", \"agent.sh\"]\n";
    for (name, text) in [("agent.sh", AGENT), ("fanin.toml", config), ("m.toml", manifest)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn task(words: &str) -> String {
    format!("[[task]]\nagent = \"worker\"\nprompt = \"{words}\"\n")
}

fn ends(document: &Value) -> Vec<String> {
    let of = |entry: &Value| {
        let word = |key: &str| entry[key].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", word("status"), word("cause"), word("code"))
    };
    document["entries"].as_array().unwrap().iter().map(of).collect()
}

fn show(folder: &Path, words: &[&str]) -> Ended {
    Running::start(fanin(folder, words)).end()
}

#[test]
fn what_does_not_fit_a_budget_is_told_in_the_one_result() {
    let tasks = task("cost-0.30").repeat(5);
    let folder = folder(&format!("concurrency = 2\n[budget]\nusd = 1.00\nestimate = 0.30\n{tasks}"));
    let ended = run(folder.path(), &["m.toml", "--json"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let said = "fanin: budget 1.00 USD; it may cost 0.90 USD more before all is stopped, at the most";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let (well, told) = ("completed - -", "error budget usd");
    assert_eq!(ends(&document), [well, well, well, told, told]);
    assert_eq!((&document["cost_usd_micros"], &document["cost_unknown"]), (&900_000.into(), &0.into()));
    assert_eq!(document["entries"][0]["usage"]["cost_usd_micros"], 300_000);
    assert!(document["entries"][4].get("usage").is_none());

    let shown = show(folder.path(), &["show"]).stdout;
    assert!(shown.contains("budget usd: 0.90 USD of 1.00 USD (90 %)"), "{shown}");
    assert!(shown.contains("; cost 0.90 USD"), "{shown}");
    let jobs = show(folder.path(), &["ps", "--all", "--json"]).stdout;
    let jobs: Value = serde_json::from_str(&jobs).unwrap();
    assert_eq!(jobs["jobs"][0]["usage"]["cost_usd_micros"], 300_000);
}

// B77: of 1.00 USD 0.90 are spent, and five that expect 0.09 each become ready at once. One is admitted, four are told, and
// the one result has them all.
#[test]
fn of_five_that_fit_one_by_one_the_first_is_admitted_and_four_are_told() {
    let first = format!("{}id = \"first\"\n", task("cost-0.90"));
    let five = format!("{}depends = [\"first\"]\n", task("cost-0.09")).repeat(5);
    let folder = folder(&format!("concurrency = 5\n[budget]\nusd = 1.00\nestimate = 0.09\n{first}{five}"));
    let ended = run(folder.path(), &["m.toml", "--json"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let (well, told) = ("completed - -", "error budget usd");
    assert_eq!(ends(&document), [well, well, told, told, told, told]);
    assert_eq!((&document["cost_usd_micros"], &document["cost_unknown"]), (&990_000.into(), &0.into()));
    let runs: Vec<_> = document["entries"].as_array().unwrap().iter().map(|entry| &entry["runs"]).collect();
    assert_eq!(runs, [1, 1, 0, 0, 0, 0]);
}

#[test]
fn what_runs_when_a_budget_is_used_up_is_stopped_and_keeps_its_output() {
    let folder = folder(&format!("[budget]\nusd = 0.50\n{}", task("cost-0.75 hangs")));
    let ended = run(folder.path(), &["m.toml", "--json"]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(ends(&document), ["error budget usd"]);
    let entry = &document["entries"][0];
    assert_eq!(entry["output"]["text"], "half");
    let message = entry["message"].as_str().unwrap();
    assert!(message.starts_with("`usd` of the budget of group "), "{message}");
    assert!(message.contains("is used up: 0.75 USD of 0.50 USD"), "{message}");
}

#[test]
fn zero_unknown_and_real_cost_are_shown_as_three_things() {
    for (words, cost, unknown, shown) in [
        ("cost-0", Value::from(0), 0, "; cost 0.00 USD"),
        ("for nothing", Value::Null, 1, "; cost not known"),
        ("cost-0.002340", Value::from(2_340), 0, "; cost 0.00234 USD"),
    ] {
        let folder = folder(&task(words));
        let ended = run(folder.path(), &["m.toml", "--json"]);
        let document: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(
            (&document["cost_usd_micros"], &document["cost_unknown"]),
            (&cost, &unknown.into()),
            "{words}"
        );
        let text = show(folder.path(), &["show"]).stdout;
        assert!(text.contains(shown), "{words}: {text}");
    }
}

#[test]
fn time_binds_commands_as_well() {
    let folder = folder(
        "concurrency = 1\n[budget]\ntime = \"300ms\"\n[[task]]\nshell = \"echo begun; exec sleep 600\"\n\
                         [[task]]\nshell = \"true\"\n",
    );
    let ended = run(folder.path(), &["m.toml", "--json"]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(ends(&document), ["error budget time", "error budget time"]);
    assert_eq!(document["entries"][0]["output"]["text"], "begun\n");
    assert!(document["entries"][0]["usage"]["ms"].as_u64().unwrap() >= 300);
    assert_eq!(document["entries"][1]["runs"], 0);
}

#[test]
fn a_budget_that_is_wrong_is_refused_at_its_place() {
    let folder = folder(
        "[budget]\nusd = 0\ntokens = 1.5\nsteps = 0\ntime = \"0s\"\nestimate = \"much\"\nusdd = 1\n\
         [[task]]\nshell = \"true\"\nbudget = { usd = 1.0 }\n[[task]]\nshell = \"true\"\nbudget = {}\n\
         [[task]]\nshell = \"true\"\nbudget = 5\n[[task]]\nshell = \"true\"\nbudget = { usd = 1e3, time = \"1s\" }\n",
    );
    let ended = run(folder.path(), &["m.toml"]);
    assert_eq!(ended.code, Some(2));
    expect_test::expect![[r#"
        m.toml:2:7: budget.usd: `0` is no amount of US dollars; write one like 1.50, above zero
        m.toml:3:10: budget.tokens: must be a whole number, not a float
        m.toml:4:9: budget.steps: must be a whole number from 1 to 9223372036854775807, not 0
        m.toml:5:8: budget.time: `0s` would end it before it began; leave it out for no limit
        m.toml:6:12: budget.estimate: must be an amount of US dollars, like 1.50, not a string
        m.toml:7:1: budget.usdd: unknown key; did you mean `usd`?
        m.toml:10:10: budget: nothing would ever count for it: a command tells only its `time`, and an agent no sum of its `tokens`; add `time`
        m.toml:13:10: budget: is empty; write { usd = 1.50 }, or one of tokens, steps, time
        m.toml:16:10: budget: must be a table like { usd = 1.50 }, not an integer
        m.toml:19:18: budget.usd: `1e3` is no amount of US dollars; write one like 1.50, above zero
        fanin: exit 2 (usage)
    "#]].assert_eq(&ended.stderr);
    fs::write(folder.path().join("m.toml"), "[budget]\nusd = 1\n[[task]]\nshell = \"true\"\n").unwrap();
    let ended = run(folder.path(), &["m.toml"]);
    expect_test::expect![[r#"
        m.toml:1:1: budget: nothing would ever count for it: a command tells only its `time`, and an agent no sum of its `tokens`; add `time`
        fanin: exit 2 (usage)
    "#]].assert_eq(&ended.stderr);
}

#[test]
fn a_budget_of_the_command_line_binds_and_wins_over_that_of_a_manifest() {
    let tasks = task("cost-0.30").repeat(3);
    let folder = folder(&format!("concurrency = 1\n[budget]\nusd = 9\nsteps = 50\nestimate = 0.10\n{tasks}"));
    let ended = run(folder.path(), &["m.toml", "--json", "--budget", "usd=0.70,estimate=0.30"]);
    assert!(ended.stderr.contains("fanin: budget 0.70 USD, 50 steps;"), "{}", ended.stderr);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(ends(&document), ["completed - -", "completed - -", "error budget usd"]);
    let ended = run(folder.path(), &["true", "--budget", "usd=1"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.starts_with("error: --budget: nothing would ever count"), "{}", ended.stderr);
    let ended = run(folder.path(), &["sleep 600", "--budget", "time=200ms", "--json"]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(ends(&document), ["error budget time"]);
}

#[test]
fn a_budget_that_is_configured_is_for_tasks_that_it_can_bind() {
    let folder = folder(&task("cost-0.75 hangs"));
    let file = folder.path().join("fanin.toml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{config}[budget]\nusd = 0.50\n")).unwrap();
    let ended = run(folder.path(), &["m.toml", "--json"]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(ends(&document), ["error budget usd"]);
    let ended = run(folder.path(), &["true"]);
    assert_eq!((ended.code, ended.stderr.contains("budget")), (Some(0), false), "{}", ended.stderr);
}
