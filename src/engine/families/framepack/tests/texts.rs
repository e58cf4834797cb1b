//! Texts between stages: on disk, and one between several where a prompt changes.

use safelight_core::job::prompt::PromptShare;

use super::*;
use crate::text::{PromptEmbeds, TextEmbeds};

fn text(numbers: &[f32], len: i64, pooled: f32) -> TextEmbeds {
    let tokens = numbers.len() as i64;
    let mask = Tensor::arange(tokens, (Kind::Int64, Device::Cpu)).lt(len);
    TextEmbeds {
        prompt: Tensor::from_slice(numbers).view([1, tokens, 1]),
        mask: Some(mask.to_kind(Kind::Int64).unsqueeze(0)),
        pooled: Some(Tensor::from_slice(&[pooled]).view([1, 1])),
    }
}

fn embeds() -> PromptEmbeds {
    // Padding may hold anything.
    PromptEmbeds {
        prompt: text(&[1.0, 2.0, f32::NAN, 7.0], 2, 10.0),
        later: vec![text(&[3.0, 4.0, 5.0, f32::INFINITY], 3, 20.0)],
        negative: Some(text(&[6.0], 1, 0.0)),
    }
}

fn shares(of: &[f64]) -> Vec<PromptShare> {
    let all = of.iter().enumerate().filter(|(_, share)| **share > 0.0);
    all.map(|(text, &share)| PromptShare { text, share })
        .collect()
}

#[test]
fn section_between_two_prompts_blends_their_embeddings_by_share() {
    let found = embeds().of_section(&shares(&[0.25, 0.75])).unwrap();
    assert_eq!(found.len(), 3);
    let own = found.prompt.narrow(1, 0, 3).view([-1]);
    let expected = Tensor::from_slice(&[2.5_f32, 3.5, 3.75]);
    assert!(distance(&own, &expected) < 1e-6);
    assert_eq!(found.pooled().unwrap().double_value(&[0, 0]), 17.5);
}

#[test]
fn section_with_one_prompt_uses_its_embeddings_unchanged() {
    let found = embeds().of_section(&shares(&[0.0, 1.0])).unwrap();
    assert_eq!(found.len(), 3);
    assert!(found.prompt.double_value(&[0, 3, 0]).is_infinite());
    let err = embeds().of_section(&shares(&[0.0, 0.0, 1.0])).unwrap_err();
    assert!(err.to_string().contains("not those of this job's prompt"));
}

#[test]
fn texts_come_back_from_the_disk_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.safetensors");
    embeds().save(&path).unwrap();
    let found = PromptEmbeds::load(&path).unwrap();
    let lens: Vec<i64> = found.later.iter().map(TextEmbeds::len).collect();
    assert_eq!((found.prompt.len(), lens), (2, vec![3]));
    assert_eq!(found.negative.unwrap().len(), 1);
    let alone = PromptEmbeds {
        prompt: text(&[1.0], 0, 0.0),
        later: Vec::new(),
        negative: None,
    };
    alone.save(&path).unwrap();
    let found = PromptEmbeds::load(&path).unwrap();
    assert!(found.negative.is_none() && found.prompt.is_empty());
}
