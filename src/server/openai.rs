//! OpenAI's endpoints for models and images: `/v1/models`, `/v1/images/generations` and `/v1/images/edits`.
//!
//! A request waits for its jobs; they are cancelled when the client hangs up. Fields beyond OpenAI's: `negative_prompt`,
//! `seed`, `steps`, `cfg_scale`, `strength`.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{DefaultBodyLimit, Multipart, Path, State};
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use safelight_core::job::{GenerateForm, random_seed};
use safelight_core::media::{self, AlphaChannel, RgbPixels};
use safelight_core::model::{GuidanceMode, ImageRole, InputUse, ModelSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use super::context::ServerContext;
use super::error::{ApiError, ApiJson};
use super::image_stream::stream_images;
use super::link::ServerModels;
use super::uploads::{blocking, open_image};

/// Bytes of a form with images.
const MAX_FORM_BYTES: usize = 256 << 20;
/// OpenAI's limits.
const MAX_COUNT: u32 = 10;
const MAX_PARTIAL: u32 = 3;
/// Names of OpenAI's own models, for which clients are written: the model of Safelight's form takes their place.
const OWN_MODELS: [&str; 3] = ["gpt-image", "dall-e", "sora"];

pub fn routes() -> Router<ServerContext> {
    let edits = post(edit).layer(DefaultBodyLimit::max(MAX_FORM_BYTES));
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/models/{*id}", get(model))
        .route("/v1/images/generations", post(generate))
        .route("/v1/images/edits", edits)
}

pub fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

pub fn model_json(spec: &ModelSpec) -> Value {
    json!({ "id": spec.id, "object": "model", "created": 0, "owned_by": "safelight" })
}

async fn models(State(context): State<ServerContext>) -> Result<Json<Value>, ApiError> {
    let models = context.models().await?;
    let data: Vec<Value> = models.specs.iter().map(model_json).collect();
    Ok(Json(json!({ "object": "list", "data": data })))
}

async fn model(
    State(context): State<ServerContext>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let models = context.models().await?;
    Ok(Json(model_json(models.find(Some(&id), |_| true)?)))
}

impl ServerModels {
    /// The model with this id or name; without one, and for a name of OpenAI's, the form's where it fits, else the first
    /// that does.
    pub fn find(
        &self,
        wanted: Option<&str>,
        fits: impl Fn(&ModelSpec) -> bool,
    ) -> Result<&ModelSpec, ApiError> {
        let is_own = |name: &&str| !OWN_MODELS.iter().any(|own| name.starts_with(own));
        let wanted = wanted.filter(|name| !name.is_empty()).filter(is_own);
        let Some(wanted) = wanted else {
            let is_chosen = |spec: &&&ModelSpec| Some(&spec.id) == self.chosen.as_ref();
            let fitting = || self.specs.iter().filter(|spec| fits(spec));
            let found = fitting().collect::<Vec<_>>();
            let chosen = found.iter().find(is_chosen).or_else(|| found.first());
            return chosen.copied().ok_or_else(|| {
                let message = "there is no model on this computer for that: get one in \
                               Safelight's window, or with `safelight download`";
                ApiError::new(StatusCode::NOT_FOUND, "model_not_found", message)
            });
        };
        let is_it = |spec: &&ModelSpec| {
            spec.id.eq_ignore_ascii_case(wanted) || spec.name.eq_ignore_ascii_case(wanted)
        };
        self.specs.iter().find(is_it).ok_or_else(|| {
            let known: Vec<&str> = self.specs.iter().map(|spec| spec.id.as_str()).collect();
            let message = format!(
                "there is no model {wanted:?} on this computer; it has: {}",
                known.join(", ")
            );
            let mut err = ApiError::new(StatusCode::NOT_FOUND, "model_not_found", message);
            err.param = Some("model".to_owned());
            err
        })
    }
}

/// `1024x768`; `None` for `auto`.
pub fn size_of(text: &str) -> Result<Option<(u32, u32)>, ApiError> {
    if text == "auto" || text.is_empty() {
        return Ok(None);
    }
    let size = text.split_once('x');
    let size = size.and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    size.map(Some).ok_or_else(|| {
        ApiError::invalid(
            "size",
            format!("{text:?} is no size: expected WIDTHxHEIGHT or auto"),
        )
    })
}

/// Request for images.
#[derive(Default, Deserialize)]
struct ImageOrder {
    model: Option<String>,
    prompt: String,
    n: Option<u32>,
    size: Option<String>,
    response_format: Option<String>,
    output_format: Option<String>,
    background: Option<String>,
    quality: Option<String>,
    style: Option<String>,
    output_compression: Option<u32>,
    #[serde(default)]
    stream: bool,
    partial_images: Option<u32>,
    negative_prompt: Option<String>,
    seed: Option<u64>,
    steps: Option<u32>,
    cfg_scale: Option<f64>,
    strength: Option<f64>,
}

impl ImageOrder {
    /// One field of a form.
    fn set(&mut self, name: &str, text: String) -> Result<(), ApiError> {
        fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<Option<T>, ApiError> {
            let number = text.trim().parse().ok();
            let wrong = || ApiError::invalid(name, format!("{text:?} is no number"));
            number.map(Some).ok_or_else(wrong)
        }
        match name {
            "model" => self.model = Some(text),
            "prompt" => self.prompt = text,
            "n" => self.n = number(name, &text)?,
            "size" => self.size = Some(text),
            "response_format" => self.response_format = Some(text),
            "output_format" => self.output_format = Some(text),
            "background" => self.background = Some(text),
            "quality" => self.quality = Some(text),
            "style" => self.style = Some(text),
            "output_compression" => self.output_compression = number(name, &text)?,
            "stream" => self.stream = text == "true",
            "partial_images" => self.partial_images = number(name, &text)?,
            "negative_prompt" => self.negative_prompt = Some(text),
            "seed" => self.seed = number(name, &text)?,
            "steps" => self.steps = number(name, &text)?,
            "cfg_scale" => self.cfg_scale = number(name, &text)?,
            "strength" => self.strength = number(name, &text)?,
            _ => {}
        }
        Ok(())
    }

    fn form(&self, spec: &ModelSpec) -> Result<GenerateForm, ApiError> {
        let count = self.n.unwrap_or(1);
        if !(1..=MAX_COUNT).contains(&count) {
            let message = format!("{count} images are asked for; n can be 1 to {MAX_COUNT}");
            return Err(ApiError::invalid("n", message));
        }
        if self.background.as_deref() == Some("transparent") {
            let message = "no model here makes transparent backgrounds: leave background out";
            return Err(ApiError::invalid("background", message));
        }
        let format = match self.output_format.as_deref() {
            None | Some("png") => "png",
            Some("jpeg" | "jpg") => "jpg",
            Some("webp") => "webp",
            Some(other) => {
                let message = format!("{other:?} is no format: expected png, jpeg or webp");
                return Err(ApiError::invalid("output_format", message));
            }
        };
        if let Some(other) = self.response_format.as_deref()
            && !["b64_json", "url"].contains(&other)
        {
            let message = format!("{other:?} is no response format: expected b64_json or url");
            return Err(ApiError::invalid("response_format", message));
        }
        let mut form = GenerateForm {
            model: Some(spec.id.clone()),
            negative_prompt: self.negative_prompt.clone(),
            batch_size: Some(count),
            out: PathBuf::from("result").with_extension(format),
            ..GenerateForm::default()
        };
        make_one_frame(&mut form, spec)?;
        form.set_literal_prompt(self.prompt.clone());
        form.set_seed(self.seed.unwrap_or_else(random_seed));
        if let Some(size) = size_of(self.size.as_deref().unwrap_or_default())? {
            form.set_size(size);
        }
        form.sampling.num_steps = self.steps;
        form.sampling.strength = self.strength;
        match spec.guidance {
            GuidanceMode::Cfg => form.sampling.guidance_scale = self.cfg_scale,
            _ => form.sampling.true_cfg_scale = self.cfg_scale,
        }
        Ok(form)
    }

    /// A sentence for each field that changes nothing.
    fn warnings(&self) -> Vec<String> {
        let is_set = |text: &Option<String>| text.as_deref().is_some_and(|text| text != "auto");
        let fields = [
            ("quality", is_set(&self.quality)),
            ("style", is_set(&self.style)),
            ("output_compression", self.output_compression.is_some()),
        ];
        let unused = fields.iter().filter(|(_, is_set)| *is_set);
        unused
            .map(|(name, _)| format!("{name} is not used."))
            .collect()
    }
}

/// Sets one frame for a model of videos; fails for one that makes them in sections.
pub fn make_one_frame(form: &mut GenerateForm, spec: &ModelSpec) -> Result<(), ApiError> {
    if spec.section_order.is_some() {
        let message = format!(
            "{} makes videos in sections: choose another model",
            spec.name
        );
        return Err(ApiError::invalid("model", message));
    }
    form.num_frames = (!spec.family.makes_images).then_some(1);
    Ok(())
}

/// Places images where a model takes them: references, or the start image. `strength` is the form's.
pub async fn place_images(
    form: &mut GenerateForm,
    paths: Vec<PathBuf>,
    spec: &ModelSpec,
) -> Result<(), ApiError> {
    let mut images = Vec::new();
    for path in paths {
        images.push(open_image(path, "image").await?);
    }
    if spec.limits.max_references > 0 && form.inputs.mask.is_none() {
        form.inputs.references = images;
    } else {
        if images.len() > 1 {
            let message = format!(
                "{} takes one image, and {} were sent",
                spec.name,
                images.len()
            );
            return Err(ApiError::invalid("image", message));
        }
        form.inputs.image = images.pop();
        if spec.image_role != ImageRole::Base {
            form.sampling.strength = None;
        }
    }
    Ok(())
}

async fn generate(
    State(context): State<ServerContext>,
    headers: HeaderMap,
    ApiJson(order): ApiJson<ImageOrder>,
) -> Result<Response, ApiError> {
    let models = context.models().await?;
    let fits =
        |spec: &ModelSpec| spec.family.makes_images && spec.start_image != InputUse::Required;
    let spec = models.find(order.model.as_deref(), fits)?;
    let form = order.form(spec)?;
    context
        .answer(order, form, "image_generation", &headers)
        .await
}

async fn edit(
    State(context): State<ServerContext>,
    headers: HeaderMap,
    mut fields: Multipart,
) -> Result<Response, ApiError> {
    let (mut order, mut images, mut mask) = (ImageOrder::default(), Vec::new(), None);
    while let Some(field) = fields.next_field().await? {
        let name = field.name().unwrap_or_default().to_owned();
        let file = field.file_name().unwrap_or_default().to_owned();
        match name.as_str() {
            "image" | "image[]" | "mask" => {
                let bytes = field.bytes().await?.to_vec();
                let path = context.store(bytes, &file).await?;
                if name == "mask" {
                    mask = Some(path);
                } else {
                    images.push(path);
                }
            }
            _ => order.set(&name, field.text().await?)?,
        }
    }
    if images.is_empty() {
        return Err(ApiError::invalid("image", "an edit needs an image"));
    }
    let models = context.models().await?;
    let has_mask = mask.is_some();
    let fits = |spec: &ModelSpec| {
        let takes_mask = spec.mask.is_possible();
        let takes_image = spec.start_image.is_possible() || spec.limits.max_references > 0;
        spec.family.makes_images && takes_image && (takes_mask || !has_mask)
    };
    let spec = models.find(order.model.as_deref(), fits)?;
    let mut form = order.form(spec)?;
    if let Some(mask) = mask {
        let mask = context.mask_of_alpha(mask).await?;
        form.inputs.mask = Some(open_image(mask, "mask").await?);
    }
    place_images(&mut form, images, spec).await?;
    context.answer(order, form, "image_edit", &headers).await
}

impl ServerContext {
    /// OpenAI's mask, which is transparent where the image is edited, as one of ours, which is white there. One without
    /// transparency is taken as it is.
    async fn mask_of_alpha(&self, path: PathBuf) -> Result<PathBuf, ApiError> {
        let folder = self.0.options.uploads.clone();
        blocking(move || {
            let wrong = |err: media::MediaError| ApiError::invalid("mask", err.to_string());
            let opened = media::open_image(&path).map_err(wrong)?;
            let Some(alpha) = opened.alpha else {
                return Ok(path);
            };
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let mask = folder.join(format!("{name}m.png"));
            let pixels = mask_pixels(&alpha).map_err(wrong)?;
            media::write_png(&mask, &pixels).map_err(wrong)?;
            Ok(mask)
        })
        .await
    }

    /// Waits for the images, or streams them.
    async fn answer(
        self,
        order: ImageOrder,
        form: GenerateForm,
        event: &'static str,
        headers: &HeaderMap,
    ) -> Result<Response, ApiError> {
        let pending = self.begin(form).await?;
        if order.stream {
            let left = order.partial_images.unwrap_or(0).min(MAX_PARTIAL);
            return Ok(stream_images(self, pending, event, left).into_response());
        }
        let mut warnings = order.warnings();
        warnings.extend(pending.notices.clone());
        let jobs = pending.finish().await?;
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let by_url = order.response_format.as_deref() == Some("url");
        let mut data = Vec::new();
        for job in &jobs {
            for (index, path) in job.paths.iter().enumerate() {
                data.push(if by_url {
                    let host = host.unwrap_or_default();
                    json!({ "url": format!("http://{host}/api/jobs/{}/files/{index}", job.id) })
                } else {
                    json!({ "b64_json": self.encoded(path.clone()).await? })
                });
            }
        }
        warnings.extend(jobs.iter().flat_map(|job| job.warnings.clone()));
        let answer = json!({ "created": now(), "data": data, "warnings": warnings });
        Ok(Json(answer).into_response())
    }
}

fn mask_pixels(alpha: &AlphaChannel) -> Result<RgbPixels, media::MediaError> {
    let values = alpha.values.iter();
    let grey = values.flat_map(|value| [u8::MAX - value; 3]).collect();
    RgbPixels::new(alpha.width, alpha.height, grey)
}
