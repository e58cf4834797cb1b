//! Tools for language models by the Model Context Protocol: at `/mcp`, and over standard input and output.
//!
//! An image is an answer; a video is a job, whose state the model asks for.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::header::HOST;
use axum::http::request::Parts;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolResult, ContentBlock, Implementation, JsonObject, ProgressNotificationParam, Resource,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler, ServiceExt as _, tool, tool_handler, tool_router};
use safelight_core::job::{GenerateForm, random_seed};
use safelight_core::model::{InputUse, ModelSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::context::ServerContext;
use super::error::ApiError;
use super::job_orders::QueuedJobs;
use super::jobs::{job_id, text_of_kind};
use super::link::{JobChange, JobStatus, JobView, NewJobs};
use super::openai::{ImageInputs, make_one_frame, place_images};
use super::pending::{JobNews, PendingJobs, check_all};
use super::postprocess::{InterpolateOrder, UpscaleOrder};
use super::uploads::open_image;
use super::videos::frames_of;

const INSTRUCTIONS: &str = "Makes images and videos on this computer's GPU. list_models says what is \
                            there. generate_image, edit_image and upscale answer with the image; \
                            videos are jobs: ask job_status until they are finished.";
/// Longest name or id of a file; longer texts are base64.
const MAX_NAME_CHARS: usize = 64;

static TOOLS: LazyLock<ToolRouter<ToolServer>> = LazyLock::new(|| {
    let mut router = ToolServer::tool_router();
    router.map.values_mut().for_each(|route| {
        use_single_types(Arc::make_mut(&mut route.attr.input_schema));
    });
    router
});

/// Gives each argument one type: an optional one is left out, not null, and some clients understand no list of types.
fn use_single_types(schema: &mut JsonObject) {
    let arguments = schema.get_mut("properties").and_then(Value::as_object_mut);
    for argument in arguments.into_iter().flat_map(|it| it.values_mut()) {
        let mut types = argument["type"].as_array().into_iter().flatten();
        if let Some(single) = types.find(|it| **it != "null").cloned() {
            argument["type"] = single;
        }
    }
}

pub fn service(context: ServerContext) -> Router<ServerContext> {
    // Names are checked for all addresses alike.
    let config = StreamableHttpServerConfig::default().disable_allowed_hosts();
    let service = StreamableHttpService::new(
        move || Ok(ToolServer(context.clone())),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    Router::new().nest_service("/mcp", service)
}

/// Serves one client at standard input and output until it is gone.
pub async fn serve_stdio(context: ServerContext) {
    match ToolServer(context).serve(rmcp::transport::stdio()).await {
        Ok(running) => drop(running.waiting().await),
        Err(err) => tracing::error!("the client of MCP was not understood: {err}"),
    }
}

#[derive(Clone)]
struct ToolServer(ServerContext);

#[derive(Deserialize, JsonSchema)]
struct ImageCall {
    /// Text of what the image shows
    prompt: String,
    /// Id of a model; without one the chosen or first that fits
    model: Option<String>,
    /// Text of what it should not show, for models with CFG
    negative_prompt: Option<String>,
    /// Pixels; without one the model's own
    width: Option<u32>,
    /// Pixels; without one the model's own
    height: Option<u32>,
    /// Seed: with it the image can be made again; random without one
    seed: Option<u64>,
    /// Denoising steps; without one the model's own
    steps: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
struct EditCall {
    #[serde(flatten)]
    image_call: ImageCall,
    /// Image to edit: the id of a job or a result, or the file's bytes as base64 or a data URL
    image: String,
    /// Denoising strength, 0 to 1, for models that start from the image
    strength: Option<f64>,
}

#[derive(Deserialize, JsonSchema)]
struct VideoCall {
    #[serde(flatten)]
    image_call: ImageCall,
    /// Duration; without one the model's own
    seconds: Option<f64>,
    /// First image of the video: the id of a job or a result, or the file's bytes as base64 or a data URL
    start_image: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct JobCall {
    /// Id of a job
    job: String,
}

impl ImageCall {
    fn form(&self, spec: &ModelSpec) -> GenerateForm {
        let mut form = GenerateForm {
            model: Some(spec.id.clone()),
            negative_prompt: self.negative_prompt.clone(),
            ..GenerateForm::default()
        };
        form.set_literal_prompt(self.prompt.clone());
        form.set_seed(self.seed.unwrap_or_else(random_seed));
        if self.width.is_some() || self.height.is_some() {
            form.size = safelight_core::job::SizeChoice::Custom;
            (form.width, form.height) = (self.width, self.height);
        }
        form.sampling.num_steps = self.steps;
        form
    }
}

/// Error that the model reads, and may do something about.
fn refused(err: &ApiError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(err.message.clone())])
}

fn answer(result: Result<CallToolResult, ApiError>) -> CallToolResult {
    result.unwrap_or_else(|err| refused(&err))
}

fn as_json(value: &impl Serialize) -> CallToolResult {
    let text = json!(value).to_string();
    CallToolResult::success(vec![ContentBlock::text(text)])
}

#[tool_router]
impl ToolServer {
    #[tool(
        description = "Models on this computer with what each makes and takes",
        annotations(read_only_hint = true)
    )]
    async fn list_models(&self) -> CallToolResult {
        answer(self.models().await)
    }

    #[tool(description = "Makes an image from a text")]
    async fn generate_image(
        &self,
        Parameters(call): Parameters<ImageCall>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        answer(self.image(call, &context).await)
    }

    #[tool(description = "Makes an image from another image and a text")]
    async fn edit_image(
        &self,
        Parameters(call): Parameters<EditCall>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        answer(self.edit(call, &context).await)
    }

    #[tool(
        description = "Begins a video from a text, and an image where one is given; answers with its job"
    )]
    async fn generate_video(&self, Parameters(call): Parameters<VideoCall>) -> CallToolResult {
        answer(self.video(call).await)
    }

    #[tool(
        description = "State of a job: progress, time left, and links to its files when it is finished",
        annotations(read_only_hint = true)
    )]
    async fn job_status(
        &self,
        Parameters(call): Parameters<JobCall>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        answer(self.status(&call.job, &context).await)
    }

    #[tool(description = "Enlarges an image, or begins that of a video and answers with its job")]
    async fn upscale(
        &self,
        Parameters(call): Parameters<UpscaleOrder>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        answer(self.upscaled(call, &context).await)
    }

    #[tool(description = "Begins a video with more frames a second; answers with its job")]
    async fn interpolate(&self, Parameters(call): Parameters<InterpolateOrder>) -> CallToolResult {
        answer(self.interpolated(call).await)
    }

    #[tool(description = "Cancels a job", annotations(destructive_hint = true))]
    async fn cancel(&self, Parameters(call): Parameters<JobCall>) -> CallToolResult {
        answer(self.cancel_job(&call.job).await)
    }
}

impl ToolServer {
    async fn models(&self) -> Result<CallToolResult, ApiError> {
        let models = self.0.models().await?;
        let specs = models.specs.iter().map(|spec| {
            json!({
                "id": spec.id,
                "name": spec.name,
                "makes": text_of_kind(spec),
                "start_image": spec.start_image,
                "references": spec.limits.max_references,
            })
        });
        Ok(as_json(&json!({ "models": specs.collect::<Vec<_>>() })))
    }

    async fn image(
        &self,
        call: ImageCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ApiError> {
        let models = self.0.models().await?;
        let spec = models.find_for_image(call.model.as_deref(), ImageInputs::None)?;
        let mut form = call.form(spec);
        make_one_frame(&mut form, spec)?;
        self.wait_for(form, context).await
    }

    async fn edit(
        &self,
        call: EditCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ApiError> {
        let models = self.0.models().await?;
        let spec = models.find_for_image(call.image_call.model.as_deref(), ImageInputs::Image)?;
        let mut form = call.image_call.form(spec);
        make_one_frame(&mut form, spec)?;
        form.sampling.strength = call.strength;
        let path = self.given_image(&call.image).await?;
        place_images(&mut form, vec![path], spec).await?;
        self.wait_for(form, context).await
    }

    async fn video(&self, call: VideoCall) -> Result<CallToolResult, ApiError> {
        let models = self.0.models().await?;
        let has_image = call.start_image.is_some();
        let fits = |spec: &ModelSpec| {
            let takes_image = spec.start_image.is_possible();
            let needs_image = spec.start_image == InputUse::Required;
            !spec.family.makes_images && (takes_image || !has_image) && (has_image || !needs_image)
        };
        let spec = models.find(call.image_call.model.as_deref(), fits)?;
        let mut form = call.image_call.form(spec);
        if let Some(secs) = call.seconds {
            if !secs.is_finite() || secs <= 0.0 {
                let message = format!("{secs} is no number of seconds");
                return Err(ApiError::invalid("seconds", message));
            }
            if spec.section_order.is_some() {
                form.secs = Some(secs);
            } else {
                form.num_frames = Some(frames_of(secs, spec));
            }
        }
        if let Some(image) = &call.start_image {
            let path = self.given_image(image).await?;
            form.inputs.image = Some(open_image(path, "start_image").await?);
        }
        self.queued(form).await
    }

    async fn upscaled(
        &self,
        call: UpscaleOrder,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ApiError> {
        let source = self.given_image(&call.source).await?;
        let request = self.0.upscale_request(&call, source).await?;
        if request.is_image {
            self.wait_for(request, context).await
        } else {
            self.queued(request).await
        }
    }

    async fn interpolated(&self, call: InterpolateOrder) -> Result<CallToolResult, ApiError> {
        let source = self.0.given_file(&call.source).await?;
        let request = self.0.interpolate_request(&call, source).await?;
        self.queued(request).await
    }

    /// Queues jobs and answers with their ids.
    async fn queued(&self, jobs: impl Into<NewJobs>) -> Result<CallToolResult, ApiError> {
        let submitted = self.0.submit(jobs).await?;
        Ok(as_json(&QueuedJobs::from(submitted)))
    }

    /// File of an earlier job or result, or the image in the call.
    async fn given_image(&self, image: &str) -> Result<PathBuf, ApiError> {
        if image.len() <= MAX_NAME_CHARS && !image.starts_with("data:") {
            let file = self.0.given_file(image).await;
            if file.is_ok() || image.parse::<u64>().is_ok() {
                return file;
            }
        }
        self.0.store_base64(image, "image").await
    }

    async fn wait_for(
        &self,
        jobs: impl Into<NewJobs>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ApiError> {
        let mut pending = self.0.begin(jobs).await?;
        let jobs = tokio::select! {
            jobs = ended(&mut pending, context) => jobs?,
            () = context.ct.cancelled() => return Err(ApiError::cancelled()),
        };
        check_all(&jobs)?;
        let mut content = Vec::new();
        for job in &jobs {
            for (index, path) in job.paths.iter().enumerate() {
                let data = self.0.encoded(path.clone()).await?;
                content.push(ContentBlock::image(data, mime_of(path)));
                content.push(file_link(job, index, context));
            }
            let warnings = [pending.notices.as_slice(), &job.warnings].concat();
            let facts =
                json!({ "job": job.id.to_string(), "seed": job.seed, "warnings": warnings });
            content.push(ContentBlock::text(facts.to_string()));
        }
        Ok(CallToolResult::success(content))
    }

    async fn status(
        &self,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ApiError> {
        let job = self.0.job(job_id(id)?).await?;
        let mut result = as_json(&job);
        if job.status == JobStatus::Finished {
            let links = (0..job.paths.len()).map(|index| file_link(&job, index, context));
            result.content.extend(links);
        }
        Ok(result)
    }

    async fn cancel_job(&self, id: &str) -> Result<CallToolResult, ApiError> {
        let job = self.0.change(job_id(id)?, JobChange::Cancel).await?;
        Ok(as_json(&json!({ "cancelled": job.id.to_string() })))
    }
}

/// Link to a result: under the name by which the client reaches the server, or for one on this computer the file.
fn file_link(job: &JobView, index: usize, context: &RequestContext<RoleServer>) -> ContentBlock {
    let path = &job.paths[index];
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let http = context.extensions.get::<Parts>();
    let uri = match http.map(|http| http.headers.get(HOST)) {
        Some(host) => {
            let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
            format!("http://{host}/api/jobs/{}/files/{index}", job.id)
        }
        None => format!("file://{}", path.display()),
    };
    ContentBlock::resource_link(Resource::new(uri, name))
}

/// Kind of an image file.
fn mime_of(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("webp") => "image/webp",
        _ => "image/png",
    }
}

/// Waits for jobs, and tells the client of their progress if it wants to know.
async fn ended(
    pending: &mut PendingJobs,
    context: &RequestContext<RoleServer>,
) -> Result<Vec<Arc<JobView>>, ApiError> {
    let token = context.meta.get_progress_token();
    let mut before = -1.0;
    loop {
        match pending.next().await? {
            JobNews::Ended(jobs) => return Ok(jobs),
            JobNews::Progress(job) => {
                let progress = f64::from(job.progress);
                // It only ever grows.
                if let Some(token) = token.clone().filter(|_| progress > before) {
                    before = progress;
                    let mut news = ProgressNotificationParam::new(token, progress).with_total(1.0);
                    if let Some(activity) = &job.activity {
                        news = news.with_message(activity.clone());
                    }
                    context.peer.notify_progress(news).await.ok();
                }
            }
            JobNews::Preview(_) => {}
        }
    }
}

#[tool_handler(router = TOOLS)]
impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("safelight", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }
}
