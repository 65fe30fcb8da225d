//! A program's arguments.

use crate::operators::BoxError;
use std::{cell::RefCell, rc::Rc};

/// What was asked for instead of a run: help, or a correction.
#[derive(Debug, Clone)]
pub(crate) struct Usage {
    pub(crate) text: String,
    pub(crate) help: bool,
}

/// The arguments after the program's name, the same in every process of the job.
#[derive(Debug, Clone)]
pub struct Args {
    program: String,
    list: Vec<String>,
    /// Kept here, because an error that travels through the program's own error types loses it.
    usage: Rc<RefCell<Option<Usage>>>,
}

impl Args {
    pub(crate) fn new(program: String, list: Vec<String>) -> Self {
        Self { program, list, usage: Rc::default() }
    }

    /// Reads them into a struct that derives `clap::Parser`. `--help` and mistakes end the build with clap's text,
    /// wherever the program was started.
    ///
    /// # Errors
    /// When they do not fit, or help was asked for.
    pub fn parse<C: clap::Parser>(&self) -> Result<C, BoxError> {
        let words = std::iter::once(&self.program).chain(&self.list);
        C::try_parse_from(words).map_err(|error| {
            let usage = Usage { text: error.render().to_string(), help: !error.use_stderr() };
            *self.usage.borrow_mut() = Some(usage);
            error.into()
        })
    }

    /// As they were given.
    pub fn as_slice(&self) -> &[String] {
        &self.list
    }

    /// The argument at a place, from 0.
    pub fn get(&self, index: usize) -> Option<&str> {
        self.list.get(index).map(String::as_str)
    }

    pub(crate) fn take_usage(&self) -> Option<Usage> {
        self.usage.borrow_mut().take()
    }
}
