//! Nodes, numbers and files of a graph that are named because nothing reads them.

use serde_json::{Value, json};

use super::*;

fn node(class: &str, inputs: &Value) -> Value {
    json!({"class_type": class, "inputs": inputs})
}

fn image(file: &str) -> Value {
    node("LoadImage", &json!({"image": file}))
}

/// A node between the sampler's input `name` and what gave it before.
fn between(name: &str, before: Value, class: &str, link: &str, more: Value) -> Value {
    let mut inputs = more;
    inputs[link] = before;
    let path = format!("7.{name}");
    json!({"20": node(class, &inputs), path: ["20", 0]})
}

#[test]
fn unused_nodes_on_the_sampler_path_are_named_with_their_values() {
    for (parts, note) in [
        (
            between(
                "positive",
                json!(["4", 0]),
                "NodeOfTomorrow",
                "conditioning",
                json!({"amount": 0.5}),
            ),
            "Not used: node 20 (NodeOfTomorrow) with amount 0.5",
        ),
        (
            between(
                "positive",
                json!(["4", 0]),
                "GLIGENTextBoxApply",
                "conditioning_to",
                json!({"text": "a blue cow", "width": 128, "height": 128, "x": 8, "y": 8}),
            ),
            "Not used: node 20 (GLIGENTextBoxApply) with text a blue cow, x 8, y 8",
        ),
        (
            between(
                "model",
                json!(["1", 0]),
                "DifferentialDiffusion",
                "model",
                json!({}),
            ),
            "Not used: node 20 (DifferentialDiffusion)",
        ),
        (
            json!({"20": node("SetClipHooks", &json!({"clip": ["2", 0], "hooks": ["21", 0]})), "3.clip": ["20", 0],
                "21": node("CreateHookLora", &json!({"lora_name": "ink.safetensors", "strength_model": 0.8}))}),
            "node 21 (CreateHookLora) with lora_name ink.safetensors, strength_model 0.8",
        ),
        (
            json!({"20": node("PrimitiveString", &json!({"value": "inkstyle"})), "3.trigger_words1": ["20", 0]}),
            "Not used: node 20 (PrimitiveString) with value inkstyle",
        ),
        (
            json!({"6.batch_size": 4}),
            "Not used: batch_size 4 of node 6 (EmptySD3LatentImage)",
        ),
        (
            json!({"7.true_gs": 3.5}),
            "Not used: true_gs 3.5 of node 7 (KSampler)",
        ),
        (
            json!({"20": node("ImageScale", &json!({"image": ["8", 0], "width": 1792, "height": 1280})),
                "10.images": ["20", 0]}),
            "Not used: node 20 (ImageScale)",
        ),
        (
            json!({"20": node("ReActorFaceSwap", &json!({"input_image": ["8", 0], "source_image": ["21", 0]})),
                "21": image("me.png"), "10.images": ["20", 0]}),
            "Not used: me.png (source_image of node 20 (ReActorFaceSwap)); node 20 (ReActorFaceSwap)",
        ),
        (
            json!({"20": node("ImageCompositeMasked", &json!({"destination": ["21", 0], "source": ["8", 0]})),
                "21": image("wall.png"), "10.images": ["20", 0]}),
            "Not used: wall.png (destination of node 20 (ImageCompositeMasked)); node 20 (ImageCompositeMasked)",
        ),
    ] {
        let found = read_with(&parts);
        assert_note(&found, note);
        assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
        let read = (found.prompt.as_deref(), found.width, found.from_image);
        assert_eq!(read, (Some("a red barn"), Some(896), false), "{note}");
    }
}

#[test]
fn files_are_named_by_the_input_that_they_were_given_to() {
    let from_start = json!(["20", 0]);
    for (inputs, class, more, notes) in [
        (
            json!({"pixels": ["21", 0], "mask": ["22", 0]}),
            "VAEEncodeForInpaint",
            json!({"21": image("cat.png"), "22": image("hole.png")}),
            vec![
                "Its start image, cat.png, is not",
                "Its mask, hole.png, is not in the file: set it again (it was given to node 20 (VAEEncodeForInpaint))",
            ],
        ),
        (
            json!({"pixels": ["21", 0]}),
            "VAEEncode",
            json!({"21": node("ImagePadForOutpaint", &json!({"image": ["22", 0], "left": 400})), "22": image("cat.png")}),
            vec![
                "Its start image, cat.png, is not",
                "node 21 (ImagePadForOutpaint) with left 400",
            ],
        ),
        (
            json!({"pixels": ["21", 0]}),
            "VAEEncode",
            json!({"21": node("ImageScale", &json!({"image": ["22", 0], "width": 64, "height": 64})), "22": image("cat.png")}),
            vec!["Its start image, cat.png, is not"],
        ),
        (
            json!({"pixels": ["21", 0]}),
            "VAEEncode",
            json!({"21": node("VHS_LoadVideo", &json!({"video": "in/dance.mp4", "frame_load_cap": 33}))}),
            vec![
                "Its video, dance.mp4, is not",
                "Not used: frame_load_cap 33 of node 21 (VHS_LoadVideo)",
            ],
        ),
        (
            json!({"start_image": ["21", 0], "control_video": ["22", 0]}),
            "WanFunControlToVideo",
            json!({"21": image("cat.png"), "22": node("LoadVideo", &json!({"file": "dance.mp4"}))}),
            vec![
                "Its start image, cat.png, is not",
                "Its control video, dance.mp4, is not",
            ],
        ),
        (
            json!({"reference_image": ["21", 0], "pose_video": ["22", 0], "width": 64, "height": 64}),
            "WanAnimateToVideo",
            json!({"21": image("cat.png"), "22": node("LoadVideo", &json!({"file": "dance.mp4"}))}),
            vec![
                "Its reference image, cat.png, is not",
                "Not used: dance.mp4 (pose_video of node 20 (WanAnimateToVideo))",
            ],
        ),
    ] {
        let mut parts = more;
        parts["20"] = node(class, &inputs);
        parts["7.latent_image"] = from_start.clone();
        let found = read_with(&parts);
        assert!(found.from_image, "{class}");
        for note in notes {
            assert_note(&found, note);
        }
    }
    let found = read_with(&json!({
        "20": image("cat.png"), "21": image("hat.png"),
        "22": node("ImageStitch", &json!({"image1": ["20", 0], "image2": ["21", 0]})),
        "23": node("VAEEncode", &json!({"pixels": ["22", 0], "vae": ["9", 0]})),
        "24": node("ReferenceLatent", &json!({"conditioning": ["3", 0], "latent": ["23", 0]})),
        "4.conditioning": ["24", 0], "7.latent_image": ["23", 0],
    }));
    assert_note(
        &found,
        "Its reference images, cat.png, hat.png, are not in the file",
    );
    assert_note(&found, "Not used: node 22 (ImageStitch)");
}

#[test]
fn references_zeros_and_files_of_a_length_are_named() {
    let photo = node("LoadImage", &json!({"image": "cat.png"}));
    let video = node("VHS_LoadVideo", &json!({"video": "cat.mp4"}));
    let size = json!({"width": 896, "height": 640, "length": 81, "ref_image": ["20", 0]});
    let mut counted = size.clone();
    (counted["length"], counted["input_frames"]) = (json!(["21", 1]), json!(["21", 0]));
    let zeros = node("ConditioningZeroOut", &json!({"conditioning": ["3", 0]}));
    let options = node(
        "T5TokenizerOptions",
        &json!({"clip": ["2", 0], "min_padding": 1, "min_length": 0}),
    );
    for (parts, note) in [
        (
            json!({"6": node("Wan22FunControlToVideo", &size)}),
            "Its reference image, cat.png,",
        ),
        (
            json!({"11": node("PainterFluxImageEdit", &json!({"prompt": "a cow", "image1": ["20", 0], "width": 896, "height": 640})),
                "7.positive": ["11", 0], "7.latent_image": ["11", 1]}),
            "Its reference image, cat.png,",
        ),
        (
            json!({"6": node("WanVideoVACEEncode", &counted)}),
            "cat.mp4 (input_frames of node 6",
        ),
        (
            json!({"11": zeros, "7.positive": ["11", 0]}),
            "The prompt was replaced by zeros (node 11",
        ),
        (
            json!({"11": options, "3.clip": ["11", 0]}),
            "Not used: node 11 (T5TokenizerOptions)",
        ),
    ] {
        let mut all = json!({"20": photo, "21": video});
        all.as_object_mut()
            .unwrap()
            .extend(parts.as_object().unwrap().clone());
        let found = read_with(&all);
        assert_note(&found, note);
        assert!(!has_note(&found, "start image"), "{:?}", found.notes);
    }
}

#[test]
fn nodes_without_an_effect_and_values_that_change_nothing_are_not_named() {
    let found = read_with(&json!({
        "20": node("Reroute", &json!({"": ["8", 0]})), "10.images": ["20", 0],
        "21": node("PreviewImage", &json!({"images": ["8", 0]})),
        "22": node("Note", &json!({"text": "my best one"})),
        "23": node("PrimitiveInt", &json!({"value": 24})), "7.steps": ["23", 0],
        "24": node("ShowText|pysssss", &json!({"text": ["25", 0]})), "3.text": ["24", 0],
        "25": node("PrimitiveString", &json!({"value": "a red barn"})),
        "26": node("UpscaleModelLoader", &json!({"model_name": "4x.pth"})),
        "27": node("ConditioningAverage", &json!({"conditioning_to": ["3", 0], "conditioning_from": ["28", 0],
            "conditioning_to_strength": 1.0})),
        "28": encoder("no effect"), "4.conditioning": ["27", 0],
        "29": encoder("replaced"),
        "30": node("Context (rgthree)", &json!({"positive": ["29", 0], "model": ["1", 0]})),
        "31": node("Context (rgthree)", &json!({"base_ctx": ["30", 0], "positive": ["4", 0]})),
        "7.positive": ["31", 4], "7.model": ["31", 1], "7.eta": 1.0, "7.extra": 0,
    }));
    assert_fields!(found, {"notes": [], "prompt": "a red barn", "num_steps": 24});
}

#[test]
fn of_many_unused_nodes_the_first_are_named_and_the_others_counted() {
    let mut parts = json!({"7.model": ["100", 0]});
    for id in 100..140 {
        let before = if id == 139 {
            json!(["1", 0])
        } else {
            json!([(id + 1).to_string(), 0])
        };
        parts[id.to_string()] = node("Patch", &json!({"model": before}));
    }
    let found = read_with(&parts);
    let [note] = &found.notes[..] else {
        panic!("one note is expected: {:?}", found.notes)
    };
    assert!(note.ends_with("node 115 (Patch) and 24 more"), "{note}");
}

#[test]
fn later_sampling_pass_is_reported_once_without_its_own_inputs() {
    let found = read_with(&json!({
        "20": node("UltimateSDUpscale", &json!({"upscale_by": 2, "seed": 5, "steps": 8, "denoise": 0.2, "image": ["8", 0],
            "model": ["21", 0], "positive": ["11", 0]})),
        "21": node("PatchOfThePass", &json!({"model": ["1", 0]})),
        "11": encoder("a face"), "10.images": ["20", 0],
    }));
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
}

#[test]
fn strengths_of_a_lora_that_are_not_used_or_not_read_are_named() {
    let lora_between =
        |class: &str, more: Value| between("model", json!(["1", 0]), class, "model", more);
    let expected = [lora("ink.safetensors", 0.8, None)];
    for (parts, note) in [
        (
            lora_between(
                "LoraLoader",
                json!({"lora_name": "ink.safetensors", "strength_model": 0.8, "strength_clip": 0.2}),
            ),
            Some("The text encoder's strength 0.2 of the LoRA ink.safetensors is not used"),
        ),
        (
            lora_between(
                "LoraLoader",
                json!({"lora_name": "ink.safetensors", "strength_model": 0.8, "strength_clip": 0.8}),
            ),
            None,
        ),
        (
            lora_between(
                "Power Lora Loader (rgthree)",
                json!({"lora_1": {"on": true, "lora": "ink.safetensors", "strength": 0.8, "strengthTwo": 0.2}}),
            ),
            Some("The text encoder's strength 0.2 of the LoRA ink.safetensors is not used"),
        ),
        (
            lora_between(
                "Lora Text Patcher",
                json!({"text": "<lora:ink.safetensors:0.8>"}),
            ),
            None,
        ),
        (
            lora_between(
                "ttN loader",
                json!({"loras": "<lora:ink.safetensors:0.8:0.8>"}),
            ),
            None,
        ),
    ] {
        let found = read_with(&parts);
        assert_eq!(found.loras, expected);
        match note {
            Some(note) => assert_note(&found, note),
            None => assert_eq!(found.notes, [] as [&str; 0], "{parts}"),
        }
    }
    let mut computed = lora_between(
        "LoraLoaderModelOnly",
        json!({"lora_name": "ink.safetensors", "strength_model": ["21", 0]}),
    );
    computed["21"] = node(
        "MathExpression",
        &json!({"expression": "a*f(b)", "a": 4, "b": 5}),
    );
    let found = read_with(&computed);
    assert_eq!(found.loras, [lora("ink.safetensors", 1.0, None)]);
    assert_fields!(found, {
        "notes": ["The strength of the LoRA ink.safetensors could not be read (node 20 (LoraLoaderModelOnly)): 1 is used"]
    });
    let found = read_with(&lora_between(
        "CivitAI_Lora_Loader",
        json!({"lora_air": "12345@67890", "lora_name": "none", "strength_model": 0.8}),
    ));
    assert_eq!(found.loras, []);
    assert_note(&found, "Node 20 (CivitAI_Lora_Loader) sets a LoRA in a way");
}

#[test]
fn graph_without_a_known_sampler_is_refused_with_a_reason() {
    let graph = json!({"1": node("SaveImage", &json!({"images": ["2", 0]})), "2": node("MagicSampler", &json!({"prompt": "x"}))});
    let (_folder, path) = folder_of(&[("a.json", graph.to_string().as_bytes())]);
    assert!(read(&path).unwrap().is_none());
    assert_eq!(
        says_nothing(&path).summary,
        "the file a.json holds a ComfyUI graph without a sampler that Safelight reads: node 2 (MagicSampler) makes its result"
    );
    let (_folder, path) = folder_of(&[("a.json", b"{\"a\": 1}")]);
    assert_eq!(
        says_nothing(&path).summary,
        "the file a.json does not say how it was made"
    );
}
