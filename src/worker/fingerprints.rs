//! Fingerprints of the weights that a job computes with, so that no result is made of two models, LoRAs or networks
//! without a word: they are kept in the job's folder when it begins, and compared when it resumes.
//!
//! They read a few places of each file alone, which takes no time to speak of. Pictures and clips are copied instead.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use safelight_core::files::read_json_or_default;
use safelight_core::finish::FinishRequest;
use safelight_core::job::{Control, GenerateRequest, JobError, JobErrorKind, JobFolder};
use safelight_core::media;
use safelight_core::model::Component;

/// A file or folder of weights.
struct Weights<'a> {
    /// The name of its fingerprint in the job's folder.
    name: String,
    /// What an error calls it.
    label: String,
    place: &'a Path,
}

/// Those of the model's parts by their labels.
pub(super) fn of_model(request: &GenerateRequest) -> BTreeMap<String, String> {
    taken(model_parts(request))
}

/// Those of the LoRAs and ControlNets by their names among the job's inputs.
pub(super) fn of_added(request: &GenerateRequest) -> BTreeMap<String, String> {
    taken(added_networks(request))
}

/// That of the network of a job that finishes something.
pub(super) fn of_network(request: &FinishRequest) -> BTreeMap<String, String> {
    taken([network(request)])
}

/// Refuses to make the rest of a result with another model, LoRA or ControlNet than its beginning.
pub(super) fn check_same(request: &GenerateRequest, folder: &JobFolder) -> Result<(), JobError> {
    check(model_parts(request), &folder.model_file(), folder)?;
    check(added_networks(request), &folder.inputs_file(), folder)
}

/// The same of the network of a job that finishes something.
pub(super) fn check_same_network(
    request: &FinishRequest,
    folder: &JobFolder,
) -> Result<(), JobError> {
    check([network(request)], &folder.model_file(), folder)
}

fn model_parts(request: &GenerateRequest) -> impl Iterator<Item = Weights<'_>> {
    let files = &request.files;
    let parts = Component::ALL.map(|part| (part.label(), files.of(part)));
    let low_noise = ("low-noise transformer", files.transformer_2.as_deref());
    let parts = parts.into_iter().chain([low_noise]);
    parts.filter_map(|(name, place)| {
        Some(Weights {
            name: name.to_owned(),
            label: format!("model's {name}"),
            place: place?,
        })
    })
}

fn added_networks(request: &GenerateRequest) -> impl Iterator<Item = Weights<'_>> {
    let loras = request.loras.iter().enumerate();
    let loras = loras.map(|(index, lora)| Weights {
        name: lora.fingerprint_name(index),
        label: format!("LoRA {}", file_name(&lora.path)),
        place: &lora.path,
    });
    let controls = request.controls.iter().enumerate();
    let networks = controls.filter_map(|(index, control)| {
        let place = control.settings.network.as_deref()?;
        Some(Weights {
            name: Control::network_name(index),
            label: format!("ControlNet {}", file_name(place)),
            place,
        })
    });
    loras.chain(networks)
}

fn network(request: &FinishRequest) -> Weights<'_> {
    let place = request.network();
    Weights {
        name: "network".to_owned(),
        label: format!("network {}", file_name(place)),
        place,
    }
}

fn file_name(place: &Path) -> impl Display {
    place.file_name().unwrap_or_default().display()
}

/// One that cannot be read is left out: that is told where it is loaded.
fn taken<'a>(weights: impl IntoIterator<Item = Weights<'a>>) -> BTreeMap<String, String> {
    let known = weights.into_iter().filter_map(|it| {
        let fingerprint = media::component_fingerprint(it.place).ok()?;
        Some((it.name, fingerprint))
    });
    known.collect()
}

/// Compares them with those that a file in the job's folder holds; one that could not be taken then is not compared.
fn check<'a>(
    weights: impl IntoIterator<Item = Weights<'a>>,
    kept: &Path,
    folder: &JobFolder,
) -> Result<(), JobError> {
    let kept: BTreeMap<String, String> = read_json_or_default(kept);
    let has_changed = |it: &Weights<'_>| {
        let now = || media::component_fingerprint(it.place);
        kept.get(&it.name)
            .is_some_and(|then| now().is_ok_and(|now| now != *then))
    };
    let Some(changed) = weights.into_iter().find(has_changed) else {
        return Ok(());
    };
    let number = folder.path().file_name().unwrap_or_default().display();
    let what = format!("the {} has changed since the job began", changed.label);
    Err(JobError::new(JobErrorKind::BadModel, what).advise(format!(
        "Put the old files back, or discard the job (`safelight resume {number} --discard`) and start it again"
    )))
}
