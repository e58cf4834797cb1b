//! Jobs: submit, list, change, follow, and get their files.

use std::io::{BufRead as _, BufReader};

use safelight_core::model::ControlUse;
use safelight_core::settings::AppPaths;
use serde_json::{Value, json};

use super::ServedApp;
use crate::app_window::{flux_spec, spec};
use crate::common::networks::write_flux_control;

#[test]
fn jobs_are_submitted_moved_paused_resumed_and_cancelled() {
    let app = ServedApp::new();
    let first = app.submit("wait");
    app.until(&first, "running");
    let [second, third] = ["b", "c"].map(|prompt| app.submit(prompt));
    let order = |app: &ServedApp| -> Vec<String> {
        let jobs = app.get("/api/jobs").json();
        let jobs = jobs["jobs"].as_array().unwrap().iter();
        jobs.map(|job| job["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(order(&app), [&*first, &*second, &*third]);
    let patch = |id: &str, action: Value| {
        let answer = app.send_json(
            "PATCH",
            &format!("/api/jobs/{id}"),
            &json!({ "action": action }),
        );
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    patch(&third, json!({ "move": 0 }));
    assert_eq!(order(&app), [&*first, &*third, &*second]);
    assert_eq!(app.delete(&format!("/api/jobs/{second}")).status, 200);
    app.until(&second, "cancelled");
    patch(&first, json!("pause"));
    app.until(&first, "paused");
    app.until(&third, "finished");
    patch(&first, json!("resume"));
    app.until(&first, "running");
    app.delete(&format!("/api/jobs/{first}"));
    app.until(&first, "cancelled");
    app.get("/api/jobs/1").error(404);
    app.delete("/api/jobs/1").error(404);
}

#[test]
fn an_action_without_effect_is_refused_with_the_jobs_status() {
    let app = ServedApp::new();
    let id = app.submit("a lake");
    app.until(&id, "finished");
    let path = format!("/api/jobs/{id}");
    for action in [json!("pause"), json!("resume"), json!({ "move": 0 })] {
        let answer = app.send_json("PATCH", &path, &json!({ "action": action }));
        let expected = format!("Nothing was changed: job {id} is finished.");
        assert_eq!(answer.error(409), expected);
    }
    let running = app.submit("wait");
    app.until(&running, "running");
    let path = format!("/api/jobs/{running}");
    assert_eq!(app.delete(&path).status, 200);
    app.until(&running, "cancelled");
    app.delete(&path).error(409);
}

#[test]
fn a_failed_job_that_is_resumed_has_the_id_of_the_answer() {
    let app = ServedApp::new();
    let id = app.submit("fail");
    app.until(&id, "failed");
    let resume = json!({ "action": "resume" });
    let answer = app.send_json("PATCH", &format!("/api/jobs/{id}"), &resume);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let again = answer.json()["id"].as_str().unwrap().to_owned();
    assert_ne!(again, id);
    app.until(&again, "failed");
}

#[test]
fn what_a_removed_job_has_computed_is_removed_with_it() {
    let app = ServedApp::new();
    let id = app.submit("wait");
    app.until(&id, "running");
    let path = format!("/api/jobs/{id}");
    app.send_json("PATCH", &path, &json!({ "action": "pause" }));
    app.until(&id, "paused");
    let folder = app.home.path().join("data/jobs").join(&id);
    std::fs::create_dir_all(&folder).unwrap();
    assert_eq!(app.delete(&path).status, 200);
    app.until(&id, "cancelled");
    let begin = std::time::Instant::now();
    while folder.exists() {
        assert!(begin.elapsed().as_secs() < 50, "the folder stays");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn stored_results_are_listed_and_fetched_without_their_jobs() {
    let app = ServedApp::new();
    let id = app.submit("a lake");
    let job = app.until(&id, "finished");
    let result = job["results"][0].as_str().unwrap().to_owned();
    let ended_at = job["ended_at"].as_u64().unwrap();
    assert!(ended_at > 1_700_000_000, "{job}");
    assert_eq!(app.delete(&format!("/api/jobs/{id}")).status, 200);
    app.get(&format!("/api/jobs/{id}")).error(404);
    let list = app.get("/api/results?limit=5").json();
    assert_eq!(list["results"][0]["id"], json!(result), "{list}");
    assert_eq!(
        (&list["total"], &list["results"][0]["settings"]["width"]),
        (&json!(1), &json!(64))
    );
    let file = app.get(&format!("/api/results/{result}/file"));
    assert_eq!((file.status, file.kind.as_str()), (200, "image/png"));
    let thumb = app.get(&format!("/api/results/{result}/thumbnail"));
    assert_eq!(thumb.kind, "image/jpeg");
    app.get("/api/results/..%2fserver-token/file").error(404);
    app.get("/api/results?limit=0").error(400);
    // A result can be an input.
    let form = json!({ "model": "flux", "prompt": "a boat" });
    let answer = app.post("/api/jobs", &json!({ "form": form, "start_image": result }));
    assert_eq!(answer.status, 202, "{}", answer.text());
}

#[test]
fn networks_are_found_by_their_names_alone() {
    let app = ServedApp::new();
    let id = app.submit("a lake");
    app.until(&id, "finished");
    for model in ["/etc/passwd", "none"] {
        let order = json!({ "source": id, "model": model });
        let message = app.post("/api/upscale", &order).error(404);
        assert_eq!(message, "There is no upscaler on this computer.");
        app.post("/api/interpolate", &order).error(404);
    }
    let form = json!({ "model": "flux", "prompt": "a" });
    let control = json!({ "file": id, "network": "/etc/passwd" });
    let order = json!({ "form": form, "controls": [control] });
    let message = app.post("/api/jobs", &order).error(404);
    assert_eq!(message, "There is no ControlNet on this computer.");
    let order = json!({ "form": form, "controls": [{ "file": id, "kind": "depth" }] });
    let message = app.post("/api/jobs", &order).error(400);
    assert!(message.to_lowercase().contains("control"), "{message}");
}

#[test]
fn a_job_is_guided_by_a_control_image_and_a_controlnet_of_this_computer() {
    let mut model = flux_spec();
    model.limits.controls = ControlUse::NETWORKS;
    let app = ServedApp::of(vec![model, spec()], None);
    let folder = AppPaths::under(app.home.path()).models().join("controlnet");
    write_flux_control(&folder.join("union.safetensors"));
    let image = app.submit("a lake");
    app.until(&image, "finished");
    let control = json!({ "file": image, "network": "Union", "strength": 0.8, "kind": "depth" });
    let form = json!({ "model": "flux", "prompt": "a boat" });
    let answer = app.post("/api/jobs", &json!({ "form": form, "controls": [control] }));
    assert_eq!(answer.status, 202, "{}", answer.text());
    app.until(answer.json()["jobs"][0].as_str().unwrap(), "finished");
    let [control] = &app.last_request().controls[..] else {
        panic!("one control image");
    };
    let network = control.settings.network.as_ref();
    assert_eq!(network, Some(&folder.join("union.safetensors")));
    assert_eq!(control.settings.strength, 0.8);
    assert!(control.file.is_file(), "{}", control.file.display());
}

#[test]
fn errors_name_files_without_their_folders() {
    let app = ServedApp::new();
    let text = b"no image".to_vec();
    let upload = app.post_bytes("/api/uploads?name=a.png", "application/octet-stream", text);
    let name = upload.json()["upload"].as_str().unwrap().to_owned();
    let order = json!({ "form": { "model": "flux", "prompt": "a" }, "start_image": name });
    let message = app.post("/api/jobs", &order).error(400);
    let home = app.home.path().to_string_lossy().into_owned();
    assert!(
        message.contains(&name) && !message.contains(&home),
        "{message}"
    );
}

#[test]
fn a_size_needs_no_other_field_and_what_is_changed_is_a_warning() {
    let app = ServedApp::new();
    let form = json!({ "model": "flux", "prompt": "a lake", "width": 520, "height": 512 });
    let answer = app.post("/api/jobs", &json!({ "form": form })).json();
    let warnings = answer["warnings"].as_array().unwrap();
    assert!(
        warnings.len() == 1 && warnings[0].as_str().unwrap().contains("520"),
        "{answer}"
    );
    app.until(answer["jobs"][0].as_str().unwrap(), "finished");
    assert_eq!(app.last_request().height, 512);
}

#[test]
fn events_say_every_job_and_its_previews() {
    let app = ServedApp::new();
    let before = app.submit("before");
    app.until(&before, "finished");
    let response = app.agent.get(app.url("/api/events")).call().unwrap();
    let mut lines = BufReader::new(response.into_body().into_reader()).lines();
    let mut next = || loop {
        let line = lines.next().expect("more").unwrap();
        if let Some(name) = line.strip_prefix("event: ") {
            let data = lines.next().expect("data").unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            return (name.to_owned(), data);
        }
    };
    let (name, job) = next();
    assert_eq!((name.as_str(), &job["id"]), ("job", &json!(before)));
    let id = app.submit("wait");
    let preview = loop {
        let (name, data) = next();
        assert_eq!(data["id"], id);
        if name == "preview" {
            break data;
        }
    };
    assert!(preview["jpeg"].as_str().unwrap().starts_with("/9j/"));
    app.delete(&format!("/api/jobs/{id}"));
    while next().1["status"] != "cancelled" {}
}

#[test]
fn settings_of_a_result_are_a_job_again() {
    let app = ServedApp::new();
    let order =
        json!({ "form": { "model": "flux", "prompt": "a lake", "seed": 5, "num_steps": 3 } });
    let id = app.post("/api/jobs", &order).json()["jobs"][0]
        .as_str()
        .unwrap()
        .to_owned();
    app.until(&id, "finished");
    let mut request = serde_json::to_value(app.last_request()).unwrap();
    request["image"] = json!("/etc/hostname");
    request["out"] = json!("/tmp/elsewhere.png");
    let answer = app.post("/api/jobs", &json!({ "request": request }));
    assert_eq!(answer.status, 202, "{}", answer.text());
    let answer = answer.json();
    let expected = json!(["The start image of the settings are not used: none was sent."]);
    assert_eq!(answer["warnings"], expected);
    app.until(answer["jobs"][0].as_str().unwrap(), "finished");
    assert!(!std::path::Path::new("/tmp/elsewhere.png").exists());
    let wrong = app.post("/api/jobs", &json!({ "form": { "num_steps": "many" } }));
    assert!(wrong.error(400).contains("many"));
}

#[test]
fn files_are_uploaded_by_content_and_used_by_name() {
    let app = ServedApp::new();
    let mut bytes = std::io::Cursor::new(Vec::new());
    let image = image::RgbImage::from_pixel(64, 64, image::Rgb([9, 90, 9]));
    image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    let upload = |name: &str| {
        let path = format!("/api/uploads?name={name}");
        let answer = app.post_bytes(&path, "application/octet-stream", bytes.get_ref().clone());
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["upload"].as_str().unwrap().to_owned()
    };
    let name = upload("a.png");
    assert_eq!(upload("../../b.txt"), name);
    let form = json!({ "model": "flux", "prompt": "a boat" });
    let order = json!({ "form": form, "start_image": name });
    let answer = app.post("/api/jobs", &order).json();
    app.until(answer["jobs"][0].as_str().unwrap(), "finished");
    for wrong in ["../server-token", "/etc/passwd", "none.png", ".."] {
        let order = json!({ "form": form, "start_image": wrong });
        app.post("/api/jobs", &order).error(404);
    }
}

#[test]
fn files_of_a_job_are_those_that_it_made_and_no_others() {
    let app = ServedApp::new();
    let id = app.submit("a lake");
    app.until(&id, "finished");
    assert_eq!(
        app.get(&format!("/api/jobs/{id}/files/0")).kind,
        "image/png"
    );
    let thumb = app.get(&format!("/api/jobs/{id}/thumbnail"));
    assert_eq!((thumb.status, thumb.kind.as_str()), (200, "image/jpeg"));
    for path in [
        "files/1",
        "files/-1",
        "files/..%2f..%2fserver-token",
        "thumbnail?index=9",
    ] {
        let status = app.get(&format!("/api/jobs/{id}/{path}")).status;
        assert!((400..500).contains(&status), "{path}: {status}");
    }
    std::fs::remove_file(app.results().first().unwrap()).unwrap();
    app.get(&format!("/api/jobs/{id}/files/0")).error(404);
}

#[test]
fn a1111s_endpoints_make_images_and_tell_their_progress() {
    let app = ServedApp::new();
    let order = json!({
        "prompt": "(a lake:1.2)", "negative_prompt": "", "steps": 3, "width": 512, "height": 512,
        "cfg_scale": 1, "sampler_name": "Euler", "scheduler": "Simple", "seed": -1, "batch_size": 1,
        "n_iter": 1, "override_settings": { "sd_model_checkpoint": "flux" }, "save_images": true,
    });
    let answer = app.post("/sdapi/v1/txt2img", &order);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["images"].as_array().unwrap().len(), 1);
    let id = app.submit("wait");
    app.until(&id, "running");
    let progress = app.get("/sdapi/v1/progress").json();
    assert_eq!(progress["state"]["job"], id);
    app.post("/sdapi/v1/interrupt", &json!({}));
    app.until(&id, "cancelled");
    assert_eq!(app.get("/sdapi/v1/progress").json()["progress"], 0.0);
    let models = app.get("/sdapi/v1/sd-models").json();
    let titles = [&models[0]["title"], &models[1]["title"]];
    assert_eq!(titles, ["flux", "little-world"], "those of images first");
    app.post(
        "/sdapi/v1/options",
        &json!({ "sd_model_checkpoint": "flux" }),
    );
    assert_eq!(
        app.get("/sdapi/v1/options").json()["sd_model_checkpoint"],
        "flux"
    );
    app.post(
        "/sdapi/v1/options",
        &json!({ "sd_model_checkpoint": "nope" }),
    )
    .error(404);
    let order =
        json!({ "prompt": "a", "override_settings": { "sd_model_checkpoint": "little-world" } });
    app.post("/sdapi/v1/txt2img", &order);
    assert_eq!(app.last_request().num_frames, 1);
    let pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let order = json!({ "prompt": "a", "init_images": ["nonsense!"] });
    assert!(
        app.post("/sdapi/v1/img2img", &order)
            .error(400)
            .contains("base64")
    );
    let order = json!({ "prompt": "a", "init_images": [format!("data:image/png;base64,{pixel}")], "denoising_strength": 0.6 });
    let answer = app.post("/sdapi/v1/img2img", &order);
    assert_eq!(answer.status, 200, "{}", answer.text());
}
