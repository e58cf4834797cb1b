//! Loaders of models, text encoders and VAE, the chain of LoRAs, and the shift.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::json;

use super::{NodeOutput, WorkflowWriter, slot};
use crate::files::has_ending;
use crate::restore::names::{dynamic_shift, stem};

/// Folders below which `ComfyUI` names files.
const FOLDERS: &str = "checkpoints clip clip_vision diffusion_models loras text_encoders unet vae";

impl WorkflowWriter<'_> {
    pub(super) fn load(&mut self) {
        let files = self.files;
        let is_in_transformer = |part: &Path| is_file(part) && part == files.transformer;
        let parts = [&*files.text_encoder, &*files.vae].map(is_in_transformer);
        let high = if parts.contains(&true) {
            let inputs = json!({"ckpt_name": file_name(&files.transformer)});
            self.node("CheckpointLoaderSimple", inputs)
        } else {
            self.load_transformer(&files.transformer, "high_noise")
        };
        self.clip = if parts[0] {
            slot(&high, 1)
        } else {
            self.load_text_encoders()
        };
        self.vae = if parts[1] {
            slot(&high, 2)
        } else {
            let video = self.comfy.video.as_ref();
            let video = video.filter(|_| files.expand_timesteps);
            let published = video.map_or(self.comfy.vae, |video| video.start_latents_vae);
            let name = self.name_or(&files.vae, published);
            self.node("VAELoader", json!({"vae_name": name}))
        };
        let low = files.transformer_2.as_deref();
        let low = low.map(|low| self.load_transformer(low, "low_noise"));
        let models = [Some(high), low].into_iter().flatten().enumerate();
        let models = models.collect::<Vec<_>>().into_iter();
        self.models = models
            .map(|(index, model)| {
                let model = self.add_loras(model, index > 0);
                self.add_shift(model)
            })
            .collect();
    }

    fn load_transformer(&mut self, path: &Path, side: &str) -> NodeOutput {
        if has_ending(path, &["gguf"]) {
            self.notes.push(
                "GGUF files need the node pack ComfyUI-GGUF, which is not part of ComfyUI".into(),
            );
            return self.node("UnetLoaderGGUF", json!({"unet_name": file_name(path)}));
        }
        let folder = self.spec.map(|spec| spec.folder.as_path());
        let folder = folder.unwrap_or_else(|| Path::new(&self.request.model));
        let model = folder.file_name().unwrap_or_default().to_string_lossy();
        let model = stem(&model);
        let side = self
            .files
            .transformer_2
            .as_ref()
            .map(|_| format!("_{side}"));
        let name = format!("{model}{}.safetensors", side.unwrap_or_default());
        let name = self.name_or(path, &name);
        self.node(
            "UNETLoader",
            json!({"unet_name": name, "weight_dtype": "default"}),
        )
    }

    fn load_text_encoders(&mut self) -> NodeOutput {
        let files = self.files;
        let second = files
            .text_encoder_2
            .as_deref()
            .unwrap_or_else(|| Path::new(""));
        let paths = [&files.text_encoder, second];
        let pack = if paths.iter().any(|path| has_ending(path, &["gguf"])) {
            "GGUF"
        } else {
            ""
        };
        let names = self.comfy.text_encoders.iter().zip(paths);
        let names: Vec<String> = names.map(|(name, path)| self.name_or(path, name)).collect();
        let clip_type = self.comfy.clip_type;
        if let [first, second] = &names[..] {
            let inputs = json!({"clip_name1": first, "clip_name2": second, "type": clip_type});
            return self.node(&format!("DualCLIPLoader{pack}"), inputs);
        }
        let inputs = json!({"clip_name": names.first(), "type": clip_type});
        self.node(&format!("CLIPLoader{pack}"), inputs)
    }

    /// Adds the LoRAs of one expert. Where a model has two text encoders, LoRAs act on these, too.
    fn add_loras(&mut self, mut model: NodeOutput, is_low: bool) -> NodeOutput {
        for lora in &self.request.loras {
            let low = lora.strength_2.filter(|_| is_low);
            let strength = low.unwrap_or(lora.strength);
            if strength == 0.0 {
                continue;
            }
            let name = file_name(&lora.path);
            let mut inputs = json!({"lora_name": name, "strength_model": strength, "model": model});
            if self.comfy.text_encoders.len() < 2 {
                model = self.node("LoraLoaderModelOnly", inputs);
                continue;
            }
            (inputs["strength_clip"], inputs["clip"]) = (json!(strength), self.clip.clone());
            model = self.node("LoraLoader", inputs);
            self.clip = slot(&model, 1);
        }
        model
    }

    /// Sets the shift: the request's, that of the model, or that of the size.
    fn add_shift(&mut self, model: NodeOutput) -> NodeOutput {
        let request = self.request;
        let (width, height) = request.first_size();
        let own = self.spec.filter(|_| !request.sampling.dynamic_shift);
        let own = own.and_then(|spec| spec.defaults.shift_at(width, height));
        let fixed = request.sampling.shift.or(own);
        let ends = fixed.map(|shift| [shift.ln(); 2]);
        let Some([base, most]) = ends.or(self.comfy.dynamic_shift) else {
            if self.comfy.scheduler.is_none() {
                self.notes
                    .push("The shift is the one that ComfyUI has for this model".into());
            }
            return model;
        };
        if fixed.is_none() {
            let note = self.comfy.schedule_note.map(str::to_owned);
            self.notes.extend(note);
        }
        let mut inputs = json!({"model": model});
        if self.comfy.shift == "ModelSamplingFlux" {
            (inputs["base_shift"], inputs["max_shift"]) = (json!(base), json!(most));
            (inputs["width"], inputs["height"]) = (json!(width), json!(height));
        } else {
            let by_size = dynamic_shift(width.into(), height.into(), [base, most]);
            inputs["shift"] = json!(fixed.unwrap_or(by_size));
        }
        self.node(self.comfy.shift, inputs)
    }

    /// Name of a file for a loader; of a folder `other`, which is named as one to choose.
    pub(super) fn name_or(&mut self, path: &Path, other: &str) -> String {
        if is_file(path) {
            return file_name(path);
        }
        self.usual_names.push(other.to_owned());
        other.to_owned()
    }
}

/// Returns whether a path is a file of weights, by its name.
fn is_file(path: &Path) -> bool {
    has_ending(path, &["safetensors", "sft", "gguf"])
}

/// Name of a file below one of the folders of `ComfyUI`, else without folders.
fn file_name(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(OsStr::to_string_lossy).collect();
    let is_known = |part: &&str| FOLDERS.split(' ').any(|folder| folder == *part);
    let folder = parts.iter().rposition(|part| is_known(&&**part));
    let start = folder.map_or_else(|| parts.len().saturating_sub(1), |at| at + 1);
    parts[start..].join("/")
}
