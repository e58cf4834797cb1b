//! Several files that come together: what they are for is asked, and each becomes a job of its own.
//!
//! They are opened one after the other on a thread of their own; one that is broken is named and stops no other.

use std::path::{Path, PathBuf};

use safelight_core::job::{
    CancelToken, ChosenPicture, FormControl, GenerateForm, JobError, JobErrorKind, SeedMode,
    SizeChoice, StartPicture,
};
use safelight_core::model::ModelSpec;

use crate::app::commands::InputsCommand;
use crate::app::cx::Cx;
use crate::app::form::{whole_form, window_jobs};
use crate::app::inputs::opening::{OpenedInput, open_input};
use crate::app::inputs::slots::Source;
use crate::app::inputs::{Inputs, Sources};
use crate::app::loras::LoraShelf;
use crate::app::notices::{Cause, Severity, sentence};
use crate::app::pending::Stream;
use crate::app::queue::JobQueue;
use crate::app::queue::choices::{Choice, Several};
use crate::app::queue::naming::has_folder;
use crate::app::thumbs::Pictured;

/// So many broken files are named in the card; the others are counted.
const MAX_NAMED: usize = 12;

/// Files on their way to become a job each.
pub struct Opening {
    pub number: u64,
    pub num_files: usize,
    pub num_done: usize,
    pub stop: CancelToken,
    files: Stream<(PathBuf, Result<OpenedInput, JobError>)>,
    num_jobs: usize,
    num_seeds: u64,
    problems: Vec<JobError>,
    form: GenerateForm,
    spec: ModelSpec,
    last_image: Option<StartPicture>,
    mask: Option<StartPicture>,
    references: Vec<StartPicture>,
    controls: Vec<FormControl>,
    prompt_pictures: Vec<ChosenPicture>,
}

impl JobQueue {
    pub(super) fn take_several(
        &mut self,
        choice: Choice,
        inputs: &Inputs,
        loras: &LoraShelf,
        cx: &mut Cx,
    ) {
        let Some(Several { paths, placing, .. }) = self.several.take() else {
            return;
        };
        match choice {
            Choice::None => {}
            // As many as there are places, and broken ones take none.
            Choice::Form => cx.push(InputsCommand::OpenHere(paths, placing)),
            Choice::Each => self.open_each(paths, inputs, loras, cx),
        }
    }

    /// Opens each file for a job of its own, with what the form says now.
    fn open_each(&mut self, paths: Vec<PathBuf>, inputs: &Inputs, loras: &LoraShelf, cx: &mut Cx) {
        let Some(spec) = cx.model().cloned() else {
            return;
        };
        if !has_folder(&spec, cx) {
            return;
        }
        let sources = inputs.sources_for(&cx.form, &spec);
        let mut form = loras.acting(&cx.form);
        // Each picture says which shape its own clip has.
        form.size = SizeChoice::Auto;
        self.num_openings += 1;
        let (num_files, stop) = (paths.len(), CancelToken::default());
        let is_stopped = stop.clone();
        let files = cx.background.stream("pictures", move |postbox| {
            for path in paths {
                if is_stopped.is_cancelled() {
                    break;
                }
                let opened = open_input(&path);
                postbox.post((path, opened));
            }
        });
        self.opening.push(Opening {
            number: self.num_openings,
            num_files,
            num_done: 0,
            stop,
            files,
            num_jobs: 0,
            num_seeds: 0,
            problems: Vec::new(),
            form,
            spec,
            last_image: sources.last_image.cloned(),
            mask: sources.mask.clone(),
            references: sources.references.into_iter().cloned().collect(),
            controls: sources.controls,
            prompt_pictures: sources.prompt_pictures,
        });
        self.reveal(cx);
    }

    /// Makes jobs of the files that have been opened.
    pub(super) fn take_opened(&mut self, cx: &mut Cx) {
        for mut opening in std::mem::take(&mut self.opening) {
            while let Some((path, opened)) = opening.files.take() {
                opening.num_done += 1;
                if !opening.stop.is_cancelled() {
                    self.make_jobs(&mut opening, &path, opened, cx);
                }
            }
            if opening.files.is_busy() {
                self.opening.push(opening);
            } else {
                opening.tell_end(cx);
            }
        }
    }

    fn make_jobs(
        &mut self,
        opening: &mut Opening,
        path: &Path,
        opened: Result<OpenedInput, JobError>,
        cx: &mut Cx,
    ) {
        let mut form = opening.form.clone();
        if form.seed_mode == SeedMode::Random || opening.num_seeds > 0 {
            form.advance_seed(opening.num_seeds);
        }
        let max_references = opening.spec.limits.max_references as usize;
        let made = opened.and_then(|input| {
            let mut sources = Sources {
                last_image: opening.last_image.as_ref(),
                mask: opening.mask.clone(),
                controls: opening.controls.clone(),
                prompt_pictures: opening.prompt_pictures.clone(),
                ..Sources::default()
            };
            match &input.source {
                // The first of the references that the model sees, where it sees any.
                Source::Picture(picture) if max_references > 0 => {
                    let others = opening.references.iter().take(max_references - 1);
                    sources.references = std::iter::once(picture).chain(others).collect();
                }
                Source::Picture(picture) => sources.image = Some(picture),
                Source::Clip(clip) if form.changes_clip(&opening.spec) => {
                    sources.source_clip = Some(clip);
                }
                Source::Clip(clip) => sources.extend = Some(clip),
            }
            let whole = whole_form(&form, &opening.spec, sources, &cx.settings);
            let made = window_jobs(&whole, &opening.spec, &cx.models).map_err(|errors| {
                let first = errors.into_iter().next();
                let why = first.map_or_else(String::new, |err| err.message);
                let what = format!("{why}: {}", path.display());
                JobError::new(JobErrorKind::InvalidRequest, what)
            })?;
            Ok((made, input.thumb))
        });
        match made {
            Ok((made, thumb)) => {
                opening.num_jobs += made.jobs.len();
                opening.num_seeds += made.num_seeds;
                cx.thumbs
                    .put(&cx.ctx, &Pictured::Input(path.to_owned()), &thumb);
                let requests: Vec<_> = made.jobs.into_iter().map(|job| job.request).collect();
                self.grids.begin(made.grids, &requests);
                self.add(requests, cx);
            }
            Err(err) => opening.problems.push(err),
        }
    }
}

impl Opening {
    fn tell_end(self, cx: &mut Cx) {
        cx.say(jobs_added_text(self.num_jobs));
        let problems = self.problems;
        if problems.is_empty() {
            return;
        }
        let summary = files_unused_text(problems.len(), self.num_files);
        let named = problems.iter().take(MAX_NAMED);
        let mut lines: Vec<String> = named.map(|err| sentence(&err.summary)).collect();
        if problems.len() > MAX_NAMED {
            lines.push(format!("and {} more", problems.len() - MAX_NAMED));
        }
        let err = JobError::new(JobErrorKind::InvalidRequest, summary).advise(lines.join("\n"));
        cx.tell_about(Cause::Inputs, Severity::Warning, err);
    }
}

fn jobs_added_text(count: usize) -> String {
    match count {
        1 => "1 job was added to the queue".to_owned(),
        count => format!("{count} jobs were added to the queue"),
    }
}

/// Number of files that could not be used.
fn files_unused_text(count: usize, all: usize) -> String {
    match (count, all) {
        (count, all) if count == all => format!("none of the {all} files could be used"),
        (1, all) => format!("one of {all} files could not be used"),
        (count, all) => format!("{count} of {all} files could not be used"),
    }
}
