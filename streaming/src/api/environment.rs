//! What a program's build function is handed.

use super::{Builder, Stream};
use crate::{operators::BoxError, seam::BuildProgramError};
use model::ResourceProfile;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
    rc::Rc,
};
use storage::files::{self, OpenRemoteFiles};

/// Environment variable with the folder of the files that were shipped with the application.
pub const SHIPPED_VARIABLE: &str = "FLOTT_SHIPPED";

/// The job that is being declared. Cheap to clone; all clones are the same job.
#[derive(Clone)]
pub struct Environment {
    pub(crate) builder: Rc<RefCell<Builder>>,
    settings: Rc<Settings>,
}

/// What a build was started with.
pub(crate) struct Settings {
    pub(crate) parallelism: u32,
    pub(crate) options: BTreeMap<String, String>,
    /// Where relative paths begin, if they are allowed.
    pub(crate) start_dir: Option<PathBuf>,
    /// Values to use instead of evaluating (a rebuild).
    pub(crate) once: Option<BTreeMap<String, Vec<u8>>>,
    pub(crate) env: Option<BTreeMap<String, String>>,
    /// The folder of the files that were shipped, see [`SHIPPED_VARIABLE`].
    pub(crate) shipped: Option<PathBuf>,
}

impl Environment {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { builder: Rc::default(), settings: Rc::new(settings) }
    }

    /// The parallelism of operators that set none.
    pub fn parallelism(&self) -> u32 {
        self.builder.borrow().parallelism.unwrap_or(self.settings.parallelism)
    }

    /// Sets the parallelism of operators that set none, whatever the client says.
    pub fn set_parallelism(&self, parallelism: u32) {
        self.builder.borrow_mut().parallelism = Some(parallelism);
    }

    /// Names the job; else it has the program's name.
    pub fn set_name(&self, name: impl Into<String>) {
        self.builder.borrow_mut().name = Some(name.into());
    }

    /// Key groups of every operator, hence the most subtasks it may ever have. A job that is to be rescaled keeps
    /// this number for life.
    pub fn set_max_parallelism(&self, max_parallelism: u32) {
        self.builder.borrow_mut().max_parallelism = Some(max_parallelism);
    }

    /// What one slot of a sharing group needs.
    pub fn set_slot_resources(&self, group: impl Into<String>, resources: ResourceProfile) {
        self.builder.borrow_mut().groups.insert(group.into(), resources);
    }

    /// Sets an option for this job, where the client has not set it.
    ///
    /// ```
    /// use model::ResourceProfile;
    /// use streaming::{Environment, operators::BoxError};
    ///
    /// fn placed(env: &Environment) -> Result<(), BoxError> {
    ///     env.set_name(format!("lines of {}", env.var("USER").unwrap_or_default()));
    ///     env.set_max_parallelism(1_024);
    ///     env.set_option("execution.buffer-timeout.interval", "10 ms");
    ///     env.set_slot_resources("large", ResourceProfile::default());
    ///     env.socket_text("localhost:9999").map(|line| line.len() as u64).slot_sharing_group("large").print();
    ///     Ok(())
    /// }
    /// ```
    pub fn set_option(&self, key: impl Into<String>, value: impl Into<String>) {
        self.builder.borrow_mut().options.insert(key.into(), value.into());
    }

    /// An option that the client gave (`-D program.x=y`).
    pub fn option(&self, key: &str) -> Option<&str> {
        self.settings.options.get(key).map(String::as_str)
    }

    /// An environment variable as it was where the job was submitted, in every process.
    pub fn var(&self, name: &str) -> Option<String> {
        let value = match &self.settings.env {
            Some(known) => known.get(name).cloned(),
            None => std::env::var(name).ok(),
        };
        if let Some(value) = &value {
            self.builder.borrow_mut().env.insert(name.to_owned(), value.clone());
        }
        value
    }

    /// A value that is worked out once, where the job is submitted, and the same in every process: the time, a
    /// random number, what a service answers.
    ///
    /// # Errors
    /// When the name is used twice, or the value can't be written or read.
    pub fn once<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        make: impl FnOnce() -> T,
    ) -> Result<T, BoxError> {
        if self.builder.borrow().once.contains_key(name) {
            return Err(format!("once(\"{name}\") is used twice").into());
        }
        let bytes = match &self.settings.once {
            Some(known) => known
                .get(name)
                .cloned()
                .ok_or_else(|| format!("once(\"{name}\") has no value: it was not asked for where the job was submitted"))?,
            // Not while the builder is borrowed: the expression may use the environment.
            None => rmp_serde::to_vec_named(&make())?,
        };
        let value = rmp_serde::from_slice(&bytes)?;
        self.builder.borrow_mut().once.insert(name.to_owned(), bytes);
        Ok(value)
    }

    /// Returns the path of a file or folder that was shipped with the application (`yarn.ship-files`,
    /// `yarn.ship-archives`): an absolute one, which differs from process to process. `name` is the file's own name; a
    /// file below a shipped folder is `folder/file`, one of a shipped archive `archive.zip/file`. What is below a folder
    /// is not looked for: opening it says whether it is there.
    ///
    /// # Errors
    /// When the name is not below the folder of shipped files, or nothing of that name was shipped.
    pub fn shipped(&self, name: &str) -> Result<PathBuf, BoxError> {
        let path = Path::new(name);
        let mut parts = path.components();
        let Some(Component::Normal(first)) = parts.next() else {
            return Err(format!("shipped(\"{name}\"): it is not the name of a shipped file").into());
        };
        if !parts.all(|part| matches!(part, Component::Normal(_))) {
            return Err(
                format!("shipped(\"{name}\"): it leaves the folder of shipped files").into()
            );
        }
        let Some(folder) = &self.settings.shipped else {
            return Err(format!(
                "shipped(\"{name}\"): nothing was shipped with this application: set yarn.ship-files, or outside of \
                 YARN {SHIPPED_VARIABLE} to the folder of the file"
            )
            .into());
        };
        if !folder.join(first).exists() {
            let mut there: Vec<String> = std::fs::read_dir(folder)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect();
            there.sort();
            return Err(format!(
                "shipped(\"{name}\"): not shipped; {} holds: {}",
                folder.display(),
                there.join(", ")
            )
            .into());
        }
        Ok(folder.join(path))
    }

    /// The absolute path that is meant, in every process. Relative ones begin where an embedded program was started;
    /// on a cluster they are a mistake, which is reported with the operator's name.
    pub(crate) fn resolve(&self, operator: &str, path: &Path) -> PathBuf {
        let text = path.to_string_lossy();
        if let Some((scheme, rest)) = text.split_once("://") {
            if scheme == "file" {
                return PathBuf::from(rest);
            }
            self.builder.borrow_mut().invalid(format!(
                "operator '{operator}': there is no file system for '{scheme}://' here, in '{text}'"
            ));
            return path.to_owned();
        }
        if path.is_absolute() {
            return path.to_owned();
        }
        match &self.settings.start_dir {
            Some(start) => start.join(path),
            None => {
                let (operator, path) = (operator.to_owned(), text.into_owned());
                let error = BuildProgramError::RelativePath { operator, path: path.clone() };
                self.builder.borrow_mut().errors.push(error);
                PathBuf::from(path)
            }
        }
    }

    /// Returns the path or the URI of an input. A URI that this program cannot read is a mistake, which is reported with
    /// the operator's name.
    pub(crate) fn resolve_input(
        &self,
        operator: &str,
        path: &Path,
        open_remote: OpenRemoteFiles,
    ) -> PathBuf {
        let Some(uri) = path.to_str().filter(|path| files::is_remote(path)) else {
            return self.resolve(operator, path);
        };
        if let Err(error) = open_remote(uri) {
            self.builder.borrow_mut().invalid(format!("operator '{operator}': {error}"));
        }
        path.to_owned()
    }

    pub(crate) fn stream<T>(&self, pending: super::inputs::Pending<T>) -> Stream<T> {
        Stream::of_node(self.clone(), pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(shipped: Option<&Path>) -> Environment {
        Environment::new(Settings {
            parallelism: 1,
            options: BTreeMap::new(),
            start_dir: None,
            once: None,
            env: None,
            shipped: shipped.map(Path::to_owned),
        })
    }

    #[test]
    fn shipped_files_are_found_by_name_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("models")).unwrap();
        std::fs::write(folder.path().join("stop.txt"), "the").unwrap();
        let env = environment(Some(folder.path()));
        assert_eq!(env.shipped("stop.txt").unwrap(), folder.path().join("stop.txt"));
        let below = env.shipped("models/en.bin").unwrap();
        assert_eq!(below, folder.path().join("models/en.bin"), "opening it says that it is absent");
        let absent = env.shipped("stopp.txt").unwrap_err().to_string();
        assert!(absent.contains("stopp.txt") && absent.contains("models, stop.txt"), "{absent}");
        for outside in ["", "/etc/passwd", "..", "../x", "models/../../x", "."] {
            assert!(env.shipped(outside).is_err(), "{outside}");
        }
        let nothing = environment(None).shipped("stop.txt").unwrap_err().to_string();
        assert!(
            nothing.contains("yarn.ship-files") && nothing.contains(SHIPPED_VARIABLE),
            "{nothing}"
        );
    }
}
