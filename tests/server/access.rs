//! Who may call, and how much.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::{ServedApp, multipart};
use crate::app_window::flux_spec;

#[test]
fn without_the_token_nothing_is_answered() {
    let app = ServedApp::of(vec![flux_spec()], Some("secret"));
    assert_eq!(app.get("/v1/models").status, 200);
    let request = app.agent.get(app.url("/v1/models"));
    let lower = request.header("authorization", "bearer secret").call();
    assert_eq!(lower.unwrap().status().as_u16(), 200);
    let paths = [
        "/",
        "/page.js",
        "/v1/models",
        "/api/jobs",
        "/api/events",
        "/sdapi/v1/options",
    ];
    for path in paths {
        for token in [
            None,
            Some("Bearer wrong"),
            Some("secret"),
            Some("Bearer secretx"),
        ] {
            let mut request = app.agent.get(app.url(path));
            if let Some(token) = token {
                request = request.header("authorization", token);
            }
            let status = request.call().unwrap().status().as_u16();
            assert_eq!(status, 401, "{path} {token:?}");
        }
    }
    // The client is still sending when the server refuses.
    let upload = app.agent.post(app.url("/api/uploads"));
    let status = upload.send(&*vec![0; 32 << 20]).unwrap().status();
    assert_eq!(status.as_u16(), 401);
    let page = app.agent.get(app.url("/?token=secret"));
    let page = page.config().max_redirects(0).build().call().unwrap();
    let cookie = page.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert_eq!(page.status().as_u16(), 303);
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    let cookie = cookie.split(';').next().unwrap();
    let page = app
        .agent
        .get(app.url("/"))
        .header("cookie", cookie)
        .call()
        .unwrap();
    assert_eq!(page.status().as_u16(), 200);
}

#[test]
fn other_web_sites_and_names_are_refused() {
    let app = ServedApp::new();
    for (name, value) in [
        ("host", "rebound.example"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
    ] {
        app.with_header("/api/jobs", name, value).error(403);
    }
    let own = app.url("");
    assert_eq!(app.with_header("/api/jobs", "origin", &own).status, 200);
}

#[test]
fn requests_that_are_too_large_are_refused_and_others_go_on() {
    let app = ServedApp::new();
    for (path, num_bytes) in [
        ("/v1/images/generations", 5 << 20),
        ("/sdapi/v1/txt2img", 65 << 20),
    ] {
        let answer = app.post(path, &json!({ "prompt": "x".repeat(num_bytes) }));
        answer.error(413);
    }
    app.post_bytes("/api/uploads", "image/png", Vec::new())
        .error(400);
    let (kind, body) = multipart(&[("image", Some("a.png"), &vec![0; 257 << 20])]);
    for path in ["/v1/images/edits", "/v1/videos"] {
        app.post_bytes(path, &kind, body.clone()).error(413);
    }
    assert_eq!(app.get("/api/jobs").json()["jobs"], json!([]));
}

#[test]
fn prompts_that_no_model_reads_are_refused_before_they_are_queued() {
    let app = ServedApp::new();
    for (path, num_bytes) in [
        ("/v1/images/generations", 2 << 20),
        ("/sdapi/v1/txt2img", 8 << 20),
    ] {
        let order = json!({ "model": "flux", "prompt": "x".repeat(num_bytes) });
        let message = app.post(path, &order).error(400);
        assert!(message.contains("longer than 65536 bytes"), "{message}");
    }
}

#[test]
fn errors_of_libraries_have_the_form_of_all_others() {
    let app = ServedApp::new();
    let answer = app.delete("/v1/models");
    answer.error(405);
    app.get("/api/results?limit=x").error(400);
    app.get("/api/jobs/1/files/x").error(400);
    app.post_bytes("/api/jobs", "text/plain", b"{}".to_vec())
        .error(415);
}

#[test]
fn jobs_beyond_the_queues_limit_are_refused_before_they_are_made() {
    let app = ServedApp::new();
    let form = json!({
        "model": "flux", "prompt": "q\n".repeat(400), "is_one_a_line": true, "batch_size": 1000,
    });
    let message = app.post("/api/jobs", &json!({ "form": form })).error(429);
    assert!(message.contains("the queue takes 1000"), "{message}");
    assert_eq!(app.get("/api/jobs").json()["jobs"], json!([]));
}

#[test]
fn clients_name_no_files_as_loras() {
    let app = ServedApp::new();
    for path in ["/etc/passwd", "../server-token", "none"] {
        let lora = json!({ "path": path, "is_on": true, "strength": 1.0, "strength_2": null });
        let form = json!({ "model": "flux", "prompt": "a", "loras": [lora] });
        let message = app.post("/api/jobs", &json!({ "form": form })).error(404);
        assert_eq!(message, format!("There is no LoRA {path:?}."));
    }
}

#[test]
fn fifty_clients_that_stay_silent_hold_nobody_up() {
    let app = ServedApp::new();
    let address = app.address;
    let mut silent: Vec<TcpStream> = (0..50)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    for stream in &mut silent {
        stream
            .write_all(
                b"POST /api/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc",
            )
            .unwrap();
    }
    let id = app.submit("a lake");
    app.until(&id, "finished");
    drop(silent);
    let uploads = app.home.path().join("data/uploads");
    let begin = std::time::Instant::now();
    while uploads
        .read_dir()
        .unwrap()
        .flatten()
        .any(|file| file.path().extension().is_some_and(|it| it == "part"))
    {
        assert!(
            begin.elapsed() < Duration::from_secs(50),
            "half-written uploads stay"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_page_comes_from_the_program_alone() {
    let app = ServedApp::new();
    let page = app.agent.get(app.url("/")).call().unwrap();
    let policy = page.headers()["content-security-policy"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(policy.starts_with("default-src 'self'"), "{policy}");
    let mut text = String::new();
    page.into_body()
        .into_reader()
        .read_to_string(&mut text)
        .unwrap();
    assert!(!text.contains("http"), "the page asks other servers");
    let files = ["/", "/page.css", "/page.js", "/docs", "/docs.js"];
    let sizes = files.map(|path| app.get(path).body.len());
    assert!(sizes.iter().sum::<usize>() < 100_000);
}
