//! The note itself, in a module of its own: it is in a binary exactly if that binary calls [`mark`].

use super::{NOTE_BYTES, OURS, note};

// SAFETY: the section holds plain bytes that nothing but readers of the file looks at; no other item of this
// workspace is placed there.
#[expect(unsafe_code, reason = "placing a static in a named section is an unsafe attribute")]
#[unsafe(link_section = ".flott.note")]
static NOTE: [u8; NOTE_BYTES] = note(OURS);

/// Marks the executable that calls this as a program.
pub fn mark() {
    // The optimiser must not see through the reference, or the note would go.
    std::hint::black_box(&NOTE);
}
