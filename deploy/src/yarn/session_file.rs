//! The note that `flott yarn-session` leaves of the session it started, so that `flott run -t yarn-session` finds it.
//!
//! One file for each user, mode 0600. A file that others could have written is never believed.

use super::error::YarnFailure;
use conf::{Options, logging, yarn_client};
use hadoop::yarn::messages::ApplicationId;
use nix::unistd::getuid;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

const NAME: &str = "yarn-session";
const BYTES_MAX: u64 = 4096;

/// What the file says.
#[derive(Debug, Serialize, Deserialize)]
struct Noted {
    /// `application_…`.
    application: String,
}

/// The file of this user.
#[derive(Debug, Clone)]
pub(super) struct SessionFile(PathBuf);

impl SessionFile {
    /// Returns the file in `yarn.properties-file.location`, else in the user's folder below `env.pid.dir`. Touches
    /// nothing.
    pub(super) fn of(options: &Options) -> Self {
        let folder = options.get(&yarn_client::PROPERTIES_FILE);
        let folder = folder.unwrap_or_else(|| options.get(&logging::PID_DIR));
        Self(folder.join(format!("flott-{}", getuid())).join(NAME))
    }

    /// The path, for people.
    pub(super) fn display(&self) -> std::path::Display<'_> {
        self.0.display()
    }

    /// Notes the session; an earlier note is replaced.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, id: ApplicationId) -> Result<(), YarnFailure> {
        let noted = Noted { application: id.to_string() };
        let write = || {
            let folder = self.0.parent().unwrap_or(&self.0);
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            let partial = self.0.with_extension(format!("partial-{}", std::process::id()));
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&partial)?;
            file.write_all(&serde_json::to_vec(&noted)?)?;
            std::fs::rename(&partial, &self.0)
        };
        write().map_err(|e| {
            YarnFailure::configuration(format!(
                "the session cannot be noted in {}: {e}; set yarn.properties-file.location",
                self.display()
            ))
        })
    }

    /// Returns the session that is noted; `None` if there is no note.
    ///
    /// # Errors
    /// A file that others may write, or that says nothing.
    pub(super) fn read(&self) -> Result<Option<ApplicationId>, YarnFailure> {
        let unusable = |why: String| {
            YarnFailure::configuration(format!(
                "{} cannot be used: {why}; remove it, or name the session with -Dyarn.application.id",
                self.display()
            ))
        };
        let file = match File::open(&self.0) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(unusable(e.to_string())),
        };
        let text = checked(file).map_err(|e| unusable(e.to_string()))?;
        let noted: Noted = serde_json::from_str(&text).map_err(|e| unusable(e.to_string()))?;
        noted
            .application
            .parse()
            .map(Some)
            .map_err(|_| unusable("it names no application".to_owned()))
    }

    /// Removes the note if it names this session.
    pub(super) fn forget(&self, id: ApplicationId) {
        if matches!(self.read(), Ok(Some(noted)) if noted == id)
            && let Err(error) = std::fs::remove_file(&self.0)
        {
            tracing::debug!(%error, "the session file stays");
        }
    }
}

fn checked(file: File) -> io::Result<String> {
    let meta = file.metadata()?;
    if meta.uid() != getuid().as_raw() || meta.mode() & 0o077 != 0 {
        let why = format!(
            "it must belong to this user alone (mode 0600); it has mode {:o}",
            meta.mode() & 0o777
        );
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_session_is_noted_for_its_user_alone_and_forgotten_when_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display().to_string();
        let options = Options::from_map([("yarn.properties-file.location", at.as_str())]).unwrap();
        let file = SessionFile::of(&options);
        assert_eq!(file.read().unwrap(), None);
        let (one, two): (ApplicationId, ApplicationId) =
            ("application_1_0001".parse().unwrap(), "application_1_0002".parse().unwrap());
        file.write(one).unwrap();
        file.write(two).unwrap();
        assert_eq!(file.read().unwrap(), Some(two));
        assert_eq!(std::fs::metadata(&file.0).unwrap().mode() & 0o777, 0o600);
        file.forget(one);
        assert_eq!(file.read().unwrap(), Some(two), "it is another session's");
        file.forget(two);
        assert_eq!(file.read().unwrap(), None);
    }

    #[test]
    fn a_file_that_others_may_read_or_that_says_nothing_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = SessionFile(folder.path().join(NAME));
        file.write("application_1_0001".parse().unwrap()).unwrap();
        std::fs::set_permissions(&file.0, std::fs::Permissions::from_mode(0o644)).unwrap();
        let text = file.read().unwrap_err().to_string();
        assert!(text.contains("mode 644"), "{text}");
        for wrong in ["", "{}", r#"{"application":"x"}"#] {
            std::fs::remove_file(&file.0).unwrap();
            file.write("application_1_0001".parse().unwrap()).unwrap();
            std::fs::write(&file.0, wrong).unwrap();
            assert!(
                file.read().unwrap_err().to_string().contains("yarn.application.id"),
                "{wrong}"
            );
        }
    }
}
