//! Mail between commands and agents: each agent of a group with mail is given the tools of it, and nobody else is.

use serde_json::json;

use super::*;

/// What each task put out, of a run that completed.
fn outputs(ended: &Ended) -> Vec<String> {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let document = ended.document();
    let entries = document["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["output"]["text"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn commands_and_agents_send_each_other_mail() {
    let place = Place::new();
    let plan = format!(
        r#"
[[task]]
id = "sink"
shell = "{FANIN} team recv --from sender"

[[task]]
id = "sender"
agent = "well"
rights = "read-only"
prompt = 'call team_send {{"to": "sink", "message": "from an agent"}}; call team_send {{"to": "reader", "message": "x"}}; code'
sends = ["sink"]

[[task]]
id = "reader"
agent = "well"
prompt = 'call team_recv {{"from": "source"}}; mail'

[[task]]
id = "source"
shell = "{FANIN} team send reader 'from a command'"
sends = ["reader"]

[[task]]
id = "beside"
agent = "well"
rights = "read-only"
prompt = 'call team_recv {{"timeout_ms": 0}}; code; servers; say .; ask-as fanin_team_team_send other; ask-as mail other'
"#
    );
    fs::write(place.path("m.toml"), plan).unwrap();
    let said = outputs(&place.run(&["run", "--json", "m.toml"]));
    assert_eq!(said[0], "from an agent\n");
    assert_eq!(said[1], "not_allowed", "its ways are those that were declared");
    assert_eq!(said[2], "from a command");
    // Nobody sends to it, and that is no error; its tools are its own to use, whatever its rights are.
    assert_eq!(said[4], "-servers: fanin_team.the allow_once\nthe reject_once\n");
}

#[test]
fn an_agent_whose_group_has_no_mail_is_given_no_tools() {
    let place = Place::new();
    let plan = "[[task]]\nagent = \"well\"\nprompt = 'servers'\n[[task]]\nshell = 'true'\n";
    fs::write(place.path("m.toml"), plan).unwrap();
    assert_eq!(outputs(&place.run(&["run", "--json", "m.toml"]))[0], "servers: ");
}

/// The step that launches tasks. Their own semicolons are none of the script's.
fn launch(tasks: &serde_json::Value) -> String {
    format!("call task_parallel {}", tasks.to_string().replace(';', "\\u003b"))
}

// The door for the mail of a hosted parent's jobs is opened with their first group that has any.
#[test]
fn the_jobs_of_a_hosted_parent_send_each_other_mail_and_the_parent_does_not() {
    let place = Place::new();
    let tasks = json!({ "background": true, "tasks": [
        { "id": "reader", "agent": "well", "prompt": "call team_recv {}; mail" },
        { "id": "writer", "shell": format!("{FANIN} team send reader hello"), "sends": ["reader"] },
    ] });
    let script = format!("{}; say launched || say over", launch(&tasks));
    let ended = place.run(&["exec", "-a", "keeps", "--json", &script]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let document = ended.document();
    let entries = &document["results"][0]["entries"];
    assert_eq!(entries[0]["output"]["text"], "hello", "{document}");
    // Who is no member has no such tool: its call is none.
    let ended = place.exec("call team_send {}; code; answer; say .");
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "--.\n"), "{}", ended.err);
}

// T-1: what waited when the program died goes on, and finds its mail.
#[test]
fn the_jobs_of_a_parent_that_is_resumed_find_their_mail() {
    let place = Place::new();
    let after = json!({ "depends": ["first"], "on_failed_dependency": "run" });
    let task = |id: &str, shell: String| {
        let mut task = after.clone();
        (task["id"], task["shell"]) = (id.into(), shell.into());
        task
    };
    let tasks = json!({ "background": true, "tasks": [
        { "id": "first", "shell": "touch ready; exec sleep 600" },
        task("writer", format!("{FANIN} team send reader after")),
        task("reader", format!("{FANIN} team recv --timeout 0s; echo $? > reset; {FANIN} team recv > got")),
    ] });
    let script = format!("{}; make launched; deaf || say closing", launch(&tasks));
    let running = place.start(&["exec", "-a", "keeps", &script]);
    place.made("ready");
    place.made("launched");
    running.signal("KILL");
    running.end();
    let ended = place.run(&["resume"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    assert_eq!((read("reset").as_str(), read("got").as_str()), ("75\n", "after\n"), "{}", ended.err);
}
