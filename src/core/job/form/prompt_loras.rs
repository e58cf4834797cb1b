//! Sentences on LoRAs that a prompt names, such as `<lora:name:0.8>`, and on weights of its words.

use super::FormProblems;
use crate::job::GenerateRequest;
use crate::job::prompt::{self, BracketUse, LoraTag, TaggedPrompt, WildcardFolders, has_choices};

/// Adds notices on the tags and weights of the prompts; those with choices get theirs when they are expanded.
pub(super) fn note(request: &GenerateRequest, found: &mut FormProblems) {
    let brackets = request.options.bracket_use(request.family);
    for (field, text, template) in [
        ("prompt", &request.prompt, &request.prompt_template),
        (
            "negative",
            &request.negative_prompt,
            &request.negative_prompt_template,
        ),
    ] {
        let chooses = template.is_none() && has_choices(text);
        let acts = field == "prompt" || request.is_guided();
        if let Some(message) = brackets.notice(text, request.family.label)
            && acts
            && !chooses
        {
            found.note(field, message);
        }
        let has_break = text.split_whitespace().any(|word| word == "BREAK");
        if request.family.has_prompt_chunks && has_break && brackets != BracketUse::A1111 {
            let message =
                "BREAK is read as text: it divides prompts with the prompt weights of A1111";
            found.note(field, message);
        }
        if template.is_none()
            && !chooses
            && let Ok(expanded) = prompt::expand(text, 0, &WildcardFolders::default())
            && let Ok(tagged) = TaggedPrompt::parse(&expanded.prompt)
        {
            for message in tag_sentences(field, &tagged) {
                found.note(field, message);
            }
        }
    }
}

/// Sentences on the tags of a prompt.
pub(crate) fn tag_sentences(field: &str, tagged: &TaggedPrompt) -> Vec<String> {
    let mut sentences = tagged.notices.clone();
    if field == "negative" {
        sentences.extend(tagged.loras.iter().map(|LoraTag { written, .. }| {
            format!("{written} in the negative prompt is not used: write it into the prompt")
        }));
    } else if !tagged.loras.is_empty() {
        sentences.insert(0, usage(&tagged.loras));
    }
    sentences
}

/// `LoRA ink is used at 0.8 from the prompt`.
fn usage(tags: &[LoraTag]) -> String {
    let used = |tag: &LoraTag| match tag.strength_2 {
        Some(low) => format!("{} is used at {} (low noise {low})", tag.name, tag.strength),
        None => format!("{} is used at {}", tag.name, tag.strength),
    };
    let used: Vec<String> = tags.iter().map(used).collect();
    format!("LoRA {} from the prompt", used.join(", "))
}
