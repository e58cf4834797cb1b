//! Many clients at once, and the end of the server.

use std::thread;

use serde_json::json;

use super::ServedApp;

#[test]
fn jobs_of_clients_that_wait_end_with_the_program() {
    let mut app = ServedApp::new();
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let order = json!({ "prompt": "wait", "model": "flux" }).to_string();
            let request = app.request("POST", "/v1/images/generations");
            let request = request.header("content-type", "application/json");
            app.agent.run(request.body(order).unwrap()).is_ok()
        });
        while app.get("/api/jobs").json()["jobs"][0]["status"] != "running" {
            thread::sleep(std::time::Duration::from_millis(5));
        }
        app.stop();
        client.join().unwrap();
    });
    app.join();
    let queue = std::fs::read_to_string(app.home.path().join("data/queue.json")).unwrap();
    let queue: serde_json::Value = serde_json::from_str(&queue).unwrap();
    assert_eq!(queue["jobs"], json!([]));
}

#[test]
fn jobs_of_many_clients_are_all_made_and_none_twice() {
    let app = ServedApp::new();
    let ids: Vec<String> = thread::scope(|scope| {
        let clients: Vec<_> = (0..50)
            .map(|index| {
                let app = &app;
                scope.spawn(move || {
                    let order = json!({ "prompt": format!("client {index}"), "model": "flux" });
                    let answer = app.post("/v1/images/generations", &order);
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    index.to_string()
                })
            })
            .collect();
        clients.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 50);
    assert_eq!(app.results().len(), 50);
}

#[test]
fn a_server_that_ends_lets_go_of_its_clients() {
    let app = ServedApp::new();
    let id = app.submit("wait");
    app.until(&id, "running");
    let response = app.agent.get(app.url("/api/events")).call().unwrap();
    app.stop();
    let mut reader = response.into_body().into_reader();
    let mut rest = Vec::new();
    // It ends, with or without an error.
    std::io::Read::read_to_end(&mut reader, &mut rest).ok();
}
