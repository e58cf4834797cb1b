//! Models that this version does not run, by the names of a few tensors, so that a refusal can name them.

use std::sync::LazyLock;

use crate::model::{LoraSignature, ModelFamily};
use crate::networks::DetectionRule;

struct OtherModels {
    models: Vec<DetectionRule>,
    relatives: Vec<DetectionRule>,
    parts: Vec<DetectionRule>,
    loras: Vec<LoraSignature>,
    text_encoder_loras: Vec<LoraSignature>,
    /// Beginning of a pipeline's class name, and the model.
    pipelines: Vec<(&'static str, &'static str)>,
}

static TABLE: LazyLock<OtherModels> = LazyLock::new(|| {
    let mut sections = include_str!("other_models.txt").split("\n\n").map(rows);
    let mut next = || sections.next().unwrap_or_default();
    OtherModels {
        models: next().into_iter().map(rule).collect(),
        relatives: next().into_iter().map(rule).collect(),
        parts: next().into_iter().map(rule).collect(),
        loras: next().into_iter().flat_map(signs).collect(),
        text_encoder_loras: next().into_iter().flat_map(signs).collect(),
        pipelines: next()
            .into_iter()
            .map(|[_, name, start]| (start, name))
            .collect(),
    }
});

/// Tried before the rules of the families, whose tensors some of these have too.
pub(super) fn models() -> impl Iterator<Item = &'static DetectionRule> {
    TABLE.models.iter()
}

/// Rules tried after those of the families' transformers, and before encoders and VAEs, whose tensors these also contain.
pub(super) fn relatives() -> impl Iterator<Item = &'static DetectionRule> {
    TABLE.relatives.iter()
}

/// Tried when nothing else fits.
pub(super) fn parts() -> impl Iterator<Item = &'static DetectionRule> {
    TABLE.parts.iter()
}

/// Tried before the signs of the families, some of which fit these too.
pub(crate) fn lora_signs() -> impl Iterator<Item = &'static LoraSignature> {
    TABLE.loras.iter()
}

/// Signs of LoRAs that change text encoders alone.
pub(crate) fn text_encoder_loras() -> impl Iterator<Item = &'static LoraSignature> {
    TABLE.text_encoder_loras.iter()
}

/// Role, noun phrase and marks of each line of a section; a comment has no columns.
fn rows(section: &'static str) -> Vec<[&'static str; 3]> {
    let columns = |line: &'static str| line.split(" | ").collect::<Vec<_>>().try_into().ok();
    section.lines().filter_map(columns).collect()
}

/// A name, and the size of an axis that its tensor must have.
fn mark(text: &'static str) -> (&'static str, Option<(usize, u64)>) {
    let (name, size) = text.split_once('[').unwrap_or((text, ""));
    let size = size.split_once("]=");
    let parsed = size.and_then(|(axis, size)| Some((axis.parse().ok()?, size.parse().ok()?)));
    (name, parsed)
}

fn rule([role, text, marks]: [&'static str; 3]) -> DetectionRule {
    let marks: Vec<_> = marks.split(' ').map(mark).collect();
    let ends: Vec<&str> = marks.iter().map(|(end, _)| *end).collect();
    let sized = |(end, size): (&'static str, Option<(usize, u64)>)| {
        size.map(|(axis, size)| (end, axis, size))
    };
    DetectionRule {
        size: marks.into_iter().find_map(sized),
        ..DetectionRule::new("", role.trim_start_matches('-'), text, ends.leak())
    }
}

/// `name`: of a model, or the id of a family.
fn signs([_, name, marks]: [&'static str; 3]) -> impl Iterator<Item = LoraSignature> {
    let label = ModelFamily::of_id(name).map_or(name, |family| family.label);
    marks
        .split(' ')
        .map(mark)
        .map(move |(start, size)| LoraSignature {
            outputs: size.and_then(|(axis, size)| (axis == 0).then_some(size)),
            inputs: size.and_then(|(axis, size)| (axis == 1).then_some(size)),
            ..LoraSignature::of(name, label, start)
        })
}

/// Model of a pipeline's class that no family runs, as a noun phrase.
pub(crate) fn pipeline_name(class: &str) -> String {
    let mut known = TABLE.pipelines.iter();
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
        let columns = lines.map(|line| line.split(" | ").collect::<Vec<_>>());
        let columns: Vec<Vec<&str>> = columns.collect();
        assert!(columns.iter().all(|columns| columns.len() == 3));
        let count = |role: &str| columns.iter().filter(|columns| columns[0] == role).count();
        let rules = columns.len() - count("lora") - count("pipeline");
        let all = || models().chain(relatives()).chain(parts());
        assert_eq!(rules, all().count());
        assert_eq!(TABLE.pipelines.len(), count("pipeline"));
        let signs = lora_signs().chain(text_encoder_loras());
        assert!(text_encoder_loras().count() > 0 && signs.count() >= count("lora"));
        let roles = ["", "controlnet", "text_encoder", "transformer", "vae"];
        for rule in all() {
            assert!(roles.contains(&rule.role), "{rule:?}");
            assert!(rule.ends.iter().all(|end| !end.is_empty()), "{rule:?}");
        }
        let sized = "label_emb.0.0.weight";
        assert!(models().any(|rule| rule.size == Some((sized, 1, 2560))));
    }
}
