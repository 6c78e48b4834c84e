//! Watches of a hosted parent: a firing wakes it, also while jobs run, and nobody stays for a watch (SC-22, SH-3).

use super::*;

fn watch(arguments: &str) -> String {
    format!("call watch {{{arguments}}}")
}

/// A job that goes on until `go` is there.
fn hold() -> String {
    "call subagent {\"background\": true, \"shell\": \"while ! test -e go\\ndo sleep 0.05\\ndone\\necho done\"}".to_owned()
}

#[test]
fn a_firing_wakes_the_parent_while_its_jobs_run_and_their_result_comes_later() {
    let place = Place::new();
    let looks = watch("\"label\": \"errors\", \"shell\": \"echo ERR 1 && sleep 60\", \"pattern\": \"ERR\"");
    let ended = place.exec(&format!(
        "{}; {looks}; say launched || make go; say noted || say closing || say never",
        hold()
    ));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
    let prompts = place.prompts();
    assert_eq!(prompts.len(), 3, "{prompts:?}");
    assert!(
        prompts[1].contains("Your watch errors fired (1)") && prompts[1].contains("\nERR 1\n"),
        "{}",
        prompts[1]
    );
    assert!(!prompts[1].contains("All that you launched"), "{}", prompts[1]);
    assert!(prompts[2].contains("done\n"), "{}", prompts[2]);
    assert_eq!(place.alive(), Vec::<String>::new());
}

#[test]
fn nobody_stays_for_a_watch_and_it_is_stopped() {
    let place = Place::new();
    let looks = watch("\"label\": \"never\", \"shell\": \"sleep 60\", \"pattern\": \"x\"");
    let ended = place.exec(&format!("{looks}; say nothing else to do || say never"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "nothing else to do\n"), "{}", ended.err);
    assert_eq!(place.prompts().len(), 1);
    assert_eq!(place.alive(), Vec::<String>::new());
    let ends = place.events().into_iter().filter(|event| event["kind"] == "job.ended");
    let ends: Vec<_> = ends.map(|event| event["body"]["cause"].clone()).collect();
    assert_eq!(ends, ["shutdown"]);
}

// W-3, W-5: a kill between firing and answer loses nothing.
#[test]
fn a_firing_survives_a_kill_and_wakes_the_parent_that_is_resumed() {
    let place = Place::new();
    let looks = watch(
        "\"label\": \"file\", \"every\": \"1s\", \"changes\": true, \"shell\": \"cat seen && touch looked\"",
    );
    fs::write(place.path("seen"), "zero\n").unwrap();
    let script = format!("{}; {looks}; say launched || make ready; deaf || say closing", hold());
    let running = place.start(&["exec", "--agent", "keeps", &script]);
    place.made("looked");
    fs::write(place.path("seen"), "one\n").unwrap();
    // It has its prompt, and does not answer.
    place.made("ready");
    running.signal("KILL");
    running.end();
    let ended = place.run(&["resume"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "closing\n"), "{}", ended.err);
    let prompts = place.prompts();
    assert_eq!(prompts.len(), 3, "{prompts:?}");
    assert!(prompts[1..].iter().all(|prompt| prompt.contains("Your watch file fired (1)")), "{prompts:?}");
    assert_eq!(place.alive(), Vec::<String>::new());
}
