//! The options of a process: its configuration folder, its environment, its command line.

use crate::cli::args::Common;
use conf::{ConfError, LoadSources, Options};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Names standard input where a file of options is expected.
pub(crate) const STANDARD_INPUT: &str = "-";
/// Most bytes that are read as options. Whatever is longer is refused by the reader of `flott.yaml`.
const DEFINITIONS_BYTES_MAX: u64 = (1 << 20) + 1;

/// Splits each `-D key=value` at its first `=`. The error of a text that has no `=`, or no key before it, does not repeat the text.
pub(crate) fn pairs(defines: &[String]) -> Result<Vec<(String, String)>, ConfError> {
    defines
        .iter()
        .zip(1..)
        .map(|(text, number)| match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok((key.trim().to_owned(), value.to_owned()))
            }
            _ => Err(ConfError::NotAPair { number, has_sign: text.contains('=') }),
        })
        .collect()
}

/// Returns the options of `--define-file`, then those of `-D`, which count where both set a key. Reads standard input
/// to its end if that is the file: to be called once in a process.
pub(crate) fn overrides(common: &Common) -> Result<Vec<(String, String)>, ConfError> {
    let mut all = match &common.define_file {
        Some(path) => definitions(path)?,
        None => Vec::new(),
    };
    all.extend(pairs(&common.define)?);
    Ok(all)
}

fn definitions(path: &Path) -> Result<Vec<(String, String)>, ConfError> {
    let mut text = String::new();
    let (name, read) = if path == Path::new(STANDARD_INPUT) {
        let input = std::io::stdin().lock();
        ("standard input".to_owned(), input.take(DEFINITIONS_BYTES_MAX).read_to_string(&mut text))
    } else {
        let read = |file: File| file.take(DEFINITIONS_BYTES_MAX).read_to_string(&mut text);
        (path.display().to_string(), File::open(path).and_then(read))
    };
    let unreadable =
        |e: std::io::Error| ConfError::Unreadable { path: path.to_owned(), why: e.to_string() };
    read.map_err(unreadable)?;
    Ok(Options::from_yaml(&name, &text)?.to_map().into_iter().collect())
}

/// Loads the options of this process; the last setting of a key counts.
pub(crate) fn load(
    config_dir: Option<PathBuf>,
    overrides: Vec<(String, String)>,
) -> Result<Options, ConfError> {
    Options::load(&LoadSources::from_process(config_dir, overrides))
}

/// Returns the folder of `flott.yaml`, `masters` and `workers`, `None` if none is named.
pub(crate) fn config_folder(config_dir: Option<PathBuf>) -> Option<PathBuf> {
    LoadSources::from_process(config_dir, Vec::new()).directory()
}

/// Returns the options that a job's submission carries: those of `-D` on the command line that are
/// not about this client itself.
pub(crate) fn job_options(
    overrides: &[(String, String)],
) -> std::collections::BTreeMap<String, String> {
    const CLIENTS_OWN: [&str; 7] = [
        "rest.",
        "client.",
        "log.",
        "execution.target",
        "execution.attached",
        "execution.shutdown-on-attached-exit",
        "env.",
    ];
    overrides
        .iter()
        .filter(|(key, _)| !CLIENTS_OWN.iter().any(|own| key.starts_with(own)))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defines_are_pairs() {
        let parsed = pairs(&["a.b=1=2".to_owned(), "c =".to_owned()]).unwrap();
        assert_eq!(parsed, [("a.b".to_owned(), "1=2".to_owned()), ("c".to_owned(), String::new())]);
        assert!(pairs(&["nothing".to_owned()]).is_err());
        assert!(pairs(&["=x".to_owned()]).is_err());
    }

    #[test]
    fn a_wrong_define_is_not_repeated_because_it_may_hold_a_secret() {
        for (wrong, why) in [("s3.secret-key:hunter2", "no '='"), ("=hunter2", "no key before")] {
            let error = pairs(&["a=b".to_owned(), wrong.to_owned()]).unwrap_err();
            let text = error.to_string();
            assert!(!format!("{text} {error:?}").contains("hunter2"), "{text}");
            assert!(text.contains("argument 2 of -D") && text.contains(why), "{text}");
        }
    }

    #[test]
    fn a_job_does_not_carry_its_clients_options() {
        let given = [
            ("rest.port".to_owned(), "1".to_owned()),
            ("restart-strategy.type".to_owned(), "none".to_owned()),
        ];
        let carried = job_options(&given);
        assert_eq!(carried.len(), 1);
        assert!(carried.contains_key("restart-strategy.type"));
    }
}
