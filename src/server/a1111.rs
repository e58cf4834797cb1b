//! A1111's endpoints, as far as SillyTavern, Open WebUI and Krita's plugin call them.
//!
//! Settings are read like those of A1111's files, so its samplers and prompt weights mean the same.

use std::sync::PoisonError;

use axum::Json;
use axum::extract::State;
use axum::routing::{get, post};
use safelight_core::job::prompt::{PromptWeights, check_length};
use safelight_core::job::{GenerateForm, SamplerKind, SigmaSchedule, random_seed};
use safelight_core::model::ModelSpec;
use safelight_core::restore::ForeignSettings;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::ApiRoutes;
use super::context::ServerContext;
use super::error::{ApiError, ApiJson};
use super::link::{JobChange, JobStatus, JobView};
use super::openai::{ImageInputs, make_one_frame, place_images};
use super::uploads::open_image;

/// Most images of one request.
const MAX_COUNT: u32 = 100;

pub fn routes(api: &mut ApiRoutes) {
    api.tag("A1111");
    for path in ["txt2img", "img2img"] {
        let summary = "Make images and wait for them; those in `init_images` decide";
        api.add(&format!("POST /sdapi/v1/{path}"), summary, post(generate))
            .body::<ImagesOrder>()
            .answers::<Value>(200);
    }
    api.add(
        "GET /sdapi/v1/progress",
        "Progress of the running job",
        get(progress),
    )
    .answers::<Value>(200);
    api.add(
        "POST /sdapi/v1/interrupt",
        "Cancel the running job",
        post(interrupt),
    )
    .answers::<Value>(200);
    api.add("GET /sdapi/v1/options", "The model in use", get(options))
        .answers::<Value>(200);
    api.add(
        "POST /sdapi/v1/options",
        "Choose the model",
        post(set_options),
    )
    .body::<SettingOverrides>()
    .answers::<Value>(200);
    api.add(
        "GET /sdapi/v1/sd-models",
        "Models, those of images first",
        get(models),
    )
    .answers::<Vec<Value>>(200);
    api.add("GET /sdapi/v1/samplers", "Samplers", get(samplers))
        .answers::<Vec<Value>>(200);
    api.add("GET /sdapi/v1/schedulers", "Schedules", get(schedulers))
        .answers::<Vec<Value>>(200);
    for path in [
        "upscalers",
        "latent-upscale-modes",
        "sd-vae",
        "sd-modules",
        "loras",
    ] {
        api.add(
            &format!("GET /sdapi/v1/{path}"),
            "An empty list",
            get(nothing),
        )
        .answers::<Vec<Value>>(200);
    }
}

/// A list that is empty here.
async fn nothing() -> Json<Value> {
    Json(json!([]))
}

#[derive(Deserialize, JsonSchema)]
struct SettingOverrides {
    sd_model_checkpoint: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct ImagesOrder {
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    negative_prompt: String,
    steps: Option<u32>,
    width: Option<u32>,
    height: Option<u32>,
    cfg_scale: Option<f64>,
    distilled_cfg_scale: Option<f64>,
    sampler_name: Option<String>,
    sampler_index: Option<String>,
    scheduler: Option<String>,
    seed: Option<i64>,
    batch_size: Option<u32>,
    n_iter: Option<u32>,
    denoising_strength: Option<f64>,
    #[serde(default)]
    init_images: Vec<String>,
    mask: Option<String>,
    /// 1 where the mask says what is kept.
    #[serde(default)]
    inpainting_mask_invert: u32,
    #[serde(default)]
    enable_hr: bool,
    override_settings: Option<SettingOverrides>,
}

impl ImagesOrder {
    /// The form, and a sentence for each setting that is not used.
    fn form(&self, spec: &ModelSpec) -> Result<(GenerateForm, Vec<String>), ApiError> {
        let mut settings = ForeignSettings {
            tool: "A1111".to_owned(),
            prompt: Some(self.prompt.clone()),
            negative_prompt: Some(self.negative_prompt.clone()),
            prompt_weights: PromptWeights::A1111,
            seed: self.seed.and_then(|seed| seed.try_into().ok()),
            num_steps: self.steps,
            cfg_scale: self.cfg_scale,
            distilled_guidance: self.distilled_cfg_scale,
            width: self.width,
            height: self.height,
            strength: self
                .denoising_strength
                .filter(|_| !self.init_images.is_empty()),
            ..ForeignSettings::default()
        };
        let sampler = self.sampler_name.as_ref().or(self.sampler_index.as_ref());
        if let Some(sampler) = sampler {
            settings.take_sampler(sampler);
        }
        let is_own = |name: &&String| !name.eq_ignore_ascii_case("automatic");
        if let Some(scheduler) = self.scheduler.as_ref().filter(is_own) {
            settings.take_schedule(scheduler);
        }
        let (mut form, mut notes) = settings.form_for(spec);
        if self.enable_hr {
            notes.push("The hires fix is not used.".to_owned());
        }
        let count = self.batch_size.unwrap_or(1).max(1);
        let count = count.saturating_mul(self.n_iter.unwrap_or(1).max(1));
        if count > MAX_COUNT {
            let message = format!("{count} images are too many: at most {MAX_COUNT} at once");
            return Err(ApiError::invalid("batch_size", message));
        }
        make_one_frame(&mut form, spec)?;
        form.batch_size = Some(count);
        form.model = Some(spec.id.clone());
        if settings.seed.is_none() {
            form.set_seed(random_seed());
        }
        Ok((form, notes))
    }
}

/// `txt2img` and `img2img`: the images decide.
async fn generate(
    State(context): State<ServerContext>,
    ApiJson(mut order): ApiJson<ImagesOrder>,
) -> Result<Json<Value>, ApiError> {
    check_length(&order.prompt)?;
    let models = context.models().await?;
    let inputs = match (order.init_images.is_empty(), &order.mask) {
        (true, _) => ImageInputs::None,
        (false, None) => ImageInputs::Image,
        (false, Some(_)) => ImageInputs::ImageAndMask,
    };
    let own = order.override_settings.as_ref();
    let own = own.and_then(|own| own.sd_model_checkpoint.clone());
    let wanted = own.or_else(|| context.checkpoint());
    let spec = models.find_for_image(wanted.as_deref(), inputs)?;
    let (mut form, mut notes) = order.form(spec)?;
    // Images are large: they are stored and freed before the job is awaited.
    if let Some(mask) = order.mask.take() {
        if order.inpainting_mask_invert == 1 {
            let message = "inpainting_mask_invert is not supported: invert the mask";
            return Err(ApiError::invalid("inpainting_mask_invert", message));
        }
        let path = context.store_base64(&mask, "mask").await?;
        form.inputs.mask = Some(open_image(path, "mask").await?);
    }
    let mut paths = Vec::new();
    for image in std::mem::take(&mut order.init_images) {
        paths.push(context.store_base64(&image, "init_images").await?);
    }
    place_images(&mut form, paths, spec).await?;
    let pending = context.begin(form).await?;
    notes.extend(pending.notices.clone());
    let jobs = pending.finish().await?;
    notes.extend(jobs.iter().flat_map(|job| job.warnings.clone()));
    let mut images = Vec::new();
    for path in jobs.iter().flat_map(|job| &job.paths) {
        images.push(context.encoded(path.clone()).await?);
    }
    let seeds: Vec<Option<u64>> = jobs.iter().map(|job| job.seed).collect();
    let info = json!({ "seed": seeds.first(), "all_seeds": seeds, "warnings": notes });
    Ok(Json(json!({
        "images": images,
        "parameters": {},
        "info": info.to_string(),
    })))
}

async fn running(context: &ServerContext) -> Result<Option<JobView>, ApiError> {
    let mut jobs = context.jobs().await?.into_iter();
    Ok(jobs.find(|job| job.status == JobStatus::Running))
}

async fn progress(State(context): State<ServerContext>) -> Result<Json<Value>, ApiError> {
    let job = running(&context).await?;
    let job = job.as_ref();
    let shown = context.last_preview();
    let shown = shown.filter(|(id, _)| job.is_some_and(|job| job.id == *id));
    let image = match shown {
        Some((_, image)) => Some(image.base64().await),
        None => None,
    };
    Ok(Json(json!({
        "progress": job.map_or(0.0, |job| job.progress),
        "eta_relative": job.and_then(|job| job.seconds_left).unwrap_or(0.0),
        "state": {
            "skipped": false,
            "interrupted": false,
            "job": job.map_or_else(String::new, |job| job.id.to_string()),
            "job_count": u32::from(job.is_some()),
            "job_no": 0,
            "sampling_step": job.and_then(|job| job.step).unwrap_or(0),
            "sampling_steps": job.and_then(|job| job.num_steps).unwrap_or(0),
        },
        "current_image": image,
        "textinfo": job.and_then(|job| job.activity.as_deref()),
    })))
}

async fn interrupt(State(context): State<ServerContext>) -> Result<Json<Value>, ApiError> {
    if let Some(job) = running(&context).await? {
        context.change(job.id, JobChange::Cancel).await?;
    }
    Ok(Json(json!({})))
}

impl ServerContext {
    /// Model that a client chose by its options.
    fn checkpoint(&self) -> Option<String> {
        let checkpoint = self.0.checkpoint.lock();
        checkpoint.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn options(State(context): State<ServerContext>) -> Result<Json<Value>, ApiError> {
    let models = context.models().await?;
    let checkpoint = context.checkpoint();
    let found = models.find_for_image(checkpoint.as_deref(), ImageInputs::None);
    let title = found.map_or("", |spec| &spec.id);
    Ok(Json(
        json!({ "sd_model_checkpoint": title, "samples_format": "png" }),
    ))
}

async fn set_options(
    State(context): State<ServerContext>,
    ApiJson(order): ApiJson<SettingOverrides>,
) -> Result<Json<Value>, ApiError> {
    if let Some(name) = order.sd_model_checkpoint {
        let id = context
            .models()
            .await?
            .find(Some(&name), |_| true)?
            .id
            .clone();
        let mut checkpoint = context
            .0
            .checkpoint
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *checkpoint = Some(id);
    }
    Ok(Json(Value::Null))
}

async fn models(State(context): State<ServerContext>) -> Result<Json<Value>, ApiError> {
    let models = context.models().await?;
    // Models of videos make images, too.
    let (images, videos): (Vec<_>, Vec<_>) = models
        .specs
        .iter()
        .partition(|spec| spec.family.makes_images);
    let specs = images.into_iter().chain(videos).map(|spec| {
        json!({
            "title": spec.id,
            "model_name": spec.name,
            "hash": null,
            "sha256": null,
            "filename": spec.id,
            "config": null,
        })
    });
    Ok(Json(specs.collect()))
}

async fn samplers() -> Json<Value> {
    let samplers = SamplerKind::ALL.iter().map(
        |sampler| json!({ "name": sampler.name(), "aliases": [sampler.label()], "options": {} }),
    );
    Json(samplers.collect())
}

async fn schedulers() -> Json<Value> {
    let schedules = SigmaSchedule::ALL.iter().map(
        |schedule| json!({ "name": schedule.name(), "label": schedule.label(), "aliases": [] }),
    );
    Json(schedules.collect())
}
