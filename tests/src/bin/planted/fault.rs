//! A planted fault as it is kept: a header that says what it breaks and who must catch it, and a diff.

use std::path::{Path, PathBuf};

use crate::command::TestCommand;

/// One plausible mistake.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The file's name without `.patch`.
    pub(crate) name: String,
    /// Promise, rules and cases.
    pub(crate) breaks: String,
    /// The tests that must fail.
    pub(crate) command: TestCommand,
    /// Going on for ever is how it shows.
    pub(crate) hangs: bool,
    /// The file.
    pub(crate) path: PathBuf,
    /// What the diff changes, below the workspace.
    pub(crate) files: Vec<String>,
}

impl Fault {
    /// All faults of a folder by their names.
    pub(crate) fn all(folder: &Path) -> Result<Vec<Self>, String> {
        let unreadable = |error| format!("cannot read {}: {error}", folder.display());
        let mut faults = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == "patch") {
                let text = std::fs::read_to_string(&path).map_err(unreadable)?;
                faults.push(Self::parse(&path, &text).map_err(|why| format!("{}: {why}", path.display()))?);
            }
        }
        faults.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(faults)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let name = path.file_stem().and_then(|stem| stem.to_str()).ok_or("its name is no text")?;
        let header = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let files: Vec<String> =
            text.lines().filter_map(|line| line.strip_prefix("+++ b/")).map(str::to_owned).collect();
        if files.is_empty() {
            return Err("it changes no file".into());
        }
        // A fault in a test would show that the test runs, and not that it guards anything.
        if let Some(file) = files.iter().find(|file| !is_product(file)) {
            return Err(format!("{file} is no source of the product"));
        }
        Ok(Self {
            name: name.to_owned(),
            breaks: header("# breaks:").ok_or("it has no line `# breaks:`")?.to_owned(),
            command: TestCommand::parse(header("# caught-by:").ok_or("it has no line `# caught-by:`")?)?,
            hangs: header("# caught-by-hang").is_some(),
            path: path.to_owned(),
            files,
        })
    }
}

fn is_product(file: &str) -> bool {
    let is_test =
        file.split('/').any(|part| part == "tests" || part == "tests.rs" || part.ends_with("_tests"));
    file.contains("src/") && file.ends_with(".rs") && !is_test
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# breaks: P4\n# caught-by: cargo test -p fanin-bus --lib some -- --exact\n\
        --- a/bus/src/lib.rs\n+++ b/bus/src/lib.rs\n";

    fn parse(text: &str) -> Result<Fault, String> {
        Fault::parse(Path::new("folder/some_fault.patch"), text)
    }

    #[test]
    fn a_fault_is_read() {
        let fault = parse(TEXT).unwrap();
        assert_eq!((fault.name.as_str(), fault.breaks.as_str(), fault.hangs), ("some_fault", "P4", false));
        assert_eq!(fault.command.to_string(), "cargo test -p fanin-bus --lib some -- --exact");
        assert_eq!(fault.files, ["bus/src/lib.rs"]);
        assert!(parse(&format!("# caught-by-hang\n{TEXT}")).unwrap().hangs);
    }

    #[test]
    fn what_is_no_fault_is_refused() {
        for (from, to, why) in [
            ("# breaks", "# breaks nothing", "no line"),
            ("# caught-by", "# caught", "no line"),
            ("+++ b/bus", "+++ c/bus", "no file"),
            ("b/bus/src/lib.rs", "b/bus/tests/bus/main.rs", "no source"),
            ("b/bus/src/lib.rs", "b/supervisor/machine/src/log/tests.rs", "no source"),
            ("b/bus/src/lib.rs", "b/README.md", "no source"),
            ("cargo test", "cargo run", "cargo test"),
            ("--lib", "--workspace", "--workspace"),
        ] {
            let refused = parse(&TEXT.replace(from, to)).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
