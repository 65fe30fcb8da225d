//! Derived record types: codec, schema and hash.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "functions of tests")]

use derive::FlottType;
use std::{collections::HashSet, fmt::Debug};
use streaming::types::{
    FlottType, Key, Reader, Serde, decode_one, encode_one, fingerprint, key_hash,
};

#[derive(Debug, Clone, PartialEq, FlottType)]
#[flott(crate = streaming)]
struct Order {
    id: u64,
    items: Vec<Item>,
    note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, FlottType)]
#[flott(crate = streaming)]
struct Item(String, u32);

#[derive(Debug, Clone, PartialEq, FlottType)]
#[flott(crate = streaming)]
struct Marker;

#[derive(Debug, Clone, PartialEq, FlottType)]
#[flott(crate = streaming)]
enum Event<T> {
    Opened { by: String },
    Changed(T, Marker),
    Closed,
}

#[derive(Debug, Clone, PartialEq, FlottType)]
#[flott(crate = streaming)]
struct Sample {
    weights: Vec<f64>,
    rows: Vec<Vec<u32>>,
}

fn round_trip<T: FlottType + PartialEq + Debug>(value: &T) {
    let bytes = encode_one(value);
    assert!(!bytes.is_empty(), "every value takes at least one byte");
    assert_eq!(&decode_one::<T>(&bytes).unwrap(), value);
    for end in 0..bytes.len() {
        assert!(decode_one::<T>(&bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
    }
    let mut columns = Vec::new();
    T::encode_column([value, value].into_iter(), &mut columns);
    let back = T::decode_column(2, &mut Reader::new(&columns)).unwrap();
    assert_eq!(back.iter().collect::<Vec<_>>(), [value, value]);
    for end in 0..columns.len() {
        assert!(T::decode_column(2, &mut Reader::new(&columns[..end])).is_err(), "{end}");
    }
}

#[test]
fn derived_values_decode_to_what_was_encoded() {
    let items = vec![Item("tea".into(), 2), Item(String::new(), 0)];
    round_trip(&Order { id: 7, items, note: None });
    round_trip(&Marker);
    round_trip(&Event::<u64>::Opened { by: "ann".into() });
    round_trip(&Event::Changed(9_i32, Marker));
    round_trip(&Event::<u64>::Closed);
    round_trip(&Sample { weights: vec![0.5, 2.0], rows: vec![vec![1], vec![]] });
}

#[test]
fn lists_of_numbers_of_all_records_share_a_column() {
    let sample = |weights: &[f64]| Sample { weights: weights.to_vec(), rows: Vec::new() };
    let bytes = column(&[sample(&[0.5]), sample(&[]), sample(&[2.0, 4.0])]);
    // The lengths as numbers, the three numbers, and the lists that are empty.
    let lengths = [&[1][..], &0_u64.to_le_bytes(), &[1, 0, 2]].concat();
    let numbers = [0.5_f64, 2.0, 4.0].map(f64::to_le_bytes).concat();
    assert_eq!(bytes, [lengths, numbers, vec![0; 3]].concat());
}

fn column<T: FlottType>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    T::encode_column(values.iter(), &mut bytes);
    bytes
}

#[derive(Debug, Clone, Copy, PartialEq, FlottType)]
#[flott(crate = streaming)]
enum Colour {
    Red,
    Green,
    Blue,
}

#[derive(Debug, Clone, PartialEq, FlottType)]
#[flott(crate = streaming)]
enum Wide {
    Many(u8, u8, u8, u8, u8),
    More { a: u8, b: u8, c: u8, d: u8 },
}

#[test]
fn the_columns_of_an_enum_keep_the_order_of_its_values() {
    let events: Vec<Event<Option<u64>>> = (0..300)
        .map(|n| match n % 4 {
            0 => Event::Opened { by: format!("user {n}") },
            1 => Event::Changed(Some(n), Marker),
            2 => Event::Changed(None, Marker),
            _ => Event::Closed,
        })
        .collect();
    let bytes = column(&events);
    let back = Event::<Option<u64>>::decode_column(300, &mut Reader::new(&bytes)).unwrap();
    assert_eq!(back, events);
    for end in [0, 8, 9, 308, bytes.len() - 1] {
        let cut = Event::<Option<u64>>::decode_column(300, &mut Reader::new(&bytes[..end]));
        assert!(cut.is_err(), "{end}");
    }
    let none: Vec<Event<u64>> = Vec::new();
    assert_eq!(Event::decode_column(0, &mut Reader::new(&column(&none))).unwrap(), none);
}

#[test]
fn an_enum_without_fields_takes_one_byte_per_record() {
    let colours = [Colour::Red, Colour::Blue, Colour::Green].repeat(100);
    let mut bytes = column(&colours);
    assert_eq!(bytes.len(), 309);
    assert_eq!(Colour::decode_column(300, &mut Reader::new(&bytes)).unwrap(), colours);
    *bytes.last_mut().unwrap() = 3;
    assert!(Colour::decode_column(300, &mut Reader::new(&bytes)).is_err(), "no such colour");
}

#[test]
fn enums_of_many_fields_and_of_none_come_back_from_their_columns() {
    round_trip(&Wide::Many(1, 2, 3, 4, 5));
    round_trip(&Wide::More { a: 1, b: 2, c: 3, d: 4 });
    for colour in [Colour::Red, Colour::Green, Colour::Blue] {
        round_trip(&colour);
    }
}

#[test]
fn an_unknown_variant_is_an_error() {
    assert!(decode_one::<Event<u64>>(&[3]).is_err());
    assert!(decode_one::<Event<u64>>(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 9]).is_err());
}

#[test]
fn names_and_fingerprints_tell_types_apart() {
    assert_eq!(Order::type_name(), "Order");
    assert_eq!(Event::<u64>::type_name(), "Event<u64>");
    assert_ne!(fingerprint::<Event<u64>>(), fingerprint::<Event<i64>>());
    assert_ne!(fingerprint::<Order>(), fingerprint::<Item>());
}

fn is_key<K: Key>() {}

#[derive(Debug, Clone, PartialEq, Eq, FlottType)]
#[flott(crate = streaming)]
struct Place<T> {
    names: Vec<String>,
    at: Option<(T, T)>,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq, FlottType)]
#[flott(crate = streaming)]
enum Kind {
    Town { people: u64 },
    Square,
}

#[derive(Debug, Clone, PartialEq, FlottType)]
#[flott(crate = streaming)]
struct Point(f64, f64);

impl Eq for Point {}

/// A record may hold what a key may not.
#[derive(Debug, Clone, PartialEq, Eq, FlottType)]
#[flott(crate = streaming)]
struct Tagged {
    id: u64,
    tags: Serde<HashSet<String>>,
}

#[test]
fn types_of_safe_parts_are_keys_and_the_zeros_of_floats_are_one_key() {
    is_key::<Place<i32>>();
    is_key::<Point>();
    assert_eq!(key_hash(&Point(0.0, 1.0)), key_hash(&Point(-0.0, 1.0)));
    let tags = Serde(HashSet::from(["a".to_owned(), "b".to_owned()]));
    round_trip(&Tagged { id: 1, tags });
}
