//! Turns, wakes, and the end.

use super::*;

// B13: the program stays until the group is done, and the parent has had its next turn.
#[test]
fn a_parent_that_launches_and_ends_its_turn_is_woken_once_and_its_last_words_are_the_output() {
    let place = Place::new();
    let launch = background(&["echo one", "sleep 0.4 && echo two", "exit 3"]);
    let ended = place.exec(&format!("{launch}; say launched || say closing words"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing words\n"), "{}", ended.err);
    let prompts = place.prompts();
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    assert!(prompts[0].starts_with("call task_parallel"), "{prompts:?}");
    let wake = &prompts[1];
    assert!(wake.starts_with("[fanin] All that you launched in the background is over."), "{wake}");
    let places = ["[0]", "one\n", "[1]", "two\n", "[2]", "exit status 3"]
        .map(|words| wake.find(words).unwrap_or_else(|| panic!("no {words:?} in {wake}")));
    assert!(places.is_sorted(), "{wake}");
    assert_eq!(place.alive(), Vec::<String>::new());
}

#[test]
fn a_parent_that_launches_nothing_has_one_turn() {
    let place = Place::new();
    let ended = place.exec("say all done");
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "all done\n"), "{}", ended.err);
    assert_eq!(place.prompts(), ["say all done"]);
}

// 0050: what an answer has handed over is no wake.
#[test]
fn a_result_that_a_call_has_answered_wakes_nobody() {
    let place = Place::new();
    let ended = place.exec("call subagent {\"shell\": \"echo hi\"}; answer || say never");
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.starts_with("1 of 1 completed"), "{}", ended.out);
    assert_eq!(place.prompts().len(), 1);
    let launch = background(&["echo a", "echo b"]);
    let ended = place.exec(&format!("{launch}; call wait_for_subagents; answer || say never"));
    assert!(ended.out.starts_with("2 of 2 completed"), "{}", ended.out);
    assert_eq!(place.prompts().len(), 2);
}

#[test]
fn what_is_over_within_the_turn_is_told_after_it_and_not_with_other_answers() {
    let place = Place::new();
    let launch = background(&["echo a", "touch over"]);
    let ended = place.exec(&format!("{launch}; until over; work 100; call jobs; answer || say closing"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
    let prompts = place.prompts();
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    assert!(prompts[1].contains("2 completed"), "{}", prompts[1]);
}

// BAR-6: one barrier for all that was launched in a turn.
#[test]
fn several_launches_of_a_turn_are_one_wake_with_all_results_in_launch_order() {
    let place = Place::new();
    let one = |line: &str| format!("call subagent {{\"background\": true, \"shell\": {line:?}}}");
    let script =
        [one("sleep 0.5 && echo first"), one("echo second"), one("sleep 0.2 && echo third")].join("; ");
    let ended = place.exec(&format!("{script}; say launched || say closing || say never"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
    let prompts = place.prompts();
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    let places =
        ["The 3 results", "first\n", "second\n", "third\n"].map(|words| prompts[1].find(words).unwrap());
    assert!(places.is_sorted(), "{}", prompts[1]);
}

#[test]
fn a_turn_that_was_woken_can_launch_again() {
    let place = Place::new();
    let script = format!(
        "{}; say 1 || {}; say 2 || say 3",
        background(&["true", "true"]),
        background(&["true", "false"])
    );
    let ended = place.exec(&script);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "3\n"), "{}", ended.err);
    assert_eq!(place.prompts().len(), 3);
}

// W-7: a chain of turns without its user ends, what is owed stays so, and who goes on is a user.
#[test]
fn a_parent_is_woken_so_often_and_its_user_can_go_on() {
    let place = Place::new();
    let turn = |n: u32| format!("{}; say {n}", background(&["true", "echo kept"]));
    let script = format!("{} || {} || {} || say closing", turn(1), turn(2), turn(3));
    let ended = place.run(&["exec", "-a", "keeps", "--wakes", "2", "--json", &script]);
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    let document = ended.document();
    assert_eq!(
        (&document["exit"]["name"], &document["error"]["code"], &document["wakes"], &document["text"]),
        (&"autonomy".into(), &"autonomy".into(), &2.into(), &"3".into())
    );
    assert_eq!(place.prompts().len(), 3);
    let ended = place.run(&["resume"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
    let prompts = place.prompts();
    assert!(prompts.len() == 4 && prompts[3].contains("\nkept\n"), "{prompts:?}");
    assert!(!prompts[3].contains("interrupted"), "{}", prompts[3]);
}

#[test]
fn the_document_has_the_words_the_results_and_the_exit() {
    let place = Place::new();
    let script = format!("{}; say 1 || say two words", background(&["echo a", "exit 4"]));
    let ended = place.run(&["exec", "-a", "keeps", "--json", &script]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let document = ended.document();
    assert_eq!(document["schema"], "fanin.exec/1");
    assert_eq!(
        (&document["text"], &document["turns"], &document["wakes"]),
        (&"two words".into(), &2.into(), &1.into())
    );
    assert_eq!(document["exit"]["name"], "done");
    let entries = document["results"][0]["entries"].as_array().unwrap();
    assert_eq!((entries.len(), &entries[1]["exit_code"]), (2, &4.into()));
    let strict = place.run(&["exec", "-a", "keeps", "--json", "--fail-on", "partial", &script]);
    assert_eq!((strict.code, &strict.document()["exit"]["name"]), (Some(1), &"some_not_completed".into()));
}

// The store of a parent shows its turns with the agent's session, each recorded before it was asked (J-3).
#[test]
fn each_turn_is_a_run_of_the_session_with_its_calls() {
    let place = Place::new();
    let ended =
        place.exec(&format!("{}; say 1 || tool x read; done x; say 2", background(&["true", "true"])));
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let of_parent: Vec<String> = place
        .events()
        .iter()
        .filter(|event| event["job"].is_null())
        .filter_map(|event| match event["kind"].as_str().unwrap() {
            "run.bound" => Some(format!("bound {}", event["body"]["external_session"].as_str().unwrap())),
            "part" => Some(format!(
                "{} {}",
                event["body"]["name"].as_str().unwrap(),
                event["body"]["state"].as_str().unwrap()
            )),
            kind @ ("run.started" | "run.ended" | "group.fired" | "message.taken") => Some(kind.to_owned()),
            _ => None,
        })
        .collect();
    let call = |name: &str| ["pending", "running", "completed"].map(|state| format!("{name} {state}"));
    let turn = |calls: [String; 3]| {
        let begun = ["run.started", "bound fake-session"].map(str::to_owned);
        begun.into_iter().chain(calls).collect::<Vec<_>>()
    };
    let without_fired: Vec<_> = of_parent.iter().filter(|line| *line != "group.fired").cloned().collect();
    let mut expected = turn(call("other"));
    expected.push("run.ended".to_owned());
    expected.extend(turn(call("read")));
    expected.extend(["message.taken", "run.ended"].map(str::to_owned));
    assert_eq!(without_fired, expected);
    assert_eq!(of_parent.iter().filter(|line| *line == "group.fired").count(), 1);
}

// W-2, W-3: a turn that fails takes nothing; it is driven again.
#[test]
fn a_wake_whose_turn_fails_comes_again_to_an_agent_that_was_started_again() {
    let place = Place::new();
    let script = format!("{}; say 1 || exit 3 || say closing", background(&["echo a", "echo b"]));
    let ended = place.exec(&script);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
    let prompts = place.prompts();
    assert_eq!(prompts.len(), 3, "{prompts:?}");
    assert!(prompts[1].contains("[0]") && prompts[2].contains("[0]"), "{prompts:?}");
    assert!(prompts[2].contains("You were interrupted in your last turn"), "{}", prompts[2]);
}

#[test]
fn a_first_turn_that_fails_is_the_end_and_says_why() {
    let place = Place::new();
    let ended = place.exec("say so far; stop refusal");
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{}", ended.err);
    assert!(ended.err.contains("error: the closing turn failed (refusal): "), "{}", ended.err);
    assert!(ended.err.ends_with("fanin: exit 1 (turn_failed)\n"), "{}", ended.err);
    let ended = place.exec("");
    assert_eq!(ended.code, Some(2), "an empty objective: {}", ended.err);
    // B15: nothing came of it.
    let ended = place.exec("think hm");
    assert!(ended.err.contains("(no_output)"), "{}", ended.err);
    // One that does not come up is tried again, and then says what it wrote.
    let ended = place.run(&["exec", "-a", "dies", "say x"]);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.contains("no licence"), "{}", ended.err);
}

// B13, with a time limit that bites.
#[test]
fn a_limit_of_time_ends_it_and_names_what_is_not_finished() {
    let place = Place::new();
    let script = format!("{}; say 1 || say never", background(&["true", "sleep 61"]));
    let ended = place.run(&["exec", "-a", "keeps", "--timeout", "1s", &script]);
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    assert!(ended.err.contains("error: not finished: sleep 61"), "{}", ended.err);
    assert!(ended.err.ends_with("fanin: exit 3 (deadline)\n"), "{}", ended.err);
    assert_eq!(place.alive(), Vec::<String>::new());
    // Within a turn it is the turn that is cut short.
    let ended = place.run(&["exec", "-a", "keeps", "--timeout", "500ms", "--json", "say so far; wait"]);
    assert_eq!(
        (ended.code, &ended.document()["exit"]["name"]),
        (Some(3), &"deadline".into()),
        "{}",
        ended.err
    );
    assert_eq!(place.alive(), Vec::<String>::new());
}

// B34: whoever stops the parent stops all below it.
#[test]
fn a_second_signal_stops_the_turn_and_all_jobs() {
    let place = Place::new();
    let script = format!("{}; make ready; wait || say never", background(&["sleep 61", "sleep 62"]));
    let running = place.start(&["exec", "-a", "keeps", &script]);
    place.made("ready");
    running.signal("INT");
    running.signal("TERM");
    let ended = running.end();
    assert!(matches!(ended.code, Some(130 | 143)), "{ended:?}");
    assert_eq!(place.alive(), Vec::<String>::new());
}

#[test]
fn a_first_signal_lets_what_runs_finish_and_the_parent_close() {
    let place = Place::new();
    let script =
        format!("{}; make ready; until go; say 1 || say closing", background(&["sleep 0.3", "until=1"]));
    let running = place.start(&["exec", "-a", "keeps", &script]);
    place.made("ready");
    running.signal("TERM");
    fs::write(place.path("go"), "").unwrap();
    let ended = running.end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
}

// SEC-4: what a parent may not do itself it cannot have done.
#[test]
fn a_parent_that_may_only_read_launches_no_commands() {
    let place = Place::new();
    let script = "call subagent {\"shell\": \"touch made\"}; answer";
    let ended = place.run(&["exec", "-a", "keeps", "--rights", "read-only", script]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "nothing was done\n"), "{}", ended.err);
    assert!(!place.path("made").exists());
    // Its workers are agents, with no more rights than it has.
    let script = "call subagent {\"agent\": \"well\", \"prompt\": \"env FANIN_RIGHTS\", \"background\": true}; say 1 || say 2";
    let ended = place.run(&["exec", "-a", "keeps", "--rights", "read-only", "--json", script]);
    let output = &ended.document()["results"][0]["entries"][0]["output"]["text"];
    assert_eq!(output, "read-only", "{}", ended.err);
}

#[test]
fn an_agent_that_starts_its_server_again_finds_its_jobs_and_is_woken_once() {
    let place = Place::new();
    let launch = background(&["until=1; sleep 0.3", "true"]).replace("; sleep", " && sleep");
    let ended = place.exec(&format!("{launch}; leave-tools; call jobs; answer || say closing"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
    assert_eq!(place.prompts().len(), 2);
}

// BAR-12: a lost connection is a waiter that leaves, and stops nothing.
#[test]
fn a_foreground_call_whose_client_goes_becomes_a_wake() {
    let place = Place::new();
    let call = "ask-tool subagent {\"shell\": \"touch begun && sleep 2 && echo kept\"}; until begun";
    let ended = place.exec(&format!("{call}; leave-tools; say gone || say closing"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
    let prompts = place.prompts();
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    assert!(prompts[1].contains("[0]") && prompts[1].contains("\nkept\n"), "{}", prompts[1]);
}

#[test]
fn what_cannot_be_a_parent_is_refused_and_leaves_nothing() {
    let place = Place::new();
    let config = fs::read_to_string(place.path("fanin.toml")).unwrap();
    let plain = "[agents.plain]\nkind = \"command\"\ncommand = [\"echo\", \"{prompt}\"]\n";
    fs::write(place.path("fanin.toml"), config + plain).unwrap();
    for (agent, why) in [("nobody", "there is no agent `nobody`"), ("plain", "is a command")] {
        let ended = place.run(&["exec", "-a", agent, "say x"]);
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        assert!(ended.err.contains(why), "{}", ended.err);
    }
    assert!(!place.path(".state/runs").exists());
    let ended = place.run(&["exec", "-a", "keeps", "--no-store", "say kept nowhere"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "kept nowhere\n"), "{}", ended.err);
    assert!(!place.path(".state/runs").exists());
}

// SEC-5: a worker that finds the way to its parent's tools does not get in.
#[test]
fn a_worker_does_not_come_in_by_the_door_of_its_parent() {
    let place = Place::new();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"w","version":"1"}}}"#;
    fs::write(place.path("hello"), format!("{hello}\n")).unwrap();
    // Without its marks, too.
    let come_in = |clean: &str, to: &str| {
        format!("{clean} {FANIN} mcp --door .state/runs/ses_*/door.sock < hello > {to}")
    };
    let lines = [come_in("", "marked"), come_in("env -i", "clean")];
    let script = format!("{}; say 1 || say closing", background(&[&lines[0], &lines[1]]));
    let ended = place.exec(&script);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
    for answer in ["marked", "clean"] {
        assert_eq!(fs::read_to_string(place.path(answer)).unwrap(), "", "{answer}");
    }
    let outside = ended.err.matches("stays outside: it is part of a job").count();
    assert_eq!(outside, 2, "{}", ended.err);
}

// An agent that asks is let at our tools whatever its rights, by their whole names and by nothing that only begins so.
#[test]
fn our_tools_are_allowed_under_any_rights_and_nothing_that_only_looks_like_them() {
    let place = Place::new();
    let asked = [
        "mcp__fanin__subagent other",
        "fanin_jobs unsaid",
        "fanin_jobs execute",
        "mcp__fanin__subagent&&rm other",
    ];
    let script = asked.map(|asked| format!("ask-as {asked}")).join("; ");
    let ended = place.run(&["exec", "-a", "keeps", "--rights", "read-only", &script]);
    let told: Vec<&str> = ended.out.lines().collect();
    let expected = ["the allow_once", "the allow_once", "the reject_once", "the reject_once"];
    assert_eq!(told, expected, "{}", ended.err);
}

// What a call answers once the turn is over, nobody hears: it waits no longer, and its result is a wake.
#[test]
fn a_call_that_is_open_when_the_turn_ends_becomes_a_wake() {
    let place = Place::new();
    for call in ["subagent", "wait_for_subagents"] {
        let launch = |background: bool| {
            let line = "touch begun && until [ -e go ]; do sleep 0.01; done; echo kept".replace("; ", "\n");
            format!("subagent {}", serde_json::json!({ "shell": line, "background": background }))
        };
        let first = match call {
            "subagent" => format!("ask-tool {}", launch(false)),
            _ => format!("call {}; ask-tool wait_for_subagents", launch(true)),
        };
        for file in ["begun", "go"] {
            let _ = fs::remove_file(place.path(file));
        }
        fs::write(place.path("prompts"), "").unwrap();
        let script = format!("{first}; until begun; say left || say closing");
        let running = place.start(&["exec", "-a", "keeps", &script]);
        running.wait_for("it is woken when 1 job is over");
        fs::write(place.path("go"), "").unwrap();
        let ended = running.end();
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{call}: {}", ended.err);
        let prompts = place.prompts();
        assert_eq!(prompts.len(), 2, "{call}: {prompts:?}");
        assert!(prompts[1].contains("\nkept\n"), "{call}: {}", prompts[1]);
    }
}

// An agent tells the running cost of its session. Charged whole in each turn, it would pay for the first one again.
#[test]
fn each_turn_pays_its_own_share_of_what_the_session_costs() {
    let place = Place::new();
    let launch = background(&["true", "true"]);
    let script = format!("usage 10 0.25; {launch}; say launched || usage 20 0.4; say closing");
    let ended = place.exec(&script);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
    let mut paid: Vec<(String, u64)> = Vec::new();
    for usage in place.events().iter().filter(|event| event["kind"] == "usage") {
        let turn = usage["run"].to_string();
        // A later one of a turn takes the place of the one before.
        paid.retain(|(known, _)| *known != turn);
        paid.extend(usage["body"]["cost_usd_micros"].as_u64().map(|cost| (turn, cost)));
    }
    let paid: Vec<_> = paid.into_iter().map(|(_, cost)| cost).collect();
    assert_eq!(paid, [250_000, 150_000]);
}

// An agent that is gone when its jobs are over is started again, in its own session.
#[test]
fn an_agent_that_ends_after_its_turn_is_started_again_for_its_wake() {
    let place = Place::new();
    for end in ["exit 0", "abort", "close"] {
        fs::write(place.path("prompts"), "").unwrap();
        let script =
            format!("{}; say 1; twice; {end} || say closing", background(&["sleep 0.3", "echo kept"]));
        let ended = place.exec(&script);
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{end}: {}", ended.err);
        let prompts = place.prompts();
        assert_eq!(prompts.len(), 2, "{end}: {prompts:?}");
        assert!(
            prompts[1].contains("\nkept\n") && !prompts[1].contains("lost your context"),
            "{}",
            prompts[1]
        );
        assert_eq!(place.alive(), Vec::<String>::new(), "{end}");
    }
}

// What it launches between its turns, over tools that it still has, is a wake like any other.
#[test]
fn what_is_launched_behind_the_end_of_a_turn_is_waited_for() {
    let place = Place::new();
    let first = background(&["touch one", "true"]);
    let late = background(&["sleep 0.3", "echo kept"]);
    let ended = place.exec(&format!("{first}; say 1; twice; until one; {late} || say 2 || say 3 || say 4"));
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let told: Vec<_> = place.prompts().into_iter().filter(|prompt| prompt.contains("\nkept\n")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(place.alive(), Vec::<String>::new());
}

// The way to its tools can be taken away from it, and what it had launched before comes all the same.
#[test]
fn a_door_that_is_gone_takes_no_wake_along() {
    let place = Place::new();
    let script = format!(
        "{}; leave-tools; make ready; until go; say 1 || say closing",
        background(&["until=1", "echo kept"])
    );
    let running = place.start(&["exec", "-a", "keeps", &script]);
    place.made("ready");
    let doors: Vec<_> = fs::read_dir(place.path(".state/runs")).unwrap().flatten().collect();
    fs::remove_file(doors[0].path().join("door.sock")).unwrap();
    fs::write(place.path("go"), "").unwrap();
    let ended = running.end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
    assert!(place.prompts()[1].contains("\nkept\n"), "{:?}", place.prompts());
}
