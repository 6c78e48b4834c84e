//! Mail between the tasks of a run, by `fanin team` and over MCP: what arrives, who is let in, and what is refused.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use fanin_protocol::limits::MAIL_BYTES_MAX;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::common::{Ended, Running, fanin, made, run};
use crate::mcp::Agent;
#[cfg(target_os = "linux")]
use crate::nested::SCRUBBED;

/// The program, for a shell line.
const FANIN: &str = env!("CARGO_BIN_EXE_fanin");

/// Runs a manifest in which `fanin` stands for the program.
fn run_team(folder: &Path, plan: &str) -> Ended {
    fs::write(folder.join("team.toml"), plan.replace("fanin team", &format!("{FANIN} team"))).unwrap();
    run(folder, &["team.toml", "--json"])
}

fn read(folder: &TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What a run of it shows, which completed.
fn completed(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

fn output(document: &Value, place: usize) -> &str {
    document["entries"][place]["output"]["text"].as_str().unwrap_or_default()
}

#[test]
fn tasks_send_each_other_text_while_they_run() {
    let folder = tempdir().unwrap();
    let plan = r#"
[[task]]
id = "summary"
label = "what was found"
shell = '''
while mail=$(fanin team recv --from search --timeout 30s); do
    [ "$mail" = end ] && break
    printf '<%s>' "$mail"
done'''

[[task]]
id = "search"
label = "a long search"
sends = ["summary"]
shell = '''
fanin team send summary 'src/model has it'
echo 'and src/view' | fanin team send 'what was found'
fanin team send summary end'''
"#;
    let result = completed(&run_team(folder.path(), plan));
    assert_eq!(output(&result, 0), "<src/model has it><and src/view>");
    assert_eq!(output(&result, 1), "", "to send says nothing");
}

// SC-10: with one slot the sender starts because the receiver waits. B103: a receiver that is killed takes nothing.
#[test]
fn a_receive_gives_its_slot_back_and_one_that_is_killed_takes_nothing() {
    let folder = tempdir().unwrap();
    let plan = r#"
concurrency = 1

[[task]]
id = "reader"
shell = '''
fanin team recv > first 2>&1 & waits=$!
until [ -e started ]; do sleep 0.01; done
kill -KILL $waits; touch killed
fanin team recv --json'''

[[task]]
id = "writer"
sends = ["reader"]
shell = '''
touch started
until [ -e killed ]; do sleep 0.01; done
fanin team send reader hello'''
"#;
    let result = completed(&run_team(folder.path(), plan));
    let mail: Value = serde_json::from_str(output(&result, 0)).unwrap();
    assert_eq!(mail["schema"], "fanin.mail/1");
    assert_eq!((&mail["mail"]["from"], &mail["mail"]["text"]), (&json!("writer"), &json!("hello")));
    assert_eq!(mail["mail"]["job"], result["entries"][1]["job"]);
    assert_eq!(read(&folder, "first"), "");
}

// B102: what has no room is said to be so by an exit of its own, and each sender's mail stays in order.
#[test]
fn two_senders_that_try_again_where_there_is_no_room_arrive_in_order() {
    const EACH: usize = 60;
    let folder = tempdir().unwrap();
    let send = format!(
        "n=0; while [ $n -lt {EACH} ]; do fanin team send all $NAME:$n; said=$?; \
         case $said in 0) n=$((n+1));; 75) touch full; sleep 0.01;; *) exit $said;; esac; done"
    );
    let receive = format!(
        "until [ -e full ]; do sleep 0.01; done; n=0; \
         while [ $n -lt {} ]; do fanin team recv || exit; n=$((n+1)); done; fanin team recv --timeout 0s; echo $?",
        2 * EACH
    );
    let plan = format!(
        "[[task]]\nid = 'all'\nshell = '{receive}'\n\
         [[task]]\nsends = ['all']\nenv = {{ NAME = 'a' }}\nshell = '{send}'\n\
         [[task]]\nsends = ['all']\nenv = {{ NAME = 'b' }}\nshell = '{send}'\n"
    );
    let result = completed(&run_team(folder.path(), &plan));
    let got: Vec<&str> = output(&result, 0).lines().filter(|line| !line.starts_with("fanin: ")).collect();
    let of = |name: &str| got.iter().filter(|mail| mail.starts_with(name)).copied().collect::<Vec<_>>();
    for name in ["a:", "b:"] {
        let all: Vec<_> = (0..EACH).map(|n| format!("{name}{n}")).collect();
        assert_eq!(of(name), all);
    }
    assert_eq!(got.len(), 2 * EACH + 1);
    assert_eq!(got[2 * EACH], "1", "nothing more, and that is said");
    assert!(output(&result, 1).contains("error: mailbox_full: 64 mails wait for `all` already"));
}

// B103, T-8.
#[test]
fn a_wrong_address_is_refused_by_name_and_a_receive_is_empty_on_time() {
    let folder = tempdir().unwrap();
    let plan = r#"
[[task]]
id = "first"
sends = ["last", "quick"]
shell = '''
exec 2>&1
for to in nobody first other; do fanin team send $to x; echo "exit $?"; done
fanin team recv --from last --timeout 0s; echo "exit $?"
fanin team recv --timeout 50ms; echo "exit $?"
fanin team recv --timeout 61s; echo "exit $?"
fanin team send last </dev/null; echo "exit $?"
until [ -e over ]; do sleep 0.01; done
fanin team send quick x; echo "exit $?"
fanin team send --json nobody x'''

[[task]]
id = "other"
shell = "true"

[[task]]
id = "last"
shell = "until [ -e over ]; do sleep 0.01; done"

[[task]]
id = "quick"
shell = "true"

[[task]]
id = "late"
depends = ["quick"]
shell = "touch over"
"#;
    let ended = run_team(folder.path(), plan);
    let result: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr));
    let said = output(&result, 0);
    let words = [
        "error: unknown_target: no job of this group is called `nobody`",
        "last",
        "fanin: exit 1 (refused)",
        "error: self_target: ",
        "error: not_allowed: `first` may not send to `other`",
        "exit 1\n",
        "error: not_allowed: `last` may not send to `first`",
        "exit 1\n",
        "fanin: exit 1 (empty)\nexit 1\n",
        "60s at the most",
        "exit 2\n",
        "error: usage: team send: there is no message",
        "exit 2\n",
        "error: target_finished: ",
        "exit 1\n",
        "\"code\":\"unknown_target\"",
    ];
    let mut from = 0;
    for words in words {
        let at = said[from..].find(words).unwrap_or_else(|| panic!("no {words:?} from {from} in {said}"));
        from += at + words.len();
    }
    assert_eq!(result["entries"][0]["exit_code"], 1, "{said}");
}

// B104.
#[test]
fn long_and_odd_mail_arrives_whole_and_one_byte_more_is_refused() {
    let folder = tempdir().unwrap();
    let mut body = "\0\u{1}\u{1b}[31m \"quoted\" $(touch never) `x` é \u{1F600}\r\n\n".to_owned();
    body.push_str(&"\u{7}".repeat(MAIL_BYTES_MAX - body.len()));
    fs::write(folder.path().join("body"), &body).unwrap();
    fs::write(folder.path().join("longer"), format!("{body}x")).unwrap();
    let plan = r#"
[[task]]
id = "reader"
shell = "fanin team recv --json > exact; fanin team recv > plain; fanin team recv > dash"

[[task]]
id = "writer"
sends = ["reader"]
shell = '''
fanin team send reader < body
fanin team send reader < body
fanin team send reader -- '--json
'
fanin team send reader < longer; echo "exit $?"
fanin team send reader "$(printf '\377')"; echo "exit $?"'''
"#;
    let result = completed(&run_team(folder.path(), plan));
    let exact: Value = serde_json::from_str(&read(&folder, "exact")).unwrap();
    assert_eq!(exact["mail"]["text"].as_str().unwrap(), body);
    assert!(read(&folder, "plain") == format!("{body}\n"), "as it is, with a line feed where it has none");
    assert_eq!(read(&folder, "dash"), "--json\n");
    let said = output(&result, 1);
    assert!(said.contains("error: too_large: ") && said.contains("exit 1"), "{said}");
    assert!(said.ends_with("exit 2\n"), "{said}");
    assert!(!folder.path().join("never").exists());
}

// T-2: with file and line, together with all else.
#[test]
fn ways_that_cannot_be_are_refused_with_the_rest_of_the_plan() {
    let folder = tempdir().unwrap();
    let plan = "[[task]]\nid = 'a'\nshell = 'touch never'\nsends = ['b', 'a', 'x']\n\
                [[task]]\nid = 'b'\nshell = 'touch never'\nsends = ['c']\n\
                [[task]]\nid = 'c'\nshell = 'touch never'\ndepends = ['y']\nsends = ['a']\n\
                [[task]]\nid = 'd'\nshell = 'touch never'\nsends = 'a'\n";
    let ended = run_team(folder.path(), plan);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    let told = serde_json::from_str::<Value>(&ended.stderr).unwrap()["message"].as_str().unwrap().to_owned();
    for problem in [
        "team.toml:4:9: sends: there is no task `x`; the tasks are a, b, c, d",
        "team.toml:4:9: sends: `a` sends to itself",
        "team.toml:4:9: sends: a circle with mail: `a` waits for `c` waits for `b` waits for `a`",
        "team.toml:12:11: depends: there is no task `y`",
        "team.toml:17:9: sends: ",
    ] {
        assert!(told.contains(problem), "{problem}: {told}");
    }
    assert!(!folder.path().join("never").exists());
}

#[test]
fn outside_of_a_job_with_mail_it_says_so_and_asks_nobody() {
    let folder = tempdir().unwrap();
    for words in [&["team", "send", "a", "x"][..], &["team", "recv"]] {
        let ended = Running::start(fanin(folder.path(), words)).end();
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.starts_with("error: no_mail: this is not inside of a job"), "{}", ended.stderr);
    }
    let ended = Running::start(fanin(folder.path(), &["team", "recv", "--json"])).end();
    let error: Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!((&error["schema"], &error["code"]), (&json!("fanin.error/1"), &json!("no_mail")));
    // A group without ties has no door, and its tasks no way there.
    let line = format!("{FANIN} team recv; echo \"exit $? [$FANIN_MAIL]\"; ls .state/runs/*");
    let ended = run(folder.path(), &[&line]);
    assert!(ended.stdout.contains("error: no_mail: this job has no mail"), "{}", ended.stdout);
    assert!(ended.stdout.contains("exit 2 []"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("mail.sock"), "{}", ended.stdout);
    // A supervisor that is gone.
    let mut command = fanin(folder.path(), &["team", "recv"]);
    command.env("FANIN_MAIL", folder.path().join("gone.sock")).stdin(Stdio::null());
    let ended = Running::start(command).end();
    assert_eq!(ended.code, Some(70), "{}", ended.stderr);
    assert!(ended.stderr.contains("error: mail_gone: "), "{}", ended.stderr);
}

// SEC-3: by its process where its environment says nothing; and by no token but its own.
#[cfg(target_os = "linux")]
#[test]
fn who_has_no_token_is_known_by_its_process_and_no_other_token_lets_it_in() {
    let folder = tempdir().unwrap();
    let plan = r#"
[[task]]
id = "reader"
shell = '''SCRUBBED fanin team recv --from scrubbed; SCRUBBED fanin team recv --from scrubbed'''

[[task]]
id = "scrubbed"
sends = ["reader"]
shell = '''
SCRUBBED fanin team send reader one
echo 'SCRUBBED fanin team send reader two > log 2>&1; touch orphaned' > orphan.sh
(setsid sh orphan.sh &)
until [ -e orphaned ]; do sleep 0.01; done; cat log'''

[[task]]
id = "ended"
shell = 'echo "$FANIN_TOKEN" > old'

[[task]]
id = "lives"
shell = 'echo "$FANIN_TOKEN" > new.part; mv new.part new; until [ -e over ]; do sleep 0.01; done'

[[task]]
id = "thief"
depends = ["ended"]
shell = '''
exec 2>&1
until [ -e new ]; do sleep 0.01; done
say() { fanin team recv --timeout 0s; echo "exit $?"; }
FANIN_TOKEN=$(cat old) say
FANIN_TOKEN=$(cat new) say
FANIN_TOKEN=$(cut -d/ -f1 new)/$(cut -d/ -f2 old) say
FANIN_TOKEN=nonsense say
FANIN_TOKEN= say
touch over'''
"#;
    let result = completed(&run_team(folder.path(), &plan.replace("SCRUBBED", SCRUBBED)));
    assert_eq!(output(&result, 0), "one\ntwo\n");
    assert_eq!(output(&result, 1), "");
    let said: Vec<&str> = output(&result, 4).lines().filter(|line| !line.starts_with("fanin: ")).collect();
    let ended =
        "error: bad_token: FANIN_TOKEN is of no run that lives here: its run has ended, or it is another's";
    let others = "error: bad_token: FANIN_TOKEN is of another job than the one that this program is part of";
    let expected = [ended, "exit 2", others, "exit 2", ended, "exit 2", ended, "exit 2", "exit 1"]
        .map(ToOwned::to_owned);
    assert_eq!(said, expected, "by its process it is let in, and finds nothing");
}

// T-9: an address is a name in one group.
#[cfg(target_os = "linux")]
#[test]
fn a_job_of_another_group_reaches_nobody_whatever_it_knows() {
    let folder = tempdir().unwrap();
    let mut agent = Agent::begun(folder.path());
    let shell = |line: &str| line.replace("fanin team", &format!("{FANIN} team"));
    let theirs = shell(
        "echo $FANIN_MAIL > door; echo $FANIN_TOKEN > token.part; mv token.part token; fanin team recv",
    );
    let victims = json!({ "background": true, "tasks": [
        { "id": "reader", "shell": theirs },
        { "id": "writer", "sends": ["reader"], "shell":
            shell("until [ -e tried ]; do sleep 0.01; done; fanin team send reader theirs") },
    ] });
    let launched = agent.call("task_parallel", &victims);
    let victim = launched["running"][0]["tasks"][0]["job"].as_str().unwrap().to_owned();
    made(folder.path(), "token");
    let thief = "fanin team send reader stolen; fanin team send VICTIM stolen; \
                 FANIN_TOKEN=$(cat token) fanin team send reader stolen; echo done";
    let thieves = json!({ "tasks": [
        { "id": "a", "sends": ["b"], "shell": shell(&thief.replace("VICTIM", &victim)) },
        { "id": "b", "shell": "true" },
    ] });
    let said = agent.call("task_parallel", &thieves);
    let output = said["results"][0]["tasks"][0]["output"].as_str().unwrap();
    let refused: Vec<&str> =
        output.lines().filter_map(|line| line.strip_prefix("error: ")?.split(':').next()).collect();
    assert_eq!(refused, ["unknown_target", "unknown_target", "bad_token"], "{output}");
    // One without mail finds no way, and none that it was told of lets it in.
    let alone = shell("fanin team recv; FANIN_MAIL=$(cat door) fanin team recv; touch tried");
    let said = agent.call("subagent", &json!({ "shell": alone }));
    let output = said["results"][0]["tasks"][0]["output"].as_str().unwrap();
    let refused: Vec<&str> =
        output.lines().filter_map(|line| line.strip_prefix("error: ")?.split(':').next()).collect();
    assert_eq!(refused, ["no_mail", "no_team"], "{output}");
    let over = agent.call("wait_for_subagents", &json!({}));
    let told = over.to_string();
    assert!(told.contains("\"output\":\"theirs\\n\"") && !told.contains("stolen"), "{told}");
}

// T-1: what goes on after a crash is told that its mailbox was reset, once.
#[cfg(target_os = "linux")]
#[test]
fn a_resumed_task_is_told_once_that_its_mail_is_gone() {
    let folder = tempdir().unwrap();
    let plan = r#"
[[task]]
id = "reader"
resume = "rerun"
shell = '''
exec 2>&1
touch reader.up
[ -e killed ] || exec sleep 600
fanin team recv --timeout 0s; echo "exit $?"
fanin team recv'''

[[task]]
id = "writer"
resume = "rerun"
sends = ["reader"]
shell = '''
[ -e killed ] || { fanin team send reader lost; touch writer.up; exec sleep 600; }
fanin team send reader kept'''
"#;
    let plan = plan.replace("fanin team", &format!("{FANIN} team"));
    fs::write(folder.path().join("team.toml"), plan).unwrap();
    let running = Running::start(fanin(folder.path(), &["run", "team.toml"]));
    made(folder.path(), "reader.up");
    made(folder.path(), "writer.up");
    fs::write(folder.path().join("killed"), "").unwrap();
    running.signal("KILL");
    running.end();
    let resumed = Running::start(fanin(folder.path(), &["resume", "--json"])).end();
    let result = completed(&resumed);
    let said: Vec<&str> = output(&result, 0).lines().filter(|line| !line.starts_with("fanin: ")).collect();
    assert!(said[0].starts_with("error: mailbox_reset: "), "{said:?}");
    assert_eq!(said[1..], ["exit 75", "kept"]);
    let left = fs::read_dir(folder.path().join(".state/runs")).unwrap().map(|run| run.unwrap().path());
    assert!(left.into_iter().all(|run| !run.join("mail.sock").exists()), "the door goes with its owner");
}

// What the guide shows is so.
#[test]
fn the_example_with_mail_completes() {
    let folder = tempdir().unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/mail.toml");
    let mut command = fanin(folder.path(), &["run", "--json", example]);
    let here = Path::new(FANIN).parent().unwrap().display().to_string();
    command.env("PATH", format!("{here}:{}", std::env::var("PATH").unwrap_or_default()));
    let result = completed(&Running::start(command).end());
    let of = |verb: &str| ["users", "orders", "items"].map(|table| format!("{verb} {table}\n")).concat();
    assert_eq!([output(&result, 1), output(&result, 2)], [of("reads"), of("writes")]);
    assert_eq!(output(&result, 3), "2\n");
}
