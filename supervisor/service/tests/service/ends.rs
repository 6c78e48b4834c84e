//! The end of a client, whichever it is: its waits leave, what it was given goes back, its jobs go on.

use std::time::Duration;

use bytes::BytesMut;
use fanin_client::{Call, Since, Subscribe, WaitCall};
use fanin_protocol::limits::{
    FRAME_BYTES_MAX, HELLO_WAIT, LAUNCH_CALLS_MAX, SERVICE_CALLS_MAX, SERVICE_CLIENTS_MAX, SERVICE_IDLE_WAIT,
};
use fanin_protocol::wire::{self, Answer, Asked, Hello, Range, Request, Told, Welcomed};
use fanin_protocol::{JobFilter, Reason};
use tokio::io::AsyncWriteExt;

use crate::common::{hello, launch, served, session, until};

#[tokio::test(start_paused = true)]
async fn what_a_lost_client_was_offered_goes_to_the_next_and_its_jobs_go_on() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let launched = client.launch(launch(&main, &["a", "b"])).await.unwrap();
    let mut lost = served.raw().await;
    lost.ask(1, Call::NextWake { session: Some(main.clone()) }).await;
    let Some(Told::Reply { answer: Answer::Wake(result), .. }) = lost.read().await else { panic!("no wake") };
    assert_eq!(result.group, launched.group);
    assert_eq!(
        client.why(fanin_protocol::Named::Group(launched.group.clone())).await.unwrap(),
        [Reason::Offered]
    );
    // In the middle of a frame.
    lost.stream.write_all(&[0, 0, 1]).await.unwrap();
    drop(lost);
    let wake = client.next_wake(Some(&main)).await.unwrap().ack().await.unwrap();
    assert_eq!(wake.group, launched.group);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_lost_or_dropped_stops_no_job() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let launched = client.launch(launch(&main, &["slow"])).await.unwrap();
    let wait = WaitCall { session: Some(main.clone()), jobs: launched.jobs.clone(), limit_ms: None };
    let mut lost = served.raw().await;
    lost.ask(1, Call::WaitAll(wait.clone())).await;
    let dropped = tokio::time::timeout(Duration::from_secs(1), client.wait_all(wait)).await;
    assert!(dropped.is_err());
    drop(lost);
    served.gate.open();
    // Nobody waits any more, so it comes as a wake.
    let wake = client.next_wake(Some(&main)).await.unwrap().ack().await.unwrap();
    assert_eq!((wake.counts.completed, wake.entries[0].reference), (1, false));
}

#[tokio::test(start_paused = true)]
async fn a_turn_ends_with_its_client() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let mut lost = served.raw().await;
    lost.ask(1, Call::TurnBegin { session: main.clone() }).await;
    assert!(matches!(lost.read().await, Some(Told::Reply { id: 1, answer: Answer::Done, .. })));
    assert_eq!(client.turn(&main).await.unwrap_err().code(), "turn_open");
    drop(lost);
    until("the turn is over", || served.supervisor.standings().unwrap().head.seq.0 >= 3).await;
    client.turn(&main).await.unwrap().end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fan_out_that_was_not_committed_launches_nothing() {
    let served = served().await;
    let main = session(&served.client()).await;
    let mut lost = served.raw().await;
    lost.ask(1, Call::FanOutBegin(launch(&main, &["a"]))).await;
    lost.ask(2, Call::FanOutAdd { of: 1, jobs: launch(&main, &["b"]).jobs }).await;
    lost.ask(3, Call::FanOutAdd { of: 2, jobs: Vec::new() }).await;
    for _ in 0..2 {
        assert!(matches!(lost.read().await, Some(Told::Reply { answer: Answer::Done, .. })));
    }
    assert_eq!(lost.fault().await, (3, "not_held".into()));
    lost.send(&Asked::Cancel(1)).await;
    lost.ask(4, Call::FanOutCommit { of: 1 }).await;
    assert_eq!(lost.fault().await, (4, "not_held".into()));
    drop(lost);
    assert!(served.supervisor.list(&JobFilter::default()).unwrap().jobs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_cancelled_is_told_so_and_gives_back_what_it_was_given() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let mut raw = served.raw().await;
    raw.ask(1, Call::NextWake { session: Some(main.clone()) }).await;
    raw.send(&Asked::Cancel(1)).await;
    assert_eq!(raw.fault().await, (1, "request_cancelled".into()));
    client.launch(launch(&main, &["a"])).await.unwrap();
    raw.ask(2, Call::NextWake { session: Some(main.clone()) }).await;
    assert!(matches!(raw.read().await, Some(Told::Reply { id: 2, .. })));
    raw.ask(2, Call::Status).await;
    assert_eq!(raw.fault().await, (2, "request_in_use".into()), "it holds an offer");
    raw.send(&Asked::Cancel(2)).await;
    raw.ask(3, Call::Ack { of: 2 }).await;
    assert_eq!(raw.fault().await, (3, "not_held".into()));
    client.next_wake(Some(&main)).await.unwrap().ack().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_request_too_many_is_refused_and_the_others_go_on() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let launched = client.launch(launch(&main, &["slow"])).await.unwrap();
    let mut raw = served.raw().await;
    let most = u64::try_from(SERVICE_CALLS_MAX).unwrap();
    let wait = WaitCall { session: Some(main), jobs: launched.jobs, limit_ms: None };
    for id in 1..=most + 1 {
        raw.ask(id, Call::WaitAll(wait.clone())).await;
    }
    assert_eq!(raw.fault().await, (most + 1, "calls_full".into()));
    // What waits for nothing is answered all the same.
    raw.ask(most + 2, Call::Status).await;
    assert!(matches!(raw.read().await, Some(Told::Reply { .. })));
    served.gate.open();
    for _ in 1..=most {
        assert!(matches!(raw.read().await, Some(Told::Reply { answer: Answer::Waited(_), .. })));
    }
}

#[tokio::test(start_paused = true)]
async fn one_client_too_many_is_told_so() {
    let served = served().await;
    let mut clients = Vec::new();
    for _ in 0..SERVICE_CLIENTS_MAX {
        clients.push(served.raw().await);
    }
    let error = served.client().status().await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), ("clients_full", true));
    clients.pop();
    until("one is gone", || format!("{:?}", served.service).contains("clients: 255")).await;
    served.client().status().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_launches_too_often_is_slowed_down() {
    let served = served().await;
    let main = session(&served.client()).await;
    let mut raw = served.raw().await;
    let call = || Call::Launch(launch(&main, &["a", "b"]));
    for id in 1..=u64::try_from(LAUNCH_CALLS_MAX).unwrap() {
        raw.ask(id, call()).await;
        assert!(matches!(raw.read().await, Some(Told::Reply { .. })));
    }
    raw.ask(5_000, call()).await;
    assert_eq!(raw.fault().await, (5_000, "launches_too_fast".into()));
}

#[tokio::test(start_paused = true)]
async fn versions_that_do_not_fit_are_named_on_both_sides() {
    let served = served().await;
    for (versions, code) in [
        (Range { oldest: 0, newest: 0 }, "client_too_old"),
        (Range { oldest: 2, newest: 9 }, "service_too_old"),
    ] {
        let mut raw = served.stranger();
        raw.send(&Hello { versions, program: "old 0.0".to_owned(), token: None }).await;
        let Some(Welcomed::Refused(refused)) = raw.read().await else { panic!("welcome") };
        assert_eq!((refused.fault.code.as_str(), refused.versions), (code, wire::VERSIONS));
        assert!(refused.fault.message.contains("old 0.0") && refused.fault.message.contains("fanin test"));
        assert!(raw.read::<Told>().await.is_none(), "the connection ends");
    }
}

#[tokio::test(start_paused = true)]
async fn hostile_bytes_end_their_own_connection_and_nothing_else() {
    let served = served().await;
    let too_long = u32::try_from(FRAME_BYTES_MAX + 1).unwrap().to_be_bytes().to_vec();
    let framed = |body: &[u8]| {
        let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(body);
        bytes
    };
    let nested = framed(&vec![0x91; 100_000]);
    let garbage = framed(b"GET / HTTP/1.1\r\n\r\n");
    for bytes in [&too_long, &nested, &garbage] {
        let mut before = served.stranger();
        before.stream.write_all(bytes).await.unwrap();
        assert!(before.read::<Welcomed>().await.is_none(), "it is no client");
        let mut after = served.raw().await;
        after.stream.write_all(bytes).await.unwrap();
        assert_eq!(after.fault().await, (0, "bad_frame".into()));
        assert!(after.read::<Told>().await.is_none());
    }
    // A call of a newer client is no reason to end.
    let mut raw = served.raw().await;
    let newer = b"\x81\xa7request\x82\xa2id\x07\xa4call\x81\xa5dance\x80";
    raw.stream.write_all(&framed(newer)).await.unwrap();
    assert_eq!(raw.fault().await, (7, "unknown_call".into()));
    served.client().status().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_that_says_nothing_or_stops_in_mid_frame_is_cut_off() {
    let served = served().await;
    let begun = tokio::time::Instant::now();
    let mut silent = served.stranger();
    assert!(silent.read::<Welcomed>().await.is_none());
    assert_eq!(begun.elapsed(), HELLO_WAIT);
    let mut raw = served.raw().await;
    let begun = tokio::time::Instant::now();
    raw.stream.write_all(&[0, 0]).await.unwrap();
    let end = tokio::io::AsyncReadExt::read(&mut raw.stream, &mut [0; 8]).await.unwrap();
    assert_eq!((end, begun.elapsed()), (0, SERVICE_IDLE_WAIT));
    // One that has asked for nothing may be silent for as long as it likes.
    let mut idle = served.raw().await;
    tokio::time::sleep(10 * SERVICE_IDLE_WAIT).await;
    idle.ask(1, Call::Status).await;
    assert!(matches!(idle.read().await, Some(Told::Reply { .. })));
}

#[tokio::test(start_paused = true)]
async fn one_that_takes_nothing_is_cut_off_and_others_go_on() {
    let served = served().await;
    let client = served.client();
    let main = session(&client).await;
    let mut stuck = served.raw().await;
    stuck.ask(1, Call::Subscribe(Subscribe { since: Since::Start, ..Subscribe::default() })).await;
    for _ in 0..200 {
        client.launch(launch(&main, &["a", "b", "c", "d"])).await.unwrap();
    }
    assert_eq!(client.status().await.unwrap().clients, 2);
    tokio::time::sleep(SERVICE_IDLE_WAIT * 2).await;
    let status = client.status().await.unwrap();
    assert_eq!(status.clients, 1);
    drop(stuck);
}

#[tokio::test(start_paused = true)]
async fn frames_may_come_in_any_pieces() {
    let served = served().await;
    let mut raw = served.stranger();
    let mut bytes = BytesMut::new();
    wire::encode(&hello(), &mut bytes).unwrap();
    for id in 1..4 {
        wire::encode(&Asked::Request(Request { id, call: Call::Status }), &mut bytes).unwrap();
    }
    for byte in &bytes {
        raw.stream.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(matches!(raw.read().await, Some(Welcomed::Welcome(_))));
    for wanted in 1..4 {
        assert!(matches!(raw.read().await, Some(Told::Reply { id, .. }) if id == wanted));
    }
}
