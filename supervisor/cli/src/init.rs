//! `fanin init`: files to begin with, a configuration in which all is a comment and an example of a manifest. What is there
//! already stays as it is.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

use fanin_protocol::{layout, text};

use crate::exit::Exit;
use crate::stores::LookError;

/// The words of `fanin init`.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// The folder that they are written to
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// The example of a manifest.
const MANIFEST: &str = "tasks.toml";

/// Each file with what is in it.
const FILES: [(&str, &str); 2] =
    [(layout::CONFIG, include_str!("init/fanin.toml")), (MANIFEST, include_str!("init/tasks.toml"))];

/// Writes what is not there.
///
/// # Errors
///
/// [`LookError::Io`], with the file that cannot be written.
pub(crate) fn run(args: &InitArgs, out: &mut dyn Write) -> Result<Exit, LookError> {
    for (name, content) in FILES {
        let path = args.dir.join(name);
        let path = path.strip_prefix(".").unwrap_or(&path);
        let shown = text::path(path);
        let made = OpenOptions::new().write(true).create_new(true).open(path);
        match made.and_then(|mut file| file.write_all(content.as_bytes())) {
            Ok(()) => writeln!(out, "{shown}: written")?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                writeln!(out, "{shown}: is there already, and stays as it is")?;
            }
            Err(error) => {
                return Err(
                    io::Error::new(error.kind(), format!("{shown} cannot be written: {error}")).into()
                );
            }
        }
    }
    writeln!(
        out,
        "\n`fanin run {MANIFEST}` runs the example; `fanin config show --origin` shows what holds"
    )?;
    Ok(Exit::Done)
}
