//! Words of comments and names of types.

use std::collections::BTreeMap;

use super::source::code;
use super::{read, rust_files};

/// Openings of a sentence where a noun phrase or a verb says it sooner.
const OPENINGS: [&str; 8] = [
    "What ",
    "Whether ",
    "Which ",
    "How ",
    "Where ",
    "Whose ",
    "Who ",
    "The same ",
];

/// Types of one word: nouns that the field uses alone.
const NOUNS: &str = "\
Denoiser: the loop calls it once a step, as k-diffusion names it
Expert: Wan 2.2's name for each of its two transformers
Guider: diffusers' name for guidance methods
Hooks: callbacks of a loop
Linear: torch.nn.Linear
Mlp: the field's abbreviation of a feed-forward network
Posterior: of an autoencoder's encoder, as in diffusers
Recipe: list of a job's stages
Residency: place of weights, as drivers call it
Rope: the field's abbreviation of rotary position embeddings
Schema: names and shapes of tensors
Settings: the settings file
Siglip: Google's image encoder
Solver: of the ordinary differential equation of sampling
Tiling: of an autoencoder
Video: decoded frames
Weights: tensors of a file";

/// Two builds of one type, of which features choose one.
const ALTERNATIVES: [&str; 2] = ["DecodedFrames", "ArmedFault"];

#[test]
fn comments_open_with_a_noun_phrase_or_a_verb() {
    let mut found = Vec::new();
    for path in rust_files("src").into_iter().filter(|path| !is_test(path)) {
        for line in product(&path).lines() {
            let comment = line.trim_start().strip_prefix("//");
            let text = comment.map(|it| it.trim_start_matches(['/', '!']).trim_start());
            if text.is_some_and(|text| OPENINGS.iter().any(|start| text.starts_with(start))) {
                found.push(format!("{path}: {}", line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn a_type_has_one_definition_in_its_crate_and_more_than_one_word() {
    let nouns = NOUNS.lines().filter_map(|line| line.split(':').next());
    let nouns: Vec<&str> = nouns.collect();
    let mut found = Vec::new();
    let mut seen = BTreeMap::new();
    for path in rust_files("src").into_iter().filter(|path| !is_test(path)) {
        let crates = ["core", "engine", "loops", "wheels"];
        let owner = crates
            .into_iter()
            .find(|it| path.starts_with(&format!("src/{it}/")));
        for name in types(&code(&product(&path))) {
            let is_one_word = !name.chars().skip(1).any(char::is_uppercase);
            if is_one_word && !nouns.contains(&name.as_str()) {
                found.push(format!("{path}: {name} is one word"));
            }
            let before = seen.insert((owner, name.clone()), path.clone());
            if let Some(before) = before.filter(|_| !ALTERNATIVES.contains(&name.as_str())) {
                found.push(format!("{path}: {name} is in {before} too"));
            }
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// Names of the structs, enums and traits that a file defines at its top level.
fn types(code: &str) -> Vec<String> {
    let names = code.lines().filter_map(|line| {
        let line = match line.strip_prefix("pub(") {
            Some(rest) => rest.split_once(") ")?.1,
            None => line.strip_prefix("pub ").unwrap_or(line),
        };
        let kinds = ["struct ", "enum ", "trait "];
        let rest = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
        let letters = rest.chars().take_while(|it| it.is_alphanumeric());
        Some(letters.collect())
    });
    names.collect()
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part.contains("test"))
}

fn product(path: &str) -> String {
    let source = read(path);
    let before = source.split("#[cfg(test)]\nmod ").next();
    before.unwrap_or_default().to_owned()
}
