//! Models whose parts are GGUF files: what they are, what goes with them, what is refused.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::installs::names;
use super::parts::NARROW;
use crate::catalog::IdentityCard;
use crate::model::{CatalogError, ModelSpec};
use crate::networks::{T5Keys, T5Names};
use crate::testing::assert_has;
use crate::testing::made_up::{
    Shapes, T2V_1_3B, comfy_tree, renamed, t5, transformer, umt5, vae, write,
};
use crate::testing::pipelines::catalog_in;
use crate::testing::published::behind;

pub(super) const F32: u32 = 0;
const Q8_0: u32 = 8;
const Q4_K: u32 = 12;
const IQ2_XXS: u32 = 16;

fn number(bytes: &mut Vec<u8>, n: u64) {
    bytes.extend(n.to_le_bytes());
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    number(bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
}

/// Writes a header with matrices in `id`, and a file of the length that it promises. `arch` may be empty, and the
/// vocabulary too.
pub(super) fn write_gguf(
    path: &Path,
    shapes: &Shapes,
    id: u32,
    arch: &str,
    num_tokens: u64,
) -> PathBuf {
    let mut header = b"GGUF\x03\0\0\0".to_vec();
    number(&mut header, shapes.len() as u64);
    let entries = u64::from(!arch.is_empty()) + if num_tokens > 0 { 2 } else { 0 };
    number(&mut header, entries);
    let entry = |header: &mut Vec<u8>, key: &str, value: &str| {
        text(header, key);
        header.extend(8_u32.to_le_bytes());
        text(header, value);
    };
    if !arch.is_empty() {
        entry(&mut header, "general.architecture", arch);
    }
    if num_tokens > 0 {
        entry(&mut header, "tokenizer.ggml.model", "t5");
        text(&mut header, "tokenizer.ggml.tokens");
        header.extend(9_u32.to_le_bytes());
        header.extend(8_u32.to_le_bytes());
        number(&mut header, num_tokens);
        for _ in 0..num_tokens {
            text(&mut header, "");
        }
    }
    let (len, bytes) = match id {
        Q8_0 => (32, 34),
        Q4_K => (256, 144),
        IQ2_XXS => (256, 66),
        _ => (1, 4),
    };
    let mut end = 0;
    for (name, shape) in shapes {
        let is_blocks = shape.len() == 2 && shape[1] % len == 0;
        let count: u64 = shape.iter().product();
        text(&mut header, name);
        header.extend((shape.len() as u32).to_le_bytes());
        for &n in shape.iter().rev() {
            number(&mut header, n);
        }
        let (id, size) = if is_blocks {
            (id, count / len * bytes)
        } else {
            (F32, count * 4)
        };
        header.extend(id.to_le_bytes());
        number(&mut header, end);
        end = (end + size).next_multiple_of(32);
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::create(path).unwrap();
    file.write_all_at(&header, 0).unwrap();
    file.set_len((header.len() as u64).next_multiple_of(32) + end)
        .unwrap();
    path.to_owned()
}

/// A text encoder in llama.cpp's names.
fn as_llama_cpp(shapes: &Shapes) -> Shapes {
    let keys = T5Keys::in_names(T5Names::LlamaCpp);
    renamed(shapes, |name| keys.file_key(name))
}

#[test]
fn gguf_transformer_is_recognised_regardless_of_its_architecture_field() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let shapes = transformer(T2V_1_3B);
    let prefixed = behind("model.diffusion_model.", &shapes);
    for (name, shapes, arch) in [
        ("a", &shapes, "wan"),
        ("b", &shapes, ""),
        ("c", &prefixed, "pig"),
    ] {
        let place = models.join(format!("diffusion_models/{name}-Q4_K_M.gguf"));
        write_gguf(&place, shapes, Q4_K, arch, 0);
        let spec = ModelSpec::open(&place).unwrap();
        assert_eq!(spec.variant, "T2V");
        assert_eq!(spec.files.transformer, place);
        assert!(spec.bytes > fs::metadata(&place).unwrap().len());
        let card = IdentityCard::read(&place).unwrap();
        assert_eq!((card.kind, card.is_runnable), ("GGUF file", true));
        let types: Vec<&String> = card.components[0].dtypes.keys().collect();
        assert_eq!(types, ["F32", "Q4_K"]);
        assert!(card.what.contains("Wan 2.1 T2V 1.3B"), "{}", card.what);
        let said = card.notes.get("general.architecture");
        assert_eq!(said.map_or("", String::as_str), arch);
        fs::remove_file(&place).unwrap();
    }
}

#[test]
fn a_gguf_text_encoder_is_a_companion_and_brings_its_tokenizer() {
    let root = tempfile::tempdir().unwrap();
    let models = root.path();
    write(&models.join("vae/wan_2.1_vae.safetensors"), &vae(16), "F32");
    let place = models.join("unet/x.gguf");
    write_gguf(&place, &transformer(NARROW), Q8_0, "wan", 0);
    let encoder = models.join("clip/umt5-xxl-encoder-Q8_0.gguf");
    write_gguf(&encoder, &as_llama_cpp(&umt5()), Q8_0, "t5encoder", 256_384);
    let spec = ModelSpec::open(&place).unwrap();
    assert_eq!(spec.files.text_encoder, encoder);
    assert_eq!(spec.files.tokenizer, encoder);
    let card = IdentityCard::read(&encoder).unwrap();
    assert_eq!(card.what, "a UMT5 text encoder");
    assert_eq!(card.notes["tokenizer.ggml.tokens"], "a list of 256384");
    // Without a vocabulary another tokenizer is wanted, and T5 is another encoder.
    write_gguf(&encoder, &as_llama_cpp(&umt5()), Q8_0, "t5encoder", 0);
    let err = ModelSpec::open(&place).unwrap_err().to_string();
    assert!(err.contains("the tokenizer of UMT5"), "{err}");
    write_gguf(&encoder, &as_llama_cpp(&t5()), Q8_0, "t5encoder", 32_128);
    let err = ModelSpec::open(&place).unwrap_err().to_string();
    assert!(err.contains("umt5_xxl_fp16.safetensors"), "{err}");
}

#[test]
fn blocks_that_cannot_be_expanded_are_refused_with_those_that_can() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let place = models.join("unet/x.gguf");
    write_gguf(&place, &transformer(NARROW), IQ2_XXS, "wan", 0);
    let err = ModelSpec::open(&place).unwrap_err();
    assert!(matches!(err, CatalogError::Unsupported { .. }), "{err}");
    assert_has(&err.to_string(), &["IQ2_XXS", "Q2_K to Q8_0"]);
}

#[test]
fn search_lists_gguf_models_and_reports_truncated_ones() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let shapes = transformer(NARROW);
    write_gguf(&models.join("unet/good.gguf"), &shapes, Q8_0, "wan", 0);
    let half = write_gguf(&models.join("unet/half.gguf"), &shapes, Q8_0, "wan", 0);
    let file = File::options().write(true).open(&half).unwrap();
    file.set_len(100_000).unwrap();
    let mut other = Shapes::new();
    other.insert("blk.0.attn_q.weight".into(), vec![32, 32]);
    write_gguf(&models.join("unet/llama.gguf"), &other, Q8_0, "llama", 0);
    let catalog = catalog_in(&[&models]);
    assert_eq!(names(&catalog), ["good"]);
    let problems: Vec<String> = catalog.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].starts_with("this GGUF file is damaged"),
        "{problems:?}"
    );
    assert!(problems[0].contains("half.gguf"), "{problems:?}");
    assert!(catalog.unsupported.is_empty());
}

#[test]
fn two_experts_in_gguf_are_one_model() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let shapes = transformer(NARROW);
    let [high, low] = [
        "HighNoise/Wan2.2-T2V-A14B-HighNoise-Q8_0.gguf",
        "LowNoise/Wan2.2-T2V-A14B-LowNoise-Q8_0.gguf",
    ]
    .map(|name| write_gguf(&models.join("unet").join(name), &shapes, Q8_0, "wan", 0));
    let other = models.join("unet/LowNoise/Wan2.2-T2V-A14B-LowNoise-Q4_K_M.gguf");
    write_gguf(&other, &shapes, Q8_0, "wan", 0);
    let spec = ModelSpec::open(&high).unwrap();
    assert_eq!(spec.files.transformer, high);
    assert_eq!(spec.files.transformer_2, Some(low));
}
