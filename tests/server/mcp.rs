//! The Model Context Protocol over HTTP.

use safelight_core::settings::AppPaths;
use serde_json::{Value, json};

use super::ServedApp;
use crate::common::networks::write_upscaler;

/// A session of one client.
struct McpClient<'a> {
    app: &'a ServedApp,
    session: String,
    number: u64,
}

impl<'a> McpClient<'a> {
    fn of(app: &'a ServedApp) -> Self {
        let client = json!({ "name": "test", "version": "1" });
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client },
        });
        let request = app.request("POST", "/mcp");
        let request = request.header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        let response = app.agent.run(request.body(hello.to_string()).unwrap());
        let response = response.unwrap();
        let session = response.headers()["mcp-session-id"].to_str().unwrap();
        let this = Self {
            app,
            session: session.to_owned(),
            number: 0,
        };
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        this.send(&ready);
        this
    }

    /// Messages of the answer, the last of which is the result.
    fn send(&self, message: &Value) -> Vec<Value> {
        let request = self.app.request("POST", "/mcp");
        let request = request.header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        let request = request.header("mcp-session-id", &self.session);
        let text = self
            .app
            .send(request.body(message.to_string()).unwrap())
            .text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let data = data.filter(|data| !data.trim().is_empty());
        data.map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    fn request(&mut self, method: &str, params: &Value) -> Vec<Value> {
        self.number += 1;
        let number = self.number;
        self.send(&json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params }))
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let messages = self.request("tools/call", &params);
        messages.last().expect("a result")["result"].clone()
    }
}

#[test]
fn language_models_find_the_tools_and_make_an_image() {
    let app = ServedApp::new();
    let mut client = McpClient::of(&app);
    let tools = client.request("tools/list", &json!({}));
    let tools = tools[0]["result"]["tools"].as_array().cloned().unwrap();
    let mut names: Vec<&str> = tools.iter().filter_map(|it| it["name"].as_str()).collect();
    names.sort_unstable();
    let expected = [
        "cancel",
        "edit_image",
        "generate_image",
        "generate_video",
        "interpolate",
        "job_status",
        "list_models",
        "upscale",
    ];
    assert_eq!(names, expected);
    for tool in &tools {
        for (name, argument) in tool["inputSchema"]["properties"].as_object().unwrap() {
            assert!(argument["type"].is_string(), "{name}: {argument}");
        }
    }

    let params = json!({
        "name": "generate_image", "arguments": { "prompt": "seen", "model": "flux", "seed": 7 },
        "_meta": { "progressToken": "p" },
    });
    let messages = client.request("tools/call", &params);
    let (result, progress) = messages.split_last().unwrap();
    let progress = progress
        .iter()
        .filter(|it| it["method"] == "notifications/progress");
    let progress: Vec<f64> = progress
        .filter_map(|it| it["params"]["progress"].as_f64())
        .collect();
    assert!(!progress.is_empty() && progress.is_sorted(), "{progress:?}");
    let content = &result["result"]["content"];
    assert_eq!(
        (&content[0]["type"], &content[1]["type"]),
        (&json!("image"), &json!("resource_link"))
    );
    let uri = content[1]["uri"].as_str().unwrap();
    assert!(uri.starts_with(&app.url("/api/jobs/")), "{uri}");
}

#[test]
fn an_image_is_edited_by_the_job_that_made_it() {
    let app = ServedApp::new();
    let id = app.submit("a lake");
    app.until(&id, "finished");
    let mut client = McpClient::of(&app);
    let arguments = json!({ "prompt": "a boat", "model": "flux", "image": id });
    let result = client.call("edit_image", &arguments);
    assert_eq!(result["content"][0]["type"], "image", "{result}");
    assert!(app.last_request().image.is_some());
}

#[test]
fn an_image_is_enlarged_by_the_upscaler_that_is_there() {
    let app = ServedApp::new();
    let id = app.submit("a lake");
    app.until(&id, "finished");
    let models = AppPaths::under(app.home.path()).models();
    write_upscaler(&models.join("upscale_models/4x-Nearest.safetensors"));
    let mut client = McpClient::of(&app);
    let arguments = json!({ "source": id, "factor": 3, "model": "4x-nearest" });
    let result = client.call("upscale", &arguments);
    assert_eq!(result["content"][0]["type"], "image", "{result}");
    let jobs = app.get("/api/jobs").json();
    let job = &jobs["jobs"][0];
    let found = (&job["kind"], &job["width"]);
    assert_eq!(found, (&json!("upscale"), &json!(192)), "{job}");
    let order = json!({ "source": id, "factor": 99 });
    let message = app.post("/api/upscale", &order).error(400);
    assert!(message.contains("between 1 and 16"), "{message}");
}

#[test]
fn a_video_is_a_job_that_is_asked_for_and_cancelled() {
    let app = ServedApp::new();
    let mut client = McpClient::of(&app);
    let result = client.call("generate_video", &json!({ "prompt": "wait", "seconds": 1 }));
    let jobs: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    let id = jobs["jobs"][0].as_str().unwrap();
    app.until(id, "running");
    let status = client.call("job_status", &json!({ "job": id }));
    let status: Value =
        serde_json::from_str(status["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(status["status"], "running");
    client.call("cancel", &json!({ "job": id }));
    app.until(id, "cancelled");
}

#[test]
fn errors_are_sentences_that_the_model_reads() {
    let app = ServedApp::new();
    let mut client = McpClient::of(&app);
    for (tool, arguments, expected) in [
        (
            "generate_image",
            json!({ "prompt": "a", "model": "nope" }),
            "There is no model",
        ),
        (
            "generate_image",
            json!({ "prompt": "fail" }),
            "Make a smaller image.",
        ),
        (
            "edit_image",
            json!({ "prompt": "a", "image": "?" }),
            "not base64",
        ),
        ("job_status", json!({ "job": "x" }), "There is no job"),
        (
            "upscale",
            json!({ "source": "iVBORw0KGgo=" }),
            "There is no upscaler",
        ),
    ] {
        let result = client.call(tool, &arguments);
        assert_eq!(result["isError"], true, "{tool}: {result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(expected), "{tool}: {text}");
    }
}
