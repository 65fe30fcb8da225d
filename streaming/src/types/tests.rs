use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

fn law<T: FlottType + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = encode_one(value);
    assert!(!bytes.is_empty(), "every value takes a byte");
    assert_eq!(&decode_one::<T>(&bytes).unwrap(), value);
    assert_eq!(key_hash(value), key_hash(&decode_one::<T>(&bytes).unwrap()));
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(decode_one::<T>(&longer).is_err(), "what follows is noticed");
    for end in (0..bytes.len()).step_by(bytes.len().div_ceil(16).max(1)) {
        assert!(decode_one::<T>(bytes.get(..end).unwrap()).is_err(), "a prefix is no value");
    }
    columns_law(&[value; 3]);
}

/// Values by columns come back, take a byte each at least, and no prefix stands for them.
fn columns_law<T: FlottType + PartialEq + std::fmt::Debug>(values: &[&T]) {
    let mut bytes = Vec::new();
    T::encode_column(values.iter().copied(), &mut bytes);
    assert!(bytes.len() >= values.len());
    let mut input = Reader::new(&bytes);
    let back = T::decode_column(values.len(), &mut input).unwrap();
    input.finish().unwrap();
    assert_eq!(back.iter().collect::<Vec<_>>(), values);
    for end in (0..bytes.len()).step_by(bytes.len().div_ceil(16).max(1)) {
        let mut input = Reader::new(bytes.get(..end).unwrap());
        assert!(T::decode_column(values.len(), &mut input).is_err(), "{end} of {}", bytes.len());
    }
}

fn columns<T: FlottType + PartialEq + std::fmt::Debug>(values: &[T]) {
    columns_law(&values.iter().collect::<Vec<_>>());
}

/// Up to seven values.
fn few<T: std::fmt::Debug>(of: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(of, 0..8)
}

proptest! {
    #[test]
    fn numbers(a: u8, b: u16, c: u32, d: u64, e: i8, f: i16, g: (i32, i64, isize, usize), h: u128, i: i128) {
        law(&a); law(&b); law(&c); law(&d); law(&e); law(&f); law(&g); law(&h); law(&i);
    }

    #[test]
    fn texts_and_bytes(a: String, b: Vec<u8>, c: char, d: bool) {
        law(&a); law(&b); law(&c); law(&d); law(&());
    }

    #[test]
    fn collections(
        a: Vec<(String, Option<i64>)>, b: BTreeMap<String, Vec<u16>>, c: BTreeSet<u32>, d: VecDeque<i32>,
        e: Box<Option<String>>, f: Result<u8, String>, g: [u16; 3], h: std::time::Duration,
    ) {
        law(&a); law(&b); law(&c); law(&d); law(&e); law(&f); law(&g); law(&h);
    }

    #[test]
    fn columns_of_numbers(
        a: Vec<u16>, b: Vec<u32>, c: Vec<u64>, d: Vec<(i16, usize)>, e: Vec<i32>, f: Vec<i64>, near in any::<i64>(),
        by: Vec<u8>, g: Vec<(u128, i8, bool)>,
    ) {
        columns(&a); columns(&b); columns(&c); columns(&d); columns(&e); columns(&f); columns(&g);
        columns(&by.iter().map(|n| near.wrapping_add(i64::from(*n))).collect::<Vec<_>>());
    }

    #[test]
    fn columns_of_texts(a: Vec<String>, b: Vec<(String, Option<u64>, Vec<u8>)>) {
        columns(&a); columns(&b);
    }

    #[test]
    fn columns_of_lists(
        a in few(few(any::<u64>())), b in few((few(any::<i16>()), few(any::<f32>()), any::<String>())),
        c in few(prop::option::of(few(any::<i64>()))), d in few(few(few(any::<u32>()))), e in few(few(any::<u8>())),
    ) {
        columns(&a); columns(&b); columns(&c); columns(&d); columns(&e);
    }

    #[test]
    fn columns_of_arrays(
        a: Vec<[u64; 3]>, b: Vec<([u8; 16], Option<[i32; 1]>)>, c: Vec<[(String, bool); 2]>, d: Vec<[u64; 0]>,
        e: Vec<[[u16; 2]; 2]>,
    ) {
        columns(&a); columns(&b); columns(&c); columns(&d); columns(&e);
    }

    #[test]
    fn columns_of_options(a: Vec<Option<u32>>, b: Vec<Option<(String, Option<i64>)>>) {
        columns(&a); columns(&b);
    }

    #[test]
    fn a_short_text_has_bytes_column_and_hash_of_a_string(texts: Vec<String>, long in "[a-zé]{20,40}") {
        let texts = [texts, vec![long]].concat();
        let short: Vec<CompactString> = texts.iter().map(CompactString::new).collect();
        short.iter().for_each(law);
        columns(&short);
        prop_assert_eq!(encode_one(&short), encode_one(&texts));
        prop_assert_eq!(key_hash(&short), key_hash(&texts));
        prop_assert_eq!(decode_one::<Vec<CompactString>>(&encode_one(&texts)), Ok(short.clone()));
        let (mut column, mut of_strings) = (Vec::new(), Vec::new());
        CompactString::encode_column(short.iter(), &mut column);
        String::encode_column(texts.iter(), &mut of_strings);
        prop_assert_eq!(column, of_strings);
        for (short, text) in short.iter().zip(&texts) {
            prop_assert_eq!(key_hash(short), key_hash(text));
            let mut line = Vec::new();
            short.write_line(&mut line);
            prop_assert_eq!(&line, text.as_bytes());
        }
    }

    #[test]
    fn no_bytes_make_a_column_panic(count in 0_usize..100, bytes: Vec<u8>) {
        let input = || Reader::new(&bytes);
        let _ = <(u16, i16, i32)>::decode_column(count, &mut input());
        let _ = <(u32, u64, isize)>::decode_column(count, &mut input());
        if let Ok(texts) = String::decode_column(count, &mut input()) {
            prop_assert!(texts.len() == count && texts.iter().map(String::len).sum::<usize>() <= bytes.len());
        }
        if let Ok(options) = Option::<u16>::decode_column(count, &mut input()) {
            prop_assert!(options.len() == count && count <= bytes.len());
        }
        let _ = <(f32, (u128, String), Vec<u8>)>::decode_column(count, &mut input());
        if let Ok(lists) = Vec::<u32>::decode_column(count, &mut input()) {
            prop_assert!(lists.len() == count && lists.iter().map(Vec::len).sum::<usize>() <= bytes.len());
        }
        let _ = <(Vec<f64>, Vec<Vec<i16>>)>::decode_column(count, &mut input());
        if let Ok(lists) = Vec::<u8>::decode_column(count, &mut input()) {
            prop_assert!(lists.len() == count && lists.iter().map(Vec::len).sum::<usize>() <= bytes.len());
        }
        let _ = <([u32; 3], [String; 2], [u8; 0], [Option<u8>; 2])>::decode_column(count, &mut input());
        prop_assert!(<[u16; 2]>::decode_column(usize::MAX, &mut input()).is_err());
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes: Vec<u8>) {
        let _ = decode_one::<Vec<(String, Option<i64>)>>(&bytes);
        let _ = decode_one::<BTreeMap<u16, BTreeSet<char>>>(&bytes);
        let _ = decode_one::<Result<Vec<Vec<bool>>, [f64; 2]>>(&bytes);
        let _ = decode_one::<Vec<()>>(&bytes);
        let _ = BatchCodec::<(Vec<u8>, u64)>::new().decode(&bytes);
        let _ = crate::seam::StreamEvent::decode(&bytes);
    }

    #[test]
    fn batches(records: Vec<(String, u64)>, times: Vec<i64>, watermark: Option<i64>) {
        let codec = BatchCodec::<(String, u64)>::new();
        let records = Batch::with_times(records, times);
        let batch = ErasedBatch::new(records.clone()).with_watermark(watermark);
        let mut bytes = Vec::new();
        codec.encode(&batch, &mut bytes).unwrap();
        let back = codec.decode(&bytes).unwrap();
        prop_assert_eq!((back.len(), back.watermark), (records.len(), watermark));
        prop_assert_eq!(back.downcast::<(String, u64)>().unwrap(), records.clone());
        prop_assert_eq!(codec.duplicate(&batch).unwrap().downcast::<(String, u64)>().unwrap(), records);
    }
}

use crate::{
    batch::Batch,
    seam::{EdgeCodec, ErasedBatch},
};

#[test]
fn a_batch_of_arrays_and_of_bytes_has_the_bytes_that_its_description_says() {
    let mut bytes = Vec::new();
    <[u64; 2]>::encode_column([[300, 301], [302, 303]].iter(), &mut bytes);
    let numbers: &[u8] = &[1, 44, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3];
    assert_eq!(bytes, numbers, "width, smallest number, distances");
    bytes.clear();
    Vec::<u8>::encode_column([vec![7, 8], vec![], vec![9]].iter(), &mut bytes);
    assert_eq!(bytes, [1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 7, 8, 9], "lengths, then all bytes");
}

#[test]
fn a_number_of_a_column_that_is_too_large_is_refused() {
    let column = |values: &[u64]| {
        let mut bytes = Vec::new();
        u64::encode_column(values.iter(), &mut bytes);
        bytes
    };
    let narrow = |bytes: &[u8]| u16::decode_column(2, &mut Reader::new(bytes));
    assert_eq!(narrow(&column(&[1, 65_535])), Ok(vec![1, 65_535]));
    assert_eq!(narrow(&column(&[1, 65_536])), Err(CodecError::Invalid { what: "u16" }));
    // The smallest number is near 2^64, and a distance leads beyond it.
    let mut beyond = column(&[u64::MAX - 1, u64::MAX]);
    *beyond.last_mut().unwrap() = 255;
    assert_eq!(narrow(&beyond), Err(CodecError::Invalid { what: "u16" }));
    let signed = |bytes: &[u8]| i16::decode_column(2, &mut Reader::new(bytes));
    assert_eq!(signed(&beyond), Err(CodecError::Invalid { what: "i16" }));
    // A text column whose lengths cut a character in two.
    let mut texts = Vec::new();
    String::encode_column(["é".to_owned(), String::new()].iter(), &mut texts);
    let halves = texts.len() - 4;
    texts[halves..halves + 2].copy_from_slice(&[1, 1]);
    assert_eq!(
        String::decode_column(2, &mut Reader::new(&texts)),
        Err(CodecError::Invalid { what: "UTF-8" })
    );
}

#[test]
fn announced_lengths_reserve_nothing() {
    // Ten bytes that announce 2^60 elements.
    let mut bytes = Vec::new();
    write_varint(1 << 60, &mut bytes);
    assert_eq!(decode_one::<Vec<[u64; 4]>>(&bytes), Err(CodecError::Truncated));
    assert_eq!(decode_one::<String>(&bytes), Err(CodecError::Truncated));
    assert_eq!(decode_one::<BTreeMap<u8, u8>>(&bytes), Err(CodecError::Truncated));
}

#[derive(Clone, PartialEq, Debug)]
struct Link(Option<Box<Link>>);
impl FlottType for Link {
    fn type_name() -> String {
        "Link".into()
    }
    fn describe(schema: &mut Schema) {
        schema.named::<Self>("Link", |schema| schema.field::<Option<Box<Link>>>("0"));
    }
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        Option::decode(input).map(Self)
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        self.0.hash_key(hasher);
    }
}

#[test]
fn a_type_that_holds_itself() {
    law(&Link(Some(Box::new(Link(Some(Box::new(Link(None))))))));
    assert_eq!(Schema::of::<Link>(), "Link{0:option<Link>,}");
    let deep = vec![1_u8; 1_000_000];
    assert_eq!(decode_one::<Link>(&deep), Err(CodecError::TooDeep));
}

#[test]
fn numbers_beyond_their_width_are_refused() {
    assert!(decode_one::<u16>(&encode_one(&65_536_u32)).is_err());
    assert!(decode_one::<u64>(&[0xff; 10]).is_err());
    assert_eq!(decode_one::<u64>(&encode_one(&u64::MAX)), Ok(u64::MAX));
    assert_eq!(decode_one::<i64>(&encode_one(&i64::MIN)), Ok(i64::MIN));
}

/// Hashes, bytes and schemas are part of snapshots: these values may never change.
#[test]
fn golden() {
    assert_eq!(key_hash(&String::new()), 0x25da_6f3c_ce6b_1384);
    assert_eq!(key_hash(&"flott".to_owned()), 0x503c_d162_bb70_97b9);
    assert_eq!(key_hash(&"a key of more than sixteen bytes".to_owned()), 0x04f4_9ad4_b285_87e8);
    assert_eq!(key_hash(&42_u64), 0xe5da_51ae_fc51_5b10);
    assert_eq!(key_hash(&42_i32), key_hash(&42_u64));
    assert_eq!(key_hash(&0.0_f64), key_hash(&-0.0_f64));
    assert_eq!(encode_one(&("w".to_owned(), 300_u64)), [1, b'w', 0xac, 2]);
    assert_eq!(encode_one(&vec![-1_i32, 1]), [2, 1, 2]);
    assert_eq!(Schema::of::<Vec<(String, Option<u64>)>>(), "list<tuple<string,option<u64>>>");
    assert_eq!(fingerprint::<(String, u64)>(), "d07c43cff5d483a7");
}

#[test]
fn a_short_text_has_the_schema_of_a_string_and_no_heap_up_to_24_bytes() {
    assert_eq!(fingerprint::<(CompactString, u64)>(), fingerprint::<(String, u64)>());
    assert_eq!(CompactString::type_name(), String::type_name());
    assert_eq!(CompactString::new("x".repeat(24)).weight(), 24);
    assert!(CompactString::new("x".repeat(25)).weight() >= 24 + 25);
    assert!(decode_one::<CompactString>(&[1, 0xff]).is_err());
}

#[test]
fn the_hash_spreads_short_keys() {
    let mut low = [0_u32; 64];
    let mut high = [0_u32; 64];
    for i in 0..64_000 {
        let hash = key_hash(&format!("w{i}"));
        if let Some(n) = low.get_mut((hash & 63) as usize) {
            *n += 1
        }
        if let Some(n) = high.get_mut((hash >> 58) as usize) {
            *n += 1
        }
    }
    assert!(low.iter().chain(&high).all(|n| (850..1150).contains(n)), "{low:?} {high:?}");
}

#[test]
fn weights_count_the_heap() {
    assert_eq!(7_u64.weight(), 8);
    assert_eq!("abcd".to_owned().weight(), 28);
    let codec = BatchCodec::<Vec<u8>>::new();
    let batch = ErasedBatch::new(Batch::from(vec![vec![0_u8; 1_000]; 100]));
    assert_eq!(codec.weight(&batch), 102_400);
    assert_eq!(codec.weight(&ErasedBatch::new(Batch::<Vec<u8>>::default())), 0);
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Foreign {
    name: String,
    #[serde(serialize_with = "only_small")]
    size: u64,
    below: Vec<Foreign>,
}

fn only_small<S: serde::Serializer>(size: &u64, s: S) -> Result<S::Ok, S::Error> {
    match size {
        0..100 => s.serialize_u64(*size),
        _ => Err(serde::ser::Error::custom("too large")),
    }
}

#[test]
fn foreign_types_go_through_serde_and_what_they_refuse_is_noticed() {
    let value = |size, below| Serde(Foreign { name: "a".into(), size, below });
    law(&value(7, vec![value(8, vec![]).0]));
    let codec = BatchCodec::<Serde<Foreign>>::new();
    let mut bytes = Vec::new();
    assert!(
        codec
            .encode(
                &ErasedBatch::new(vec![value(7, vec![]), value(700, vec![])].into()),
                &mut bytes
            )
            .is_err()
    );
    let mut bytes = Vec::new();
    codec.encode(&ErasedBatch::new(vec![value(7, vec![])].into()), &mut bytes).unwrap();
    // Each level is a map and a list.
    let mut deep = value(1, vec![]);
    for _ in 0..30 {
        deep = value(1, vec![deep.0]);
    }
    law(&deep);
    let deeper = ErasedBatch::new(vec![value(1, vec![deep.0])].into());
    let refused = codec.encode(&deeper, &mut Vec::new());
    assert!(matches!(refused, Err(CodecError::TooDeep)), "{refused:?}");

    /// Lists in lists, of which each takes a byte.
    #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Nest(Vec<Nest>);
    let nested = |levels| Serde((1..levels).fold(Nest(vec![]), |inner, _| Nest(vec![inner])));
    law(&nested(63));
    let deeper = ErasedBatch::new(vec![nested(64)].into());
    let refused = BatchCodec::<Serde<Nest>>::new().encode(&deeper, &mut Vec::new());
    assert!(matches!(refused, Err(CodecError::TooDeep)), "{refused:?}");
}

#[test]
fn the_name_of_a_foreign_type_keeps_its_structure_without_module_paths() {
    type Map<K> = BTreeMap<K, Vec<Foreign>>;
    assert_eq!(Serde::<Foreign>::type_name(), "Foreign");
    assert_eq!(Serde::<Vec<Foreign>>::type_name(), "Vec<Foreign>");
    assert_eq!(Serde::<Map<String>>::type_name(), "BTreeMap<String, Vec<Foreign>>");
    assert_eq!(Serde::<(Foreign, [Foreign; 2])>::type_name(), "(Foreign, [Foreign; 2])");
    let prints = [
        fingerprint::<Serde<Foreign>>(),
        fingerprint::<Serde<Vec<Foreign>>>(),
        fingerprint::<Serde<Map<String>>>(),
        fingerprint::<Serde<Map<u64>>>(),
    ];
    assert_eq!(BTreeSet::from(prints).len(), 4, "a changed state type is noticed");
}

#[derive(Clone, derive::FlottType)]
#[flott(crate = crate)]
struct Chain {
    next: Option<Box<Chain>>,
    marks: Vec<Vec<u8>>,
}

/// A record around chains.
#[derive(Clone, derive::FlottType)]
#[flott(crate = crate)]
struct Chains(BTreeMap<String, Chain>);

fn chain(boxes: usize) -> Chain {
    let last = Chain { next: None, marks: vec![vec![1]] };
    (0..boxes).fold(last, |next, _| Chain { next: Some(Box::new(next)), marks: Vec::new() })
}

#[test]
fn a_value_that_could_not_be_read_is_not_written() {
    fn written<T: Record>(value: T) -> Result<Vec<u8>, CodecError> {
        let codec = BatchCodec::<T>::new();
        let mut bytes = Vec::new();
        codec.encode(&ErasedBatch::new(Batch::from(vec![value])), &mut bytes)?;
        codec.decode(&bytes)?;
        Ok(bytes)
    }
    assert!(written(chain(180)).is_ok());
    assert_eq!(written(chain(181)), Err(CodecError::TooDeep));
    // An error is reported once, and the depth begins anew.
    assert!(written(chain(180)).is_ok());
    let chains = |boxes| Chains([("a".to_owned(), chain(boxes))].into());
    assert!(written(chains(179)).is_ok());
    assert_eq!(written(chains(180)), Err(CodecError::TooDeep));
    assert_eq!(written(chain(2_000)), Err(CodecError::TooDeep));
    const { assert!(Chain::RECURSIVE && Chains::RECURSIVE && !<Vec<Vec<u8>>>::RECURSIVE) }
}
