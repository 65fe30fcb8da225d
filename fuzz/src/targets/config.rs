//! Configuration: the text of `flott.yaml`, `-D` settings, environment variables, memory models.

use super::{Target, law};
use crate::{mutate::mutate, rng::Rng};
use conf::{LoadSources, Options, memory};
use std::{fmt::Write as _, num::NonZeroU32};

pub(crate) const TARGETS: &[Target] = &[
    Target { name: "config_yaml", make: yaml, check: check_yaml, memory_max: 64 << 20 },
    Target { name: "config_settings", make: settings, check: check_settings, memory_max: 8 << 20 },
];

const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "6123",
    "50100-50200,0",
    "1728m",
    "10g",
    "9223372036854775807t",
    "0.4",
    "nan",
    "10 s",
    "500 ms",
    "18446744073709551615 d",
    "auto",
    "true",
    "none",
    "filesystem",
    "fixed-delay",
    "a, b;c",
    "[\"a\", \"b\"]",
    "localhost",
    "/tmp",
    "\u{202e}",
    "x: y",
    "# no",
];

fn key(rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => "program.anything[3].x".to_owned(),
        1 => "external-resource.gpu.amount".to_owned(),
        2 => "env.java.opts.all".to_owned(),
        3 => "taskmanager.numberOfTaskSlot".to_owned(),
        _ => {
            let count = conf::declarations().count();
            let chosen = conf::declarations().nth(rng.below(count));
            let name = chosen.and_then(|d| match d.other_names() {
                [] => Some(d.key()),
                others if rng.one_in(4) => others.first().copied(),
                _ => Some(d.key()),
            });
            name.unwrap_or_default().to_owned()
        }
    }
}

fn value(rng: &mut Rng, key: &str) -> String {
    let default = conf::declarations().find(|d| d.key() == key).and_then(|d| d.default_text());
    match default {
        Some(text) if rng.one_in(2) => text,
        _ => rng.text(VALUES).to_owned(),
    }
}

fn yaml(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..rng.below(12) {
        let key = key(rng);
        let value = value(rng, &key);
        let quoted = if rng.one_in(3) { format!("{value:?}") } else { value };
        match key.split_once('.').filter(|_| rng.one_in(3)) {
            Some((first, rest)) => {
                let _ = writeln!(text, "{first}:\n  {rest}: {quoted}");
            }
            None => {
                let _ = writeln!(text, "{key}: {quoted}");
            }
        }
    }
    let mut bytes = text.into_bytes();
    mutate(&mut bytes, rng);
    bytes
}

fn check_yaml(input: &[u8]) -> Result<bool, String> {
    // A file that is no UTF-8 is refused when it is read.
    let text = String::from_utf8_lossy(input);
    match Options::from_yaml("flott.yaml", &text) {
        Ok(options) => check_options(&options).map(|()| true),
        Err(error) => {
            let shown = error.to_string();
            law(!shown.is_empty() && shown.len() < 4096, || {
                format!("a message of {} bytes", shown.len())
            })?;
            Ok(false)
        }
    }
}

/// Lines of `place key=value`.
fn settings(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..rng.below(6) {
        let key = key(rng);
        let value = value(rng, &key);
        let _ = match rng.one_in(3) {
            true => {
                writeln!(text, "e FLOTT_{}={value}", key.to_uppercase().replace(['.', '-'], "_"))
            }
            false => writeln!(text, "d {key}={value}"),
        };
    }
    let mut bytes = text.into_bytes();
    mutate(&mut bytes, rng);
    bytes
}

fn check_settings(input: &[u8]) -> Result<bool, String> {
    let text = String::from_utf8_lossy(input);
    let mut sources = LoadSources::default();
    for line in text.lines() {
        let Some((key, value)) = line.get(2..).and_then(|pair| pair.split_once('=')) else {
            continue;
        };
        let (key, value) = (key.to_owned(), value.to_owned());
        match line.starts_with('e') {
            // A directory named here would be read.
            true if key == "FLOTT_CONF_DIR" => {}
            true => drop(sources.env.insert(key, value)),
            false => sources.overrides.push((key, value)),
        }
    }
    match Options::load(&sources) {
        Ok(options) => check_options(&options).map(|()| true),
        Err(_) => Ok(false),
    }
}

/// Checks the laws of options that were accepted.
fn check_options(options: &Options) -> Result<(), String> {
    let again =
        Options::from_map(options.to_map()).map_err(|e| format!("not accepted again: {e}"))?;
    law(again.to_map() == options.to_map(), || "another map after a round trip".to_owned())?;
    law(options.to_masked_map().len() == again.to_map().len(), || {
        "masking lost an option".to_owned()
    })?;
    let machine = memory::Machine { cores: NonZeroU32::MIN, memory_limit: None };
    if let Ok(parts) = memory::task_manager_memory(options, None) {
        let sum = parts.framework + parts.task + parts.network + parts.managed + parts.overhead;
        law(sum == parts.total(), || format!("parts do not add up: {parts}"))?;
        let spec = memory::worker_resource_spec(options, &machine).map_err(|e| e.to_string())?;
        law(spec.slots > 0, || "a worker without slots".to_owned())?;
    }
    let _ = memory::job_manager_memory(options, None);
    Ok(())
}
