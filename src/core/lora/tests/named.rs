//! LoRA files by the names that others give them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::fitting::{LoraIndex, files_named};

fn named(files: &[&str], name: &str, fits: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
    let found = files_named(&files, name, fits).into_iter();
    found.map(|file| file.display().to_string()).collect()
}

#[test]
fn lora_name_is_matched_by_folder_first_and_then_by_fit() {
    let files = [
        "/l/flux/style.safetensors",
        "/l/wan/Style.safetensors",
        "/l/ink.v1.2.safetensors",
    ];
    let none = |_: &Path| false;
    let wan = |file: &Path| file.starts_with("/l/wan");
    for name in [
        "wan/style",
        "WAN\\style.safetensors",
        "C:\\models\\wan\\STYLE",
        "/x/wan/style",
    ] {
        assert_eq!(named(&files, name, &none), [files[1]], "{name}");
    }
    assert_eq!(named(&files, "style", &wan), [files[1]]);
    assert_eq!(named(&files, "sdxl/style", &wan), [files[1]]);
    assert_eq!(named(&files, "style", &none).len(), 2);
    assert_eq!(named(&files, "ink.v1.2", &none), [files[2]]);
    for name in ["", "ink.v1", "wan", "styl", "style/"] {
        assert!(named(&files, name, &none).is_empty(), "{name}");
    }
}

#[test]
fn composed_and_decomposed_letters_are_one_name() {
    let composed = "/l/M\u{fc}llers Stil \u{c9}.safetensors";
    let decomposed = "/l/Mu\u{308}llers Stil E\u{301}.safetensors";
    let any = |_: &Path| true;
    for name in [
        "M\u{fc}llers Stil \u{c9}",
        "Mu\u{308}llers Stil E\u{301}",
        "M\u{dc}LLERS STIL \u{e9}",
    ] {
        for file in [composed, decomposed] {
            assert_eq!(named(&[file], name, &any), [file], "{name:?}");
        }
    }
}

#[test]
fn copies_of_one_file_count_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    let one = |name: &str| file(name, "one");
    let mut files = vec![one("a/x.safetensors"), one("b/x.safetensors")];
    assert_eq!(files_named(&files, "x", &|_| true), files[..1]);
    files.push(file("c/x.safetensors", "two"));
    assert_eq!(files_named(&files, "x", &|_| true).len(), 2);
    let err = LoraIndex::from(files).file_named("x", &|_| true);
    let err = err.unwrap_err();
    assert!(err.contains("a/x.safetensors") && err.contains("c/x.safetensors"));
}

#[test]
fn a_typed_name_means_only_files_in_its_folders() {
    let index = LoraIndex::from(vec!["/l/flux/style.safetensors".into()]);
    let any = |_: &Path| true;
    assert!(index.file_named("style", &any).is_ok());
    assert!(index.file_named("flux/style", &any).is_ok());
    let err = index.file_named("wan/style", &any).unwrap_err();
    assert!(err.contains("there is no LoRA \"wan/style\""), "{err}");
    assert!(LoraIndex::default().file_named("style", &any).is_err());
}
