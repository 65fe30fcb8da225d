//! The note itself. It is in a module of its own so that it is linked into exactly those binaries that call [`mark`].

use super::{NOTE_BYTES, OURS, note};

// SAFETY: the section holds plain bytes, which only readers of the file use; no other item of this workspace is placed there.
#[expect(unsafe_code, reason = "placing a static in a named section is an unsafe attribute")]
#[unsafe(link_section = ".flott.note")]
static NOTE: [u8; NOTE_BYTES] = note(OURS);

/// Marks the executable that contains this call as a Flott program, by linking the note into it (`ProgramNote`: protocol version and
/// features, which a cluster reads from the file). Does nothing at run time.
pub fn mark() {
    // Keeps the optimiser from removing the note.
    std::hint::black_box(&NOTE);
}
