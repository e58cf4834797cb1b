//! Drawings: subgraphs, Set and Get nodes, bypassed nodes.

use serde_json::{Value, json};

use super::*;

/// A canvas node whose inputs are linked by these numbers.
fn node(id: i64, class: &str, inputs: &[(&str, i64)], values: &Value) -> Value {
    let inputs: Vec<Value> = inputs
        .iter()
        .map(|(name, link)| json!({"name": name, "type": "*", "link": link}))
        .collect();
    json!({"id": id, "type": class, "mode": 0, "inputs": inputs, "outputs": [], "widgets_values": values})
}

/// Nodes and links of a plain canvas; the prompt comes in by link 1, the result leaves by link 7.
fn plain_nodes() -> (Vec<Value>, Vec<Value>) {
    let nodes = vec![
        node(
            1,
            "UNETLoader",
            &[],
            &json!(["flux1-dev.safetensors", "default"]),
        ),
        node(6, "EmptySD3LatentImage", &[], &json!([896, 640, 1])),
        node(8, "CLIPTextEncode", &[], &json!(["ugly"])),
        node(
            7,
            "KSampler",
            &[
                ("model", 3),
                ("positive", 2),
                ("negative", 5),
                ("latent_image", 4),
            ],
            &json!([555, "fixed", 21, 1.2, "euler", "simple", 1]),
        ),
        node(9, "VAEDecode", &[("samples", 6)], &json!([])),
    ];
    let links = [(3, 1), (4, 6), (5, 8), (6, 7)];
    let link = |(id, from): &(i64, i64)| json!({"id": id, "origin_id": from, "origin_slot": 0, "type": "*"});
    (nodes, links.iter().map(link).collect())
}

/// Reads the plain canvas with a prompt and a saver, in which `nodes` replace those of their ids, and with further links:
/// id, source, slot and type.
fn read_barn(nodes: Vec<Value>, links: &[(i64, i64, i64, &str)]) -> ForeignSettings {
    let (mut all, mut all_links) = plain_nodes();
    all.push(node(3, "CLIPTextEncode", &[], &json!(["a red barn"])));
    all.push(node(10, "SaveImage", &[("images", 7)], &json!(["x"])));
    all.retain(|node| nodes.iter().all(|it| it["id"] != node["id"]));
    all.extend(nodes);
    let usual = [(2, 3, 0, "*"), (7, 9, 0, "*")];
    let links = usual.iter().chain(links);
    all_links.extend(links.map(|(id, from, slot, kind)| json!([id, from, slot, 0, 0, kind])));
    let text = json!({"nodes": all, "links": all_links}).to_string();
    read_file("a.json", text.as_bytes()).unwrap()
}

fn assert_barn(found: &ForeignSettings) {
    assert_fields!(found, {
        "prompt": "a red barn", "negative_prompt": "ugly", "seed": 555, "num_steps": 21, "width": 896
    });
    assert_eq!(found.notes, [] as [&str; 0]);
}

#[test]
fn a_subgraph_takes_its_inputs_from_outside_also_two_levels_deep() {
    let (mut nodes, mut links) = plain_nodes();
    nodes.push(json!({"id": 3, "type": "CLIPTextEncode", "inputs": [
        {"name": "text", "type": "STRING", "widget": {"name": "text"}, "link": 1}], "widgets_values": [""]}));
    links.push(json!({"id": 1, "origin_id": -10, "origin_slot": 0, "target_id": 3, "target_slot": 0, "type": "STRING"}));
    links.push(json!({"id": 2, "origin_id": 3, "origin_slot": 0, "target_id": 7, "target_slot": 1, "type": "CONDITIONING"}));
    links.push(json!({"id": 7, "origin_id": 9, "origin_slot": 0, "target_id": -20, "target_slot": 0, "type": "IMAGE"}));
    let inner =
        json!({"id": "inner", "inputs": [{"name": "text"}], "nodes": nodes, "links": links});
    let outer = json!({"id": "outer", "inputs": [{"name": "prompt"}],
        "nodes": [{"id": 5, "type": "inner", "inputs": [{"name": "text", "widget": {"name": "text"}, "link": 1}],
            "widgets_values": ["not this"]}],
        "links": [{"id": 1, "origin_id": -10, "origin_slot": 0, "target_id": 5, "target_slot": 0},
            {"id": 2, "origin_id": 5, "origin_slot": 0, "target_id": -20, "target_slot": 0}]});
    let instance = |class: &str, input: &str| {
        json!({"nodes": [
            {"id": 20, "type": class, "inputs": [{"name": input, "widget": {"name": input}, "link": null}], "widgets_values": ["a red barn"]},
            node(21, "SaveImage", &[("images", 1)], &json!(["x"]))],
        "links": [[1, 20, 0, 21, 0, "IMAGE"]], "definitions": {"subgraphs": [inner, outer]}})
    };
    for (class, input) in [("inner", "text"), ("outer", "prompt")] {
        let text = instance(class, input).to_string();
        assert_barn(&read_file("a.json", text.as_bytes()).unwrap());
    }
    // The other writing gets its slot types from the canvas, by ids such as `20:7`.
    let canvas = instance("inner", "text");
    let both = json!({"prompt": graph_with(&json!({})), "workflow": canvas});
    let found = read_file("a.json", both.to_string().as_bytes()).unwrap();
    assert_eq!(found.seed, Some(9));
}

#[test]
fn values_of_a_subgraph_belong_to_its_widgets_in_the_order_of_its_definition() {
    let (mut nodes, mut links) = plain_nodes();
    nodes.retain(|node| node["id"] != 8);
    let encoder = |id: u32, link: u32| {
        json!({"id": id, "type": "CLIPTextEncode", "widgets_values": ["inner"], "inputs": [
            {"name": "text", "widget": {"name": "text"}, "link": link}]})
    };
    nodes.extend([encoder(3, 11), encoder(8, 12)]);
    for (id, from, slot, to) in [
        (11, -10, 1, 3),
        (12, -10, 2, 8),
        (2, 3, 0, 7),
        (7, 9, 0, -20),
    ] {
        links.push(json!({"id": id, "origin_id": from, "origin_slot": slot, "target_id": to, "target_slot": 0}));
    }
    let inner = json!({"id": "inner", "nodes": nodes, "links": links,
        "inputs": [{"name": "model"}, {"name": "text"}, {"name": "text_1"}]});
    // The node lists only the second one.
    let host = json!({"id": 20, "type": "inner", "widgets_values": ["a red barn", "fog"],
        "inputs": [{"name": "text_1", "widget": {"name": "text_1"}, "link": null}]});
    let nodes = [host, node(21, "SaveImage", &[("images", 1)], &json!(["x"]))];
    let text = json!({"nodes": nodes, "links": [[1, 20, 0, 21, 0, "IMAGE"]], "definitions": {"subgraphs": [inner]}}).to_string();
    let found = read_file("a.json", text.as_bytes()).unwrap();
    assert_fields!(found, {"prompt": "a red barn", "negative_prompt": "fog"});
}

#[test]
fn a_muted_or_bypassed_subgraph_does_not_run() {
    let text = |mode: u32| {
        let (mut nodes, mut links) = plain_nodes();
        nodes.push(node(3, "CLIPTextEncode", &[], &json!(["a red barn"])));
        nodes.push(node(21, "SaveImage", &[("images", 7)], &json!(["x"])));
        links.push(json!([2, 3, 0, 7, 0, "*"]));
        links.push(json!([7, 9, 0, 21, 0, "*"]));
        let mut inside = nodes.clone();
        inside.retain(|node| node["id"] != 1);
        for node in &mut inside {
            if node["type"] == "KSampler" {
                node["widgets_values"][2] = json!(30);
            }
        }
        let inner =
            json!({"id": "inner", "nodes": inside, "links": links, "inputs": [{"name": "model"}]});
        nodes.push(json!({"id": 30, "type": "inner", "mode": mode, "inputs": []}));
        json!({"nodes": nodes, "links": links, "definitions": {"subgraphs": [inner]}}).to_string()
    };
    for mode in [2, 4] {
        assert_barn(&read_file("a.json", text(mode).as_bytes()).unwrap());
    }
    let running = read_file("a.json", text(0).as_bytes()).unwrap();
    assert!(!running.notes.is_empty());
}

#[test]
fn a_get_node_gives_the_input_of_its_set_node() {
    let nodes = vec![
        node(4, "SetNode", &[("CONDITIONING", 11)], &json!(["pos"])),
        node(5, "GetNode", &[], &json!(["pos"])),
    ];
    assert_barn(&read_barn(nodes, &[(11, 3, 0, "*"), (2, 5, 0, "*")]));
}

#[test]
fn broadcast_nodes_supply_unlinked_inputs_or_are_named_as_unread() {
    let input = |name: &str, kind: &str, link: Option<u32>| json!({"name": name, "type": kind, "link": link});
    let drawing = |extra: Value| {
        let (mut nodes, mut links) = plain_nodes();
        nodes.retain(|node| node["id"] != 7);
        let sampler = [
            "model MODEL",
            "positive CONDITIONING",
            "negative CONDITIONING",
        ];
        let mut inputs: Vec<Value> = sampler
            .iter()
            .map(|it| it.split_once(' ').unwrap())
            .map(|(name, kind)| input(name, kind, None))
            .collect();
        inputs.push(input("latent_image", "LATENT", Some(4)));
        nodes.push(json!({"id": 7, "type": "KSampler", "inputs": inputs,
            "widgets_values": [555, "fixed", 21, 1.2, "euler", "simple", 1]}));
        nodes.push(node(3, "CLIPTextEncode", &[], &json!(["a red barn"])));
        nodes.push(node(10, "SaveImage", &[("images", 7)], &json!(["x"])));
        nodes.push(json!({"id": 40, "type": "Anything Everywhere", "inputs": [input("anything", "MODEL", Some(3))]}));
        nodes.push(
            json!({"id": 41, "type": "Prompts Everywhere", "widgets_values": ["title"], "inputs": [
            input("+ve", "CONDITIONING", Some(20)), input("-ve", "CONDITIONING", Some(5))]}),
        );
        links.extend([
            json!([20, 3, 0, 41, 0, "CONDITIONING"]),
            json!([7, 9, 0, 10, 0, "IMAGE"]),
        ]);
        let text = json!({"nodes": nodes, "links": links, "extra": extra}).to_string();
        read_file("a.json", text.as_bytes()).unwrap()
    };
    let link = |slot: u32, from: Value| json!({"downstream": 7, "downstream_slot": slot, "upstream": from, "upstream_slot": 0});
    let listed = json!({"ue_links": [link(0, json!("1")), link(1, json!(3)), link(2, json!(8))]});
    assert_barn(&drawing(listed));
    let unread = drawing(json!({}));
    assert_fields!(unread, {
        "prompt": null,
        "notes": ["The prompt could not be read: node 40 (Anything Everywhere) makes it. Write the prompt yourself",
            "The model could not be read: node 40 (Anything Everywhere) loads it. Choose a model",
            "Node 40 (Anything Everywhere) gives values to nodes without links to them, in a way that Safelight does not read: compare the settings",
            "Node 41 (Prompts Everywhere) gives values to nodes without links to them, in a way that Safelight does not read: compare the settings"]
    });
}

#[test]
fn values_that_a_drawing_does_not_name_are_no_settings_and_are_named() {
    // Only one of its widgets is among the inputs.
    let input =
        json!({"name": "length", "type": "INT", "widget": {"name": "length"}, "link": null});
    let track = json!({"id": 6, "type": "TrackToVideo", "widgets_values": [2, 640, 480, 81], "inputs": [input]});
    let found = read_barn(vec![track], &[]);
    assert_fields!(found, {
        "num_frames": null, "width": null,
        "notes": ["The size could not be read: node 6 (TrackToVideo) makes it. The model's own is used"]
    });
}

#[test]
fn bypassed_controlnet_node_passes_both_conditionings_through() {
    let inputs = [
        ("model", 3),
        ("positive", 2),
        ("negative", 12),
        ("latent_image", 4),
    ];
    let values = json!([555, "fixed", 21, 1.2, "euler", "simple", 1]);
    let slot =
        |name: &str, link: Option<u32>| json!({"name": name, "type": "CONDITIONING", "link": link});
    let bypassed = json!({"id": 4, "type": "ControlNetApplyAdvanced", "mode": 4, "widgets_values": [0.7, 0, 1],
        "inputs": [slot("positive", Some(11)), slot("negative", Some(5))],
        "outputs": [slot("positive", None), slot("negative", None)]});
    let nodes = vec![node(7, "KSampler", &inputs, &values), bypassed];
    let links = [(11, 3, 0, "*"), (2, 4, 0, "*"), (12, 4, 1, "*")];
    assert_barn(&read_barn(nodes, &links));
}

#[test]
fn a_bypassed_node_hands_on_the_input_of_its_outputs_type() {
    let inputs = [("image", 11), ("conditioning", 13)];
    let mut bypassed = node(4, "ControlNetApply", &inputs, &json!([]));
    bypassed["mode"] = json!(4);
    bypassed["outputs"] = json!([{"name": "CONDITIONING", "type": "CONDITIONING"}]);
    let image = node(12, "LoadImage", &[], &json!(["pose.png"]));
    let links = [
        (13, 3, 0, "CONDITIONING"),
        (11, 12, 0, "IMAGE"),
        (2, 4, 0, "CONDITIONING"),
    ];
    assert_barn(&read_barn(vec![image, bypassed], &links));
}

#[test]
fn an_image_that_is_bypassed_is_no_input_of_the_result() {
    let mut image = node(11, "LoadImage", &[], &json!(["cat.png", "image"]));
    image["mode"] = json!(4);
    image["outputs"] = json!([{"name": "IMAGE", "type": "IMAGE"}]);
    let sizes = json!([896, 640, 49, 1]);
    let video = node(6, "WanImageToVideo", &[("start_image", 11)], &sizes);
    let found = read_barn(vec![image, video], &[(11, 11, 0, "IMAGE")]);
    assert_barn(&found);
    assert_fields!(found, {"num_frames": 49, "from_image": false});
}

#[test]
fn files_of_an_old_canvas_that_names_no_widgets_are_named() {
    for loader in ["LoadVideo", "Load Anything (MyPack)"] {
        let canvas = json!({
            "nodes": [
                {"id": 1, "type": loader, "widgets_values": ["walk.mp4", "image"], "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [1]}]},
                {"id": 2, "type": "WanVaceToVideo", "widgets_values": [720, 480, 45, 1, 1],
                    "inputs": [{"name": "control_video", "type": "IMAGE", "link": 1}], "outputs": [{"name": "latent", "type": "LATENT", "links": [2]}]},
                {"id": 3, "type": "KSampler", "inputs": [{"name": "latent_image", "type": "LATENT", "link": 2}],
                    "widgets_values": [5, "fixed", 20, 1.0, "euler", "simple", 1.0]},
            ],
            "links": [[1, 1, 0, 2, 0, "IMAGE"], [2, 2, 0, 3, 0, "LATENT"]],
        });
        let found = read_file("a.json", canvas.to_string().as_bytes()).unwrap();
        let note =
            "Its control video at strength 1, walk.mp4, is not in the file: add it separately";
        assert_note(&found, note);
    }
}

#[test]
fn an_old_canvas_of_the_wan_wrapper_is_read_by_the_order_of_its_values() {
    let link = |name: &str, kind: &str, id: u32| json!({"name": name, "type": kind, "link": id});
    let canvas = json!({
        "nodes": [
            {"id": 1, "type": "WanVideoModelLoader", "inputs": [link("lora", "WANVIDLORA", 1)],
                "widgets_values": ["Wan2_1-I2V-14B-480P_fp8.safetensors", "fp16", "disabled", "offload_device", "sdpa"]},
            {"id": 2, "type": "WanVideoLoraSelectMulti", "widgets_values": ["a.safetensors", 0.5, "none", 1, "b.safetensors", 0.25, "none", 1, "none", 1, false]},
            {"id": 3, "type": "WanVideoTextEncode", "widgets_values": ["waves", "still", true]},
            {"id": 4, "type": "WanVideoImageToVideoEncode", "inputs": [link("start_image", "IMAGE", 2)],
                "widgets_values": [832, 480, 81, 0.03, 1, 1, true]},
            {"id": 5, "type": "LoadImage", "widgets_values": ["boat.png", "image"]},
            {"id": 6, "type": "WanVideoSampler", "inputs": [link("model", "WANVIDEOMODEL", 3), link("text_embeds", "WANVIDEOTEXTEMBEDS", 4),
                link("image_embeds", "WANVIDIMAGE_EMBEDS", 5), link("seed", "INT", 6)],
                "widgets_values": [10, 6, 5, 1, "fixed", true, "unipc", 0, "", "comfy"]},
            {"id": 7, "type": "Seed (rgthree)", "widgets_values": [77, "", "", ""]},
            {"id": 8, "type": "WanVideoDecode", "inputs": [link("samples", "LATENT", 7)]},
            {"id": 9, "type": "VHS_VideoCombine", "title": "My video", "inputs": [link("images", "IMAGE", 8)], "widgets_values": {"frame_rate": 16}},
        ],
        "links": [[1, 2, 0, 1, 0, "WANVIDLORA"], [2, 5, 0, 4, 0, "IMAGE"], [3, 1, 0, 6, 0, "WANVIDEOMODEL"], [4, 3, 0, 6, 1, "WANVIDEOTEXTEMBEDS"],
            [5, 4, 0, 6, 2, "WANVIDIMAGE_EMBEDS"], [6, 7, 0, 6, 3, "INT"], [7, 6, 0, 8, 0, "LATENT"], [8, 8, 0, 9, 0, "IMAGE"]],
    });
    let found = read_file("a.json", canvas.to_string().as_bytes()).unwrap();
    assert_fields!(found, {
        "output": "My video (node 9)", "width": 832, "height": 480, "num_frames": 81, "seed": 77,
        "num_steps": 10, "cfg_scale": 6.0, "shift": 5.0
    });
    assert_eq!(
        found.loras,
        [
            lora("a.safetensors", 0.5, None),
            lora("b.safetensors", 0.25, None)
        ]
    );
    assert_fields!(found, {
        "prompt": "waves", "negative_prompt": "still", "fps": 16.0,
        "notes": ["Its start image, boat.png, is not in the file: add it separately", "Not used: noise_aug_strength 0.03 of node 4 (WanVideoImageToVideoEncode)"]
    });
}

#[test]
fn a_group_node_is_read_with_its_own_values_and_stays_where_they_do_not_fit() {
    let slots = |inputs: &[&str], outputs: &[&str]| {
        let slot = |kind: &&str| json!({"name": kind, "type": kind});
        let all = |kinds: &[&str]| kinds.iter().map(slot).collect::<Vec<_>>();
        (all(inputs), all(outputs))
    };
    let inner = |class: &str, slots: (Vec<Value>, Vec<Value>), values: Value| json!({"type": class, "inputs": slots.0, "outputs": slots.1, "widgets_values": values});
    let load = inner(
        "UNETLoader",
        slots(&[], &["MODEL"]),
        json!(["old.safetensors", "default"]),
    );
    let latents = inner(
        "EmptySD3LatentImage",
        slots(&[], &["LATENT"]),
        json!([1, 1, 1]),
    );
    let inputs = ["MODEL", "positive", "negative", "latent_image"];
    let mut sampler = slots(&inputs, &["LATENT"]);
    sampler.0[0]["name"] = json!("model");
    let sampler = inner(
        "KSampler",
        sampler,
        json!([1, "fixed", 1, 1, "heun", "beta", 1]),
    );
    let decode = inner(
        "VAEDecode",
        slots(&["samples", "vae"], &["IMAGE"]),
        json!([]),
    );
    let make = json!({"nodes": [load, latents, sampler, decode],
        "links": [[0, 0, 2, 0, 4, "MODEL"], [1, 0, 2, 3, 5, "LATENT"], [2, 0, 3, 0, 3, "LATENT"], [null, 0, 3, 1, 9, "VAE"]],
        "external": [[2, 0, "LATENT"], [3, 0, "IMAGE"]]});
    let names = ["positive", "CLIPTextEncode negative", "vae"];
    let (_, outputs) = slots(&[], &["LATENT", "IMAGE"]);
    let read = |values: Value| {
        let links = names.iter().zip([Some(1), Some(2), None]);
        let inputs = links.map(|(name, link)| json!({"name": name, "type": "*", "link": link}));
        let group = json!({"id": 20, "type": "workflow>make", "inputs": inputs.collect::<Vec<_>>(), "outputs": outputs,
            "widgets_values": values});
        let nodes = [
            node(3, "CLIPTextEncode", &[], &json!(["a red barn"])),
            node(8, "CLIPTextEncode", &[], &json!(["ugly"])),
            group,
            node(10, "SaveImage", &[("images", 3)], &json!(["x"])),
        ];
        let links = [[1, 3, 0], [2, 8, 0], [3, 20, 1]];
        let links = links.map(|[id, from, slot]| json!([id, from, slot, 0, 0, "*"]));
        let canvas =
            json!({"nodes": nodes, "links": links, "extra": {"groupNodes": {"make": make}}});
        read_file("a.json", canvas.to_string().as_bytes())
    };
    let mut values = json!([
        "flux1-dev.safetensors",
        "default",
        896,
        640,
        1,
        555,
        "fixed",
        21,
        1.2,
        "euler",
        "simple",
        1
    ]);
    let found = read(values.clone()).unwrap();
    assert_barn(&found);
    assert_fields!(found, {"model": "flux1-dev.safetensors", "sampler": "euler"});
    values.as_array_mut().unwrap().pop();
    assert_eq!(read(values), None);
}
