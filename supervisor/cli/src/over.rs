//! A run that is over, as the documents and texts it leaves behind. It renders; nothing is written here.

use std::io;

use fanin_protocol::{GroupId, ParentMark, Policy, ResultEntry};

use crate::exit::Exit;
use crate::github::{self, GitHub};
use crate::json::{self, Beside};
use crate::junit;
use crate::report::Report;
use crate::style::Style;
use crate::tasks::Tasks;
use crate::words::Words;

/// A run that is over.
#[derive(Clone, Copy)]
pub(crate) struct Over<'r> {
    /// What it was about.
    pub(crate) description: Option<&'r str>,
    /// The rule that may have stopped the rest.
    pub(crate) policy: Policy,
    /// The run that it ran again.
    pub(crate) again_of: Option<&'r GroupId>,
    /// The job that it was nested in.
    pub(crate) parent: Option<&'r ParentMark>,
    /// What came of its tasks.
    pub(crate) tasks: Tasks<'r>,
    /// How tasks ended, in words.
    pub(crate) words: &'r Words,
    /// How the program ends.
    pub(crate) exit: Exit,
}

impl Over<'_> {
    /// The result for people.
    ///
    /// # Errors
    ///
    /// None that a text in memory has.
    pub(crate) fn report(&self, github: Option<&GitHub>) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        match github {
            Some(github) => github.write(&mut text, self)?,
            None => {
                let kept = |entry: &ResultEntry| self.tasks.kept(&entry.job);
                self.report_of().write(&mut text, self.tasks.entries(), kept)?;
            }
        }
        Ok(text)
    }

    /// What a report for people says and how, beside the tasks.
    pub(crate) fn report_of(&self) -> Report<'_> {
        Report {
            description: self.description,
            result: self.tasks.result,
            policy: self.policy,
            words: self.words,
            style: Style::of(&io::stdout()),
            members: self.tasks.members,
        }
    }

    /// The result for programs.
    ///
    /// # Errors
    ///
    /// None that a text in memory has.
    pub(crate) fn document(&self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        json::write(&mut text, self.tasks.result, self.beside())?;
        Ok(if github::is_there() { github::defused_json(text) } else { text })
    }

    /// The result as a JUnit report.
    ///
    /// # Errors
    ///
    /// None that a text in memory has.
    pub(crate) fn junit(&self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        junit::write(&mut text, self)?;
        Ok(text)
    }

    /// The result with every task, to be kept.
    ///
    /// # Errors
    ///
    /// None that a text in memory has.
    pub(crate) fn kept(&self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        json::write(&mut text, &self.tasks.whole(), self.beside())?;
        Ok(text)
    }

    fn beside(&self) -> Beside<'_> {
        let Self { again_of, parent, exit, .. } = *self;
        Beside { members: self.tasks.members, parent, again_of, exit }
    }
}
