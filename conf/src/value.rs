//! The types of option values: how each is parsed, printed and described.
//!
//! Parsing must never panic and never allocate more than a small multiple of its input.

use model::{MemorySize, PortSpec, parse_duration, show_duration};
use std::{num::NonZeroU32, path::PathBuf, time::Duration};

/// A type that the value of an option can have, with the conversions between a value and its text in a configuration.
/// [`Options`](crate::Options) keep texts and parse them at each `get`; errors and the reference page use `kind`. Implemented for `u32`,
/// `u64`, `NonZeroU32`, `f64`, `bool`, texts, paths, durations, amounts of memory, ports, `Option` of any of these, and this crate's own
/// types.
pub trait OptionValue: Sized + 'static {
    /// Returns the values that the type takes, as a phrase that completes "it takes …".
    fn kind() -> String;
    /// Parses a value as it stands in a file, a variable or on the command line; `None` if the text is no value of the type. Blanks around
    /// the value are ignored, except in texts and paths. Bounds of single options are not checked here.
    fn parse(text: &str) -> Option<Self>;
    /// Returns a text from which `OptionValue::parse` makes an equal value; `None` if the value means "not set".
    fn show(&self) -> Option<String>;
    /// Returns the text in which a value is kept that was given as `text`. Truth values and numbers have one text for all spellings of a
    /// value (`TRUE` becomes `true`, `007` becomes `7`), so that readers without this crate know one only; other types, and texts that
    /// are no value, keep their texts, which is `None`.
    fn normal(_text: &str) -> Option<String> {
        None
    }
}

macro_rules! by_from_str {
    ($($type:ty => $kind:literal),* $(,)?) => {$(
        impl OptionValue for $type {
            fn kind() -> String {
                $kind.to_owned()
            }
            fn parse(text: &str) -> Option<Self> {
                text.trim().parse().ok()
            }
            fn show(&self) -> Option<String> {
                Some(self.to_string())
            }
            fn normal(text: &str) -> Option<String> {
                Self::parse(text)?.show()
            }
        }
    )*};
}
by_from_str! {
    u32 => "a whole number from 0 to 4294967295",
    u64 => "a whole number from 0",
    NonZeroU32 => "a whole number from 1",
}

impl OptionValue for MemorySize {
    fn kind() -> String {
        "an amount of memory: a number with b, k, m, g or t (powers of 1024), e.g. 1728m".to_owned()
    }
    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
    fn show(&self) -> Option<String> {
        // For people it is rounded; this is read again.
        let whole = self.0.is_multiple_of(1 << 20);
        Some(if whole { self.to_string() } else { format!("{}b", self.0) })
    }
}

impl OptionValue for bool {
    fn kind() -> String {
        "true or false".to_owned()
    }
    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
    fn normal(text: &str) -> Option<String> {
        Self::parse(text)?.show()
    }
}

impl OptionValue for f64 {
    fn kind() -> String {
        "a number".to_owned()
    }
    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok().filter(|n: &f64| n.is_finite())
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
    fn normal(text: &str) -> Option<String> {
        Self::parse(text)?.show()
    }
}

impl OptionValue for String {
    fn kind() -> String {
        "a text".to_owned()
    }
    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
    fn show(&self) -> Option<String> {
        Some(self.clone())
    }
}

impl OptionValue for PathBuf {
    fn kind() -> String {
        "a path".to_owned()
    }
    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| PathBuf::from(text))
    }
    fn show(&self) -> Option<String> {
        Some(self.display().to_string())
    }
}

impl<T: OptionValue> OptionValue for Option<T> {
    fn kind() -> String {
        T::kind()
    }
    fn parse(text: &str) -> Option<Self> {
        T::parse(text).map(Some)
    }
    fn show(&self) -> Option<String> {
        self.as_ref().and_then(T::show)
    }
    fn normal(text: &str) -> Option<String> {
        T::normal(text)
    }
}

impl OptionValue for Duration {
    fn kind() -> String {
        "a duration: a number with ms, s, min, h or d, e.g. 10 s".to_owned()
    }
    fn parse(text: &str) -> Option<Self> {
        parse_duration(text)
    }
    fn show(&self) -> Option<String> {
        Some(show_duration(*self))
    }
}

impl OptionValue for PortSpec {
    fn kind() -> String {
        "a port, 0 (any free one), a range or a list of them, e.g. 6123 or 50100-50200,50300"
            .to_owned()
    }
    fn parse(text: &str) -> Option<Self> {
        let is_text = !text.trim_start().starts_with('[');
        if is_text && text.split([',', ';']).any(|part| part.trim().is_empty()) {
            return None;
        }
        Self::of_parts(List::parse(text)?.0.iter().map(String::as_str))
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// The log level of everything, or levels for parts of the program: a list such as `info,actors=debug`, whose names are module paths, with
/// the levels `off`, `error`, `warn`, `info`, `debug` and `trace` in upper or lower case. What no entry names is not logged. Names are not
/// checked. The value of `log.level`, which the environment variable `RUST_LOG` overrides. The default is `info`; but clients and embedded
/// runs log nothing where neither is set. Displays as it was written, without blanks around it.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{}", self.0)]
pub struct LogFilter(String);

impl Default for LogFilter {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

impl OptionValue for LogFilter {
    fn kind() -> String {
        let levels = LEVELS.join(", ");
        format!("a level ({levels}), or a list of levels and filters as in info,actors=debug")
    }
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        // A filter that is no level would be the name of a part, and turn everything else off.
        let is_level = |level: &str| LEVELS.contains(&level.trim().to_ascii_lowercase().as_str());
        let is_filter = |part: &str| match part.split_once('=') {
            Some((name, level)) => !name.trim().is_empty() && is_level(level),
            None => is_level(part),
        };
        text.split(',').all(is_filter).then(|| Self(text.to_owned()))
    }
    fn show(&self) -> Option<String> {
        Some(self.0.clone())
    }
}

/// A list of texts, the type of options with several values. Parses elements separated by `,` or `;`, trimmed and without empty ones, or
/// (if the text begins with `[`) a JSON array of texts, whose elements may hold separators. An empty text is an empty list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct List(pub Vec<String>);

impl OptionValue for List {
    fn kind() -> String {
        "a list: elements separated by ',' or ';', or a JSON array of texts".to_owned()
    }
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.starts_with('[') {
            return serde_json::from_str(text).ok().map(Self);
        }
        let parts = text.split([',', ';']).map(str::trim);
        Some(Self(parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()))
    }
    fn show(&self) -> Option<String> {
        let plain = |s: &String| {
            !s.is_empty() && s.trim() == s && !s.contains([',', ';']) && !s.starts_with('[')
        };
        if self.0.iter().all(plain) {
            Some(self.0.join(","))
        } else {
            serde_json::to_string(&self.0).ok()
        }
    }
}

/// Declares an enum that is an option's type: variants with the texts that are accepted, the first
/// of which is printed.
macro_rules! choices {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $first:literal $(| $other:literal)*),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant),*
        }
        impl $name {
            /// The texts by which a configuration names the variants, one for each variant in the order of
            /// declaration. Other spellings that are also accepted are not among them.
            pub const NAMES: &[&str] = &[$($first),*];

            /// Returns the text by which a configuration names the variant; its parser accepts this text in any case.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $first),*
                }
            }
        }
        impl $crate::OptionValue for $name {
            fn kind() -> String {
                format!("one of {}", Self::NAMES.join(", "))
            }
            fn parse(text: &str) -> Option<Self> {
                match text.trim().to_ascii_lowercase().as_str() {
                    $($first $(| $other)* => Some(Self::$variant),)*
                    _ => None,
                }
            }
            fn show(&self) -> Option<String> {
                Some(self.as_str().to_owned())
            }
        }
    };
}
pub(crate) use choices;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ports_are_tried_in_the_order_written() {
        let ports = PortSpec::parse("6125, 6123-6124").unwrap();
        assert_eq!(ports.iter().collect::<Vec<_>>(), [6125, 6123, 6124]);
        assert_eq!(ports.to_string(), "6125,6123-6124");
        assert!(PortSpec::one(6123).is_fixed() && !PortSpec::any().is_fixed() && !ports.is_fixed());
        for wrong in ["", "70000", "10-5", "a", "1-", "0-7", ",", "1,,2", "1,"] {
            assert_eq!(PortSpec::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_log_filter_that_is_no_level_is_not_taken_for_the_name_of_a_part() {
        for right in ["info", "WARN", "info,actors=debug", "actors::rpc=trace, warn"] {
            assert_eq!(LogFilter::parse(right).unwrap().to_string(), right);
        }
        for wrong in ["", "bogus", "inffo,foo=", "info,", "actors", "=debug", "info,actors=no"] {
            assert_eq!(LogFilter::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_list_element_may_hold_a_separator_in_json() {
        assert_eq!(List::parse("a, b;c").unwrap().0, ["a", "b", "c"]);
        assert_eq!(List::parse(r#"["a,b", "c"]"#).unwrap().0, ["a,b", "c"]);
        assert_eq!(List::parse("[1]"), None);
    }

    proptest! {
        #[test]
        fn what_is_shown_parses_back(
            parts in proptest::collection::vec(".{0,6}", 0..5),
            ms in 0_u64..10_000_000_000,
            from in 1_u16.., more in 0_u16..9,
        ) {
            let list = List(parts);
            prop_assert_eq!(list.show().and_then(|s| List::parse(&s)), Some(list));
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&show_duration(duration)), Some(duration));
            let ports = PortSpec::of_parts([&*format!("{from}-{}", from.saturating_add(more)), "0"]).unwrap();
            prop_assert_eq!(ports.show().and_then(|s| PortSpec::parse(&s)), Some(ports));
        }

        #[test]
        fn no_text_makes_a_parser_panic(text in ".{0,40}") {
            let _ = (parse_duration(&text), PortSpec::parse(&text), List::parse(&text), f64::parse(&text));
        }
    }
}
