//! ControlNets of FLUX.1: those in diffusers' names, plain and union, recognised by header alone, and others, which are
//! named and refused.

use std::path::Path;

use crate::families::prelude::*;
use crate::model::ControlKind;
use crate::networks::FluxControlConfig;
use crate::networks::dialects::TensorKeys;

/// Kinds of control images of the unions with a table of kinds, in the order of its rows: the cards of InstantX's
/// FLUX.1-dev-Controlnet-Union and of Shakker-Labs' FLUX.1-dev-ControlNet-Union-Pro, whose tables have ten rows.
const KINDS: [ControlKind; 7] = [
    ControlKind::Edges,
    ControlKind::Tile,
    ControlKind::Depth,
    ControlKind::Blur,
    ControlKind::Pose,
    ControlKind::Gray,
    ControlKind::LowQuality,
];

/// The row for a kind of control image.
pub fn mode(kind: ControlKind) -> Option<i64> {
    let found = KINDS.iter().position(|known| *known == kind);
    found.map(|number| number as i64)
}

/// A tensor of networks alone that read pixels: XLabs' and TheMisto's.
const PIXELS: &str = "input_hint_block.0.weight";
/// Another tensor of such a network, in either dialect.
const READS_PIXELS: [&str; 2] = ["controlnet_blocks.0.weight", "controlnet_x_embedder.weight"];

pub(super) fn find(
    weights: &WeightSet,
    place: &Path,
) -> Option<Result<ControlNetwork, CatalogError>> {
    let refused = |reason: &str| Some(Err(CatalogError::config(reason, place)));
    let union = "Shakker-Labs' FLUX.1-dev-ControlNet-Union-Pro-2.0 does";
    if weights.has(PIXELS) && READS_PIXELS.iter().any(|key| weights.has(key)) {
        return refused(&format!(
            "this is a ControlNet of FLUX.1 that reads pixels, as XLabs' do, which does not run here; {union}"
        ));
    }
    TensorKeys::<FluxControlConfig>::detect(|key| weights.has(key))?;
    let width = |key: &str| weights.tensors.get(key)?.shape.get(1).copied();
    let [noise, control] =
        ["x_embedder.weight", "controlnet_x_embedder.weight"].map(|key| width(key).unwrap_or(0));
    if control > noise {
        return refused(
            "this is a ControlNet of FLUX.1 that reads a mask with its image, which does not run here; \
             FLUX.1 Fill makes a part of an image anew, and so does FLUX.1 dev with a mask",
        );
    }
    control_net(weights, place, |config: &FluxControlConfig| {
        let num_kinds = config.num_mode.unwrap_or(0).clamp(0, KINDS.len() as i64);
        ControlNetwork {
            family: super::FAMILY,
            label: if config.num_mode.is_some() {
                "FLUX.1 ControlNet Union"
            } else {
                "FLUX.1 ControlNet"
            },
            kinds: &KINDS[..num_kinds as usize],
            takes_masks: false,
        }
    })
}
