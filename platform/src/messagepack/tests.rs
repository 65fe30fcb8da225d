use super::*;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_bytes::{ByteArray, ByteBuf};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Everything {
    flag: bool,
    small: (u8, i8, u16, i16),
    large: (u32, i32, u64, i64),
    wide: (u128, i128),
    floats: (f32, f64),
    letter: char,
    text: String,
    bytes: ByteBuf,
    id: ByteArray<16>,
    list: Vec<u16>,
    by_number: BTreeMap<i64, Option<String>>,
    nothing: (),
    marker: Marker,
    wrapped: Wrapped,
    kinds: Vec<Kind>,
    address: std::net::IpAddr,
    boxed: Option<Box<Everything>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Marker;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Wrapped(u64);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Kind {
    Unit,
    One(String),
    Two(u8, Option<i32>),
    Named { a: u64, b: Vec<Kind> },
}

fn kind() -> impl Strategy<Value = Kind> {
    let leaf = prop_oneof![
        Just(Kind::Unit),
        ".*".prop_map(Kind::One),
        any::<(u8, Option<i32>)>().prop_map(|(a, b)| Kind::Two(a, b)),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        (any::<u64>(), prop::collection::vec(inner, 0..4)).prop_map(|(a, b)| Kind::Named { a, b })
    })
}

prop_compose! {
    fn everything()(
        numbers in any::<((u8, i8, u16, i16), (u32, i32, u64, i64), (u128, i128), [u8; 16])>(),
        floats in (-1e30_f32..1e30, -1e300_f64..1e300),
        flag in any::<bool>(),
        letter in any::<char>(),
        text in prop_oneof![".{0,40}", ".{300}"],
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..700),
            (any::<u8>(), 60_000_usize..300_000).prop_map(|(byte, len)| vec![byte; len]),
        ],
        list in prop::collection::vec(any::<u16>(), 0..40),
        by_number in any::<BTreeMap<i64, Option<String>>>(),
        wrapped in any::<u64>(),
        kinds in prop::collection::vec(kind(), 0..5),
        address in any::<std::net::IpAddr>(),
    ) -> Everything {
        let (small, large, wide, id) = numbers;
        Everything {
            flag, small, large, wide, floats, letter, text, list, by_number, kinds, address,
            bytes: ByteBuf::from(bytes),
            id: ByteArray::new(id),
            nothing: (),
            marker: Marker,
            wrapped: Wrapped(wrapped),
            boxed: None,
        }
    }
}

fn slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    decode(&mut &*bytes, 64)
}

proptest! {
    #[test]
    fn each_value_is_decoded_as_it_was_encoded(inner in everything(), mut outer in everything()) {
        outer.boxed = Some(Box::new(inner));
        let bytes = rmp_serde::to_vec_named(&outer).unwrap();
        prop_assert_eq!(slice::<Everything>(&bytes), Ok(outer.clone()));
        // Of each shorter input it says that it ends too early.
        let cut = slice::<Everything>(&bytes[..bytes.len() * 2 / 3]);
        prop_assert!(matches!(cut, Err(DecodeError::Read(_))), "{:?}", cut);
        // Bytes behind the value stay in the reader.
        let more = [&bytes[..], &[0xc1, 7]].concat();
        let mut rest = &more[..];
        prop_assert_eq!(decode::<Everything>(&mut rest, 64), Ok(outer));
        prop_assert_eq!(rest, &[0xc1, 7][..]);
    }

    #[test]
    fn damaged_bytes_are_an_error_or_what_rmp_serde_reads(
        value in everything(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut bytes = rmp_serde::to_vec_named(&value).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(read) = slice::<Everything>(&bytes) {
            let theirs: Everything = rmp_serde::from_slice(&bytes).unwrap();
            prop_assert_eq!(format!("{read:?}"), format!("{theirs:?}"));
        }
    }

    #[test]
    fn any_bytes_are_passed_over_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let skipped = slice::<serde::de::IgnoredAny>(&bytes).is_ok();
        let theirs = rmp_serde::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();
        prop_assert_eq!(skipped, theirs);
        let _ = slice::<Everything>(&bytes);
        let _ = slice::<Vec<Kind>>(&bytes);
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Old {
    a: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct New {
    a: u32,
    #[serde(default)]
    b: BTreeMap<String, Vec<Kind>>,
    #[serde(default)]
    c: Option<u8>,
}

#[test]
fn unknown_fields_of_any_kind_are_passed_over_and_missing_ones_get_their_default() {
    let b = BTreeMap::from([("x".to_owned(), vec![Kind::Unit, Kind::Two(1, None)])]);
    let new = rmp_serde::to_vec_named(&New { a: 7, b, c: Some(1) }).unwrap();
    assert_eq!(slice::<Old>(&new), Ok(Old { a: 7 }));
    let old = rmp_serde::to_vec_named(&Old { a: 7 }).unwrap();
    assert_eq!(slice::<New>(&old), Ok(New { a: 7, b: BTreeMap::new(), c: None }));
    let missing = slice::<Old>(&[0x80]).unwrap_err();
    assert_eq!(missing, DecodeError::Refused("missing field `a`".to_owned()));
}

#[test]
fn values_that_name_no_kind_are_read_by_the_kind_that_is_there() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Flat {
        #[serde(flatten)]
        rest: BTreeMap<String, Loose>,
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Loose {
        Number(i64),
        Text(String),
        Flag(bool),
        List(Vec<f64>),
        Nothing,
    }
    let all = [Loose::Number(-3), Loose::Text("t".into()), Loose::Flag(true), Loose::Nothing];
    let list = [Loose::List(vec![1.5]), Loose::Number(70_000)];
    let rest = all.into_iter().chain(list).enumerate().map(|(n, value)| (n.to_string(), value));
    let flat = Flat { rest: rest.collect() };
    assert_eq!(slice::<Flat>(&rmp_serde::to_vec_named(&flat).unwrap()), Ok(flat));
}

/// Lengths that no input has, and nesting that would exhaust the stack.
#[test]
fn hostile_lengths_and_depths_are_errors() {
    for head in [0xdd, 0xdf, 0xdb, 0xc6, 0xc9] {
        let bytes = [head, 0xff, 0xff, 0xff, 0xff, 0];
        assert!(matches!(slice::<serde::de::IgnoredAny>(&bytes), Err(DecodeError::Read(_))));
    }
    assert!(matches!(slice::<Vec<u64>>(&[0xdd, 255, 255, 255, 255]), Err(DecodeError::Read(_))));
    assert!(matches!(slice::<String>(&[0xdb, 255, 255, 255, 255]), Err(DecodeError::Read(_))));
    assert!(matches!(slice::<ByteBuf>(&[0xc6, 255, 255, 255, 255]), Err(DecodeError::Read(_))));
    let lists = [vec![0x91; 100_000], vec![0x90]].concat();
    assert!(slice::<serde::de::IgnoredAny>(&lists).is_ok(), "passing over needs no depth");
    // A kind within a kind: {"Named": {"b": [{"Named": …
    let level = rmp_serde::to_vec_named(&Kind::Named { a: 0, b: vec![Kind::Unit] }).unwrap();
    let level = &level[..level.len() - 5];
    let nested = level.repeat(100_000);
    assert_eq!(slice::<Kind>(&nested), Err(DecodeError::TooDeep));
    let mut fits = Kind::Unit;
    for _ in 0..20 {
        fits = Kind::Named { a: 1, b: vec![fits] };
    }
    // Each of the 20 is an enum, a struct and a list.
    let bytes = rmp_serde::to_vec_named(&fits).unwrap();
    assert_eq!(decode::<Kind>(&mut &bytes[..], 61), Ok(fits));
    assert_eq!(decode::<Kind>(&mut &bytes[..], 60), Err(DecodeError::TooDeep));
}

#[test]
fn errors_name_what_is_there_and_what_was_expected() {
    let text = |error: DecodeError| error.to_string();
    assert_eq!(
        text(slice::<u8>(&[0xa1, b'x']).unwrap_err()),
        "a string is in the place of an integer"
    );
    assert_eq!(text(slice::<Vec<u8>>(&[0x80]).unwrap_err()), "a map is in the place of a list");
    assert_eq!(text(slice::<Old>(&[0x90]).unwrap_err()), "a list is in the place of a map");
    assert_eq!(text(slice::<(u8,)>(&[0x92, 1, 2]).unwrap_err()), "1 entries more than expected");
    assert_eq!(text(slice::<String>(&[0xa1, 0xff]).unwrap_err()), "a string is not UTF-8");
    assert_eq!(text(slice::<Kind>(&[0x82]).unwrap_err()), "1 entries more than expected");
    assert_eq!(
        text(slice::<Kind>(&[0xa3, b'O', b'n', b'e']).unwrap_err()),
        "a variant has no content"
    );
    assert_eq!(text(slice::<u8>(&[0xc1]).unwrap_err()), "the byte 0xc1 begins no value");
    let overflow = text(slice::<u8>(&[0xcd, 1, 0]).unwrap_err());
    assert_eq!(overflow, "invalid value: integer `256`, expected u8");
    let unknown = text(slice::<Kind>(&[0xa1, b'Q']).unwrap_err());
    assert!(unknown.contains("unknown variant `Q`"), "{unknown}");
}
