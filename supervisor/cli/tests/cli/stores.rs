//! Stores of runs: what is shown of them while a run is at work, after it, and after it was killed.

use std::fs;

use serde_json::Value;

use crate::common::{Running, fanin, made};
use crate::place::{FAN_OUT, Place, followed, killed_run, newest, statuses};

#[test]
fn a_run_that_is_over_can_be_looked_at() {
    let place = Place::new();
    let ended = place.fanin(&["run", "--task", "good=echo fine", "--task", "bad=echo oops; exit 3"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let (id, _) = place.run();
    assert_eq!(place.shown(&["ps"]), "no jobs; --all shows what is over\n");
    assert_eq!(statuses(&place.json(&["ps", "--all", "--json"])), [("good", "completed"), ("bad", "error")]);
    let shown = place.shown(&["show", &id["grp_".len()..][..6]]);
    assert!(shown.starts_with(&format!("run {id}\n")), "{shown}");
    assert!(shown.ends_with(&ended.stdout), "the result as the run printed it: {shown}");
    for mark in ["barrier", "wake"] {
        assert!(shown.contains(mark), "{shown}");
    }
    let document = place.json(&["show", "--json", &id]);
    assert_eq!((&document["schema"], &document["group"]), (&"fanin.result/1".into(), &id.as_str().into()));
    assert_eq!(document["counts"]["error"], 1);
    let job = document["entries"][1]["job"].as_str().unwrap();
    assert_eq!(place.shown(&["output", job]), "oops\n");
    assert_eq!(place.shown(&["output", "--raw", &job[..12]]), "oops\n");
    assert!(place.shown(&["show", job]).contains("error (failed)"));
    assert_eq!(place.shown(&["why", &id]), format!("{id} waits for nothing: its result was taken\n"));
}

#[test]
fn records_are_contiguous_lines_and_a_cursor_goes_on_behind_them() {
    let place = Place::new();
    place.shown(&["run", "--task", "a=printf s3c; echo ret", "echo two"]);
    let all = place.shown(&["events", "--json"]);
    let lines: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mark, events) = lines.split_last().unwrap();
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(
        (&events[0]["kind"], &events[seqs.len() - 1]["kind"]),
        (&"store.opened".into(), &"store.closed".into())
    );
    let ended = events.iter().find(|event| event["kind"] == "run.ended").unwrap();
    assert!(ended["job"].is_string() && ended["group"].is_string(), "{ended}");
    assert!(!all.contains("s3c"), "content is not shown: {all}");
    let cursor = mark["mark"]["cursor"].as_str().unwrap();
    assert_eq!(place.shown(&["events", "--json", "--from", cursor]).lines().count(), 1, "only the mark");
    let last = seqs.len().to_string();
    assert_eq!(place.shown(&["events", "--from", &last]).lines().count(), 1);
    let other = place.fanin(&["events", "--from", "elsewhere:1"]);
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    assert!(other.stderr.contains("another log"), "{}", other.stderr);
    let above = place.fanin(&["events", "--json", "--from", &(seqs.len() + 1).to_string()]);
    assert_eq!((above.code, above.stdout.as_str()), (Some(2), ""), "{}", above.stderr);
    let document: Value = serde_json::from_str(&above.stderr).unwrap();
    assert_eq!(document["code"], "bad_place", "{document}");
}

#[test]
fn a_state_folder_that_cannot_be_read_is_named_with_the_way_out() {
    let place = Place::new();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    for words in [
        &["ps"][..],
        &["show"],
        &["store", "check"],
        &["resume"],
        &["resume", "abcd"],
        &["run", "--again", "abcd"],
    ] {
        let mut command = fanin(place.path(), words);
        command.env("FANIN_STATE_DIR", &file);
        let told = Running::start(command).end();
        assert!(matches!(told.code, Some(2 | 70)), "{words:?}: {}", told.stderr);
        for said in [file.to_str().unwrap(), "Not a directory", "set FANIN_STATE_DIR"] {
            assert!(told.stderr.contains(said), "{words:?}: {}", told.stderr);
        }
    }
}

#[test]
fn the_output_of_a_task_at_work_is_followed_from_elsewhere_to_its_end() {
    let place = Place::new();
    let (running, job, mut follow) = followed(&place);
    fs::write(place.path().join("second"), "").unwrap();
    follow.shows("one\ntwo\n");
    assert_eq!(place.shown(&["output", &job]), "one\ntwo\n", "and it is there for others");
    fs::write(place.path().join("third"), "").unwrap();
    let followed = follow.end();
    assert_eq!(
        (followed.code, followed.stdout.as_str()),
        (Some(0), "one\ntwo\nthree\n"),
        "{}",
        followed.stderr
    );
    assert_eq!(running.end().code, Some(0));
    assert_eq!(place.shown(&["output", "--follow", &job]), "one\ntwo\nthree\n");
}

#[test]
fn what_a_task_had_put_out_is_there_after_a_kill() {
    let place = Place::new();
    let (running, job, follow) = followed(&place);
    running.signal("KILL");
    running.end();
    let followed = follow.end();
    assert_eq!((followed.code, followed.stdout.as_str()), (Some(1), "one\n"), "{}", followed.stderr);
    let said = format!(
        "error: job {job} was interrupted: its supervisor is gone; this goes on with it: fanin resume "
    );
    assert!(followed.stderr.starts_with(&said), "{}", followed.stderr);
    assert_eq!(place.shown(&["output", &job]), "one\n");
    let resumed = place.fanin(&["resume", "--quiet", "--json"]);
    assert_eq!(resumed.code, Some(1), "{}", resumed.stderr);
    let result: Value = serde_json::from_str(&resumed.stdout).unwrap();
    assert_eq!(result["entries"][0]["output"]["text"], "one\n", "{}", resumed.stdout);
    assert_eq!(place.shown(&["output", &job]), "one\n", "also once it is recovered");
}

#[test]
fn an_id_that_names_nothing_is_told_with_the_way_out() {
    let place = Place::new();
    place.shown(&["run", "true"]);
    for (words, said) in [
        (&["show", "ffffffffffff"][..], "`fanin ps --all` lists what there is"),
        (&["why", "grp_ffffffffffff"], "`fanin ps --all` lists what there is"),
        (&["output", "zz"], "4 or more of its hex digits"),
        (&["show", "--store", "."], "there is no store in ."),
    ] {
        let ended = place.fanin(words);
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{words:?}: {}", ended.stderr);
    }
    let json = place.fanin(&["show", "--json", "ffffffffffff"]);
    let document: Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!((&document["schema"], &document["code"]), (&"fanin.error/1".into(), &"not_found".into()));
}

#[test]
fn no_store_keeps_the_run_and_no_records() {
    let place = Place::new();
    place.shown(&["run", "--no-store", "true"]);
    let (_, folder) = place.run();
    assert!(folder.join("result.json").exists() && !folder.join("store.db").exists());
    assert_eq!(place.shown(&["ps", "--all"]), "no jobs\n");
}

#[test]
fn whoever_follows_the_records_is_told_that_the_supervisor_was_killed() {
    let place = Place::new();
    let (running, job, follow) = followed(&place);
    let (run, _) = place.run();
    let mut text = Running::start(fanin(place.path(), &["events", "--follow"]));
    let json = Running::start(fanin(place.path(), &["events", "--follow", "--json", "--from", "2"]));
    running.signal("KILL");
    running.end();
    follow.end();
    text.wait_for("error: ");
    let text = text.end();
    let said = format!(
        "error: group {run} was interrupted: its supervisor is gone; this goes on with it: fanin resume {run}\n"
    );
    let end = format!("{said}fanin: exit 1 (some_not_completed)\n");
    assert!(text.code == Some(1) && text.stderr.ends_with(&end), "{}", text.stderr);
    assert!(text.stdout.contains("run.started"), "{}", text.stdout);
    let json = json.end();
    let error: Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!((json.code, &error["code"]), (Some(1), &"interrupted".into()));
    let mark: Value = serde_json::from_str(json.stdout.lines().last().unwrap()).unwrap();
    assert!(mark["mark"]["cursor"].is_string(), "{mark}");
    assert_eq!(place.fanin(&["events", "--follow", &job]).code, Some(1), "also where it was killed before");
    assert_eq!(place.shown(&["events", &job]), text.stdout, "a look alone is done");
    place.fanin(&["resume", "--quiet"]);
    assert!(place.shown(&["events", "--follow"]).contains("store.closed"));
}

#[test]
fn the_bytes_of_an_output_have_nothing_else_between_them() {
    let place = Place::new();
    place.shown(&["run", "yes a line of the middle | head -c 3000000; printf '\\377end'"]);
    let job = place.json(&["ps", "--all", "--json"])["jobs"][0]["job"].as_str().unwrap().to_owned();
    let mut command = fanin(place.path(), &["output", "--raw", &job]);
    let raw = command.output().unwrap();
    assert!(raw.status.success());
    assert!(!String::from_utf8_lossy(&raw.stdout).contains("left out"), "it is of the output alone");
    let said = String::from_utf8(raw.stderr).unwrap();
    let missing = 3_000_004 - raw.stdout.len();
    let expected = format!("fanin: warning: of the middle of this output {missing} bytes are left out\n");
    assert_eq!((said, raw.stdout.ends_with(b"\xffend")), (expected, true));
    assert!(place.shown(&["output", &job]).contains(&format!("[... {missing} bytes left out ...]")));
}

/// The time of a row of `ps`, which is `-` where nothing is known.
fn time_of<'p>(ps: &'p str, label: &str) -> &'p str {
    let row = ps.lines().find(|line| line.contains(label)).unwrap_or_else(|| panic!("no {label}: {ps}"));
    row.split_once(label).unwrap().1.split_whitespace().next().unwrap()
}

#[test]
fn what_is_at_work_has_a_time_that_goes_on_for_as_long_as_its_supervisor_lives() {
    let place = Place::new();
    let running = Running::start(fanin(place.path(), &[&["run", "-c", "2"], &FAN_OUT[..]].concat()));
    made(place.path(), "third");
    let ms = |time: &str| match time.strip_suffix("ms") {
        Some(ms) => ms.parse::<f64>().unwrap(),
        None => time.strip_suffix('s').unwrap().parse::<f64>().unwrap() * 1_000.0,
    };
    let first = ms(time_of(&place.shown(&["ps"]), "first"));
    let end = std::time::Instant::now() + crate::common::PATIENCE;
    while ms(time_of(&place.shown(&["ps"]), "first")) <= first {
        assert!(std::time::Instant::now() < end, "it stands at {first} ms");
    }
    let shown = place.shown(&["show"]);
    let row = shown.lines().find(|line| line.starts_with("first")).unwrap();
    let (_, state) = row.split_once("running (working) ").unwrap_or_else(|| panic!("{shown}"));
    assert!(ms(state) > first, "{shown}");
    assert_eq!(time_of(&place.shown(&["ps"]), "fourth"), "-", "what waits has none");
    running.signal("KILL");
    running.end();
    let dead = place.shown(&["ps"]);
    let known = time_of(&dead, "first");
    assert!(ms(known) > 0.0, "{dead}");
    assert_eq!(place.shown(&["ps"]), dead, "what is known of it goes no further");
    assert_eq!(place.shown(&["show"]), place.shown(&["show"]));
}

#[test]
fn a_task_between_two_tries_waits_for_the_next_one_and_for_no_slot() {
    let place = Place::new();
    let manifest = "[[task]]\nid = 'flaky'\nshell = 'touch tried; exit 1'\nretries = 9\n";
    fs::write(place.path().join("m.toml"), manifest).unwrap();
    let running = Running::start(fanin(place.path(), &["run", "--file", "m.toml"]));
    made(place.path(), "tried");
    let end = std::time::Instant::now() + crate::common::PATIENCE;
    // It waits a second at first, and twice as long each time.
    let until = |words: &[&str], said: &str| loop {
        let shown = place.shown(words);
        if shown.contains(said) {
            return shown;
        }
        assert!(std::time::Instant::now() < end, "{words:?}: {shown}");
    };
    until(&["ps"], "queued (backoff)");
    let jobs: Value = serde_json::from_str(&until(&["ps", "--json"], r#""phase":"backoff""#)).unwrap();
    let job = jobs["jobs"][0]["job"].as_str().unwrap();
    until(&["why", job], &format!("{job}: waits before its next try; "));
    running.signal("KILL");
    running.end();
}

#[test]
fn a_run_without_a_store_says_why_nothing_is_there() {
    let place = Place::new();
    place.shown(&["run", "--no-store", "true"]);
    let (id, folder) = place.run();
    for words in [
        &["show"][..],
        &["show", &id],
        &["show", &id[4..10]],
        &["events"],
        &["store", "check", folder.to_str().unwrap()],
    ] {
        let told = place.fanin(words);
        assert_eq!(told.code, Some(2), "{words:?}: {}{}", told.stdout, told.stderr);
        assert!(
            told.stderr.contains(&id) && told.stderr.contains("--no-store"),
            "{words:?}: {}",
            told.stderr
        );
    }
    let all = place.shown(&["store", "check"]);
    assert_eq!(all, "no store to check: the runs that are kept (1) have none (--no-store)\n");
}

/// The ids in a text, however short.
fn ids(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let is_id =
        |word: &&str| ["job_", "grp_"].iter().any(|kind| word.starts_with(kind) && word.len() > kind.len());
    words.filter(is_id).map(ToOwned::to_owned).collect()
}

#[test]
fn every_id_that_is_printed_names_what_it_stands_for() {
    let place = Place::new();
    let mut told = String::new();
    let mut see = |words: &[&str]| {
        let ended = place.fanin(words);
        told.push_str(&ended.stdout);
        told.push_str(&ended.stderr);
        ended
    };
    let over = see(&["run", "echo fine", "yes | head -c 3000000; exit 3"]);
    let over_id = over.again()[2].to_owned();
    let first = newest(&place, &[]);
    let second = killed_run(&place, &[&first]);
    let second_id = second.file_name().unwrap().to_str().unwrap().to_owned();
    for words in [
        &["ps"][..],
        &["ps", "--all"],
        &["show"],
        &["show", &second_id],
        &["why", &second_id],
        &["events"],
        &["events", "--follow"],
    ] {
        see(words);
    }
    let third = killed_run(&place, &[&first, &second]);
    let job = place.json(&["ps", "--json"])["jobs"][0]["job"].as_str().unwrap().to_owned();
    for words in [
        &["show", &job][..],
        &["show", &over_id],
        &["why", &job],
        &["output", "--follow", &job],
        &["output", &second_id],
        &["events", &over_id],
        &["show", "grp_"],
        &["show", "grp_0"],
        &["run", "--again", "0000"],
        &["resume"],
        &["resume", &over_id],
        &["store", "check"],
        &["sanitize"],
        &["resume", &second_id],
        &["resume", "--quiet"],
        &["show", third.file_name().unwrap().to_str().unwrap()],
    ] {
        see(words);
    }
    let mut ids = ids(&told);
    ids.sort();
    ids.dedup();
    // What was asked for and is told back is no hint.
    ids.retain(|id| id != "grp_0");
    assert!(ids.len() > 8, "{told}");
    for id in ids {
        let shown = place.fanin(&["show", &id]);
        assert_eq!(shown.code, Some(0), "{id}: {}", shown.stderr);
        let digits = id.split_once('_').unwrap().1;
        assert_eq!(place.fanin(&["show", digits]).code, Some(0), "{digits}");
    }
}

#[test]
fn a_list_of_all_counts_as_lost_what_is_open_alone_and_names_the_way_on() {
    let place = Place::new();
    let id = place.killed();
    let one = format!("3 of them have lost their supervisor\nthis goes on with it: fanin resume {id}\n");
    assert!(place.shown(&["ps", "--all"]).ends_with(&one), "{}", place.shown(&["ps", "--all"]));
    let first = place.run().1;
    fs::remove_file(place.path().join("first")).unwrap();
    killed_run(&place, &[&first]);
    let several = "4 of them have lost their supervisor; `fanin resume` lists their runs\n";
    assert!(place.shown(&["ps", "--all"]).ends_with(several), "{}", place.shown(&["ps", "--all"]));
    let looked = place.fanin(&["sanitize"]).stdout;
    assert!(
        looked.contains(&format!("nothing was changed; this goes on with it: fanin resume {id}\n")),
        "{looked}"
    );
}
