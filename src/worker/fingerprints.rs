//! Fingerprints of a job's weights, stored in its folder when it begins and compared when it resumes, so that no result is
//! computed with two models, LoRAs or networks.
//!
//! They read a few parts of each file, which is quick. Images and videos are copied instead.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use safelight_core::files::read_json_or_default;
use safelight_core::job::{
    ControlInput, GenerateRequest, JobError, JobErrorKind, JobFolder, JobRequest,
};
use safelight_core::media;
use safelight_core::model::ModelComponent;

/// A file or folder of weights.
struct FingerprintedFile<'a> {
    /// Name of its fingerprint in the job's folder.
    name: String,
    /// Name in an error.
    label: String,
    place: &'a Path,
}

/// Fingerprints of the model's components by their labels, or of the post-processing network.
pub(super) fn of_model(request: &JobRequest) -> BTreeMap<String, String> {
    taken(model_weights(request))
}

/// Fingerprints of the LoRAs and ControlNets by their names among the job's inputs.
pub(super) fn of_added(request: &GenerateRequest) -> BTreeMap<String, String> {
    taken(added_networks(request))
}

/// Refuses to compute the rest of a result with other weights than its beginning.
pub(super) fn check_same(request: &JobRequest, folder: &JobFolder) -> Result<(), JobError> {
    check(model_weights(request), &folder.model_file())?;
    match request.generate() {
        Some(request) => check(added_networks(request), &folder.inputs_file()),
        None => Ok(()),
    }
}

fn model_weights(request: &JobRequest) -> Vec<FingerprintedFile<'_>> {
    match request {
        JobRequest::Generate(request) => components(request).collect(),
        JobRequest::Finish(request) => {
            let place = request.network();
            vec![FingerprintedFile {
                name: "network".to_owned(),
                label: format!("network {}", file_name(place)),
                place,
            }]
        }
    }
}

fn components(request: &GenerateRequest) -> impl Iterator<Item = FingerprintedFile<'_>> {
    let files = &request.files;
    let parts = ModelComponent::ALL.map(|part| (part.label(), files.path(part)));
    let low_noise = ("low-noise transformer", files.transformer_2.as_deref());
    let parts = parts.into_iter().chain([low_noise]);
    parts.filter_map(|(name, place)| {
        Some(FingerprintedFile {
            name: name.to_owned(),
            label: format!("model's {name}"),
            place: place?,
        })
    })
}

fn added_networks(request: &GenerateRequest) -> impl Iterator<Item = FingerprintedFile<'_>> {
    let loras = request.loras.iter().enumerate();
    let loras = loras.map(|(index, lora)| FingerprintedFile {
        name: lora.fingerprint_name(index),
        label: format!("LoRA {}", file_name(&lora.path)),
        place: &lora.path,
    });
    let controls = request.controls.iter().enumerate();
    let networks = controls.filter_map(|(index, control)| {
        let place = control.settings.network.as_deref()?;
        Some(FingerprintedFile {
            name: ControlInput::network_name(index),
            label: format!("ControlNet {}", file_name(place)),
            place,
        })
    });
    loras.chain(networks)
}

fn file_name(place: &Path) -> impl Display {
    place.file_name().unwrap_or_default().display()
}

/// Leaves out weights that cannot be read: the error comes when they are loaded.
fn taken<'a>(weights: impl IntoIterator<Item = FingerprintedFile<'a>>) -> BTreeMap<String, String> {
    let known = weights.into_iter().filter_map(|it| {
        let fingerprint = media::component_fingerprint(it.place).ok()?;
        Some((it.name, fingerprint))
    });
    known.collect()
}

/// Compares fingerprints with the stored ones; those that were left out are not compared.
fn check<'a>(
    weights: impl IntoIterator<Item = FingerprintedFile<'a>>,
    kept: &Path,
) -> Result<(), JobError> {
    let kept: BTreeMap<String, String> = read_json_or_default(kept);
    let has_changed = |it: &FingerprintedFile<'_>| {
        let now = || media::component_fingerprint(it.place);
        kept.get(&it.name)
            .is_some_and(|then| now().is_ok_and(|now| now != *then))
    };
    let Some(changed) = weights.into_iter().find(has_changed) else {
        return Ok(());
    };
    let what = format!("the {} has changed since the job began", changed.label);
    Err(JobError::new(JobErrorKind::BadModel, what)
        .advise("Put the old files back, or discard the job and start it again"))
}
