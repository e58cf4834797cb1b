//! Qwen-Image and Qwen-Image-Edit, whose tensors are nearly the same: what tells them apart.

use crate::networks::QwenImageTransformerConfig;

pub(super) const LAYERED: &str = "a Qwen-Image-Layered model";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variant {
    /// From a prompt, with real guidance: the first one and 2512.
    Image,
    /// Sees pictures beside the one that it makes: 2509 and 2511.
    Edit,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "Image",
            Self::Edit => "Edit",
        }
    }

    /// The variant of a transformer, or a noun phrase for one of another kind. `names`: of the file and its folder,
    /// which alone tell 2509; `class`: of the pipeline.
    pub fn of(
        config: &QwenImageTransformerConfig,
        class: Option<&str>,
        names: &[&str],
    ) -> Result<Self, String> {
        if config.use_layer3d_rope || config.use_additional_t_cond {
            return Err(LAYERED.to_owned());
        }
        let edits = match class {
            Some(class) => class.starts_with("QwenImageEdit"),
            None => names
                .iter()
                .any(|name| name.to_lowercase().contains("edit")),
        };
        Ok(if config.zero_cond_t || edits {
            Self::Edit
        } else {
            Self::Image
        })
    }

    /// Whether a pipeline's class is one of these models', or a noun phrase for another.
    pub fn check_class(class: &str) -> Result<(), String> {
        Err(match class {
            "QwenImagePipeline"
            | "QwenImageImg2ImgPipeline"
            | "QwenImageInpaintPipeline"
            | "QwenImageEditPlusPipeline" => return Ok(()),
            "QwenImage21Pipeline" => "a Qwen-Image 2.1 model".to_owned(),
            "QwenImageLayeredPipeline" => LAYERED.to_owned(),
            "QwenImageEditPipeline" | "QwenImageEditInpaintPipeline" => {
                "the first Qwen-Image-Edit model (2509 and 2511 run)".to_owned()
            }
            _ if class.starts_with("QwenImageControlNet") => "a Qwen-Image ControlNet".to_owned(),
            other => format!("a Qwen-Image model for {other}"),
        })
    }
}
