//! The files behind `security.ssl.internal.*` of an application on YARN: the client ships them, because the nodes do not have
//! them, and the containers find them below their working directory.
//!
//! The key must never get a visibility that other applications share. Staged files are for the application alone, and HDFS
//! keeps them for their owner.

use super::contract::SHIP_FOLDER;
use super::error::YarnFailure;
use super::staging::Upload;
use conf::{Opt, Options, security};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder of the files in a container.
const FOLDER: &str = "tls";

/// The options that name a file, and the file's name in a container.
const FILES: [(&Opt<Option<PathBuf>>, &str); 3] = [
    (&security::SSL_INTERNAL_CA, "ca.pem"),
    (&security::SSL_INTERNAL_CERT, "cert.pem"),
    (&security::SSL_INTERNAL_KEY, "key.pem"),
];

/// The TLS files of an application.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TlsFiles {
    /// The files to ship.
    pub(super) uploads: Vec<Upload>,
    /// The options that name these files in a container, for the staged options.
    pub(super) options: BTreeMap<String, String>,
}

/// Returns the TLS files that have to be shipped; none if TLS is off. `shipped` are the uploads of `yarn.ship-files`: an option
/// that names one of them (`ship/…`) stays as it is.
///
/// # Errors
/// TLS is on and one of the three files is not named, is not among the ship files that it names, or cannot be read by this
/// client. The containers would not start without it.
pub(super) fn tls_files(options: &Options, shipped: &[Upload]) -> Result<TlsFiles, YarnFailure> {
    let mut files = TlsFiles::default();
    if !options.get(&security::SSL_INTERNAL_ENABLED) {
        return Ok(files);
    }
    for (option, name) in FILES {
        let key = option.key();
        let Some(path) = options.get(option) else {
            return Err(YarnFailure::configuration(format!(
                "{} is set: {key} is missing",
                security::SSL_INTERNAL_ENABLED.key()
            )));
        };
        if path.starts_with(SHIP_FOLDER) {
            if !shipped.iter().any(|upload| Path::new(&upload.name) == path) {
                return Err(YarnFailure::configuration(format!(
                    "{key} names {}, which is not among the files of yarn.ship-files",
                    path.display()
                )));
            }
            continue;
        }
        let unreadable = |why: String| {
            YarnFailure::configuration(format!(
                "{key} names {}, which this client ships to every container of the application and cannot read: {why}; \
                 the certificate has to name every node on which a container may run",
                path.display()
            ))
        };
        std::fs::File::open(&path).map_err(|e| unreadable(e.to_string()))?;
        let name = format!("{FOLDER}/{name}");
        files.uploads.push(Upload::new(&name, &path)?);
        files.options.insert(key.to_owned(), name);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(folder: &Path, key: &str) -> Options {
        let path = |name: &str| folder.join(name).display().to_string();
        Options::from_map([
            ("security.ssl.internal.enabled", "true".to_owned()),
            ("security.ssl.internal.ca", path("authority")),
            ("security.ssl.internal.cert", path("chain")),
            ("security.ssl.internal.key", key.to_owned()),
        ])
        .unwrap()
    }

    #[test]
    fn tls_files_are_shipped_with_the_application() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["authority", "chain", "secret"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        assert_eq!(tls_files(&Options::default(), &[]).unwrap(), TlsFiles::default());
        let key = folder.path().join("secret");
        let files = tls_files(&options(folder.path(), &key.display().to_string()), &[]).unwrap();
        let names: Vec<_> = files.uploads.iter().map(|upload| upload.name.as_str()).collect();
        assert_eq!(names, ["tls/ca.pem", "tls/cert.pem", "tls/key.pem"]);
        assert_eq!(files.options["security.ssl.internal.key"], "tls/key.pem");
        assert_eq!(files.options.len(), 3);
        assert_eq!(files.uploads[2].local, key);
        // Those that yarn.ship-files brings are there already.
        let shipped = [Upload::new("ship/certs/key.pem", &key).unwrap()];
        let named = options(folder.path(), "ship/certs/key.pem");
        let files = tls_files(&named, &shipped).unwrap();
        assert_eq!((files.uploads.len(), files.options.len()), (2, 2));
        let text = tls_files(&named, &[]).unwrap_err().to_string();
        assert!(text.contains("ship/certs/key.pem") && text.contains("yarn.ship-files"), "{text}");
    }

    #[test]
    fn a_tls_file_that_is_absent_is_told_before_the_submission() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = tls_files(&options(folder.path(), "/no/key"), &[]).unwrap_err().to_string();
        assert!(nowhere.contains("security.ssl.internal.ca"), "{nowhere}");
        assert!(nowhere.contains("authority") && nowhere.contains("No such file"), "{nowhere}");
        let on = Options::from_map([("security.ssl.internal.enabled", "true")]).unwrap();
        let missing = tls_files(&on, &[]).unwrap_err().to_string();
        let expected = "security.ssl.internal.enabled is set: security.ssl.internal.ca is missing";
        assert_eq!(missing, expected);
    }
}
