//! Several files that come together: what they are for is asked, and each becomes a job of its own.
//!
//! They are opened one after the other on a thread of their own; one that is broken is named and stops no other.

use std::path::{Path, PathBuf};

use egui::Context;
use safelight_core::job::{
    CancelToken, GenerateForm, JobError, JobErrorKind, SeedMode, SizeChoice, StartPicture,
};
use safelight_core::model::ModelSpec;

use crate::app::App;
use crate::app::background::Answer;
use crate::app::form::{whole_form, window_jobs};
use crate::app::inputs::opening::{OpenedInput, open_input};
use crate::app::inputs::{Placing, Slot, Source, Sources, second_slot};
use crate::app::queue::desk::{QueueAnswer, no_folder};
use crate::app::state::Severity;
use crate::ui::widgets::sentence;

/// So many broken files are named in the card; the others are counted.
const MAX_NAMED: usize = 12;

/// Files whose purpose is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Several {
    pub paths: Vec<PathBuf>,
    placing: Placing,
    /// The form has places for two of them.
    pub takes_two: bool,
}

/// What several files are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A job each.
    Each,
    /// The first of them, or two, into the form.
    Form,
    /// Nothing.
    None,
}

/// Files on their way to become a job each.
pub struct Opening {
    pub number: u64,
    pub num_files: usize,
    pub num_done: usize,
    pub stop: CancelToken,
    num_jobs: usize,
    num_seeds: u64,
    problems: Vec<JobError>,
    form: GenerateForm,
    spec: ModelSpec,
    last_image: Option<StartPicture>,
    mask: Option<StartPicture>,
}

impl App {
    /// Asks what files are for that the form has no places for; `true` when it does.
    pub(in crate::app) fn ask_about(&mut self, paths: &[PathBuf], placing: Placing) -> bool {
        let Some(spec) = self.session.model(&self.state.form) else {
            return false;
        };
        let second = second_slot(spec);
        let inputs = &self.session.inputs;
        let is_free = second.is_some_and(|second| {
            inputs.get(Slot::Start).is_none() && inputs.get(second).is_none()
        });
        let fits = paths.len() < 2 || (paths.len() == 2 && is_free);
        if fits || !spec.start_image.is_possible() || self.session.queue.editing.is_some() {
            return false;
        }
        self.session.queue.several = Some(Several {
            paths: paths.to_vec(),
            placing,
            takes_two: second.is_some(),
        });
        true
    }

    pub(super) fn take_several(&mut self, choice: Choice) {
        let Some(several) = self.session.queue.several.take() else {
            return;
        };
        let Several { paths, placing, .. } = several;
        match choice {
            Choice::None => {}
            // As many as there are places, and broken ones take none.
            Choice::Form => self.open_paths(paths, placing),
            Choice::Each => self.open_each(paths),
        }
    }

    /// Opens each file for a job of its own, with what the form says now.
    fn open_each(&mut self, paths: Vec<PathBuf>) {
        let Some(spec) = self.session.model(&self.state.form).cloned() else {
            return;
        };
        if self
            .output_folder(self.state.form.makes_picture(&spec))
            .is_none()
        {
            self.session.notify(Severity::Error, no_folder());
            return;
        }
        let sources = self.session.inputs.sources();
        let (last_image, mask) = (sources.last_image.cloned(), sources.mask.cloned());
        self.session.queue.num_openings += 1;
        let number = self.session.queue.num_openings;
        let stop = CancelToken::default();
        let mut form = self.state.form.clone();
        // Each picture says which shape its own clip has.
        form.size = SizeChoice::Auto;
        self.session.queue.opening.push(Opening {
            number,
            num_files: paths.len(),
            num_done: 0,
            stop: stop.clone(),
            num_jobs: 0,
            num_seeds: 0,
            problems: Vec::new(),
            form,
            spec,
            last_image,
            mask,
        });
        self.state.queue.is_open = true;
        self.session.queue.is_over = true;
        self.background.spawn("pictures", move |postbox| {
            for path in paths {
                if stop.is_cancelled() {
                    break;
                }
                let opened = open_input(&path).map(Box::new);
                postbox.post(Answer::Queue(QueueAnswer::Opened(number, path, opened)));
            }
            postbox.post(Answer::Queue(QueueAnswer::OpeningEnded(number)));
        });
    }

    pub(super) fn take_opened(
        &mut self,
        ctx: &Context,
        number: u64,
        path: &Path,
        opened: Result<Box<OpenedInput>, JobError>,
    ) {
        let openings = &mut self.session.queue.opening;
        let Some(opening) = openings.iter_mut().find(|it| it.number == number) else {
            return;
        };
        opening.num_done += 1;
        if opening.stop.is_cancelled() {
            return;
        }
        let mut form = opening.form.clone();
        if form.seed_mode == SeedMode::Random || opening.num_seeds > 0 {
            form.advance_seed(opening.num_seeds);
        }
        let made = opened.and_then(|input| {
            let mut sources = Sources {
                last_image: opening.last_image.as_ref(),
                mask: opening.mask.as_ref(),
                ..Sources::default()
            };
            match &input.source {
                Source::Picture(picture) => sources.image = Some(picture),
                Source::Clip(clip) => sources.extend = Some(clip),
            }
            let whole = whole_form(&form, &opening.spec, sources, &self.settings);
            let made = window_jobs(&whole, &opening.spec).map_err(|errors| {
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
                self.session.queue.thumbs.put(ctx, path, &thumb);
                self.queue_requests(made.jobs.into_iter().map(|job| job.request).collect());
            }
            Err(err) => opening.problems.push(err),
        }
    }

    pub(super) fn end_opening(&mut self, number: u64) {
        let openings = &mut self.session.queue.opening;
        let Some(at) = openings.iter().position(|it| it.number == number) else {
            return;
        };
        let opening = openings.remove(at);
        self.session.last_word = match opening.num_jobs {
            1 => "One job is in the queue".to_owned(),
            count => format!("{count} jobs are in the queue"),
        };
        let problems = opening.problems;
        if problems.is_empty() {
            return;
        }
        let summary = match (problems.len(), opening.num_files) {
            (count, all) if count == all => format!("none of the {all} files could be used"),
            (1, all) => format!("one of {all} files could not be used"),
            (count, all) => format!("{count} of {all} files could not be used"),
        };
        let named = problems.iter().take(MAX_NAMED);
        let mut lines: Vec<String> = named.map(|err| sentence(&err.summary)).collect();
        if problems.len() > MAX_NAMED {
            lines.push(format!("and {} more", problems.len() - MAX_NAMED));
        }
        let err = JobError::new(JobErrorKind::InvalidRequest, summary).advise(lines.join("\n"));
        self.session.notify(Severity::Warning, err);
    }
}
