//! Version and commit of this build.

/// Version of this runtime.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit it was built from.
pub(crate) const COMMIT: &str = env!("FLOTT_COMMIT");

/// Version and commit, as `0.1.0 (commit)`.
pub(crate) const LONG: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("FLOTT_COMMIT"), ")");
