//! Where things stand on disk: from variables to paths, and nothing else. It never touches a disk.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::id::{GroupId, SessionId};
use crate::limits::SOCKET_PATH_BYTES_MAX;

/// The lock of a run's folder: whoever holds it is at work there, and it goes with its process.
pub const OWNER_LOCK: &str = "owner.lock";

/// What a run was asked to do, in its folder. It is there before the first task starts.
pub const PLAN: &str = "plan.json";

/// The name of a file of configuration, in the folder that fanin is started in and in the user's.
pub const CONFIG: &str = "fanin.toml";

/// What came of it. A plan without a result is of a run that was killed, or is still at work.
pub const RESULT: &str = "result.json";

/// In the folder of the shared store: where the socket of the service that owns it is. It is there while one serves, and
/// after one was killed.
pub const SOCKET: &str = "socket";

/// Why there is no state folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The variable names a folder that would be another one wherever fanin is started.
    #[error("FANIN_STATE_DIR is {0:?}; it must be an absolute path")]
    Relative(PathBuf),
    /// Nothing says where it would be.
    #[error("there is no state folder; set FANIN_STATE_DIR, XDG_STATE_HOME or HOME")]
    Unset,
}

/// The state folder: `$FANIN_STATE_DIR`, else `$XDG_STATE_HOME/fanin`, else `$HOME/.local/state/fanin`.
///
/// `variable` looks a variable up. An empty one counts as not set, and so does a relative `XDG_STATE_HOME` or `HOME`.
///
/// # Errors
///
/// [`LayoutError`], where `FANIN_STATE_DIR` is relative, or where none of them is of use.
pub fn state(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, LayoutError> {
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    match path("FANIN_STATE_DIR") {
        Some(state) if state.is_absolute() => return Ok(state),
        Some(state) => return Err(LayoutError::Relative(state)),
        None => {}
    }
    let absolute = |name| path(name).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    Ok(base.ok_or(LayoutError::Unset)?.join("fanin"))
}

/// The user's file of configuration: `$XDG_CONFIG_HOME/fanin/fanin.toml`, else `$HOME/.config/fanin/fanin.toml`; none
/// where neither variable is an absolute path.
pub fn config(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("fanin").join(CONFIG))
}

/// The folder of the shared store, which a service owns.
pub fn store(state: &Path) -> PathBuf {
    state.join("store")
}

/// The socket for a service of the store with this name: `$XDG_RUNTIME_DIR/fanin/<16 hex digits>.sock`, and below the state
/// folder where that variable is not set, or its path would be too long for a socket.
///
/// Clients do not ask here, since their variables may be others: the service leaves the path in [`SOCKET`].
pub fn socket(state: &Path, store: &str, variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let name = format!("{}.sock", store.get(..16).unwrap_or(store));
    let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let runtime = runtime.map(|folder| folder.join("fanin").join(&name));
    runtime
        .filter(|path| path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX)
        .unwrap_or_else(|| state.join("sock").join(name))
}

/// The folder of all runs.
pub fn runs(state: &Path) -> PathBuf {
    state.join("runs")
}

/// The folder of one run. Only for a group whose id this program made: a name that came from outside is looked for
/// among the folders that are there, and never becomes a path (SEC-7).
pub fn run(state: &Path, group: &GroupId) -> PathBuf {
    runs(state).join(group.to_string())
}

/// The folder of a session whose jobs come one launch after the other: it is a run without a plan. As [`run`], only for
/// an id that this program made.
pub fn session(state: &Path, session: &SessionId) -> PathBuf {
    runs(state).join(session.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Result<PathBuf, LayoutError> {
        state(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_first_variable_that_is_set_says_where() {
        let all = [("FANIN_STATE_DIR", "/a"), ("XDG_STATE_HOME", "/b"), ("HOME", "/c")];
        assert_eq!(found(&all), Ok("/a".into()));
        assert_eq!(found(&all[1..]), Ok("/b/fanin".into()));
        assert_eq!(found(&all[2..]), Ok("/c/.local/state/fanin".into()));
        assert_eq!(found(&[]), Err(LayoutError::Unset));
    }

    #[test]
    fn empty_and_relative_ones_do_not_count_and_ours_is_refused_by_name() {
        assert_eq!(
            found(&[("FANIN_STATE_DIR", ""), ("XDG_STATE_HOME", "b"), ("HOME", "/c")]),
            found(&[("HOME", "/c")])
        );
        assert_eq!(found(&[("XDG_STATE_HOME", ""), ("HOME", "c")]), Err(LayoutError::Unset));
        assert_eq!(
            found(&[("FANIN_STATE_DIR", "a"), ("HOME", "/c")]),
            Err(LayoutError::Relative("a".into()))
        );
    }

    #[test]
    fn the_configuration_of_a_user_is_where_others_are() {
        let found = |variables: &[(&str, &str)]| {
            config(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            })
        };
        assert_eq!(found(&[("XDG_CONFIG_HOME", "/b"), ("HOME", "/c")]), Some("/b/fanin/fanin.toml".into()));
        assert_eq!(
            found(&[("XDG_CONFIG_HOME", "b"), ("HOME", "/c")]),
            Some("/c/.config/fanin/fanin.toml".into())
        );
        assert_eq!(found(&[("HOME", "")]), None);
    }

    #[test]
    fn a_socket_lies_where_it_fits() {
        let socket = |runtime: &str| {
            let variable = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| OsString::from(runtime));
            socket(Path::new("/s"), "0123456789abcdef0123456789abcdef", variable)
        };
        assert_eq!(socket("/run/user/7"), Path::new("/run/user/7/fanin/0123456789abcdef.sock"));
        let elsewhere = Path::new("/s/sock/0123456789abcdef.sock");
        for runtime in ["", "run", &format!("/{}", "x".repeat(SOCKET_PATH_BYTES_MAX))] {
            assert_eq!(socket(runtime), elsewhere);
        }
    }

    #[test]
    fn a_run_has_a_folder_below_all_runs() {
        let group = GroupId::from_uuid([0xab; 16]);
        assert_eq!(
            run(Path::new("/s"), &group),
            Path::new("/s/runs").join(format!("grp_{}", "ab".repeat(16)))
        );
    }
}
