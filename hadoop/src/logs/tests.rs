use super::cursor::Cursor;
use super::java::{Objects, Value};
use super::records::Records;
use super::*;
use crate::conf::{Configuration, NoIncludes};
use crate::yarn::messages::ApplicationId;
use proptest::prelude::*;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Written by Hadoop 3.4.2's own classes: two containers with `stdout` and an empty `stderr`, the second with a
/// third log of an unusual name.
const FILES: [(LogFormat, &[u8]); 4] = [
    (LogFormat::TFile, include_bytes!("data/tfile_none")),
    (LogFormat::TFile, include_bytes!("data/tfile_gz")),
    (LogFormat::Indexed, include_bytes!("data/ifile_none")),
    (LogFormat::Indexed, include_bytes!("data/ifile_gz")),
];
const FIRST: &str = "container_1570379089091_0019_01_000001";
const SECOND: &str = "container_e01_1570379089091_0019_01_000002";
const UNUSUAL: &str = "Ünï 𝄞.log";

fn application() -> ApplicationId {
    "application_1570379089091_0019".parse().unwrap()
}

/// A container, a name, the bytes, and whether that is all of them.
type Log = (String, String, Vec<u8>, bool);

fn decode(format: LogFormat, file: &[u8], selection: Selection) -> Result<Vec<Log>, LogError> {
    let mut decoder = LogDecoder::new(format, application(), file.len() as u64, selection);
    let mut logs: Vec<Log> = Vec::new();
    loop {
        match decoder.step()? {
            LogStep::Read { offset, length } => {
                let from = usize::try_from(offset).unwrap();
                let bytes = file.get(from..from + length).expect("a range of the file");
                decoder.give(Bytes::copy_from_slice(bytes))?;
            }
            LogStep::Event(LogEvent::File(header)) => {
                logs.push((header.container.to_string(), header.name, Vec::new(), false));
            }
            LogStep::Event(LogEvent::Bytes(piece)) => logs.last_mut().unwrap().2.extend(piece),
            LogStep::Event(LogEvent::End { complete }) => logs.last_mut().unwrap().3 = complete,
            LogStep::End => return Ok(logs),
        }
    }
}

fn expected() -> Vec<Log> {
    let stdout = |number: u32| -> Vec<u8> {
        (0..40).flat_map(|i| format!("line {i} of {number}\n").into_bytes()).collect()
    };
    let log = |container: &str, name: &str, bytes: &[u8]| {
        (container.to_owned(), name.to_owned(), bytes.to_vec(), true)
    };
    let mut all = vec![
        log(FIRST, "stderr", b""),
        log(FIRST, "stdout", &stdout(1)),
        log(SECOND, "stderr", b""),
        log(SECOND, "stdout", &stdout(2)),
        log(SECOND, UNUSUAL, b"\0\n"),
    ];
    all.sort();
    all
}

#[test]
fn files_of_hadoops_own_are_read_in_both_formats_compressed_or_not() {
    for (format, file) in FILES {
        let mut logs = decode(format, file, Selection::default()).unwrap();
        logs.sort();
        assert_eq!(logs, expected(), "{format:?}, {} bytes", file.len());
    }
}

#[test]
fn an_index_tells_when_a_log_was_written_to() {
    let (format, file) = FILES[3];
    let mut decoder =
        LogDecoder::new(format, application(), file.len() as u64, Selection::default());
    let header = loop {
        match decoder.step().unwrap() {
            LogStep::Read { offset, length } => {
                let from = usize::try_from(offset).unwrap();
                decoder.give(Bytes::copy_from_slice(&file[from..from + length])).unwrap();
            }
            LogStep::Event(LogEvent::File(header)) => break header,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(header.modified, Some(1_570_379_000_000));
}

#[test]
fn only_what_is_selected_comes() {
    let container = Some(SECOND.parse().unwrap());
    let file = Some("stdout".to_owned());
    for (format, bytes) in FILES {
        let count = |selection: Selection| decode(format, bytes, selection).unwrap().len();
        assert_eq!(count(Selection { container, file: None }), 3);
        assert_eq!(count(Selection { container: None, file: file.clone() }), 2);
        let logs = decode(format, bytes, Selection { container, file: file.clone() }).unwrap();
        assert_eq!(logs.len(), 1);
        assert_eq!((logs[0].0.as_str(), logs[0].1.as_str()), (SECOND, "stdout"));
    }
}

#[test]
fn a_file_that_is_cut_off_or_damaged_is_an_error_or_read_but_never_more() {
    for (format, file) in FILES {
        for length in 0..file.len() {
            let result = decode(format, &file[..length], Selection::default());
            assert!(result.is_err(), "{format:?}, {length} of {} bytes", file.len());
        }
        for at in 0..file.len() {
            for bit in [0, 7] {
                let mut damaged = file.to_vec();
                damaged[at] ^= 1 << bit;
                if let Ok(logs) = decode(format, &damaged, Selection::default()) {
                    assert!(logs.len() <= 5);
                }
            }
        }
    }
}

#[test]
fn an_indexed_file_of_another_application_is_refused() {
    let (format, file) = FILES[2];
    let other = ApplicationId { id: Some(20), ..application() };
    let mut decoder = LogDecoder::new(format, other, file.len() as u64, Selection::default());
    let LogStep::Read { offset, length } = decoder.step().unwrap() else { panic!() };
    let from = usize::try_from(offset).unwrap();
    let given = decoder.give(Bytes::copy_from_slice(&file[from..from + length]));
    assert!(matches!(given, Err(LogError::OtherApplication)));
}

/// Objects of one class inside each other, so many; each but the first names its class by reference.
fn nested(count: usize) -> Vec<u8> {
    let mut bytes = vec![0xac, 0xed, 0, 5, 0x73, 0x72];
    bytes.extend(utf("C"));
    bytes.extend([0; 8]);
    // Serialisable, with one field: an object.
    bytes.extend([2, 0, 1, b'L']);
    bytes.extend(utf("f"));
    bytes.push(0x74);
    bytes.extend(utf("LC;"));
    bytes.extend([0x78, 0x70]);
    (1..count).for_each(|_| bytes.extend([0x73, 0x71, 0, 0x7e, 0, 0]));
    bytes.push(0x70);
    bytes
}

/// An object whose class writes what it likes besides its fields.
fn writing(besides: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xac, 0xed, 0, 5, 0x73, 0x72];
    bytes.extend(utf("C"));
    bytes.extend([0; 8]);
    bytes.extend([3, 0, 0, 0x78, 0x70]);
    bytes.extend(besides);
    bytes.push(0x78);
    bytes
}

#[test]
fn javas_objects_take_no_more_memory_than_an_index_may() {
    let few = writing(&[0x70; 1000]);
    let (objects, root) = Objects::parse(&few).unwrap();
    assert_eq!(objects.extra(root).len(), 1000);
    // Nothing, classes, texts without characters, objects: the cheapest to write of each kind.
    let cheap: [&[u8]; 4] =
        [&[0x70], &[0x76, 0x70], &[0x74, 0, 0], &[0x73, 0x71, 0, 0x7e, 0, 0, 0x78]];
    for piece in cheap {
        let many = writing(&piece.repeat((8 << 20) / piece.len()));
        let refused = Objects::parse(&many).map(|_| ());
        assert!(matches!(refused, Err(LogError::TooLarge { .. })), "{piece:?}: {refused:?}");
    }
}

#[test]
fn javas_objects_are_read_no_deeper_than_logs_need() {
    let (objects, mut at) = Objects::parse(&nested(20)).unwrap();
    for _ in 0..20 {
        assert_eq!(objects.class(at), Some("C"));
        at = objects.field(at, "f").unwrap();
    }
    assert_eq!((at, objects.field(at, "f")), (Value::Null, None));
    for count in [100, 1_000_000] {
        assert!(Objects::parse(&nested(count)).is_err());
    }
    let short = nested(20);
    for length in 0..short.len() {
        assert!(Objects::parse(&short[..length]).is_err());
    }
}

#[test]
fn a_compression_of_others_is_named() {
    let (format, file) = FILES[0];
    // The index of blocks names the records' compression once more than the index of indices.
    let at = file.windows(5).position(|part| part == b"\x04none").unwrap();
    let mut changed = file.to_vec();
    changed[at + 1..at + 5].copy_from_slice(b"lzo4");
    let error = decode(format, &changed, Selection::default()).unwrap_err();
    assert!(matches!(&error, LogError::Compression(name) if name == "lzo4"), "{error}");
}

#[test]
fn a_file_that_is_added_to_says_how_much_is_whole() {
    let mut bytes = 5_i32.to_be_bytes().to_vec();
    bytes.extend(b"n_1_2");
    bytes.extend(77_i64.to_be_bytes());
    assert_eq!(checksum(&bytes).unwrap(), ("n_1_2".to_owned(), 77));
    for length in 0..bytes.len() {
        assert!(checksum(&bytes[..length]).is_err());
    }
}

/// Encodes a number as `org.apache.hadoop.io.file.tfile.Utils` documents it.
fn vlong(n: i64) -> Vec<u8> {
    let low = |count: usize| n.to_be_bytes()[8 - count..].to_vec();
    let with = |first: i64, count: usize| {
        [vec![u8::from_be_bytes(i8::try_from(first).unwrap().to_be_bytes())], low(count)].concat()
    };
    match n {
        -32..=127 => low(1),
        _ if (-(20 << 8)..20 << 8).contains(&n) => with((n >> 8) - 52, 1),
        _ if (-(16 << 16)..16 << 16).contains(&n) => with((n >> 16) - 88, 2),
        _ if (-(8 << 24)..8 << 24).contains(&n) => with((n >> 24) - 112, 3),
        _ => {
            let count = (4..8).find(|count| n == (n << (64 - 8 * count)) >> (64 - 8 * count));
            let count = count.unwrap_or(8);
            with(count - 129, usize::try_from(count).unwrap())
        }
    }
}

proptest! {
    #[test]
    fn numbers_are_read_as_they_are_written(n in any::<i64>(), shift in 0_u32..64) {
        for n in [n >> shift, -(n >> shift).saturating_abs()] {
            let written = vlong(n);
            let mut cursor = Cursor::new(&written);
            prop_assert_eq!(cursor.vlong().unwrap(), n);
            prop_assert_eq!(cursor.left(), 0);
        }
    }

    #[test]
    fn records_come_out_the_same_however_their_bytes_come(
        piece in 1_usize..40,
        chunk in 1_usize..40,
        content in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let bytes = record(FIRST, &value("stdout", content.len(), &content), chunk);
        let events = events_of(&bytes, piece).unwrap();
        let all: Vec<u8> = events.iter().flat_map(|event| match event {
            LogEvent::Bytes(piece) => piece.to_vec(),
            _ => Vec::new(),
        }).collect();
        prop_assert_eq!(all, content);
        prop_assert_eq!(events.last(), Some(&LogEvent::End { complete: true }));
    }
}

fn utf(text: &str) -> Vec<u8> {
    [&u16::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
}
fn value(name: &str, length: usize, content: &[u8]) -> Vec<u8> {
    [utf(name), utf(&length.to_string()), content.to_vec()].concat()
}
/// A record whose value is in chunks of this size.
fn record(key: &str, value: &[u8], chunk: usize) -> Vec<u8> {
    let key = utf(key);
    let mut bytes = vlong(key.len() as i64);
    bytes.extend(key);
    let mut rest = value;
    while rest.len() > chunk {
        bytes.extend(vlong(-(chunk as i64)));
        bytes.extend(&rest[..chunk]);
        rest = &rest[chunk..];
    }
    bytes.extend(vlong(rest.len() as i64));
    bytes.extend(rest);
    bytes
}
fn events_of(bytes: &[u8], piece: usize) -> Result<Vec<LogEvent>, LogError> {
    let mut records = Records::new(Selection::default());
    let mut events = Vec::new();
    for part in bytes.chunks(piece) {
        records.give(Bytes::copy_from_slice(part));
        while let Some(event) = records.next()? {
            events.push(event);
        }
    }
    while let Some(event) = records.next()? {
        events.push(event);
    }
    assert!(records.at_boundary());
    Ok(events)
}

#[test]
fn a_log_that_its_writer_could_not_finish_is_not_complete() {
    let bytes = record(FIRST, &value("stdout", 10, b"12345"), 1000);
    let events = events_of(&bytes, 1000).unwrap();
    assert!(matches!(events.last(), Some(LogEvent::End { complete: false })), "{events:?}");
    let bytes = record(FIRST, &utf("stdout"), 1000);
    assert!(events_of(&bytes, 1000).is_err());
    assert!(events_of(&record("nobody", b"", 1), 1000).is_err());
    assert_eq!(events_of(&record("VERSION", &[0, 0, 0, 1], 3), 2).unwrap(), []);
}

#[test]
fn logs_are_looked_for_where_hadoop_puts_them() {
    let mut conf = Configuration::with_defaults();
    let id = application();
    let directories = |conf: &Configuration| -> Vec<(LogFormat, String)> {
        let places = places(conf, "alice", id).unwrap();
        places.into_iter().map(|place| (place.format, place.directory)).collect()
    };
    let at = |format, path: &str| (format, path.to_owned());
    assert_eq!(
        directories(&conf),
        [
            at(
                LogFormat::TFile,
                "/tmp/logs/alice/bucket-logs-tfile/0019/application_1570379089091_0019"
            ),
            at(LogFormat::TFile, "/tmp/logs/alice/logs-tfile/application_1570379089091_0019"),
            at(
                LogFormat::Indexed,
                "/tmp/logs/alice/bucket-logs-ifile/0019/application_1570379089091_0019"
            ),
            at(LogFormat::Indexed, "/tmp/logs/alice/logs-ifile/application_1570379089091_0019"),
        ]
    );
    let xml = "<configuration>
        <property name='yarn.log-aggregation.file-formats' value='Mine'/>
        <property name='yarn.log-aggregation.file-controller.Mine.class'
            value='org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.LogAggregationIndexedFileController'/>
        <property name='yarn.log-aggregation.Mine.remote-app-log-dir' value='hdfs://a/x/'/>
        <property name='yarn.log-aggregation.Mine.remote-app-log-dir-suffix' value='s'/>
        <property name='yarn.nodemanager.remote-app-log-dir-include-older' value='false'/>
    </configuration>";
    conf.add_xml("test", xml, &mut NoIncludes).unwrap();
    let first =
        at(LogFormat::Indexed, "hdfs://a/x/alice/bucket-s/0019/application_1570379089091_0019");
    assert_eq!(directories(&conf)[0], first);
    assert_eq!(directories(&conf).len(), 3);

    assert_eq!(NodeFile::named("localhost_18110"), NodeFile::Logs);
    assert_eq!(NodeFile::named("localhost_18110_1570379089091"), NodeFile::Logs);
    assert_eq!(NodeFile::named("localhost_18110.tmp"), NodeFile::Partial);
    assert_eq!(NodeFile::named("localhost_18110-checksum"), NodeFile::Checksum);
    assert_eq!(NodeFile::named("application_1570379089091_0019.har"), NodeFile::Archive);
}

/// The answer of a NodeManager of Hadoop 3.4.2, shortened to the elements that are read.
const LIST: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?><containerLogsInfoes>\
    <containerLogsInfo><containerLogInfo><fileName>stderr</fileName><fileSize>5</fileSize>\
    <lastModifiedTime>Sat Nov 21 21:12:28 +0000 2026</lastModifiedTime></containerLogInfo>\
    <containerLogInfo><fileName>std out</fileName><fileSize>6</fileSize></containerLogInfo>\
    <logAggregationType>LOCAL</logAggregationType></containerLogsInfo>\
    <containerLogsInfo><containerLogInfo><fileName>old</fileName><fileSize>5</fileSize>\
    </containerLogInfo><logAggregationType>AGGREGATED</logAggregationType></containerLogsInfo>\
    </containerLogsInfoes>";
const LOG: &str = "Container: container_e01_1570379089091_0019_01_000002 on localhost:18110\n\
    LogAggregationType: LOCAL\n====\nLogType:std out\n\
    LogLastModifiedTime:Sat Nov 21 21:12:28 +0000 2026\nLogLength:6\nLogContents:\n\
    hello\nEnd of LogType:std out.This log file belongs to a running container (x).\n***\n\n";

#[test]
fn what_a_node_has_is_told_from_what_it_has_given_away() {
    let log = |name: &str, length| LocalLog { name: name.to_owned(), length };
    assert_eq!(local_logs(LIST).unwrap(), [log("stderr", 5), log("std out", 6)]);
    for wrong in ["", "<html/>", "<containerLogsInfoes><containerLogsInfo><containerLogInfo/>"] {
        assert!(local_logs(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_nodes_log_is_what_its_length_says_in_any_pieces() {
    for piece in 1..LOG.len() {
        let mut decoder = LocalLogs::default();
        let mut events = Vec::new();
        for part in LOG.as_bytes().chunks(piece) {
            decoder.give(Bytes::copy_from_slice(part));
            while let Some(event) = decoder.poll().unwrap() {
                events.push(event);
            }
        }
        assert_eq!(decoder.finish().unwrap(), None);
        let LogEvent::File(header) = &events[0] else { panic!("{events:?}") };
        assert_eq!((header.name.as_str(), header.length), ("std out", 6));
        assert_eq!(header.container.to_string(), SECOND);
        assert_eq!(events.last(), Some(&LogEvent::End { complete: true }));
        let pieces = &events[1..events.len() - 1];
        let all: Vec<u8> = pieces
            .iter()
            .flat_map(|event| match event {
                LogEvent::Bytes(piece) => piece.to_vec(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(all, b"hello\n");
    }
    let mut short = LocalLogs::default();
    short.give(Bytes::from(LOG.split("lo\n").next().unwrap()));
    assert!(matches!(short.poll().unwrap(), Some(LogEvent::File(_))));
    assert!(matches!(short.poll().unwrap(), Some(LogEvent::Bytes(_))));
    assert_eq!(short.finish().unwrap(), Some(LogEvent::End { complete: false }));
    assert!(LocalLogs::default().finish().is_err());
}

#[test]
fn an_answer_ends_where_it_says_and_is_taken_in_any_pieces() {
    let answer = "HTTP/1.1 200 OK\r\nX: y\r\nCONTENT-length: 5\r\n\r\nhelloand more";
    for piece in 1..answer.len() {
        let mut response = HttpResponse::default();
        let mut body = Vec::new();
        for part in answer.as_bytes().chunks(piece) {
            body.extend(response.give(Bytes::copy_from_slice(part)).unwrap());
        }
        assert_eq!((body.as_slice(), response.status()), (&b"hello"[..], Some(200)));
        assert!(response.is_over());
        response.finish().unwrap();
    }
    let given = |text: &'static str| {
        let mut response = HttpResponse::default();
        response.give(Bytes::from(text)).and_then(|_| response.finish())
    };
    given("HTTP/1.0 404 Not Found\r\n\r\nno").unwrap();
    for wrong in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 OK\r\n\r\n",
        "SSH-2.0\r\n\r\n",
    ] {
        assert!(given(wrong).is_err(), "{wrong}");
    }
}

/// A server that answers one question after the other, and what it was asked.
async fn answering(answers: Vec<String>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    #[expect(clippy::disallowed_methods, reason = "a server for this test alone")]
    let served = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                assert!(stream.read_buf(&mut request).await.unwrap() > 0);
            }
            asked.push(String::from_utf8(request).unwrap().lines().next().unwrap().to_owned());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        asked
    });
    (address, served)
}

#[tokio::test]
async fn a_node_is_asked_for_its_list_and_a_log_and_may_refuse() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: x\r\n\r\n";
    let answers = vec![
        format!("{head}{LIST}"),
        format!("{head}{LOG}"),
        "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone".to_owned(),
        String::new(),
    ];
    let (address, served) = answering(answers).await;
    let node = NodeLogs::new(&format!("http://{address}"), "a b", Duration::from_secs(20));
    let container = SECOND.parse().unwrap();
    assert_eq!(node.list(container).await.unwrap().len(), 2);
    let mut log = node.open(container, "std out").await.unwrap();
    let mut events = 0;
    while let Some(event) = log.next().await.unwrap() {
        events += 1;
        assert!(!matches!(event, LogEvent::End { complete: false }));
    }
    assert!(events >= 3);
    let refused = node.list(container).await.unwrap_err();
    assert!(matches!(&refused, LogError::Refused { status: 404, reason, .. } if reason == "none"));
    assert!(matches!(node.list(container).await.unwrap_err(), LogError::Answer(_)));
    let path = format!("/ws/v1/node/containers/{SECOND}/logs");
    assert_eq!(
        served.await.unwrap()[..2],
        [
            format!("GET {path}?user.name=a%20b HTTP/1.0"),
            format!("GET {path}/std%20out?user.name=a%20b HTTP/1.0")
        ]
    );
    assert!(matches!(node.list(container).await.unwrap_err(), LogError::Node { .. }));
}

struct Slice(&'static [u8]);

impl ReadRange for Slice {
    async fn read_range(&mut self, offset: u64, length: usize) -> std::io::Result<Bytes> {
        let from = usize::try_from(offset).unwrap().min(self.0.len());
        let to = (from + length).min(self.0.len());
        Ok(Bytes::from_static(&self.0[from..to]))
    }
}

#[tokio::test]
async fn a_reader_gives_events_and_notices_a_file_that_became_shorter() {
    let (format, file) = FILES[1];
    let new = |length: u64| LogDecoder::new(format, application(), length, Selection::default());
    let mut reader = LogReader::new(Slice(file), new(file.len() as u64));
    let mut ends = 0;
    while let Some(event) = reader.next().await.unwrap() {
        ends += usize::from(event == LogEvent::End { complete: true });
    }
    assert_eq!(ends, 5);
    let mut reader = LogReader::new(Slice(file), new(file.len() as u64 + 10));
    assert!(matches!(reader.next().await, Err(LogError::Read(_))));
}
