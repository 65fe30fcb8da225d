//! The note that marks an executable as a Flott program. It is read from the file without executing the file.
//!
//! The note has the form of an ELF note (name `FLOTT`, type 1) and holds the protocol version and the features that the program
//! was built with; the file's own header names the architecture. Reading must never trust a length that the file states.

mod mark;

pub use mark::mark;

use object::read::ReadCache;
use object::{Architecture, Object, ObjectSection};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Version of the protocol between programs and clusters: that of the fabric, which programs speak with TaskManager and JobManager. A
/// program of version N.m runs on clusters of version N.k with k ≥ m.
const PROTOCOL: platform::handshake::Version = platform::handshake::VERSION;
/// Section of the note. Its name must not begin with `.note`: the linker would keep the section in every binary that shares the
/// code.
const SECTION: &str = ".flott.note";
/// Size of the note in bytes.
const NOTE_BYTES: usize = 32;

/// The content of the note in a program's executable file, by which a cluster recognises Flott programs without running them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramNote {
    /// Major protocol version; a cluster takes programs with its own one only.
    pub major: u32,
    /// Minor protocol version; a cluster takes programs whose minor version is not newer than its own.
    pub minor: u32,
    /// Features that the program was built with, one bit each: [`ON_YARN`]. Readers ignore unknown bits.
    pub features: u32,
}

/// The bit in [`ProgramNote::features`] of programs that can be JobManager and TaskManager on YARN (built with the feature `yarn`).
pub const ON_YARN: u32 = 1;

/// The error of [`read`]: the reason why a file is not a program that can run here.
#[derive(Debug, Error)]
pub enum NotAProgram {
    /// The file cannot be opened, for instance because it is absent or may not be read.
    #[error("cannot read {path}: {why}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// The file is not an ELF executable, or is a damaged one, or cannot be read to its end; also a folder.
    #[error("{path} is not a Flott program: it is no ELF executable ({why})")]
    NotElf {
        /// Path of the file.
        path: PathBuf,
        /// The mistake in its format.
        why: String,
    },
    /// The file is an ELF executable without a readable note, so not a Flott program.
    #[error("{path} is not a Flott program: it does not carry the note that #[flott::main] leaves")]
    NoNote {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file has a section for the note, and was built for another architecture than this process. Its protocol version is not looked
    /// at. A file without that section is [`NotAProgram::NoNote`], whatever its architecture.
    #[error(
        "{path} is built for {theirs}, and this machine is {ours}: build it for this architecture"
    )]
    OtherArchitecture {
        /// Path of the file.
        path: PathBuf,
        /// The architecture in the file's header.
        theirs: String,
        /// The architecture of this process.
        ours: &'static str,
    },
    /// The program's major protocol version differs from this cluster's, or its minor version is newer.
    #[error(
        "{path} speaks protocol {}.{}, and this cluster {}.{}: build it against this version",
        theirs.major, theirs.minor, ours.major, ours.minor
    )]
    OtherProtocol {
        /// Path of the file.
        path: PathBuf,
        /// The content of the file's note.
        theirs: ProgramNote,
        /// The note of this version, [`OURS`].
        ours: ProgramNote,
    },
}

impl NotAProgram {
    /// Returns the error's text without the file's path ("it is not a Flott program: …"), for callers that name the file themselves
    /// or must not show its path.
    pub fn reason(&self) -> String {
        let path = match self {
            Self::Io { why, .. } => return format!("it cannot be read: {why}"),
            Self::NotElf { path, .. }
            | Self::NoNote { path }
            | Self::OtherArchitecture { path, .. }
            | Self::OtherProtocol { path, .. } => path.display().to_string(),
        };
        let whole = self.to_string();
        format!("it{}", whole.strip_prefix(&path).unwrap_or(&whole))
    }
}

/// The note of programs that are built with this version and with the features of this build.
pub const OURS: ProgramNote = ProgramNote {
    major: PROTOCOL.major as u32,
    minor: PROTOCOL.minor as u32,
    features: if cfg!(feature = "yarn") { ON_YARN } else { 0 },
};

/// Reads a program's note from its file and checks that the program can run here. Does not execute the program.
///
/// # Errors
/// Fails with [`NotAProgram::Io`] if the file cannot be opened, [`NotAProgram::NotElf`] or [`NotAProgram::NoNote`] if it is not a Flott
/// program, [`NotAProgram::OtherArchitecture`] or [`NotAProgram::OtherProtocol`] if it is one for other machines or clusters.
pub fn read(path: &Path) -> Result<ProgramNote, NotAProgram> {
    let not_elf =
        |why: object::Error| NotAProgram::NotElf { path: path.into(), why: why.to_string() };
    let file = File::open(path).map_err(|why| NotAProgram::Io { path: path.into(), why })?;
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).map_err(not_elf)?;
    let section = elf.section_by_name(SECTION);
    let Some(section) = section else { return Err(NotAProgram::NoNote { path: path.into() }) };
    let ours = std::env::consts::ARCH;
    if elf.architecture() != our_architecture() {
        let theirs = format!("{:?}", elf.architecture()).to_lowercase();
        return Err(NotAProgram::OtherArchitecture { path: path.into(), theirs, ours });
    }
    let note = match section.size() {
        size if size >= NOTE_BYTES as u64 => section.data().map_err(not_elf)?,
        _ => return Err(NotAProgram::NoNote { path: path.into() }),
    };
    let theirs = parse(note).ok_or_else(|| NotAProgram::NoNote { path: path.into() })?;
    if theirs.major != OURS.major || theirs.minor > OURS.minor {
        return Err(NotAProgram::OtherProtocol { path: path.into(), theirs, ours: OURS });
    }
    Ok(theirs)
}

fn our_architecture() -> Architecture {
    match std::env::consts::ARCH {
        "x86_64" => Architecture::X86_64,
        "aarch64" => Architecture::Aarch64,
        "riscv64" => Architecture::Riscv64,
        "powerpc64" => Architecture::PowerPc64,
        "s390x" => Architecture::S390x,
        _ => Architecture::Unknown,
    }
}

/// Returns a note as bytes.
#[expect(
    clippy::indexing_slicing,
    reason = "constant indices into arrays of known lengths, checked in the compiler"
)]
const fn note(of: ProgramNote) -> [u8; NOTE_BYTES] {
    let mut out = [0; NOTE_BYTES];
    // The header: sizes of name and descriptor, and the type. The name is padded to a multiple of four bytes.
    out[0] = 6;
    out[4] = 12;
    out[8] = 1;
    let name = *b"FLOTT\0\0\0";
    let (major, minor) = (of.major.to_le_bytes(), of.minor.to_le_bytes());
    let features = of.features.to_le_bytes();
    let mut i = 0;
    while i < 8 {
        out[12 + i] = name[i];
        i += 1;
    }
    i = 0;
    while i < 4 {
        out[20 + i] = major[i];
        out[24 + i] = minor[i];
        out[28 + i] = features[i];
        i += 1;
    }
    out
}

fn parse(bytes: &[u8]) -> Option<ProgramNote> {
    let (head, rest) = bytes.split_at_checked(20)?;
    if head != note(OURS).get(..20)? {
        return None;
    }
    let (major, rest) = rest.split_first_chunk()?;
    let (minor, rest) = rest.split_first_chunk()?;
    let features = rest.first_chunk()?;
    Some(ProgramNote {
        major: u32::from_le_bytes(*major),
        minor: u32::from_le_bytes(*minor),
        features: u32::from_le_bytes(*features),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_back() {
        let of = ProgramNote { major: 3, minor: 9, features: ON_YARN };
        assert_eq!(parse(&note(of)), Some(of));
        assert_eq!(parse(&note(of)[..31]), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn a_file_that_is_no_executable_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        std::fs::write(&path, "hello").unwrap();
        let refused = read(&path).unwrap_err();
        assert!(matches!(refused, NotAProgram::NotElf { .. }), "{refused}");
        assert!(refused.reason().starts_with("it is not a Flott program"), "{}", refused.reason());
        let absent = read(&dir.path().join("absent")).unwrap_err();
        assert!(matches!(absent, NotAProgram::Io { .. }), "{absent}");
        for error in [refused, absent] {
            assert!(error.to_string().contains("/"), "{error}");
            assert!(!error.reason().contains(&*dir.path().to_string_lossy()), "{}", error.reason());
        }
    }

    #[test]
    fn an_executable_of_somebody_else_is_refused() {
        let refused = read(Path::new("/bin/sh")).unwrap_err();
        assert!(matches!(refused, NotAProgram::NoNote { .. }), "{refused}");
    }

    #[test]
    fn a_marked_executable_is_a_program() {
        mark();
        assert_eq!(read(&std::env::current_exe().unwrap()).unwrap(), OURS);
    }

    #[test]
    fn another_architecture_is_told_from_the_header() {
        mark();
        let mut bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        // e_machine: AArch64 where this is x86-64, else x86-64.
        let other: u16 = if cfg!(target_arch = "x86_64") { 183 } else { 62 };
        bytes[18..20].copy_from_slice(&other.to_le_bytes());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("foreign");
        std::fs::write(&path, bytes).unwrap();
        let refused = read(&path).unwrap_err();
        assert!(matches!(refused, NotAProgram::OtherArchitecture { .. }), "{refused}");
    }
}
