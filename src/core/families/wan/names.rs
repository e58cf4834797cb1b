//! Evidence in the names of Wan's files that no header has: the generation, and the expert that a file is.

use crate::library::names::{NoiseSide, possible_side, side_at_end};

/// The side that the name of a text-to-video transformer means, whose header is the same in Wan 2.1 and in an expert of
/// Wan 2.2: any word for one where the file or its folder is named after Wan 2.2, and in a name that leaves the
/// generation open `high` or `low` at its end, as of a 14B model.
///
/// `wan_high_quality` means none, and a Wan 2.2 without such a word is one that was merged into one file.
pub(super) fn implied_side(name: &str, folder: &str, is_14b: bool) -> Option<NoiseSide> {
    match generation(name).or_else(|| generation(folder)) {
        Some("2.2") => possible_side(name),
        None if is_14b => side_at_end(name),
        _ => None,
    }
}

/// `Wan2_2-T2V`, `wan22`, `t2v-A14B`: which generation of Wan a name states.
fn generation(name: &str) -> Option<&'static str> {
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    let letters = letters.to_lowercase();
    let mut parts = name.split(|c: char| !c.is_alphanumeric());
    if letters.contains("wan21") {
        Some("2.1")
    } else if letters.contains("wan22") || parts.any(|part| part.eq_ignore_ascii_case("a14b")) {
        Some("2.2")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_of_a_text_model_is_implied_by_the_generation_or_by_the_end_of_a_name() {
        use NoiseSide::{High, Low};
        for (name, folder, side) in [
            ("Wan2_2-T2V-A14B-HIGH_bf16", "", Some(High)),
            ("wan22_t2v_low_fp16", "", Some(Low)),
            ("t2v-A14B-high-Q8", "", Some(High)),
            ("wan22Enhanced_fp8H", "", Some(High)),
            ("t2v_low", "Wan2.2", Some(Low)),
            ("wan_t2v_14B_HIGH_bf16", "", Some(High)),
            ("t2vHigh_14B_fp8_e4m3fn_scaled", "", Some(High)),
            ("wan_t2v_high_v2", "", None),
            ("wan_high_quality", "", None),
            ("wan2.1_t2v_14B_high", "wan2.2", None),
            ("wan2.2-t2v-rapid", "", None),
            ("wan2.2_high_low_merge", "", None),
            ("my_lora14b_t2v_l", "", None),
        ] {
            assert_eq!(implied_side(name, folder, true), side, "{name}");
        }
        assert_eq!(implied_side("wan_t2v_HIGH", "", false), None);
    }
}
