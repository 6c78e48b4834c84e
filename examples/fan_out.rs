//! A survey of a source tree: three closures side by side, one result.
//!
//! Run it with `cargo run -p fanin-tests --example fan_out`, and with a folder as its argument for another tree.

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fanin_supervisor::protocol::CombinedResult;
use fanin_supervisor::{JobError, JobSpec, Supervisor};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).unwrap_or_else(|| OsString::from("."));
    let result = survey(Path::new(&folder)).await?;
    print!("{}", result.to_text());
    Ok(())
}

/// Launches the survey of a folder and waits for its one result.
///
/// A job that fails is an entry of the result, not an error of this function.
pub(crate) async fn survey(folder: &Path) -> Result<Arc<CombinedResult>, Box<dyn Error>> {
    let supervisor = Supervisor::builder().start().await?;
    let session = supervisor.session("survey").await?;
    let group = session
        .fan_out([
            count("rust files", folder, |file| usize::from(is_rust(file))),
            count("lines of rust", folder, |file| if is_rust(file) { lines(file) } else { 0 }),
            readme(folder),
        ])
        .await?;
    // All three run now. Control was back at once; a program with other work does it here.
    let result = group.wait(None).await?;
    supervisor.shutdown().await;
    Ok(result.result)
}

/// A job that adds up a number over all files of a folder.
fn count(label: &str, folder: &Path, of: impl Fn(&Path) -> usize + Send + 'static) -> JobSpec {
    let folder = folder.to_owned();
    JobSpec::run(label, |job| async move {
        let (mut folders, mut total) = (vec![folder], 0);
        while let Some(folder) = folders.pop() {
            // A body that looks here can stop between two folders, and so be cancelled politely.
            if job.is_cancelled() {
                return Err(JobError::new("stopped half way"));
            }
            job.progress(format!("{}", folder.display()));
            for path in entries(&folder)? {
                if path.is_dir() {
                    folders.push(path);
                } else {
                    total += of(&path);
                }
            }
            tokio::task::yield_now().await;
        }
        Ok(total.to_string().into())
    })
}

/// A job that fails where the folder has no README.
fn readme(folder: &Path) -> JobSpec {
    let file = folder.join("README.md");
    JobSpec::run("readme", |_| async move {
        let text = std::fs::read_to_string(file).map_err(|_| JobError::new("there is no README.md"))?;
        Ok(text.lines().next().unwrap_or_default().into())
    })
}

/// What a folder holds, without hidden files, build output and links.
fn entries(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_wanted = !name.to_string_lossy().starts_with('.') && name != "target";
        if is_wanted && !entry.file_type()?.is_symlink() {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

fn is_rust(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "rs")
}

fn lines(file: &Path) -> usize {
    std::fs::read_to_string(file).map_or(0, |text| text.lines().count())
}
