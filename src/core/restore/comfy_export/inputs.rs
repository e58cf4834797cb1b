//! Inputs of a sampler: prompts with guidance and reference images, and latents, empty or of an image or video.

use std::path::Path;

use serde_json::{Value, json};

use super::{NodeOutput, WorkflowWriter, slot};
use crate::job::prompt::{BracketUse, escaped, for_comfy};
use crate::media::has_video_name;
use crate::model::choices::ResizeMode;
use crate::model::family::{ComfyReferences, ComfyVideoNodes};
use crate::model::{GuidanceMode, ImageRole};

/// Images that a text encoder takes.
const MAX_ENCODED: usize = 3;

impl<'a> WorkflowWriter<'a> {
    /// Scale of classifier-free guidance; of two experts that for high noise.
    pub(super) fn cfg(&self) -> f64 {
        let sampling = &self.request.sampling;
        if self.request.family.guidance_is_cfg {
            sampling.guidance_scale
        } else {
            sampling.true_cfg_scale.unwrap_or(1.0)
        }
    }

    pub(super) fn encode_prompts(&mut self) {
        let request = self.request;
        let references = request.references.iter();
        let references: Vec<_> = references.map(|path| self.load_media(path)).collect();
        let mut positive = self.encode(&request.prompt, &references);
        let mut negative = if request.negative_prompt.is_empty() && self.cfg() <= 1.0 {
            self.node("ConditioningZeroOut", json!({"conditioning": positive}))
        } else {
            self.encode(&request.negative_prompt, &references)
        };
        let guidance = self.spec.map(|spec| spec.guidance);
        if !request.family.guidance_is_cfg && guidance != Some(GuidanceMode::None) {
            let scale = request.sampling.guidance_scale;
            let inputs = json!({"guidance": scale, "conditioning": positive});
            positive = self.node("FluxGuidance", inputs);
        }
        match self.comfy.references {
            ComfyReferences::Latents { scaled_by } => {
                for image in references {
                    let mut inputs = json!({"image": image});
                    if scaled_by == "ImageScaleToTotalPixels" {
                        inputs = json!({"image": image, "upscale_method": "lanczos", "megapixels": 1.0, "resolution_steps": 1});
                    }
                    let pixels = self.node(scaled_by, inputs);
                    let latent = self.encoded(&pixels);
                    for side in [&mut positive, &mut negative] {
                        let inputs = json!({"conditioning": side, "latent": latent});
                        *side = self.node("ReferenceLatent", inputs);
                    }
                }
            }
            ComfyReferences::TextEncoder(_) if references.len() > MAX_ENCODED => {
                self.notes.push(format!(
                    "ComfyUI takes {MAX_ENCODED} reference images: the others are not in the workflow"
                ));
            }
            ComfyReferences::Unused if !references.is_empty() => {
                let text = "Not in the workflow: the reference images";
                self.notes.push(text.into());
            }
            _ => {}
        }
        self.prompts = [positive, negative];
    }

    fn encode(&mut self, text: &str, references: &[NodeOutput]) -> NodeOutput {
        let text = match self.request.options.bracket_use(self.request.family) {
            BracketUse::Text => escaped(text),
            BracketUse::Unescaped | BracketUse::Weights => text.to_owned(),
            BracketUse::A1111 => for_comfy(text),
        };
        match self.comfy.references {
            ComfyReferences::TextEncoder(class) if !references.is_empty() => {
                let mut inputs = json!({"prompt": text, "clip": self.clip, "vae": self.vae});
                for (number, image) in (1..=MAX_ENCODED).zip(references) {
                    inputs[format!("image{number}")] = image.clone();
                }
                self.node(class, inputs)
            }
            _ => {
                let inputs = json!({"text": text, "clip": self.clip});
                self.node("CLIPTextEncode", inputs)
            }
        }
    }

    /// Image or video that is changed as far as the strength says.
    pub(super) fn base(&self) -> Option<&'a Path> {
        let image = self.image_as(ImageRole::Base);
        self.request.source_video.as_deref().or(image)
    }

    fn image_as(&self, role: ImageRole) -> Option<&'a Path> {
        let image = self.request.image.as_deref();
        image.filter(|_| self.request.image_role == role)
    }

    /// Makes the latents, by nodes that may change the conditioning.
    pub(super) fn make_latents(&mut self) -> NodeOutput {
        let request = self.request;
        let (width, height) = request.first_size();
        if let Some(pixels) = self.base().map(|path| self.load_scaled(path)) {
            let mut latents = self.encoded(&pixels);
            if let Some(mask) = self.load_mask() {
                let inputs = json!({"samples": latents, "mask": mask});
                latents = self.node("SetLatentNoiseMask", inputs);
            }
            return self.repeated(latents);
        }
        let mut inputs = json!({"vae": self.vae});
        [inputs["positive"], inputs["negative"]] = self.prompts.clone();
        if let Some(path) = self.image_as(ImageRole::Canvas) {
            inputs["pixels"] = self.load_scaled(path);
            let all = json!({"value": 1.0, "width": width, "height": height});
            let mask = self.load_mask();
            inputs["mask"] = mask.unwrap_or_else(|| self.node("SolidMask", all));
            inputs["noise_mask"] = json!(request.keeps_unmasked);
            let latents = self.condition("InpaintModelConditioning", inputs);
            return self.repeated(latents);
        }
        let size = json!({"width": width, "height": height, "batch_size": request.batch_size});
        let Some(video) = &self.comfy.video else {
            return self.node(self.comfy.latents, size);
        };
        for (name, value) in size.as_object().into_iter().flatten() {
            inputs[name] = value.clone();
        }
        inputs["length"] = json!(request.num_frames);
        let class = self.add_frames(video, &mut inputs);
        if [video.start_image, video.end_image].contains(&class) {
            return self.condition(class, inputs);
        }
        // These nodes make latents alone.
        if let Some(inputs) = inputs.as_object_mut() {
            inputs.retain(|name, _| !["positive", "negative"].contains(&&**name));
        }
        self.node(class, inputs)
    }

    /// Adds a node that changes the conditioning -> its latents.
    fn condition(&mut self, class: &str, inputs: Value) -> NodeOutput {
        let made = self.node(class, inputs);
        self.prompts = [slot(&made, 0), slot(&made, 1)];
        slot(&made, 2)
    }

    /// Adds the start image and the end image of a video. Returns the class of the node that makes the latents.
    fn add_frames(&mut self, nodes: &ComfyVideoNodes, inputs: &mut Value) -> &'static str {
        let request = self.request;
        let has_end = request.last_image.is_some();
        let has_images = has_end || request.image.is_some();
        if has_images && self.files.takes_control {
            let text = "Not in the workflow: the start image and the end image";
            self.notes.push(text.into());
            return self.comfy.latents;
        }
        for (of, path) in [("start", &request.image), ("end", &request.last_image)] {
            let Some(image) = path.as_deref().map(|path| self.load_scaled(path)) else {
                continue;
            };
            if let Some(encoder) = self.files.image_encoder.as_deref() {
                let name = self.name_or(encoder, nodes.image_encoder);
                let loader = self.node("CLIPVisionLoader", json!({"clip_name": name}));
                let seen = json!({"clip_vision": loader, "image": image, "crop": "none"});
                let single = "clip_vision_output".to_owned();
                let key = if has_end {
                    format!("clip_vision_{of}_image")
                } else {
                    single
                };
                inputs[key] = self.node("CLIPVisionEncode", seen);
            }
            inputs[format!("{of}_image")] = image;
        }
        match (self.files.expand_timesteps, has_end, has_images) {
            (true, _, _) => nodes.start_latents,
            (_, true, _) => nodes.end_image,
            (_, _, true) => nodes.start_image,
            _ => self.comfy.latents,
        }
    }

    /// Loads an image, or the frames of a video.
    fn load_media(&mut self, path: &Path) -> NodeOutput {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.into_owned();
        if !self.inputs.contains(&name) {
            self.inputs.push(name.clone());
        }
        if has_video_name(path) {
            let video = self.node("LoadVideo", json!({"file": name}));
            return self.node("GetVideoComponents", json!({"video": video}));
        }
        self.node("LoadImage", json!({"image": name}))
    }

    fn load_scaled(&mut self, path: &Path) -> NodeOutput {
        let image = self.load_media(path);
        self.scaled(&image, self.request.first_size())
    }

    fn load_mask(&mut self) -> Option<NodeOutput> {
        let path = self.request.mask.as_deref()?;
        // Nodes that take a mask stretch it.
        let image = match self.request.fit {
            ResizeMode::Stretch => self.load_media(path),
            ResizeMode::Crop => self.load_scaled(path),
        };
        Some(self.node("ImageToMask", json!({"image": image, "channel": "red"})))
    }

    pub(super) fn scaled(&mut self, image: &NodeOutput, (width, height): (u32, u32)) -> NodeOutput {
        let crop = match self.request.fit {
            ResizeMode::Stretch => "disabled",
            ResizeMode::Crop => "center",
        };
        let inputs = json!({"image": image, "upscale_method": "lanczos", "width": width, "height": height, "crop": crop});
        self.node("ImageScale", inputs)
    }

    /// Latents once for each image of a batch.
    fn repeated(&mut self, latents: NodeOutput) -> NodeOutput {
        match self.request.batch_size {
            1 => latents,
            count => {
                let inputs = json!({"samples": latents, "amount": count});
                self.node("RepeatLatentBatch", inputs)
            }
        }
    }
}
