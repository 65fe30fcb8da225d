//! The options of a process: its configuration folder, its environment, its command line.

use conf::{ConfError, LoadSources, Options};
use std::path::PathBuf;

/// Splits `-D key=value`.
pub(crate) fn pairs(defines: &[String]) -> Result<Vec<(String, String)>, ConfError> {
    defines
        .iter()
        .map(|text| match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok((key.trim().to_owned(), value.to_owned()))
            }
            _ => Err(ConfError::NotAPair(text.clone())),
        })
        .collect()
}

/// Loads the options of this process; the last setting of a key counts.
pub(crate) fn load(
    config_dir: Option<PathBuf>,
    overrides: Vec<(String, String)>,
) -> Result<Options, ConfError> {
    Options::load(&LoadSources::from_process(config_dir, overrides))
}

/// The folder of `flott.yaml`, `masters` and `workers`, where one is named.
pub(crate) fn config_folder(config_dir: Option<PathBuf>) -> Option<PathBuf> {
    LoadSources::from_process(config_dir, Vec::new()).directory()
}

/// The options that a job's submission carries: those of `-D` on the command line that are not about this
/// client itself.
pub(crate) fn job_options(
    overrides: &[(String, String)],
) -> std::collections::BTreeMap<String, String> {
    const CLIENTS_OWN: [&str; 6] =
        ["rest.", "client.", "log.", "execution.target", "execution.attached", "env."];
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
