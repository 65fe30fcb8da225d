//! The options of a process: an immutable value, made of layers.

use crate::{
    declare::{Family, Opt},
    declared::find,
    error::ConfError,
    layer::{Layer, MASK, TABLE, USER_PREFIX, check, normal},
    value::OptionValue,
    yaml,
};
use std::{
    collections::BTreeMap,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The file in a configuration directory.
const FILE_NAME: &str = "flott.yaml";
/// The variable that names the configuration directory.
const DIR_VARIABLE: &str = "FLOTT_CONF_DIR";
/// Prefixes of the options that a program's build depends on.
const SHAPING: [&str; 2] = ["pipeline.", "execution.checkpointing."];

/// The sources of a process's options, lowest layer first: a setting of the command line overrides the environment, which overrides the
/// file. Made by [`LoadSources::from_process`], or by a test with values of its own; read by [`Options::load`].
#[derive(Debug, Clone, Default)]
pub struct LoadSources {
    /// Directory of `flott.yaml` (`--config-dir`). If `None`, the variable `FLOTT_CONF_DIR` names it; with neither no file
    /// is read.
    pub config_dir: Option<PathBuf>,
    /// Environment variables by name. Those that begin with `FLOTT_` set options (`FLOTT_REST_PORT` sets `rest.port`), except a few of the
    /// scripts and of Kubernetes and all that begin with `FLOTT_INTERNAL_`; one that names no option is an error of [`Options::load`], and
    /// so is one with an empty value if the option takes none. All other variables are ignored.
    pub env: BTreeMap<String, String>,
    /// Settings of the command line as key (any accepted name of an option) and value: those of `-D key=value`, and `parallelism.default`
    /// from `-p`. If an option is set twice, the later setting counts, also under two names.
    pub overrides: Vec<(String, String)>,
}

impl LoadSources {
    /// Returns the sources of a process's options: this folder (`None`: the one that `FLOTT_CONF_DIR` names), a copy of the
    /// process's environment, and these settings of the command line, which override the others. Variables that are not
    /// UTF-8 are skipped. Reads no file yet: [`Options::load`] does.
    pub fn from_process(config_dir: Option<PathBuf>, overrides: Vec<(String, String)>) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self { config_dir, env: std::env::vars_os().filter_map(text).collect(), overrides }
    }

    /// Returns the directory of `flott.yaml`: `config_dir`, else the value of `FLOTT_CONF_DIR` in `env`; `None` if neither is given (an
    /// empty value counts as none). Whether the directory exists is not checked.
    pub fn directory(&self) -> Option<PathBuf> {
        let named = || self.env.get(DIR_VARIABLE).filter(|dir| !dir.is_empty());
        self.config_dir.clone().or_else(|| named().map(PathBuf::from))
    }
}

/// One option that was set.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    text: String,
    place: String,
}

/// The options of a process or of a job: the settings as texts under their options' own names (truth values and numbers in one spelling),
/// each with the place where it was set; immutable and cheap to clone. Each setting that was given as text has been checked. An option that
/// is not set has its default, which is not stored here; [`Options::get`] gives the value in either case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    entries: Arc<BTreeMap<String, Entry>>,
}

impl Options {
    /// Merges the layers of a process's options: `flott.yaml` < environment < overrides. Reads the file `flott.yaml`
    /// in the folder that `sources` names; without a folder it reads no file. Blocks on the file system. Nothing is
    /// kept for a second call.
    ///
    /// # Errors
    /// Returns `ConfError::Unreadable` if a folder is named and its `flott.yaml` is absent or cannot be read,
    /// `ConfError::Yaml` if the file is not the YAML that is accepted, and otherwise the error of the first setting that
    /// is unknown, refused (an option of Flink's without meaning here), invalid, or set twice in the file or in the
    /// environment.
    pub fn load(sources: &LoadSources) -> Result<Self, ConfError> {
        let file = match sources.directory() {
            Some(dir) => file_layer(&dir.join(FILE_NAME))?,
            None => Layer::default(),
        };
        let environment = Layer::from_environment(&sources.env)?;
        let mut overrides = Layer::default();
        for (key, text) in &sources.overrides {
            overrides.replace(key, text.clone(), "command line")?;
        }
        Self::merge([file, environment, overrides])
    }

    /// Makes options from settings as texts by key, such as those of `Options::to_map` in another process. Of two settings of one
    /// key the later one counts; of one option under two names, the one under its own name. Their place in errors is `given`.
    ///
    /// # Errors
    /// Returns `ConfError::Unknown`, `ConfError::Refused` or `ConfError::Invalid` for the first setting that is not
    /// accepted.
    pub fn from_map<K: AsRef<str>, V: Into<String>>(
        map: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, ConfError> {
        Self::default().overlaid(map, "given")
    }

    /// Makes options from the text of a `flott.yaml`, without environment and command line; errors and places call
    /// the file `name`. Reads no file.
    ///
    /// # Errors
    /// Returns `ConfError::Yaml`, or the error of the first setting that is unknown, refused, invalid or set twice.
    pub fn from_yaml(name: &str, text: &str) -> Result<Self, ConfError> {
        Self::merge([yaml_layer(name, text)?])
    }

    /// Returns these options with the settings in `map` over them, for example a job's own options over its
    /// cluster's; `self` stays as it is. Of one option under two names the setting under its own name counts. Errors, and
    /// `Options::source_of`, name `place` as the source of these settings.
    ///
    /// # Errors
    /// Returns `ConfError::Unknown`, `ConfError::Refused` or `ConfError::Invalid` for the first setting that is not
    /// accepted.
    pub fn overlaid<K: AsRef<str>, V: Into<String>>(
        &self,
        map: impl IntoIterator<Item = (K, V)>,
        place: &str,
    ) -> Result<Self, ConfError> {
        let mut checked = Vec::new();
        for (key, text) in map {
            let (key, text, place) = (key.as_ref(), text.into(), place.to_owned());
            let own = check(key, &text, &place)?.to_owned();
            let text = normal(key, text);
            checked.push((own == key, own, Entry { text, place }));
        }
        let mut entries = (*self.entries).clone();
        entries.extend(own_names_last(checked));
        Ok(Self { entries: Arc::new(entries) })
    }

    /// Returns a job's settings as these options would keep them: each key replaced by the own name of its option, and truth values and
    /// numbers in their one spelling. Other keys, and values that their options do not take, stay as they are. Of one option under two
    /// names the setting under its own name counts.
    pub fn normalised(settings: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let named = settings.into_iter().map(|(key, text)| {
            let text = normal(&key, text);
            match find(&key) {
                Some(option) if !option.is_family() && option.key() != key => {
                    (false, option.key().to_owned(), text)
                }
                _ => (true, key, text),
            }
        });
        own_names_last(named.collect()).collect()
    }

    /// Returns these options with one more setting, given as text, in place of an earlier one; `self` stays as it is.
    ///
    /// # Errors
    /// Returns `ConfError::Unknown`, `ConfError::Refused` or `ConfError::Invalid` if the setting is not accepted; the error names
    /// `given` as its place.
    pub fn with(&self, key: &str, value: impl Into<String>) -> Result<Self, ConfError> {
        self.overlaid([(key, value)], "given")
    }

    /// Returns these options with `option` set to `value`, in place of an earlier setting; `self` stays as it is. A
    /// value that is not set (`None` of an `Option`) removes the option's setting. The value's bounds are not checked.
    #[must_use]
    pub fn with_value<T: OptionValue>(&self, option: &Opt<T>, value: &T) -> Self {
        let mut entries = (*self.entries).clone();
        match value.show() {
            Some(text) => {
                let place = "given".to_owned();
                entries.insert(option.key.to_owned(), Entry { text, place })
            }
            None => entries.remove(option.key),
        };
        Self { entries: Arc::new(entries) }
    }

    /// Returns the value of `option`: its own setting, else that of the option that it falls back to, else its
    /// default. Never fails, because settings were checked when these options were made.
    pub fn get<T: OptionValue>(&self, option: &Opt<T>) -> T {
        let keys = std::iter::once(option.key).chain(option.falls_back);
        keys.filter_map(|key| self.entries.get(key))
            .find_map(|entry| T::parse(&entry.text))
            .unwrap_or_else(option.default)
    }

    /// Returns the values of a family's options that are set, by the name that stands in the place of `<name>`, such as `gpu` for
    /// `external-resource.gpu.amount`; empty if none is set.
    pub fn get_family<T: OptionValue>(&self, family: &Family<T>) -> BTreeMap<String, T> {
        let member = |(key, entry): (&String, &Entry)| {
            let name = family.name_in(key)?;
            Some((name.to_owned(), T::parse(&entry.text)?))
        };
        self.entries.iter().filter_map(member).collect()
    }

    /// Returns the user's own settings for the program: their texts by key, without the prefix `program.` by which they
    /// are set. The runtime checks neither keys nor texts.
    pub fn program(&self) -> BTreeMap<String, String> {
        let own = |(key, entry): (&String, &Entry)| {
            Some((key.strip_prefix(USER_PREFIX)?.to_owned(), entry.text.clone()))
        };
        self.entries.iter().filter_map(own).collect()
    }

    /// Returns true if `option` has a setting of its own in any layer, even if it equals the default. False if only the option that it
    /// falls back to is set, and if neither is, so that [`Options::get`] returns the default.
    pub fn is_set<T: OptionValue>(&self, option: &Opt<T>) -> bool {
        self.entries.contains_key(option.key)
    }

    /// Returns the place where the option with the own key `key` was set: file and line, `environment variable …`,
    /// `command line`, or the place that a program named (`given` if none). `None` if the option is not set, so that its
    /// default or the option that it falls back to counts, and for an unknown key.
    pub fn source_of(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(|entry| entry.place.as_str())
    }

    /// Returns the value of the option `key` as text, secrets in clear: its setting, else that of the option it falls
    /// back to, else the default, else an empty text. Takes other accepted names too. An option of a family
    /// (`external-resource.gpu.amount`) gives an empty text, set or not. `None` if there is no such option, and for keys under
    /// `program.`. For scripts.
    pub fn text_of(&self, key: &str) -> Option<String> {
        let set = |key: &str| self.entries.get(key).map(|entry| entry.text.clone());
        let option = find(key)?;
        let text = set(option.key()).or_else(|| set(option.falls_back()?));
        Some(text.or_else(|| option.default_text()).unwrap_or_default())
    }

    /// Returns all settings as texts by key, for `Options::from_map` in another process; defaults are not among them.
    /// They contain secrets in clear text.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let pair = |(key, entry): (&String, &Entry)| (key.clone(), entry.text.clone());
        self.entries.iter().map(pair).collect()
    }

    /// Returns those settings of these options (a cluster's) that shape a job's graph when it is built, as texts by key: all under
    /// `pipeline.` and `execution.checkpointing.`; defaults are not among them. A program's own options override them. The Dispatcher
    /// passes them to the programs that it runs.
    pub fn shaping(&self) -> BTreeMap<String, String> {
        let mut shaping = self.to_map();
        shaping.retain(|key, _| SHAPING.iter().any(|prefix| key.starts_with(prefix)));
        shaping
    }

    /// Returns all settings as texts by key, for logs and REST; defaults are not among them. `******` stands for the values of options
    /// declared as secret, and of keys under `program.` and of families that contain `password`, `secret`, `token`, `apikey`, `api-key`,
    /// `credential` or `access-key`.
    pub fn to_masked_map(&self) -> BTreeMap<String, String> {
        let mut map = self.to_map();
        for (key, text) in &mut map {
            if is_secret(key) {
                MASK.clone_into(text);
            }
        }
        map
    }

    fn merge(layers: impl IntoIterator<Item = Layer>) -> Result<Self, ConfError> {
        let wrong = |e: config::ConfigError| ConfError::Merge(e.to_string());
        let mut builder = config::Config::builder();
        for layer in layers {
            builder = builder.add_source(layer);
        }
        let merged = builder.build().map_err(wrong)?;
        let merged = merged.get_table(TABLE).map_err(wrong)?;
        let mut entries = BTreeMap::new();
        for (key, value) in merged {
            let place = value.origin().unwrap_or("given").to_owned();
            let text = value.into_string().map_err(wrong)?;
            entries.insert(key, Entry { text, place });
        }
        Ok(Self { entries: Arc::new(entries) })
    }
}

/// Orders settings, each with whether it was given under its option's own name, so that of one option under two names the one under its
/// own name comes last.
fn own_names_last<V>(mut settings: Vec<(bool, String, V)>) -> impl Iterator<Item = (String, V)> {
    settings.sort_by_key(|(is_own, ..)| *is_own);
    settings.into_iter().map(|(_, key, value)| (key, value))
}

/// Returns true if the value of `key` is to be masked: as declared; keys that hold a name of the user's choice by what they
/// are called.
fn is_secret(key: &str) -> bool {
    const TELLING: [&str; 7] =
        ["password", "secret", "token", "apikey", "api-key", "credential", "access-key"];
    match find(key).filter(|option| !option.is_family()) {
        Some(option) => option.is_secret(),
        None => {
            let key = key.to_ascii_lowercase();
            TELLING.iter().any(|part| key.contains(part))
        }
    }
}

fn file_layer(path: &Path) -> Result<Layer, ConfError> {
    let unreadable = |why: String| ConfError::Unreadable { path: path.to_owned(), why };
    let file = std::fs::File::open(path).map_err(|e| unreadable(e.to_string()))?;
    // One byte more than is allowed, so that a device or an endless pipe cannot fill the memory.
    let mut bytes = Vec::new();
    file.take(yaml::BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| unreadable(e.to_string()))?;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // The last character of a file that is too long may be cut; its length is the error then.
        Err(e) if e.as_bytes().len() > yaml::BYTES_MAX => {
            String::from_utf8_lossy(e.as_bytes()).into_owned()
        }
        Err(e) => return Err(unreadable(e.utf8_error().to_string())),
    };
    yaml_layer(&path.display().to_string(), &text)
}

fn yaml_layer(name: &str, text: &str) -> Result<Layer, ConfError> {
    let mut layer = Layer::default();
    for setting in yaml::parse(name, text)? {
        layer.set(&setting.key, setting.text, setting.place)?;
    }
    Ok(layer)
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
