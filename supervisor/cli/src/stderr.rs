//! Standard error, written by one thread of its own: a reader that stops reading holds up that thread and nothing else.
//! Nothing here waits for a reader, save [`Stderr::settle`], and what cannot be written is no reason to fail.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use console::Term;
use fanin_protocol::limits::STDERR_HELD_BYTES_MAX;
use fanin_protocol::text;

use crate::github;
use crate::mask::Mask;

/// What is said to people. All clones are heard in one place, in the order in which they spoke.
#[derive(Debug, Clone)]
pub(crate) struct Stderr {
    shared: Arc<Shared>,
}

impl Stderr {
    /// Starts the thread that writes. It ends with the process.
    ///
    /// # Errors
    ///
    /// The system's, where it has no thread to give.
    pub(crate) fn open() -> io::Result<Self> {
        Self::writing(io::stderr())
    }

    fn writing(out: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("stderr".to_owned()).spawn(move || write(&theirs, out))?;
        Ok(Self { shared })
    }

    /// From now on nothing that is said is a command to GitHub's runner, which reads it, but what [`Stderr::command`]
    /// says.
    pub(crate) fn defuse(&self) {
        self.shared.tell(|told| told.is_defused = true);
    }

    /// From now on nothing that is said holds what the mask hides.
    pub(crate) fn hide(&self, mask: Mask) {
        self.shared.tell(|told| told.mask = mask);
    }

    /// As [`Stderr::hide`], of these variables as well.
    pub(crate) fn hide_more(&self, variables: impl IntoIterator<Item = (String, String)>) {
        self.shared.tell(|told| told.mask.add(variables));
    }

    /// A text as it may be said.
    pub(crate) fn masked<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.shared.told().mask.hide(text)
    }

    /// Says a command to GitHub's runner.
    pub(crate) fn command(&self, command: &str) {
        self.shared.tell(|told| told.push(told.mask.hide(command).into_owned()));
    }

    /// Says something of the program's own, which may have foreign words in it: nothing but text reaches a terminal. It is
    /// never left out: a run has a handful of such words.
    pub(crate) fn say(&self, words: &str) {
        self.shared.tell(|told| told.push(told.safe(&text::printable(words))));
    }

    /// Says a document for programs, as it is.
    pub(crate) fn document(&self, document: &str) {
        self.shared.tell(|told| told.push(told.safe(document)));
    }

    /// Says what happened to a task. A line for which there is no room is left out and counted.
    pub(crate) fn progress(&self, line: &str) {
        self.shared.tell(|told| {
            if told.bytes.saturating_add(line.len()) > STDERR_HELD_BYTES_MAX {
                told.left_out += 1;
            } else {
                told.push(told.safe(line));
            }
        });
    }

    /// Shows this block below all that was said, instead of the one before; only the newest is sure to be seen. What
    /// is said next takes it away, and so does an empty one.
    pub(crate) fn draw(&self, block: Vec<String>) {
        self.shared.tell(|told| {
            let masked = block.iter().map(|line| told.mask.hide(line).into_owned());
            told.block = Some(masked.collect());
        });
    }

    /// Sends a terminal what it does not show as text.
    pub(crate) fn notify(&self, sequence: &str) {
        self.shared.tell(|told| told.sequence = Some(sequence.to_owned()));
    }

    /// Waits until all is written, at most for `limit`. Blocks its thread.
    pub(crate) fn settle(&self, limit: Option<Duration>) {
        let told = self.shared.told();
        let is_busy = |told: &mut Told| told.is_writing || !told.is_empty();
        match limit {
            Some(limit) => drop(self.shared.changed.wait_timeout_while(told, limit, is_busy)),
            None => drop(self.shared.changed.wait_while(told, is_busy)),
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    told: Mutex<Told>,
    changed: Condvar,
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, Told> {
        // Each change is whole, whatever became of the thread that made it.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told());
        self.changed.notify_all();
    }

    /// Waits for something to write; what was taken before counts as written.
    fn take(&self) -> Taken {
        self.tell(|told| told.is_writing = false);
        let told = self.changed.wait_while(self.told(), |told| told.is_empty());
        let mut told = told.unwrap_or_else(PoisonError::into_inner);
        told.tell_left_out();
        told.is_writing = true;
        told.bytes = 0;
        Taken {
            lines: std::mem::take(&mut told.lines),
            block: told.block.take(),
            sequence: told.sequence.take(),
        }
    }
}

/// What is written next, in this order.
struct Taken {
    lines: Vec<String>,
    block: Option<Vec<String>>,
    sequence: Option<String>,
}

/// What waits to be written.
#[derive(Debug, Default)]
struct Told {
    lines: Vec<String>,
    /// Bytes of `lines`.
    bytes: usize,
    /// Lines of progress that came after `lines` and found no room.
    left_out: usize,
    /// The block below the lines.
    block: Option<Vec<String>>,
    /// What is no text, for a terminal.
    sequence: Option<String>,
    /// The thread is at work on what it took.
    is_writing: bool,
    /// Somebody reads who takes some lines for commands.
    is_defused: bool,
    /// What is never said.
    mask: Mask,
}

impl Told {
    const fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.block.is_none() && self.sequence.is_none()
    }

    fn safe(&self, words: &str) -> String {
        let words = self.mask.hide(words);
        if self.is_defused { github::defused(&words).into_owned() } else { words.into_owned() }
    }

    fn push(&mut self, line: String) {
        self.tell_left_out();
        self.bytes += line.len();
        self.lines.push(line);
    }

    fn tell_left_out(&mut self) {
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            self.push(format!("fanin: nobody read this in time; lines of progress left out: {left_out}"));
        }
    }
}

/// Writes what is told, for ever.
fn write(shared: &Shared, mut out: impl Write) {
    // The width of each line of the block that stands there.
    let mut drawn = Vec::new();
    loop {
        let Taken { lines, block, sequence } = shared.take();
        for line in lines {
            put(&mut out, &drawn, &[line]);
            drawn.clear();
        }
        if let Some(block) = block {
            put(&mut out, &drawn, &block);
            drawn = block.iter().map(|line| console::measure_text_width(line)).collect();
        }
        if let Some(sequence) = sequence {
            // As with text: nobody may be left.
            let _ = out.write_all(sequence.as_bytes());
        }
    }
}

/// Writes lines in place of the block that is `drawn`, at once: others may write to the same place.
fn put(out: &mut impl Write, drawn: &[usize], lines: &[String]) {
    let mut text = String::new();
    if !drawn.is_empty() {
        let (_, columns) = Term::stderr().size();
        // Up to the first line of the block, then nothing below.
        text.push_str(&format!("\r\x1b[{}A\x1b[J", rows_of(drawn, usize::from(columns))));
    }
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    // Nobody may be left to read it. A terminal that is gone ends the run by its hang-up, not by this.
    let _ = out.write_all(text.as_bytes());
}

/// The rows that lines of these widths take on a terminal of `columns`: one that was made narrower wraps what stands
/// there already.
fn rows_of(widths: &[usize], columns: usize) -> usize {
    widths.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum()
}

/// True where standard output has the same reader, who would see what is written to both in the wrong order.
pub(crate) fn is_beside_stdout() -> bool {
    let (out, err) = (io::stdout(), io::stderr());
    let place = |stream: BorrowedFd<'_>| -> io::Result<(u64, u64)> {
        let found = File::from(stream.try_clone_to_owned()?).metadata()?;
        Ok((found.dev(), found.ino()))
    };
    let is_one_file = || match (place(out.as_fd()), place(err.as_fd())) {
        (Ok(out), Ok(err)) => out == err,
        // Then the order is not worth waiting for.
        (Err(_), _) | (_, Err(_)) => false,
    };
    (out.is_terminal() && err.is_terminal()) || is_one_file()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Takes a write only once the test asks for it, and tells its text.
    struct Slow {
        begun: Option<Sender<()>>,
        asked: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(begun) = self.begun.take() {
                begun.send(()).map_err(io::Error::other)?;
            }
            self.asked.recv().map_err(io::Error::other)?;
            let text = String::from_utf8(bytes.to_vec()).map_err(io::Error::other)?;
            self.written.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Reader {
        ask: Sender<()>,
        written: Receiver<String>,
    }

    impl Reader {
        fn read(&self) -> String {
            self.ask.send(()).unwrap();
            self.written.recv().unwrap()
        }
    }

    /// A stream whose thread has taken the word `first` and waits for its reader.
    fn stuck() -> (Stderr, Reader) {
        let ((begin, begun), (ask, asked), (tell, written)) = (channel(), channel(), channel());
        let stderr = Stderr::writing(Slow { begun: Some(begin), asked, written: tell }).unwrap();
        stderr.say("first");
        begun.recv().unwrap();
        (stderr, Reader { ask, written })
    }

    #[test]
    fn progress_without_room_is_left_out_and_counted_and_words_are_not() {
        let (stderr, reader) = stuck();
        let line = "x".repeat(STDERR_HELD_BYTES_MAX / 4);
        for _ in 0..7 {
            stderr.progress(&line);
        }
        stderr.say("a word");
        stderr.progress(&line);
        stderr.say("the last word");
        let left_out = |n| format!("fanin: nobody read this in time; lines of progress left out: {n}\n");
        assert_eq!(reader.read(), "first\n");
        for _ in 0..4 {
            assert_eq!(reader.read().len(), line.len() + 1);
        }
        assert_eq!(reader.read(), left_out(3));
        assert_eq!(reader.read(), "a word\n");
        assert_eq!(reader.read(), left_out(1));
        assert_eq!(reader.read(), "the last word\n");
        stderr.progress("there is room again");
        assert_eq!(reader.read(), "there is room again\n");
    }

    #[test]
    fn what_was_left_out_last_is_told_once_there_is_room() {
        let (stderr, reader) = stuck();
        stderr.progress(&"x".repeat(STDERR_HELD_BYTES_MAX));
        stderr.progress("y");
        assert_eq!(reader.read(), "first\n");
        assert_eq!(reader.read().len(), STDERR_HELD_BYTES_MAX + 1);
        assert!(reader.read().ends_with("left out: 1\n"));
    }

    #[test]
    fn only_the_newest_block_is_drawn_and_what_is_said_stands_above_it() {
        let (stderr, reader) = stuck();
        for n in 1..=9 {
            stderr.draw(vec![format!("block {n}"), "summary".to_owned()]);
        }
        stderr.say("word");
        assert_eq!(reader.read(), "first\n");
        assert_eq!(reader.read(), "word\n");
        assert_eq!(reader.read(), "block 9\nsummary\n");
        stderr.say("another word");
        assert_eq!(reader.read(), "\r\x1b[2A\x1b[Janother word\n");
        stderr.draw(vec!["again".to_owned()]);
        assert_eq!(reader.read(), "again\n");
        stderr.draw(Vec::new());
        assert_eq!(reader.read(), "\r\x1b[1A\x1b[J");
    }

    #[test]
    fn settling_waits_for_the_last_word_and_gives_a_stuck_reader_up() {
        let (stderr, reader) = stuck();
        stderr.settle(Some(Duration::from_millis(1)));
        assert!(reader.written.try_recv().is_err(), "it was written before anybody read");
        reader.ask.send(()).unwrap();
        stderr.settle(None);
        assert_eq!(reader.written.try_recv().unwrap(), "first\n");
    }

    #[test]
    fn what_stands_on_a_terminal_that_was_made_narrower_is_cleared_whole() {
        let widths = [79, 10, 0, 40];
        assert_eq!(rows_of(&widths, 80), 4);
        assert_eq!(rows_of(&widths, 40), 5);
        assert_eq!(rows_of(&widths, 39), 3 + 1 + 1 + 2);
        assert_eq!(rows_of(&widths, 0), 79 + 10 + 1 + 40);
    }
}
