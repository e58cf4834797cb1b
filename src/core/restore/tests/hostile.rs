//! Files that are made to harm, or broken.

use rustix::time::{ClockId, clock_gettime};

use super::*;

#[test]
fn deep_nesting_and_large_files_are_refused() {
    let deep = format!(
        "{{\"prompt\":{}{}}}",
        "[".repeat(200_000),
        "]".repeat(200_000)
    );
    assert_eq!(read_file("a.json", deep.as_bytes()), None);
    let chunk = [b"prompt\0".as_slice(), deep.as_bytes()].concat();
    assert_eq!(read_file("a.png", &png(*b"tEXt", &chunk)), None);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.json");
    fs::write(&path, format!("{{{}", " ".repeat(600))).unwrap();
    fs::File::options()
        .append(true)
        .open(&path)
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    assert!(read(&path).is_err());
}

#[test]
fn names_are_as_long_as_those_of_files() {
    let name = "ä".repeat(10_000);
    let text = format!("a fox <lora:{name}:0.5>\nSteps: 20, CFG scale: 7, Seed: 3");
    let found = read_png("parameters", &text);
    assert_eq!(found.loras[0].name.chars().count(), 300);
}

#[test]
fn wide_graphs_end_in_time() {
    // Every node leads to every other: a walk without a budget would never end.
    let ids = 0..200;
    let nodes: serde_json::Map<String, serde_json::Value> = ids
        .clone()
        .map(|id| {
            let links = ids
                .clone()
                .map(|to| (format!("text{to}"), serde_json::json!([to.to_string(), 0])));
            let mut inputs: serde_json::Map<_, _> = links.collect();
            inputs.insert("seed".to_owned(), serde_json::json!(["1", 0]));
            inputs.insert("steps".to_owned(), serde_json::json!(["1", 0]));
            let node = serde_json::json!({"class_type": "StringConcatenate", "inputs": inputs});
            (id.to_string(), node)
        })
        .collect();
    let text = serde_json::Value::Object(nodes).to_string();
    assert_eq!(read_file("a.json", text.as_bytes()), None);
}

#[test]
fn subgraphs_within_themselves_and_switches_in_circles_end() {
    use serde_json::{Value, json};
    // Each level holds the next one twice.
    let level = |index: usize| {
        let inner = format!("level{}", (index + 1) % 40);
        let nodes: Vec<Value> = (0..2)
            .map(|id| json!({"id": id, "type": inner, "inputs": []}))
            .collect();
        json!({"id": format!("level{index}"), "nodes": nodes, "links": []})
    };
    let levels: Vec<Value> = (0..40).map(level).collect();
    let canvas = json!({"nodes": [{"id": 1, "type": "level0"}], "links": [], "definitions": {"subgraphs": levels}});
    assert_eq!(read_file("a.json", canvas.to_string().as_bytes()), None);

    let switch = |from: &str| json!({"class_type": "AnySwitch", "inputs": {"select": [from, 0], "any_1": [from, 0]}});
    let graph = json!({
        "1": {"class_type": "KSampler", "inputs": {"seed": ["2", 0], "steps": 9, "cfg": ["5", 0], "model": ["3", 0],
            "positive": ["2", 0], "negative": ["4", 0], "latent_image": ["5", 0]}},
        "2": switch("3"), "3": switch("2"),
        "4": {"class_type": "Context", "inputs": {"base_ctx": ["4", 0], "context": ["2", 0]}},
        "5": {"class_type": "EmptyLatentImage", "inputs": {"width": ["5", 1], "height": ["5", 0]}},
        "6": {"class_type": "LoraStack", "inputs": {"lora_stack": ["6", 0], "lora_name": ["6", 0]}},
        "7": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
    });
    let found = read_file("a.json", graph.to_string().as_bytes()).unwrap();
    assert_eq!((found.num_steps, found.prompt), (Some(9), None));
}

#[test]
fn a_chain_of_twenty_thousand_nodes_and_one_of_wide_nodes_end_in_time() {
    use serde_json::{Map, Value, json};
    let sampler = json!({"class_type": "KSampler", "inputs": {"seed": 1, "steps": 9, "model": ["0", 0],
        "positive": ["0", 0], "latent_image": ["0", 0]}});
    let mut chain: Map<String, Value> = (0..20_000)
        .map(|id| {
            let next = json!([(id + 1).to_string(), 0]);
            let inputs = json!({"model": next, "conditioning": next, "samples": next, "lora_name": "a", "strength_model": 0.5});
            (id.to_string(), json!({"class_type": "LoraLoader", "inputs": inputs}))
        })
        .collect();
    chain.insert("30000".to_owned(), sampler.clone());
    let found = read_file("a.json", Value::Object(chain).to_string().as_bytes()).unwrap();
    assert_eq!((found.num_steps, found.prompt), (Some(9), None));

    let wide = (0..30).map(|id| {
        let next = json!([(id + 1).to_string(), 0]);
        let inputs = (0..1000).map(|index| (format!("lora_name_{index}"), json!("None")));
        let mut inputs: Map<String, Value> = inputs.collect();
        inputs.extend(
            ["model", "conditioning_a", "conditioning_b", "text"]
                .map(|name| (name.to_owned(), next.clone())),
        );
        (
            id.to_string(),
            json!({"class_type": "LoraLoader", "inputs": inputs}),
        )
    });
    let mut wide: Map<String, Value> = wide.collect();
    wide.insert("30000".to_owned(), sampler);
    assert!(read_file("a.json", Value::Object(wide).to_string().as_bytes()).is_some());
}

#[test]
fn odd_values_are_left_out_and_nothing_panics() {
    let odd = [
        "null",
        "[]",
        "{}",
        "-1",
        "1e400",
        "\"\"",
        "\"NaN\"",
        "\"×\"",
        "\"9x9x9\"",
        "99999999999999999999",
        "true",
    ];
    let names = [
        "prompt",
        "seed",
        "steps",
        "resolution",
        "activated_loras",
        "loras_multipliers",
        "width",
        "height",
        "type",
        "model_type",
        "loras",
        "total_second_length",
        "model",
        "sampler",
        "c",
        "uc",
        "sui_image_params",
        "nodes",
        "links",
        "definitions",
        "workflow",
        "video_length",
        "app_version",
        "size",
    ];
    for value in odd {
        for name in names {
            let text = format!(
                "{{\"{name}\":{value},\"num_inference_steps\":{value},\"resolution\":{value},\"c\":\"a\",\"uc\":\"b\"}}"
            );
            read_file("a.json", text.as_bytes());
            read_file("a.json", format!("{{\"{name}\":{value}}}").as_bytes());
            let text = format!(
                "{{\"1\":{{\"class_type\":\"KSampler\",\"inputs\":{{\"seed\":{value},\"steps\":{value},\"{name}\":{value}}}}}}}"
            );
            read_file("a.json", text.as_bytes());
        }
    }
    for text in [
        "<lora::>\nSteps: 1, Seed: 1, Size: x",
        "<lora:a:nan:b>\nSteps: -4, Seed: -1, Size: 0x0, Model: \"",
        "\nNegative prompt:\nSteps: 1, Sampler: \"\\",
        "Steps: 1, Seed: 99999999999999999999, CFG scale: inf",
        "Steps: é, Seed: 猫, Size: 1×2, ,,:::,\"",
    ] {
        let chunk = [b"parameters\0\0\0\0\0".as_slice(), text.as_bytes()].concat();
        read_file("a.png", &png(*b"iTXt", &chunk));
    }
}

#[test]
fn files_without_settings_restore_nothing() {
    assert_eq!(read_file("a.json", b"{\"a\": 1}"), None);
    assert_eq!(read_file("a.png", &png(*b"IDAT", b"")), None);
    assert_eq!(read_file("a.bin", &[7; 100]), None);
    assert_eq!(read_file("empty.json", b""), None);
}

#[test]
fn a_workflow_of_ten_megabytes_opens_in_time() {
    use serde_json::{Value, json};
    let nodes: Vec<Value> = (0..3000)
        .map(|id| {
            json!({"id": id, "type": "KSampler", "mode": 0, "pos": [id, id], "size": [300, 200], "flags": {},
                "inputs": [{"name": "model", "type": "MODEL", "link": id}, {"name": "positive", "type": "CONDITIONING", "link": id},
                    {"name": "latent_image", "type": "LATENT", "link": id}],
                "outputs": [{"name": "LATENT", "type": "LATENT", "links": [id + 1]}],
                "properties": {"text": "x".repeat(2900)}, "widgets_values": [1, "randomize", 20, 1.0, "euler", "simple", 0.5]})
        })
        .chain((0..8).map(|id| {
            json!({"id": 20_000 + id, "type": "SaveImage", "inputs": [{"name": "images", "type": "IMAGE", "link": 350 * id + 30}]})
        }))
        .collect();
    let links: Vec<Value> = (0..3000)
        .map(|id| json!([id, (id + 2999) % 3000, 0, id, 0, "LATENT"]))
        .collect();
    let text = json!({"nodes": nodes, "links": links}).to_string();
    assert!(text.len() > 9_000_000, "{}", text.len());
    let (_folder, path) = folder_of(&[("a.json", text.as_bytes())]);
    // Of the processor, whatever else runs on it.
    let seconds = || clock_gettime(ClockId::ThreadCPUTime).tv_sec;
    let start = seconds();
    let outputs = read_outputs(&path).unwrap();
    assert!(!outputs.is_empty());
    // A second in a release, which is ten times as fast.
    assert!(seconds() - start < 10);
}

#[test]
fn missing_nodes_numbers_that_are_none_and_ids_that_occur_twice_end_in_a_sentence() {
    let graph = graph_with(&serde_json::json!({})).to_string();
    // Python's NaN as a setting.
    let found = read_file(
        "a.json",
        graph.replace("\"cfg\":1.0", "\"cfg\":NaN").as_bytes(),
    )
    .unwrap();
    assert_eq!((found.cfg_scale, found.num_steps), (None, Some(24)));
    assert_note(&found, "The guidance could not be read");
    // Links to nodes that are not there.
    for (from, to, note) in [
        (
            "[\"1\",0]",
            "[\"99\",0]",
            "The model could not be read: node 7 (KSampler) has none",
        ),
        ("[\"4\",0]", "[\"99\",0]", "The prompt could not be read"),
        ("[\"6\",0]", "[\"99\",0]", "The size could not be read"),
        ("[\"4\",0]", "[\"7\",0]", "The prompt could not be read"),
    ] {
        let found = read_file("a.json", graph.replace(from, to).as_bytes()).unwrap();
        assert_note(&found, note);
    }
    let twice = r#"{"nodes": [
        {"id": 1, "type": "UNETLoader", "widgets_values": ["flux1-dev.safetensors"], "outputs": [{"name": "MODEL", "type": "MODEL", "links": [1]}]},
        {"id": 1, "type": "UNETLoader", "widgets_values": ["flux1-schnell.safetensors"], "outputs": [{"name": "MODEL", "type": "MODEL", "links": [1]}]},
        {"id": 2, "type": "KSampler", "inputs": [{"name": "model", "type": "MODEL", "link": 1}],
            "widgets_values": [5, "fixed", 20, 1.0, "euler", "simple", 1.0]}],
        "links": [[1, 1, 0, 2, 0, "MODEL"]]}"#;
    let found = read_file("a.json", twice.as_bytes()).unwrap();
    assert_eq!(found.seed, Some(5));
    assert_note(&found, "Several nodes have the id 1");
}

#[test]
fn group_nodes_within_themselves_end() {
    use serde_json::json;
    let group =
        |count: usize| json!({"nodes": vec![json!({"type": "workflow>a"}); count], "links": []});
    for (count, nodes) in [(1, 1), (9, 1), (1, 20_000)] {
        let own = json!({"id": 5, "type": "workflow>a"});
        let canvas = json!({"nodes": vec![own; nodes], "links": [], "extra": {"groupNodes": {"a": group(count)}}});
        let found = read_file("a.json", canvas.to_string().as_bytes());
        assert_eq!(found, None, "{count}");
    }
}
