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

/// The fault of a text that begins as JSON and is none.
pub(super) fn fault(text: &str) -> Option<String> {
    let is_json = text.trim_start().starts_with(['{', '[']) && parse(text).is_none();
    let read = || serde_json::from_str::<serde::de::IgnoredAny>(text);
    is_json.then(read)?.err().map(|err| err.to_string())
}

/// Makes texts of the numbers that Python writes and JSON does not know.
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
                out.extend(["\"", word, "\""]);
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

/// An object whose members are looked up by any of several names, such as `"steps, num_steps"`, in any case and with any
/// signs between the words. Collects the names of those that were understood.
#[derive(Clone, Copy)]
pub(super) struct JsonFields<'a>(pub &'a Map<String, Value>, Option<&'a ReadNames>);

/// Objects of a list, such as the nodes of a workflow.
const MAX_OBJECTS: usize = 20_000;

/// Members whose names are compared leniently: no program writes more.
const MAX_SEARCHED: usize = 2000;

/// Shortest name of a switch whose members are found by their beginning.
const MIN_SWITCH_BYTES: usize = 5;

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

    /// The members that say something and were not read, without those that a member of the same beginning turns off.
    pub fn unread(self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let says = |value: &Value| match value {
            Value::Null => false,
            Value::Bool(is_on) => *is_on,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(text) => !matches!(text.trim(), "" | "None" | "0" | "false" | "False"),
            Value::Array(list) => !list.is_empty(),
            Value::Object(object) => !object.is_empty(),
        };
        let is_read = move |name: &str| self.1.is_some_and(|read| read.borrow().contains(name));
        let off = self.0.iter().filter(|(name, value)| {
            name.len() >= MIN_SWITCH_BYTES && value.as_bool() == Some(false)
        });
        let off: Vec<&str> = off.map(|(name, _)| name.as_str()).take(100).collect();
        let members = self.0.iter().map(|(name, value)| (name.as_str(), value));
        members.filter(move |(name, value)| {
            says(value) && !is_read(name) && !off.iter().any(|off| name.starts_with(off))
        })
    }

    /// The first member of one of these names that `convert` understands; any other stays unread.
    pub fn read<T>(
        self,
        names: &str,
        mut convert: impl FnMut(&'a Value) -> Option<T>,
    ) -> Option<T> {
        names.split(", ").find_map(|name| {
            let mut near = self.0.iter().take(MAX_SEARCHED);
            let exact = self.0.get_key_value(name);
            let (key, value) = exact.or_else(|| near.find(|(key, _)| is_called(key, name)))?;
            let value = convert(value)?;
            if let Some(read) = self.1 {
                read.borrow_mut().insert(key.clone());
            }
            Some(value)
        })
    }

    /// The first that is there and not null.
    pub fn get(self, names: &str) -> Option<&'a Value> {
        self.read(names, |value| (!value.is_null()).then_some(value))
    }

    pub fn has(self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns whether there is a member of this name in any letters, whatever it holds.
    pub fn has_like(self, name: &str) -> bool {
        let mut names = self.0.keys().take(MAX_SEARCHED);
        names.any(|key| is_called(key, name))
    }

    pub fn object(self, names: &str) -> Option<Self> {
        self.read(names, Self::from_value)
    }

    pub fn list(self, names: &str) -> &'a [Value] {
        let list = self.read(names, Value::as_array);
        list.map_or(&[], Vec::as_slice)
    }

    /// Objects in a list, of which more than [`MAX_OBJECTS`] are not read.
    pub fn objects(self, names: &str) -> impl Iterator<Item = Self> {
        let list = self.list(names).iter().take(MAX_OBJECTS);
        list.filter_map(Self::from_value)
    }

    pub fn text(self, names: &str) -> Option<String> {
        self.read(names, Value::as_str).map(str::to_owned)
    }

    /// A text that is not empty.
    pub fn name(self, names: &str) -> Option<String> {
        let text = self.read(names, |value| {
            value.as_str().filter(|text| !text.trim().is_empty())
        });
        text.map(str::to_owned)
    }

    pub fn number(self, names: &str) -> Option<f64> {
        self.read(names, number)
    }

    pub fn count(self, names: &str) -> Option<u32> {
        self.read(names, count)
    }

    /// Two edges, in pixels: from a text or a list.
    pub fn size(self, names: &str) -> Option<(u32, u32)> {
        self.read(names, |value| match value.as_array().map(Vec::as_slice) {
            Some([width, height]) => Some((count(width)?, count(height)?)),
            _ => size(value.as_str()?),
        })
    }

    pub fn is_on(self, names: &str) -> bool {
        let is_on = self.read(names, |value| match value {
            Value::Bool(is_on) => Some(*is_on),
            Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
            value => number(value).map(|number| number != 0.0),
        });
        is_on.unwrap_or_default()
    }
}

/// Returns whether a key is a name in other letters: `CFG scale` and `cfgScale` are `cfg_scale`.
pub(super) fn is_called(key: &str, name: &str) -> bool {
    let [key, name] = [key, name].map(|text| {
        let letters = text.bytes().filter(u8::is_ascii_alphanumeric);
        letters.map(|letter| letter.to_ascii_lowercase())
    });
    key.eq(name)
}

/// A value as a sentence can hold it, a text without its marks.
pub(super) fn written(value: &Value) -> String {
    let text = value.as_str().map(str::to_owned);
    text.unwrap_or_else(|| value.to_string())
}

/// A finite number, also one that is written as a text, with a point or a comma before its decimals.
pub(super) fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().replace(',', ".").parse().ok(),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}

/// A whole number above 0. Computed ones are rounded; a text such as `1,024` is not guessed.
pub(super) fn count(value: &Value) -> Option<u32> {
    let number = number(value)?;
    let is_whole = value.is_number() || number.fract() == 0.0;
    let number = number.round();
    (is_whole && number >= 1.0 && number <= f64::from(u32::MAX)).then_some(number as u32)
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

/// `832x480`, `1024 × 1024`, `1280*720`, `(896, 1152)`, `720x1280 (9:16)`.
pub(super) fn size(text: &str) -> Option<(u32, u32)> {
    let text = text.split_once(" (").map_or(text, |(size, _)| size);
    let text = text.trim().trim_start_matches('(').trim_end_matches(')');
    let (width, height) = text.split_once(['x', 'X', '×', '*', ','])?;
    let edge = |text: &str| text.trim().parse::<u32>().ok().filter(|edge| *edge > 0);
    Some((edge(width)?, edge(height)?))
}

/// Number of a text.
pub(super) fn number_of_text(value: &str) -> Option<f64> {
    number(&value.into())
}
