//! Logs of containers: files of both formats, and what nodes answer.

use super::{Target, law};
use crate::{mutate::mutate, rng::Rng};
use bytes::Bytes;
use hadoop::logs::{
    HttpResponse, LocalLogs, LogDecoder, LogEvent, LogFormat, LogStep, Selection, checksum,
    local_logs,
};

/// An index of blocks or logs is held whole, and a piece of what comes out of a compressed one.
const MEMORY: usize = 32 << 20;

pub(crate) const TARGETS: &[Target] = &[
    Target { name: "hadoop_tfile", make: tfile, check: check_tfile, memory_max: MEMORY },
    Target { name: "hadoop_ifile", make: ifile, check: check_ifile, memory_max: MEMORY },
    Target { name: "hadoop_node_logs", make: node, check: check_node, memory_max: 0 },
];

const TFILES: [&[u8]; 2] = [
    include_bytes!("../../../hadoop/src/logs/data/tfile_none"),
    include_bytes!("../../../hadoop/src/logs/data/tfile_gz"),
];
const IFILES: [&[u8]; 2] = [
    include_bytes!("../../../hadoop/src/logs/data/ifile_none"),
    include_bytes!("../../../hadoop/src/logs/data/ifile_gz"),
];
/// Largest output per input byte: a kilobyte compresses to a byte, and no byte is read twice.
const OUT_PER_BYTE: u64 = 1100;

fn broken(file: &[u8], keep: usize, rng: &mut Rng) -> Vec<u8> {
    // The end says where all is: mostly it stays as it is, or nothing is ever reached.
    let kept = if rng.one_in(4) { 0 } else { keep };
    let (head, tail) = file.split_at(file.len().saturating_sub(kept));
    let mut bytes = head.to_vec();
    if rng.one_in(3) {
        mutate(&mut bytes, rng);
    } else {
        // In place: what is behind stays where the file says that it is.
        for _ in 0..rng.below(4) {
            let at = rng.below(bytes.len());
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.next() as u8;
            }
        }
    }
    bytes.extend_from_slice(tail);
    bytes
}

fn tfile(rng: &mut Rng) -> Vec<u8> {
    let file = rng.pick(&TFILES).copied().unwrap_or_default();
    broken(file, 28, rng)
}

fn ifile(rng: &mut Rng) -> Vec<u8> {
    let file = rng.pick(&IFILES).copied().unwrap_or_default();
    broken(file, 36, rng)
}

fn check_tfile(input: &[u8]) -> Result<bool, String> {
    check(LogFormat::TFile, input)
}

fn check_ifile(input: &[u8]) -> Result<bool, String> {
    let _ = checksum(input);
    check(LogFormat::Indexed, input)
}

fn check(format: LogFormat, file: &[u8]) -> Result<bool, String> {
    let Ok(application) = "application_1570379089091_0019".parse() else {
        return Err("no application".to_owned());
    };
    let all = Selection::default();
    let mut decoder = LogDecoder::new(format, application, file.len() as u64, all);
    let (mut out, mut read, mut open) = (0_u64, 0_u64, None);
    loop {
        let Ok(step) = decoder.step() else { return Ok(false) };
        match step {
            LogStep::Read { offset, length } => {
                let range =
                    usize::try_from(offset).ok().and_then(|from| file.get(from..)?.get(..length));
                let range = range.ok_or(format!("reads {length} bytes at {offset}"))?;
                // The index once, and every other byte at most once.
                read += length as u64;
                law(read <= 3 * file.len() as u64, || format!("reads {read} bytes in all"))?;
                if decoder.give(Bytes::copy_from_slice(range)).is_err() {
                    return Ok(false);
                }
            }
            LogStep::Event(LogEvent::File(header)) => {
                law(open.is_none(), || "a log begins inside another".to_owned())?;
                open = Some(header.length);
            }
            LogStep::Event(LogEvent::Bytes(piece)) => {
                out += piece.len() as u64;
                law(out <= OUT_PER_BYTE * file.len() as u64, || format!("{out} bytes came out"))?;
                let left = open.as_mut().ok_or("bytes of no log")?;
                let rest = left.checked_sub(piece.len() as u64);
                *left = rest.ok_or("more bytes than its header says")?;
            }
            LogStep::Event(LogEvent::End { complete }) => {
                let left = open.take().ok_or("no log ends")?;
                law(complete == (left == 0), || format!("{left} missing, complete: {complete}"))?;
            }
            LogStep::End => return Ok(true),
        }
    }
}

const ANSWERS: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nContainer: container_1_0001_01_000002 on a:1\n\
     LogAggregationType: LOCAL\n====\nLogType:stdout\nLogLength:6\nLogContents:\nhello\nEnd of LogType:stdout.\n**\n",
    "HTTP/1.0 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
    "HTTP/1.1 200 OK\r\nContent-Length: 170\r\n\r\n<containerLogsInfoes><containerLogsInfo><containerLogInfo>\
     <fileName>a</fileName><fileSize>5</fileSize></containerLogInfo></containerLogsInfo></containerLogsInfoes>",
];

fn node(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = rng.text(ANSWERS).as_bytes().to_vec();
    mutate(&mut bytes, rng);
    bytes
}

/// The body and the events that come of an answer in such pieces.
fn heard(input: &[u8], piece: usize) -> Option<(Vec<u8>, Vec<u8>, bool)> {
    let (mut response, mut log) = (HttpResponse::default(), LocalLogs::default());
    let (mut body, mut content) = (Vec::new(), Vec::new());
    let mut is_log = true;
    for part in input.chunks(piece) {
        let part = response.give(Bytes::copy_from_slice(part)).ok()?;
        body.extend_from_slice(&part);
        log.give(part);
        while is_log {
            match log.poll() {
                Ok(Some(LogEvent::Bytes(piece))) => content.extend_from_slice(&piece),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => is_log = false,
            }
        }
    }
    response.finish().ok()?;
    is_log &= log.finish().is_ok();
    Some((body, if is_log { content } else { Vec::new() }, is_log))
}

fn check_node(input: &[u8]) -> Result<bool, String> {
    let (whole, pieces) = (heard(input, usize::MAX), heard(input, 7));
    law(whole == pieces, || format!("whole: {whole:?}\n  in pieces: {pieces:?}"))?;
    let Some((body, _, is_log)) = whole else { return Ok(false) };
    Ok(is_log || local_logs(&String::from_utf8_lossy(&body)).is_ok())
}
