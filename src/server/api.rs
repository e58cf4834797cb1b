//! Routes with their OpenAPI document, whose schemas come from the types of requests and answers.

use std::mem;

use axum::Router;
use axum::routing::MethodRouter;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use super::context::ServerContext;
use super::error::ErrorBody;

const JSON: &str = "application/json";
pub const EVENTS: &str = "text/event-stream";
const SCHEMAS: &str = "/components/schemas";

pub struct ApiRoutes {
    router: Router<ServerContext>,
    paths: Value,
    schemas: SchemaGenerator,
    tag: &'static str,
}

impl ApiRoutes {
    pub fn new() -> Self {
        let mut settings = SchemaSettings::draft2020_12();
        settings.definitions_path = SCHEMAS.into();
        Self {
            router: Router::new(),
            paths: json!({}),
            schemas: settings.into_generator(),
            tag: "",
        }
    }

    /// Group of the routes that are added next.
    pub fn tag(&mut self, tag: &'static str) {
        self.tag = tag;
    }

    /// Adds a route; `place`: its method and path.
    pub fn add(
        &mut self,
        place: &str,
        summary: &str,
        route: MethodRouter<ServerContext>,
    ) -> ApiOperation<'_> {
        let (method, path) = place.split_once(' ').unwrap_or(("GET", place));
        self.router = mem::take(&mut self.router).route(path, route);
        let path = path.replace("{*", "{");
        let names = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let parameters = names.map(|name| {
            let schema = match name {
                "index" => json!({ "type": "integer", "minimum": 0, "maximum": 9999 }),
                _ => json!({ "type": "string", "minLength": 1 }),
            };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        });
        let operation = json!({
            "tags": [self.tag],
            "summary": summary,
            "parameters": parameters.collect::<Vec<_>>(),
            "responses": { "default": { "$ref": "#/components/responses/Error" } },
        });
        let place = &mut self.paths[&path][method.to_lowercase()];
        *place = operation;
        ApiOperation {
            place,
            schemas: &mut self.schemas,
        }
    }

    /// The routes and the document.
    pub fn finish(mut self) -> (Router<ServerContext>, Value) {
        let error = self.schemas.subschema_for::<ErrorBody>().to_value();
        let error = json!({
            "description": "What is wrong, and what to do",
            "content": { JSON: { "schema": error } },
        });
        let schemas = self.schemas.take_definitions(true);
        let document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Safelight",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "Images and videos made on this computer.",
            },
            "paths": self.paths,
            "components": {
                "schemas": schemas,
                "responses": { "Error": error },
                "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            },
            "security": [{}, { "token": [] }],
        });
        (self.router, document)
    }
}

/// A new operation of the document; further calls add parameters, bodies and answers.
pub struct ApiOperation<'a> {
    place: &'a mut Value,
    schemas: &'a mut SchemaGenerator,
}

impl ApiOperation<'_> {
    fn schema<T: JsonSchema>(&mut self) -> Value {
        self.schemas.subschema_for::<T>().to_value()
    }

    /// Documents the fields of `T` as query parameters.
    pub fn query<T: JsonSchema>(self) -> Self {
        let mut schema = T::json_schema(self.schemas).to_value();
        let fields = schema["properties"].as_object_mut().map(mem::take);
        let parameters = fields.into_iter().flatten().map(|(name, mut schema)| {
            let about = schema.get("description").cloned();
            if let Some(schema) = schema.as_object_mut() {
                schema.remove("default");
            }
            json!({ "name": name, "in": "query", "description": about, "schema": schema })
        });
        let parameters: Vec<Value> = parameters.collect();
        if let Some(all) = self.place["parameters"].as_array_mut() {
            all.extend(parameters);
        }
        self
    }

    /// Documents a JSON request.
    pub fn body<T: JsonSchema>(mut self) -> Self {
        let schema = self.schema::<T>();
        self.takes(JSON, &schema)
    }

    /// Documents a multipart form with the fields of `T` and `files`.
    pub fn form<T: JsonSchema>(self, files: &[&str]) -> Self {
        let mut schema = T::json_schema(self.schemas).to_value();
        for name in files {
            schema["properties"][name] = json!({ "type": "string", "format": "binary" });
        }
        self.takes("multipart/form-data", &schema)
    }

    /// Documents a request that is the bytes of a file.
    pub fn upload(self) -> Self {
        let bytes = json!({ "type": "string", "format": "binary" });
        self.takes("application/octet-stream", &bytes)
    }

    /// Adds a request body of this content type.
    fn takes(self, kind: &str, schema: &Value) -> Self {
        let body = &mut self.place["requestBody"];
        body["required"] = true.into();
        body["content"][kind] = json!({ "schema": schema });
        self
    }

    /// Documents a JSON answer with this status.
    pub fn answers<T: JsonSchema>(mut self, status: u16) -> Self {
        let schema = self.schema::<T>();
        self.gives(&status.to_string(), JSON, json!({ "schema": schema }))
    }

    /// Documents an answer of bytes or events.
    pub fn sends(mut self, kinds: &[&str]) -> Self {
        for kind in kinds {
            self = self.gives("200", kind, json!({}));
            if *kind != EVENTS {
                self = self.gives("206", kind, json!({}));
            }
        }
        self
    }

    fn gives(self, status: &str, kind: &str, content: Value) -> Self {
        let answer = &mut self.place["responses"][status];
        answer["description"] = "".into();
        answer["content"][kind] = content;
        self
    }
}
