//! OpenAI's endpoints.

use std::io::{BufRead as _, BufReader};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{ServedApp, multipart};
use crate::app_window::spec;

fn png_of(data: &Value) -> Vec<u8> {
    let bytes = BASE64_STANDARD.decode(data["b64_json"].as_str().expect("base64"));
    bytes.unwrap()
}

#[test]
fn an_image_is_generated_and_is_the_file_of_the_result() {
    let app = ServedApp::new();
    let answer = app.post(
        "/v1/images/generations",
        &json!({ "model": "flux", "prompt": "a lake", "n": 2, "size": "512x256", "seed": 7 }),
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    let data = answer.json()["data"].as_array().cloned().unwrap();
    assert_eq!(data.len(), 2);
    let bytes = png_of(&data[0]);
    assert!(bytes.starts_with(b"\x89PNG"));
    let files = app.results();
    let mut files = files.iter().map(|path| std::fs::read(path).unwrap());
    assert!(files.any(|file| file == bytes));
    let job = &app.get("/api/jobs").json()["jobs"][0];
    let found = (&job["width"], &job["height"], &job["seed"], &job["prompt"]);
    let expected = (&json!(512), &json!(256), &json!(7), &json!("a lake"));
    assert_eq!(found, expected);
}

#[test]
fn an_image_can_be_fetched_by_its_address() {
    let app = ServedApp::new();
    let order = json!({ "prompt": "a lake", "response_format": "url", "model": "dall-e-3" });
    let answer = app.post("/v1/images/generations", &order).json();
    let url = answer["data"][0]["url"].as_str().expect("an address");
    let path = url.strip_prefix(&app.url("")).expect("of this server");
    let file = app.get(path);
    assert_eq!((file.status, file.kind.as_str()), (200, "image/png"));
    let part = app.with_header(path, "range", "bytes=1-3");
    assert_eq!((part.status, part.body.as_slice()), (206, &b"PNG"[..]));
}

#[test]
fn wrong_requests_end_in_a_sentence_and_make_no_job() {
    let app = ServedApp::new();
    for (order, status, expected) in [
        (
            json!({ "prompt": "a", "model": "nope" }),
            404,
            "There is no model \"nope\"",
        ),
        (json!({ "prompt": "a", "n": 11 }), 400, "n can be 1 to 10"),
        (
            json!({ "prompt": "a", "size": "big" }),
            400,
            "\"big\" is no size",
        ),
        (
            json!({ "prompt": "a", "size": "64000x64000" }),
            400,
            "at most 4096",
        ),
        (
            json!({ "prompt": "a", "output_format": "bmp" }),
            400,
            "expected png, jpeg or webp",
        ),
        (
            json!({ "prompt": "a", "response_format": "x" }),
            400,
            "expected b64_json or url",
        ),
        (
            json!({ "prompt": "a", "background": "transparent" }),
            400,
            "transparent",
        ),
        (json!({ "prompt": "a", "steps": 0 }), 400, "steps"),
        (json!({ "prompt": 3 }), 400, "prompt"),
        (json!({}), 400, "prompt"),
    ] {
        let message = app.post("/v1/images/generations", &order).error(status);
        assert!(message.contains(expected), "{order}: {message}");
    }
    let broken = app.post_bytes("/v1/images/generations", "application/json", b"{".into());
    broken.error(400);
    assert_eq!(app.get("/api/jobs").json()["jobs"], json!([]));
}

#[test]
fn a_failed_job_is_an_error_with_its_advice() {
    let app = ServedApp::new();
    let answer = app.post("/v1/images/generations", &json!({ "prompt": "fail" }));
    let expected = "There is not enough memory. Make a smaller image.";
    assert_eq!(answer.error(507), expected);
}

#[test]
fn partial_images_come_before_the_image() {
    let app = ServedApp::new();
    let order = json!({ "prompt": "seen", "stream": true, "partial_images": 2 });
    let answer = app.post("/v1/images/generations", &order);
    assert_eq!(answer.kind, "text/event-stream");
    let text = answer.text();
    let events: Vec<&str> = text
        .lines()
        .filter_map(|it| it.strip_prefix("event: "))
        .collect();
    // The app may be slower than the steps, and shows the newest one.
    let (last, partial) = events.split_last().expect("events");
    assert_eq!(*last, "image_generation.completed");
    assert!((1..=2).contains(&partial.len()), "{events:?}");
    let partial = partial
        .iter()
        .all(|name| *name == "image_generation.partial_image");
    assert!(partial, "{events:?}");
    let last = text
        .lines()
        .filter_map(|it| it.strip_prefix("data: "))
        .next_back();
    let last: Value = serde_json::from_str(last.expect("data")).unwrap();
    assert!(png_of(&last).starts_with(b"\x89PNG"));
    let order = json!({ "prompt": "fail", "stream": true });
    let text = app.post("/v1/images/generations", &order).text();
    assert!(
        text.starts_with("event: error\ndata: {\"error\":"),
        "{text}"
    );
}

#[test]
fn a_client_that_hangs_up_cancels_its_job() {
    let app = ServedApp::new();
    let order = json!({ "prompt": "wait", "stream": true, "partial_images": 1 }).to_string();
    let request = app.request("POST", "/v1/images/generations");
    let request = request.header("content-type", "application/json");
    let response = app.agent.run(request.body(order).unwrap()).unwrap();
    let mut lines = BufReader::new(response.into_body().into_reader()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("data:")));
    let job = &app.get("/api/jobs").json()["jobs"][0];
    assert_eq!(job["status"], "running");
    let id = job["id"].as_str().unwrap().to_owned();
    drop(lines);
    app.until(&id, "cancelled");
}

#[test]
fn an_image_is_edited_where_the_mask_is_transparent() {
    let app = ServedApp::new();
    let pixels = image::RgbImage::from_pixel(64, 64, image::Rgb([9, 90, 9]));
    let mut mask = image::RgbaImage::from_pixel(64, 64, image::Rgba([0, 0, 0, 255]));
    mask.put_pixel(3, 3, image::Rgba([0, 0, 0, 0]));
    let png = |image: image::DynamicImage| {
        let mut bytes = std::io::Cursor::new(Vec::new());
        image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
        bytes.into_inner()
    };
    let (image, mask) = (png(pixels.into()), png(mask.into()));
    let (kind, body) = multipart(&[
        ("image", Some("photo.png"), &image),
        ("mask", Some("mask.png"), &mask),
        ("prompt", None, b"a boat"),
        ("n", None, b"1"),
    ]);
    let answer = app.post_bytes("/v1/images/edits", &kind, body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let uploads = app.home.path().join("data/uploads");
    let files = uploads.read_dir().unwrap().flatten();
    let masks = files.filter(|file| file.path().to_string_lossy().ends_with("m.png"));
    let masks: Vec<_> = masks
        .map(|file| image::open(file.path()).unwrap())
        .collect();
    let [mask] = masks.as_slice() else {
        panic!("one mask is made");
    };
    let mask = mask.to_rgb8();
    let white = mask
        .enumerate_pixels()
        .filter(|(.., pixel)| pixel.0 == [255; 3]);
    let white: Vec<_> = white.map(|(x, y, _)| (x, y)).collect();
    assert_eq!(white, [(3, 3)]);

    let (kind, body) = multipart(&[("prompt", None, b"a boat")]);
    let message = app.post_bytes("/v1/images/edits", &kind, body).error(400);
    assert_eq!(message, "An edit needs an image.");
    let (kind, body) = multipart(&[
        ("prompt", None, b"a"),
        ("image", Some("a.png"), b"no image"),
    ]);
    app.post_bytes("/v1/images/edits", &kind, body).error(400);
}

#[test]
fn a_model_of_videos_makes_images_where_there_is_no_other() {
    let app = ServedApp::of(vec![spec()], None);
    for model in [json!(null), json!("dall-e-3")] {
        let order = json!({ "prompt": "a lake", "model": model });
        let answer = app.post("/v1/images/generations", &order);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let request = app.last_request();
        assert_eq!((&*request.model, request.num_frames), ("little-world", 1));
    }
}

#[test]
fn a_video_is_a_job_whose_file_comes_when_it_is_finished() {
    let app = ServedApp::new();
    let order = json!({ "prompt": "wait", "model": "sora-2", "seconds": "2", "size": "64x64" });
    let video = app.post("/v1/videos", &order).json();
    assert_eq!(video["object"], "video", "{video}");
    let id = video["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/videos/{id}");
    assert!(["queued", "in_progress"].contains(&app.get(&path).json()["status"].as_str().unwrap()));
    app.get(&format!("{path}/content")).error(409);
    assert_eq!(app.get("/v1/videos").json()["data"][0]["id"], id);
    assert_eq!(app.delete(&path).json()["deleted"], true);
    app.until(id.strip_prefix("video_").unwrap(), "cancelled");

    let order = json!({ "prompt": "a lake", "model": "sora-2", "seconds": 1 });
    let video = app.post("/v1/videos", &order).json();
    let id = video["id"].as_str().unwrap().to_owned();
    app.until(id.strip_prefix("video_").unwrap(), "finished");
    let content = app.get(&format!("/v1/videos/{id}/content"));
    assert_eq!(content.status, 200);
    for (order, expected) in [
        (json!({ "prompt": "a", "seconds": "long" }), "seconds"),
        (json!({ "prompt": "a", "seconds": 1e300 }), "at most"),
        (json!({ "prompt": "a", "model": "flux" }), "makes images"),
    ] {
        let message = app.post("/v1/videos", &order).error(400);
        assert!(message.contains(expected), "{message}");
    }
    app.get("/v1/videos/video_x").error(404);
}

#[test]
fn models_are_listed_and_found() {
    let app = ServedApp::new();
    let models = app.get("/v1/models").json();
    let ids: Vec<&str> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["id"].as_str())
        .collect();
    assert!(ids.contains(&"flux"), "{ids:?}");
    assert_eq!(app.get("/v1/models/flux").json()["owned_by"], "safelight");
    app.get("/v1/models/nope").error(404);
}
