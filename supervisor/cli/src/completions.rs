//! `fanin completions`: a script that completes the words of fanin in a shell. It is made from their definition.

use std::io::Write;

use clap_complete::{Shell, generate};

use crate::args;

/// Writes the script.
pub(crate) fn run(shell: Shell, mut out: &mut dyn Write) {
    let mut command = args::command();
    let name = command.get_name().to_owned();
    generate(shell, &mut command, name, &mut out);
}
