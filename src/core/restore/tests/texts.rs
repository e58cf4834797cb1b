//! Texts that programs change before they encode them, and commands in them.

use crate::job::prompt::PromptWeights;
use crate::model::choices::{SamplerKind, SigmaSchedule};
use serde_json::{Value, json};

use super::*;

fn read_prompt(prompt: &str) -> ForeignSettings {
    read_png(
        "parameters",
        &format!("{prompt}\nSteps: 20, CFG scale: 7, Seed: 3"),
    )
}

#[test]
fn texts_are_trimmed_at_the_chosen_side_and_lose_the_comments_of_their_node() {
    let trim = |mode: &str| json!({"class_type": "StringTrim", "inputs": {"string": " a barn ", "mode": mode}});
    let lines = json!({"class_type": "Text Multiline", "inputs": {"text": "a barn\n# a note\n  # another\nin fog"}});
    for (node, expected) in [
        (trim("Both"), "a barn"),
        (trim("Left"), "a barn "),
        (trim("Right"), " a barn"),
        (lines, "a barn\nin fog"),
    ] {
        let found = read_with(&json!({"20": node, "3.text": ["20", 0]}));
        assert_eq!(found.prompt.as_deref(), Some(expected), "{node}");
    }
    let found = read_with(&json!({"20": trim("Inside"), "3.text": ["20", 0]}));
    assert_eq!(found.prompt, None);
    // Other nodes keep such lines.
    let found = read_with(&json!({"3.text": "a barn\n# a note"}));
    assert_eq!(found.prompt.as_deref(), Some("a barn\n# a note"));
}

#[test]
fn unexecuted_graph_with_prompt_choices_gets_a_notice() {
    let canvas = |text: &str| -> Value {
        json!({"nodes": [
            {"id": 3, "type": "CLIPTextEncode", "inputs": [], "widgets_values": [text]},
            {"id": 7, "type": "KSampler", "inputs": [{"name": "positive", "link": 1}],
                "widgets_values": [5, "fixed", 20, 1.0, "euler", "simple", 1.0]}],
            "links": [[1, 3, 0, 7, 0, "CONDITIONING"]]})
    };
    for (text, is_noted) in [
        ("a {day|night} barn", true),
        ("a barn // old", true),
        ("a barn", false),
    ] {
        let found = read_png("workflow", &canvas(text).to_string());
        assert_eq!(found.prompt.as_deref(), Some(text));
        let is_told = found
            .notes
            .iter()
            .any(|it| it.contains("ComfyUI would choose"));
        assert_eq!(is_told, is_noted, "{:?}", found.notes);
    }
    // The executed graph has the chosen text.
    let found = read_with(&json!({"3.text": "a {day|night} barn"}));
    assert_eq!(found.notes, [] as [&str; 0]);
}

#[test]
fn commands_and_tags_in_prompts_are_named() {
    let found = read_prompt("a fox BREAK in snow AND a barn <hypernet:thick:0.5>");
    assert_fields!(found, {"prompt": "a fox BREAK in snow AND a barn"});
    for note in [
        "AND is not used",
        "<hypernet:thick:0.5> in the prompt is not used",
    ] {
        assert_note(&found, note);
    }
    assert_eq!(read_prompt("a fox, BREAKING SAND").notes, [] as [&str; 0]);

    let found = read_with(&json!({"3.text": "a barn <lora:ink:1> BREAK"}));
    assert_fields!(found, {
        "prompt": "a barn <lora:ink:1> BREAK",
        "notes": ["Tags in the prompt are not used and stay in it as text: <lora:ink:1>"]
    });
}

#[test]
fn escaped_brackets_are_those_that_the_program_encoded() {
    let text = r"a fox \(animal:1.2\) \[x\]";
    for (found, weights) in [
        (read_prompt(text), PromptWeights::A1111),
        (read_with(&json!({"3.text": text})), PromptWeights::Comfy),
    ] {
        assert_eq!(found.prompt.as_deref(), Some(text));
        assert_eq!(found.notes, [] as [&str; 0]);
        assert_eq!(found.prompt_weights, weights);
    }
    // Wan2GP has no weights, and encodes the letters.
    let found = read_file(
        "a.json",
        br#"{"prompt": "a \\(b\\)", "seed": 1, "steps": 4}"#,
    )
    .unwrap();
    assert_eq!(found.prompt.as_deref(), Some(r"a \(b\)"));
}

#[test]
fn settings_that_make_no_sense_are_named_and_the_others_read() {
    let found = read_png(
        "parameters",
        "a fox\nSteps: 0, CFG scale: high, Size: 0x64, Seed: new, FPS: 16, Denoising strength: 0.5",
    );
    assert_fields!(found, {"prompt": "a fox", "fps": 16.0, "strength": 0.5});
    assert_note(
        &found,
        "Not used: steps 0, cfg scale high, size 0x64, seed new",
    );
    let found = read_with(&json!({"7.steps": 0, "7.seed": "new"}));
    assert_note(&found, "The number of steps could not be read: it is 0");
    assert_note(&found, "The seed could not be read: it is \"new\"");
    let found = read_file("a.json", br#"{"prompt": "a fox", "seed": 1, "steps": 0}"#).unwrap();
    assert_note(&found, "Its number of steps, 0, cannot be used");
    let found = ForeignSettings {
        num_steps: Some(5000),
        shift: Some(-3.0),
        ..ForeignSettings::default()
    };
    let (form, notes) = found.form_for(&crate::model::test_spec());
    assert_eq!((form.sampling.num_steps, form.sampling.shift), (None, None));
    assert_eq!(
        notes,
        [
            "Its number of steps, 5000, is not used: it must be from 1 to 1000",
            "Its shift, -3, is not used: it must be from 0.01 to 100"
        ]
    );
}

#[test]
fn many_notes_of_one_kind_are_counted() {
    let hashes: Vec<String> = (0..30)
        .map(|index| format!("lora {index}: de92428f6411"))
        .collect();
    let text = format!(
        "a fox\nSteps: 20, CFG scale: 7, Seed: 3, ENSD: 31337, Lora hashes: \"{}\"",
        hashes.join(", ")
    );
    let found = read_png("parameters", &text);
    assert_eq!(found.notes.len(), 4, "{:?}", found.notes);
    assert_eq!(found.notes[2], "… and 28 more of this kind");
    assert_note(&found, "Not used: ensd 31337");
}

#[test]
fn a_sampler_gives_each_side_its_own_text_and_asks_where_several_are_left() {
    let sampler = |inputs: Value| {
        let mut found = json!({"7": {"class_type": "SamplerX", "inputs": {"seed": 5, "steps": 20, "cfg": 3,
            "model": ["1", 0], "latent": ["6", 0]}}, "11": encoder("ugly")});
        let all = found["7"]["inputs"].as_object_mut().unwrap();
        all.extend(inputs.as_object().unwrap().clone());
        read_with(&found)
    };
    for inputs in [
        json!({"cond": ["3", 0], "uncond": ["11", 0]}),
        json!({"conditioning": ["3", 0], "neg_conditioning": ["11", 0]}),
        json!({"cond_pos": ["3", 0], "cond_neg": ["11", 0]}),
    ] {
        let found = sampler(inputs.clone());
        let prompts = [found.prompt.as_deref(), found.negative_prompt.as_deref()];
        assert_eq!(prompts, [Some("a red barn"), Some("ugly")], "{inputs}");
    }
    let found = sampler(json!({"cond1": ["3", 0], "cond2": ["11", 0]}));
    assert_eq!(found.prompt, None);
    assert_note(&found, "The prompt could not be read: node 7 (SamplerX)");
}

#[test]
fn the_text_of_nag_is_named_and_is_no_prompt() {
    let found = read_with(&json!({
        "7": {"class_type": "WanVideoSampler", "inputs": {"seed": 5, "steps": 6, "cfg": 1.0, "scheduler": "lcm",
            "model": ["1", 0], "text_embeds": ["20", 0], "image_embeds": ["6", 0]}},
        "20": {"class_type": "WanVideoApplyNAG", "inputs": {"original_text_embeds": ["21", 0],
            "nag_text_embeds": ["22", 0], "nag_scale": 11}},
        "21": {"class_type": "WanVideoTextEncode", "inputs": {"positive_prompt": "a dog", "negative_prompt": "static"}},
        "22": {"class_type": "WanVideoTextEncodeSingle", "inputs": {"prompt": "bad"}},
    }));
    let prompts = [found.prompt.as_deref(), found.negative_prompt.as_deref()];
    assert_eq!(prompts, [Some("a dog"), Some("static")]);
    assert_note(
        &found,
        "had NAG with a text of its own (node 20 (WanVideoApplyNAG))",
    );
}

#[test]
fn delimiters_may_be_words_and_unknown_functions_are_not_guessed() {
    let join = |delimiter: &str| {
        json!({"class_type": "Text Concatenate (JPS)",
        "inputs": {"delimiter": delimiter, "text1": "a barn", "text2": "at night"}})
    };
    let multi = |changes: Value| {
        let mut inputs = json!({"inputcount": 2, "string_1": "a barn", "string_2": "at night",
            "string_3": "left over", "delimiter": ", ", "return_list": false});
        let all = inputs.as_object_mut().unwrap();
        all.extend(changes.as_object().unwrap().clone());
        json!({"class_type": "JoinStringMulti", "inputs": inputs})
    };
    let split = json!({"class_type": "Texts", "inputs": {"prompt": "a barn --neg ugly"}});
    for (node, slot, expected) in [
        (join("none"), 0, Some("a barnat night")),
        (join("space"), 0, Some("a barn at night")),
        (join("comma"), 0, Some("a barn, at night")),
        (join("newline"), 0, Some("a barn\nat night")),
        (join("\\n"), 0, Some("a barn\nat night")),
        (join("pipe"), 0, None),
        (multi(json!({})), 0, Some("a barn, at night")),
        (multi(json!({"return_list": true})), 0, None),
        (split.clone(), 0, Some("a barn --neg ugly")),
        (split, 1, None),
        (
            json!({"class_type": "AppendStringsToList", "inputs": {"string1": "a", "string2": "b"}}),
            0,
            None,
        ),
        (
            json!({"class_type": "StringAppend", "inputs": {"string": "a barn", "append": ", at night"}}),
            0,
            None,
        ),
        (
            json!({"class_type": "TextUppercase", "inputs": {"text": "a barn"}}),
            0,
            None,
        ),
        (
            json!({"class_type": "Text Replace", "inputs": {"text": "a barn", "search": "a", "by": "the"}}),
            0,
            None,
        ),
    ] {
        let found = read_with(&json!({"20": node, "3.text": ["20", slot]}));
        assert_eq!(found.prompt.as_deref(), expected, "{node}");
    }
    let found = read_with(&json!({"3.text": "\"0\": \"a barn\", \"12\": \"a cow\""}));
    assert_eq!(found.prompt, None);
}

#[test]
fn sampler_widgets_are_read_if_the_value_after_the_seed_is_null() {
    let canvas = json!({"nodes": [
        {"id": 1, "type": "Text Multiline", "widgets_values": ["a barn"]},
        {"id": 2, "type": "Text Concatenate", "inputs": [{"name": "text_a", "link": 1}, {"name": "text_b", "link": 2}],
            "widgets_values": [", ", "true"]},
        {"id": 3, "type": "CLIPTextEncode", "inputs": [{"name": "text", "link": 3}], "widgets_values": [""]},
        {"id": 4, "type": "Text Multiline", "widgets_values": ["in fog "]},
        {"id": 7, "type": "KSampler (Efficient)", "inputs": [{"name": "positive", "link": 4}],
            "widgets_values": [77, null, 24, 1.5, "euler", "simple", 1.0, "auto", "true"]}],
        "links": [[1, 1, 0, 2, 0, "STRING"], [2, 4, 0, 2, 1, "STRING"], [3, 2, 0, 3, 0, "STRING"],
            [4, 3, 0, 7, 0, "CONDITIONING"]]});
    let found = read_png("workflow", &canvas.to_string());
    assert_fields!(found, {
        "prompt": "a barn, in fog", "seed": 77, "num_steps": 24, "cfg_scale": 1.5, "sampler": SamplerKind::Euler
    });
}

#[test]
fn values_that_other_nodes_compute_are_named() {
    let computed =
        json!({"class_type": "MathExpression", "inputs": {"expression": "a*f(b)", "a": 4, "b": 5}});
    let found = read_with(&json!({
        "20": computed, "7.denoise": ["20", 0], "7.sampler_name": ["20", 0], "7.scheduler": ["20", 0],
        "4.guidance": ["20", 0], "6.length": ["20", 0], "7.model": ["21", 0],
        "21": {"class_type": "ModelSamplingSD3", "inputs": {"shift": ["20", 0], "model": ["1", 0]}},
    }));
    for what in [
        "denoising strength",
        "sampler",
        "schedule",
        "guidance",
        "number of frames",
        "shift",
    ] {
        let note = format!("The {what} could not be read: node 20 (MathExpression) makes it");
        assert_note(&found, &note);
    }
    let found = read_with(&json!({
        "7": {"class_type": "SamplerCustom", "inputs": {"noise_seed": 5, "cfg": 1.0, "model": ["1", 0],
            "positive": ["4", 0], "latent_image": ["6", 0], "sampler": ["20", 0], "sigmas": ["22", 0]}},
        "20": {"class_type": "DetailDaemonSamplerNode", "inputs": {"sampler": ["21", 0], "detail_amount": 0.1}},
        "21": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "euler"}},
        "22": {"class_type": "KarrasScheduler", "inputs": {"steps": 20, "sigma_max": 14.6}},
    }));
    assert_fields!(found, {"sampler": SamplerKind::Euler, "sigma_schedule": SigmaSchedule::Karras});
    assert_note(
        &found,
        "Not used: node 20 (DetailDaemonSamplerNode) with detail_amount 0.1",
    );
}

#[test]
fn text_that_a_box_shows_of_another_node_is_used_with_a_note() {
    let words = node("TextGenerate", json!({"prompt": "a hut", "seed": 4}));
    let shown = json!({"passthrough": ["20", 0], "text": "a wooden hut at dusk"});
    let found = read_with(&json!({"20": words, "21": node("Textbox", shown), "3.text": ["21", 0]}));
    assert_fields!(found, {"prompt": "a wooden hut at dusk"});
    assert_note(
        &found,
        "The prompt was computed by other nodes: the text that node 21 (Textbox) shows is used",
    );
}

#[test]
fn prompt_editing_of_a1111_is_named_and_weights_in_brackets_are_not() {
    for (words, expected) in [
        ("a [red:blue:0.5] kite", Some("[red:blue:0.5]")),
        ("a [red|blue] kite", Some("[red|blue]")),
        ("a [red::0.4] kite", Some("[red::0.4]")),
        ("a [red] kite [(big:1.2)]", None),
        (r"a \[red:blue\] kite", None),
    ] {
        let text = format!("{words}\nSteps: 9, Sampler: Euler, Seed: 1");
        let found = read_file("a.txt", text.as_bytes()).expect("it is read");
        let note = found
            .notes
            .iter()
            .find(|note| note.starts_with("Prompt editing"));
        assert_eq!(note.is_some(), expected.is_some(), "{words}");
        assert!(
            expected.is_none_or(|it| note.unwrap().contains(it)),
            "{words}"
        );
    }
}
