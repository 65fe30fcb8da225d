//! The client's notes of its applications: the session that `flott yarn-session` started, so that `flott run -t
//! yarn-session` finds it, and for each application the token of its REST endpoint.
//!
//! Files of mode 0600 in a folder of the user. A file that others could have written is never believed, and no token is
//! ever shown.

use super::error::YarnFailure;
use crate::cluster_files::{self, ClusterFilesError};
use conf::{Options, logging, yarn_client};
use hadoop::yarn::messages::ApplicationId;
use nix::unistd::getuid;
use rest::access::BearerToken;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::PathBuf;

const NAME: &str = "yarn-session";
/// Beginning of a token file's name; the application's id follows.
const TOKEN_NAME: &str = "yarn-token-";
/// Most tokens that are looked through for applications that have ended.
const NOTED_MAX: usize = 64;

/// The content of the session file.
#[derive(Debug, Serialize, Deserialize)]
struct Noted {
    /// Id that YARN gave the application, `application_…`.
    application: String,
}

fn folder(options: &Options) -> PathBuf {
    let folder = options.get(&yarn_client::PROPERTIES_FILE);
    let folder = folder.unwrap_or_else(|| options.get(&logging::PID_DIR));
    folder.join(format!("flott-{}", getuid()))
}

/// The token of one application's REST endpoint, in a file of its own.
#[derive(Debug, Clone)]
pub(super) struct TokenFile {
    application: ApplicationId,
    path: PathBuf,
}

impl TokenFile {
    /// Returns the application's file, beside the session file. Touches nothing.
    pub(super) fn of(options: &Options, application: ApplicationId) -> Self {
        Self { application, path: folder(options).join(format!("{TOKEN_NAME}{application}")) }
    }

    /// Returns applications whose tokens are kept, at most 64.
    pub(super) fn noted(options: &Options) -> Vec<ApplicationId> {
        let Ok(entries) = std::fs::read_dir(folder(options)) else { return Vec::new() };
        let of = |entry: std::fs::DirEntry| {
            entry.file_name().to_str()?.strip_prefix(TOKEN_NAME)?.parse().ok()
        };
        entries.flatten().filter_map(of).take(NOTED_MAX).collect()
    }

    /// Returns the path in a form for messages.
    pub(super) fn display(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Writes the token of a new application.
    ///
    /// # Errors
    /// The file cannot be written, or is there already, or its folder is not this user's alone.
    pub(super) fn make(&self, token: &BearerToken) -> Result<(), YarnFailure> {
        let kept = |why: &dyn std::fmt::Display| {
            YarnFailure::configuration(format!(
                "the token of {} cannot be kept: {why}",
                self.application
            ))
        };
        match cluster_files::make_file(&self.path, token.expose()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(kept(&format_args!(
                "there is {} already, of another cluster's application; remove it",
                self.display()
            ))),
            Err(error) => Err(kept(&format_args!("{error}; set yarn.properties-file.location"))),
        }
    }

    /// Returns the token.
    ///
    /// # Errors
    /// There is no file, or it is not this user's alone, or holds no token; says where it was looked for.
    pub(super) fn read(&self) -> Result<BearerToken, YarnFailure> {
        let (application, path) = (self.application, self.display());
        let unusable = |error: &dyn std::fmt::Display| {
            YarnFailure::configuration(format!("the token of {application} in {path}: {error}"))
        };
        let text = cluster_files::read_file(&self.path);
        let text = text.map_err(|error: ClusterFilesError| unusable(&error))?.ok_or_else(|| {
            YarnFailure::configuration(format!(
                "the token of {application} is not known: there is no {path}. The command that started the application \
                 has written it, on the machine where it ran: copy it from there (mode 0600), or say with \
                 yarn.properties-file.location where it is"
            ))
        })?;
        BearerToken::new(text.trim()).map_err(|error| unusable(&error))
    }

    /// Removes the file, if there is one: the application has ended.
    pub(super) fn forget(&self) {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::debug!(%error, "the token's file stays");
            }
            _ => {}
        }
    }
}

/// The file of this user.
#[derive(Debug, Clone)]
pub(super) struct SessionFile(PathBuf);

impl SessionFile {
    /// Returns the file in `yarn.properties-file.location`, else in the user's folder below `env.pid.dir`. Touches
    /// nothing.
    pub(super) fn of(options: &Options) -> Self {
        Self(folder(options).join(NAME))
    }

    /// Returns the path in a form for messages.
    pub(super) fn display(&self) -> std::path::Display<'_> {
        self.0.display()
    }

    /// Notes the session; an earlier note is replaced.
    ///
    /// # Errors
    /// The file cannot be written, or its folder is not this user's alone.
    pub(super) fn write(&self, id: ApplicationId) -> Result<(), YarnFailure> {
        let noted = Noted { application: id.to_string() };
        let unnoted = |error: &dyn std::fmt::Display| {
            YarnFailure::configuration(format!(
                "the session cannot be noted in {}: {error}; set yarn.properties-file.location",
                self.display()
            ))
        };
        let text = serde_json::to_string(&noted).map_err(|error| unnoted(&error))?;
        cluster_files::replace_file(&self.0, &text).map_err(|error| unnoted(&error))
    }

    /// Returns the session that is noted; `None` if there is no note.
    ///
    /// # Errors
    /// A file that others may read or write, or that says nothing.
    pub(super) fn read(&self) -> Result<Option<ApplicationId>, YarnFailure> {
        let unusable = |why: String| {
            YarnFailure::configuration(format!(
                "{} cannot be used: {why}; remove it, or name the session with -Dyarn.application.id",
                self.display()
            ))
        };
        let text = cluster_files::read_file(&self.0).map_err(|e| unusable(e.to_string()))?;
        let Some(text) = text else { return Ok(None) };
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

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
    fn a_token_is_kept_for_its_user_alone_until_its_application_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display().to_string();
        let options = Options::from_map([("yarn.properties-file.location", at.as_str())]).unwrap();
        let id: ApplicationId = "application_1_0001".parse().unwrap();
        let file = TokenFile::of(&options, id);
        let absent = file.read().unwrap_err().to_string();
        assert!(absent.contains(&file.display().to_string()), "{absent}");
        assert!(TokenFile::noted(&options).is_empty());
        let token = BearerToken::random(&platform::Platform::production());
        file.make(&token).unwrap();
        SessionFile::of(&options).write(id).unwrap();
        assert_eq!(file.read().unwrap().expose(), token.expose());
        assert_eq!(TokenFile::noted(&options), [id]);
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&file.path), mode(file.path.parent().unwrap())), (0o600, 0o700));
        std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let open = file.read().unwrap_err().to_string();
        assert!(open.contains("640") && !open.contains(token.expose()), "{open}");
        file.forget();
        file.forget();
        assert!(file.read().is_err() && TokenFile::noted(&options).is_empty());
    }

    #[test]
    fn the_token_of_a_new_application_is_never_an_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display().to_string();
        let options = Options::from_map([("yarn.properties-file.location", at.as_str())]).unwrap();
        let file = TokenFile::of(&options, "application_1_0001".parse().unwrap());
        let platform = platform::Platform::production();
        let (old, new) = (BearerToken::random(&platform), BearerToken::random(&platform));
        file.make(&old).unwrap();
        let error = file.make(&new).unwrap_err().to_string();
        assert!(error.contains(&format!("{} already", file.display())), "{error}");
        assert!(!error.contains(old.expose()) && !error.contains(new.expose()), "{error}");
        assert_eq!(file.read().unwrap().expose(), old.expose());
    }

    #[test]
    fn a_session_is_not_noted_through_links_or_in_folders_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        std::fs::create_dir(&own).unwrap();
        let file = SessionFile(own.join(NAME));
        let id: ApplicationId = "application_1_0001".parse().unwrap();
        let target = folder.path().join("target");
        std::fs::write(&target, "precious").unwrap();
        let pid = std::process::id();
        for planted in [format!("partial-{pid}"), format!("partial-{pid}-0")] {
            std::os::unix::fs::symlink(&target, file.0.with_extension(planted)).unwrap();
        }
        std::os::unix::fs::symlink(&target, &file.0).unwrap();
        file.write(id).unwrap();
        assert_eq!(file.read().unwrap(), Some(id));
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");

        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = file.write(id).unwrap_err().to_string();
        assert!(error.contains("closed to all others"), "{error}");
        let error = file.read().unwrap_err().to_string();
        assert!(error.contains("yarn.application.id"), "{error}");
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
