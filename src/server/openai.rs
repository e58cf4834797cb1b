//! OpenAI's endpoints for models and images: `/v1/models`, `/v1/images/generations` and `/v1/images/edits`.
//!
//! A request waits for its jobs; they are cancelled when the client hangs up. Fields beyond OpenAI's: `negative_prompt`,
//! `seed`, `steps`, `cfg_scale`, `strength`.

use std::path::PathBuf;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};

use safelight_core::job::{GenerateForm, random_seed};
use safelight_core::media::{self, AlphaChannel, RgbPixels};
use safelight_core::model::{GuidanceMode, ImageRole, InputUse, ModelSpec};
use safelight_core::naming::now_secs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::{ApiRoutes, EVENTS};
use super::context::ServerContext;
use super::error::{ApiError, ApiJson};
use super::form::ApiForm;
use super::image_stream::stream_images;
use super::link::ServerModels;
use super::uploads::{blocking, open_image};

/// OpenAI's limits.
const MAX_COUNT: u32 = 10;
const MAX_PARTIAL: u32 = 3;
/// Names of OpenAI's own models, for which clients are written: the model of Safelight's form takes their place.
const OWN_MODELS: [&str; 3] = ["gpt-image", "dall-e", "sora"];

pub fn routes(api: &mut ApiRoutes) {
    api.tag("OpenAI");
    api.add("GET /v1/models", "Models in OpenAI's form", get(models))
        .answers::<ModelPage>(200);
    api.add(
        "GET /v1/models/{*id}",
        "A model by its id or name",
        get(model),
    )
    .answers::<ModelEntry>(200);
    api.add(
        "POST /v1/images/generations",
        "Make images and wait for them; with `stream`, events with partial images",
        post(generate),
    )
    .body::<ImageOrder>()
    .sends(&[EVENTS])
    .answers::<ImagesAnswer>(200);
    api.add(
        "POST /v1/images/edits",
        "Edit an image, where a mask is transparent",
        post(edit),
    )
    .form::<ImageOrder>(&["image", "mask"])
    .sends(&[EVENTS])
    .answers::<ImagesAnswer>(200);
}

#[derive(Serialize, JsonSchema)]
pub struct ModelEntry {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

impl From<&ModelSpec> for ModelEntry {
    fn from(spec: &ModelSpec) -> Self {
        Self {
            id: spec.id.clone(),
            object: "model",
            created: 0,
            owned_by: "safelight",
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct ModelPage {
    object: &'static str,
    data: Vec<ModelEntry>,
}

async fn models(State(context): State<ServerContext>) -> Result<Json<ModelPage>, ApiError> {
    let models = context.models().await?;
    let data = models.specs.iter().map(ModelEntry::from).collect();
    let object = "list";
    Ok(Json(ModelPage { object, data }))
}

async fn model(
    State(context): State<ServerContext>,
    Path(id): Path<String>,
) -> Result<Json<ModelEntry>, ApiError> {
    let models = context.models().await?;
    Ok(Json(models.find(Some(&id), |_| true)?.into()))
}

/// Input files of an image.
#[derive(Clone, Copy)]
pub enum ImageInputs {
    None,
    Image,
    ImageAndMask,
}

impl ServerModels {
    /// As [`Self::find`], the model for an image. Models of videos make one, too, where no other fits.
    pub fn find_for_image(
        &self,
        wanted: Option<&str>,
        inputs: ImageInputs,
    ) -> Result<&ModelSpec, ApiError> {
        let fits = |spec: &ModelSpec| {
            let takes_image = spec.start_image.is_possible() || spec.limits.max_references > 0;
            let takes_inputs = match inputs {
                ImageInputs::None => spec.start_image != InputUse::Required,
                ImageInputs::Image => takes_image,
                ImageInputs::ImageAndMask => takes_image && spec.mask.is_possible(),
            };
            takes_inputs && spec.section_order.is_none()
        };
        let found = self.find(wanted, |spec| spec.family.makes_images && fits(spec));
        found.or_else(|_none| self.find(wanted, fits))
    }

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
#[derive(Deserialize, JsonSchema)]
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

#[derive(Serialize, JsonSchema)]
struct ImagesAnswer {
    created: u64,
    data: Vec<ImageData>,
    /// Sentences on values that were changed or are not used.
    warnings: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ImageData {
    Url(String),
    B64Json(String),
}

async fn generate(
    State(context): State<ServerContext>,
    headers: HeaderMap,
    ApiJson(order): ApiJson<ImageOrder>,
) -> Result<Response, ApiError> {
    let models = context.models().await?;
    let spec = models.find_for_image(order.model.as_deref(), ImageInputs::None)?;
    let form = order.form(spec)?;
    context
        .answer(order, form, "image_generation", &headers)
        .await
}

async fn edit(
    State(context): State<ServerContext>,
    headers: HeaderMap,
    ApiForm { order, files }: ApiForm<ImageOrder>,
) -> Result<Response, ApiError> {
    let (mut images, mut mask) = (Vec::new(), None);
    for (name, path) in files {
        match name.as_str() {
            "image" | "image[]" => images.push(path),
            "mask" => mask = Some(path),
            _ => {}
        }
    }
    if images.is_empty() {
        return Err(ApiError::invalid("image", "an edit needs an image"));
    }
    let models = context.models().await?;
    let inputs = match mask {
        Some(_) => ImageInputs::ImageAndMask,
        None => ImageInputs::Image,
    };
    let spec = models.find_for_image(order.model.as_deref(), inputs)?;
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
            let wrong = |err| ApiError::unreadable("mask", &err);
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
                    ImageData::Url(format!("http://{host}/api/jobs/{}/files/{index}", job.id))
                } else {
                    ImageData::B64Json(self.encoded(path.clone()).await?)
                });
            }
        }
        warnings.extend(jobs.iter().flat_map(|job| job.warnings.clone()));
        let answer = ImagesAnswer {
            created: now_secs(),
            data,
            warnings,
        };
        Ok(Json(answer).into_response())
    }
}

fn mask_pixels(alpha: &AlphaChannel) -> Result<RgbPixels, media::MediaError> {
    let values = alpha.values.iter();
    let grey = values.flat_map(|value| [u8::MAX - value; 3]).collect();
    RgbPixels::new(alpha.width, alpha.height, grey)
}
