//! Derived record types: codec, schema and hash.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "functions of tests")]

use derive::FlottType;
use std::{
    collections::{BTreeMap, HashSet},
    fmt::Debug,
};
use streaming::types::{
    CodecError, FlottType, Key, Reader, Serde, decode_one, encode_one, fingerprint, key_hash,
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

#[derive(Debug, Clone, PartialEq, Eq, FlottType)]
#[flott(crate = streaming)]
struct Tree<T> {
    value: T,
    children: Vec<Tree<T>>,
    by_name: BTreeMap<String, Self>,
}

impl<T> Tree<T> {
    fn new(value: T, children: Vec<Self>) -> Self {
        Self { value, children, by_name: BTreeMap::new() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, FlottType)]
#[flott(crate = streaming)]
enum Expr {
    Num(u64),
    Add(Box<Expr>, Box<Expr>),
    Maybe { of: Option<Box<Self>> },
}

#[derive(Debug, Clone, PartialEq, Eq, FlottType)]
#[flott(crate = streaming, recursive)]
struct Folder {
    name: String,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, FlottType)]
#[flott(crate = streaming)]
enum Entry {
    File(u64),
    Folder(Folder),
}

/// A tree of that many levels, each with one child.
fn deep(levels: usize) -> Tree<u64> {
    (1..levels as u64).fold(Tree::new(0, Vec::new()), |child, n| Tree::new(n, vec![child]))
}

#[test]
fn types_that_contain_themselves_come_back() {
    let leaf = |n| Tree::new(n, Vec::new());
    let mut tree = Tree::new(300_u64, vec![leaf(1), Tree::new(2, vec![leaf(3)])]);
    tree.by_name.insert("left".to_owned(), leaf(4));
    round_trip(&tree);
    round_trip(&Tree::new("root".to_owned(), vec![Tree::new(String::new(), Vec::new())]));
    let num = |n| Box::new(Expr::Num(n));
    let sum = Expr::Add(num(1), Box::new(Expr::Add(num(2), num(300))));
    round_trip(&sum);
    round_trip(&Expr::Maybe { of: Some(Box::new(Expr::Maybe { of: None })) });
    let inner = Folder { name: "b".to_owned(), entries: vec![Entry::File(7)] };
    round_trip(&Folder { name: "a".to_owned(), entries: vec![Entry::Folder(inner)] });
    // Many of them share columns.
    let trees: Vec<_> = (1..100).map(deep).collect();
    let bytes = column(&trees);
    assert_eq!(Tree::decode_column(trees.len(), &mut Reader::new(&bytes)).unwrap(), trees);
}

#[test]
fn types_that_contain_themselves_are_keys_if_their_other_parts_are() {
    is_key::<Tree<u64>>();
    is_key::<Expr>();
    assert_ne!(key_hash(&deep(2)), key_hash(&deep(3)));
    assert_eq!(key_hash(&deep(50)), key_hash(&deep(50)));
    assert_ne!(fingerprint::<Tree<u64>>(), fingerprint::<Tree<u32>>());
}

#[test]
fn a_value_that_is_nested_too_deeply_is_an_error_and_the_stack_lasts() {
    // The threads of tasks have a stack of 1 MiB.
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(|| {
        let deepest = Reader::MAX_DEPTH as usize;
        // Deeper ones are not written.
        round_trip_column(&deep(deepest - 20));
        // A value and one child for each level, and at the end no tree by name of any level.
        let levels = |levels: usize| {
            let begins = [0, 1].repeat(levels - 1);
            [begins, vec![0, 0], vec![0; levels]].concat()
        };
        assert_eq!(levels(3), encode_one(&zeros(3)));
        assert!(decode_one::<Tree<u64>>(&levels(deepest)).is_ok());
        let refused = decode_one::<Tree<u64>>(&levels(deepest + 1));
        assert_eq!(refused, Err(CodecError::TooDeep));
        // Bytes that no program wrote: a million sums, each in the left part of another one.
        let sums = vec![1; 1_000_000];
        assert_eq!(decode_one::<Expr>(&sums), Err(CodecError::TooDeep));
        let of_columns =
            [column(&[Expr::Add(Box::new(Expr::Num(1)), Box::new(Expr::Num(1)))]), sums];
        let mut input = Reader::new(&of_columns[1]);
        assert_eq!(Box::<Expr>::decode_column(1, &mut input).map(|_| ()), Err(CodecError::TooDeep));
        // A number of variant 1 (width 1, smallest 1), then the two columns of its boxes.
        let head = &of_columns[0][..10];
        let bytes = [head, &of_columns[1]].concat();
        let decoded = Expr::decode_column(1, &mut Reader::new(&bytes));
        assert_eq!(decoded, Err(CodecError::TooDeep));
    });
    thread.unwrap().join().unwrap();
}

/// A tree of that many levels, whose values are 0.
fn zeros(levels: usize) -> Tree<u64> {
    (1..levels).fold(Tree::new(0, Vec::new()), |child, _| Tree::new(0, vec![child]))
}

fn round_trip_column(tree: &Tree<u64>) {
    assert_eq!(&decode_one::<Tree<u64>>(&encode_one(tree)).unwrap(), tree);
    let bytes = column(std::slice::from_ref(tree));
    assert_eq!(
        Tree::decode_column(1, &mut Reader::new(&bytes)).unwrap(),
        std::slice::from_ref(tree)
    );
}
