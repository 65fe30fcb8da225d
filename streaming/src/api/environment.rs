//! The [`Environment`], on which a program's build function declares the job.

use super::{Builder, Stream};
use crate::{graph::plan::MOST_SUBTASKS, operators::BoxError, seam::BuildProgramError};
use model::ResourceProfile;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
    rc::Rc,
};
use storage::{
    files::{self, OpenRemoteFiles},
    objects::S3Settings,
};

/// Name of the environment variable that holds the folder of the files shipped with the application. On YARN the launcher sets it;
/// elsewhere the user may set it. [`Environment::shipped`] looks there.
pub const SHIPPED_VARIABLE: &str = "FLOTT_SHIPPED";

/// Key of the option with the parallelism of operators that set none.
pub(super) const DEFAULT_PARALLELISM: &str = "parallelism.default";

/// The job that a program declares: sources, options and names. Clones are cheap and declare the same job. Declaring starts nothing and
/// reads no records. A mistake in a declaration is recorded, and the first one fails the build ([`build`](crate::build)).
#[derive(Clone)]
pub struct Environment {
    pub(crate) builder: Rc<RefCell<Builder>>,
    settings: Rc<Settings>,
}

/// The inputs of one build.
pub(crate) struct Settings {
    pub(crate) parallelism: u32,
    pub(crate) options: BTreeMap<String, String>,
    /// Folder that relative paths start from; `None` where relative paths are refused.
    pub(crate) start_dir: Option<PathBuf>,
    /// In a rebuild: the values of `once` from the submission. `None` at the submission, where they are evaluated.
    pub(crate) once: Option<BTreeMap<String, Vec<u8>>>,
    /// In a rebuild: the environment variables from the submission. `None` at the submission, where this process's are read.
    pub(crate) env: Option<BTreeMap<String, String>>,
    /// Folder of the shipped files, see [`SHIPPED_VARIABLE`]; `None`: nothing was shipped.
    pub(crate) shipped: Option<PathBuf>,
}

impl Environment {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { builder: Rc::default(), settings: Rc::new(settings) }
    }

    /// Returns the parallelism of operators that set none, as it is now: the value of the last [`Environment::set_parallelism`], else
    /// `parallelism.default` of the client, or of the cluster if the client sets none (1 by default); the same in every process of the job.
    /// If any call has returned the client's number, operators that set just this number, also earlier ones, are chained to operators that
    /// set none: `map(..).set_parallelism(env.parallelism())` cuts no chain. See [`Stream::set_parallelism`].
    pub fn parallelism(&self) -> u32 {
        let mut builder = self.builder.borrow_mut();
        builder.default_is_read |= builder.parallelism.is_none();
        builder.parallelism.unwrap_or(self.settings.parallelism)
    }

    /// Sets the parallelism of operators that set none; takes precedence over the client's `parallelism.default`. The last call counts,
    /// also for operators declared before it. The build fails if an operator gets it and it is 0 or greater than the maximum
    /// parallelism.
    pub fn set_parallelism(&self, parallelism: u32) {
        self.builder.borrow_mut().parallelism = Some(parallelism);
    }

    /// Sets the job's name; the last call counts. The client's `pipeline.name`, and the program's own by [`Environment::set_option`], take
    /// precedence over this name, and this name over the cluster's. Without any of them, or if the one that counts is blank, the job has
    /// the name that it was registered under in [`ProgramEntry::job`](crate::ProgramEntry::job). The cluster refuses a job whose name has
    /// more than 1,024 bytes.
    pub fn set_name(&self, name: impl Into<String>) {
        self.builder.borrow_mut().name = Some(name.into());
    }

    /// Sets the number of key groups of every operator, 1 to 32768: no operator can ever have more subtasks. The last call counts. The
    /// client's `pipeline.max-parallelism`, and the program's own by [`Environment::set_option`], take precedence over this number, and
    /// this number over the cluster's option. Without any of them an operator has 1.5 times its parallelism, rounded up to a power of two,
    /// 128 to 32768, or one with keyed state the number that it has in the snapshot from which the job starts. The build fails if the
    /// number is out of range or less than an operator's parallelism. A program that sets another number cannot be restored from snapshots
    /// with keyed state.
    pub fn set_max_parallelism(&self, max_parallelism: u32) {
        self.builder.borrow_mut().max_parallelism = Some(max_parallelism);
    }

    /// Sets the resources that each slot of the slot sharing group `group` needs; the last call for a group counts. Operators are in the
    /// group `default` unless they set another one or have it from their inputs ([`Stream::slot_sharing_group`]). A group without resources
    /// fits every slot, but a job must set them for all of its groups or for none: the cluster refuses it otherwise. A group that no
    /// operator is in is ignored.
    pub fn set_slot_resources(&self, group: impl Into<String>, resources: ResourceProfile) {
        self.builder.borrow_mut().groups.insert(group.into(), resources);
    }

    /// Sets an option for this job, unless the client sets it; the last call for a key counts. [`Environment::option`] does not return the
    /// value in the first build. The build accepts any key, and checks no value but that of `pipeline.max-parallelism`; the submission
    /// refuses a key that is no option, and a value that its option does not take; a cluster also refuses an option of its processes alone.
    /// If an option is set under two names, the value under its own name counts.
    /// `pipeline.name` and `pipeline.max-parallelism` take precedence over [`Environment::set_name`] and
    /// [`Environment::set_max_parallelism`]. Only `parallelism.default` takes precedence over the client's value, because it counts like
    /// [`Environment::set_parallelism`]; the build fails if its value is not a whole number from 1 to 32768.
    ///
    /// ```
    /// use streaming::{Environment, MemorySize, ResourceProfile, operators::BoxError};
    ///
    /// fn placed(env: &Environment) -> Result<(), BoxError> {
    ///     env.set_name(format!("lines of {}", env.option("program.tenant").unwrap_or("all")));
    ///     env.set_max_parallelism(1_024);
    ///     env.set_option("execution.buffer-timeout.interval", "10 ms");
    ///     for (group, mib) in [("default", 256), ("large", 1_024)] {
    ///         let task = MemorySize::from_mib(mib);
    ///         env.set_slot_resources(group, ResourceProfile { task, ..ResourceProfile::default() });
    ///     }
    ///     env.socket_text("localhost:9999").map(|line| line.len() as u64).slot_sharing_group("large").print();
    ///     Ok(())
    /// }
    /// ```
    pub fn set_option(&self, key: impl Into<String>, value: impl Into<String>) {
        let (key, value) = (key.into(), value.into());
        let mut builder = self.builder.borrow_mut();
        if key != DEFAULT_PARALLELISM {
            builder.options.insert(key, value);
            return;
        }
        match value.trim().parse() {
            Ok(parallelism @ 1..=MOST_SUBTASKS) => builder.parallelism = Some(parallelism),
            _ => builder.invalid(format!(
                "option '{DEFAULT_PARALLELISM}': '{value}' is wrong, it takes a whole number from 1 to {MOST_SUBTASKS}"
            )),
        }
    }

    /// Returns an option of the job as the client gave it (`-D program.x=y`), or else the cluster's if its key begins with `pipeline.` or
    /// `execution.checkpointing.`; `None` if neither has set it: defaults are not filled in. A program that is started by itself gets
    /// every option of its `flott.yaml` and of the `FLOTT_` variables. What the program sets itself ([`Environment::set_option`],
    /// [`Environment::set_name`], [`Environment::set_max_parallelism`]) is not returned in the first build, but is returned when other
    /// processes build the job again: a program whose graph depends on a key that it sets itself builds another graph there, and the job
    /// fails. `parallelism.default` too is always set there: [`Environment::parallelism`] is the same in every build.
    ///
    /// ```
    /// use std::time::{SystemTime, UNIX_EPOCH};
    /// use streaming::{Environment, operators::BoxError};
    ///
    /// fn numbers(env: &Environment) -> Result<(), BoxError> {
    ///     let most: u64 = env.option("program.most").unwrap_or("1000").parse()?;
    ///     let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    ///     let begin = env.once("begin", seconds)?;
    ///     env.set_parallelism(env.parallelism().min(4));
    ///     env.sequence(begin..begin + most).print();
    ///     Ok(())
    /// }
    /// ```
    pub fn option(&self, key: &str) -> Option<&str> {
        self.settings.options.get(key).map(String::as_str)
    }

    /// Returns an environment variable as it was in the first build, the same in every process; `None` if it was not set there or not
    /// Unicode, and in a later build also if the first one did not ask for it. The first build runs in the program's own process in
    /// embedded mode and where the JobManager is the program itself, in the client for a YARN cluster per job, and otherwise in a process
    /// that the JobManager starts with few of its own variables: `PATH`, `HOME`, `LANG`, `LC_ALL`, `TZ`, `TMPDIR`, `RUST_BACKTRACE`,
    /// `LD_LIBRARY_PATH`, `HADOOP_CONF_DIR`, `HADOOP_USER_NAME` and `FLOTT_SHIPPED`. A variable of the user who calls `flott run` is not
    /// among them: pass it as an argument or option. The value becomes part of the job graph: do not read secrets this way.
    ///
    /// ```
    /// use streaming::Environment;
    ///
    /// /// Greets the user who runs the program by itself; on a cluster, the JobManager's user.
    /// fn greeting(env: &Environment) {
    ///     let home = env.var("HOME").unwrap_or_else(|| "/".to_owned());
    ///     env.from_collection([format!("hello from {home}")]).print();
    /// }
    /// ```
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

    /// Evaluates `make` once, in the job's first build (see [`Environment::var`]), and returns the same value in every process: the
    /// time, a random number, a service's answer. Later builds do not call `make`. The value becomes part of the job graph, under `name`,
    /// so it must not be a secret.
    ///
    /// # Errors
    /// Fails when `name` is used twice in one build, when the value cannot be serialised (as MessagePack) or deserialised, or when the
    /// program did not ask for `name` in the first build.
    pub fn once<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        make: impl FnOnce() -> T,
    ) -> Result<T, BoxError> {
        if self.builder.borrow().once.contains_key(name) {
            return Err(format!(
                "once(\"{name}\") is called twice: give each value a name of its own"
            )
            .into());
        }
        let bytes = match &self.settings.once {
            Some(known) => known
                .get(name)
                .cloned()
                .ok_or_else(|| format!("once(\"{name}\") has no value: the program did not call it when the job was submitted"))?,
            // Not while the builder is borrowed: the expression may use the environment.
            None => rmp_serde::to_vec_named(&make())?,
        };
        let value = rmp_serde::from_slice(&bytes)?;
        self.builder.borrow_mut().once.insert(name.to_owned(), bytes);
        Ok(value)
    }

    /// Returns the path of a file or folder that was shipped with the application (`yarn.ship-files`, `yarn.ship-archives`). The path
    /// differs from process to process. `name` is the file's own name, `folder/file` for a file in a shipped folder, or
    /// `archive.zip/file` for a file in a shipped archive. Only the first part of `name` is looked up on disk: opening the path says
    /// whether the rest exists.
    ///
    /// # Errors
    /// Fails when `name` is empty, absolute, begins with `./` or contains `..`, or when nothing of that name was shipped.
    pub fn shipped(&self, name: &str) -> Result<PathBuf, BoxError> {
        let path = Path::new(name);
        let mut parts = path.components();
        let Some(Component::Normal(first)) = parts.next() else {
            return Err(format!(
                "shipped(\"{name}\"): the name must be a path in the folder of shipped files"
            )
            .into());
        };
        if !parts.all(|part| matches!(part, Component::Normal(_))) {
            return Err(format!(
                "shipped(\"{name}\"): the name leads out of the folder of shipped files"
            )
            .into());
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
                "shipped(\"{name}\"): no such file was shipped; {} holds: {}",
                folder.display(),
                there.join(", ")
            )
            .into());
        }
        Ok(folder.join(path))
    }

    /// Returns the absolute form of a local path or `file://` URI. A relative path starts from the working directory of an embedded
    /// program. A relative path on a cluster, or a URI of another scheme, fails the build with the operator's name.
    pub(crate) fn resolve(&self, operator: &str, path: &Path) -> PathBuf {
        let text = path.to_string_lossy();
        if let Some((scheme, rest)) = text.split_once("://") {
            if scheme == "file" {
                return PathBuf::from(rest);
            }
            self.builder.borrow_mut().invalid(format!(
                "operator '{operator}': cannot use '{text}': there is no file system for the scheme '{scheme}'"
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

    /// Returns the path or the URI of an input. A URI that this program cannot read fails the build with the operator's name.
    pub(crate) fn resolve_input(
        &self,
        operator: &str,
        path: &Path,
        open_remote: OpenRemoteFiles,
    ) -> PathBuf {
        let Some(uri) = path.to_str().filter(|path| files::is_remote(path)) else {
            return self.resolve(operator, path);
        };
        if let Err(error) = open_remote(uri, &S3Settings::default()) {
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
