//! Standard nodes of `ComfyUI` that a family's models are run with there.

/// Nodes of `ComfyUI` for a family, and its published files, which loaders name where a model here is a folder.
#[derive(Debug)]
pub struct ComfyNodes {
    /// `type` of the loader of text encoders.
    pub clip_type: &'static str,
    pub text_encoders: &'static [&'static str],
    pub vae: &'static str,
    /// Makes empty latents.
    pub latents: &'static str,
    /// Sets the shift.
    pub shift: &'static str,
    /// Logarithms of the shift at 256 and at 4096 tokens, where it depends on the size; linear in between.
    pub dynamic_shift: Option<[f64; 2]>,
    /// Sentence on the schedule of a shift by size, where `ComfyUI` has no such one.
    pub schedule_note: Option<&'static str>,
    /// Scheduler that computes the family's shift from the size and the steps itself.
    pub scheduler: Option<&'static str>,
    pub references: ComfyReferences,
    /// Nodes for videos; `None` for images.
    pub video: Option<ComfyVideoNodes>,
}

/// Way of reference images into a graph.
#[derive(Debug)]
pub enum ComfyReferences {
    /// None.
    Unused,
    /// As reference latents, after this node has scaled each.
    Latents { scaled_by: &'static str },
    /// Together with the text, in an encoder of this class.
    TextEncoder(&'static str),
}

/// Nodes that make the latents of a video from images.
#[derive(Debug)]
pub struct ComfyVideoNodes {
    pub start_image: &'static str,
    pub end_image: &'static str,
    /// Node for models with a separate timestep for each token.
    pub start_latents: &'static str,
    pub start_latents_vae: &'static str,
    /// File of the image encoder.
    pub image_encoder: &'static str,
}

impl ComfyNodes {
    /// Nodes of an image family without what each of them states.
    pub(super) const IMAGES: Self = Self {
        clip_type: "",
        text_encoders: &[],
        vae: "ae.safetensors",
        latents: "EmptySD3LatentImage",
        shift: "ModelSamplingAuraFlow",
        dynamic_shift: None,
        schedule_note: None,
        scheduler: None,
        references: ComfyReferences::Unused,
        video: None,
    };
}
