//! Filling the form with the settings in a file, and offering that for files that are dropped as images.
//!
//! Files are read on background threads by [`safelight_core::restore`], which also fits them to a model.

pub mod panel;
mod workflows;

use safelight_core::fitting;
use safelight_core::fitting::find_controls;
use safelight_core::job::{JobOptions, SeedMode};
use safelight_core::library::FoundControl;
use safelight_core::media::{IMAGE_ENDINGS, VIDEO_ENDINGS, media_info};
use safelight_core::model::{InputUse, remote_id};
use safelight_core::restore::{self, FileSettings, ForeignSettings, match_model};

use crate::window::create::undo::FormSnapshot;
use crate::window::inputs::InputSlots;
use crate::window::prelude::*;

use workflows::WorkflowExport;
pub use workflows::{WorkflowOutput, WorkflowOutputs};

/// Files dropped together whose settings are offered; of more none.
const MAX_LOOKED_AT: usize = 2;
/// Sentences on a card; the others are among its details.
const MAX_SAID: usize = 4;

/// Settings in a file, and the files on this computer for the LoRAs and ControlNets that it names.
#[derive(Default)]
struct FoundSettings {
    /// One for each result that a workflow saves; of other files one. Never empty.
    outputs: Vec<FileSettings>,
    lora_files: Vec<PathBuf>,
    /// ControlNets of this computer, where the file names some.
    networks: Vec<FoundControl>,
    /// Sentences on LoRAs that are not where they were.
    moved: Vec<String>,
}

impl FoundSettings {
    fn read(
        path: &Path,
        places: Option<&(AppPaths, Settings)>,
    ) -> Result<Self, (NoticeSeverity, JobError)> {
        let outputs = restore::read_outputs(path).map_err(|err| {
            let err = JobError::from_error(JobErrorKind::InvalidRequest, &err)
                .advise("Choose an image, a video or a JSON file that contains settings");
            (NoticeSeverity::Error, err)
        })?;
        if outputs.is_empty() {
            return Err((NoticeSeverity::Info, restore::says_nothing(path)));
        }
        Ok(Self::of(outputs, places))
    }

    /// Looks for the files that these settings name.
    fn of(outputs: Vec<FileSettings>, places: Option<&(AppPaths, Settings)>) -> Self {
        let lora_files = || {
            let files = places.map(|(paths, settings)| fitting::find(paths, settings));
            files.unwrap_or_default()
        };
        let mut this = Self {
            outputs,
            ..Self::default()
        };
        let (mut has_loras, mut has_controls) = (false, false);
        for found in &mut this.outputs {
            match found {
                FileSettings::Own(carried) => this.moved = carried.find_moved_loras(lora_files),
                FileSettings::Other(restored) => {
                    has_loras |= !restored.loras.is_empty();
                    has_controls |= !restored.controls.is_empty();
                }
            }
        }
        if has_loras {
            this.lora_files = lora_files();
        }
        if let Some((paths, settings)) = places.filter(|_| has_controls) {
            this.networks = find_controls(paths, settings);
        }
        this
    }
}

/// Settings of a file, or why there are none.
type ReadSettings = Result<FoundSettings, (NoticeSeverity, JobError)>;

/// Settings of files on their way into the form.
#[derive(Default)]
pub struct SettingsRestore {
    /// The form for which a file is read.
    form_number: u64,
    reading: BackgroundTask<(PathBuf, ReadSettings)>,
    /// Read, but the models are still looked for.
    waiting: Option<(PathBuf, FoundSettings)>,
    picking: BackgroundTask<Option<PathBuf>>,
    /// Offers of the settings in files that were dropped as images or videos.
    looking: BackgroundTask<Option<UserNotice>>,
    /// Results of a workflow, of which the user chooses.
    pub offered: Option<WorkflowOutputs>,
    export: WorkflowExport,
}

impl SettingsRestore {
    pub fn update(&mut self, command: RestoreCommand, cx: &mut AppContext) {
        match command {
            RestoreCommand::CopyWorkflow(path) => self.export.read(path, cx),
            RestoreCommand::SaveWorkflow(path, text) => self.export.save(&path, text, cx),
            RestoreCommand::Use(path) => self.read(path, cx),
            RestoreCommand::LookAt(paths, are_placed) => self.look_at(paths, are_placed, cx),
            RestoreCommand::Pick => {
                self.picking = cx.background.ask(|| {
                    let kinds = [&IMAGE_ENDINGS, &VIDEO_ENDINGS[..], &["json", "txt"]].concat();
                    rfd::FileDialog::new()
                        .set_title("Choose an image, a video or a JSON file with settings")
                        .add_filter("Files with settings", &kinds)
                        .add_filter("All files", &["*"])
                        .pick_file()
                });
            }
        }
    }

    /// `edited`: the job whose settings are in the form.
    pub fn poll(&mut self, inputs: &mut InputSlots, edited: Option<JobId>, cx: &mut AppContext) {
        if self.form_number != cx.form_number {
            // It was for what stood in the form before.
            (self.reading, self.waiting) = (BackgroundTask::default(), None);
        }
        if let Some(Some(path)) = self.picking.take() {
            self.read(path, cx);
        }
        while let Some(offer) = self.looking.take() {
            if let Some(offer) = offer {
                cx.notices.show(offer);
            }
        }
        match self.reading.take() {
            Some((path, Ok(found))) => self.waiting = Some((path, found)),
            Some((_, Err((NoticeSeverity::Error, err)))) => {
                cx.notices.show(UserNotice::of_input(err));
            }
            Some((_, Err((severity, err)))) => cx.notify(severity, err),
            None => {}
        }
        if !cx.models.are_loading
            && let Some((path, found)) = self.waiting.take()
        {
            if found.outputs.len() > 1 {
                self.offered = Some(WorkflowOutputs::new(path, found, cx));
            } else {
                fill(&path, found, inputs, edited, cx);
            }
        }
        self.export.poll(cx);
    }

    /// Reads a file, to fill the form with what it says.
    fn read(&mut self, path: PathBuf, cx: &AppContext) {
        self.waiting = None;
        self.form_number = cx.form_number;
        let places = cx.paths.clone().map(|paths| (paths, cx.settings.clone()));
        self.reading = cx.background.run("read-settings", move || {
            let found = FoundSettings::read(&path, places.as_ref());
            (path, found)
        });
    }

    /// Looks for settings in files that are taken as images, to offer them.
    fn look_at(&mut self, paths: Vec<PathBuf>, are_placed: bool, cx: &AppContext) {
        if paths.len() > MAX_LOOKED_AT {
            return;
        }
        let are_several = paths.len() > 1;
        let looking = cx.background.run("look-for-settings", move || {
            paths.into_iter().find_map(|path| {
                // Errors are shown when the file is opened.
                let found = restore::read(&path).ok().flatten()?;
                let is_video = media_info(&path).is_ok_and(|info| info.num_frames > 1);
                let is_placed = are_placed || are_several || !is_video;
                Some(settings_offer(path, found.tool(), (is_placed, is_video)))
            })
        });
        self.looking.add(looking);
    }
}

/// Fills the form with what was read.
fn fill(
    path: &Path,
    mut found: FoundSettings,
    inputs: &mut InputSlots,
    edited: Option<JobId>,
    cx: &mut AppContext,
) {
    let Some(settings) = found.outputs.pop() else {
        return;
    };
    let tool = settings.tool().to_owned();
    let before = FormSnapshot::new(inputs, cx);
    let mut notes = std::mem::take(&mut found.moved);
    notes.extend(match settings {
        FileSettings::Own(carried) => use_own(carried.request, &found, path, inputs, cx),
        FileSettings::Other(restored) => use_restored(&restored, &found, path, inputs, cx),
    });
    cx.is_seed_used = false;
    let name = file_name(path);
    cx.say(format!("Settings of {name} used"));
    // The settings of an earlier file are not in the form any more.
    cx.notices.end(&NoticeCause::Restored);
    cx.notices.end(&NoticeCause::SettingsOf(path.to_owned()));
    inputs.settle_offers(cx);
    let (severity, summary) = if notes.is_empty() {
        let text = format!("the settings of {name} ({tool}) are in the form");
        (NoticeSeverity::Info, text)
    } else {
        let text = format!("not all settings of {name} ({tool}) could be used");
        (NoticeSeverity::Warning, text)
    };
    let said: Vec<&str> = notes.iter().take(MAX_SAID).map(String::as_str).collect();
    let mut card = JobError::invalid(summary).advise(said.join(".\n"));
    if notes.len() > MAX_SAID {
        card = card.detail(notes.join("\n"));
    }
    let action = format!("use the settings of {name}");
    let id = cx.undo.push_form(action, before, edited);
    let notice = UserNotice::new(severity, card).offer_undo(id);
    cx.notices.show(notice.about(NoticeCause::Restored));
}

/// Our own settings: everything, where the model is here.
fn use_own(
    request: GenerateRequest,
    found: &FoundSettings,
    path: &Path,
    inputs: &mut InputSlots,
    cx: &mut AppContext,
) -> Vec<String> {
    let specs = cx.models.all();
    let there = request.computer.as_deref();
    let there = there.map(|host| remote_id(&request.model, host));
    let there = there.filter(|id| specs.iter().any(|spec| spec.id == *id));
    let request = GenerateRequest {
        model: there.unwrap_or(request.model),
        ..request
    };
    if specs.iter().any(|spec| spec.id == request.model) {
        inputs.take_over(&request, cx);
        return Vec::new();
    }
    let restored = ForeignSettings::from(&request);
    let Some(near) = match_model(&restored, specs) else {
        return use_restored(&restored, found, path, inputs, cx);
    };
    let note = (!near.is_same).then(|| restored.replaced_by(&near.spec.name));
    let request = GenerateRequest {
        model: near.spec.id.clone(),
        ..request
    };
    inputs.take_over(&request, cx);
    if note.is_some() {
        // The order of sections is the other model's.
        cx.form.section_order = None;
    }
    note.into_iter().collect()
}

/// Another program's settings, fitted to the nearest model.
fn use_restored(
    restored: &ForeignSettings,
    found: &FoundSettings,
    path: &Path,
    inputs: &mut InputSlots,
    cx: &mut AppContext,
) -> Vec<String> {
    let specs = cx.models.all();
    let name = restored.model.as_deref().unwrap_or("an unnamed model");
    let mut fitting = restored.clone();
    let (spec, note) = match match_model(restored, specs) {
        Some(near) if near.is_same => (Some(near.spec), None),
        Some(near) => {
            fitting.section_order = None;
            let note = restored.replaced_by(&near.spec.name);
            (Some(near.spec), Some(note))
        }
        None => {
            fitting.forget_family();
            let current = cx.model();
            let note = current.map(|spec| {
                format!(
                    "It was made with {name}, and no model of that family is here. {} stays \
                    selected, with its own steps, guidance and sampler",
                    spec.name
                )
            });
            (current, note)
        }
    };
    let Some(spec) = spec.cloned() else {
        // Without any model the words are all that can be kept.
        let prompt = restored.prompt.clone();
        cx.form.set_literal_prompt(prompt.unwrap_or_default());
        let why = "There is no model yet: only the prompt is used".to_owned();
        return [vec![why], fitting.notes].concat();
    };
    // It is the result, and not what that was made from.
    if !restored.from_image && spec.start_image != InputUse::Required {
        inputs.remove_file(path);
    }
    let (form, controls, notes) = fitting.fit_to(&spec, &found.lora_files, &found.networks);
    let notes = note.into_iter().chain(notes).collect();
    let loras = form.loras.clone();
    fill_form(&mut cx.form, &fitting, form, &spec);
    let source = inputs.inputs_for(&cx.form, &spec).size();
    cx.form.name_size(&spec, source);
    cx.form.loras = loras;
    inputs.set_controls(controls);
    notes
}

/// Sets the model's own values, and over them the file's. Only the seed stays where the file has none: a prompt that
/// could not be read leaves no other in the form.
fn fill_form(
    form: &mut GenerateForm,
    restored: &ForeignSettings,
    said: GenerateForm,
    spec: &ModelSpec,
) {
    form.reset_to(spec);
    form.prompt = said.prompt;
    form.is_one_a_line = false;
    if let Some(seed) = restored.seed {
        form.set_seed(seed);
        form.seed_mode = SeedMode::Fixed;
    } else if restored.has_random_seed {
        form.set_random_seed();
    }
    let own_order = spec.section_order;
    let order = said.section_order;
    *form = GenerateForm {
        literal_prompt: said.literal_prompt,
        literal_negative: said.literal_negative,
        negative_prompt: said.negative_prompt.or_else(|| form.negative_prompt.take()),
        size: said.size,
        width: said.width,
        height: said.height,
        second_pass: said.second_pass,
        num_frames: said.num_frames,
        secs: said.secs.or(form.secs),
        window: said.window,
        section_order: order.filter(|order| Some(*order) != own_order),
        options: JobOptions {
            step_cache: said.options.step_cache,
            prompt_weights: said.options.prompt_weights,
            ..std::mem::take(&mut form.options)
        },
        fps: said.fps,
        sampling: said.sampling.or(form.sampling),
        ..std::mem::take(form)
    };
}

/// Offer of the settings in a file that `tool` made, which may be in the form and may be a video.
fn settings_offer(path: PathBuf, tool: &str, placed_video: (bool, bool)) -> UserNotice {
    let name = file_name(&path);
    let advice = match placed_video {
        (true, true) => "It is extended. It also contains its prompt and settings",
        (true, false) => "It is in the form as an image. It also contains its prompt and settings",
        (false, _) => "It also contains its prompt and settings",
    };
    let summary = format!("{name} was made with {tool}");
    let hover = "Fill the form with the prompt, the seed and the settings of this file";
    let command = RestoreCommand::Use(path.clone());
    let mut notice = UserNotice::info(summary, advice).offer("Use settings", hover, command);
    if !placed_video.0 {
        let hover = "Add new frames after the last one";
        let command = InputsCommand::ContinueFrom(path.clone());
        notice = notice.offer("Extend video", hover, command);
    }
    notice.about(NoticeCause::SettingsOf(path))
}
