//! `docs/events.md` against the records: names, order, what serde writes, what an event hides.

use fanin_machine::Facts;
use fanin_protocol::record::{KINDS, StoreClosed};
use fanin_protocol::{About, Entry, Envelope, Fence, Lifetime, Record, Seq};
use serde_json::Value;

use crate::samples::{full, group, job, log, session, sparse};
use crate::tree;

/// One row of the table of records.
struct Row {
    kind: String,
    /// Names with their `?`.
    fields: Vec<String>,
    hidden: Vec<String>,
    is_ignorable: bool,
    is_written: bool,
}

fn rows() -> Vec<Row> {
    let yes = |cell: &str| match cell {
        "yes" => true,
        "no" => false,
        other => panic!("`{other}` is neither yes nor no"),
    };
    let names = |cell: &str| tree::names(cell).map(str::to_owned).collect::<Vec<_>>();
    tree::table(&tree::read("docs/events.md"), "## The records")
        .iter()
        .map(|row| Row {
            kind: names(&row[0]).remove(0),
            fields: names(&row[2]),
            hidden: names(&row[3]),
            is_ignorable: yes(&row[4]),
            is_written: yes(&row[5]),
        })
        .collect()
}

#[test]
fn the_table_has_all_kinds_in_their_order() {
    let shown: Vec<_> = rows().into_iter().map(|row| (row.kind, row.is_ignorable)).collect();
    let kinds: Vec<_> = KINDS.iter().map(|(kind, ignorable)| ((*kind).to_owned(), *ignorable)).collect();
    assert_eq!(shown, kinds);
    let samples: Vec<_> = full().iter().map(|record| record.kind().to_owned()).collect();
    assert_eq!(samples, kinds.into_iter().map(|(kind, _)| kind).collect::<Vec<_>>(), "a sample of each kind");
}

#[test]
fn the_fields_are_those_that_serde_writes() {
    for (row, record) in rows().into_iter().zip(full()) {
        let (all, always) = (fields(&record), fields(&sparse(&record)));
        let written: Vec<String> = all
            .iter()
            .map(|field| if always.contains(field) { field.clone() } else { format!("{field}?") })
            .collect();
        // Sorted, as the others are; the page has the order of the record.
        let mut shown = row.fields;
        shown.sort();
        assert_eq!(shown, written, "{}", row.kind);
    }
}

#[test]
fn what_an_event_hides_is_named_and_nothing_else_is_hidden() {
    for (row, record) in rows().into_iter().zip(full()) {
        let mut hidden = Vec::new();
        missing("", &record.json_body().unwrap(), &record.redacted().json_body().unwrap(), &mut hidden);
        assert_eq!(row.hidden, hidden, "{}", row.kind);
    }
}

#[test]
fn what_is_not_written_today_is_what_the_machine_would_refuse() {
    for (row, record) in rows().into_iter().zip(full()) {
        let applied = Facts::default().apply(Seq(1), 0, &record);
        let is_refused =
            applied.is_err_and(|error| error.why == "this version does not know what follows from it");
        assert_eq!(row.is_written, !is_refused, "{}", row.kind);
    }
}

#[test]
fn the_document_has_the_fields_of_the_page_and_no_others() {
    let within = About::of(Some(session()), Some(group()));
    let about = About { job: Some(job()), lifetime: Some(Lifetime(1)), ..within };
    let entry = Entry {
        seq: Seq(3),
        ts_ms: 4,
        about: about.into(),
        run: Some(Fence(2)),
        record: StoreClosed { queued: 0 }.into(),
    };
    let document = entry.to_json(&log()).unwrap();
    let rows = tree::table(&tree::read("docs/events.md"), "## The document");
    let mut shown = crate::first_names(&rows);
    shown.sort_unstable();
    assert_eq!(shown, keys(&document));

    let envelope = serde_json::to_value(Envelope::wrap(&entry).unwrap()).unwrap();
    let text = tree::read("docs/events.md");
    let sentence = text.split("a record is an `Envelope`:").nth(1).unwrap().split(". ").next().unwrap();
    let mut named: Vec<&str> = tree::names(sentence).collect();
    named.sort_unstable();
    assert_eq!(named, keys(&envelope));
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

fn fields(record: &Record) -> Vec<String> {
    keys(&record.json_body().unwrap()).into_iter().map(str::to_owned).collect()
}

/// The paths that are in `all` and not in `left`.
fn missing(path: &str, all: &Value, left: &Value, found: &mut Vec<String>) {
    let (Some(all), Some(left)) = (all.as_object(), left.as_object()) else { return };
    for (name, value) in all {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match left.get(name) {
            None => found.push(path),
            Some(left) => missing(&path, value, left, found),
        }
    }
}
