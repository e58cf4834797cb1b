//! LoRAs that a file names several times, in several texts or by halves, and files that were moved.

use serde_json::{Value, json};

use super::*;
use crate::job::{GenerateForm, LoraChoice};
use crate::media::component_fingerprint;
use crate::media::test_files::pngs;
use crate::model::test_spec;

fn loader(name: &str, strength: f64, model: &str) -> Value {
    json!({"class_type": "LoraLoaderModelOnly", "inputs":
        {"lora_name": name, "strength_model": strength, "model": [model, 0]}})
}

fn read_prompt(prompt: &str) -> ForeignSettings {
    let text = format!("{prompt}\nSteps: 20, CFG scale: 7, Seed: 3");
    read_png("parameters", &text)
}

#[test]
fn the_strengths_of_a_lora_that_acts_twice_add_up() {
    let found = read_with(&json!({"11": loader("wan/ink.safetensors", 0.1, "1"),
        "12": loader("wan\\Ink.safetensors", 0.2, "11"), "7.model": ["12", 0]}));
    assert_eq!(found.loras, [lora("ink.safetensors", 0.3, None)]);

    let found =
        read_prompt("a fox <lora:ink:0.4> <lora:|high_noise|w:1> <lora:ink:0.3> <lora:w:0.5>");
    assert_eq!(
        found.loras,
        [lora("ink", 0.7, None), lora("w", 1.5, Some(0.5))]
    );
    let composed = read_prompt("<lora:Stil \u{c9}:0.5> <lora:Stil E\u{301}:0.5>");
    assert_eq!(composed.loras.len(), 1);
}

#[test]
fn lora_given_twice_by_one_node_is_restored_once() {
    let select = json!({"class_type": "WanVideoLoraSelect", "inputs": {"lora": "ink.safetensors", "strength": 0.7}});
    let apply =
        json!({"class_type": "WanVideoSetLoRAs", "inputs": {"model": ["1", 0], "lora": ["11", 0]}});
    let found = read_with(&json!({"11": select, "12": apply, "7.model": ["12", 0]}));
    assert_eq!(found.loras, [lora("ink.safetensors", 0.7, None)]);

    let widget = |name: &str| json!({"name": name, "widget": {"name": name}, "link": null});
    let entry = |name: &str| json!({"on": true, "lora": name, "strength": 0.5});
    let canvas = json!({"nodes": [
        {"id": 1, "type": "Power Lora Loader (rgthree)", "inputs": [widget("lora_1"), widget("lora_2")],
            "widgets_values": [entry("ink"), entry("grain")]},
        {"id": 7, "type": "KSampler", "inputs": [{"name": "model", "link": 1}],
            "widgets_values": [5, "fixed", 20, 1.0, "euler", "simple", 1.0]}],
        "links": [[1, 1, 0, 7, 0, "MODEL"]]});
    let found = read_png("workflow", &canvas.to_string());
    assert_eq!(
        found.loras,
        [lora("ink", 0.5, None), lora("grain", 0.5, None)]
    );
}

#[test]
fn loras_of_one_name_in_two_folders_are_two() {
    let found = read_with(&json!({"11": loader("flux/style.safetensors", 0.5, "1"),
        "12": loader("old/style.safetensors", 0.25, "11"), "7.model": ["12", 0]}));
    let paths: Vec<_> = found
        .loras
        .iter()
        .map(|it| (&*it.path, it.strength))
        .collect();
    assert_eq!(
        paths,
        [
            ("flux/style.safetensors", 0.5),
            ("old/style.safetensors", 0.25)
        ]
    );

    // The file of one is not taken for the other.
    let files = ["/l/flux/style.safetensors".into()];
    for mut restored in [found.clone(), {
        let mut turned = found;
        turned.loras.reverse();
        turned
    }] {
        for is_chosen in [false, true] {
            if is_chosen {
                assert!(restored.choose_loras(&files, &|_| true).is_empty());
            }
            let (used, missing) = restored.find_loras(&files);
            assert_eq!((used.len(), used[0].strength), (1, 0.5));
            assert_eq!(missing, ["style.safetensors (0.25)"]);
        }
    }
}

#[test]
fn a_lora_that_several_texts_of_a_file_name_acts_once() {
    let graph =
        graph_with(&json!({"11": loader("flux/ink.safetensors", 0.5, "1"), "7.model": ["11", 0]}));
    let graph = format!("prompt\0{graph}");
    let text = "parameters\0a barn <lora:ink:0.5> <lora:grain:1>\nSteps: 24, CFG scale: 1, Seed: 9, Lora hashes: \"ink: de92428f6411\"";
    let found = read_file(
        "a.png",
        &pngs(&[(*b"tEXt", graph.as_bytes()), (*b"tEXt", text.as_bytes())]),
    );
    let found = found.unwrap();
    assert_eq!(found.loras, [lora("ink.safetensors", 0.5, None)]);
    assert_note(&found, "names LoRAs that are not used: grain (1)");

    // SwarmUI lists those of the tags again, with their folders.
    let params = json!({"sui_image_params": {
        "prompt": "a fox <lora:Ink:0.75>", "model": "flux1-dev", "seed": 7, "steps": 9,
        "loras": ["folder/ink", "grain", "grain"], "loraweights": ["0.75", "0.2", "0.2"],
    }});
    let found = read_png("parameters", &params.to_string());
    assert_eq!(
        found.loras,
        [lora("Ink", 0.75, None), lora("grain", 0.4, None)]
    );
    assert_eq!(found.loras[0].path, "folder/ink");
}

#[test]
fn a_node_that_encodes_for_two_prompts_loads_its_loras_once() {
    let encoder = json!({"class_type": "ImpactWildcardEncode", "inputs": {"model": ["1", 0], "clip": ["2", 0],
        "wildcard_text": "", "populated_text": "a barn <lora:ink:0.5:0.25>", "mode": "fixed", "seed": 1}});
    let joint = json!({"class_type": "ConditioningCombine", "inputs":
        {"conditioning_1": ["11", 2], "conditioning_2": ["11", 2]}});
    let found = read_with(
        &json!({"11": encoder, "12": joint, "7.positive": ["12", 0], "7.model": ["11", 0]}),
    );
    assert_eq!(found.prompt.as_deref(), Some("a barn"));
    assert_eq!(found.loras, [lora("ink", 0.5, None)]);
    assert_note(
        &found,
        "The text encoder's strength 0.25 in <lora:ink:0.5:0.25> is not used",
    );
}

#[test]
fn strengths_that_cannot_be_read_are_named_and_not_taken_for_1() {
    let found = read_prompt("a fox <lora:bad:abc> <lora:ink:0.5>");
    assert_eq!(found.loras, [lora("ink", 0.5, None)]);
    assert_note(&found, "<lora:bad:abc> cannot be read");
    let found = read_file(
        "a.json",
        br#"{"prompt": "a fox", "seed": 1, "steps": 4, "loras": [{"name": "ink", "weight": "much"}, "grain"]}"#,
    )
    .unwrap();
    assert_eq!(found.loras, [lora("grain", 1.0, None)]);
    assert_note(
        &found,
        "The LoRA ink is not used: its strength, \"much\", is not a number",
    );
}

#[test]
fn the_block_weights_of_a_lora_are_named() {
    for (vector, is_named) in [("1,0,0.5,1", true), ("1,1,1,1", false), ("", false)] {
        let node = json!({"class_type": "LoraLoaderBlockWeight //Inspire", "inputs": {"model": ["1", 0],
            "lora_name": "ink.safetensors", "strength_model": 0.6, "strength_clip": 1.0, "inverse": false,
            "seed": 0, "A": 4.0, "B": 1.0, "preset": "Preset", "block_vector": vector, "bypass": false}});
        let found = read_with(&json!({"11": node, "7.model": ["11", 0]}));
        assert_eq!(found.loras, [lora("ink.safetensors", 0.6, None)]);
        let note =
            "The block weights of a LoRA are not used (node 11 (LoraLoaderBlockWeight //Inspire))";
        assert_eq!(
            found.notes.iter().any(|it| it.starts_with(note)),
            is_named,
            "{vector}: {:?}",
            found.notes
        );
    }
    let found = read_prompt("a fox <lora:ink:0.5:lbw=OUTALL>");
    assert_note(
        &found,
        "The part lbw=OUTALL of <lora:ink:0.5:lbw=OUTALL> is not used",
    );
}

#[test]
fn the_loras_of_an_own_file_are_found_where_they_were_moved_to() {
    let (folder, _) = folder_of(&[("style.safetensors", b"ours"), ("ink.safetensors", b"ink")]);
    let root = folder.path();
    for (name, bytes) in [
        ("flux/style", "another"),
        ("new/style", "ours"),
        ("new/gone", ""),
    ] {
        let path = root.join(format!("{name}.safetensors"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let form = GenerateForm {
        prompt: "a fox".to_owned(),
        out: "a.mp4".into(),
        ..GenerateForm::default()
    };
    let mut request = form.validate(&test_spec()).unwrap().request;
    let at = |name: &str| root.join(name).with_extension("safetensors");
    let lora = |path: PathBuf| LoraChoice {
        path,
        strength: 0.5,
        strength_2: None,
    };
    let ours = component_fingerprint(&at("style")).unwrap();
    request.loras = ["/old/flux/style.safetensors", "/old/lost.safetensors"]
        .map(|it| lora(it.into()))
        .into();
    request.loras.push(lora(at("ink")));
    let mut carried = EmbeddedSettings {
        request,
        inputs: [("loras.0".to_owned(), ours)].into(),
    };
    let notes = carried.find_moved_loras(|| vec![at("flux/style"), at("new/style")]);
    let paths: Vec<_> = carried
        .request
        .loras
        .into_iter()
        .map(|it| it.path)
        .collect();
    assert_eq!(
        paths,
        [at("new/style"), "/old/lost.safetensors".into(), at("ink")]
    );
    let [note] = &notes[..] else {
        panic!("one note is expected: {notes:?}")
    };
    assert!(
        note.starts_with("The LoRA /old/flux/style.safetensors is used from"),
        "{note}"
    );
}
