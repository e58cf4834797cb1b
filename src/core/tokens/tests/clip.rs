//! Chunks of long prompts against `tests/fixtures/text/sdxl`.

use crate::job::prompt::BracketUse;
use crate::testing::{fixture, json_fixture};
use crate::tokens::{ClipToken, EmbeddingName, TextTokenizer};

#[test]
fn long_prompts_have_the_chunks_and_weights_of_comfyui_and_a1111() {
    let tokenizer = TextTokenizer::open(&fixture("text/flux"), Some("CLIPTokenizer"), 77).unwrap();
    let names = [("tiny1", 1), ("tiny3", 3)];
    let names = names.map(|(name, rows)| EmbeddingName { name, rows });
    let facts: serde_json::Value = json_fixture("text/sdxl/facts.json");
    for entry in facts["prompts"].as_array().unwrap() {
        let prompt = entry["prompt"].as_str().unwrap();
        for (rule, brackets) in [("comfy", BracketUse::Weights), ("a1111", BracketUse::A1111)] {
            let chunks = tokenizer.clip_chunks(&brackets.parts(prompt), brackets, &names);
            let chunks = chunks.unwrap();
            let expected = entry[rule]["chunks"].as_array().unwrap();
            let found: Vec<Vec<i64>> = chunks
                .iter()
                .map(|chunk| {
                    let ids = chunk.iter().map(|(token, _)| match *token {
                        ClipToken::Id(id) => id,
                        ClipToken::Embedding { number, row } => {
                            -1 - 100 * number as i64 - row as i64
                        }
                    });
                    ids.collect()
                })
                .collect();
            let ids: Vec<Vec<i64>> = expected
                .iter()
                .map(|chunk| serde_json::from_value(chunk[0].clone()).unwrap())
                .collect();
            assert_eq!(found, ids, "{rule}: {prompt}");
            for (chunk, expected) in chunks.iter().zip(expected) {
                let weights: Vec<f64> = serde_json::from_value(expected[1].clone()).unwrap();
                for ((_, found), expected) in chunk.iter().zip(weights) {
                    assert!((found - expected).abs() < 1e-8, "{rule}: {prompt}");
                }
            }
        }
    }
}
