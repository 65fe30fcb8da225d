//! Uploaded programs: an ELF file that anybody may have made is looked at, never executed.

use super::{Target, scratch};
use crate::{mutate::mutate, rng::Rng};
use std::fs;

pub(crate) const TARGETS: &[Target] =
    &[Target { name: "program_file", make, check, memory_max: 0 }];

const SECTION: &[u8] = b".flott.note\0";
const NAMES: &[u8] = b"\0.flott.note\0.shstrtab\0";
const HEADER_BYTES: u64 = 64;

/// A small ELF file with two sections: the note, and the sections' names.
fn make(rng: &mut Rng) -> Vec<u8> {
    let minor = if rng.one_in(4) { rng.next() as u32 } else { 0 };
    let mut note = Vec::new();
    for word in [6_u32, 12, 1] {
        note.extend(word.to_le_bytes());
    }
    note.extend(b"FLOTT\0\0\0");
    note.extend(streaming::program_note::OURS.major.to_le_bytes());
    note.extend(minor.to_le_bytes());
    note.extend((rng.next() as u32).to_le_bytes());
    let names_at = HEADER_BYTES + note.len() as u64;
    let table_at = names_at + NAMES.len() as u64;

    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend(2_u16.to_le_bytes());
    file.extend(if cfg!(target_arch = "x86_64") { 62_u16 } else { 183 }.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    for word in [0, 0, table_at] {
        file.extend(u64::to_le_bytes(word));
    }
    file.extend(0_u32.to_le_bytes());
    // Sizes of header, program header, their count, section header, their count, which has the names.
    for half in [64_u16, 56, 0, 64, 3, 2] {
        file.extend(half.to_le_bytes());
    }
    file.extend(&note);
    file.extend(NAMES);
    let after_note = 1 + SECTION.len() as u32;
    section(&mut file, [0, 0], [0, 0]);
    section(&mut file, [1, 1], [HEADER_BYTES, note.len() as u64]);
    section(&mut file, [after_note, 3], [names_at, NAMES.len() as u64]);
    mutate(&mut file, rng);
    file
}

/// A section's header: name and kind, place and size.
fn section(file: &mut Vec<u8>, [name, kind]: [u32; 2], [at, size]: [u64; 2]) {
    file.extend(name.to_le_bytes());
    file.extend(kind.to_le_bytes());
    for word in [0, 0, at, size] {
        file.extend(u64::to_le_bytes(word));
    }
    file.extend([0; 8]);
    for word in [1, 0] {
        file.extend(u64::to_le_bytes(word));
    }
}

fn check(input: &[u8]) -> Result<bool, String> {
    scratch::with(|folder| {
        let path = folder.join("program");
        fs::write(&path, input).map_err(|e| e.to_string())?;
        Ok(streaming::program_note::read(&path).is_ok())
    })
}
