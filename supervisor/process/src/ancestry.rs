//! Whose child this process is, told by the processes above it. A process can drop or forge the marks in its own
//! environment; it cannot take them from those above. It only looks, and what it finds narrows and never widens (SEC-3).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use fanin_protocol::process::MAIL_VARIABLE;
use fanin_protocol::{PARENT_VARIABLE, ParentMark, RIGHTS_VARIABLE, Rights};

use crate::shim::SUBCOMMAND;
use crate::table::Table;

/// What is said of a process by the environment that it was started with and by the processes above it, taken together.
///
/// A shim says whose job it holds in its own words, and nothing below it can change them. Every other process says it by
/// the environment that it was started with. That may be forged, and then allows less, never more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ancestry {
    /// The innermost job that it is part of, with the lowest limit of all; `None` where nobody names one.
    pub parent: Option<ParentMark>,
    /// What agents may do at the most that are started from there.
    pub rights: Rights,
}

impl Default for Ancestry {
    /// Nobody says anything.
    fn default() -> Self {
        Self { parent: None, rights: Rights::Full }
    }
}

impl Ancestry {
    /// That of this process. Looked up once: a process stays part of its jobs.
    pub fn own() -> &'static Self {
        static OWN: LazyLock<Ancestry> = LazyLock::new(|| {
            let table = Table::default();
            table.this().map_or_else(Ancestry::default, |pid| Ancestry::of(&table, pid))
        });
        &OWN
    }

    /// That of the process with this number, such as the one at the other end of a socket. Whoever asks makes sure that it
    /// is still that one. What cannot be seen says nothing.
    pub fn of(table: &Table, pid: u32) -> Self {
        loop {
            // Not again for ever: each time one of those above has ended, and none comes between.
            if let Some(found) = walk(table, pid) {
                return found;
            }
        }
    }

    /// With what somebody further out says. The greater depth, the lower limit and the lesser rights count. Of two jobs
    /// at one depth the one is true that the one further out names: whoever is inside can have made up the other.
    #[must_use]
    pub fn within(self, outer: Self) -> Self {
        let parent = match (self.parent, outer.parent) {
            (Some(inner), Some(outer)) => {
                let depth_max = inner.depth_max.min(outer.depth_max);
                let deeper = if outer.depth >= inner.depth { outer } else { inner };
                Some(ParentMark { depth_max, ..deeper })
            }
            (parent, None) | (None, parent) => parent,
        };
        Self { parent, rights: self.rights.min(outer.rights) }
    }

    /// What these words say, which are `NAME=value` each. Those that are no marks say nothing.
    fn said<'w>(words: impl Iterator<Item = &'w [u8]>) -> Self {
        let value = |word: &'w [u8], name: &str| {
            let value = word.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(OsStr::from_bytes(value))
        };
        words.fold(Self::default(), |said, word| {
            let parent = value(word, PARENT_VARIABLE).and_then(|mark| ParentMark::read(Some(mark)).ok()?);
            let rights = value(word, RIGHTS_VARIABLE).and_then(|name| Rights::parse(name.to_str()?));
            said.within(Self { parent, rights: rights.unwrap_or(Rights::Full) })
        })
    }
}

/// The job that this process is part of, by its own environment and by the processes above; `None` where it is part of none.
///
/// A mark in its environment that is none says nothing here; a program that minds refuses it before it launches.
pub fn own_mark() -> Option<&'static ParentMark> {
    static OWN: LazyLock<Option<ParentMark>> = LazyLock::new(|| {
        let ours = ParentMark::read(std::env::var_os(PARENT_VARIABLE).as_deref());
        let own = Ancestry { parent: ours.ok().flatten(), ..Ancestry::default() };
        own.within(Ancestry::own().clone()).parent
    });
    OWN.as_ref()
}

/// Where the innermost job that this process is part of sends and receives its mail, by the processes above: for one whose
/// own environment does not say so. It is a hint; who is let in there is decided there.
pub fn mail_above() -> Option<PathBuf> {
    let table = Table::default();
    mail_above_of(&table, table.this()?)
}

fn mail_above_of(table: &Table, pid: u32) -> Option<PathBuf> {
    let above = |pid: &u32| table.entry(*pid).map(|entry| entry.parent).filter(|parent| *parent != 0);
    for pid in std::iter::successors(Some(pid), above) {
        let line = table.command_line(pid);
        let mut words = line.split(|byte| *byte == 0).skip(1);
        if words.next().is_some_and(|word| word == SUBCOMMAND.as_bytes()) {
            // A job further out is not ours to speak for.
            return mail_in(words);
        }
        if let Some(path) = mail_in(table.environment(pid).split(|byte| *byte == 0)) {
            return Some(path);
        }
    }
    None
}

fn mail_in<'w>(mut words: impl Iterator<Item = &'w [u8]>) -> Option<PathBuf> {
    let value = |word: &'w [u8]| word.strip_prefix(MAIL_VARIABLE.as_bytes())?.strip_prefix(b"=");
    words.find_map(value).map(|path| PathBuf::from(OsStr::from_bytes(path))).filter(|path| path.is_absolute())
}

/// What a shim is told of its job, as words of its own, from the variables that the job is given.
#[cfg(target_os = "linux")]
pub(crate) fn words<'v>(variable: impl Fn(&str) -> Option<&'v str>) -> impl Iterator<Item = String> {
    // No other words than those that will be understood: a task may set any variable to anything.
    let mark = variable(PARENT_VARIABLE).filter(|mark| ParentMark::read(Some(OsStr::new(mark))).is_ok());
    let rights = variable(RIGHTS_VARIABLE).filter(|name| Rights::parse(name).is_some());
    let word = |(name, value): (&str, Option<&str>)| Some(format!("{name}={}", value?));
    let mail = variable(MAIL_VARIABLE).filter(|path| Path::new(path).is_absolute());
    [(PARENT_VARIABLE, mark), (RIGHTS_VARIABLE, rights), (MAIL_VARIABLE, mail)].into_iter().filter_map(word)
}

/// One look at `pid` and all that are above it. `None` where it has to be repeated: one of them ended meanwhile, and so what was
/// further out was not seen.
fn walk(table: &Table, pid: u32) -> Option<Ancestry> {
    let (mut found, mut child, mut below) = (said_by(table, pid), pid, None);
    loop {
        let Some(entry) = table.entry(child) else {
            // It has ended, or is not shown to us, as other users' may be.
            let is_there = below.is_none_or(|below| is_parent(table, child, below));
            return is_there.then_some(found);
        };
        let parent = entry.parent;
        if parent == 0 {
            return Some(found);
        }
        let said = said_by(table, parent);
        // It was the parent before and is so still; so it was all the time, and its number nobody else's: whoever takes
        // its place has been there before.
        if !is_parent(table, parent, child) {
            return None;
        }
        found = found.within(said);
        (below, child) = (Some(child), parent);
    }
}

fn is_parent(table: &Table, parent: u32, child: u32) -> bool {
    table.entry(child).is_some_and(|entry| entry.parent == parent)
}

fn said_by(table: &Table, pid: u32) -> Ancestry {
    let line = table.command_line(pid);
    let mut words = line.split(|byte| *byte == 0).skip(1);
    if words.next().is_some_and(|word| word == SUBCOMMAND.as_bytes()) {
        // Its environment is its supervisor's, and tells of others.
        return Ancestry::said(words);
    }
    Ancestry::said(table.environment(pid).split(|byte| *byte == 0))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fanin_protocol::limits::DEPTH_MAX;
    use proptest::prelude::*;

    use super::*;

    /// A process: its parent, its command line and its environment.
    type Process<'a> = (u32, u32, &'a [&'a str], &'a [&'a str]);

    fn table(root: &Path, processes: &[Process<'_>]) -> Table {
        for (pid, parent, line, environment) in processes {
            let folder = root.join(pid.to_string());
            fs::create_dir_all(&folder).unwrap();
            let stat = format!("{pid} (p) S {parent} 7 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 99 5 6");
            fs::write(folder.join("stat"), stat).unwrap();
            let joined = |words: &[&str]| words.iter().map(|word| format!("{word}\0")).collect::<String>();
            fs::write(folder.join("cmdline"), joined(line)).unwrap();
            fs::write(folder.join("environ"), joined(environment)).unwrap();
        }
        Table::at(root)
    }

    fn found(processes: &[Process<'_>], pid: u32) -> (Option<String>, Rights) {
        let root = tempfile::tempdir().unwrap();
        let Ancestry { parent, rights } = Ancestry::of(&table(root.path(), processes), pid);
        (parent.map(|mark| mark.to_string()), rights)
    }

    fn mark(text: &str) -> ParentMark {
        ParentMark::read(Some(OsStr::new(text))).unwrap().unwrap()
    }

    const SHIM: &[&str] = &["fanin", "__shim", "log:7", "FANIN_PARENT=run/job/1/1", "FANIN_RIGHTS=read-only"];

    // A process whose own environment says nothing, below one that says something else, is part of the shim's job.
    #[test]
    fn a_shim_tells_whose_child_is_below_it_whatever_was_forged_between() {
        for forged in ["FANIN_PARENT=other/job/1/1", "FANIN_PARENT=", "FANIN_PARENT=garbage", "A=B"] {
            let processes: &[Process<'_>] = &[
                (1, 0, &["init"], &[]),
                (10, 1, &["fanin", "run"], &[]),
                (11, 10, SHIM, &["FANIN_PARENT=outer/job/1/1"]),
                (12, 11, &["sh"], &[forged, "FANIN_RIGHTS=full"]),
                (13, 12, &["fanin", "run"], &[]),
            ];
            assert_eq!(found(processes, 13), (Some("run/job/1/1".into()), Rights::ReadOnly), "{forged}");
            assert_eq!(found(processes, 10), (None, Rights::Full), "{forged}");
        }
    }

    #[test]
    fn of_nested_jobs_the_innermost_counts_with_the_least_of_all_rights_and_limits() {
        let processes: &[Process<'_>] = &[
            (10, 0, &["fanin", "mcp"], &[]),
            (11, 10, &["fanin", "__shim", "a:1", "FANIN_PARENT=a/job/1/1/2", "FANIN_RIGHTS=edit"], &[]),
            (12, 11, &["fanin", "run"], &["FANIN_PARENT=a/job/1/1/2"]),
            (13, 12, &["fanin", "__shim", "b:1", "FANIN_PARENT=b/job/1/2", "FANIN_RIGHTS=full"], &[]),
            (14, 13, &["sh"], &["FANIN_PARENT=b/job/1/2"]),
        ];
        assert_eq!(found(processes, 14), (Some("b/job/1/2/2".into()), Rights::Edit));
        assert_eq!(found(processes, 12), (Some("a/job/1/1/2".into()), Rights::Edit));
    }

    // Without a shim: those above say it by what they were started with.
    #[test]
    fn without_a_shim_the_process_that_the_job_began_with_tells() {
        let processes: &[Process<'_>] = &[
            (10, 0, &["library"], &[]),
            (11, 10, &["sh"], &["FANIN_PARENT=run/job/1/1", "FANIN_RIGHTS=edit"]),
            (12, 11, &["env"], &["FANIN_PARENT=made/up/1/1"]),
            (13, 12, &["fanin", "run"], &[]),
        ];
        assert_eq!(found(processes, 13), (Some("run/job/1/1".into()), Rights::Edit));
        assert_eq!(found(processes, 11), (Some("run/job/1/1".into()), Rights::Edit), "itself");
    }

    #[test]
    fn the_mail_of_a_job_is_found_by_the_processes_above_and_never_that_of_a_job_further_out() {
        let root = tempfile::tempdir().unwrap();
        let outer: &[&str] = &["fanin", "__shim", "a:1", "FANIN_PARENT=a/job/1/1", "FANIN_MAIL=/run/outer"];
        let inner: &[&str] = &["fanin", "__shim", "b:1", "FANIN_PARENT=b/job/1/2"];
        let all: &[Process<'_>] = &[
            (10, 1, &["fanin", "run"], &["FANIN_MAIL=/run/further"]),
            (11, 10, outer, &[]),
            (12, 11, &["env", "-i", "sh"], &[]),
            (13, 12, &["fanin", "run"], &["FANIN_MAIL=run/no-whole-path"]),
            (14, 13, inner, &[]),
            (15, 14, &["sh"], &[]),
            (16, 15, &["sh"], &["FANIN_MAIL=/run/own"]),
        ];
        let table = table(root.path(), all);
        let found = |pid| mail_above_of(&table, pid);
        assert_eq!(found(12).as_deref(), Some(Path::new("/run/outer")));
        assert_eq!(found(13).as_deref(), Some(Path::new("/run/outer")));
        assert_eq!(found(15), None);
        assert_eq!(found(16).as_deref(), Some(Path::new("/run/own")));
    }

    #[test]
    fn where_nobody_is_seen_nobody_says_anything() {
        assert_eq!(found(&[], 7), (None, Rights::Full));
        // One above that is hidden ends the walk, and not the program.
        let hidden: &[Process<'_>] =
            &[(11, 10, &["sh"], &["FANIN_PARENT=run/job/1/1"]), (12, 11, &["x"], &[])];
        assert_eq!(found(hidden, 12).0.as_deref(), Some("run/job/1/1"));
    }

    #[test]
    fn what_ended_while_it_was_looked_at_is_looked_at_again() {
        let root = tempfile::tempdir().unwrap();
        let gone = table(root.path(), &[(11, 10, &["sh"], &[]), (12, 11, &["x"], &[])]);
        assert_eq!(walk(&gone, 12), Some(Ancestry::default()));
        // 11 was 12's parent when it was looked at, and has another now.
        assert!(!is_parent(&gone, 9, 12) && is_parent(&gone, 11, 12));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_shim_is_told_what_will_be_understood_and_nothing_else() {
        let told = |mark: &'static str, rights: &'static str| -> Vec<String> {
            let variable = move |name: &str| match name {
                PARENT_VARIABLE => Some(mark),
                RIGHTS_VARIABLE => Some(rights),
                _ => None,
            };
            words(variable).collect()
        };
        assert_eq!(told("run/job/1/1", "edit"), ["FANIN_PARENT=run/job/1/1", "FANIN_RIGHTS=edit"]);
        assert_eq!(told("x", "much"), [""; 0]);
    }

    #[test]
    fn this_process_is_found_in_the_real_table() {
        let table = Table::default();
        assert_eq!(table.this(), Some(std::process::id()));
        let above = Ancestry::of(&table, std::process::id());
        assert_eq!(above, *Ancestry::own());
    }

    fn any_said() -> impl Strategy<Value = Ancestry> {
        let mark = proptest::option::of((1..9_u32, 0..=DEPTH_MAX));
        (mark, 0..Rights::ALL.len()).prop_map(|(parent, rights)| Ancestry {
            parent: parent.map(|(depth, depth_max)| ParentMark { depth, depth_max, ..self::mark("a/b/1/1") }),
            rights: Rights::ALL[rights],
        })
    }

    proptest! {
        // P10: whatever is put between a process and its job, it gets no further and may do no more.
        #[test]
        fn nothing_that_anybody_adds_widens(chain in proptest::collection::vec(any_said(), 0..6), at in 0..6_usize, added in any_said()) {
            let all = |chain: &[Ancestry]| chain.iter().cloned().fold(Ancestry::default(), Ancestry::within);
            let before = all(&chain);
            let mut with = chain;
            with.insert(at.min(with.len()), added);
            let after = all(&with);
            prop_assert!(after.rights <= before.rights);
            if let Some(before) = before.parent {
                let after = after.parent.unwrap();
                prop_assert!(after.depth >= before.depth && after.depth_max <= before.depth_max);
            }
        }
    }
}
