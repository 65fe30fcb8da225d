//! Every option of Flott, declared once: key, type, default, documentation, other accepted names.
//!
//! ```
//! use conf::{Options, jobmanager};
//!
//! let options = Options::from_map([("jobmanager.rpc.port", "6123-6130")])?;
//! assert_eq!(options.get(&jobmanager::RPC_PORT).iter().count(), 8);
//! # Ok::<(), conf::ConfError>(())
//! ```
//!
//! [`Options`] is an immutable value: defaults < `flott.yaml` < `FLOTT_…` < `-D`/`-p`, merged by the
//! crate `config`. It is made once per process and handed to constructors. This crate must never
//! hold options in a global, and never read a file or a variable except in [`Options::load`] and
//! [`LoadSources::from_process`].

mod declare;
mod declared;
mod error;
mod layer;
pub mod memory;
mod options;
mod reference;
mod refused;
mod value;
mod yaml;

pub use declare::{Declaration, Family, Opt};
pub use declared::*;
pub use error::ConfError;
pub use layer::nearest;
pub use model::{parse_duration, show_duration};
pub use options::{LoadSources, Options};
pub use reference::reference;
pub use value::{List, LogFilter, OptionValue};
pub use yaml::to_yaml;
