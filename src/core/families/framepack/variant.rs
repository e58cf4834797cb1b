//! The two FramePacks, whose tensors are the same: names tell them apart, and their user may.

use crate::model::choices::SectionOrder;

pub(super) fn name(order: SectionOrder) -> &'static str {
    match order {
        SectionOrder::Original => "I2V",
        SectionOrder::F1 => "F1",
    }
}

/// Which of them names say that a model is: the first FramePack where they say nothing.
pub(super) fn of_names(names: &[&str]) -> SectionOrder {
    let is_f1 = |name: &&str| {
        let name = name.to_lowercase();
        let mut words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.any(|word| word == "f1" || word.starts_with("framepackf1"))
    };
    if names.iter().any(is_f1) {
        SectionOrder::F1
    } else {
        SectionOrder::Original
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_f1_from_the_first_framepack() {
        for (name, expected) in [
            ("FramePackI2V_HY", SectionOrder::Original),
            ("FramePackI2V_HY_fp8_e4m3fn", SectionOrder::Original),
            ("lllyasviel/FramePack_F1_I2V_HY_20250503", SectionOrder::F1),
            ("FramePackF1_I2V_HY_bf16", SectionOrder::F1),
            ("framepack-f1-q4_k", SectionOrder::F1),
            ("buff1", SectionOrder::Original),
        ] {
            assert_eq!(of_names(&["transformer", name]), expected, "{name}");
        }
    }
}
