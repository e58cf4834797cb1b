//! Graphs with the nodes of other packs: contexts, switches, string functions, LoRA stacks.

use serde_json::{Value, json};

use super::*;

#[test]
fn a_context_gives_each_input_of_the_sampler_its_own_member() {
    let found = read_with(&json!({
        "12": encoder("ugly, blurry"),
        "13": {"class_type": "Context Big (rgthree)", "inputs": {"model": ["1", 0], "positive": ["3", 0],
            "negative": ["12", 0], "seed": 4711, "latent": ["6", 0]}},
        "11": {"class_type": "Context (rgthree)", "inputs": {"base_ctx": ["13", 0], "positive": ["4", 0]}},
        "7.positive": ["11", 4], "7.negative": ["11", 5], "7.seed": ["11", 8], "7.model": ["11", 1],
        "7.latent_image": ["11", 6],
    }));
    assert_fields!(found, {
        "prompt": "a red barn", "negative_prompt": "ugly, blurry", "distilled_guidance": 3.1, "seed": 4711,
        "width": 896, "model": "flux1-dev.safetensors", "notes": []
    });
}

#[test]
fn the_members_of_a_basic_pipe_are_followed() {
    let found = read_with(&json!({
        "12": encoder("ugly"),
        "11": {"class_type": "ToBasicPipe", "inputs": {"model": ["1", 0], "positive": ["4", 0], "negative": ["12", 0]}},
        "13": {"class_type": "FromBasicPipe", "inputs": {"basic_pipe": ["11", 0]}},
        "7.positive": ["13", 3], "7.negative": ["13", 4], "7.model": ["13", 0],
    }));
    assert_fields!(found, {"prompt": "a red barn", "negative_prompt": "ugly", "model": "flux1-dev.safetensors"});
}

#[test]
fn joined_conditionings_give_all_their_texts_and_a_note() {
    for (class, inputs, note) in [
        (
            "ConditioningConcat",
            ["conditioning_to", "conditioning_from"],
            "encoded them separately",
        ),
        (
            "ConditioningCombine",
            ["conditioning_1", "conditioning_2"],
            "gives another result",
        ),
        (
            "ConditioningAverage",
            ["conditioning_to", "conditioning_from"],
            "gives another result",
        ),
    ] {
        let joint =
            json!({"class_type": class, "inputs": {inputs[0]: ["3", 0], inputs[1]: ["11", 0]}});
        let found = read_with(
            &json!({"11": encoder("at night"), "12": joint, "4.conditioning": ["12", 0]}),
        );
        assert_eq!(
            found.prompt.as_deref(),
            Some("a red barn, at night"),
            "{class}"
        );
        assert_note(&found, note);
        assert_note(&found, &format!("node 12 ({class})"));
    }
}

#[test]
fn a_condition_that_is_negated_is_inverted_and_one_that_is_not_understood_is_named() {
    let parts = |class: &str| {
        json!({"11": encoder("first"),
            "12": {"class_type": "easy ifElse", "inputs": {"boolean": ["13", 0], "on_false": ["11", 0], "on_true": ["3", 0]}},
            "13": {"class_type": class, "inputs": {"value": ["14", 0]}},
            "14": {"class_type": "PrimitiveBoolean", "inputs": {"value": true}},
            "7.positive": ["12", 0]})
    };
    for class in ["ImpactNeg", "Logic NOT", "Invert Boolean"] {
        let found = read_with(&parts(class));
        assert_eq!(found.prompt.as_deref(), Some("first"), "{class}");
    }
    let found = read_with(&parts("Boolean Of Somewhere"));
    assert_eq!(found.prompt, None);
    assert_note(
        &found,
        "The prompt could not be read: node 12 (easy ifElse)",
    );

    let mut model = parts("Boolean Of Somewhere");
    model["12"]["inputs"]["on_true"] = json!(["1", 0]);
    model["7.positive"] = json!(["4", 0]);
    model["7.model"] = json!(["12", 0]);
    let found = read_with(&model);
    assert_eq!(found.model, None);
    assert_note(&found, "The model could not be read: node 12 (easy ifElse)");
}

#[test]
fn a_node_of_two_conditionings_gives_each_at_its_own_slot() {
    let apply = json!({"class_type": "ControlNetApplyAdvanced", "inputs": {"positive": ["3", 0], "negative": ["11", 0],
        "strength": 1.0, "start_percent": 0.0, "end_percent": 1.0}});
    for (slots, expected) in [
        ([0, 1], ["a red barn", "ugly"]),
        ([1, 0], ["ugly", "a red barn"]),
    ] {
        let found = read_with(&json!({"11": encoder("ugly"), "12": apply,
            "7.positive": ["12", slots[0]], "7.negative": ["12", slots[1]]}));
        let prompts = [found.prompt.as_deref(), found.negative_prompt.as_deref()];
        assert_eq!(prompts, expected.map(Some));
    }
}

#[test]
fn an_average_of_all_and_nothing_is_the_one_text() {
    for (strength, expected, num_notes) in [
        (1.0, "a red barn", 0),
        (0.0, "at night", 0),
        (0.5, "a red barn, at night", 1),
    ] {
        let average = json!({"class_type": "ConditioningAverage", "inputs": {"conditioning_to": ["3", 0],
            "conditioning_from": ["11", 0], "conditioning_to_strength": strength}});
        let found = read_with(
            &json!({"11": encoder("at night"), "12": average, "4.conditioning": ["12", 0]}),
        );
        assert_eq!(found.prompt.as_deref(), Some(expected));
        assert_eq!(found.notes.len(), num_notes, "{:?}", found.notes);
    }
}

#[test]
fn plain_string_functions_are_computed_and_stored_results_are_taken() {
    for (node, expected) in [
        (
            json!({"class_type": "StringReplace", "inputs":
            {"string": "a COLOR barn", "find": "COLOR", "replace": "red"}}),
            "a red barn",
        ),
        (
            json!({"class_type": "Text Concatenate", "inputs": {"delimiter": ", ", "clean_whitespace": "true",
            "text_a": "a red ", "text_b": ["21", 0]}}),
            "a red, barn",
        ),
        (
            json!({"class_type": "JoinStrings", "inputs": {"delimiter": "\\n", "string1": "a", "string2": "b"}}),
            "a\nb",
        ),
        (
            json!({"class_type": "StringTrim", "inputs": {"string": " a barn ", "mode": "Both"}}),
            "a barn",
        ),
        (
            json!({"class_type": "StringFunction|pysssss", "inputs": {"action": "append", "tidy_tags": "yes",
            "text_a": "a", "text_b": "b", "text_c": "", "result": "a, b"}}),
            "a, b",
        ),
        (
            json!({"class_type": "ImpactWildcardProcessor", "inputs": {"wildcard_text": "a {red|blue} barn",
            "populated_text": "a blue barn", "mode": "populate", "seed": 5}}),
            "a blue barn",
        ),
        (
            json!({"class_type": "ShowText|pysssss", "inputs": {"text": ["21", 0], "text_0": "of an earlier run"}}),
            "barn",
        ),
        (
            json!({"class_type": "easy showAnything", "inputs": {"anything": ["21", 0]}}),
            "barn",
        ),
        (
            json!({"class_type": "Power Prompt - Simple (rgthree)", "inputs":
            {"prompt": "a barn", "insert_embedding": "CHOOSE", "insert_saved": "CHOOSE"}}),
            "a barn",
        ),
        (
            json!({"class_type": "StringConstantMultiline", "inputs": {"string": "a barn", "strip_newlines": true}}),
            "a barn",
        ),
    ] {
        let text = json!({"class_type": "PrimitiveString", "inputs": {"value": "barn"}});
        let found = read_with(&json!({"20": node, "21": text, "3.text": ["20", 0]}));
        assert_eq!(found.prompt.as_deref(), Some(expected), "{node}");
    }
}

#[test]
fn a_text_that_other_nodes_compute_is_not_guessed() {
    for node in [
        json!({"class_type": "OllamaGenerate", "inputs": {"prompt": "describe a barn", "model": "llama3"}}),
        json!({"class_type": "DPRandomGenerator", "inputs": {"text": "a {red|blue} barn", "seed": 5}}),
        json!({"class_type": "Prompt Enhancer", "inputs": {"prompt": "a barn"}}),
        json!({"class_type": "RegexReplace", "inputs": {"string": "a barn", "regex_pattern": "b", "replace": "c"}}),
        json!({"class_type": "Florence2Run", "inputs": {"image": ["22", 0], "text_input": "", "task": "caption"}}),
        json!({"class_type": "SDXLPromptStyler", "inputs": {"text_positive": "a barn", "style": "noir"}}),
        json!({"class_type": "Unknown", "inputs": {"text": "a barn", "other": "not idle"}}),
    ] {
        let class = node["class_type"].as_str().unwrap().to_owned();
        let found = read_with(&json!({"20": node, "3.text": ["20", 0]}));
        assert_eq!(found.prompt, None, "{class}");
        let note = format!("The prompt could not be read: node 20 ({class}) makes it");
        assert!(found.notes[0].starts_with(&note), "{:?}", found.notes);
        // What was read stays.
        assert_eq!((found.seed, found.width), (Some(9), Some(896)));
    }
}

#[test]
fn a_stored_text_is_taken_with_a_note_and_that_of_the_canvas_first() {
    let parts = json!({
        "20": {"class_type": "ShowText|pysssss", "inputs": {"text": ["21", 0], "text_0": "of the run before"}},
        "21": {"class_type": "OllamaGenerate", "inputs": {"prompt": "describe a barn", "model": "llama3"}},
        "3.text": ["20", 0],
    });
    let found = read_with(&parts);
    assert_eq!(found.prompt.as_deref(), Some("of the run before"));
    assert_note(
        &found,
        "the text that node 20 (ShowText|pysssss) shows is used",
    );

    let canvas = json!({"nodes": [{"id": 20, "type": "ShowText|pysssss", "inputs": [{"name": "text", "link": 1}],
        "widgets_values": [["of this run"]]}], "links": []});
    let both = json!({"prompt": graph_with(&parts).to_string(), "workflow": canvas.to_string()});
    let found = read_file("a.json", both.to_string().as_bytes()).unwrap();
    assert_eq!(found.prompt.as_deref(), Some("of this run"));
}

#[test]
fn loader_packs_give_prompts_size_and_lora() {
    let found = read_png("prompt", &json!({
        "1": {"class_type": "Efficient Loader", "inputs": {"ckpt_name": "flux1-dev-all.safetensors",
            "lora_name": "ink.safetensors", "lora_model_strength": 0.6, "lora_clip_strength": 1,
            "positive": "a red barn", "negative": "ugly", "empty_latent_width": 896, "empty_latent_height": 640}},
        "2": {"class_type": "KSampler (Efficient)", "inputs": {"seed": 77, "steps": 24, "cfg": 1.5,
            "sampler_name": "euler", "scheduler": "simple", "denoise": 1, "model": ["1", 0],
            "positive": ["1", 1], "negative": ["1", 2], "latent_image": ["1", 3]}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 5]}},
    }).to_string());
    assert_eq!(found.prompt.as_deref(), Some("a red barn"));
    assert_eq!(found.negative_prompt.as_deref(), Some("ugly"));
    assert_eq!(found.model.as_deref(), Some("flux1-dev-all.safetensors"));
    assert_eq!((found.width, found.height), (Some(896), Some(640)));
    assert_eq!(found.loras, [lora("ink.safetensors", 0.6, None)]);

    // One wire from node to node.
    let found = read_png("prompt", &json!({
        "1": {"class_type": "easy fullLoader", "inputs": {"ckpt_name": "flux1-dev.safetensors", "lora_name": "ink.safetensors",
            "lora_model_strength": 0.7, "lora_clip_strength": 1.0, "resolution": "768 x 1344",
            "empty_latent_width": 512, "empty_latent_height": 512, "positive": "a barn", "negative": "ugly"}},
        "2": {"class_type": "easy preSampling", "inputs": {"steps": 20, "cfg": 2.0, "sampler_name": "euler",
            "scheduler": "simple", "denoise": 1, "seed": 3, "pipe": ["1", 0]}},
        "3": {"class_type": "easy kSampler", "inputs": {"pipe": ["2", 0], "image_output": "Save"}},
        "4": {"class_type": "SaveImage", "inputs": {"images": ["3", 1]}},
    }).to_string());
    assert_fields!(found, {
        "prompt": "a barn", "negative_prompt": "ugly", "model": "flux1-dev.safetensors", "width": 768,
        "height": 1344, "seed": 3
    });
    assert_eq!(found.loras, [lora("ink.safetensors", 0.7, None)]);
}

#[test]
fn the_loras_of_stacks_and_managers_are_read_and_others_are_named() {
    let apply = json!({"class_type": "CR Apply LoRA Stack", "inputs": {"model": ["1", 0], "lora_stack": ["12", 0]}});
    let (ink, grain) = (
        lora("ink.safetensors", 0.6, None),
        lora("grain.safetensors", -0.2, None),
    );
    for (class, inputs) in [
        (
            "CR LoRA Stack",
            json!({"switch_1": "On", "lora_name_1": "a/ink.safetensors", "model_weight_1": 0.6,
            "clip_weight_1": 0.6, "switch_2": "Off", "lora_name_2": "off.safetensors", "model_weight_2": 1,
            "switch_3": "On", "lora_name_3": "grain.safetensors", "model_weight_3": -0.2}),
        ),
        (
            "LoRA Stacker",
            json!({"input_mode": "simple", "lora_count": 2, "lora_name_1": "ink.safetensors", "lora_wt_1": 0.6,
            "model_str_1": 1.0, "lora_name_2": "grain.safetensors", "lora_wt_2": -0.2, "model_str_2": 1.0,
            "lora_name_3": "third.safetensors", "lora_wt_3": 1.0}),
        ),
        (
            "LoRA Stacker",
            json!({"input_mode": "advanced", "lora_count": 2, "lora_name_1": "ink.safetensors", "lora_wt_1": 1.0,
            "model_str_1": 0.6, "clip_str_1": 0.6, "lora_name_2": "grain.safetensors", "model_str_2": -0.2, "lora_wt_2": 1.0}),
        ),
        (
            "easy loraStack",
            json!({"toggle": true, "mode": "simple", "num_loras": 2, "lora_1_name": "ink.safetensors",
            "lora_1_strength": 0.6, "lora_1_model_strength": 1, "lora_2_name": "grain.safetensors", "lora_2_strength": -0.2}),
        ),
        (
            "Lora Loader Stack (rgthree)",
            json!({"lora_01": "ink.safetensors", "strength_01": 0.6,
            "lora_02": "grain.safetensors", "strength_02": -0.2, "lora_03": "None", "strength_03": 1}),
        ),
        (
            "Power Lora Loader (rgthree)",
            json!({"lora_1": {"on": true, "lora": "ink.safetensors", "strength": 0.6},
            "lora_2": {"on": false, "lora": "off.safetensors", "strength": 1},
            "lora_3": {"on": true, "lora": "grain.safetensors", "strength": -0.2}}),
        ),
        (
            "Lora Stacker (LoraManager)",
            json!({"text": "<lora:ink:0.6>", "loras": {"__value__": [
            {"name": "ink.safetensors", "strength": 0.6, "active": true},
            {"name": "off", "strength": 1, "active": false},
            {"name": "grain.safetensors", "strength": "-0.2", "active": true}]}}),
        ),
        (
            "WanVideoLoraSelectMulti",
            json!({"lora_0": "ink.safetensors", "strength_0": 0.6, "lora_1": "grain.safetensors",
            "strength_1": -0.2, "lora_2": "none", "strength_2": 1}),
        ),
    ] {
        let stack = json!({"class_type": class, "inputs": inputs});
        let found = read_with(&json!({"11": apply, "12": stack, "7.model": ["11", 0]}));
        assert_eq!(found.loras, [ink.clone(), grain.clone()], "{class}");
        assert_eq!(found.model.as_deref(), Some("flux1-dev.safetensors"));
        assert_eq!(found.notes, [] as [&str; 0], "{class}");
    }
    let named = json!({"class_type": "LoraLoader|pysssss", "inputs": {"model": ["1", 0], "strength_model": 0.6,
        "lora_name": {"content": "flux\\ink.safetensors", "image": null}}});
    let found = read_with(&json!({"11": named, "7.model": ["11", 0]}));
    assert_eq!(found.loras, [lora("ink.safetensors", 0.6, None)]);
    assert_eq!(found.loras[0].path, "flux\\ink.safetensors");

    let unknown =
        json!({"class_type": "Lora From Somewhere", "inputs": {"model": ["1", 0], "id": 12}});
    let found = read_with(&json!({"11": unknown, "7.model": ["11", 0]}));
    assert_note(
        &found,
        "Node 11 (Lora From Somewhere) sets a LoRA in a way that Safelight does not read",
    );
    let patch = json!({"class_type": "PerturbedAttentionGuidance", "inputs": {"model": ["1", 0], "scale": 3}});
    let found = read_with(&json!({"11": patch, "7.model": ["11", 0]}));
    assert_note(
        &found,
        "Not used: node 11 (PerturbedAttentionGuidance) with scale 3",
    );
}

#[test]
fn numbers_come_from_primitives_and_a_preset_wins_over_a_size() {
    let size = |inputs: Value| {
        let found = read_with(&json!({
            "13": {"class_type": "CR SDXL Aspect Ratio", "inputs": inputs},
            "11": {"class_type": "Seed (rgthree)", "inputs": {"seed": 8888}},
            "12": {"class_type": "easy int", "inputs": {"value": 19}},
            "7.seed": ["11", 0], "7.steps": ["12", 0], "6.width": ["13", 0], "6.height": ["13", 1],
        }));
        assert_eq!((found.seed, found.num_steps), (Some(8888), Some(19)));
        (
            found.width.zip(found.height),
            has_note(
                &found,
                "The size could not be read: node 13 (CR SDXL Aspect Ratio)",
            ),
        )
    };
    let preset = |preset: &str, swap: &str| json!({"width": 1024, "height": 1024, "aspect_ratio": preset, "swap_dimensions": swap, "batch_size": 1});
    assert_eq!(
        size(preset("3:4 portrait 896x1152", "Off")),
        (Some((896, 1152)), false)
    );
    assert_eq!(
        size(preset("3:4 portrait 896x1152", "On")),
        (Some((1152, 896)), false)
    );
    assert_eq!(size(preset("custom", "Off")), (Some((1024, 1024)), false));
    // Nobody knows what a ratio alone became.
    assert_eq!(size(preset("16:9", "Off")), (None, true));

    let found = read_with(&json!({
        "6": {"class_type": "SDXLEmptyLatentSizePicker+", "inputs": {"resolution": "1216x832 (1.46)", "batch_size": 1,
            "width_override": 0, "height_override": 0}},
        "12": {"class_type": "MathExpression", "inputs": {"expression": "a*f(b)", "a": 4, "b": 5}}, "7.steps": ["12", 0],
    }));
    assert_fields!(found, {"width": 1216, "height": 832, "num_steps": null});
    assert_note(
        &found,
        "The number of steps could not be read: node 12 (MathExpression)",
    );
}
