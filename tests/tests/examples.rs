//! The example programs over two TaskManagers: what they print and write is what they print in one process.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::visits::{committed, write_visits};
use common::{Cluster, bin, output_lines, repository_text, sorted_lines};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Numbers that look like chance and are the same in every run.
fn number(i: u64, below: u64) -> u64 {
    let mixed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) % below
}

/// Writes a file of so many lines.
fn input(folder: &Path, name: &str, lines: u64, line: impl Fn(u64) -> String) -> PathBuf {
    let path = folder.join(name);
    let text = (0..lines).fold(String::new(), |mut text, i| {
        writeln!(text, "{}", line(i)).unwrap();
        text
    });
    fs::write(&path, text).unwrap();
    path
}

/// The arguments of each example; `{out}` stands for a file or folder that it writes. The name of a program's job follows a space.
fn examples(folder: &Path) -> BTreeMap<&'static str, Vec<String>> {
    let text = repository_text();
    let payments = input(folder, "payments", 5_000, |i| {
        let cents = if number(i, 3) == 0 { 50 } else { 60_000 };
        format!("{} account{} {cents}", i * 700, number(i, 40))
    });
    let clicks = input(folder, "clicks", 5_000, |i| {
        format!("{} user{} /{}", i * 100, number(i, 60), number(i, 9))
    });
    // The last hundreds are hours late. A watermark waits for a full buffer or for its timeout: clicks that are late by less than some
    // buffers' records are late in one run and in time in the next.
    let late = input(folder, "late", 60_000, |i| {
        format!("{} user{}", i.checked_sub(59_800).unwrap_or(i) * 1_000, number(i, 60))
    });
    let words = input(folder, "words", 5_000, |i| {
        format!("{} word{} word{}", i * 100, number(i, 30), number(i + 7, 30))
    });
    let readings =
        input(folder, "readings", 5_000, |i| format!("{} s{} {}", i * 10, i % 50, number(i, 100)));
    let limits =
        input(folder, "limits", 200, |i| format!("{} s{} {}", i * 250, i % 50, number(i, 100)));
    // Three logs, each some hours behind the one before.
    let logs = folder.join("logs");
    fs::create_dir(&logs).unwrap();
    for sensor in 0..3 {
        let begins = (2 - sensor) * 10_000_000;
        let reading = |i| format!("{} {}", begins + i * 2_000, number(i, 100));
        input(&logs, &format!("s{sensor}.log"), 5_000, reading);
    }
    // The lengths of the lines that begin with the same character differ, so that one of these lines is the longest.
    let lines = input(folder, "lines", 20 * 251, |i| {
        let first = char::from_u32(0x430 + u32::try_from(i % 20).unwrap()).unwrap();
        format!("{first}{}", "x".repeat((i / 20 * 7_919 % 251) as usize))
    });
    let path = |path: PathBuf| path.to_str().unwrap().to_owned();
    let of = |args: &[(&str, String)]| {
        args.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]).collect()
    };
    BTreeMap::from([
        ("word_count", of(&[("input", path(text.clone())), ("parallelism", "2".into())])),
        ("sequence_sum", of(&[("count", "100000".into()), ("keys", "17".into())])),
        ("fraud_detection", of(&[("input", path(payments))])),
        ("clicks_sessions", of(&[("input", path(clicks)), ("gap", "20000".into())])),
        ("late_clicks", of(&[("input", path(late)), ("late", "{out}".into())])),
        ("top_words", of(&[("input", path(words)), ("most", "3".into())])),
        ("sensor_logs", of(&[("input", path(logs))])),
        ("broadcast_rules", of(&[("readings", path(readings)), ("limits", path(limits))])),
        ("line_lengths lengths", of(&[("input", path(lines.clone()))])),
        ("line_lengths longest", of(&[("input", path(lines))])),
        ("visits", of(&[("input", path(folder.join("visits"))), ("output", "{out}".into())])),
        // As fast as possible, and with an end.
        (
            "ticker",
            of(&[
                ("count", "50000".into()),
                ("rate", "1000000000".into()),
                ("shares", "40".into()),
            ]),
        ),
    ])
}

/// Keeps the last price of each share: which ones the ticker prints before depends on the order in which the trades of its two sources
/// arrive.
fn last_prices(printed: &[String]) -> Vec<String> {
    let mut prices: BTreeMap<&str, u64> = BTreeMap::new();
    for line in printed {
        let (share, cents) = line.split_once('\t').unwrap();
        let price = prices.entry(share).or_default();
        *price = cents.parse::<u64>().unwrap().max(*price);
    }
    prices.iter().map(|(share, cents)| format!("{share}\t{cents}")).collect()
}

/// The printed lines, and the written lines.
type Results = (Vec<String>, Vec<String>);

/// Fails with the first lines that differ; all of them would be megabytes.
fn assert_same(name: &str, results: &Results, expected: &Results) {
    for (results, expected) in [(&results.0, &expected.0), (&results.1, &expected.1)] {
        let differs = results.iter().zip(expected).find(|(line, wanted)| line != wanted);
        assert_eq!(differs, None, "{name}");
        assert_eq!(results.len(), expected.len(), "{name}");
    }
}

#[test]
fn examples_give_the_same_over_two_taskmanagers_as_in_one_process() {
    let cluster = Cluster::start(&[("taskmanager.numberOfTaskSlots", "1")], 2);
    let folder = cluster.folder.path().to_owned();
    let visits = write_visits(&folder.join("visits"), &mut ChaCha8Rng::seed_from_u64(1));
    for (name, args) in examples(&folder) {
        let (program, job) = match name.split_once(' ') {
            Some((program, job)) => (program, Some(job)),
            None => (name, None),
        };
        let results = |how: &str, command: &dyn Fn(&[&str]) -> std::process::Output| -> Results {
            let out = folder.join(format!("{name}-{how}"));
            let args: Vec<String> =
                args.iter().map(|arg| arg.replace("{out}", out.to_str().unwrap())).collect();
            let ran = command(&args.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(ran.status.success(), "{name} {how}: {}", String::from_utf8_lossy(&ran.stderr));
            let written = match out.is_dir() {
                true => committed(&out),
                false if out.exists() => output_lines(&out),
                false => Vec::new(),
            };
            let printed = sorted_lines(&ran.stdout);
            let printed = if name == "ticker" { last_prices(&printed) } else { printed };
            (printed, written)
        };
        let embedded = |serialized: &str, args: &[&str]| {
            let mut command = Command::new(bin(program));
            command.args(args).env_remove("FLOTT_CONF_DIR");
            command.envs(job.map(|job| ("FLOTT_PIPELINE_ENTRY", job)));
            command.env("FLOTT_EXCHANGE_FORCE_SERIALIZATION", serialized);
            command.env("FLOTT_PARALLELISM_DEFAULT", "2").output().unwrap()
        };
        let expected = results("embedded", &|args| embedded("false", args));
        match name {
            "visits" => assert_same(name, &expected, &(Vec::new(), visits.clone())),
            _ => assert!(expected.0.len() > 10, "{name}: {} lines", expected.0.len()),
        }
        let written = match name {
            "visits" => visits.len(),
            "late_clicks" => 200,
            _ => 0,
        };
        assert_eq!(expected.1.len(), written, "{name}");
        let serialized = results("serialized", &|args| embedded("true", args));
        assert_same(name, &serialized, &expected);
        let distributed = results("distributed", &|args| {
            let program = bin(program);
            let mut run = vec!["run", "-p", "2"];
            run.extend(job.into_iter().flat_map(|job| ["--job", job]));
            cluster.flott(&run, &[&[program.to_str().unwrap()], args].concat())
        });
        assert_same(name, &distributed, &expected);
        if name == "fraud_detection" {
            assert_eq!(alerts_shown(&cluster), expected.0.len() as f64);
        }
    }
}

/// Returns the counter `alerts` of the job that has ended last, over all subtasks, as REST shows
/// it.
fn alerts_shown(cluster: &Cluster) -> f64 {
    let jobs = cluster.block_on(cluster.client().jobs_overview()).unwrap().jobs;
    let job = jobs.iter().max_by_key(|job| job.start_time).unwrap();
    let vertices = cluster.block_on(cluster.client().job(&job.jid)).unwrap().vertices;
    let shown = vertices.iter().flat_map(|vertex| {
        let path = format!("jobs/{}/vertices/{}/subtasks/metrics", job.jid, vertex.id);
        let curl = move |query: &str| -> Value {
            let url = format!("http://127.0.0.1:{}/{path}{query}", cluster.rest_port);
            let out = Command::new("curl").args(["-sS", &url]).output().unwrap();
            serde_json::from_slice(&out.stdout).unwrap()
        };
        let names = curl("").as_array().unwrap().clone();
        let alerts =
            names.iter().filter_map(|name| name.get("id")?.as_str()?.strip_suffix(".alerts"));
        let alerts: Vec<String> = alerts.map(str::to_owned).collect();
        alerts.into_iter().map(move |operator| {
            let asked = operator.replace(' ', "%20");
            let shown = curl(&format!("?get={asked}.alerts&agg=sum"));
            shown.pointer("/0/sum").and_then(Value::as_f64).unwrap_or_else(|| panic!("{shown}"))
        })
    });
    shown.sum()
}
