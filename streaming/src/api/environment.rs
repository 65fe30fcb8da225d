//! What a program's build function is handed.

use super::{Builder, Stream};
use crate::{operators::BoxError, seam::BuildProgramError};
use model::ResourceProfile;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    path::{Path, PathBuf},
    rc::Rc,
};

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

    pub(crate) fn stream<T>(&self, pending: super::builder::Pending<T>) -> Stream<T> {
        Stream::of_node(self.clone(), pending)
    }
}
