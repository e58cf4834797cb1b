//! The compiled maps of characters in a `tokenizer.json`: refused where they are damaged, because the library that reads
//! them stops the program then.

use serde_json::Value;

use super::spiece::is_sound_charsmap;

/// Key of such a map, in any part of the file.
const KEY: &str = "precompiled_charsmap";

/// Checks every map in a normalizer.
pub(super) fn check(normalizer: &Value) -> Result<(), String> {
    let mut waiting = vec![normalizer];
    while let Some(step) = waiting.pop() {
        waiting.extend(step["normalizers"].as_array().into_iter().flatten());
        let map = step.get(KEY);
        if map.is_none() && step["type"] != "Precompiled" {
            continue;
        }
        let bytes = map.and_then(Value::as_str).and_then(from_base64);
        if !bytes.is_some_and(|bytes| is_sound_charsmap(&bytes)) {
            return Err("its map of characters is damaged".to_owned());
        }
    }
    Ok(())
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').bytes().map(|digit| {
        Some(u32::from(match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        }))
    });
    let digits = digits.collect::<Option<Vec<u32>>>()?;
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    for group in digits.chunks(4) {
        let joined = group.iter().fold(0, |all, digit| all << 6 | digit) << (6 * (4 - group.len()));
        let [_, content @ ..] = joined.to_be_bytes();
        // Four digits make three bytes; of fewer, those that they fill.
        bytes.extend(&content[..group.len() * 6 / 8]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn base64_is_read_with_and_without_its_padding() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zg", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYg==", b"foob"),
            ("//79", b"\xff\xfe\xfd"),
        ] {
            assert_eq!(from_base64(text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(from_base64("a b"), None);
    }

    #[test]
    fn damaged_charsmap_is_refused_at_any_nesting_level() {
        let map = json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="});
        let inside = json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, map]});
        let without_type = json!({"precompiled_charsmap": 3});
        for damaged in [
            &map,
            &inside,
            &without_type,
            &json!({"type": "Precompiled"}),
        ] {
            assert!(check(damaged).is_err(), "{damaged}");
        }
        for sound in [json!(null), json!({"type": "NFC"})] {
            assert!(check(&sound).is_ok(), "{sound}");
        }
    }
}
