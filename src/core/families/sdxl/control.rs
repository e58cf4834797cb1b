//! ControlNets of SDXL in diffusers' names, plain and xinsir's unions, recognised by header alone, and others, which are
//! named and refused.

use std::path::Path;

use crate::families::prelude::*;
use crate::model::ControlKind;
use crate::networks::SdxlControlConfig;

/// Control types of unions, in the order of [`NUMBERS`]: the card of xinsir's controlnet-union-sdxl-1.0.
const KINDS: [ControlKind; 10] = [
    ControlKind::Pose,
    ControlKind::Depth,
    ControlKind::SoftEdges,
    ControlKind::Scribble,
    ControlKind::Edges,
    ControlKind::StraightLines,
    ControlKind::Normals,
    ControlKind::Segments,
    ControlKind::Tile,
    ControlKind::Inpaint,
];
/// The first union has six numbers, ProMax eight.
const NUMBERS: [i64; KINDS.len()] = [0, 1, 2, 2, 3, 3, 4, 5, 6, 7];

/// The number of a control type in unions.
pub fn type_number(kind: ControlKind) -> Option<i64> {
    let found = KINDS.iter().position(|known| *known == kind)?;
    Some(NUMBERS[found])
}

pub(super) fn find(
    weights: &WeightSet,
    place: &Path,
) -> Option<Result<ControlNetwork, CatalogError>> {
    let has_end = |end: &str| weights.shape_by_end(&[end]).is_some();
    let mut keys = weights.tensors.keys();
    let other = if weights.has("lora_controlnet") {
        Some("a control LoRA of SDXL")
    } else if keys.any(|key| key.starts_with("lllite_unet")) {
        Some("a ControlNet-LLLite of SDXL")
    } else if has_end("input_hint_block.0.weight") && has_end("label_emb.0.0.weight") {
        Some("an SDXL ControlNet in the names of Stability's code")
    } else {
        None
    };
    if let Some(what) = other {
        let reason = format!(
            "this is {what}, which does not run here; those in diffusers' names do, such as xinsir's \
             controlnet-union-sdxl-1.0"
        );
        return Some(Err(CatalogError::config(reason, place)));
    }
    control_net(weights, place, |config: &SdxlControlConfig| {
        let types = config.num_control_type.unwrap_or(0);
        let known = NUMBERS.iter().filter(|number| **number < types).count();
        ControlNetwork {
            family: super::FAMILY,
            label: if types > 0 {
                "SDXL ControlNet Union"
            } else {
                "SDXL ControlNet"
            },
            kinds: &KINDS[..known],
            takes_masks: false,
        }
    })
}
