//! What the service tells its manager, systemd for one: that it is ready, alive, and stopping. Nobody listening is no matter.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use fanin_supervisor::Supervisor;
use tokio::time::{MissedTickBehavior, interval};

/// The way to the manager, where there is one.
#[derive(Debug)]
pub(crate) struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that we are alive.
    every: Option<Duration>,
}

impl Notify {
    /// That of the environment (`NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`).
    ///
    /// # Errors
    ///
    /// The system's, where there is a name and no way to it.
    pub(crate) fn of_environment() -> io::Result<Self> {
        let to = env::var_os("NOTIFY_SOCKET")
            .filter(|name| !name.is_empty())
            .map(|name| way(&name))
            .transpose()?;
        let number = |name| env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        // Twice as often as it has to be: one that is late is no death.
        let every =
            number("WATCHDOG_USEC").filter(|us| is_ours && *us > 1).map(|us| Duration::from_micros(us / 2));
        Ok(Self { to, every })
    }

    /// Clients may come.
    pub(crate) fn ready(&self) {
        self.tell("READY=1\nSTATUS=serving");
    }

    /// It is about to end.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=stopping");
    }

    /// Says that we are alive, as long as the supervisor answers. It ends by being dropped.
    pub(crate) async fn beat(&self, supervisor: &Supervisor) {
        let Some(every) = self.every.filter(|_| self.to.is_some()) else {
            return std::future::pending().await;
        };
        let mut tick = interval(every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let supervisor = supervisor.clone();
            // Beside the runtime: a look may wait, and one that hangs must not be taken for an answer.
            let looked = tokio::task::spawn_blocking(move || supervisor.standings().is_ok());
            if looked.await.is_ok_and(|is_alive| is_alive) {
                self.tell("WATCHDOG=1");
            }
        }
    }

    fn tell(&self, what: &str) {
        if let Some((socket, to)) = &self.to {
            // A manager that is gone, or that reads nothing, is no reason to end.
            let _ = socket.send_to_addr(what.as_bytes(), to);
        }
    }
}

#[cfg(target_os = "linux")]
fn unnamed(name: &[u8]) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;
    SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

fn way(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let to = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => unnamed(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, to))
}
