//! Several results of one graph.

use serde_json::{Value, json};

use super::*;
use crate::job::SecondPass;

/// Settings of each result of a graph.
fn outputs(graph: &Value) -> Vec<ForeignSettings> {
    let text = graph.to_string();
    let (_folder, path) = folder_of(&[("a.json", text.as_bytes())]);
    let found = read_outputs(&path).unwrap().into_iter();
    found.filter_map(|found| other(Some(found))).collect()
}

/// A model, an empty image and, for each prompt, nodes `N1` to `N4` that make and save its image.
fn graph_of(prompts: &[&str]) -> Value {
    let mut graph = json!({
        "1": node("UNETLoader", json!({"unet_name": "flux1-dev.safetensors"})),
        "2": node("EmptyLatentImage", json!({"width": 896, "height": 640})),
    });
    for (index, prompt) in (1..).zip(prompts) {
        let id = |part: u32| (10 * index + part).to_string();
        graph[id(1)] = node("CLIPTextEncode", json!({"text": prompt}));
        graph[id(2)] = node(
            "KSampler",
            json!({"seed": index, "steps": 20, "cfg": 1.0, "sampler_name": "euler", "scheduler": "simple",
            "denoise": 1.0, "model": ["1", 0], "positive": [id(1), 0], "latent_image": ["2", 0]}),
        );
        graph[id(3)] = node("VAEDecode", json!({"samples": [id(2), 0]}));
        graph[id(4)] = node("SaveImage", json!({"images": [id(3), 0]}));
    }
    graph
}

fn names(found: &[ForeignSettings]) -> Vec<&str> {
    let names = found.iter().map(|it| it.output.as_deref());
    names.map(Option::unwrap_or_default).collect()
}

#[test]
fn each_of_eight_prompts_is_a_result_in_the_order_of_node_numbers() {
    let prompts = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut graph = graph_of(&prompts.map(|it| it));
    graph["84"]["_meta"] = json!({"title": "The barn"});
    // By letters this comes before 14.
    graph["114"] = graph["14"].take();
    graph.as_object_mut().unwrap().remove("14");
    let found = outputs(&graph);
    let texts: Vec<&str> = found.iter().filter_map(|it| it.prompt.as_deref()).collect();
    assert_eq!(texts, ["b", "c", "d", "e", "f", "g", "h", "a"]);
    let seeds: Vec<u64> = found.iter().filter_map(|it| it.seed).collect();
    assert_eq!(seeds, [2, 3, 4, 5, 6, 7, 8, 1]);
    assert_eq!(names(&found)[0], "Save Image (node 24)");
    assert_eq!(
        names(&found)[6..],
        ["The barn (node 84)", "Save Image (node 114)"]
    );
    assert!(found.iter().all(|it| it.notes.is_empty()), "{:?}", found[0]);
    // One of them where only one is wanted.
    let text = graph.to_string();
    let one = read_file("a.json", text.as_bytes()).unwrap();
    assert_fields!(one, {
        "notes": ["The graph saves several results: the settings are those of node 12 (KSampler)"]
    });
}

#[test]
fn two_savings_of_one_result_are_one() {
    let mut graph = graph_of(&["a barn"]);
    graph["20"] = node("ImageUpscaleWithModel", json!({"image": ["13", 0]}));
    graph["21"] = node("SaveImage", json!({"images": ["20", 0]}));
    graph["22"] = node("PreviewImage", json!({"images": ["13", 0]}));
    let found = outputs(&graph);
    assert_eq!(names(&found), ["Save Image (node 14)"]);
    assert_eq!(found[0].prompt.as_deref(), Some("a barn"));
}

#[test]
fn a_saved_first_pass_is_a_part_of_the_result_of_the_second() {
    let mut graph = graph_of(&["a barn"]);
    graph["20"] = node(
        "LatentUpscaleBy",
        json!({"samples": ["12", 0], "scale_by": 1.5}),
    );
    let mut second = graph["12"].clone();
    second["inputs"]["latent_image"] = json!(["20", 0]);
    second["inputs"]["denoise"] = json!(0.5);
    graph["21"] = second;
    graph["22"] = node("VAEDecode", json!({"samples": ["21", 0]}));
    graph["23"] = node("SaveImage", json!({"images": ["22", 0]}));
    let found = outputs(&graph);
    assert_eq!(names(&found), ["Save Image (node 23)"]);
    let pass = SecondPass {
        scale: 1.5,
        strength: 0.5,
    };
    assert_eq!(
        (found[0].second_pass, found[0].strength),
        (Some(pass), None)
    );
    let note = "The graph also saves the result of an earlier pass (node 12 (KSampler)): here only the last one is made";
    assert!(
        found[0].notes.iter().any(|it| it == note),
        "{:?}",
        found[0].notes
    );
}

#[test]
fn an_image_and_the_video_that_starts_from_it_are_two_results() {
    let mut graph = graph_of(&["a barn", "it burns"]);
    graph["2"] = node(
        "WanImageToVideo",
        json!({"width": 832, "height": 480, "length": 81, "start_image": ["13", 0]}),
    );
    graph["12"]["inputs"]["latent_image"] = json!(["3", 0]);
    graph["3"] = node("EmptyLatentImage", json!({"width": 896, "height": 640}));
    graph["24"] = node("SaveVideo", json!({"video": ["25", 0]}));
    graph["25"] = node("CreateVideo", json!({"images": ["23", 0], "fps": 16}));
    let found = outputs(&graph);
    assert_eq!(
        names(&found),
        ["Save Image (node 14)", "Save Video (node 24)"]
    );
    assert_eq!((found[0].from_image, found[0].width), (false, Some(896)));
    assert_eq!(
        (found[1].from_image, found[1].num_frames, found[1].fps),
        (true, Some(81), Some(16.0))
    );
    assert!(
        found[1].notes[0]
            .starts_with("It was made from a result of the same graph (node 12 (KSampler))")
    );
}

#[test]
fn results_that_one_node_saves_together_are_named_by_their_samplers() {
    let mut graph = graph_of(&["a barn", "a cow"]);
    graph["14"]["inputs"]["images"] = json!(["30", 0]);
    graph["30"] = node(
        "ImageBatch",
        json!({"image1": ["13", 0], "image2": ["23", 0]}),
    );
    graph.as_object_mut().unwrap().remove("24");
    let found = outputs(&graph);
    let expected = [
        "Save Image (node 14), made by node 12",
        "Save Image (node 14), made by node 22",
    ];
    assert_eq!(names(&found), expected);
    assert_eq!(found[1].prompt.as_deref(), Some("a cow"));
    graph["14"] = node(
        "SaveWEBM",
        json!({"images": ["30", 0], "codec": "vp9", "fps": 16}),
    );
    let rates: Vec<_> = outputs(&graph).iter().map(|it| it.fps).collect();
    assert_eq!(rates, [Some(16.0); 2]);
}

#[test]
fn previews_are_results_where_nothing_is_saved() {
    let mut graph = graph_of(&["a barn", "a cow"]);
    graph["24"]["class_type"] = json!("PreviewImage");
    assert_eq!(names(&outputs(&graph)), ["Save Image (node 14)"]);
    graph["14"]["class_type"] = json!("PreviewImage");
    assert_eq!(
        names(&outputs(&graph)),
        ["Preview Image (node 14)", "Preview Image (node 24)"]
    );
}

#[test]
fn a_file_of_one_result_gives_what_is_read_of_it() {
    let graph = graph_of(&["a barn"]);
    let alone = read_file("a.json", graph.to_string().as_bytes()).unwrap();
    assert_eq!(outputs(&graph), [alone]);
    assert_eq!(outputs(&json!({"a": 1})), []);
}
