//! What can be had from files of every program, and of none.

/// Compares these of the settings: `assert_fields!(found, {"prompt": "a fox", "seed": 7})`.
macro_rules! assert_fields {
    ($found:expr, $fields:tt) => {
        assert_fields(&$found, &json!($fields))
    };
}

mod blocking;
mod canvas;
mod cases;
mod comfy_export;
mod computed;
mod drawn_packs;
mod formats;
mod graphs;
mod hostile;
mod loras;
mod models;
mod others;
mod outputs;
mod packs;
mod passes;
mod sdxl;
mod texts;
mod tools;
mod unused;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::media::test_files::png;

/// What a file of this name and content says.
fn read_file(name: &str, bytes: &[u8]) -> Option<ForeignSettings> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    other(read(&path).unwrap())
}

fn other(found: Option<FileSettings>) -> Option<ForeignSettings> {
    match found {
        Some(FileSettings::Other(restored)) => Some(*restored),
        Some(FileSettings::Own(_)) => panic!("expected another program's settings, found ours"),
        None => None,
    }
}

/// Compares these of the settings.
#[track_caller]
fn assert_fields(found: &ForeignSettings, expected: &Value) {
    let all = json!(found);
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&all[name], value, "{name} in {all}");
    }
}

/// Node of a graph in run form.
fn node(class: &str, inputs: Value) -> Value {
    let mut node = json!({"class_type": class});
    node["inputs"] = inputs;
    node
}

/// What a PNG says whose text of this name is this.
fn read_png(name: &str, text: &str) -> ForeignSettings {
    let chunk = [name.as_bytes(), b"\0\0\0\0\0", text.as_bytes()].concat();
    read_file("a.png", &png(*b"iTXt", &chunk)).expect("it says something")
}

/// A plain graph whose sampler has id 7; these nodes are added, or replace those of their id.
fn graph_with(parts: &Value) -> Value {
    let mut graph = json!({
        "1": {"class_type": "UNETLoader", "inputs": {"unet_name": "FLUX\\flux1-dev.safetensors"}},
        "3": {"class_type": "CLIPTextEncode", "inputs": {"text": "a red barn", "clip": ["2", 0]}},
        "4": {"class_type": "FluxGuidance", "inputs": {"guidance": 3.1, "conditioning": ["3", 0]}},
        "5": {"class_type": "ConditioningZeroOut", "inputs": {"conditioning": ["3", 0]}},
        "6": {"class_type": "EmptySD3LatentImage", "inputs": {"width": 896, "height": 640, "batch_size": 1}},
        "7": {"class_type": "KSampler", "inputs": {"seed": 9, "steps": 24, "cfg": 1.0, "sampler_name": "euler",
            "scheduler": "simple", "denoise": 1.0, "model": ["1", 0], "positive": ["4", 0],
            "negative": ["5", 0], "latent_image": ["6", 0]}},
        "8": {"class_type": "VAEDecode", "inputs": {"samples": ["7", 0], "vae": ["9", 0]}},
        "9": {"class_type": "VAELoader", "inputs": {"vae_name": "ae.safetensors"}},
        "10": {"class_type": "SaveImage", "inputs": {"images": ["8", 0]}},
    });
    let nodes = graph.as_object_mut().unwrap();
    for (path, part) in parts.as_object().unwrap() {
        // `7.positive` replaces one input.
        match path.split_once('.') {
            Some((id, input)) => nodes[id]["inputs"][input] = part.clone(),
            None => {
                nodes.insert(path.clone(), part.clone());
            }
        }
    }
    graph
}

fn read_with(parts: &Value) -> ForeignSettings {
    read_png("prompt", &graph_with(parts).to_string())
}

fn encoder(text: &str) -> Value {
    json!({"class_type": "CLIPTextEncode", "inputs": {"text": text, "clip": ["2", 0]}})
}

fn has_note(found: &ForeignSettings, part: &str) -> bool {
    found.notes.iter().any(|note| note.contains(part))
}

#[track_caller]
fn assert_note(found: &ForeignSettings, part: &str) {
    assert!(has_note(found, part), "{part:?} in {:?}", found.notes);
}

fn lora(name: &str, strength: f64, strength_2: Option<f64>) -> RestoredLora {
    RestoredLora {
        strength_2,
        ..RestoredLora::new(name, strength)
    }
}

/// Files of these names in a folder of their own.
fn folder_of(files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let path = folder.path().join(files[0].0);
    (folder, path)
}
