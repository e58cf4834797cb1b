//! Qwen-Image and its relatives, whose tensors are nearly the same: what tells them apart.

use crate::networks::QwenImageTransformerConfig;

const EDIT: &str = "a Qwen-Image-Edit model";
pub(super) const LAYERED: &str = "a Qwen-Image-Layered model";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variant {
    /// From a prompt, with real guidance: the first one and 2512.
    Image,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "Image",
        }
    }

    /// The variant of a transformer, or a noun phrase for one of another kind. `names`: of the file and its folder,
    /// which alone tell the first models that edit.
    pub fn of(config: &QwenImageTransformerConfig, names: &[&str]) -> Result<Self, String> {
        if config.use_layer3d_rope || config.use_additional_t_cond {
            return Err(LAYERED.to_owned());
        }
        let edits = |name: &&str| name.to_lowercase().contains("edit");
        if config.zero_cond_t || names.iter().any(edits) {
            return Err(EDIT.to_owned());
        }
        Ok(Self::Image)
    }

    /// The same of a pipeline's class, as far as that tells.
    pub fn check_class(class: &str) -> Result<(), String> {
        Err(match class {
            "QwenImagePipeline" | "QwenImageImg2ImgPipeline" | "QwenImageInpaintPipeline" => {
                return Ok(());
            }
            "QwenImage21Pipeline" => "a Qwen-Image 2.1 model".to_owned(),
            "QwenImageLayeredPipeline" => LAYERED.to_owned(),
            _ if class.starts_with("QwenImageEdit") => EDIT.to_owned(),
            _ if class.starts_with("QwenImageControlNet") => "a Qwen-Image ControlNet".to_owned(),
            other => format!("a Qwen-Image model for {other}"),
        })
    }
}
