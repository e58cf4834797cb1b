//! `--from FILE` for the program's own files: embedded settings, and changes since the file was made.
//!
//! Given arguments take precedence; only the file and its inputs are opened.

use std::path::{Path, PathBuf};

use safelight_core::job::{GenerateForm, GenerateRequest, JobError, LoraChoice};
use safelight_core::restore::{self, EmbeddedSettings, FileSettings};
use safelight_core::{fitting, media};

use super::args::{GenerateArgs, unusable};
use crate::cli::CliEnvironment;

impl GenerateArgs {
    /// These arguments, with what they leave open taken from the file that `--from` names, and what is not as it was
    /// when that file was made, a sentence each.
    pub fn with_carried(
        self,
        environment: &CliEnvironment,
    ) -> Result<(Self, Vec<String>), JobError> {
        let Some(file) = &self.from else {
            return Ok((self, Vec::new()));
        };
        match restore::read(file).map_err(|err| unusable(&err))? {
            Some(FileSettings::Own(mut carried)) => {
                let files = || fitting::find(&environment.paths, environment.settings());
                let mut warnings = Vec::new();
                if self.loras.is_empty() {
                    warnings = carried.find_moved_loras(files);
                }
                let (args, more) = self.with_own(*carried);
                warnings.extend(more);
                Ok((args, warnings))
            }
            Some(FileSettings::Other(restored)) => self.with_restored(&restored, environment),
            None => Err(restore::says_nothing(file)),
        }
    }

    pub(in crate::cli) fn with_own(mut self, carried: EmbeddedSettings) -> (Self, Vec<String>) {
        let mut warnings = self.take_inputs(&carried);
        warnings.extend(self.take_companions(&carried));
        warnings.extend(self.take_loras(&carried));
        let request = carried.request;
        self.model = self.model.or_else(|| Some(request.model.clone()));
        let form = GenerateForm::from(&request);
        // An empty one turns off the default of models that have one; elsewhere it says nothing.
        let is_idle = request.negative_prompt.is_empty()
            && request.family.makes_images
            && request.sampling.true_cfg_scale.is_none();
        self.base = GenerateForm {
            negative_prompt: form.negative_prompt.filter(|_| !is_idle),
            // The number of sections says it.
            num_frames: form.num_frames.filter(|_| request.sections.is_none()),
            secs: None,
            ..form
        };
        (self, warnings)
    }

    /// Takes over the carried images and video, and tells which are not what they were.
    fn take_inputs(
        &mut self,
        EmbeddedSettings { request, inputs }: &EmbeddedSettings,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut take = |own: &mut Option<PathBuf>, field: &str, carried: &Option<PathBuf>| {
            let (None, Some(path)) = (&own, carried) else {
                return;
            };
            let found = match field {
                "extend" => media::video_fingerprint(path),
                "source_video" | "mask" if is_video(path) => media::video_fingerprint(path),
                _ => media::image_fingerprint(path),
            };
            // One that cannot be read is reported where it is opened.
            if let (Some(then), Ok(now)) = (inputs.get(field), found)
                && *then != now
            {
                warnings.push(has_changed(path));
            }
            *own = Some(path.clone());
        };
        // Images and videos to start from exclude each other.
        let has_own = [&self.image, &self.extend, &self.source_video]
            .iter()
            .any(|own| own.is_some());
        if !has_own {
            take(&mut self.image, "image", &request.image);
            take(&mut self.extend, "extend", &request.extend);
            take(
                &mut self.source_video,
                "source_video",
                &request.source_video,
            );
        }
        take(&mut self.last_image, "last_image", &request.last_image);
        take(&mut self.mask, "mask", &request.mask);
        if self.references.is_empty() {
            for (index, reference) in request.references.iter().enumerate() {
                let (mut own, field) = (None, GenerateRequest::reference_name(index));
                take(&mut own, &field, &Some(reference.clone()));
                self.references.extend(own);
            }
        }
        if self.prompt_images.is_empty() {
            for (index, image) in request.prompt_images.iter().enumerate() {
                let (mut own, field) = (None, GenerateRequest::prompt_image_name(index));
                take(&mut own, &field, &Some(image.path.clone()));
                self.prompt_images.push(image.clone());
            }
        }
        if self.controls.is_empty() {
            let controls = request.controls.iter().enumerate();
            for (field, path) in controls.flat_map(|(index, control)| control.files(index)) {
                let is_other = |then: &String| {
                    let now = [
                        media::image_fingerprint(path),
                        media::video_fingerprint(path),
                    ];
                    let mut now = now.into_iter().flatten().peekable();
                    now.peek().is_some() && now.all(|now| now != *then)
                };
                if inputs.get(&field).is_some_and(is_other) {
                    warnings.push(has_changed(path));
                }
            }
            self.controls.clone_from(&request.controls);
        }
        warnings
    }

    /// Takes over the carried parts of the model, and tells which are gone or not what they were.
    fn take_companions(
        &mut self,
        EmbeddedSettings { request, inputs }: &EmbeddedSettings,
    ) -> Vec<String> {
        let carried = &request.companions;
        if self.model.as_ref().is_some_and(|own| *own != request.model) {
            // They were named for a model that is not used.
            return if carried.is_empty() {
                Vec::new()
            } else {
                vec![
                    "the model files chosen for the video's model are not used with another model"
                        .to_owned(),
                ]
            };
        }
        // Another text encoder brings its own tokenizer.
        let with_tokenizers = [
            ("tokenizer", self.text_encoder.is_some()),
            ("tokenizer_2", self.text_encoder_2.is_some()),
        ];
        let mut warnings = Vec::new();
        let all = [
            &mut self.vae,
            &mut self.text_encoder,
            &mut self.text_encoder_2,
            &mut self.image_encoder,
            &mut self.tokenizer,
            &mut self.tokenizer_2,
        ];
        for (own, (field, place)) in all.into_iter().zip(carried.each()) {
            let place = place.filter(|_| !with_tokenizers.contains(&(field, true)));
            let (None, Some(place)) = (&own, place) else {
                continue;
            };
            match (media::component_fingerprint(place), inputs.get(field)) {
                (Ok(now), Some(then)) if now != *then => warnings.push(format!(
                    "this part of the model has changed since the video was made: {}",
                    place.display()
                )),
                (Ok(_), _) => {}
                (Err(_), _) => {
                    warnings.push(format!(
                        "this part of the model is missing, and the model's own is used instead: {}",
                        place.display()
                    ));
                    continue;
                }
            }
            *own = Some(place.clone());
        }
        warnings
    }

    /// Tells which of the carried LoRAs are not what they were. One that is gone is reported where it is
    /// opened: without it the result would be another.
    fn take_loras(&self, EmbeddedSettings { request, inputs }: &EmbeddedSettings) -> Vec<String> {
        if !self.loras.is_empty() {
            return Vec::new();
        }
        let is_other = |(index, lora): &(usize, &LoraChoice)| {
            let then = inputs.get(&lora.fingerprint_name(*index));
            let now = media::component_fingerprint(&lora.path).ok();
            then.zip(now).is_some_and(|(then, now)| *then != now)
        };
        let changed = request.loras.iter().enumerate().filter(is_other);
        changed
            .map(|(_, lora)| {
                format!(
                    "this LoRA has changed since the file was made: {}",
                    lora.path.display()
                )
            })
            .collect()
    }
}

fn is_video(path: &Path) -> bool {
    media::video_or_image_info(path).is_ok_and(|info| info.num_frames > 1)
}

fn has_changed(path: &Path) -> String {
    format!(
        "this file has changed since the video was made: {}",
        path.display()
    )
}
