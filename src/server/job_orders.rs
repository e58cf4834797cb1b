//! Orders of jobs: a form's fields or the settings of a result, with inputs that clients name.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use safelight_core::fitting::{self, find_controls};
use safelight_core::job::{
    ControlSettings, DeviceChoice, FormControl, FormInputs, GenerateForm, GenerateRequest, JobId,
    SizeChoice, random_seed,
};
use safelight_core::model::{ModelSpec, SamplingOptions};
use safelight_core::settings::{AppPaths, Settings};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::context::ServerContext;
use super::error::{ApiError, ApiJson};
use super::link::{NewJobs, SubmittedJobs};
use super::postprocess::network_named;
use super::uploads::{blocking, open_image, open_media, open_video};

/// Settings of a job: those of a result's metadata, or a form's fields. Files are uploads, results or jobs, by their names
/// and ids.
#[derive(Deserialize, JsonSchema)]
pub struct JobOrder {
    /// As in the metadata of a result: everything that makes it again.
    #[schemars(with = "Option<Map<String, Value>>")]
    request: Option<GenerateRequest>,
    /// Fields of the form; with `request`, in place of those.
    #[serde(default)]
    #[schemars(schema_with = "form_schema")]
    form: Map<String, Value>,
    start_image: Option<String>,
    end_image: Option<String>,
    mask: Option<String>,
    /// To be continued by a model that can, else to be changed.
    video: Option<String>,
    #[serde(default)]
    references: Vec<String>,
    #[serde(default)]
    controls: Vec<ControlOrder>,
    /// Device that the jobs wait for, such as `cuda:1`; any without it.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    device: DeviceChoice,
}

/// Image or video that says where edges, depths or limbs are to be. Further fields: `kind`, `strength`, `from`, `until`,
/// `edges`, and as `network` the name of a ControlNet.
#[derive(Deserialize, JsonSchema)]
struct ControlOrder {
    file: String,
    mask: Option<String>,
    #[serde(flatten)]
    #[schemars(with = "Map<String, Value>")]
    settings: ControlSettings,
}

/// The fields of a form that are not files, with their defaults; those of sampling are the model's own without a value.
fn form_schema(_: &mut SchemaGenerator) -> Schema {
    let (form, inputs) = (json!(GenerateForm::default()), json!(FormInputs::default()));
    let sampling = json!(SamplingOptions::default());
    let objects = [&form, &sampling].into_iter().filter_map(Value::as_object);
    let names = objects.flat_map(Map::keys);
    let names = names.filter(|name| inputs.get(name).is_none() && *name != "out");
    let fields = names.map(|name| (name.clone(), json!({ "default": form.get(name) })));
    let fields: Map<String, Value> = fields.collect();
    json_schema!({ "type": "object", "properties": fields })
}

#[derive(Serialize, JsonSchema)]
pub struct QueuedJobs {
    /// Ids of the jobs.
    jobs: Vec<String>,
    /// Sentences on values that were changed or are not used.
    warnings: Vec<String>,
}

impl From<SubmittedJobs> for QueuedJobs {
    fn from(submitted: SubmittedJobs) -> Self {
        Self {
            jobs: submitted.ids.iter().map(JobId::to_string).collect(),
            warnings: submitted.notices,
        }
    }
}

pub async fn submit(
    State(context): State<ServerContext>,
    ApiJson(mut order): ApiJson<JobOrder>,
) -> Result<(StatusCode, Json<QueuedJobs>), ApiError> {
    let models = context.models().await?;
    let base = order.request.as_ref().map(GenerateForm::from);
    let mut fields = match serde_json::to_value(base.unwrap_or_default()) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let has_seed = order.request.is_some() || order.form.contains_key("seed");
    let has_edge = order.form.contains_key("width") || order.form.contains_key("height");
    if has_edge && !order.form.contains_key("size") {
        order
            .form
            .insert("size".to_owned(), json!(SizeChoice::Custom));
    }
    fields.extend(order.form);
    let form: Result<GenerateForm, _> = serde_json::from_value(fields.into());
    let mut form = form.map_err(|err| ApiError::invalid("form", err.to_string()))?;
    // Files of this computer are not for clients to name.
    form.inputs = FormInputs::default();
    form.out = PathBuf::new();
    form.options.capture = None;
    if !has_seed {
        form.set_seed(random_seed());
    }
    context.choose_loras(&mut form).await?;
    let image = async |name: &Option<String>, param: &str| match name {
        Some(name) => {
            let path = context.given_file(name).await?;
            open_image(path, param).await.map(Some)
        }
        None => Ok(None),
    };
    form.inputs.image = image(&order.start_image, "start_image").await?;
    form.inputs.last_image = image(&order.end_image, "end_image").await?;
    form.inputs.mask = image(&order.mask, "mask").await?;
    for name in &order.references {
        let path = context.given_file(name).await?;
        form.inputs
            .references
            .push(open_image(path, "references").await?);
    }
    for control in std::mem::take(&mut order.controls) {
        form.inputs.controls.push(context.control(control).await?);
    }
    if let Some(name) = &order.video {
        let video = open_video(context.given_file(name).await?, "video").await?;
        let mut specs = models.specs.iter();
        let spec = specs.find(|spec| Some(&spec.id) == form.model.as_ref());
        if spec.is_some_and(ModelSpec::can_extend) && !form.remakes_video {
            form.inputs.extend = Some(video);
        } else {
            form.inputs.source_video = Some(video);
        }
    }
    if form.model.is_none() {
        form.model.clone_from(&models.chosen);
    }
    let request = order.request.as_ref();
    let unused = request.map_or_else(Vec::new, |request| unused(request, &form));
    let jobs = NewJobs::Generate(Box::new(form), order.device);
    let mut submitted = context.submit(jobs).await?;
    submitted.notices.splice(0..0, unused);
    Ok((StatusCode::ACCEPTED, Json(submitted.into())))
}

/// A sentence for each input of settings that was not sent.
fn unused(request: &GenerateRequest, form: &GenerateForm) -> Vec<String> {
    let inputs = &form.inputs;
    let had_video = request.extend.is_some() || request.source_video.is_some();
    let pairs = [
        (
            "start image",
            request.image.is_some(),
            inputs.image.is_some(),
        ),
        (
            "end image",
            request.last_image.is_some(),
            inputs.last_image.is_some(),
        ),
        ("mask", request.mask.is_some(), inputs.mask.is_some()),
        ("video", had_video, inputs.video().is_some()),
        (
            "references",
            !request.references.is_empty(),
            !inputs.references.is_empty(),
        ),
        (
            "control images",
            !request.controls.is_empty(),
            !inputs.controls.is_empty(),
        ),
        ("image prompts", !request.prompt_images.is_empty(), false),
    ];
    let missing = pairs.iter().filter(|(_, had, has)| *had && !has);
    missing
        .map(|(name, ..)| format!("The {name} of the settings are not used: none was sent."))
        .collect()
}

impl ServerContext {
    /// Searches the folders of this computer for files.
    pub async fn search<T: Send + 'static>(
        &self,
        find: fn(&AppPaths, &Settings) -> Vec<T>,
    ) -> Result<Vec<T>, ApiError> {
        let models = self.models().await?;
        let Some(paths) = models.paths else {
            return Ok(Vec::new());
        };
        blocking(move || Ok(find(&paths, &models.settings))).await
    }

    /// Replaces LoRAs by those of this computer with their names: clients name no other files.
    async fn choose_loras(&self, form: &mut GenerateForm) -> Result<(), ApiError> {
        if form.loras.is_empty() {
            return Ok(());
        }
        let files = self.search(fitting::find).await?;
        for lora in &mut form.loras {
            let name = lora.path.to_string_lossy().into_owned();
            let known = files.iter().find(|file| {
                let names = [file.file_name(), file.file_stem()];
                **file == lora.path || names.contains(&Some(lora.path.as_os_str()))
            });
            let known = known.ok_or_else(|| ApiError::not_found(&format!("LoRA {name:?}")))?;
            lora.path.clone_from(known);
        }
        Ok(())
    }

    /// Opens what a control names: files of clients, and ControlNets by their names.
    async fn control(&self, order: ControlOrder) -> Result<FormControl, ApiError> {
        let open = async |name: &str| open_media(self.given_file(name).await?, "controls").await;
        let mask = match &order.mask {
            Some(mask) => Some(open(mask).await?),
            None => None,
        };
        let mut settings = order.settings;
        if let Some(name) = settings.network.take() {
            let name = name.to_string_lossy().into_owned();
            let found = self.search(find_controls).await?;
            settings.network = Some(network_named("ControlNet", &found, Some(&name))?);
        }
        Ok(FormControl {
            source: open(&order.file).await?,
            mask,
            settings,
        })
    }
}
