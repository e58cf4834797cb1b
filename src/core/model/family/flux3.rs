//! FLUX.3 klein.

use super::info::{FamilyInfo, readable_files};
use crate::model::detection_rules;

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "flux3",
    label: "FLUX.3",
    models: "FLUX.3 klein",
    names: &["flux3"],
    wan2gp_types: &["flux3"],
    // 12 in a block; the fifteen blocks of modes, and what all share, are spread over the thirty-three.
    matrices_a_block: |_| 17.8,
    kinds: detection_rules! {
        "flux3" "transformer" "a FLUX.3 transformer in the original layout": "early_stream_modulations.image.lin.weight";
        "flux3" "transformer" "a FLUX.3 transformer": "early_stream_modulations.image.linear.weight";
    },
    // Distilled and base differ in an embedder.
    published_name: |weights| {
        let shape = weights.shape_by_end(&["txt_in.weight", "context_embedder.weight"])?;
        (shape == [3072, 20_480]).then_some("FLUX.3 klein 5.6B")
    },
    instead: readable_files! {
        "vae": "flux2-vae.safetensors from Comfy-Org/flux2-dev";
        "transformer": "the files of black-forest-labs/flux-3-image-klein";
    },
    ..FamilyInfo::IMAGES
};
