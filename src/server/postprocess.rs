//! Upscaling and frame interpolation of uploads and results.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use safelight_core::finish::{
    InstalledNetwork, NewRate, PostprocessForm, PostprocessOptions, TargetSize, find_interpolators,
    find_upscalers,
};
use safelight_core::job::PostprocessRequest;
use schemars::JsonSchema;
use serde::Deserialize;

use super::api::ApiRoutes;
use super::context::ServerContext;
use super::error::{ApiError, ApiJson};
use super::job_orders::QueuedJobs;
use super::uploads::blocking;

pub fn routes(api: &mut ApiRoutes) {
    api.tag("Post-processing");
    api.add(
        "POST /api/upscale",
        "Queue the upscaling of an image or a video",
        post(upscale),
    )
    .body::<UpscaleOrder>()
    .answers::<QueuedJobs>(202);
    api.add(
        "POST /api/interpolate",
        "Queue a video with more frames a second",
        post(interpolate),
    )
    .body::<InterpolateOrder>()
    .answers::<QueuedJobs>(202);
}

#[derive(Deserialize, JsonSchema)]
pub struct UpscaleOrder {
    /// Image or video: an upload, or the id of a result or of a job
    pub source: String,
    /// Name of an upscaler; without one the first
    model: Option<String>,
    /// Factor of width and height, 1 to 16; 2 without it
    factor: Option<f64>,
}

#[derive(Deserialize, JsonSchema)]
pub struct InterpolateOrder {
    /// Video: an upload, or the id of a result or of a job
    pub source: String,
    /// Name of a RIFE network; without one the first
    model: Option<String>,
    /// Factor of the frame rate, 2 to 16; 2 without it
    times: Option<u32>,
}

async fn upscale(
    State(context): State<ServerContext>,
    ApiJson(order): ApiJson<UpscaleOrder>,
) -> Result<(StatusCode, Json<QueuedJobs>), ApiError> {
    let source = context.given_file(&order.source).await?;
    let request = context.upscale_request(&order, source).await?;
    let submitted = context.submit(request).await?;
    Ok((StatusCode::ACCEPTED, Json(submitted.into())))
}

async fn interpolate(
    State(context): State<ServerContext>,
    ApiJson(order): ApiJson<InterpolateOrder>,
) -> Result<(StatusCode, Json<QueuedJobs>), ApiError> {
    let source = context.given_file(&order.source).await?;
    let request = context.interpolate_request(&order, source).await?;
    let submitted = context.submit(request).await?;
    Ok((StatusCode::ACCEPTED, Json(submitted.into())))
}

impl ServerContext {
    pub async fn upscale_request(
        &self,
        order: &UpscaleOrder,
        source: PathBuf,
    ) -> Result<PostprocessRequest, ApiError> {
        let options = PostprocessOptions::Upscale {
            size: TargetSize::Factor(order.factor.unwrap_or(2.0)),
            tile: None,
        };
        let found = self.search(find_upscalers).await?;
        let network = network_named("upscaler", &found, order.model.as_deref())?;
        self.postprocess(source, network, options).await
    }

    pub async fn interpolate_request(
        &self,
        order: &InterpolateOrder,
        source: PathBuf,
    ) -> Result<PostprocessRequest, ApiError> {
        let options = PostprocessOptions::Interpolate(NewRate::Times(order.times.unwrap_or(2)));
        let found = self.search(find_interpolators).await?;
        let network = network_named("RIFE network", &found, order.model.as_deref())?;
        self.postprocess(source, network, options).await
    }

    async fn postprocess(
        &self,
        source: PathBuf,
        network: PathBuf,
        options: PostprocessOptions,
    ) -> Result<PostprocessRequest, ApiError> {
        let settings = self.models().await?.settings;
        blocking(move || {
            let form = PostprocessForm::of_settings(source, network, options, &settings)?;
            Ok(form.validate()?)
        })
        .await
    }
}

/// File of a network by its name among those `found`, or the first: clients name no other files.
pub fn network_named<C>(
    what: &str,
    found: &[InstalledNetwork<C>],
    wanted: Option<&str>,
) -> Result<PathBuf, ApiError> {
    let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
    let names = names.join(", ");
    let is_it = |name: &str| wanted.is_none_or(|wanted| name.eq_ignore_ascii_case(wanted));
    let network = found.iter().find(|it| is_it(&it.name));
    network.map(|it| it.path.clone()).ok_or_else(|| {
        let message = match wanted {
            Some(wanted) if !names.is_empty() => {
                format!("there is no {what} {wanted:?} on this computer; it has: {names}")
            }
            _ => format!("there is no {what} on this computer"),
        };
        ApiError::new(StatusCode::NOT_FOUND, "model_not_found", message)
    })
}
