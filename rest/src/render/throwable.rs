//! Failures as Flink's clients read them: beside class and text, a Java object stream with a `SerializedThrowable`.
//!
//! The stream is the fixture that Flink 2.1 has written, with other texts in it: class descriptions and handles do not depend on
//! them. This module must never write another class.

use crate::decode::to_base64;
use crate::messages::FailureBody;
use model::FailureCause;

/// An `org.apache.flink.util.SerializedThrowable` without a serialised exception, which then stands for itself; its texts are the
/// placeholders below.
const STREAM: &[u8] = include_bytes!("../../fixtures/serialized-throwable.bin");
/// The placeholders of message, stack trace and class, in the order of the stream.
const MESSAGE: &[u8] = b"java.lang.Exception: MESSAGE";
const TRACE: &[u8] = b"TRACE";
const CLASS: &[u8] = b"CLASS";
/// `TC_STRING` and `TC_LONGSTRING` of Java's serialisation protocol.
const STRING: u8 = 0x74;
const LONG_STRING: u8 = 0x7c;

/// Returns the failure's body.
pub(super) fn failure(cause: &FailureCause) -> FailureBody {
    let text = format!("{}: {}", cause.kind, cause.message);
    FailureBody {
        class: cause.kind.clone(),
        stack_trace: cause.message.clone(),
        serialized_throwable: to_base64(&serialized(&cause.kind, &text)),
    }
}

/// Returns the object stream of a throwable of this class whose message and stack trace are `text`.
fn serialized(class: &str, text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(STREAM.len() + 2 * text.len() + class.len());
    let mut rest = STREAM;
    for (placeholder, value) in [(MESSAGE, text), (TRACE, text), (CLASS, class)] {
        let mut wanted = Vec::new();
        write_string(placeholder.len(), placeholder, &mut wanted);
        let Some(at) = rest.windows(wanted.len()).position(|bytes| bytes == wanted) else { break };
        let (before, behind) = rest.split_at(at);
        out.extend_from_slice(before);
        let value = modified_utf8(value);
        write_string(value.len(), &value, &mut out);
        rest = behind.get(wanted.len()..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

fn write_string(length: usize, bytes: &[u8], out: &mut Vec<u8>) {
    match u16::try_from(length) {
        Ok(length) => {
            out.push(STRING);
            out.extend_from_slice(&length.to_be_bytes());
        }
        Err(_) => {
            out.push(LONG_STRING);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(bytes);
}

/// Encodes a text as Java's `writeUTF` does: UTF-16 units as UTF-8, and NUL in two bytes.
fn modified_utf8(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for unit in text.encode_utf16() {
        let [high, low] = unit.to_be_bytes();
        match unit {
            0x01..=0x7f => out.push(low),
            0 | 0x80..=0x7ff => out.extend([0xc0 | high << 2 | low >> 6, 0x80 | low & 0x3f]),
            _ => out.extend([
                0xe0 | high >> 4,
                0x80 | high << 2 & 0x3c | low >> 6,
                0x80 | low & 0x3f,
            ]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_the_texts_of_the_fixture_the_stream_is_the_fixture() {
        let own = serialized("CLASS", "java.lang.Exception: MESSAGE");
        // The trace is the message here.
        assert_eq!(own.len(), STREAM.len() + MESSAGE.len() - TRACE.len());
        let at = STREAM.windows(TRACE.len()).position(|bytes| bytes == TRACE).unwrap() - 3;
        assert_eq!(own[..at], STREAM[..at]);
        assert!(own.ends_with(b"t\0\x05CLASSp"));
    }

    #[test]
    fn texts_of_any_length_and_letter_are_written_as_java_reads_them() {
        assert_eq!(
            modified_utf8("a\0é€😀"),
            b"a\xc0\x80\xc3\xa9\xe2\x82\xac\xed\xa0\xbd\xed\xb8\x80"
        );
        let long = "x".repeat(70_000);
        let own = serialized("C", &long);
        let head = [&[LONG_STRING][..], &70_000_u64.to_be_bytes()].concat();
        assert_eq!(own.windows(head.len()).filter(|bytes| *bytes == head).count(), 2);
    }
}
