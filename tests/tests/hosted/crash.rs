//! `kill -9` of the program, and `fanin resume`: the parent's closing turn, one wake, nothing open and nothing alive.

use super::*;

/// Parts of the store that have no end.
fn open_parts(events: &[Value]) -> Vec<String> {
    let mut open: Vec<String> = Vec::new();
    for part in events.iter().filter(|event| event["kind"] == "part") {
        let name = format!("{}/{}", part["run"], part["body"]["call"]);
        open.retain(|known| *known != name);
        if matches!(part["body"]["state"].as_str(), Some("pending" | "running")) {
            open.push(name);
        }
    }
    open
}

/// Kills it once the file is there, goes on with it, and checks that it came to its end with these last words.
fn killed_and_resumed(place: &Place, (agent, script): (&str, &str), ready: &str, last: &str) -> Vec<String> {
    let running = place.start(&["exec", "-a", agent, script]);
    place.made(ready);
    running.signal("KILL");
    running.end();
    let ended = place.run(&["resume"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), last), "{}", ended.err);
    let events = place.events();
    assert_eq!(open_parts(&events), Vec::<String>::new());
    let fired = events.iter().filter(|event| event["kind"] == "group.fired").count();
    let taken = events.iter().filter(|event| event["kind"] == "message.taken").count();
    assert_eq!(fired, taken, "each result was taken once");
    assert_eq!(place.alive(), Vec::<String>::new());
    let again = place.run(&["resume"]);
    assert!(again.err.contains("no run was interrupted"), "{}", again.err);
    place.prompts()
}

#[test]
fn a_parent_that_was_killed_in_its_turn_is_resumed_with_one_wake() {
    let place = Place::new();
    let launch = background(&["sleep 61", "echo fast", "sleep 62"]);
    let script = format!("{launch}; tool mine execute; make ready; deaf || say closing");
    let prompts = killed_and_resumed(&place, ("keeps", &script), "ready", "closing\n");
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    assert!(prompts[1].starts_with("[fanin] You were interrupted in your last turn"), "{}", prompts[1]);
    assert!(prompts[1].contains("error{interrupted}"), "{}", prompts[1]);
    // What the agent told of its earlier life and had no end was closed as interrupted.
    let closed = place.events().iter().rfind(|event| event["body"]["call"] == "mine").cloned().unwrap();
    assert_eq!((&closed["body"]["state"], &closed["body"]["interrupted"]), (&"error".into(), &true.into()));
}

#[test]
fn a_parent_that_was_killed_between_its_turns_is_resumed_with_one_wake() {
    let place = Place::new();
    let launch = background(&["touch ready && sleep 61", "echo fast"]);
    let script = format!("{launch}; say launched || say closing");
    let prompts = killed_and_resumed(&place, ("keeps", &script), "ready", "closing\n");
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    assert!(prompts[1].contains("error{interrupted}"), "{}", prompts[1]);
}

#[test]
fn an_agent_that_cannot_load_its_session_is_told_that_it_lost_its_context() {
    for agent in ["well", "forgets"] {
        let place = Place::new();
        let script = format!("{}; make ready; deaf || say closing", background(&["sleep 61", "echo fast"]));
        let prompts = killed_and_resumed(&place, (agent, &script), "ready", "closing\n");
        assert_eq!(prompts.len(), 2, "{prompts:?}");
        let lost = "[fanin] You were interrupted and have lost your context";
        assert!(prompts[1].starts_with(lost) && prompts[1].contains(&script), "{}", prompts[1]);
    }
}

#[test]
fn a_parent_that_was_killed_in_the_turn_of_its_wake_has_it_again() {
    let place = Place::new();
    let script = format!("{}; say 1 || make ready; deaf || say closing", background(&["echo a", "echo b"]));
    let prompts = killed_and_resumed(&place, ("keeps", &script), "ready", "closing\n");
    assert_eq!(prompts.len(), 3, "{prompts:?}");
    assert!(prompts[1..].iter().all(|prompt| prompt.contains("2 completed")), "{prompts:?}");
}

// Begun anew it could take twice as long as its user said.
#[test]
fn a_limit_of_time_goes_on_over_a_crash() {
    let (place, limit) = (Place::new(), Duration::from_secs(5));
    let script = format!("{}; make ready; deaf || say closing", background(&["sleep 61", "sleep 62"]));
    let running = place.start(&["exec", "-a", "keeps", "--timeout", "5s", &script]);
    place.made("ready");
    running.signal("KILL");
    running.end();
    // The time that passes is what is tried.
    std::thread::sleep(limit);
    let ended = place.run(&["resume"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{}", ended.err);
    assert!(ended.err.ends_with("fanin: exit 3 (deadline)\n"), "{}", ended.err);
    assert_eq!(place.prompts().len(), 1, "it was asked nothing more");
    assert_eq!(place.alive(), Vec::<String>::new());
    assert!(place.run(&["resume"]).err.contains("no run was interrupted"));
}

// Two crashes, and the second one in the turn that was to go on.
#[test]
fn a_parent_that_is_killed_again_while_it_goes_on_is_woken_with_the_same_result() {
    let place = Place::new();
    let script = format!(
        "{}; make ready; deaf || make again; deaf || say closing",
        background(&["sleep 61", "echo fast"])
    );
    let running = place.start(&["exec", "-a", "keeps", &script]);
    place.made("ready");
    running.signal("KILL");
    running.end();
    let running = place.start(&["resume"]);
    place.made("again");
    // Nobody else goes on with it meanwhile.
    let other = place.fanin(&["resume"]).output().unwrap();
    assert!(matches!(other.status.code(), Some(0 | 75)), "{other:?}");
    running.signal("KILL");
    running.end();
    let ended = place.run(&["resume"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
    let prompts = place.prompts();
    assert_eq!(prompts.len(), 3, "{prompts:?}");
    assert!(prompts[1..].iter().all(|prompt| prompt.contains("error{interrupted}")), "{prompts:?}");
    let events = place.events();
    assert_eq!(open_parts(&events), Vec::<String>::new());
    let count = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
    assert_eq!((count("group.fired"), count("message.taken")), (1, 1));
}

// What keeps it from going on is told, and takes nothing from it.
#[test]
fn a_parent_whose_agent_is_not_known_any_more_can_go_on_once_it_is() {
    let place = Place::new();
    let script = format!("{}; make ready; deaf || say closing", background(&["sleep 61", "echo fast"]));
    let running = place.start(&["exec", "-a", "keeps", &script]);
    place.made("ready");
    running.signal("KILL");
    running.end();
    let config = fs::read_to_string(place.path("fanin.toml")).unwrap();
    fs::write(place.path("fanin.toml"), "").unwrap();
    let refused = place.run(&["resume"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("there is no agent `keeps`"), "{}", refused.err);
    fs::write(place.path("fanin.toml"), config).unwrap();
    let ended = place.run(&["resume"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
}

// 100 by hand: FANIN_ROUNDS=100.
#[test]
fn killed_at_any_moment_it_comes_to_the_same_end() {
    let rounds = std::env::var("FANIN_ROUNDS").map_or(20, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let place = Place::new();
        let launch = background(&["sleep 0.2", "touch ready && sleep 0.4", "echo fast"]);
        let script = format!("{launch}; tool mine execute; work 150; done mine; say 1 || say closing");
        let running = place.start(&["exec", "-a", "keeps", &script]);
        place.made("ready");
        // The moment is what is tried: from the middle of the turn to after the end of the last job.
        std::thread::sleep(Duration::from_millis(round * 700 / rounds));
        running.signal("KILL");
        let killed = running.end();
        // One that had printed its result may have been over.
        if killed.out != "closing\n" {
            let ended = place.run(&["resume"]);
            assert_eq!(
                (ended.code, ended.out.as_str()),
                (Some(0), "closing\n"),
                "round {round}: {}",
                ended.err
            );
        }
        let events = place.events();
        assert_eq!(open_parts(&events), Vec::<String>::new(), "round {round}");
        let count = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
        assert_eq!((count("group.fired"), count("message.taken")), (1, 1), "round {round}");
        assert_eq!(place.alive(), Vec::<String>::new(), "round {round}");
    }
}
