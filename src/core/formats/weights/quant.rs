//! Storage of a layer: ComfyUI's `<layer>.comfy_quant`, bytes of JSON.
//!
//! Only read for int8: `float8_…` there adds nothing to the dtype.

use serde::Deserialize;

/// Tensor next to a matrix that gives its storage.
pub const QUANT: &str = "comfy_quant";
/// More than any layer says.
pub const MAX_QUANT_BYTES: u64 = 4096;

const INT8: &str = "int8_tensorwise";
/// The group that ComfyUI takes where a layer says none.
const GROUP: u64 = 256;
/// The largest group whose rotated codes are exact in f32, with room to spare.
const LARGEST_GROUP: u64 = 4096;

#[derive(Deserialize)]
struct QuantNote {
    format: String,
    #[serde(default)]
    convrot: bool,
    convrot_groupsize: Option<u64>,
}

/// Number of columns of an int8 matrix that are rotated together, a power of four that divides its `columns`; `None`
/// without rotation. `json`: the metadata bytes. The error is a noun phrase for an unsupported storage.
pub fn int8_group(json: &[u8], columns: u64) -> Result<Option<i64>, String> {
    let Ok(said) = serde_json::from_slice::<QuantNote>(json) else {
        return Err("8-bit whole numbers that do not say how they are stored".to_owned());
    };
    if said.format != INT8 {
        // Untrusted text is truncated.
        let format: String = said.format.chars().take(40).collect();
        return Err(format!("8-bit whole numbers of another format ({format})"));
    }
    if !said.convrot {
        return Ok(None);
    }
    let group = said.convrot_groupsize.unwrap_or(GROUP);
    let is_power_of_four = group.is_power_of_two() && group.trailing_zeros().is_multiple_of(2);
    if group < 4 || group > LARGEST_GROUP || !is_power_of_four {
        return Err(format!(
            "8-bit whole numbers rotated in groups of {group}, which is no power of four"
        ));
    }
    if !columns.is_multiple_of(group) {
        return Err(format!(
            "8-bit whole numbers rotated in groups of {group}, which do not fill rows of {columns}"
        ));
    }
    Ok(i64::try_from(group).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_powers_of_four_that_fill_a_row_and_other_formats_are_named() {
        let rotated = br#"{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 64}"#;
        assert_eq!(int8_group(rotated, 192), Ok(Some(64)));
        let usual = br#"{"format": "int8_tensorwise", "convrot": true}"#;
        assert_eq!(int8_group(usual, 512), Ok(Some(256)));
        for plain in [
            &br#"{"format": "int8_tensorwise"}"#[..],
            br#"{"format": "int8_tensorwise", "convrot": false, "convrot_groupsize": 256}"#,
        ] {
            assert_eq!(int8_group(plain, 7), Ok(None));
        }
        for (json, columns, part) in [
            (&rotated[..], 100, "do not fill rows of 100"),
            (
                br#"{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 128}"#,
                256,
                "groups of 128, which is no power of four",
            ),
            (
                br#"{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 0}"#,
                256,
                "groups of 0",
            ),
            (br#"{"format": "int8_blockwise"}"#, 256, "int8_blockwise"),
            (b"nothing", 256, "do not say how"),
        ] {
            let reason = int8_group(json, columns).unwrap_err();
            assert!(reason.contains(part), "{reason}");
        }
    }
}
