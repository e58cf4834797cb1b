//! The OpenAPI document and its page.

use serde_json::Value;

use super::ServedApp;

#[test]
fn the_document_describes_every_route_and_its_references_lead_to_schemas() {
    let app = ServedApp::new();
    let api = app.get("/openapi.json").json();
    for (path, method) in [
        ("/v1/images/generations", "post"),
        ("/v1/videos/{id}/content", "get"),
        ("/api/jobs/{id}", "patch"),
        ("/api/results", "get"),
        ("/api/upscale", "post"),
        ("/sdapi/v1/txt2img", "post"),
    ] {
        let operation = &api["paths"][path][method];
        assert!(operation["responses"].is_object(), "{method} {path}");
    }
    let form = &api["components"]["schemas"]["JobOrder"]["properties"]["form"];
    assert!(form["properties"]["num_steps"].is_object(), "{form}");
    let mut references = Vec::new();
    collect_references(&api, &mut references);
    assert!(references.len() > 20, "{references:?}");
    for reference in references {
        let place = reference.strip_prefix('#').expect("within the document");
        assert!(api.pointer(place).is_some(), "{reference} leads nowhere");
    }
}

fn collect_references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields
                .values()
                .for_each(|field| collect_references(field, found));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| collect_references(item, found)),
        _ => {}
    }
}
