//! How a container is started, put together step by step. Nothing is looked up here: sizes and times of files
//! are the caller's word.

use super::messages::{
    ContainerLaunchContext, IdError, LocalResource, LocalResourceType, LocalResourceVisibility,
    StringBytesMap, StringLocalResourceMap, StringStringMap, Url,
};
use crate::tokens::Credentials;

impl ContainerLaunchContext {
    /// Makes the launch of a container that runs this command in a shell, without files, environment and tokens.
    /// `<LOG_DIR>` in it stands for the directory of the container's logs: `./worker 1><LOG_DIR>/stdout
    /// 2><LOG_DIR>/stderr`.
    #[must_use]
    pub fn of_command(command: impl Into<String>) -> Self {
        Self { command: vec![command.into()], ..Self::default() }
    }

    /// Returns this launch with an environment variable set to exactly `value`, in place of an earlier one of this
    /// name.
    ///
    /// A NodeManager writes `export NAME="VALUE"` into a shell script without quoting `VALUE`, so this puts a backslash
    /// before each `"`, `\`, `$` and backtick. Nothing can protect `{{` and `}}`: before that the NodeManager replaces
    /// `{{` by `$` and removes `}}`.
    #[must_use]
    pub fn with_env(self, name: impl Into<String>, value: impl AsRef<str>) -> Self {
        let mut quoted = String::with_capacity(value.as_ref().len());
        for c in value.as_ref().chars() {
            if matches!(c, '"' | '\\' | '$' | '`') {
                quoted.push('\\');
            }
            quoted.push(c);
        }
        self.with_expanded_env(name, quoted)
    }

    /// Returns this launch with an environment variable set to what a shell makes of `value` between double quotes, in
    /// place of an earlier one of this name. `{{NAME}}` and `$NAME` stand for the container's variable `NAME`:
    /// `{{PWD}}/conf`.
    #[must_use]
    pub fn with_expanded_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        self.environment.retain(|pair| pair.key.as_deref() != Some(name.as_str()));
        self.environment.push(StringStringMap { key: Some(name), value: Some(value) });
        self
    }

    /// Adds a file that the node fetches before the start, under this name in the container's working directory, in
    /// place of an earlier one of this name.
    #[must_use]
    pub fn with_file(mut self, name: impl Into<String>, resource: LocalResource) -> Self {
        let (key, value) = (Some(name.into()), Some(resource));
        self.local_resources.retain(|file| file.key != key);
        self.local_resources.push(StringLocalResourceMap { key, value });
        self
    }

    /// Sets the container's tokens and secret keys, in place of earlier ones. The node writes them into a file, which
    /// the program finds through its variable `HADOOP_TOKEN_FILE_LOCATION`.
    #[must_use]
    pub fn with_tokens(mut self, credentials: &Credentials) -> Self {
        self.tokens = Some(credentials.to_bytes());
        self
    }

    /// Adds data for the auxiliary service of this name on the node, such as a shuffle service. Earlier data for the
    /// same service is not removed.
    #[must_use]
    pub fn with_service_data(mut self, service: impl Into<String>, data: Vec<u8>) -> Self {
        self.service_data.push(StringBytesMap { key: Some(service.into()), value: Some(data) });
        self
    }
}

impl LocalResource {
    /// Describes a file of a file system that a node is to fetch for this application's containers alone; nothing is
    /// looked up. The modification time (milliseconds since 1970) must be exactly the file's: nodes refuse a file with
    /// another one. By the size (bytes) they only choose a disk with enough room.
    ///
    /// # Errors
    /// Fails with [`IdError`] for a text that is no URI with a scheme and a path.
    pub fn file(uri: &str, size: i64, modified: i64) -> Result<Self, IdError> {
        Ok(Self {
            resource: Some(uri.parse()?),
            size: Some(size),
            timestamp: Some(modified),
            kind: Some(LocalResourceType::File.into()),
            visibility: Some(LocalResourceVisibility::Application.into()),
            ..Self::default()
        })
    }

    /// Returns this file marked as an archive, which the node unpacks by its ending (`.zip`, `.tar.gz`, …).
    #[must_use]
    pub fn unpacked(mut self) -> Self {
        self.kind = Some(LocalResourceType::Archive.into());
        self
    }

    /// Returns this file with another visibility, so that the node's copy serves others too: with `Private` the same
    /// user's other applications, with `Public` everybody's. For a public file, everybody must be allowed to read the
    /// file and to pass the directories above it. The node fetches a public file itself, but starts a process (a
    /// localiser) for any other, so a public one comes sooner.
    #[must_use]
    pub fn shared(mut self, visibility: LocalResourceVisibility) -> Self {
        self.visibility = Some(visibility.into());
        self
    }
}

impl std::str::FromStr for Url {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || {
            let (scheme, rest) = text.split_once(':').filter(|(scheme, _)| !scheme.is_empty())?;
            let (authority, path) = match rest.strip_prefix("//") {
                Some(rest) => rest.split_at_checked(rest.find('/')?)?,
                None => ("", rest),
            };
            if !path.starts_with('/') {
                return None;
            }
            let (user, place) = match authority.rsplit_once('@') {
                Some((user, place)) => (Some(user.to_owned()), place),
                None => (None, authority),
            };
            let (host, port) = match place.rsplit_once(':') {
                Some((host, port)) => (host, i32::from(port.parse::<u16>().ok()?)),
                None => (place, -1),
            };
            Some(Self {
                scheme: Some(scheme.to_owned()),
                host: (!host.is_empty()).then(|| host.to_owned()),
                port: Some(port),
                file: Some(path.to_owned()),
                user_info: user,
            })
        };
        let expected = "a URI, such as hdfs://host:8020/path";
        parse().ok_or_else(|| IdError { text: text.to_owned(), expected })
    }
}
