//! What the crates may name, what they must not touch, and how small the machine stays.
//!
//! The tables are those of the design. A new edge is a decision: it comes with a record in `docs/decisions/`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

mod tree;

/// What each crate of ours may name of ours, without `fanin-`. `*` stands for all that are listed above it.
const EDGES: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("machine", &["protocol"]),
    ("bus", &["protocol", "machine"]),
    ("supervisor", &["protocol", "machine", "bus"]),
    ("process", &["protocol"]),
    ("subprocess", &["protocol", "supervisor", "process"]),
    ("acp", &["protocol", "supervisor", "process"]),
    ("sqlite", &["protocol", "supervisor"]),
    ("sinks", &["protocol", "supervisor", "process"]),
    ("sanitize", &["protocol"]),
    ("service", &["protocol", "bus", "supervisor"]),
    ("client", &["protocol"]),
    ("mcp", &["protocol", "client"]),
    ("cli", &["*"]),
    ("tests", &["*"]),
    ("benches", &["*"]),
];

/// Crates of others that only these of ours may name.
const ALONE: &[(&str, &[&str])] = &[
    ("rustix", &["process"]),
    ("agent-client-protocol", &["acp"]),
    ("rusqlite", &["sqlite", "sanitize"]),
    ("rmcp", &["mcp"]),
    ("clap", &["cli"]),
    ("indicatif", &["cli"]),
    ("toml", &["cli"]),
    ("tracing-subscriber", &["cli"]),
];

/// A package of the workspace.
struct Package {
    /// Without `fanin-`.
    name: String,
    dependencies: Vec<Dependency>,
}

/// One line of a package's manifest.
struct Dependency {
    name: String,
    is_dev: bool,
    /// Built only for a model checker.
    is_for_loom: bool,
    features: Vec<String>,
}

impl Dependency {
    fn ours(&self) -> Option<&str> {
        self.name.strip_prefix("fanin-")
    }
}

/// The packages of the workspace, as cargo reads their manifests.
fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(tree::root())
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .map(|package| {
            let name = package["name"].as_str().unwrap();
            let dependencies = package["dependencies"].as_array().unwrap();
            Package {
                name: name.strip_prefix("fanin-").expect("our packages are named fanin-*").to_owned(),
                dependencies: dependencies.iter().map(dependency).collect(),
            }
        })
        .collect()
}

fn dependency(of: &Value) -> Dependency {
    Dependency {
        name: of["name"].as_str().unwrap().to_owned(),
        is_dev: of["kind"] == "dev",
        is_for_loom: of["target"] == "cfg(loom)",
        features: serde_json::from_value(of["features"].clone()).expect("features are names"),
    }
}

/// What a crate may name of ours, while these packages exist.
fn allowed(name: &str, packages: &[Package]) -> BTreeSet<&'static str> {
    let at =
        EDGES.iter().position(|(of, _)| *of == name).unwrap_or_else(|| panic!("no edges for fanin-{name}"));
    let (_, named) = EDGES[at];
    let mut allowed: BTreeSet<&str> = match named {
        ["*"] => EDGES[..at].iter().map(|(name, _)| *name).collect(),
        named => named.iter().copied().collect(),
    };
    // Until its tools go through the client (0060).
    let mut mcp = packages.iter().filter(|package| package.name == "mcp");
    if name == "mcp" && !mcp.any(|mcp| mcp.dependencies.iter().any(|one| one.ours() == Some("client"))) {
        allowed.insert("supervisor");
    }
    allowed
}

#[test]
fn crates_name_only_the_crates_that_they_may_name() {
    let packages = packages();
    for package in &packages {
        let allowed = allowed(&package.name, &packages);
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.is_dev) {
            if let Some(ours) = dependency.ours() {
                assert!(allowed.contains(ours), "fanin-{} names fanin-{ours}", package.name);
            }
        }
    }
}

#[test]
fn crates_of_others_stay_where_they_belong() {
    let packages = packages();
    for (theirs, ours) in ALONE {
        let ours: BTreeSet<&str> = ours.iter().copied().collect();
        for package in packages.iter().filter(|package| !ours.contains(package.name.as_str())) {
            let names = package.dependencies.iter().any(|dependency| dependency.name == *theirs);
            assert!(!names, "fanin-{} names {theirs}", package.name);
        }
    }
}

#[test]
fn the_machine_knows_no_tokio_not_even_in_its_tests() {
    let lock = tree::read("Cargo.lock");
    let mut needs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let name = package.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        // A dependency is `"name"`, or `"name version"` where there are several of it.
        let list = package.lines().filter_map(|line| line.strip_prefix(" \"")?.split([' ', '"']).next());
        needs.entry(name.unwrap()).or_default().extend(list);
    }
    let (mut seen, mut next) = (BTreeSet::new(), vec!["fanin-machine"]);
    while let Some(name) = next.pop() {
        if seen.insert(name) {
            next.extend(&needs[name]);
        }
    }
    assert!(seen.contains("parking_lot") && seen.contains("proptest"), "the lock file is not read rightly");
    let runtimes = ["tokio", "tokio-util", "async-std", "smol", "mio"];
    assert!(!runtimes.iter().any(|runtime| seen.contains(runtime)), "fanin-machine needs a runtime");
}

#[test]
fn every_dependency_has_its_reason() {
    let packages = packages();
    let (mut shipped, mut all) = (BTreeSet::new(), BTreeSet::new());
    for package in &packages {
        let is_tests = ["tests", "benches"].contains(&package.name.as_str());
        for dependency in package.dependencies.iter().filter(|dependency| dependency.ours().is_none()) {
            all.insert(dependency.name.clone());
            if !is_tests && !dependency.is_dev && !dependency.is_for_loom {
                shipped.insert(dependency.name.clone());
            }
        }
    }
    let page = tree::read("docs/dependencies.md");
    let rows = |heading| -> BTreeSet<String> {
        let rows = tree::table(&page, heading);
        assert!(rows.iter().all(|row| row[1].len() > 20), "{heading}: a reason is missing");
        rows.iter().flat_map(|row| tree::names(&row[0])).map(str::to_owned).collect()
    };
    let for_tests: BTreeSet<String> = all.difference(&shipped).cloned().collect();
    assert_eq!(rows("## In what ships"), shipped, "docs/dependencies.md against the manifests");
    assert_eq!(
        rows("## For tests and benchmarks alone"),
        for_tests,
        "docs/dependencies.md against the manifests"
    );
}

// Decision 0029: it makes tokio's clock one that can be paused, which no user's program shall pay for.
#[test]
fn the_testing_kit_is_in_nothing_that_ships() {
    let (mut used, mut ships) = (0, Vec::new());
    for package in packages() {
        let is_tests = ["tests", "benches"].contains(&package.name.as_str());
        for dependency in package.dependencies.iter().filter(|one| !one.is_dev) {
            let kit = ["testing", "test-util"];
            if dependency.features.iter().any(|feature| kit.contains(&feature.as_str())) {
                used += 1;
                ships.extend((!is_tests).then(|| format!("fanin-{}: {}", package.name, dependency.name)));
            }
        }
    }
    assert!(used > 0, "features are not read rightly");
    assert_eq!(ships, Vec::<String>::new());
    let manifest = tree::read("supervisor/Cargo.toml");
    assert!(manifest.contains("\ntesting = [\"tokio/test-util\"]\n") && !manifest.contains("\ndefault ="));
}

#[test]
fn every_package_comes_from_the_public_registry() {
    let lock = tree::read("Cargo.lock");
    let sources: BTreeSet<&str> = lock.lines().filter_map(|line| line.strip_prefix("source = ")).collect();
    assert_eq!(sources, ["\"registry+https://github.com/rust-lang/crates.io-index\""].into());
}

#[test]
fn time_and_chance_come_in_from_two_files() {
    let two = ["supervisor/src/clock.rs", "supervisor/src/chance.rs"];
    let forbidden =
        ["Instant::now", "SystemTime", "Uuid::new", "rand::", "fastrand", "getrandom", "RandomState"];
    let mut looked_at = 0;
    for folder in ["protocol", "bus", "supervisor/src", "supervisor/machine"] {
        for (path, text) in tree::files(folder).into_iter().filter(|(path, _)| path.ends_with(".rs")) {
            // The key of its hash comes from chance, as that of any standard map does; nothing is read from its order.
            if ["supervisor/machine/src/state/index.rs", "supervisor/machine/src/evict/evicted.rs"]
                .contains(&path.as_str())
            {
                continue;
            }
            looked_at += 1;
            for (number, line) in text.lines().enumerate().filter(|_| !two.contains(&path.as_str())) {
                let found = forbidden.iter().find(|word| tree::code(line).contains(*word));
                assert!(found.is_none(), "{path}:{}: {}", number + 1, line.trim());
            }
        }
    }
    assert!(looked_at > 40, "only {looked_at} files: they are not read rightly");
    // The two do what they are for; were they empty, the words above would be the wrong ones.
    let allowed: String = two.iter().map(|path| tree::read(path)).collect();
    assert!(["Instant::now", "SystemTime", "Uuid::new"].iter().all(|word| allowed.contains(word)));
}

#[test]
fn the_machine_keeps_its_budgets() {
    let source = |file: &str| tree::read(&format!("supervisor/machine/src/{file}"));
    let commands = tree::variants(&source("command.rs"), "enum Command");
    let effects = tree::variants(&source("effect.rs"), "enum Effect");
    assert!((8..=12).contains(&commands.len()), "{commands:?}");
    assert!((4..=8).contains(&effects.len()), "{effects:?}");
    assert_eq!(fanin_protocol::record::KINDS.len(), 20);

    let threads = ["guard.rs", "pump.rs", "log.rs", "sync.rs"];
    // Decision 0054: types, what is folded and stored, and what is read. Everything else decides.
    let form = [
        "command.rs",
        "effect.rs",
        "evict.rs",
        "fold.rs",
        "rows.rs",
        "state.rs",
        "stored.rs",
        "view.rs",
        "why.rs",
    ];
    let (mut plain, mut lines, mut rules) = (0, 0, 0);
    for (path, text) in tree::files("supervisor/machine/src") {
        let file = path.trim_start_matches("supervisor/machine/src/");
        // A folder holds the rest of a file of its name, or tests.
        if file.ends_with(".rs") && !file.contains('/') && !threads.contains(&file) {
            let counted = counts(&text);
            (plain, lines) = (plain + counted.0, lines + counted.1);
            rules += if form.contains(&file) { 0 } else { counted.1 };
        }
    }
    assert!(rules > 1_000 && lines > rules + 1_000, "the machine is not read rightly");
    assert!(rules <= 3_400, "{rules} lines of rules that say something (0009, 0054, 0059, 0064, 0065)");
    assert!(
        lines <= 5_670,
        "{lines} lines that say something, {plain} that are neither blank nor comment (0009, 0054, 0059, 0064, 0065)"
    );
}

/// Lines that are neither blank nor comment, and those of them that say something (decision 0009). Tests at the end
/// of a file do not count.
fn counts(text: &str) -> (usize, usize) {
    let (mut plain, mut lines, mut is_import) = (0, 0, false);
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    for line in text.lines().map(tree::code).filter(|line| !line.is_empty()) {
        plain += 1;
        let word = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        is_import |= word.starts_with("use ") || word.starts_with("mod ");
        lines += usize::from(!is_import && line.contains(char::is_alphanumeric));
        is_import &= !line.ends_with(';');
    }
    (plain, lines)
}

#[test]
fn nothing_of_the_machine_it_was_made_on_is_in_the_tree() {
    let mut places: Vec<String> = ["home", "Users", "root"].map(|folder| format!("/{folder}/")).into();
    let root = tree::root();
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    // A short path, such as `/src`, is a word like any other and says nothing.
    let long = [Some(root), home].into_iter().flatten().filter(|path| path.components().count() > 2);
    places.extend(long.map(|path| path.to_string_lossy().into_owned()));
    // The last but one is this machine itself, whichever it is.
    let hosts = [
        "github.com",
        "crates.io",
        "docs.rs",
        "www.apache.org",
        "apache.org",
        "keepachangelog.com",
        "127.0.0.1",
        "x",
    ];
    for (path, text) in tree::files("") {
        for place in &places {
            assert!(!text.contains(place), "{path} names {place}");
        }
        for scheme in ["http://", "https://"] {
            for url in text.split(scheme).skip(1) {
                let host: String =
                    url.chars().take_while(|c| c.is_ascii_alphanumeric() || ".-".contains(*c)).collect();
                let is_known = host.is_empty() || hosts.contains(&host.as_str());
                assert!(is_known, "{path} names the host {host}");
            }
        }
    }
}
