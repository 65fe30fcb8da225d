//! Flink's names of several letters behind one dash, such as `-sae`, which the parser would read as `-s` with the value `ae`. Nothing else
//! may change a command line before it is parsed, and what follows a program is the program's own.

use super::args::Cli;
use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory};
use std::ffi::OsString;

/// A name behind one dash, and the long name of the same option.
type Name = (&'static str, &'static str);

/// Names of Flink's `run`. Its `run-application` takes the same options of ours.
const OF_RUN: [Name; 12] = [
    ("sae", "shutdownOnAttachedExit"),
    ("cm", "claimMode"),
    ("rm", "restoreMode"),
    ("yid", "yarnapplicationId"),
    ("py", "python"),
    ("pym", "pyModule"),
    ("pyfs", "pyFiles"),
    ("pyreq", "pyRequirements"),
    ("pyarch", "pyArchives"),
    ("pyexec", "pyExecutable"),
    ("pypath", "pyPythonPath"),
    ("pyclientexec", "pyClientExecutable"),
];

/// Names of Flink's `savepoint` and `stop`, which choose between formats of savepoints.
const OF_SAVEPOINTS: [Name; 1] = [("type", "type")];

/// Names of Flink's script `yarn-session.sh`.
const OF_SESSIONS: [Name; 9] = [
    ("qu", "queue"),
    ("jm", "jobManagerMemory"),
    ("tm", "taskManagerMemory"),
    ("nm", "name"),
    ("nl", "nodeLabel"),
    ("at", "applicationType"),
    ("id", "applicationId"),
    ("sae", "shutdownOnAttachedExit"),
    ("st", "streaming"),
];

fn names(command: &Command) -> &'static [Name] {
    match command.get_name() {
        "run" | "run-application" => &OF_RUN,
        "savepoint" | "stop" => &OF_SAVEPOINTS,
        "yarn-session" => &OF_SESSIONS,
        _ => &[],
    }
}

/// Returns the words of a command line with Flink's names of several letters replaced by those that the parser knows. Flink also takes a
/// long name behind one dash, so `-parallelism` becomes `--parallelism`. Words of a program and values of options stay as they are.
///
/// # Errors
/// Returns the error to show for a name that the parser would misread: one of Flink's that its command does not have, or one that
/// is nearly one of them.
pub(crate) fn long_names(
    words: impl IntoIterator<Item = OsString>,
) -> Result<Vec<OsString>, clap::Error> {
    let mut root = Cli::command();
    root.build();
    let (mut command, mut words) = (&root, words.into_iter());
    let mut read: Vec<OsString> = words.by_ref().take(1).collect();
    let mut value_follows = false;
    for word in words.by_ref() {
        let text = word.to_string_lossy().into_owned();
        let is_option = text.starts_with('-') && text != "-";
        if text == "--" {
            read.push(word);
            break;
        } else if is_option {
            let word = long_name(command, &text)?.map_or(word, OsString::from);
            value_follows = takes_next(command, &word.to_string_lossy());
            read.push(word);
        } else if std::mem::take(&mut value_follows) {
            read.push(word);
        } else {
            let is_program = command.get_positionals().any(Arg::is_trailing_var_arg_set);
            let chosen = command.find_subcommand(&*text);
            read.push(word);
            match chosen {
                Some(chosen) => command = chosen,
                None if is_program => break,
                None => {}
            }
        }
    }
    read.extend(words);
    Ok(read)
}

/// Returns what to read instead of a word with an option; `None` if the parser reads it as it is meant.
fn long_name(command: &Command, word: &str) -> Result<Option<String>, clap::Error> {
    let Some(rest) = word.strip_prefix('-') else { return Ok(None) };
    let (letters, value) = rest.split_once('=').map_or((rest, None), |(l, v)| (l, Some(v)));
    if letters.len() < 2 || !letters.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Ok(None);
    }
    let known = names(command).iter().find(|(name, _)| *name == letters);
    let long = known.map_or(letters, |(_, long)| long);
    if by_long(command, long).is_some() {
        let value = value.map(|value| format!("={value}")).unwrap_or_default();
        return Ok(Some(format!("--{long}{value}")));
    }
    let name = command.get_name();
    if known.is_some() {
        let why = format!("'flott {name}' has no option -{letters}, which is --{long} of Flink");
        return Err(refusal(command, why));
    }
    let nearest = conf::nearest(letters, names(command).iter().map(|(name, _)| *name));
    match nearest.filter(|_| value.is_none() && !is_cluster(command, letters)) {
        Some(nearest) => {
            let why = format!(
                "'flott {name}' has no option -{letters}; did you mean -{nearest}? A value stands apart from the letter of its option"
            );
            Err(refusal(command, why))
        }
        None => Ok(None),
    }
}

fn refusal(command: &Command, why: String) -> clap::Error {
    command.clone().error(ErrorKind::UnknownArgument, why)
}

/// Returns true if the letters are options of one letter each, none of which takes another one as its value.
fn is_cluster(command: &Command, letters: &str) -> bool {
    let last = letters.chars().count().saturating_sub(1);
    let is_option = |(place, letter): (usize, char)| {
        by_letter(command, letter).is_some_and(|arg| place == last || !takes_value(arg))
    };
    letters.chars().enumerate().all(is_option)
}

/// Returns true if the value of an option is the next word.
fn takes_next(command: &Command, word: &str) -> bool {
    if let Some(long) = word.strip_prefix("--") {
        return by_long(command, long).is_some_and(takes_value);
    }
    let mut letters = word.chars().skip(1);
    while let Some(arg) = letters.next().and_then(|letter| by_letter(command, letter)) {
        if takes_value(arg) {
            return letters.next().is_none();
        }
    }
    false
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn by_letter(command: &Command, letter: char) -> Option<&Arg> {
    command.get_arguments().find(|arg| arg.get_short() == Some(letter))
}

fn by_long<'a>(command: &'a Command, long: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| {
        let is_alias = arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&long));
        arg.get_long() == Some(long) || is_alias
    })
}

#[cfg(test)]
mod tests {
    use super::super::args;
    use super::*;
    use clap::Parser;

    fn read(line: &str) -> Result<String, String> {
        let words = long_names(line.split(' ').map(OsString::from));
        let words = words.map_err(|error| error.to_string())?;
        Ok(words.join(std::ffi::OsStr::new(" ")).into_string().unwrap())
    }

    #[test]
    fn flinks_letters_are_read_as_flink_reads_them_wherever_a_command_has_the_option() {
        for (given, meant) in [
            ("run -sae ./prog", "run --shutdownOnAttachedExit ./prog"),
            ("run -sae -s PATH ./prog", "run --shutdownOnAttachedExit -s PATH ./prog"),
            ("run -s PATH -sae ./prog", "run -s PATH --shutdownOnAttachedExit ./prog"),
            ("run -d -D a=b -cm claim -s P ./prog", "run -d -D a=b --claimMode claim -s P ./prog"),
            ("run -rm=claim -s P ./prog", "run --restoreMode=claim -s P ./prog"),
            ("run -parallelism 4 ./prog", "run --parallelism 4 ./prog"),
            ("--output json run -sae ./prog", "--output json run --shutdownOnAttachedExit ./prog"),
            (
                "run-application -cm claim -s P ./prog",
                "run-application --claimMode claim -s P ./prog",
            ),
            ("stop -savepointPath DIR ID", "stop --savepointPath DIR ID"),
            // What the parser reads as Flink does, and what is the program's.
            ("run -sPATH -p4 -tremote ./prog", "run -sPATH -p4 -tremote ./prog"),
            ("run -dn -s P ./prog -sae -s x", "run -dn -s P ./prog -sae -s x"),
            ("run -- ./prog -sae", "run -- ./prog -sae"),
            ("list -ra", "list -ra"),
            ("list -st yarn-session", "list -st yarn-session"),
        ] {
            assert_eq!(read(&format!("flott {given}")), Ok(format!("flott {meant}")));
        }
        let words = long_names("flott run -sae -s P ./prog".split(' ').map(OsString::from));
        let args::Command::Run(run) = Cli::parse_from(words.unwrap()).command else {
            panic!("not run")
        };
        assert!(run.shutdown_on_attached_exit);
        assert_eq!(run.recovery.savepoint.as_deref(), Some("P"));
    }

    #[test]
    fn letters_that_would_be_misread_are_refused_with_the_nearest_option() {
        for (given, part) in [
            ("run -sea ./prog", "no option -sea; did you mean -sae?"),
            ("run -saee -s P ./prog", "no option -saee; did you mean -sae?"),
            ("stop -type native ID", "no option -type, which is --type of Flink"),
            ("yarn-session -sea", "did you mean -sae?"),
        ] {
            let error = read(&format!("flott {given}")).unwrap_err();
            assert!(error.contains(part) && error.contains("Usage: flott"), "{error}");
        }
    }
}
