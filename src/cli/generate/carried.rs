//! `--from FILE` for the program's own files: embedded settings, and changes since the file was made.
//!
//! Given arguments take precedence; only the file and its inputs are opened.

use std::path::{Path, PathBuf};

use safelight_core::job::{GenerateForm, GenerateRequest, JobError, LoraChoice};
use safelight_core::naming::numbered_path;
use safelight_core::restore::{self, EmbeddedSettings, FileSettings};
use safelight_core::{fitting, media};

use super::args::GenerateArgs;
use crate::cli::CliEnvironment;

/// Arguments with the settings of one result, and what is not as it was when the file was made, a sentence each.
pub(in crate::cli) type CarriedArgs = Result<(GenerateArgs, Vec<String>), JobError>;

impl GenerateArgs {
    /// These arguments, with what they leave open taken from the file that `--from` names: once for each result that it
    /// makes, or for that of `--output`.
    pub fn with_carried(self, environment: &CliEnvironment) -> Result<Vec<CarriedArgs>, JobError> {
        let Some(file) = self.from.clone() else {
            return Ok(vec![Ok((self, Vec::new()))]);
        };
        let outputs = restore::read_outputs(&file)?;
        if outputs.is_empty() {
            return Err(restore::says_nothing(&file));
        }
        self.with_outputs(outputs, environment)
    }

    /// As [`with_carried`](Self::with_carried), for settings that were read.
    fn with_outputs(
        self,
        mut outputs: Vec<FileSettings>,
        environment: &CliEnvironment,
    ) -> Result<Vec<CarriedArgs>, JobError> {
        let count = outputs.len();
        if let Some(number) = self.output {
            if !(1..=count).contains(&number) {
                let word = if count == 1 { "result" } else { "results" };
                let text = format!("--output is {number}, and the file makes {count} {word}");
                return Err(JobError::invalid(text).advise("`safelight inspect FILE` lists them"));
            }
            outputs = vec![outputs.swap_remove(number - 1)];
        }
        let is_one = outputs.len() == 1;
        let outputs = (1..).zip(outputs).map(|(number, found)| {
            let mut args = self.clone();
            if !is_one {
                args.out = self.out.as_deref().map(|out| numbered_path(out, number));
            }
            args.with_settings(found, environment)
        });
        Ok(outputs.collect())
    }

    fn with_settings(self, found: FileSettings, environment: &CliEnvironment) -> CarriedArgs {
        match found {
            FileSettings::Own(mut carried) => {
                let files = || fitting::find(&environment.paths, environment.settings());
                let mut warnings = Vec::new();
                if self.loras.is_empty() {
                    warnings = carried.find_moved_loras(files);
                }
                let (args, more) = self.with_own(*carried);
                warnings.extend(more);
                Ok((args, warnings))
            }
            FileSettings::Other(restored) => self.with_restored(&restored, environment),
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
        let mut taken: Vec<(String, &Path)> = Vec::new();
        // Images and videos to start from exclude each other.
        let starts = [&self.image, &self.extend, &self.source_video];
        let has_own = starts.iter().any(|own| own.is_some());
        for (own, field, carried, may_take) in [
            (&mut self.image, "image", &request.image, !has_own),
            (&mut self.extend, "extend", &request.extend, !has_own),
            (
                &mut self.source_video,
                "source_video",
                &request.source_video,
                !has_own,
            ),
            (
                &mut self.last_image,
                "last_image",
                &request.last_image,
                true,
            ),
            (&mut self.mask, "mask", &request.mask, true),
        ] {
            if let (None, Some(path), true) = (&own, carried, may_take) {
                taken.push((field.to_owned(), path));
                *own = Some(path.clone());
            }
        }
        if self.references.is_empty() {
            let names = (0..).map(GenerateRequest::reference_name);
            taken.extend(names.zip(request.references.iter().map(PathBuf::as_path)));
            self.references.clone_from(&request.references);
        }
        if self.prompt_images.is_empty() {
            let names = (0..).map(GenerateRequest::prompt_image_name);
            taken.extend(names.zip(request.prompt_images.iter().map(|it| it.path.as_path())));
            self.prompt_images.clone_from(&request.prompt_images);
        }
        if self.controls.is_empty() {
            let controls = request.controls.iter().enumerate();
            taken.extend(controls.flat_map(|(index, control)| control.files(index)));
            self.controls.clone_from(&request.controls);
        }
        let changed = taken
            .into_iter()
            .filter(|(field, path)| inputs.get(field).is_some_and(|then| is_other(path, then)));
        let text = |(_, path): (String, &Path)| {
            let path = path.display();
            format!("this file has changed since the video was made: {path}")
        };
        changed.map(text).collect()
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

/// Returns whether an image or video has another fingerprint now. One that cannot be read is reported where it is opened.
fn is_other(path: &Path, then: &str) -> bool {
    let now = [
        media::image_fingerprint(path),
        media::video_fingerprint(path),
    ];
    let mut now = now.into_iter().flatten().peekable();
    now.peek().is_some() && now.all(|now| now != *then)
}

#[cfg(test)]
mod tests {
    use safelight_core::job::JobErrorKind;
    use safelight_core::restore::ForeignSettings;
    use safelight_core::settings::{AppPaths, LoadedSettings};

    use super::*;

    fn environment(folder: &Path) -> CliEnvironment {
        CliEnvironment {
            paths: AppPaths::under(folder),
            loaded: LoadedSettings::default(),
        }
    }

    fn outputs() -> Vec<FileSettings> {
        let settings = |prompt: &str| ForeignSettings {
            tool: "ComfyUI".into(),
            prompt: Some(prompt.into()),
            num_steps: Some(3),
            ..ForeignSettings::default()
        };
        let all = ["a fox", "a boat", "a tree"].map(settings);
        let all = all.into_iter().map(Box::new);
        all.map(FileSettings::Other).collect()
    }

    /// Arguments with a tiny model and a file to write.
    fn args() -> GenerateArgs {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wan/pipeline");
        GenerateArgs {
            model: Some(model.to_string_lossy().into_owned()),
            out: Some("made/a.png".into()),
            ..GenerateArgs::default()
        }
    }

    fn carried(output: Option<usize>) -> Result<Vec<GenerateArgs>, JobError> {
        let home = tempfile::tempdir().unwrap();
        let args = GenerateArgs { output, ..args() };
        let all = args.with_outputs(outputs(), &environment(home.path()))?;
        let all = all.into_iter().map(|args| Ok(args?.0));
        all.collect()
    }

    #[test]
    fn a_workflow_makes_all_its_results_each_in_a_file_of_its_own() {
        let all = carried(None).unwrap();
        let said = all.iter().map(|args| {
            let out = args.out.as_deref().unwrap().to_string_lossy();
            (args.base.prompt.clone(), out.into_owned())
        });
        let expected = [
            ("a fox", "made/a_0001.png"),
            ("a boat", "made/a_0002.png"),
            ("a tree", "made/a_0003.png"),
        ];
        let expected = expected.map(|(prompt, out)| (prompt.to_owned(), out.to_owned()));
        assert_eq!(said.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn one_result_is_chosen_by_its_number_and_another_number_is_refused() {
        let one = carried(Some(2)).unwrap();
        assert_eq!(one.len(), 1);
        assert_eq!(one[0].base.prompt, "a boat");
        assert_eq!(one[0].out.as_deref(), Some(Path::new("made/a.png")));
        for number in [0, 4] {
            let err = carried(Some(number)).unwrap_err();
            let expected = format!("--output is {number}, and the file makes 3 results");
            assert_eq!(err.summary, expected);
        }
    }

    #[test]
    fn results_whose_model_is_missing_are_left_out_unless_all_are() {
        let home = tempfile::tempdir().unwrap();
        let environment = environment(home.path());
        let gone = GenerateArgs {
            model: None,
            ..args()
        };
        let lacking = gone.with_outputs(outputs(), &environment).unwrap();
        let jobs = super::super::jobs_of_all(lacking, &environment);
        let err = jobs.err().unwrap();
        assert!(err.summary.contains("with which model"), "{}", err.summary);
        let mut some = args().with_outputs(outputs(), &environment).unwrap();
        some[1] = Err(JobError::new(JobErrorKind::BadModel, "no such model"));
        let (made, warnings) = super::super::jobs_of_all(some, &environment).unwrap();
        assert_eq!(made.jobs.len(), 2);
        let expected = "result 2: it is left out: no such model".to_owned();
        assert!(warnings.contains(&expected), "{warnings:?}");
    }
}
