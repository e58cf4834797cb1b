//! Types of links.

use super::nodes::has_word;

/// Type of a link, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LinkKind {
    Conditioning,
    Model,
    Latent,
    Image,
    Text,
    /// Bundle of several links: contexts and pipes.
    Pipe,
    Lora,
    Number,
    Other,
    Unknown,
}

impl LinkKind {
    pub(super) fn from_type(kind: &str) -> Self {
        match kind {
            "CONDITIONING" | "WANVIDEOTEXTEMBEDS" => Self::Conditioning,
            "MODEL" | "WANVIDEOMODEL" => Self::Model,
            "LATENT" | "WANVIDIMAGE_EMBEDS" => Self::Latent,
            "IMAGE" | "VIDEO" => Self::Image,
            "STRING" => Self::Text,
            "RGTHREE_CONTEXT" | "BUS" => Self::Pipe,
            // Not models' pipelines, such as PuLID's.
            kind if kind.contains("PIPE") && !kind.contains("PIPELINE") => Self::Pipe,
            "HOOKS" => Self::Lora,
            kind if kind.contains("LORA") => Self::Lora,
            "INT" | "FLOAT" | "BOOLEAN" | "COMBO" => Self::Number,
            // `*`, and what is no type.
            kind if kind.len() < 3 => Self::Unknown,
            _ => Self::Other,
        }
    }

    /// Guesses from the name of the input.
    pub(super) fn from_name(name: &str) -> Self {
        const NAMES: [(LinkKind, &str); 11] = [
            (LinkKind::Number, "strength weight"),
            (
                LinkKind::Other,
                "upscale_model style_model sam_model patch vision control vae mask sigmas guider segs bbox detector \
                 pipeline",
            ),
            (LinkKind::Pipe, "pipe ctx"),
            (LinkKind::Lora, "lora hooks"),
            (LinkKind::Text, "_prompt"),
            (LinkKind::Conditioning, "cond positive negative text_embeds"),
            (LinkKind::Model, "model unet"),
            (LinkKind::Latent, "latent samples image_embeds"),
            (LinkKind::Image, "image pixels frames video"),
            (LinkKind::Other, "clip"),
            (LinkKind::Text, "text string prompt"),
        ];
        let name = name.to_lowercase();
        if matches!(&*name, "context" | "bus") {
            return Self::Pipe;
        }
        let mut kinds = NAMES.iter();
        let kind = kinds.find(|(_, words)| has_word(&name, words));
        kind.map_or(Self::Unknown, |(kind, _)| *kind)
    }
}
