//! Agents that do what they are told.

use fanin_protocol::record::Usage;

use super::*;

#[tokio::test]
async fn the_last_message_is_the_output_and_calls_are_parts() {
    let place = place().await;
    let script =
        "say I will look.; think hm; tool a read x; done a; tool b execute; failed b; say Two\\n; say lines.";
    let entry = place.run(script).await;
    assert_eq!((entry.summary().as_str(), text(&entry)), ("completed", "Two\nlines."));
    assert_eq!((entry.exit_code, entry.runs), (None, 1));
    let parts = ["a read: Pending Running Completed", "b execute: Pending Running Error"];
    assert_eq!(place.parts().await, parts);
}

#[tokio::test]
async fn words_before_a_call_count_where_none_follow() {
    let place = place().await;
    let entry = place.run("say Done.; tool a read; done a").await;
    assert_eq!((entry.summary().as_str(), text(&entry)), ("completed", "Done."));
}

// S-3: whoever reads the records after a crash finds the agent's session, also where the prompt was the last thing.
#[tokio::test]
async fn the_session_is_recorded_with_its_process_before_anything_of_the_prompt() {
    let place = place().await;
    place.run("tool a read; done a").await;
    let records = place.records(&["run.bound", "part"]).await;
    let [Record::RunBound(bound), rest @ ..] = &records[..] else { panic!("{records:?}") };
    assert_eq!(bound.external_session.as_deref(), Some("fake-session"));
    assert!(bound.pid.is_some() && bound.containment.is_some());
    assert_eq!(rest.len(), 3);
}

// J-23: a turn that ends well is one in which something happened.
#[tokio::test]
async fn a_turn_with_a_call_or_usage_is_done_and_an_empty_one_is_not() {
    let place = place().await;
    for (script, end) in [
        ("", "error{failed no_output}"),
        ("think hm", "error{failed no_output}"),
        ("usage 0 0", "error{failed no_output}"),
        ("tool a read; done a", "completed"),
        ("usage 10 0", "completed"),
    ] {
        let script = format!("{script}; stop end_turn");
        assert_eq!(place.run(&script).await.summary(), end, "{script}");
    }
}

#[tokio::test]
async fn what_an_agent_has_used_is_recorded_once_at_its_last_word() {
    let place = place().await;
    place.run("usage 10 0.001; usage 20 0.002; usage 20 0.002; usage 30 0.00234; say x").await;
    let costs = |records: Vec<Record>| -> Vec<_> {
        let of = |record| match record {
            Record::Usage(Usage { source, cost_usd_micros, .. }) if source == "acp" => cost_usd_micros,
            other => panic!("{other:?}"),
        };
        records.into_iter().map(of).collect()
    };
    assert_eq!(costs(place.records(&["usage"]).await), [Some(1_000), Some(2_340)]);
}

#[tokio::test]
async fn the_reason_of_our_turn_decides() {
    let place = place().await;
    for (reason, end) in [
        ("end_turn", "completed"),
        ("max_tokens", "error{failed agent_limit}"),
        ("max_turn_requests", "error{failed agent_limit}"),
        ("refusal", "error{failed refusal}"),
        ("cancelled", "error{failed}"),
    ] {
        let entry = place.run(&format!("say so far; stop {reason}")).await;
        assert_eq!((entry.summary().as_str(), text(&entry)), (end, "so far"), "{reason}");
    }
}

#[tokio::test]
async fn an_agent_works_in_the_folder_of_its_task_with_an_environment_of_its_own() {
    // Whatever else is there: this is no variable that agents get.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let folder = tempfile::tempdir().unwrap();
    let place = place().await;
    let script = "folder; say \\n; env A; say \\n; env CARGO_MANIFEST_DIR; say \\n; env FANIN_RIGHTS";
    let mut spec = spec_in(folder.path(), script);
    spec.env.insert("A".to_owned(), "1".to_owned());
    let entry = place.ended(JobSpec::new("job", spec)).await;
    assert_eq!(text(&entry), format!("{}\n1\nunset\nfull", folder.path().display()));
    let script = "env FANIN_PARENT";
    let entry = place.run(script).await;
    assert!(text(&entry).starts_with("parent/") && text(&entry).ends_with("/1"), "{}", text(&entry));
    let entry = place.run("env FANIN_TOKEN").await;
    assert!(text(&entry).starts_with(&format!("{}/", entry.job)), "it is the token of this job");
}

#[tokio::test]
async fn a_command_agent_gets_its_prompt_as_one_argument() {
    let place = place().await;
    let entry = place.ended(JobSpec::agent("job", "plain", "it's $(x); \"y\"")).await;
    assert_eq!((entry.summary().as_str(), text(&entry)), ("completed", "plain: it's $(x); \"y\"\n"));
}

#[tokio::test]
async fn a_fan_out_of_agents_wakes_its_parent_once_in_launch_order() {
    let place = place().await;
    let names = ["a", "b", "c", "d", "e"];
    let specs = names.map(|name| JobSpec::agent(name, "well", format!("say {name}")));
    soon(place.session.fan_out(specs)).await.unwrap();
    let wake = soon(place.session.next_wake()).await.unwrap();
    let texts: Vec<_> = wake.result().entries.iter().map(text).collect();
    assert_eq!(texts, names);
    wake.ack().await.unwrap();
    fanin_tests::cases::assert_nothing_lives(&place.supervisor);
}

#[tokio::test]
async fn an_agent_that_ends_in_order_is_heard_to_its_last_word() {
    let folder = tempfile::tempdir().unwrap();
    let unheard = folder.path().join("unheard");
    let place = place().await;
    for script in ["say x", "stop refusal", "error -32603"] {
        let mut spec = spec_in(folder.path(), script);
        spec.env.insert("FAKE_UNHEARD".to_owned(), unheard.to_str().unwrap().to_owned());
        place.ended(JobSpec::new("job", spec)).await;
        assert!(!unheard.exists(), "{script}: {:?}", std::fs::read_to_string(&unheard));
    }
}

// B55: nothing of a launch exists where one of its agents does not.
#[tokio::test]
async fn an_unknown_agent_is_refused_at_launch_with_those_that_there_are() {
    let place = place_of(Agents::default()).await;
    let specs = [JobSpec::agent("a", "opencode", "x"), JobSpec::agent("b", "opencod", "x")];
    let error = place.session.fan_out(specs).await.unwrap_err().to_string();
    assert!(error.contains("there is no agent `opencod`; there are claude, codex, opencode"), "{error}");
    assert_eq!(place.records(&["job.queued"]).await, []);
}

// J-24
#[tokio::test]
async fn a_follow_up_is_the_next_prompt_after_the_turn_and_its_answer_is_the_output() {
    let place = place().await;
    let folder = tempfile::tempdir().unwrap();
    let script = "say first; make ready; until go; tool a read; done a; say first";
    let job = place.start(JobSpec::new("job", spec_in(folder.path(), script))).await;
    soon(async {
        while !folder.path().join("ready").exists() {
            tokio::time::sleep(MS).await;
        }
    })
    .await;
    job.extend("tool b read; done b; say second").await.unwrap();
    job.extend("say third").await.unwrap();
    std::fs::write(folder.path().join("go"), "").unwrap();
    let entry = job.wait(STUCK).await.unwrap();
    assert_eq!((entry.summary().as_str(), text(&entry)), ("completed", "third"));
    let parts = ["a read: Pending Running Completed", "b read: Pending Running Completed"];
    assert_eq!(place.parts().await, parts);
    let late = job.extend("say never").await.unwrap_err();
    assert_eq!(late.code(), "not_accepted");
}

// The prompt that failed has left nothing to follow up.
#[tokio::test]
async fn a_follow_up_to_a_turn_that_fails_is_counted_as_unanswered() {
    let place = place().await;
    let folder = tempfile::tempdir().unwrap();
    let script = "make ready; until go; say so far; stop refusal";
    let job = place.start(JobSpec::new("job", spec_in(folder.path(), script))).await;
    soon(async {
        while !folder.path().join("ready").exists() {
            tokio::time::sleep(MS).await;
        }
    })
    .await;
    job.extend("say never").await.unwrap();
    std::fs::write(folder.path().join("go"), "").unwrap();
    let entry = job.wait(STUCK).await.unwrap();
    assert_eq!((entry.summary().as_str(), text(&entry)), ("error{failed refusal}", "so far"));
    assert_eq!(entry.unanswered, 1);
}

// T-3, R-5: behind its own words an agent is told what the jobs put out that it needs, as data; a command that takes a
// prompt is told the same, within what an argument may hold.
#[tokio::test]
async fn an_agent_is_told_what_it_needs_behind_its_prompt_and_as_data() {
    let place = place().await;
    let large = "x".repeat(60_000);
    let specs = [
        JobSpec::agent("schema", "well", "say id name"),
        JobSpec::run("large", |_| async { Ok(large.into()) }),
        JobSpec::agent("reader", "well", "say I read\\n").after(["schema"]),
        JobSpec::agent("plain", "plain", "p".repeat(100_000)).after(["schema", "large"]),
    ];
    let group = soon(place.session.fan_out(specs)).await.unwrap();
    let result = soon(group.wait(STUCK)).await.unwrap();
    let told = text(&result.entries[2]);
    let (own, block) = told.split_once("This task needs the jobs below").unwrap_or_else(|| panic!("{told}"));
    assert!(own.starts_with("I read"), "{told}");
    let mark = block.split("<<<").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    assert_eq!(mark.len(), 16, "{told}");
    assert!(block.contains(&format!("<<<{mark} output of [0]\nid name\n>>>{mark}")), "{told}");
    assert_eq!(result.entries[3].summary(), "completed", "{:?}", result.entries[3].message);
    let bytes = result.entries[3].output.as_ref().map_or(0, |output| output.bytes_total);
    assert!((110_000..131_072).contains(&bytes), "{bytes}");
}
