//! Qwen-Image and Qwen-Image-Edit, whose tensors are nearly the same: what tells them apart.

use crate::networks::QwenImageTransformerConfig;

pub(super) const LAYERED: &str = "a Qwen-Image-Layered model";

/// Its tensors are 2509's, so a file that is 2509 in truth may be called so.
const FIRST_EDIT_FILE: &str = "the first Qwen-Image-Edit model (2509 and 2511 run; if it is one of them, put that number in its name)";

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
    /// which alone tell 2509, and the first Qwen-Image-Edit from it; `class`: of the pipeline.
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
        if class.is_none() && !config.zero_cond_t && is_first_edit(names) {
            return Err(FIRST_EDIT_FILE.to_owned());
        }
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

/// Whether names are those of the first Qwen-Image-Edit as it is published: nothing but the type of its numbers stands
/// behind `edit`. What others made of it or of 2509 is called otherwise.
fn is_first_edit(names: &[&str]) -> bool {
    const STORAGES: [&str; 11] = [
        "fp8", "fp16", "bf16", "f16", "fp32", "int8", "int4", "nvfp4", "q", "gguf", "comfyui",
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
