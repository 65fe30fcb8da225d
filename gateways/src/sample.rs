//! Draws a value of any message type: for tools and tests that need valid bytes of every call.
//!
//! It is a serde deserialiser that reads from numbers instead of bytes: whatever a type asks for, it
//! makes up. It must never be used where a value means something.

use crate::{call::Call, codec};
use serde::{
    Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, EnumAccess, Expected, MapAccess, SeqAccess,
        VariantAccess, Visitor,
        value::{Error, StrDeserializer},
    },
    forward_to_deserialize_any,
};

/// A function that returns a random 64-bit number at each call.
pub type Draw<'a> = &'a mut dyn FnMut() -> u64;

/// Deeper values are cut short.
const DEPTH_MAX: u32 = 12;
/// More parts than this are not made: types that hold each other would grow without end.
const PARTS_MAX: u32 = 400;
/// Number of tries to make up a value: some types refuse most of what is made up (a text that must
/// be an address).
const TRIES: u32 = 16;

/// Texts that mean something to some type.
const TEXTS: &[&str] = &[
    "",
    "a",
    "0",
    "localhost:6123",
    "flott://localhost:6123/dispatcher",
    "local:1",
    "00000000000000000000000000000001",
    "00000000000000000000000000000000000000000000000000000000000000ff",
    "/tmp/x",
    "file:///tmp/x",
    "é\u{10ffff}\0\n",
];

/// Makes up a message of call `C` and encodes it as the wire does, for tests; `None` if the type refused all 16 tries.
pub fn message<C: Call>(draw: Draw<'_>) -> Option<Vec<u8>> {
    codec::encode(&value::<C>(draw)?).ok()
}

/// Makes up a value of any type from the random numbers that `draw` returns, for tests; `None` if the type refused all
/// 16 tries.
pub fn value<T: DeserializeOwned>(draw: Draw<'_>) -> Option<T> {
    (0..TRIES).find_map(|attempt| {
        let (mut parts, careful) = (0, attempt % 2 == 0);
        T::deserialize(Sample { draw: &mut *draw, parts: &mut parts, depth: 0, careful, field: "" })
            .ok()
    })
}

struct Sample<'a> {
    draw: &'a mut dyn FnMut() -> u64,
    parts: &'a mut u32,
    depth: u32,
    /// Makes byte strings of the length that their types take, and addresses where they are meant.
    careful: bool,
    /// The field that the value is in.
    field: &'static str,
}

impl Sample<'_> {
    fn below(&mut self, n: u64) -> u64 {
        (self.draw)() % n.max(1)
    }
    /// Numbers near the ends of types are where mistakes are.
    fn number(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => 1 << self.below(64),
            4 => (1_u64 << self.below(64)).wrapping_sub(1),
            5 => (self.draw)(),
            _ => self.below(16),
        }
    }
    fn text(&mut self) -> String {
        let is_address = self.field.contains("address") || self.field.contains("node");
        if self.careful && is_address && self.below(8) != 0 {
            let of = ["localhost:6123", "flott://localhost:6123/dispatcher"];
            return of.get(self.below(2) as usize).copied().unwrap_or_default().to_owned();
        }
        let index = self.below(TEXTS.len() as u64 + 1) as usize;
        match TEXTS.get(index) {
            Some(text) => (*text).to_owned(),
            None => format!("{:x}", self.number()),
        }
    }
    /// Makes up bytes. `expected` is the type's own description: ids and hashes name their length.
    fn bytes(&mut self, expected: &str) -> Vec<u8> {
        let said = expected.rsplit_once("of length ").and_then(|(_, len)| len.parse().ok());
        let len = said.filter(|_| self.careful).unwrap_or_else(|| self.below(40)).min(64);
        (0..len).map(|_| (self.draw)() as u8).collect()
    }
    /// Draws the number of elements for a collection.
    fn len(&mut self) -> usize {
        let cut = self.depth >= DEPTH_MAX || *self.parts >= PARTS_MAX;
        if cut { 0 } else { self.below(4) as usize }
    }
    fn inner(&mut self) -> Sample<'_> {
        *self.parts += 1;
        Sample {
            draw: &mut *self.draw,
            parts: &mut *self.parts,
            depth: self.depth + 1,
            careful: self.careful,
            field: self.field,
        }
    }
}

macro_rules! numbers {
    ($($method:ident => $visit:ident: $type:ty),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.number() as $type)
        }
    )*};
}

impl<'de> Deserializer<'de> for Sample<'_> {
    type Error = Error;

    fn is_human_readable(&self) -> bool {
        false
    }

    numbers! {
        deserialize_u8 => visit_u8: u8, deserialize_u16 => visit_u16: u16,
        deserialize_u32 => visit_u32: u32, deserialize_u64 => visit_u64: u64,
        deserialize_i8 => visit_i8: i8, deserialize_i16 => visit_i16: i16,
        deserialize_i32 => visit_i32: i32, deserialize_i64 => visit_i64: i64,
        deserialize_u128 => visit_u128: u128, deserialize_i128 => visit_i128: i128,
        deserialize_f32 => visit_f32: f32, deserialize_f64 => visit_f64: f64,
    }

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        match self.below(5) {
            0 => visitor.visit_u64(self.number()),
            1 => visitor.visit_string(self.text()),
            2 => visitor.visit_bool(self.below(2) == 1),
            3 => self.deserialize_seq(visitor),
            _ => self.deserialize_map(visitor),
        }
    }
    fn deserialize_bool<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.below(2) == 1)
    }
    fn deserialize_char<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_char(char::from_u32(self.below(0x11_0000) as u32).unwrap_or('x'))
    }
    fn deserialize_str<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.text())
    }
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }
    fn deserialize_bytes<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let expected = (&visitor as &dyn Expected).to_string();
        visitor.visit_byte_buf(self.bytes(&expected))
    }
    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }
    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        if self.len() == 0 { visitor.visit_none() } else { visitor.visit_some(self.inner()) }
    }
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }
    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let left = self.len();
        visitor.visit_seq(Parts { sample: self, left, fields: &[] })
    }
    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Parts { sample: self, left, fields: &[] })
    }
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_tuple(left, visitor)
    }
    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let left = self.len();
        visitor.visit_map(Parts { sample: self, left, fields: &[] })
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(Parts { sample: self, left: fields.len(), fields })
    }
    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let variant = variants.get(self.below(variants.len() as u64) as usize).copied();
        visitor.visit_enum(Variant { sample: self, variant: variant.unwrap_or_default() })
    }

    forward_to_deserialize_any! { identifier ignored_any }
}

/// The parts of something; of a struct with the names of its fields.
struct Parts<'a> {
    sample: Sample<'a>,
    left: usize,
    fields: &'static [&'static str],
}

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = Error;
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(self.sample.inner()).map(Some)
    }
}

impl<'de> MapAccess<'de> for Parts<'_> {
    type Error = Error;
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        let field = self.fields.get(self.fields.len().wrapping_sub(self.left));
        self.left -= 1;
        match field {
            Some(field) => {
                self.sample.field = field;
                seed.deserialize(StrDeserializer::new(field)).map(Some)
            }
            None => seed.deserialize(self.sample.inner()).map(Some),
        }
    }
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self.sample.inner())
    }
}

struct Variant<'a> {
    sample: Sample<'a>,
    variant: &'static str,
}

impl<'de, 'a> EnumAccess<'de> for Variant<'a> {
    type Error = Error;
    type Variant = Sample<'a>;
    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Sample<'a>), Error> {
        let variant = seed.deserialize(StrDeserializer::<Error>::new(self.variant))?;
        Ok((variant, self.sample))
    }
}

impl<'de> VariantAccess<'de> for Sample<'_> {
    type Error = Error;
    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }
    fn newtype_variant_seed<S: DeserializeSeed<'de>>(mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self.inner())
    }
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_tuple(len, visitor)
    }
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_struct("", fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use crate::messages;

    #[test]
    fn every_call_has_made_up_messages_that_its_decoder_takes() {
        let mut state = 1_u64;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 16
        };
        for name in messages::names() {
            let made = (0..20).filter_map(|_| messages::sample_by_name(name, &mut draw));
            let taken = made.filter(|bytes| messages::decode_by_name(name, bytes) == Some(Ok(())));
            assert!(taken.count() >= 5, "{name}");
        }
    }
}
