//! What can be had from files of every program, and of none.

mod blocking;
mod canvas;
mod cases;
mod comfy_export;
mod computed;
mod formats;
mod graphs;
mod hostile;
mod loras;
mod models;
mod others;
mod outputs;
mod packs;
mod passes;
mod texts;
mod tools;
mod unused;

use std::fs;
use std::path::PathBuf;

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

/// Node of a graph in run form.
fn node(class: &str, inputs: serde_json::Value) -> serde_json::Value {
    let mut node = serde_json::json!({"class_type": class});
    node["inputs"] = inputs;
    node
}

/// What a PNG says whose text of this name is this.
fn read_png(name: &str, text: &str) -> ForeignSettings {
    let chunk = [name.as_bytes(), b"\0\0\0\0\0", text.as_bytes()].concat();
    read_file("a.png", &png(*b"iTXt", &chunk)).expect("it says something")
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
