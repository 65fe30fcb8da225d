//! How one number becomes the parts of a process' memory.
//!
//! Pure arithmetic: parts always add up to the total, or there is an error that names the options.
