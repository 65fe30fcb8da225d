//! Hadoop's configuration: layered XML resources, `${…}`, final properties, inclusions, Hadoop's own
//! defaults below. Unknown properties are kept, and the whole can be written out again, resolved, to
//! travel with an application. It must never log values, which may be passwords, and never fetch a
//! resource from a network.
//!
//! ```
//! use hadoop::conf::{Configuration, NoIncludes};
//!
//! # fn main() -> Result<(), hadoop::conf::ConfError> {
//! let mut conf = Configuration::with_defaults();
//! let xml = "<configuration><property>
//!     <name>yarn.resourcemanager.hostname</name><value>rm.example.org</value>
//! </property></configuration>";
//! conf.add_xml("yarn-site.xml", xml, &mut NoIncludes)?;
//! assert_eq!(conf.get("yarn.resourcemanager.address")?.as_deref(), Some("rm.example.org:8032"));
//! # Ok(()) }
//! ```

mod defaults;
mod error;
mod subst;
#[cfg(test)]
pub(crate) mod tests;
mod typed;
mod xml;

pub use error::ConfError;
pub use xml::{Declared, FileIncludes, Includes, NoIncludes, parse};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names of the files that are read from a configuration directory, in this order; later ones override earlier ones.
pub const SITE_FILES: &[&str] = &["core-site.xml", "hdfs-site.xml", "yarn-site.xml"];
/// The name of the resource of a value that a program itself has set, as Hadoop's configuration names it.
const PROGRAM: &str = "programmatically";

/// A property's value and where it comes from.
#[derive(Clone, PartialEq, Eq)]
struct Property {
    value: String,
    is_final: bool,
    resource: String,
}

/// Hadoop's configuration: properties from several resources (files, defaults, the program), of which later ones override earlier ones,
/// except for properties that an earlier file made final, which only the program itself can change. References `${…}` are expanded when a
/// value is read. Of the properties that Hadoop has renamed, `fs.defaultFS` and `dfs.nameservices` are found under their old names too.
///
/// `Debug` shows how many properties there are, never their values.
#[derive(Clone, Default)]
pub struct Configuration {
    properties: BTreeMap<String, Property>,
    /// Values that `${…}` finds first, as Java finds system properties: `user.name`, `user.home`, ….
    system: BTreeMap<String, String>,
    /// The environment, for `${env.…}`.
    environment: BTreeMap<String, String>,
}

impl std::fmt::Debug for Configuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Configuration").field("properties", &self.properties.len()).finish()
    }
}

impl Configuration {
    /// Returns a configuration without properties, system properties and environment variables: not even Hadoop's
    /// defaults.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Returns a configuration of Hadoop's defaults for the properties that this library reads, without environment variables and system
    /// properties. Reads no file.
    #[must_use]
    pub fn with_defaults() -> Self {
        let mut conf = Self::empty();
        for (name, value) in defaults::DEFAULTS {
            conf.put(name, (*value).to_owned(), false, "defaults");
        }
        conf
    }

    /// Reads the configuration of this process, as Hadoop's own commands find it: the defaults, then the [`SITE_FILES`] of
    /// `HADOOP_CONF_DIR` (or `$HADOOP_HOME/etc/hadoop`), then those of `YARN_CONF_DIR` if that is another directory; with a copy of the
    /// process's environment, and `user.name` (`HADOOP_USER_NAME`, else `USER`), `user.home` (`HOME`) and `java.io.tmpdir` (`/tmp`) for
    /// `${…}`. Missing files and directories are no error (a missing directory is logged as a warning): [`Configuration::sources`] says
    /// what was found. Blocks on the file system; each call reads anew.
    ///
    /// # Errors
    /// Fails with [`ConfError::Read`] for a file that is there and cannot be read, other [`ConfError`]s for one that is no configuration.
    pub fn load() -> Result<Self, ConfError> {
        let mut conf = Self::with_defaults();
        conf.environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        conf.set_system_values();
        for dir in conf.directories() {
            // As Hadoop does, which then speaks to this host: containers may inherit a variable that means another.
            if !dir.is_dir() {
                let dir = dir.display();
                tracing::warn!(%dir, "there is no directory of this name with a configuration");
            }
            conf.add_directory(&dir)?;
        }
        Ok(conf)
    }

    /// Reads the defaults and the [`SITE_FILES`] of one directory, with the process's environment, and the same values for `${…}` as
    /// [`Configuration::load`]; `HADOOP_CONF_DIR` and `YARN_CONF_DIR` are not looked at. Missing files, or a missing directory, are no
    /// error. Blocks on the file system.
    ///
    /// # Errors
    /// Fails as [`Configuration::load`] does.
    pub fn load_from(directory: &Path) -> Result<Self, ConfError> {
        let mut conf = Self::with_defaults();
        conf.environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        conf.set_system_values();
        conf.add_directory(directory)?;
        Ok(conf)
    }

    /// Sets the properties that Java knows as system properties and `${…}` may refer to: `user.name`, `user.home` and
    /// `java.io.tmpdir`.
    fn set_system_values(&mut self) {
        let user = self.environment.get("HADOOP_USER_NAME").or(self.environment.get("USER"));
        if let Some(user) = user.cloned() {
            self.system.insert("user.name".to_owned(), user);
        }
        if let Some(home) = self.environment.get("HOME").cloned() {
            self.system.insert("user.home".to_owned(), home);
        }
        self.system.insert("java.io.tmpdir".to_owned(), "/tmp".to_owned());
    }

    /// Returns the directories that may have site files, in the order in which they are read: `HADOOP_CONF_DIR`, or
    /// else `HADOOP_HOME/etc/hadoop`; then `YARN_CONF_DIR`.
    fn directories(&self) -> Vec<PathBuf> {
        let set = |name: &str| self.environment.get(name).filter(|value| !value.is_empty());
        let mut found = Vec::new();
        if let Some(dir) = set("HADOOP_CONF_DIR") {
            found.push(PathBuf::from(dir));
        } else if let Some(home) = set("HADOOP_HOME") {
            found.push(Path::new(home).join("etc/hadoop"));
        }
        if let Some(dir) = set("YARN_CONF_DIR").map(PathBuf::from)
            && !found.contains(&dir)
        {
            found.push(dir);
        }
        found
    }

    /// Adds the [`SITE_FILES`] of a directory, whose properties override earlier ones that are not final; missing files
    /// are no error. If one fails, those before it stay added.
    ///
    /// # Errors
    /// Fails with a [`ConfError`] for a file that is there and cannot be read, or is no configuration.
    pub fn add_directory(&mut self, directory: &Path) -> Result<(), ConfError> {
        for name in SITE_FILES {
            let path = directory.join(name);
            if path.is_file() {
                self.add_file(&path)?;
            }
        }
        Ok(())
    }

    /// Adds a file, and the files that it includes; its properties override earlier ones that are not final.
    ///
    /// # Errors
    /// Fails with a [`ConfError`] for a file that cannot be read, or is no configuration; nothing of it is taken then.
    pub fn add_file(&mut self, path: &Path) -> Result<(), ConfError> {
        let text = xml::read(path)?;
        self.add_xml(&path.display().to_string(), &text, &mut FileIncludes)
    }

    /// Adds the properties of an XML text, which override earlier ones. `resource` names the text in errors and in
    /// [`Configuration::source`]; `includes` opens what it includes. A property that is final already stays,
    /// with a warning in the log; one without a value changes nothing.
    ///
    /// # Errors
    /// Fails with a [`ConfError`] for a text that is no configuration; nothing of it is taken then.
    pub fn add_xml(
        &mut self,
        resource: &str,
        text: &str,
        includes: &mut dyn Includes,
    ) -> Result<(), ConfError> {
        for declared in parse(resource, text, includes)? {
            let name = current_name(&declared.name);
            if self.is_final(name) {
                let (resource, kept) = (&declared.resource, name);
                tracing::warn!(%resource, name = kept, "a final property is not changed");
            } else if let Some(value) = declared.value {
                self.put(name, value, declared.is_final, &declared.resource);
            }
        }
        Ok(())
    }

    fn put(&mut self, name: &str, value: String, is_final: bool, resource: &str) {
        let resource = resource.to_owned();
        self.properties.insert(name.to_owned(), Property { value, is_final, resource });
    }

    /// Sets a property's value, even of a final property, which stays final. Its source is then `programmatically`. A file or text that is
    /// added later overrides the value, unless the property is final.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        let is_final = self.is_final(name);
        self.put(current_name(name), value.into(), is_final, PROGRAM);
    }

    /// Removes a property, a default or a final one as well; does nothing if it is not set.
    pub fn unset(&mut self, name: &str) {
        self.properties.remove(current_name(name));
    }

    /// Sets a value by which `${name}` is expanded, before a property of that name is looked for, as with Java's system
    /// properties. It is no property itself.
    pub fn set_system(&mut self, name: &str, value: impl Into<String>) {
        self.system.insert(name.to_owned(), value.into());
    }

    /// Sets an environment variable for this configuration only, which `${env.NAME}` and [`Configuration::environment`]
    /// find; the process's environment stays as it is.
    pub fn set_environment(&mut self, name: &str, value: impl Into<String>) {
        self.environment.insert(name.to_owned(), value.into());
    }

    /// Returns an environment variable as this configuration sees it; `None` if it is unset or empty.
    #[must_use]
    pub fn environment(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns true if a resource made the property final, so that later resources do not change it.
    #[must_use]
    pub fn is_final(&self, name: &str) -> bool {
        self.properties.get(current_name(name)).is_some_and(|property| property.is_final)
    }

    /// Returns the name of the resource that a property's value comes from: a file's path, the name given to
    /// [`Configuration::add_xml`], `defaults`, or `programmatically`; `None` if the property is not set.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<&str> {
        self.properties.get(current_name(name)).map(|property| property.resource.as_str())
    }

    /// Returns the names of all resources that some property's value comes from, each once, sorted: those that
    /// [`Configuration::source`] returns. A resource whose every property was overridden is not among them.
    #[must_use]
    pub fn sources(&self) -> Vec<&str> {
        let all = self.properties.values().map(|property| property.resource.as_str());
        all.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }

    /// Iterates over the names of all properties that are set, defaults included, sorted; renamed properties by their
    /// new names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.properties.keys().map(String::as_str)
    }

    /// Returns a property's value as its resource has it, with references `${…}` unexpanded; `None` if it is not set.
    #[must_use]
    pub fn get_raw(&self, name: &str) -> Option<&str> {
        self.properties.get(current_name(name)).map(|property| property.value.as_str())
    }

    /// Returns a property's value with references `${…}` expanded; those to nothing known stay as they are. `None` if
    /// the property is not set.
    ///
    /// # Errors
    /// Fails with [`ConfError::Expansion`] if the value never stops expanding (more than 20 replacements, or 1 MiB).
    pub fn get(&self, name: &str) -> Result<Option<String>, ConfError> {
        let Some(value) = self.get_raw(name) else { return Ok(None) };
        match subst::expand(value, self) {
            Some(value) => Ok(Some(value)),
            None => Err(ConfError::Expansion { name: name.to_owned() }),
        }
    }

    /// Returns the configuration as XML, final marks included. If `resolved` is true, references `${…}` are replaced by
    /// their values here, so that the result means the same on any machine; those to nothing known stay. Environment
    /// and system properties are not written. Characters that XML cannot hold, such as NUL, become U+FFFD.
    ///
    /// # Errors
    /// Fails with [`ConfError::Expansion`] for a value that never stops expanding, only if `resolved` is true;
    /// [`ConfError::TooLong`] if the values have more than 16 MiB, which could not be read again.
    pub fn to_xml(&self, resolved: bool) -> Result<String, ConfError> {
        let mut written = Vec::with_capacity(self.properties.len());
        let mut length = 0_usize;
        for (name, property) in &self.properties {
            let value = match resolved {
                true => self.get(name)?.unwrap_or_default(),
                false => property.value.clone(),
            };
            length = length.saturating_add(value.len());
            if length > xml::BYTES_MAX {
                let resource = "the configuration".to_owned();
                return Err(ConfError::TooLong { resource, max: xml::BYTES_MAX });
            }
            written.push((name.as_str(), value, property.is_final));
        }
        Ok(xml::write(written.into_iter()))
    }
}

impl subst::Lookup for Configuration {
    fn property(&self, name: &str) -> Option<String> {
        self.system.get(name).map(String::as_str).or_else(|| self.get_raw(name)).map(str::to_owned)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.environment.get(name).cloned()
    }
}

/// Returns the current name of a property that Hadoop has renamed; any other name as it is.
fn current_name(name: &str) -> &str {
    defaults::RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}
