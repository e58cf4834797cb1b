//! Reading JSON of others: leniently in what it holds, strictly in how much of it there may be.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::media::MAX_SETTINGS_BYTES;

/// The JSON object or array in a text. Depth is limited by the parser.
pub(super) fn parse(text: &str) -> Option<Value> {
    let text = text.trim().trim_start_matches('\u{feff}');
    if !text.starts_with(['{', '[']) || text.len() as u64 > MAX_SETTINGS_BYTES {
        return None;
    }
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&without_nan(text)))
        .ok()
}

/// Replaces numbers that Python writes and JSON does not know by `null`.
fn without_nan(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_in_text = false;
    while let Some(at) = rest.find(['"', '\\', 'N', 'I', '-']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let word = ["NaN", "-Infinity", "Infinity"]
            .into_iter()
            .find(|word| !is_in_text && from.starts_with(word));
        let taken = match (word, from.as_bytes()[0]) {
            (Some(word), _) => {
                out.push_str("null");
                rest = &from[word.len()..];
                continue;
            }
            (None, b'\\') => 1 + from[1..].chars().next().map_or(0, char::len_utf8),
            (None, b'"') => {
                is_in_text = !is_in_text;
                1
            }
            (None, _) => 1,
        };
        out.push_str(&from[..taken]);
        rest = &from[taken..];
    }
    out.push_str(rest);
    out
}

/// An object whose members are looked up by any of several names, such as `"steps, num_steps"`, and where the names of
/// those that were found are collected.
#[derive(Clone, Copy)]
pub(super) struct JsonFields<'a>(pub &'a Map<String, Value>, Option<&'a ReadNames>);

/// Names of members that were read.
pub(super) type ReadNames = RefCell<BTreeSet<String>>;

impl<'a> JsonFields<'a> {
    pub fn new(members: &'a Map<String, Value>) -> Self {
        Self(members, None)
    }

    pub fn from_value(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self::new)
    }

    /// Collects the names of its members that are read from now on.
    pub fn noting(self, names: &'a ReadNames) -> Self {
        Self(self.0, Some(names))
    }

    /// The members that say something and were not read.
    pub fn unread(self) -> Vec<&'a str> {
        let says = |value: &Value| match value {
            Value::Null => false,
            Value::Bool(is_on) => *is_on,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(text) => !matches!(text.trim(), "" | "None" | "0" | "false"),
            Value::Array(list) => !list.is_empty(),
            Value::Object(object) => !object.is_empty(),
        };
        let is_read = |name: &str| self.1.is_some_and(|read| read.borrow().contains(name));
        let members = self.0.iter();
        let unread = members.filter(|(name, value)| says(value) && !is_read(name));
        unread.map(|(name, _)| name.as_str()).collect()
    }

    /// The first that is there and not null.
    pub fn get(self, names: &str) -> Option<&'a Value> {
        names.split(", ").find_map(|name| {
            let value = self.0.get(name).filter(|value| !value.is_null())?;
            if let Some(read) = self.1 {
                read.borrow_mut().insert(name.to_owned());
            }
            Some(value)
        })
    }

    pub fn has(self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn object(self, names: &str) -> Option<Self> {
        self.get(names).and_then(Self::from_value)
    }

    pub fn list(self, names: &str) -> &'a [Value] {
        self.get(names)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    pub fn text(self, names: &str) -> Option<String> {
        self.get(names).and_then(Value::as_str).map(str::to_owned)
    }

    /// A text that is not empty.
    pub fn name(self, names: &str) -> Option<String> {
        self.text(names).filter(|text| !text.trim().is_empty())
    }

    pub fn number(self, names: &str) -> Option<f64> {
        self.get(names).and_then(number)
    }

    pub fn count(self, names: &str) -> Option<u32> {
        self.get(names).and_then(count)
    }

    pub fn is_on(self, name: &str) -> bool {
        match self.get(name) {
            Some(Value::Bool(is_on)) => *is_on,
            Some(value) => number(value).is_some_and(|number| number != 0.0),
            None => false,
        }
    }
}

/// A finite number, also one that is written as a text.
pub(super) fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}

/// A whole number above 0.
pub(super) fn count(value: &Value) -> Option<u32> {
    let number = number(value)?.round();
    (number >= 1.0 && number <= f64::from(u32::MAX)).then_some(number as u32)
}

/// A seed; `None` for negative ones, which mean a new one each time.
pub(super) fn seed(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            let number = number.as_f64()?;
            // Beyond 2^53 a float is not exact.
            (number >= 0.0 && number < 9.0e15 && number.fract() == 0.0).then_some(number as u64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A whole number that is larger than any seed, as it was written.
pub(super) fn too_large_seed(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => {
            let large = number.as_f64().filter(|number| *number >= 9.0e15);
            large.map(|number| number.to_string())
        }
        Value::String(text) => {
            let text = text.trim();
            let is_whole = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
            is_whole.then(|| text.chars().take(40).collect())
        }
        _ => None,
    }
    .filter(|_| seed(value).is_none())
}

/// `832x480`, `1024 × 1024`, `1280*720`, `(896, 1152)`.
pub(super) fn size(text: &str) -> Option<(u32, u32)> {
    let text = text.trim().trim_start_matches('(').trim_end_matches(')');
    let (width, height) = text.split_once(['x', 'X', '×', '*', ','])?;
    let edge = |text: &str| text.trim().parse::<u32>().ok().filter(|edge| *edge > 0);
    Some((edge(width)?, edge(height)?))
}
