//! Names of widgets' values on a canvas, which writes the values in a row.

use std::collections::BTreeMap;

use serde_json::Value;

use super::NodeInput;
use crate::restore::fields::JsonFields;

/// Names of the widgets of nodes that matter, in their order; for drawings that do not name them.
const ORDERS: &str = "\
KSampler: seed steps cfg sampler_name scheduler denoise
KSamplerAdvanced: add_noise noise_seed steps cfg sampler_name scheduler start_at_step end_at_step return_with_leftover_noise
SamplerCustom: add_noise noise_seed cfg
RandomNoise: noise_seed
BasicScheduler: scheduler steps denoise
Flux2Scheduler: steps width height
KSamplerSelect: sampler_name
CFGGuider: cfg
FluxGuidance: guidance
ModelSamplingSD3 / ModelSamplingAuraFlow: shift
ModelSamplingFlux: max_shift base_shift width height
CLIPTextEncode: text
CLIPTextEncodeFlux: clip_l t5xxl guidance
EmptyLatentImage / EmptySD3LatentImage / EmptyFlux2LatentImage: width height batch_size
EmptyHunyuanLatentVideo / Wan22ImageToVideoLatent / WanImageToVideo / WanFirstLastFrameToVideo: width height length batch_size
WanVaceToVideo: width height length batch_size strength
LoraLoader: lora_name strength_model strength_clip
LoraLoaderModelOnly: lora_name strength_model
UNETLoader: unet_name weight_dtype
UnetLoaderGGUF: unet_name
CheckpointLoaderSimple: ckpt_name
LoadImage: image
KSampler (Efficient): seed steps cfg sampler_name scheduler denoise preview_method vae_decode
Efficient Loader: ckpt_name vae_name clip_skip lora_name lora_model_strength lora_clip_strength positive negative token_normalization weight_interpretation empty_latent_width empty_latent_height batch_size
CR LoRA Stack: switch_1 lora_name_1 model_weight_1 clip_weight_1 switch_2 lora_name_2 model_weight_2 clip_weight_2 switch_3 lora_name_3 model_weight_3 clip_weight_3
WanMoeKSampler: boundary add_noise noise_seed steps cfg_high_noise cfg_low_noise sampler_name scheduler sigma_shift start_at_step end_at_step return_with_leftover_noise
UltimateSDUpscale: upscale_by seed steps cfg sampler_name scheduler denoise mode_type tile_width tile_height
LatentUpscale / ImageScale: upscale_method width height crop
LatentUpscaleBy / ImageScaleBy: upscale_method scale_by
ImageScaleToTotalPixels: upscale_method megapixels
UpscaleModelLoader: model_name
ControlNetLoader: control_net_name
ControlNetApplyAdvanced: strength start_percent end_percent
StringConcatenate: string_a string_b delimiter
StringReplace: string find replace
Text Concatenate: delimiter clean_whitespace
TextEncodeQwenImageEdit / TextEncodeQwenImageEditPlus: prompt
PrimitiveInt / PrimitiveFloat / PrimitiveBoolean / PrimitiveString / PrimitiveStringMultiline: value
ImpactWildcardProcessor: wildcard_text populated_text mode seed
ShowText|pysssss: text_0
CreateVideo: fps
SaveAnimatedWEBP: filename_prefix fps
SaveWEBM: filename_prefix codec fps crf
PrimitiveNode: value
WanVideoModelLoader: model
WanVideoLoraSelect: lora strength
WanVideoTextEncode: positive_prompt negative_prompt
WanVideoEmptyEmbeds: width height num_frames
WanVideoSampler: steps cfg shift seed force_offload scheduler
SplitSigmas: step
SplitSigmasDenoise: denoise
ConditioningAverage: conditioning_to_strength";

/// Widget values of a node by name. `subgraph`: widget names of the subgraph, if the node is one.
pub(super) fn values(
    class: &str,
    node: JsonFields<'_>,
    subgraph: &[String],
) -> BTreeMap<String, NodeInput> {
    let value = |(name, value): (&str, &Value)| (name.to_owned(), NodeInput::Value(value.clone()));
    let objects = ["widgets_values_named", "widgets_values"];
    if let Some(named) = objects.iter().find_map(|name| node.object(name)) {
        let named = named.0.iter();
        return named.map(|(name, it)| value((name, it))).collect();
    }
    let row = node.list("widgets_values");
    // The node itself may list only some of them.
    if !subgraph.is_empty() && row.len() == subgraph.len() {
        let named = subgraph.iter().map(String::as_str).zip(row);
        return named.map(value).collect();
    }
    // Newer drawings name each widget among the inputs, linked or not.
    let named: Vec<&str> = node
        .list("inputs")
        .iter()
        .filter_map(|input| {
            let widget = JsonFields::from_value(input)?.object("widget")?;
            widget.get("name")?.as_str()
        })
        .collect();
    let mut orders = ORDERS.lines().filter_map(|line| line.split_once(": "));
    let known = orders.find(|(classes, _)| classes.split(" / ").any(|known| known == class));
    let known: Vec<&str> = known.map_or(Vec::new(), |(_, names)| names.split(' ').collect());
    // If only some widgets were made inputs, as in older workflows, they name too few.
    let names = if named.len() < known.len() {
        known
    } else {
        named
    };
    let mut names = names.into_iter();
    let mut found = BTreeMap::new();
    let mut is_after_seed = false;
    for it in row {
        // A display's text may be a list of one.
        let it = match it.as_array().map(Vec::as_slice) {
            Some([only @ Value::String(_)]) => only,
            _ => it,
        };
        // After a seed: its change after each run.
        let controls = ["fixed", "increment", "decrement", "randomize"];
        let is_control =
            is_after_seed && (it.is_null() || controls.iter().any(|control| it == control));
        is_after_seed = false;
        if is_control {
            continue;
        }
        // An unnamed value may still be found as the only text or number.
        let Some(name) = names.next() else {
            if row.len() == 1 {
                found.extend([value(("value", it))]);
            }
            break;
        };
        is_after_seed = matches!(name, "seed" | "noise_seed" | "value");
        found.extend([value((name, it))]);
    }
    // Loaders of many LoRAs keep an object for each.
    let is_lora = |it: &&Value| it.get("lora").is_some();
    found.retain(|_, it| !matches!(it, NodeInput::Value(it) if is_lora(&&*it)));
    let objects = row.iter().filter(is_lora).enumerate();
    found
        .extend(objects.map(|(index, it)| (format!("lora_{index}"), NodeInput::Value(it.clone()))));
    found
}
