//! Numbers that maths nodes and sliders give, and switches of several packs.

use serde_json::{Value, json};

use super::*;

#[test]
fn numbers_of_maths_nodes_are_computed_as_python_does() {
    let steps = |expression: &str| {
        let inputs = json!({"expression": expression, "a": ["21", 0], "b": 7, "values.c": 2.5});
        let found = read_with(
            &json!({"20": node("MathExpression|pysssss", inputs), "21": node("PrimitiveInt", json!({"value": 10})),
            "7.steps": ["20", 0]}),
        );
        found.num_steps
    };
    for (expression, value) in [
        ("a", Some(10)),
        ("a * 2 + b", Some(27)),
        ("(a + b) // 4 * 4", Some(16)),
        ("a - -b", Some(17)),
        ("a ** 2 // 10", Some(10)),
        ("2 ** 3 ** 0 + 1", None),
        ("-a ** 2 + 150", None),
        ("(a ** 2 + b ** 2 - 40) ** 0.5", Some(10)),
        ("floor (a / 4)", Some(2)),
        ("-a % 7 + 1", Some(5)),
        ("max(a, b, 12) - min(a, b)", Some(5)),
        ("round(c) + ceil(c) + floor(c)", Some(7)),
        ("int(a / 4)", Some(2)),
        ("a / 4", Some(2)),
        ("sqrt(abs(0 - 16)) * float(a)", Some(40)),
        ("a if b > 3 else 3", Some(10)),
        ("-a // 3 + 5", Some(1)),
        ("'a' * 3", None),
        ("[a] * 3", None),
        ("random(a)", None),
        ("a / 0", None),
        ("a +", None),
        ("d * 2", None),
    ] {
        assert_eq!(steps(expression), value, "{expression}");
    }
    let rounded = json!({"value": "a / 4", "a": 15});
    let found = read_with(&json!({"20": node("SimpleMath+", rounded), "7.steps": ["20", 0]}));
    assert_eq!(found.num_steps, Some(4));
    for (class, operation, value) in [
        ("easy mathInt", "add", 17),
        ("easy mathInt", "divide", 1),
        ("easy mathFloat", "divide", 1),
        ("easy mathFloat", "power", 100),
    ] {
        let b = if operation == "power" { 2 } else { 7 };
        let maths = node(class, json!({"a": 10, "b": b, "operation": operation}));
        let found = read_with(&json!({"20": maths, "7.steps": ["20", 0]}));
        assert_eq!(found.num_steps, Some(value), "{class} {operation}");
    }
    let deep = format!("{}a{}", "(".repeat(240), ")".repeat(240));
    assert_eq!(steps(&deep), None);
    assert_eq!(steps(&format!("{}a", "-".repeat(400))), Some(10));
}

#[test]
fn frames_and_sizes_are_those_that_a_maths_node_gives() {
    let maths = |expression: &str| {
        node(
            "ComfyMathExpression",
            json!({"expression": expression, "values.a": 5.0, "values.b": 16.4}),
        )
    };
    let found = read_with(
        &json!({"20": maths("a * b + 1"), "21": maths("a * 100 + 32"), "6.length": ["20", 1],
        "6.width": ["21", 1], "6.height": 480}),
    );
    assert_fields!(found, {"num_frames": 83, "width": 532, "notes": []});
    let slider =
        json!({"Xi": 768, "Xf": 768.4, "Yi": 1344, "Yf": 1344.4, "isfloatX": 0, "isfloatY": 0});
    let found = read_with(
        &json!({"20": node("mxSlider2D", slider), "6.width": ["20", 0], "6.height": ["20", 1],
        "21": node("mxSlider", json!({"Xi": 2, "Xf": 2.5, "isfloatX": 1})), "7.cfg": ["21", 0]}),
    );
    assert_fields!(found, {"width": 768, "height": 1344, "cfg_scale": 2.5, "notes": []});
}

#[test]
fn switches_of_every_pack_choose_the_input_that_they_name() {
    let linked = || json!(["22", 0]);
    for (class, mut inputs, chosen) in [
        (
            "Switch any [Crystools]",
            json!({"boolean": false}),
            "on_false",
        ),
        ("easy ifElse", json!({"boolean": true}), "on_true"),
        ("easy ifElse", json!({"boolean": ["24", 0]}), "on_false"),
        (
            "CR Conditioning Input Switch",
            json!({"Input": 2}),
            "conditioning2",
        ),
        ("ComfySwitchNode", json!({"switch": true}), "on_true"),
        ("LazySwitchKJ", json!({"switch": false}), "on_false"),
        (
            "ImpactSwitch",
            json!({"select": 2, "sel_mode": false}),
            "input2",
        ),
        (
            "ImpactSwitch",
            json!({"select": linked(), "sel_mode": false}),
            "input2",
        ),
        ("easy anythingIndexSwitch", json!({"index": 1}), "value1"),
        (
            "Any Switch (rgthree)",
            json!({"any_01": ["99", 0]}),
            "any_02",
        ),
    ] {
        for name in
            "on_true on_false input1 input2 value0 value1 conditioning1 conditioning2".split(' ')
        {
            if name[..2] == chosen[..2] {
                inputs[name] = json!(["23", 0]);
            }
        }
        inputs[chosen] = json!(["3", 0]);
        let found = read_with(
            &json!({"20": node(class, inputs), "22": node("ImpactInt", json!({"value": 2})),
            "24": node("PrimitiveBoolean", json!({"value": false})), "23": encoder("not chosen"), "4.conditioning": ["20", 0]}),
        );
        assert_eq!(found.prompt.as_deref(), Some("a red barn"), "{class}");
        assert_eq!(found.notes, [] as [&str; 0], "{class}");
    }
}

#[test]
fn two_experts_of_the_wan_wrapper_keep_their_models_and_loras() {
    let loader = |model: &str, lora: &str| {
        node(
            "WanVideoModelLoader",
            json!({"model": model, "base_precision": "fp16", "lora": [lora, 0]}),
        )
    };
    let lora_of = |file: &str, strength: f64| {
        node(
            "WanVideoLoraSelect",
            json!({"lora": file, "strength": strength}),
        )
    };
    let sampler = |model: &str, more: Value| {
        let mut inputs = json!({"model": [model, 0], "image_embeds": ["5", 0], "text_embeds": ["3", 0], "steps": 6, "cfg": 1.0,
            "shift": 8.0, "seed": 43, "scheduler": "unipc", "end_step": -1});
        inputs
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        node("WanVideoSampler", inputs)
    };
    let graph = json!({
        "1": loader("Wan2_2-I2V-A14B-HIGH_fp8.safetensors", "11"), "2": loader("Wan2_2-I2V-A14B-LOW_fp8.safetensors", "12"),
        "11": lora_of("high.safetensors", 1.5), "12": lora_of("low.safetensors", 1.0),
        "3": node("WanVideoTextEncode", json!({"positive_prompt": "waves", "negative_prompt": "still"})),
        "5": node("WanVideoImageToVideoEncode", json!({"width": ["20", 1], "height": ["20", 2], "num_frames": 81, "start_image": ["20", 0]})),
        "20": node("ImageResizeKJv2", json!({"image": ["21", 0], "width": 832, "height": 480})),
        "21": node("LoadImage", json!({"image": "boat.png"})),
        "7": sampler("1", json!({"start_step": 0, "end_step": 3})), "8": sampler("2", json!({"samples": ["7", 0], "start_step": 3})),
        "9": node("WanVideoDecode", json!({"samples": ["8", 0]})), "10": node("VHS_VideoCombine", json!({"images": ["9", 0], "frame_rate": 16})),
    });
    let found = read_png("prompt", &graph.to_string());
    assert_fields!(found, {"model_2": "Wan2_2-I2V-A14B-LOW_fp8.safetensors"});
    assert_eq!(
        found.loras,
        [
            lora("high.safetensors", 1.5, Some(0.0)),
            lora("low.safetensors", 0.0, Some(1.0))
        ]
    );
    assert_fields!(found, {"width": 832, "num_frames": 81, "fps": 16.0, "shift": 8.0});
}
