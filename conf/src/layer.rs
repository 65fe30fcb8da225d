//! One layer of options: settings that come from one kind of place, under their options' own names.
//!
//! A layer is checked when it is made, so that layers can be merged without looking at values.

use crate::{
    declared::{find, names},
    error::ConfError,
    refused,
};
use config::{ConfigError, Map, Source, Value, ValueKind};
use std::{collections::BTreeMap, sync::LazyLock};

/// Keys under this are the user's: any key, any text.
pub(crate) const USER_PREFIX: &str = "program.";
/// Environment variables under this are options.
const VARIABLE_PREFIX: &str = "FLOTT_";
/// Variables of the scripts and of the processes among themselves, which are no options.
const NO_OPTIONS: &[&str] = &[
    "FLOTT_CONF_DIR",
    "FLOTT_HOME",
    "FLOTT_BIN_DIR",
    "FLOTT_LOG_DIR",
    "FLOTT_PID_DIR",
    "FLOTT_SSH_OPTS",
    "FLOTT_IDENT_STRING",
    "FLOTT_ROLE",
    "FLOTT_BINARY",
    "FLOTT_SHIPPED",
    "FLOTT_LOG_FILE",
    "FLOTT_PID_FILE",
    "FLOTT_COMMIT",
    "FLOTT_TESTS_PREBUILT",
    "FLOTT_YARN_FILES",
    "FLOTT_YARN_STAGING",
    "FLOTT_YARN_PROGRAM_HASH",
];
/// Variables under this are handed from process to process, never by users.
const INTERNAL_PREFIX: &str = "FLOTT_INTERNAL_";

/// The one table of a merged configuration.
pub(crate) const TABLE: &str = "options";

/// Settings by key, each with the place where it was set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layer(BTreeMap<String, (String, String)>);

impl Layer {
    /// Adds a setting, checked, under its option's own name.
    pub(crate) fn set(&mut self, key: &str, text: String, place: String) -> Result<(), ConfError> {
        let own = check(key, &text, &place)?;
        if let Some((_, first)) = self.0.get(own) {
            return Err(ConfError::Twice {
                key: own.to_owned(),
                first: first.clone(),
                second: place,
            });
        }
        self.0.insert(own.to_owned(), (normal(key, text), place));
        Ok(())
    }

    /// Adds a setting, or replaces it: on a command line the last one counts.
    pub(crate) fn replace(
        &mut self,
        key: &str,
        text: String,
        place: &str,
    ) -> Result<(), ConfError> {
        let own = check(key, &text, place)?;
        self.0.insert(own.to_owned(), (normal(key, text), place.to_owned()));
        Ok(())
    }

    /// Reads the options among environment variables.
    pub(crate) fn from_environment(env: &BTreeMap<String, String>) -> Result<Self, ConfError> {
        let mut layer = Self::default();
        for (variable, text) in env {
            let Some(rest) = variable.strip_prefix(VARIABLE_PREFIX) else {
                continue;
            };
            let internal = variable.starts_with(INTERNAL_PREFIX);
            if internal || NO_OPTIONS.contains(&variable.as_str()) || is_service_link(rest, text) {
                continue;
            }
            let place = format!("environment variable {variable}");
            layer.set(&key_of(variable, rest), text.clone(), place)?;
        }
        Ok(layer)
    }
}

/// Returns the environment variable that sets the option `key`.
pub(crate) fn variable(key: &str) -> String {
    let letter = |c: char| match c {
        c if c.is_ascii_alphanumeric() => c.to_ascii_uppercase(),
        _ => '_',
    };
    let name: String = key.chars().map(letter).collect();
    format!("{VARIABLE_PREFIX}{name}")
}

/// Returns the key that a variable sets. A name with dots in it is used as it is.
fn key_of(variable_name: &str, rest: &str) -> String {
    static BY_VARIABLE: LazyLock<BTreeMap<String, &'static str>> =
        LazyLock::new(|| names().map(|name| (variable(name), name)).collect());
    match BY_VARIABLE.get(variable_name) {
        Some(name) => (*name).to_owned(),
        None if rest.contains('.') => rest.to_owned(),
        None => rest.to_ascii_lowercase().replace('_', "."),
    }
}

/// Returns true if Kubernetes set this variable, because a service's name begins with `flott`: such
/// variables can even bear an option's name (`FLOTT_REST_PORT=tcp://10.0.0.1:8081`).
fn is_service_link(rest: &str, text: &str) -> bool {
    let address = ["tcp://", "udp://", "sctp://"];
    let ends = ["_ADDR", "_PORT", "_PROTO"];
    let stem = ends.iter().find_map(|end| rest.strip_suffix(end));
    let protocols = ["_TCP", "_UDP", "_SCTP"];
    (rest.ends_with("PORT") && address.iter().any(|scheme| text.starts_with(scheme)))
        || rest.ends_with("SERVICE_HOST")
        || rest.contains("SERVICE_PORT")
        || protocols.iter().any(|p| stem.unwrap_or(rest).ends_with(p))
}

/// Checks that the option named by `key` accepts `text`, and returns the option's own name.
pub(crate) fn check<'k>(key: &'k str, text: &str, place: &str) -> Result<&'k str, ConfError> {
    if key.starts_with(USER_PREFIX) {
        return Ok(key);
    }
    let Some(option) = find(key) else {
        return Err(unknown(key, place));
    };
    if let Some(expected) = option.complaint(text) {
        let value = if option.is_secret() { MASK } else { text };
        return Err(ConfError::Invalid {
            key: if option.is_family() { key } else { option.key() }.to_owned(),
            value: value.chars().take(200).collect(),
            place: place.to_owned(),
            expected,
        });
    }
    Ok(if option.is_family() { key } else { option.key() })
}

/// Returns the text in which a setting is kept: one for all spellings of a truth value or number. Texts that the option does not take, and
/// those of unknown keys, stay as they are.
pub(crate) fn normal(key: &str, text: String) -> String {
    find(key).and_then(|option| option.normal(&text)).unwrap_or(text)
}

/// The text shown in place of a secret.
pub(crate) const MASK: &str = "******";

fn unknown(key: &str, place: &str) -> ConfError {
    let (key, place) = (key.chars().take(200).collect::<String>(), place.to_owned());
    match refused::instead_of(&key) {
        Some(instead) => ConfError::Refused { key, place, instead: instead.to_owned() },
        None => {
            let nearest = nearest(&key, names()).map(str::to_owned);
            ConfError::Unknown { nearest, key, place }
        }
    }
}

/// Returns the candidate that is most like `text`, for "did you mean …?"; `None` if none is like it (a normalised Damerau-Levenshtein
/// likeness above 0.6) or there are none. Of equally like ones the last is returned. Upper and lower case differ.
pub fn nearest(
    text: &str,
    candidates: impl IntoIterator<Item = &'static str>,
) -> Option<&'static str> {
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(text, name);
    candidates
        .into_iter()
        .map(|name| (likeness(name), name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness > 0.6)
        .map(|(_, name)| name)
}

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    // All options stand in one table, under their whole names. At the top level the crate would read
    // dots and `[0]` as paths, and a user's `program.x[9999999]` is a name and not an allocation.
    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        let value = |(key, (text, place)): (&String, &(String, String))| {
            let value = Value::new(Some(place), ValueKind::String(text.clone()));
            (key.clone(), value)
        };
        let options: Map<String, Value> = self.0.iter().map(value).collect();
        Ok(Map::from([(TABLE.to_owned(), Value::from(options))]))
    }
}
