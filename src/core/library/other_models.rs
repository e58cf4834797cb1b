//! Models that this version does not run, by the names of a few tensors, so that a refusal can name them.

use std::sync::LazyLock;

use crate::networks::KindRule;

/// Rules of [`models`] and [`parts`], in this order.
static RULES: LazyLock<[Vec<KindRule>; 2]> = LazyLock::new(|| {
    let text = include_str!("other_models.txt");
    let (models, parts) = text.split_once("\n\n").unwrap_or((text, ""));
    [models, parts].map(|table| table.lines().filter_map(rule_of_line).collect())
});

/// Tried before the rules of the families, whose tensors some of these have too.
pub(super) fn models() -> impl Iterator<Item = &'static KindRule> {
    RULES[0].iter()
}

/// Tried when nothing else fits.
pub(super) fn parts() -> impl Iterator<Item = &'static KindRule> {
    RULES[1].iter()
}

/// `None` for a comment.
fn rule_of_line(line: &'static str) -> Option<KindRule> {
    let mut columns = line.split(" | ");
    let role = columns.next()?.trim_start_matches('-');
    let (text, marks) = (columns.next()?, columns.next()?);
    let mut size = None;
    let ends = marks.split(' ').map(|mark| match mark.split_once('[') {
        None => mark,
        Some((end, rest)) => {
            let number = rest.split_once("]=");
            size = number.and_then(|(axis, n)| Some((end, axis.parse().ok()?, n.parse().ok()?)));
            end
        }
    });
    let ends: Vec<&str> = ends.collect();
    Some(KindRule {
        size,
        ..KindRule::new("", role, text, ends.leak())
    })
}

/// Beginnings of the class names of diffusers' pipelines, and their models.
const PIPELINES: &[(&str, &str)] = &[
    ("AceStep", "an ACE-Step music model"),
    ("Allegro", "an Allegro model"),
    ("Anima", "an Anima model"),
    ("AuraFlow", "an AuraFlow model"),
    ("Bria", "a Bria model"),
    ("CogVideo", "a CogVideoX model"),
    ("CogView", "a CogView model"),
    ("ConsisID", "a ConsisID model"),
    ("Cosmos", "a Cosmos model"),
    ("EasyAnimate", "an EasyAnimate model"),
    ("Flux3", "a FLUX.3 model"),
    ("Flux2", "a Flux 2 model"),
    ("Flux", "a Flux model"),
    ("HiDream", "a HiDream model"),
    ("HunyuanDiT", "a Hunyuan-DiT model"),
    ("HunyuanImage", "a HunyuanImage model"),
    ("HunyuanVideo15", "a HunyuanVideo 1.5 model"),
    ("HunyuanVideo", "a HunyuanVideo model"),
    ("HunyuanSkyreels", "a SkyReels model"),
    ("Hunyuan", "a Hunyuan model"),
    ("Kandinsky5", "a Kandinsky 5 model"),
    ("Kandinsky", "a Kandinsky model"),
    ("Kolors", "a Kolors model"),
    ("LTX2", "an LTX-2 model"),
    ("LTX", "an LTX model"),
    ("LatentConsistency", "a Stable Diffusion model"),
    ("LongCatImage", "a LongCat-Image model"),
    ("LongCatVideo", "a LongCat-Video model"),
    ("Lumina", "a Lumina model"),
    ("MiniMax", "a MiniMax H3 model"),
    ("Mochi", "a Mochi model"),
    ("OmniGen2", "an OmniGen2 model"),
    ("OmniGen", "an OmniGen model"),
    ("Ovis", "an Ovis-Image model"),
    ("PixArt", "a PixArt model"),
    ("Qwen", "a Qwen image model"),
    ("Sana", "a Sana model"),
    ("SkyReels", "a SkyReels model"),
    ("StableAudio", "a Stable Audio model"),
    ("StableCascade", "a Stable Cascade model"),
    ("StableDiffusionXL", "a Stable Diffusion XL model"),
    ("StableDiffusion3", "a Stable Diffusion 3 model"),
    ("StableDiffusion", "a Stable Diffusion model"),
    ("StableVideoDiffusion", "a Stable Video Diffusion model"),
    ("VisualCloze", "a VisualCloze model"),
    ("Wuerstchen", "a Würstchen model"),
];

/// Model of a pipeline's class that no family runs, as a noun phrase.
pub(crate) fn pipeline_name(class: &str) -> String {
    let mut known = PIPELINES.iter();
    let found = known.find(|(start, _)| class.starts_with(start));
    found.map_or_else(
        || format!("a model for the pipeline {class}"),
        |(_, name)| (*name).to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_rule_or_a_comment() {
        let text = include_str!("other_models.txt");
        let lines = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty());
        assert_eq!(lines.count(), models().count() + parts().count());
        let roles = ["", "controlnet", "text_encoder", "transformer", "vae"];
        for rule in models().chain(parts()) {
            assert!(roles.contains(&rule.role), "{rule:?}");
            assert!(rule.ends.iter().all(|end| !end.is_empty()), "{rule:?}");
        }
        let sized = "input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight";
        assert!(models().any(|rule| rule.size == Some((sized, 1, 2048))));
    }
}
