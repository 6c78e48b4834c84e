//! Stores of runs that are not what they were: what is told of them, and what a repair does and leaves.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fanin_protocol::RowKind;
use fanin_sqlite::{Options, SqliteJournal};
use fanin_supervisor::journal::{Batch, Change, Journal, Row};

use crate::place::Place;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn damage_is_told_and_nothing_is_changed_before_somebody_accepts_the_loss() {
    let place = Place::new();
    place.shown(&["run", "true"]);
    let (id, folder) = place.run();
    let dir = folder.to_str().unwrap();
    assert!(place.shown(&["store", "check"]).starts_with(&format!("{id}: sound, ")));
    assert!(place.shown(&["store", "repair", dir]).ends_with("there is nothing to repair\n"));
    let file = folder.join("store.db");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(10).position(|window| window == b"job.queued").unwrap();
    bytes[at] ^= 1;
    fs::write(&file, &bytes).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let checked = place.fanin(&["store", "check", dir]);
    assert_eq!(checked.code, Some(70), "{}{}", checked.stdout, checked.stderr);
    let offered = place.fanin(&["store", "repair", dir]);
    assert_eq!(offered.code, Some(70), "{}{}", offered.stdout, offered.stderr);
    assert!(offered.stdout.contains("--accept-loss"), "{}", offered.stdout);
    let repaired = place.shown(&["store", "repair", "--accept-loss", dir]);
    assert!(repaired.contains("lost are record 3\n"), "{repaired}");
    assert!(place.shown(&["store", "check", dir]).contains("sound"));
    let events = place.shown(&["events", &id]);
    assert!(
        events.contains("session.opened") && events.contains("(records 3 to 3 are no longer kept)"),
        "{events}"
    );
    let behind = events.lines().skip_while(|line| !line.contains("no longer kept"));
    let without =
        behind.filter(|line| line.contains("  run.") || line.contains("  job.") || line.contains("  group."));
    let without: Vec<&str> =
        without.filter(|line| !line.contains("job_") && !line.contains("grp_")).collect();
    assert!(without.is_empty(), "{without:?} say not what they are about: {events}");
    let kept = repaired.lines().find_map(|line| line.strip_prefix("as it was it is in ")).unwrap();
    assert_eq!(mode(Path::new(kept)), 0o700);
    for entry in fs::read_dir(kept).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    assert!(
        place.shown(&["store", "repair", "--accept-loss", dir]).ends_with("there is nothing to repair\n")
    );
}

#[test]
fn a_repair_is_not_offered_where_it_would_be_refused_and_leaves_nothing_behind() {
    let place = Place::new();
    place.shown(&["run", "true"]);
    let (_, folder) = place.run();
    let dir = folder.to_str().unwrap();
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let file = folder.join("store.db");
    let sound = fs::read(&file).unwrap();
    let noise = |n: usize| (0..n).map(|at| (at * 7 + at / 13 + 1) as u8).collect::<Vec<u8>>();
    let no_pages = [&sound[..4096], &noise(sound.len() - 4096)].concat();
    for (what, bytes) in [
        ("noise", noise(5000)),
        ("empty", Vec::new()),
        ("no pages", no_pages),
        ("cut", sound[..4096].to_vec()),
    ] {
        fs::write(&file, &bytes).unwrap();
        place.fanin(&["ps"]);
        let before = names();
        for words in [&["store", "repair", dir][..], &["store", "repair", "--accept-loss", dir]] {
            let told = place.fanin(words);
            assert_eq!(told.code, Some(70), "{what} {words:?}: {}{}", told.stdout, told.stderr);
            assert!(told.stdout.contains("remove the folder"), "{what}: {}{}", told.stdout, told.stderr);
            assert!(!told.stdout.contains("--accept-loss"), "{what}: {}", told.stdout);
            assert_eq!(names(), before, "{what} {words:?}");
            assert!(fs::read(&file).unwrap() == bytes, "{what} {words:?}: the store was changed");
        }
    }
}

#[test]
fn a_run_whose_store_is_a_copy_or_damaged_is_told_with_a_way_out_that_exists() {
    let place = Place::new();
    let id = place.killed();
    let (_, folder) = place.run();
    let dir = folder.to_str().unwrap();
    // Another file of the same content, and the first stays, so that its number is not given again.
    let file = folder.join("store.db");
    fs::rename(&file, place.path().join("original")).unwrap();
    fs::copy(place.path().join("original"), &file).unwrap();
    let refused = place.fanin(&["resume", &id]);
    assert_eq!(refused.code, Some(70), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("`fanin store adopt {dir}`")), "{}", refused.stderr);
    assert!(
        !refused.stderr.contains("--adopt") && !refused.stderr.contains("--no-store"),
        "{}",
        refused.stderr
    );
    assert!(place.shown(&["store", "adopt", dir]).ends_with("a store of its own\n"));
    let sound = fs::read(&file).unwrap();
    fs::write(&file, &sound[..sound.len() / 2]).unwrap();
    let refused = place.fanin(&["resume", &id]);
    assert_eq!(refused.code, Some(70), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("`fanin store repair {dir}`")), "{}", refused.stderr);
    assert!(!refused.stderr.contains("--no-store"), "{}", refused.stderr);
    fs::write(&file, &sound).unwrap();
    assert_eq!(place.fanin(&["resume", "--quiet", &id]).code, Some(1));
    assert_eq!((place.ran("second"), place.ran("fourth")), (1, 1));
}

// ST-4, B87: a store whose database was removed is damaged, and not none.
#[test]
fn a_database_that_is_gone_is_told() {
    let place = Place::new();
    place.killed();
    let (id, folder) = place.run();
    for file in ["store.db", "store.db-wal", "store.db-shm"] {
        fs::remove_file(folder.join(file)).unwrap();
    }
    for words in [&["store", "check"][..], &["resume"], &["ps"]] {
        let told = place.fanin(words);
        assert_eq!(told.code, Some(70), "{words:?}: {}{}", told.stdout, told.stderr);
        let said = format!("{}{}", told.stdout, told.stderr);
        assert!(said.contains(&id) && said.contains("its database is gone"), "{words:?}: {said}");
    }
}

// ST-3
#[test]
fn a_row_that_is_not_what_the_log_says_is_damage() {
    let place = Place::new();
    place.shown(&["run", "true", "echo"]);
    let (_, folder) = place.run();
    let dir = folder.to_str().unwrap();
    let mut journal = SqliteJournal::open(&folder, &Options::default()).unwrap();
    let opened = journal.load().unwrap();
    let mut jobs = opened.rows.iter().filter(|row| row.kind == RowKind::Job);
    let (one, two) = (jobs.next().unwrap(), jobs.next().unwrap());
    let planted = Row { body: two.body.clone(), ..one.clone() };
    // With the checksums of what was committed in order.
    let (after, rows) = (opened.head, vec![Change::Put(planted)]);
    journal.append(&Batch { after, epoch: after, rows, ..Batch::default() }).unwrap();
    Box::new(journal).close().unwrap();
    let checked = place.fanin(&["store", "check", dir]);
    assert_eq!(checked.code, Some(70), "{}{}", checked.stdout, checked.stderr);
    assert!(checked.stdout.contains("row job 0: it is not what the records say"), "{}", checked.stdout);
    // Nothing of it can be given up, and it is not called sound.
    for words in [&["store", "repair", dir][..], &["store", "repair", "--accept-loss", dir]] {
        let told = place.fanin(words);
        assert_eq!(told.code, Some(70), "{}{}", told.stdout, told.stderr);
        assert!(told.stdout.contains("goes by its rows"), "{}", told.stdout);
    }
}
