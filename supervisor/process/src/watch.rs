//! Learns that a child has ended while it is still a zombie. It never reaps it: until then its number, and that of
//! the group it leads, cannot be given to others.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
#[cfg(target_os = "linux")]
use rustix::process::{PidfdFlags, pidfd_open};
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Makes sure that children which end stay zombies until they are reaped.
///
/// Whoever started this program may have left the signal of ended children ignored; the system then reaps them by
/// itself, and their status is lost. To listen to the signal once, for however short, ends that.
///
/// # Errors
///
/// The system's, where it cannot be listened to.
pub(crate) fn keep_ended() -> io::Result<()> {
    signal(SignalKind::child()).map(drop)
}

/// Watches one child.
#[derive(Debug)]
pub(crate) struct Watch {
    pid: Pid,
    means: Means,
}

#[derive(Debug)]
enum Means {
    /// A descriptor of the process: wakes for it alone.
    #[cfg(target_os = "linux")]
    Descriptor(AsyncFd<OwnedFd>),
    /// Every end of a child wakes; costs no descriptor. For other systems, kernels before 5.3, and a full table of
    /// descriptors.
    Signal(Signal),
}

impl Watch {
    /// Watches the child `pid`, which is not reaped yet.
    ///
    /// # Errors
    ///
    /// The system's, where neither way is open.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with I/O enabled.
    pub(crate) fn new(pid: Pid) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Ok(means) = Self::descriptor(pid) {
            return Ok(Self { pid, means });
        }
        Self::by_signal(pid)
    }

    // The safe constructor was deprecated for types that do not own what they hand out; this one does. The one that
    // replaces it is unsafe.
    #[cfg(target_os = "linux")]
    #[allow(deprecated)]
    fn descriptor(pid: Pid) -> io::Result<Means> {
        let descriptor = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        AsyncFd::with_interest(descriptor, Interest::READABLE).map(Means::Descriptor)
    }

    pub(crate) fn by_signal(pid: Pid) -> io::Result<Self> {
        Ok(Self { pid, means: Means::Signal(signal(SignalKind::child())?) })
    }

    /// Ready once the child has ended; it is a zombie then.
    ///
    /// An error says that it can no longer be watched.
    pub(crate) fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.means {
            #[cfg(target_os = "linux")]
            Means::Descriptor(descriptor) => loop {
                let mut guard = ready!(descriptor.poll_read_ready(cx))?;
                if has_ended(self.pid)? {
                    return Poll::Ready(Ok(()));
                }
                guard.clear_ready();
            },
            Means::Signal(children) => loop {
                // Asked for before the look, so that an end between the two is not missed.
                let woken = children.poll_recv(cx);
                if has_ended(self.pid)? {
                    return Poll::Ready(Ok(()));
                }
                if ready!(woken).is_none() {
                    return Poll::Ready(Err(io::Error::other("signals of children have ended")));
                }
            },
        }
    }
}

/// Whether the child is a zombie.
fn has_ended(pid: Pid) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    Ok(waitid(WaitId::Pid(pid), options)?.is_some())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn both_ways_to_watch_report_an_end_and_do_not_reap() {
        for by_signal in [false, true] {
            let mut child =
                tokio::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
            let pid = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
            let mut watch = if by_signal { Watch::by_signal(pid) } else { Watch::new(pid) }.unwrap();
            let first = poll_fn(|cx| std::task::Poll::Ready(watch.poll_ended(cx).is_ready())).await;
            assert!(!first, "ended before its input did");
            drop(child.stdin.take());
            tokio::time::timeout(Duration::from_secs(20), poll_fn(|cx| watch.poll_ended(cx)))
                .await
                .unwrap()
                .unwrap();
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            assert!(stat.contains(" Z "), "{stat}");
            assert!(child.wait().await.unwrap().success());
            assert!(!Path::new(&format!("/proc/{pid}")).exists());
            // Watching what is gone is an error, not a wait for ever.
            assert!(poll_fn(|cx| watch.poll_ended(cx)).await.is_err());
        }
    }
}
