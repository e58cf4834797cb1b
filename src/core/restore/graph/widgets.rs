//! Names of widgets' values on a canvas, which writes the values in a row.

use std::collections::BTreeMap;

use serde_json::Value;

use super::nodes::NodeInput;
use crate::restore::fields::JsonFields;

/// Names of the widgets of nodes that matter, in their order; for drawings that do not name them.
const ORDERS: &str = "\
KSampler: seed steps cfg sampler_name scheduler denoise
KSamplerAdvanced: add_noise noise_seed steps cfg sampler_name scheduler start_at_step end_at_step return_with_leftover_noise
SamplerCustom: add_noise noise_seed cfg
RandomNoise: noise_seed
Seed (rgthree) / easy seed / Seed / SeedNode / easy globalSeed: seed
ClownsharKSampler_Beta: eta sampler_name scheduler steps steps_to_run denoise cfg seed sampler_mode bongmath
ClownsharkChainsampler_Beta: eta sampler_name steps_to_run cfg sampler_mode bongmath
ClownSampler_Beta: eta sampler_name seed bongmath
ClownSamplerSelector_Beta: sampler_name
SharkSampler_Beta: scheduler steps steps_to_run denoise cfg seed sampler_mode
ClownGuide_Beta: guide_mode channelwise_mode projection_mode weight cutoff weight_scheduler start_step end_step invert_mask
LanPaint_KSampler: seed steps cfg sampler_name scheduler denoise LanPaint_NumSteps LanPaint_PromptMode
LanPaint_KSamplerAdvanced: add_noise noise_seed steps cfg sampler_name scheduler start_at_step end_at_step return_with_leftover_noise LanPaint_NumSteps
XlabsSampler: noise_seed steps timestep_to_start_cfg true_gs image_to_image_strength denoise_strength
BasicScheduler: scheduler steps denoise
ExtendIntermediateSigmas: steps start_at_sigma end_at_sigma spacing
Flux2Scheduler: steps width height
KSamplerSelect: sampler_name
CFGGuider: cfg
FluxGuidance: guidance
ModelSamplingSD3 / ModelSamplingAuraFlow: shift
ModelSamplingFlux: max_shift base_shift width height
CLIPTextEncode: text
CLIPTextEncodeFlux: clip_l t5xxl guidance
EmptyLatentImage / EmptySD3LatentImage / EmptyFlux2LatentImage / EmptyChromaRadianceLatentImage: width height batch_size
EmptyHunyuanLatentVideo / Wan22ImageToVideoLatent / WanImageToVideo / WanFirstLastFrameToVideo / WanFunControlToVideo / WanFunInpaintToVideo / Wan22FunControlToVideo / WanCameraImageToVideo: width height length batch_size
WanMoveTrackToVideo: strength width height length batch_size
ImagePadForOutpaint: left top right bottom feathering
WanVaceToVideo: width height length batch_size strength
LoraLoader: lora_name strength_model strength_clip
LoraLoaderModelOnly / FluxLoraLoader: lora_name strength_model
NunchakuFluxLoraLoader: lora_name lora_strength
UNETLoader: unet_name weight_dtype
UnetLoaderGGUF / UnetLoaderGGUFAdvanced / UnetLoaderGGUFDisTorchMultiGPU: unet_name
CheckpointLoaderSimple: ckpt_name
ClownModelLoader: model_name weight_dtype clip_name1 clip_name2_opt clip_name3_opt clip_name4_opt clip_type vae_name
FluxLoader: model_name weight_dtype clip_name1 clip_name2_opt vae_name clip_vision_name style_model_name
NunchakuFluxDiTLoader: model_path cache_threshold
LoadImage / LoadImageMask / LoadImageOutput: image
LoadVideo: file
LoadAudio: audio
KSampler (Efficient): seed steps cfg sampler_name scheduler denoise preview_method vae_decode
Efficient Loader: ckpt_name vae_name clip_skip lora_name lora_model_strength lora_clip_strength positive negative token_normalization weight_interpretation empty_latent_width empty_latent_height batch_size
Lora Loader Stack (rgthree): lora_01 strength_01 lora_02 strength_02 lora_03 strength_03 lora_04 strength_04
CR LoRA Stack: switch_1 lora_name_1 model_weight_1 clip_weight_1 switch_2 lora_name_2 model_weight_2 clip_weight_2 switch_3 lora_name_3 model_weight_3 clip_weight_3
WanMoeKSampler: boundary add_noise noise_seed steps cfg_high_noise cfg_low_noise sampler_name scheduler sigma_shift start_at_step end_at_step return_with_leftover_noise
UltimateSDUpscale: upscale_by seed steps cfg sampler_name scheduler denoise mode_type tile_width tile_height
LatentUpscale / ImageScale: upscale_method width height crop
LatentUpscaleBy / ImageScaleBy: upscale_method scale_by
ImageScaleToTotalPixels: upscale_method megapixels
ImageResizeKJv2: width height upscale_method keep_proportion pad_color crop_position divisible_by
ImageResizeKJ: width height upscale_method keep_proportion divisible_by
mxSlider: Xi Xf isfloatX
mxSlider2D: Xi Xf Yi Yf isfloatX isfloatY
ResolutionSelector: aspect_ratio megapixels multiple minimum
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
WanVideoImageToVideoEncode: width height num_frames noise_aug_strength start_latent_strength end_latent_strength force_offload
WanVideoVACEEncode: width height num_frames strength vace_start_percent vace_end_percent
WanVideoLoraSelectMulti: lora_0 strength_0 lora_1 strength_1 lora_2 strength_2 lora_3 strength_3 lora_4 strength_4
WanVideoSampler / WanVideoSamplerSettings: steps cfg shift seed force_offload scheduler riflex_freq_index denoise_strength
FramePackSampler: steps use_teacache teacache_rel_l1_thresh cfg guidance_scale shift seed latent_window_size total_second_length gpu_memory_preservation sampler embed_interpolation start_embed_strength denoise_strength
LoadFramePackModel: model
SplitSigmas: step
SplitSigmasDenoise: denoise
ConditioningAverage: conditioning_to_strength";

/// Values with which drawings mark widgets for uploads.
const UPLOADS: [&str; 4] = ["", "image", "video", "audio"];

/// Widget values of a node by name. `subgraph`: widget names of the subgraph, if the node is one.
pub(super) fn values(
    class: &str,
    node: JsonFields<'_>,
    subgraph: &[String],
) -> BTreeMap<String, NodeInput> {
    let value = |(name, value): (&str, &Value)| (name.to_owned(), NodeInput::Value(value.clone()));
    let objects = ["widgets_values_named", "widgets_values"];
    if let Some(named) = objects.iter().find_map(|name| node.object(name)) {
        // A seed's change after each run is there under its own name.
        let named = named.0.iter().filter(|(name, it)| *it != *name);
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
    let is_named = named.len() >= known.len() && named.len() >= num_widgets(row);
    let names = if is_named { named } else { known };
    let is_known = !names.is_empty();
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
        let is_control = is_after_seed && (it.is_null() || is_seed_control(it));
        is_after_seed = false;
        if is_control {
            continue;
        }
        let name = names.next();
        let key = match name {
            // Loaders of many LoRAs keep an object for each.
            _ if it.get("lora").is_some() => format!("lora_{}", found.len()),
            Some(name) => name.to_owned(),
            // An unnamed value may still be found as the only text or number, or be named as unused.
            None if row.len() == 1 => "value".to_owned(),
            None if !is_known => format!("widget {}", found.len() + 1),
            None => continue,
        };
        is_after_seed = matches!(name, Some("seed" | "noise_seed" | "value"));
        found.insert(key, NodeInput::Value(it.clone()));
    }
    found
}

/// Number of the values of a row that need a name: neither a seed's change after each run, nor a preview or the kind of
/// an upload at the end.
fn num_widgets(row: &[Value]) -> usize {
    let before = std::iter::once(&Value::Null).chain(row);
    let values = before.zip(row).filter(|(before, it)| {
        !(it.is_object() || it.is_array() || (before.is_number() && is_seed_control(it)))
    });
    let values: Vec<_> = values.map(|(_, it)| it).collect();
    let is_upload =
        |it: &Value| it.is_null() || it.as_str().is_some_and(|it| UPLOADS.contains(&it));
    let end = values.iter().rposition(|it| !is_upload(it));
    end.map_or(0, |end| end + 1)
}

fn is_seed_control(value: &Value) -> bool {
    let controls = ["fixed", "increment", "decrement", "randomize"];
    value.as_str().is_some_and(|it| controls.contains(&it))
}
