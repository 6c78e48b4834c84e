//! Agents as tasks: from `fanin.toml` and a manifest to one result, and `fanin doctor`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Ended, PATIENCE, Running, fanin, run};
#[cfg(target_os = "linux")]
use crate::nested::SCRUBBED;

/// An agent that answers with its rights, and with the word that it is asked.
const AGENT: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case $line in
  *'"initialize"'*) answer '{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"sh","version":"7"}}' ;;
  *'"session/new"'*) answer '{"sessionId":"s"}' ;;
  *'"session/prompt"'*word-wait*)
    echo $$ > working.new; mv working.new working
    while read -r line; do :; done ;;
  *'"session/prompt"'*)
    said="$FANIN_RIGHTS $(printf '%s' "$line" | sed -n 's/.*word-\([a-z]*\).*/\1/p') $SECRET$SHOWN"
    printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    printf '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}\n' "$said"
    answer '{"stopReason":"end_turn"}' ;;
  esac
done
"#;

const CONFIG: &str = r#"
[agents.worker]
command = ["sh", "agent.sh"]
rights = "edit"
pass = ["SHOWN"]

[agents.plain]
kind = "command"
command = ["echo", "got:", "{prompt}"]

[agents.gone]
command = ["no-such-agent"]
"#;

/// A folder with an agent, its configuration, and this manifest.
pub(crate) fn folder(manifest: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("agent.sh", AGENT), ("fanin.toml", CONFIG), ("m.toml", manifest)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn texts(ended: &Ended) -> Vec<String> {
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr));
    let entries = document["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["output"]["text"].as_str().unwrap_or("-").trim().to_owned()).collect()
}

fn with(folder: &Path, words: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = fanin(folder, words);
    command.envs(variables.iter().copied());
    Running::start(command).end()
}

#[test]
fn prompts_of_a_manifest_go_to_agents_beside_commands() {
    let folder = folder(
        "[[task]]\nagent = \"worker\"\nprompt = \"word-one\"\n[[task]]\nshell = \"echo two\"\n\
         [[task]]\nagent = \"plain\"\nprompt = \"it's $(three)\"\n\
         [[task]]\nagent = \"worker\"\nprompt = \"word-four\"\nrights = \"read-only\"\n\
         [[task]]\nagent = \"worker\"\nprompt = \"word-five\"\nrights = \"full\"\n",
    );
    let words = ["run", "m.toml", "--json"];
    let ended = with(folder.path(), &words, &[("SECRET", "secret"), ("SHOWN", "shown")]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let expected = ["edit one shown", "two", "got: it's $(three)", "read-only four shown", "edit five shown"];
    assert_eq!(texts(&ended), expected);
    // An agent that starts fanin gives its own agents no more than it has.
    let ended = with(folder.path(), &words, &[("FANIN_RIGHTS", "read-only")]);
    assert_eq!(texts(&ended)[0], "read-only one");
    let ended = with(folder.path(), &["run", "m.toml"], &[("FANIN_RIGHTS", "much")]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("FANIN_RIGHTS is \"much\""), "{}", ended.stderr);
}

// B78, B79: an agent that may only read gets none that may edit, whatever it does to its environment.
#[cfg(target_os = "linux")]
#[test]
fn an_agent_gives_no_more_rights_than_it_has_by_hiding_where_it_is() {
    let folder = folder("");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("inner.toml", "[[task]]\nagent = \"worker\"\nprompt = \"word-hello\"\nrights = \"edit\"\n");
    let shell = "[agents.sh]\nkind = \"command\"\ncommand = [\"sh\", \"-c\", \"{prompt}\"]\n";
    write("fanin.toml", &format!("{CONFIG}{shell}"));
    let inner = format!("{} run inner.toml --quiet --json", env!("CARGO_BIN_EXE_fanin"));
    let prompts = [
        inner.clone(),
        format!("{SCRUBBED} {inner}"),
        format!("{SCRUBBED} FANIN_RIGHTS=full FANIN_PARENT=run/job/1/1 {inner}"),
    ];
    let task = |prompt| format!("[[task]]\nagent = \"sh\"\nprompt = '''{prompt}'''\n");
    write("m.toml", &prompts.map(task).concat());
    let ended = run(folder.path(), &["m.toml", "--json"]);
    for text in texts(&ended) {
        let inner: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{}", ended.stdout));
        assert_eq!(inner["entries"][0]["output"]["text"], "read-only hello ", "{inner}");
    }
    // The same task with no such agent around it.
    assert_eq!(texts(&run(folder.path(), &["inner.toml", "--json"])), ["edit hello"]);
}

#[test]
fn an_unknown_agent_is_refused_at_its_place_and_nothing_is_started() {
    let folder = folder(
        "[[task]]\nshell = \"touch started\"\n[[task]]\nagent = \"wroker\"\nprompt = \"x\"\n\
         [[task]]\nagent = \"worker\"\n[[task]]\nshell = \"true\"\nprompt = \"x\"\n\
         [[task]]\ncommand = [\"true\"]\nagent = \"worker\"\n",
    );
    let ended = run(folder.path(), &["m.toml"]);
    expect_test::expect![[r#"
        m.toml:4:9: agent: there is no agent `wroker`; there are claude, codex, gone, opencode, plain, worker
        m.toml:7:9: agent: its `prompt` is missing: write all that the agent shall do; it sees nothing else
        m.toml:10:10: prompt: it is for a task with an `agent`
        m.toml:13:9: agent: `command` is there as well; keep one of the two
        fanin: exit 2 (usage)
    "#]]
    .assert_eq(&ended.stderr);
    assert!(!folder.path().join("started").exists());
}

#[test]
fn what_failed_runs_again_with_its_agent() {
    let folder = folder(
        "[[task]]\nagent = \"gone\"\nprompt = \"word-one\"\nretries = 0\n[[task]]\nshell = \"true\"\n",
    );
    let ended = run(folder.path(), &["m.toml", "--json"]);
    assert_eq!(ended.code, Some(1));
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let entry = &document["entries"][0];
    assert_eq!((&entry["cause"], &entry["code"]), (&"spawn".into(), &"program_not_found".into()));
    let config = CONFIG.replace("[\"no-such-agent\"]", "[\"sh\", \"agent.sh\"]");
    fs::write(folder.path().join("fanin.toml"), config).unwrap();
    let group = document["group"].as_str().unwrap();
    let ended = run(folder.path(), &["--again", group, "--json"]);
    assert_eq!((ended.code, texts(&ended)[0].as_str()), (Some(0), "read-only one"), "{}", ended.stderr);
}

// S-3: a run whose fanin was killed in the middle of a prompt shows the agent's session, and leaves no agent.
#[cfg(target_os = "linux")]
#[test]
fn the_session_of_an_agent_is_found_after_a_crash() {
    let folder = folder("[[task]]\nagent = \"worker\"\nprompt = \"word-wait\"\n");
    let running = Running::start(fanin(folder.path(), &["run", "m.toml"]));
    let working = folder.path().join("working");
    let end = Instant::now() + PATIENCE;
    while !working.exists() {
        assert!(Instant::now() < end, "the agent was never asked");
        std::thread::sleep(Duration::from_millis(10));
    }
    let agent = fs::read_to_string(working).unwrap();
    running.signal("KILL");
    running.end();
    let ended = with(folder.path(), &["resume", "--json"], &[]);
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr));
    let entry = &document["entries"][0];
    assert_eq!((&entry["status"], &entry["cause"]), (&"error".into(), &"interrupted".into()), "{entry}");
    let events = with(folder.path(), &["events", "--json", document["group"].as_str().unwrap()], &[]);
    let bound = events.stdout.lines().find(|line| line.contains("\"run.bound\"")).unwrap();
    assert!(bound.contains("\"external_session\":\"s\""), "{bound}");
    let stat = fs::read_to_string(Path::new("/proc").join(agent.trim()).join("stat"));
    let is_alive = stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'));
    assert!(!is_alive, "the agent of a killed fanin");
}

#[test]
fn a_configuration_that_is_wrong_is_refused_whatever_the_tasks_are_for() {
    let folder = folder("[[task]]\nagent = \"worker\"\nprompt = \"x\"\n");
    fs::write(folder.path().join("fanin.toml"), "[agents.worker]\nrights = \"root\"\n").unwrap();
    for task in ["m.toml", "true"] {
        let ended = run(folder.path(), &[task]);
        assert_eq!(ended.code, Some(2));
        assert!(ended.stderr.contains("fanin.toml:2:10: rights: use"), "{}", ended.stderr);
    }
}

#[test]
fn the_doctor_says_who_answers() {
    let folder = folder("");
    let ended = with(folder.path(), &["doctor", "worker", "plain"], &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    expect_test::expect![[r#"
        worker  acp      edit       answers: sh 7
        plain   command  read-only  not asked: a command is run as it is
    "#]]
    .assert_eq(&ended.stdout);
    let ended = with(folder.path(), &["doctor", "--json", "gone"], &[]);
    assert_eq!(ended.code, Some(1));
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let gone = &document["agents"][0];
    assert_eq!((&gone["name"], &gone["status"]), (&"gone".into(), &"missing".into()));
    assert!(gone["text"].as_str().unwrap().contains("\"no-such-agent\" was not found"), "{gone}");
    let ended = with(folder.path(), &["doctor", "nobody"], &[]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("there is no agent `nobody`"), "{}", ended.stderr);
    fs::write(folder.path().join("agent.sh"), "printf 'no licence\\033[31m\\nred' >&2; exit 4").unwrap();
    let ended = with(folder.path(), &["doctor", "worker"], &[]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("no answer: the agent ended"), "{}", ended.stdout);
    assert!(ended.stdout.contains("no licence") && ended.stdout.lines().count() == 1, "{}", ended.stdout);
    assert!(!ended.stdout.contains('\u{1b}'), "what an agent writes reaches no terminal as it is");
}
