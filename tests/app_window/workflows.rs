//! Workflows: those with several results are offered, and a result is copied as one.

use safelight::window::commands::RestoreCommand;
use safelight_core::restore::{FileSettings, ForeignSettings};

use crate::app_window::prelude::*;

fn settings(output: &str, prompt: &str, model: &str) -> ForeignSettings {
    ForeignSettings {
        tool: "ComfyUI".into(),
        output: Some(output.into()),
        prompt: Some(prompt.into()),
        model: Some(model.into()),
        num_steps: Some(9),
        seed: Some(77),
        width: Some(640),
        height: Some(832),
        ..ForeignSettings::default()
    }
}

/// A window that offers these results of a workflow.
fn offered(outputs: Vec<ForeignSettings>) -> Bench {
    let mut bench = Bench::of_models(vec![spec(), flux_spec()]);
    let outputs = outputs.into_iter().map(Box::new).map(FileSettings::Other);
    let outputs = outputs.collect();
    let app = bench.app();
    app.restoring.offer("/a/flow.json".into(), outputs, &app.cx);
    bench.settle();
    bench
}

fn three() -> Vec<ForeignSettings> {
    let mut edited = settings(
        "Save Image (node 12)",
        "a fox in snow",
        "flux1-dev.safetensors",
    );
    edited.from_image = true;
    edited.notes = vec!["Its start image, a.png, is not in the file: add it separately".into()];
    vec![
        settings("Save Image (node 9)", "a red\nfox", "flux.safetensors"),
        edited,
        settings(
            "Save Image (node 20)",
            "a boat",
            "stable_cascade.safetensors",
        ),
    ]
}

#[test]
fn a_workflow_with_several_results_shows_what_each_makes_and_lacks() {
    let bench = offered(three());
    bench.assert_shows("flow.json makes 3 results|Save Image (node 9)|a red fox");
    bench.assert_shows("Flux · 640 × 832, 9 steps");
    bench.assert_shows("It needs an image or video that is not in the file");
    bench.assert_shows("The model stable_cascade.safetensors is not on this computer|Queue 1 of 3");
    bench.assert_shows("2 notes");
}

#[test]
fn a_missing_model_of_a_known_family_is_to_be_got() {
    let all = ["a boat", "a tree"].map(|prompt| settings("Save Image", prompt, "qwen_image.gguf"));
    let bench = offered(all.into());
    bench.assert_shows("No Qwen-Image model is on this computer: get one on the page Models");
    assert!(bench.is_disabled("Queue 0 of 2"));
}

#[test]
fn the_results_of_a_workflow_look_as_they_did() {
    offered(three()).snapshot("workflow_outputs");
}

#[test]
fn one_result_of_several_goes_into_the_form_and_can_be_undone() {
    let mut bench = offered(three());
    bench.press("Open Save Image (node 12) in form");
    bench.until_prompt("a fox in snow");
    bench.assert_hides("makes 3 results");
    assert_eq!(bench.form().model.as_deref(), Some("flux"));
    bench.press("Undo");
    assert_eq!(bench.form().prompt, "");
}

#[test]
fn all_results_are_queued_but_those_that_lack_something_which_are_named() {
    let mut bench = offered(three());
    bench.form().prompt = "in the form".into();
    bench.press("Queue 1 of 3");
    bench.settle();
    let queue = &bench.app().queue;
    let running = queue.live().map(|job| job.request.clone());
    let request = running.expect("it runs");
    let request = request.generate().expect("it generates").clone();
    assert_eq!((&*request.prompt, request.seed), ("a red\nfox", 77));
    assert_eq!((request.width, request.height), (640, 832));
    assert_eq!(request.sampling.num_steps, 9);
    assert!(queue.waiting.is_empty());
    assert_eq!(bench.form().prompt, "in the form");
    bench.assert_shows("2 of 3 results of flow.json were not queued");
    bench.assert_shows("Save Image (node 12): It needs an image");
}

#[test]
fn cancelling_changes_nothing_and_one_result_needs_no_question() {
    let mut bench = offered(three());
    bench.press("Cancel");
    bench.assert_hides("makes 3 results");
    assert!(bench.app().queue.running.is_empty());
    let mut bench = offered(vec![settings("Save Image (node 9)", "a fox", "flux")]);
    bench.until_prompt("a fox");
}

#[test]
fn a_result_is_copied_as_a_workflow_and_what_that_lacks_is_said() {
    let mut bench = Bench::of_models(vec![flux_spec()]);
    bench.write_prompt("a \\{red\\} fox");
    let sent = bench.start_job();
    let mut request = serde_json::to_value(&sent.request).unwrap();
    request["seed"] = 5.into();
    let path = bench.home.path().join("fox.png");
    write_made(&path, [64, 64], 1, 8.0, Some(made_with(&request)));
    bench.push(RestoreCommand::CopyWorkflow(path));
    bench.harness.ctx.request_repaint();
    let mut copied = None;
    bench.until("it is copied", |bench| {
        copied = bench.until_copied();
        copied.is_some()
    });
    let copied = copied.expect("it is copied");
    let nodes: serde_json::Value = serde_json::from_str(&copied).expect("it is JSON");
    let nodes = nodes.as_object().expect("nodes by id");
    let sampler = nodes.values().find(|node| node["class_type"] == "KSampler");
    assert_eq!(sampler.expect("a sampler")["inputs"]["seed"], 5);
    bench.assert_shows("The workflow of fox.png is on the clipboard");
    bench.assert_shows("Save it as a .json file and open that in ComfyUI");
    // `|` separates texts, and is in this one.
    bench.assert_shows("ComfyUI reads {…");
    bench.assert_shows("Save as file…");
    let other = bench.text_file("other.txt", "a fox\nSteps: 9, Sampler: Euler, Seed: 1");
    bench.push(RestoreCommand::CopyWorkflow(other));
    bench.wait_for("Other.txt was not made with Safelight");
}
