//! Fuzzes files that Hadoop writes: token storages, configuration, and the texts that name things.

use super::{Target, law};
use crate::{mutate::mutate, rng::Rng};
use hadoop::conf::{ConfError, Configuration, Includes};
use hadoop::tokens::{Credentials, Secret, Token, TokenProto};
use hadoop::yarn::messages::{ApplicationAttemptId, ApplicationId, ContainerId, NodeId};
use prost::Message;

pub(crate) const TARGETS: &[Target] = &[
    Target { name: "hadoop_tokens", make: tokens, check: check_tokens, memory_max: 0 },
    Target { name: "hadoop_xml", make: xml, check: check_xml, memory_max: 64 << 20 },
    Target { name: "hadoop_texts", make: texts, check: check_texts, memory_max: 0 },
];

/// Generates a file of delegation tokens in one of its two formats.
fn tokens(rng: &mut Rng) -> Vec<u8> {
    let mut credentials = Credentials::new();
    for i in 0..rng.below(4) {
        let kind = rng.text(&["YARN_AM_RM_TOKEN", "HDFS_DELEGATION_TOKEN", ""]);
        let service = rng.text(&["", "127.0.0.1:8020", "ha-hdfs:cluster", "a:1,b:2"]);
        let token = Token::new(rng.bytes(21), rng.bytes(20), kind, service);
        credentials.add(i.to_string(), token);
    }
    if rng.one_in(2) {
        let secret = Secret::new(rng.bytes(rng.clone().below(300)));
        credentials.add_secret("key", secret);
    }
    let mut bytes =
        if rng.one_in(2) { credentials.to_bytes() } else { credentials.to_proto_bytes() };
    mutate(&mut bytes, rng);
    bytes
}

fn check_tokens(input: &[u8]) -> Result<bool, String> {
    if let Ok(message) = TokenProto::decode(input) {
        let token = Token::from(message);
        law(TokenProto::from(&token).encode_to_vec().len() <= input.len() + 8, || {
            "a token grew".to_owned()
        })?;
    }
    let Ok(credentials) = Credentials::from_bytes(input) else { return Ok(false) };
    for again in [credentials.to_bytes(), credentials.to_proto_bytes()] {
        let read = Credentials::from_bytes(&again).map_err(|e| e.to_string())?;
        law(read == credentials, || format!("{credentials:?} became {read:?}"))?;
    }
    Ok(true)
}

const NAMES: &[&str] = &[
    "yarn.resourcemanager.hostname",
    "yarn.resourcemanager.address",
    "ipc.ping.interval",
    "fs.default.name",
    "dfs.nameservices",
    "anything",
    "ipc.client.ping",
];
const VALUES: &[&str] = &[
    "${yarn.resourcemanager.hostname}:8032",
    "${anything}${anything}",
    "${env.HOME-x}",
    "${env.NOTHING:-${anything}}",
    "60000ms",
    "128m",
    "true",
    "a, b,,c",
    " padded ",
    "",
    "${",
    "&lt;&amp;&#x1F600;",
    "<![CDATA[<x>]]>",
    "0x10",
];

fn property(rng: &mut Rng) -> String {
    let last = if rng.one_in(4) { "<final>true</final>" } else { "" };
    let (name, value) = (rng.text(NAMES), rng.text(VALUES));
    match rng.below(5) {
        0 => format!("<property name=\"{name}\" value=\"x\" final=\"true\"/>"),
        1 => format!("<property><name>{name}</name>{last}</property>"),
        _ => format!("<property><name>{name}</name><value>{value}</value>{last}</property>"),
    }
}

fn xml(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::from("<?xml version=\"1.0\"?>\n<configuration>\n");
    for _ in 0..rng.below(6) {
        text.push_str(&property(rng));
    }
    if rng.one_in(3) {
        let file = rng.text(&["self", "nothing", "other"]);
        let fallback = if rng.one_in(2) { "<xi:fallback><property/></xi:fallback>" } else { "" };
        text.push_str(&format!(
            "<xi:include xmlns:xi=\"http://www.w3.org/2001/XInclude\" href=\"{file}\">{fallback}</xi:include>"
        ));
    }
    text.push_str("</configuration>");
    let mut bytes = text.into_bytes();
    mutate(&mut bytes, rng);
    bytes
}

/// A folder of two files, one of which may include itself for ever.
struct Folder<'a>(&'a str);

impl Includes for Folder<'_> {
    fn open(&mut self, from: &str, href: &str) -> Result<(String, String), ConfError> {
        let text = match href {
            "self" => self.0,
            "other" => {
                "<configuration><property><name>o</name><value>${o}</value></property></configuration>"
            }
            _ => {
                let reason = "no such file".to_owned();
                return Err(ConfError::Xml { resource: from.to_owned(), reason });
            }
        };
        Ok((href.to_owned(), text.to_owned()))
    }
}

fn check_xml(input: &[u8]) -> Result<bool, String> {
    let text = &*String::from_utf8_lossy(input);
    let mut conf = Configuration::with_defaults();
    conf.set_environment("HOME", "/home/x");
    if conf.add_xml("self", text, &mut Folder(text)).is_err() {
        return Ok(false);
    }
    for name in conf.names() {
        let _ = (conf.get_trimmed(name), conf.get_bool(name), conf.get_i64(name));
        let _ = (conf.get_duration(name), conf.get_bytes(name), conf.get_list(name));
    }
    if let Ok(written) = conf.to_xml(false) {
        let mut again = Configuration::empty();
        again
            .add_xml("again", &written, &mut hadoop::conf::NoIncludes)
            .map_err(|e| format!("what was written is not read: {e}\n{written}"))?;
        for name in conf.names() {
            law(again.get_raw(name) == conf.get_raw(name), || {
                format!("{name}: {:?} became {:?}", conf.get_raw(name), again.get_raw(name))
            })?;
        }
    }
    let _ = conf.to_xml(true);
    Ok(true)
}

const TEXTS: &[&str] = &[
    "application_1570379089091_0019",
    "appattempt_1570379089091_0019_000001",
    "container_e01_1570379089091_0019_01_000002",
    "container_1570379089091_0019_01_000002",
    "host.example.org:45454",
    "[::1]:80",
];

fn texts(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = rng.text(TEXTS).as_bytes().to_vec();
    mutate(&mut bytes, rng);
    bytes
}

/// Checks that a text that can be read is written as a text that reads the same. Returns false if
/// it can't be read.
fn same<T: std::str::FromStr + ToString + PartialEq>(text: &str) -> Result<bool, String> {
    let Ok(id) = text.parse::<T>() else { return Ok(false) };
    let again = id.to_string().parse::<T>();
    law(again.is_ok_and(|again| again == id), || format!("{text} became {}", id.to_string()))?;
    Ok(true)
}

fn check_texts(input: &[u8]) -> Result<bool, String> {
    let text = &*String::from_utf8_lossy(input);
    let _ = hadoop::sasl::Qop::from_hadoop(text);
    let taken = [
        same::<ApplicationId>(text)?,
        same::<ApplicationAttemptId>(text)?,
        same::<ContainerId>(text)?,
        same::<NodeId>(text)?,
    ];
    Ok(taken.contains(&true))
}
