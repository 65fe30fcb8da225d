//! Typed readers of properties. A value of the wrong type is an error that names the property; it must never
//! quietly become a default.

use super::{ConfError, Configuration};
use std::time::Duration;

impl Configuration {
    /// Returns a property's expanded value without blanks around it; `None` if the property is not set, empty or only
    /// blanks.
    ///
    /// # Errors
    /// Fails with [`ConfError::Expansion`] if the value's `${…}` never stop expanding.
    pub fn get_trimmed(&self, name: &str) -> Result<Option<String>, ConfError> {
        let value = self.get(name)?.map(|value| value.trim().to_owned());
        Ok(value.filter(|value| !value.is_empty()))
    }

    /// Returns the expanded value, without blanks around it, of a property that must be set; a reference `${…}` to
    /// nothing known stays. `why` says in the error what the property is needed for.
    ///
    /// # Errors
    /// Fails with [`ConfError::Missing`] and `why` if the property is not set, empty or only blanks;
    /// [`ConfError::Expansion`] if the value never stops expanding (more than 20 replacements, or 1 MiB).
    pub fn require(&self, name: &str, why: &'static str) -> Result<String, ConfError> {
        let missing = || ConfError::Missing { name: name.to_owned(), why };
        self.get_trimmed(name)?.ok_or_else(missing)
    }

    /// Reads a property as `true` or `false`, in upper or lower case; `None` if it is not set or empty.
    ///
    /// # Errors
    /// Fails with [`ConfError::Type`] for any other value, [`ConfError::Expansion`] if its `${…}` never stop expanding.
    pub fn get_bool(&self, name: &str) -> Result<Option<bool>, ConfError> {
        match self.get_trimmed(name)?.map(|value| value.to_ascii_lowercase()).as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(wrong(name, "true or false")),
        }
    }

    /// Reads a property as a whole number, decimal or `0x…`; `None` if it is not set or empty.
    ///
    /// # Errors
    /// Fails with [`ConfError::Type`] for any other value, [`ConfError::Expansion`] if its `${…}` never stop expanding.
    pub fn get_i64(&self, name: &str) -> Result<Option<i64>, ConfError> {
        let Some(value) = self.get_trimmed(name)? else { return Ok(None) };
        integer(&value).map(Some).ok_or_else(|| wrong(name, "a whole number"))
    }

    /// Reads a property as a duration: a whole number with `ns`, `us`, `ms`, `s`, `m`, `h` or `d`, perhaps after spaces and in capital
    /// letters, or a bare number of milliseconds; `None` if it is not set or empty.
    ///
    /// # Errors
    /// Fails with [`ConfError::Type`] for any other value, such as a negative one; [`ConfError::Expansion`] if its
    /// `${…}` never stop expanding.
    pub fn get_duration(&self, name: &str) -> Result<Option<Duration>, ConfError> {
        let Some(value) = self.get_trimmed(name)? else { return Ok(None) };
        let expected = "a duration, such as 500, 500ms or 2m";
        duration(&value).map(Some).ok_or_else(|| wrong(name, expected))
    }

    /// Reads a property as a number of bytes: a whole number, perhaps with `k`, `m`, `g`, `t` or `p` for powers of 1024 and
    /// a `b` after it, in lower or upper case; `None` if it is not set or empty.
    ///
    /// # Errors
    /// Fails with [`ConfError::Type`] for any other value, [`ConfError::Expansion`] if its `${…}` never stop expanding.
    pub fn get_bytes(&self, name: &str) -> Result<Option<u64>, ConfError> {
        let Some(value) = self.get_trimmed(name)? else { return Ok(None) };
        bytes(&value)
            .map(Some)
            .ok_or_else(|| wrong(name, "a number of bytes, such as 1048576 or 1m"))
    }

    /// Reads a property as a list: the parts between commas, trimmed, without empty ones. An empty list if it is not
    /// set.
    ///
    /// # Errors
    /// Fails with [`ConfError::Expansion`] if the value's `${…}` never stop expanding.
    pub fn get_list(&self, name: &str) -> Result<Vec<String>, ConfError> {
        let value = self.get(name)?.unwrap_or_default();
        let parts = value.split(',').map(str::trim).filter(|part| !part.is_empty());
        Ok(parts.map(str::to_owned).collect())
    }
}

fn wrong(name: &str, expected: &'static str) -> ConfError {
    ConfError::Type { name: name.to_owned(), expected }
}

fn integer(value: &str) -> Option<i64> {
    let (sign, digits) = match value.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", value),
    };
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        // A sign inside would be taken by the parser as well.
        Some(hex) if !hex.starts_with(['+', '-']) => {
            i64::from_str_radix(&format!("{sign}{hex}"), 16).ok()
        }
        Some(_) => None,
        None => value.parse().ok(),
    }
}

fn duration(value: &str) -> Option<Duration> {
    let value = value.to_ascii_lowercase();
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let seconds = |factor: u64| number.checked_mul(factor).map(Duration::from_secs);
    match unit.trim() {
        "ns" => Some(Duration::from_nanos(number)),
        "us" => Some(Duration::from_micros(number)),
        "" | "ms" => Some(Duration::from_millis(number)),
        "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(3600),
        "d" => seconds(86_400),
        _ => None,
    }
}

fn bytes(value: &str) -> Option<u64> {
    let value = value.to_ascii_lowercase();
    let value = value.strip_suffix('b').unwrap_or(&value);
    let shift = match value.chars().last()? {
        'k' => 10,
        'm' => 20,
        'g' => 30,
        't' => 40,
        'p' => 50,
        _ => return value.parse().ok(),
    };
    let number: u64 = value.get(..value.len() - 1)?.trim().parse().ok()?;
    number.checked_mul(1 << shift)
}
