//! A writer that gives up on a reader who has stopped reading: whoever waits for it would wait for ever otherwise.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::time::{Sleep, sleep};

/// A writer of which every step ends, at the latest when nothing was taken for as long as its patience. From then on it
/// fails: what was written last may be torn.
pub(crate) struct Patient<W> {
    inner: W,
    patience: Duration,
    /// Runs while nothing is taken.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<W> Patient<W> {
    pub(crate) const fn new(inner: W, patience: Duration) -> Self {
        Self { inner, patience, alarm: None }
    }

    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        step: impl FnOnce(&mut W, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.alarm.as_ref().is_none_or(|alarm| !alarm.is_elapsed())
            && let Poll::Ready(done) = step(&mut self.inner, cx)
        {
            self.alarm = None;
            return Poll::Ready(done);
        }
        let patience = self.patience;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(patience)));
        alarm
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads any more")))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Patient<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(cx, |inner, cx| Pin::new(inner).poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(cx, |inner, cx| Pin::new(inner).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(cx, |inner, cx| Pin::new(inner).poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_ends_the_writing_and_not_before_its_time() {
        let (ours, mut theirs) = duplex(4);
        let mut writer = Patient::new(ours, PATIENCE);
        let begun = Instant::now();
        assert_eq!(writer.write_all(b"longer").await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), PATIENCE.as_secs());
        // Nothing follows what is torn, whoever reads now.
        theirs.read_exact(&mut [0; 4]).await.unwrap();
        assert_eq!(writer.write_all(b"x").await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), PATIENCE.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_is_slow_is_waited_for() {
        let (ours, mut theirs) = duplex(1);
        let mut writer = Patient::new(ours, PATIENCE);
        let reading = async {
            let mut read = Vec::new();
            for _ in 0..5 {
                tokio::time::sleep(PATIENCE - Duration::from_secs(1)).await;
                read.push(theirs.read_u8().await.unwrap());
            }
            read
        };
        let (written, read) = tokio::join!(writer.write_all(b"hello"), reading);
        written.unwrap();
        assert_eq!(read, b"hello");
    }
}
