//! A copy of the workspace to break. A file that comes back is written anew, so that cargo sees it change twice.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::fault::Fault;

/// Left out: this program and its faults. Cargo would build it with every suite of its package.
const LEFT_OUT: [&str; 2] = ["tests/src/bin/planted/", "tests/planted/"];

/// How the copy is built: changes are small, many, and each is built once, so the compiler does as little as it can.
const CARGO_CONFIG: &str = "[build]
incremental = true
[profile.dev]
debug = false
[profile.dev.package]
fanin-machine.opt-level = 0
fanin-protocol.opt-level = 0
fanin-tests.opt-level = 0
";

/// The copy.
pub(crate) struct Scratch {
    root: PathBuf,
    folder: PathBuf,
}

impl Scratch {
    /// Brings the copy up to date: all tracked files as they are in the work tree, and no others.
    pub(crate) fn prepare(root: &Path, folder: &Path) -> Result<Self, String> {
        let this = Self { root: root.to_owned(), folder: folder.to_owned() };
        let tracked = this.tracked()?;
        let known: BTreeSet<PathBuf> = tracked.iter().map(|file| folder.join(file)).collect();
        remove_others(folder, &known)?;
        for file in &tracked {
            this.copy(file, false)?;
        }
        write(&folder.join(".cargo/config.toml"), CARGO_CONFIG.as_bytes(), false)?;
        Ok(this)
    }

    /// The copy's folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Plants a fault; returns why where its diff does not fit.
    pub(crate) fn plant(&self, fault: &Fault) -> Result<Option<String>, String> {
        let output = self.git(&["apply", "--whitespace=nowarn"], Some(&fault.path))?;
        if !output.status.success() {
            return Ok(Some(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")));
        }
        for file in &fault.files {
            if read(&self.folder.join(file))? == read(&self.root.join(file))? {
                return Ok(Some(format!("it leaves {file} as it was")));
            }
        }
        Ok(None)
    }

    /// Takes it out again.
    pub(crate) fn take_out(&self, fault: &Fault) -> Result<(), String> {
        fault.files.iter().try_for_each(|file| self.copy(file, true))
    }

    /// Files under version control, below the workspace.
    fn tracked(&self) -> Result<Vec<String>, String> {
        let output = self.git(&["ls-files", "-z"], None)?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "needs a git clone of the workspace at {}: {}",
                self.root.display(),
                why.trim()
            ));
        }
        let names = String::from_utf8_lossy(&output.stdout);
        let names =
            names.split_terminator('\0').filter(|name| !LEFT_OUT.iter().any(|out| name.starts_with(out)));
        Ok(names.map(str::to_owned).collect())
    }

    fn copy(&self, file: &str, always: bool) -> Result<(), String> {
        write(&self.folder.join(file), &read(&self.root.join(file))?, always)
    }

    /// Runs git: in the work tree, or with a diff in the copy. There it must not find the repository that the copy
    /// lies in: it would take the diff's names as that one's and skip them all without a word.
    fn git(&self, words: &[&str], diff: Option<&Path>) -> Result<Output, String> {
        let mut command = Command::new("git");
        command.args(words);
        match diff {
            None => command.current_dir(&self.root),
            Some(diff) => {
                let above = self.folder.parent().unwrap_or(&self.folder);
                command.arg(diff).current_dir(&self.folder).env("GIT_CEILING_DIRECTORIES", above)
            }
        };
        command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
        command.output().map_err(|error| format!("needs git, which cannot be run: {error}"))
    }
}

/// Removes files that are not among `known`, and nothing where there is no folder yet.
fn remove_others(folder: &Path, known: &BTreeSet<PathBuf>) -> Result<(), String> {
    let failed = |error| format!("cannot tidy {}: {error}", folder.display());
    if !folder.exists() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            remove_others(&path, known)?;
        } else if !known.contains(&path) && !path.ends_with(".cargo/config.toml") {
            std::fs::remove_file(&path).map_err(failed)?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Writes a file; one that is so already is left alone unless `always`, and cargo does not build it again.
fn write(path: &Path, bytes: &[u8], always: bool) -> Result<(), String> {
    let failed = |error| format!("cannot write {}: {error}", path.display());
    if !always && std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, bytes).map_err(failed)
}
