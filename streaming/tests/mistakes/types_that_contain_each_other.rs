//! Two record types that contain each other, without `#[flott(recursive)]` at either.

use derive::FlottType;

#[derive(Clone, FlottType)]
#[flott(crate = streaming)]
struct Folder {
    entries: Vec<Entry>,
}

#[derive(Clone, FlottType)]
#[flott(crate = streaming)]
enum Entry {
    File(u64),
    Folder(Folder),
}

fn main() {}
