//! Which task counts as what, and what stands in a report.

use fanin_protocol::Code;

use super::*;
use crate::testing::entry;

#[test]
fn each_way_to_end_counts_as_one_thing() {
    let failed = |cause| entry("a", Status::Error, Some((cause, None)));
    let cancelled = |cause| entry("a", Status::Cancelled, Some((cause, None)));
    let unstarted = |entry: ResultEntry| ResultEntry { started_at_ms: None, ..entry };
    let deadline = Some(Threshold::Deadline);
    for (entry, stopped_by, expected) in [
        (entry("a", Status::Completed, None), None, Verdict::Passed),
        (failed(Cause::Failed), None, Verdict::Failure),
        (failed(Cause::Panic), None, Verdict::Failure),
        (failed(Cause::Timeout), None, Verdict::Failure),
        (unstarted(failed(Cause::Timeout)), None, Verdict::Error),
        (failed(Cause::Spawn), None, Verdict::Error),
        (failed(Cause::Interrupted), None, Verdict::Error),
        (failed(Cause::Dependency), None, Verdict::Skipped),
        (cancelled(Cause::Group), Some(Threshold::NotOk), Verdict::Skipped),
        (cancelled(Cause::Group), deadline, Verdict::Error),
        (unstarted(cancelled(Cause::Group)), deadline, Verdict::Skipped),
        (cancelled(Cause::Shutdown), None, Verdict::Error),
        (unstarted(cancelled(Cause::Shutdown)), None, Verdict::Skipped),
    ] {
        assert_eq!(verdict(&entry, stopped_by), expected, "{}", entry.summary());
    }
}

#[test]
fn a_kind_is_one_word() {
    assert_eq!(
        kind(&entry("a", Status::Error, Some((Cause::Failed, Some(Code::ExitStatus))))),
        "failed.exit_status"
    );
    assert_eq!(kind(&entry("a", Status::Cancelled, Some((Cause::Group, None)))), "group");
}

#[test]
fn times_are_what_readers_take() {
    assert_eq!([0, 5, 61_234].map(seconds), ["0.000", "0.005", "61.234"]);
    for (ms, expected) in [
        (0, "1970-01-01T00:00:00"),
        (951_782_399_999, "2000-02-28T23:59:59"),
        (951_782_400_000, "2000-02-29T00:00:00"),
        (951_868_800_000, "2000-03-01T00:00:00"),
        (1_798_761_599_000, "2026-12-31T23:59:59"),
        (4_107_542_400_000, "2100-03-01T00:00:00"),
    ] {
        assert_eq!(timestamp(ms), expected);
    }
}

#[test]
fn what_xml_cannot_say_is_not_said() {
    assert_eq!(valid("a\0b\x1b[31mc\x08\u{fffe}\u{ffff}\u{85}\td\n"), "abc\u{fffd}\u{fffd}\td\n");
    assert_eq!(valid_line("a\nb\tc"), "a b c");
}
