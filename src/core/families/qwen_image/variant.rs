//! The variants of Qwen-Image, whose tensors are nearly the same.

use crate::families::prelude::*;

use crate::networks::QwenImageTransformerConfig;

pub(super) const LAYERED: &str = "a Qwen-Image-Layered model";
pub(super) const FIRST_EDIT: &str = "the first Qwen-Image-Edit model (2509 and 2511 run)";
/// Its tensors equal 2509's, so a 2509 file may have this name.
const FIRST_EDIT_FILE: &str = "the first Qwen-Image-Edit model (2509 and 2511 run; if it is one of them, put that number in its name)";

/// Sees reference images: 2509 and 2511.
pub(super) const EDIT: &str = "Edit";
/// Reference images that a model that edits was trained to see.
const MAX_REFERENCES: u32 = 3;

/// The variant of a transformer, or a noun phrase for one of another kind. Names of the file and its folder alone show 2509,
/// and tell the first Qwen-Image-Edit from it.
pub(super) fn variant(
    config: &QwenImageTransformerConfig,
    hints: &VariantHints<'_>,
) -> Result<ModelVariant, String> {
    if config.use_layer3d_rope || config.use_additional_t_cond {
        return Err(LAYERED.to_owned());
    }
    let edits = match hints.class {
        Some(class) => class.starts_with("QwenImageEdit"),
        None => hints
            .names
            .iter()
            .any(|name| name.to_lowercase().contains("edit")),
    };
    if hints.class.is_none() && !config.zero_cond_t && is_first_edit(hints.names) {
        return Err(FIRST_EDIT_FILE.to_owned());
    }
    // Those that edit have not been trained with the published ControlNets.
    Ok(if config.zero_cond_t || edits {
        ModelVariant {
            start_image: InputUse::No,
            mask: InputUse::No,
            max_references: MAX_REFERENCES,
            ..ModelVariant::new(EDIT)
        }
    } else {
        ModelVariant {
            controls: ControlUse {
                takes_masks: true,
                ..ControlUse::NETWORKS
            },
            ..ModelVariant::new("Image")
        }
    })
}

/// Returns whether names are those of the first Qwen-Image-Edit as published: only a dtype follows `edit`. Finetunes of
/// it or of 2509 have other names.
fn is_first_edit(names: &[&str]) -> bool {
    const STORAGES: [&str; 13] = [
        "fp8", "fp16", "bf16", "f16", "fp32", "int8", "int4", "nvfp4", "mxfp8", "w4a8", "q",
        "gguf", "comfyui",
    ];
    let plain = |name: &&str| -> String {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|c| c.to_ascii_lowercase()).collect()
    };
    let rests: Vec<String> = names
        .iter()
        .map(plain)
        .filter_map(|name| Some(name.split_once("qwenimageedit")?.1.to_owned()))
        .collect();
    let is_storage = |rest: &str| {
        let starts = |storage: &&str| {
            rest.strip_prefix(*storage).is_some_and(|rest| {
                *storage != "q" || rest.starts_with(|c: char| c.is_ascii_digit())
            })
        };
        rest.is_empty() || STORAGES.iter().any(starts)
    };
    !rests.is_empty() && rests.iter().all(|rest| is_storage(rest))
}
