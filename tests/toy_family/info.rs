//! Facts of the toy family, as `safelight_core::model::family` sees it.

use super::{FamilyInfo, TinyDecoderRules};
use crate::model::detection_rules;

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "toy",
    label: "Toy",
    names: &["safelighttoy"],
    guidance_is_cfg: false,
    step_caches: |_| &[],
    matrices_a_block: |_| 1.0,
    kinds: detection_rules! { "toy" "transformer" "a Toy transformer": "toy.mix.weight"; },
    tiny_decoder: TinyDecoderRules::of(&["toy"]),
    ..FamilyInfo::IMAGES
};
