//! A program's arguments.

use crate::operators::BoxError;
use std::{cell::RefCell, rc::Rc};

/// Clap's text to show instead of running the job: help (`help` is true), or what is wrong with the arguments.
#[derive(Debug, Clone)]
pub(crate) struct Usage {
    pub(crate) text: String,
    pub(crate) help: bool,
}

/// The arguments after the program's name; the same in every process of the job. They are part of the job graph, so that they must not
/// contain secrets.
///
/// ```
/// use clap::Parser;
/// use streaming::{Args, Environment, operators::BoxError};
///
/// #[derive(Parser)]
/// struct Cli {
///     /// Numbers below this one are printed.
///     #[arg(long, default_value_t = 10)]
///     below: u64,
/// }
///
/// fn numbers(env: &Environment, args: Args) -> Result<(), BoxError> {
///     let cli: Cli = args.parse()?;
///     env.sequence(0..cli.below).print();
///     Ok(())
/// }
///
/// /// The same without a parser: the first argument is the number, others are refused.
/// fn by_hand(env: &Environment, args: Args) -> Result<(), BoxError> {
///     let below: u64 = args.get(0).unwrap_or("10").parse()?;
///     if args.as_slice().len() > 1 {
///         return Err("give one number".into());
///     }
///     env.sequence(0..below).print();
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Args {
    program: String,
    list: Vec<String>,
    /// Clap's text of the last failed [`Args::parse`]. Kept here because the program may turn the error into a type that loses it.
    usage: Rc<RefCell<Option<Usage>>>,
}

impl Args {
    pub(crate) fn new(program: String, list: Vec<String>) -> Self {
        Self { program, list, usage: Rc::default() }
    }

    /// Parses the arguments into a struct that derives `clap::Parser`. Prints nothing and does not end the process. If the build function
    /// then returns an error, whatever error, the user sees clap's text instead of it (but not if the function panics): help or the version
    /// with exit code 0, or what is wrong with the arguments.
    ///
    /// # Errors
    /// Fails with clap's error when the arguments do not fit the struct, or when help or the version is asked for.
    pub fn parse<C: clap::Parser>(&self) -> Result<C, BoxError> {
        let mut matches = self.matches(C::command())?;
        C::from_arg_matches_mut(&mut matches)
            .map_err(|error| self.refused(error.format(&mut C::command())))
    }

    /// Matches the arguments with a command. It knows no struct: clap's code for it is compiled here, not in the program.
    fn matches(&self, command: clap::Command) -> Result<clap::ArgMatches, BoxError> {
        let words = std::iter::once(&self.program).chain(&self.list);
        command.try_get_matches_from(words).map_err(|error| self.refused(error))
    }

    fn refused(&self, error: clap::Error) -> BoxError {
        let usage = Usage { text: error.render().to_string(), help: !error.use_stderr() };
        *self.usage.borrow_mut() = Some(usage);
        error.into()
    }

    /// Returns all arguments of the program, in their order and without the program's name.
    pub fn as_slice(&self) -> &[String] {
        &self.list
    }

    /// Returns the argument at `index`, counted from 0 and without the program's name; `None` if there are not so many.
    pub fn get(&self, index: usize) -> Option<&str> {
        self.list.get(index).map(String::as_str)
    }

    pub(crate) fn take_usage(&self) -> Option<Usage> {
        self.usage.borrow_mut().take()
    }
}
