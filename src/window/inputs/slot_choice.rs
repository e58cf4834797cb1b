//! Assignment of files to slots: opened for the form that they were given to, whatever is shown when they are ready.

use egui::ColorImage;
use safelight_core::job::{SizeChoice, SourceVideo};
use safelight_core::media::{IMAGE_ENDINGS, VIDEO_ENDINGS};

use crate::window::create::choices::{ControlPart, MultiFilePrompt};
use crate::window::inputs::opening::{
    OpenedInput, OpenedInputs, continue_file, continue_result, keep_first_frame, keep_image,
    keep_pasted, open_inputs, opened_one, unfold,
};
use crate::window::inputs::{ChosenInput, InputSlots, SlotContents, SlotRules};
use crate::window::library::models::ModelChoice;
use crate::window::mask::masks_folder;
use crate::window::prelude::*;
use crate::window::thumbnails::ThumbSource;
use crate::window::viewer::commands::folder_for;

impl InputSlots {
    pub fn update(&mut self, command: InputsCommand, cx: &mut AppContext) {
        match command {
            InputsCommand::Pick(slot) => self.pick(SlotTarget::onto(Some(slot)), cx),
            InputsCommand::RemoveControlMask(index) => {
                self.change(InputSlot::Control, index, |input| input.control_mask = None);
            }
            InputsCommand::Open(paths, placing) => self.open(paths, placing, cx),
            InputsCommand::OpenHere(paths, placing) => self.open_here(paths, placing, cx),
            InputsCommand::ContinueFrom(path) => {
                self.open_one(InputSlot::Start, cx, move || continue_file(&path));
            }
            InputsCommand::TakeFirst(video) => {
                let folder = folder_for(&video.path, cx);
                self.open_one(InputSlot::Start, cx, move || {
                    keep_first_frame(video, &folder)
                });
            }
            InputsCommand::Continue(result) => {
                self.open_one(InputSlot::Start, cx, move || continue_result(&result));
            }
            InputsCommand::Take(slot, image, folder) => {
                self.open_one(slot, cx, move || keep_image(&image, &folder, "frame"));
            }
            InputsCommand::TakeOver(request) => self.take_over(&request, cx),
            InputsCommand::Remove(slot) => {
                if slot == InputSlot::Start {
                    let before = self.placed.clone();
                    leave_start(&before, &mut self.placed, &mut cx.form, cx.paths.as_ref());
                }
                self.inputs_in(slot)
                    .iter()
                    .for_each(|input| leave(input, cx));
                self.remove(slot);
                self.settle_offers(cx);
            }
            InputsCommand::RemoveOne(slot, index) => {
                if let Some(input) = self.take_one(slot, index) {
                    leave(&input, cx);
                    self.settle_offers(cx);
                }
            }
            InputsCommand::LookForNetworks => self.control_networks.has_looked = false,
            InputsCommand::MoveOne(slot, from, to) => self.move_one(slot, from, to),
            InputsCommand::Swap => self.swap(),
        }
    }

    /// Applies to the visible form. While a job is edited, no questions appear.
    pub fn poll(&mut self, is_editing: bool, cx: &mut AppContext) {
        if self.is_reopen_due && !cx.models.are_loading {
            let inputs = self.saved();
            // Files of the command line or of another program come into the slots after those.
            let given = std::mem::take(&mut self.given);
            self.reopen(inputs, cx);
            self.given = given;
        }
        let mut form = std::mem::take(&mut cx.form);
        self.poll_for(&mut form, !is_editing, cx);
        // Nobody chooses one for nothing.
        if self.get(InputSlot::Control).is_some() {
            self.control_networks.poll(cx);
            if let Some(path) = self.control_networks.networks.take_picked(cx) {
                let index = self.control_networks.picking_for;
                self.change(InputSlot::Control, index, |input| {
                    input.control.network = Some(path);
                });
            }
            self.settle_networks(cx.models.model_of(&form));
        }
        cx.form = form;
    }

    /// For a form that need not be the one that is shown.
    pub(crate) fn poll_for(&mut self, form: &mut GenerateForm, may_ask: bool, cx: &mut AppContext) {
        if let Some(Some((placing, paths))) = self.picking.take() {
            self.open(paths, placing, cx);
        }
        // The slots of files depend on the model: they wait until the models are known.
        while !cx.models.are_loading
            && let Some(given) = self.given.take()
        {
            if !given.loras.is_empty() {
                cx.push(LorasCommand::Add(given.loras));
            }
            for problem in given.problems {
                cx.tell_about(NoticeCause::Inputs, NoticeSeverity::Error, problem);
            }
            for folder in given.model_folders {
                let text = format!("models are in {}", folder.display());
                let advice = "Add the folder to search it for models, now and later";
                let notice = UserNotice::info(text, advice);
                cx.notices.show(notice.offer_folder(folder));
            }
            for file in given.model_files {
                let text = format!("{} is a model file", file.display());
                cx.notices
                    .show(UserNotice::info(text, "").offer_model(file));
            }
            if let Some(path) = given.played {
                cx.push(PlayerCommand::PlayFile(path));
            }
            if given.paths.is_empty() {
                continue;
            }
            let places = places_of(form, &cx.models);
            let (count, wanted) = (given.paths.len(), given.placing.slot);
            let placing = SlotTarget {
                is_seen: may_ask,
                ..given.placing
            };
            if may_ask && placing.part.is_none() && self.are_too_many(count, wanted, places) {
                cx.push(QueueCommand::Ask(MultiFilePrompt {
                    takes: self.room(count, wanted, places),
                    placing: given.placing,
                    paths: given.paths,
                }));
            } else {
                self.open_for(given.paths, placing, places, cx);
            }
        }
        while let Some(found) = self.opening.take() {
            self.place_all(found, form, cx);
        }
    }

    /// Asks for files for a slot.
    pub fn pick(&mut self, placing: SlotTarget, cx: &AppContext) {
        let Some(slot) = placing.slot else {
            return;
        };
        let part = placing.part;
        self.picking = cx.background.ask(move || {
            let (title, takes_videos) = match slot {
                InputSlot::Start => (
                    "Choose a start image, or a video to continue or to change",
                    true,
                ),
                InputSlot::End => ("Choose an end image", false),
                InputSlot::Reference => ("Choose reference images", false),
                InputSlot::Prompt => ("Choose images as prompts", false),
                InputSlot::Control if part.is_none() => ("Choose control images", true),
                InputSlot::Control | InputSlot::Mask => {
                    ("Choose a mask: white is regenerated, black stays", true)
                }
            };
            let (name, videos) = if takes_videos {
                ("Images and videos", &VIDEO_ENDINGS[..])
            } else {
                ("Images", &[][..])
            };
            let dialog = rfd::FileDialog::new()
                .set_title(title)
                .add_filter(name, &[&IMAGE_ENDINGS[..], videos].concat())
                .add_filter("All files", &["*"]);
            let paths = if part.is_none() && slot.is_list() {
                dialog.pick_files()?
            } else {
                vec![dialog.pick_file()?]
            };
            Some((placing, paths))
        });
    }

    /// Opens files as inputs: a folder means its images, and LoRAs are added as such.
    fn open(&mut self, paths: Vec<PathBuf>, placing: SlotTarget, cx: &AppContext) {
        self.given
            .add(cx.background.on_files(move || unfold(paths, placing)));
    }

    pub(crate) fn open_here(&mut self, paths: Vec<PathBuf>, placing: SlotTarget, cx: &AppContext) {
        self.open_for(paths, placing, places_of(&cx.form, &cx.models), cx);
    }

    fn open_for(
        &mut self,
        paths: Vec<PathBuf>,
        mut placing: SlotTarget,
        places: SlotRules,
        cx: &AppContext,
    ) {
        let room = match placing.part {
            Some(_) => 1,
            // A request's or a saved form's: all of them.
            None if placing.keeps_size => paths.len(),
            None => self.room(paths.len(), placing.slot, places),
        };
        let goes = placing.slot.unwrap_or_else(|| self.next(places));
        placing.joins_frames |= match goes {
            InputSlot::Control => places.takes_control_videos,
            InputSlot::Mask => places.changes_video && self.video().is_some(),
            _ => false,
        };
        self.await_files(cx, move || open_inputs(&paths, placing, room));
    }

    fn open_one(
        &mut self,
        slot: InputSlot,
        cx: &AppContext,
        open: impl FnOnce() -> Result<OpenedInput, JobError> + Send + 'static,
    ) {
        let placing = SlotTarget::onto(Some(slot));
        self.await_files(cx, move || opened_one(open(), placing));
    }

    fn await_files(
        &mut self,
        cx: &AppContext,
        open: impl FnOnce() -> OpenedInputs + Send + 'static,
    ) {
        self.opening.add(cx.background.on_files(open));
    }

    pub fn expect(&mut self, cx: &AppContext) -> TaskChannel<OpenedInputs> {
        let (postbox, opening) = BackgroundTask::new(&cx.ctx);
        self.opening.add(opening);
        postbox
    }

    pub(super) fn paste(&mut self, image: Arc<ColorImage>, folder: PathBuf, cx: &AppContext) {
        self.await_files(cx, move || {
            opened_one(keep_pasted(&image, &folder), SlotTarget::default())
        });
    }

    /// Says the form's size by its name, once the images are there that it may follow.
    pub(super) fn name_size(&self, form: &mut GenerateForm, models: &ModelChoice) {
        if !self.is_opening()
            && let Some(spec) = models.model_of(form).cloned()
        {
            form.name_size(&spec, self.inputs_for(form, &spec).size());
        }
    }

    fn place_all(&mut self, found: OpenedInputs, form: &mut GenerateForm, cx: &mut AppContext) {
        let (opened, broken): (Vec<_>, Vec<_>) = found.files.into_iter().partition(Result::is_ok);
        let opened: Vec<OpenedInput> = opened.into_iter().flatten().collect();
        if let Some(first) = opened.first() {
            cx.notices.end(&NoticeCause::Inputs);
            if found.placing.is_shown {
                cx.push(PlayerCommand::PlayFile(first.source.path().to_owned()));
            }
        }
        let places = places_of(form, &cx.models);
        let list = places.list_for(found.placing.slot);
        let is_pair = opened.len() > 1;
        let names = opened.iter().map(|input| input.source.file_name());
        let names: Vec<String> = names.collect();
        let num_left = found.num_files - opened.len() - broken.len();
        for problem in broken.into_iter().filter_map(Result::err) {
            cx.notices.show(UserNotice::of_input(problem));
        }
        if num_left > 0 && !names.is_empty() {
            say_left_out(form, found.num_files, &names, cx);
        }
        let before = (form.clone(), self.placed.clone());
        let is_given = !found.placing.keeps_size;
        let (mut names_size, mut seen) = (false, None);
        for (index, opened) in opened.into_iter().enumerate() {
            let path = opened.source.path().to_path_buf();
            let shown = ThumbSource::Input(path.clone());
            cx.thumbs.put(&cx.ctx, &shown, &opened.thumb);
            if let Some(part) = found.placing.part {
                self.put_part(part, opened.source);
                names_size = true;
                continue;
            }
            let wanted = match (is_pair, index) {
                (false, _) => found.placing.slot,
                (true, _) if list.is_some() => list,
                (true, 0) => Some(InputSlot::Start),
                (true, _) => places.second,
            };
            let name = opened.source.file_name();
            let mut input = ChosenInput::new(opened.source, opened.notices);
            if is_given
                && !matches!(wanted, Some(InputSlot::Control | InputSlot::Mask))
                && let InputMedia::Video(video) = &input.source
                && let Some(spec) = cx
                    .models
                    .model_of(form)
                    .filter(|spec| makes_images(form, spec))
            {
                let model = spec.name.clone();
                offer_first_frame(video.clone(), &name, &model, cx);
                continue;
            }
            let is_image = matches!(input.source, InputMedia::Image(_));
            let goes = wanted.unwrap_or_else(|| self.next(places));
            let is_control =
                goes == InputSlot::Control && (is_image || wanted == Some(InputSlot::Control));
            let has_settings = is_control || goes == InputSlot::Prompt;
            let mask = has_settings
                .then(|| self.settle(goes, &mut input))
                .flatten();
            let slot = self.place(input, wanted, places);
            if slot == InputSlot::Start && is_given {
                leave_start(&before.1, &mut self.placed, form, cx.paths.as_ref());
            }
            let last = self.inputs_in(InputSlot::Control).len().wrapping_sub(1);
            if let Some(mask) = mask.filter(|_| slot == InputSlot::Control) {
                self.open_for(vec![mask], ControlPart::Mask(last).into(), places, cx);
            }
            // A mask may be the last of what is opened together.
            names_size |= found.placing.keeps_size;
            let is_seen = found.placing.is_seen && !found.placing.is_shown;
            if is_seen && slot != InputSlot::Mask && !is_pair {
                seen = Some(path);
            }
            if !matches!(slot, InputSlot::Mask | InputSlot::Prompt) && !found.placing.keeps_size {
                // The image says which shape the video has.
                form.size = SizeChoice::Auto;
            }
            if wanted.is_some_and(|wanted| wanted != slot) && self.video().is_some() {
                let why = match wanted {
                    Some(InputSlot::Mask) => "A mask must be an image",
                    Some(InputSlot::Reference | InputSlot::Prompt) => {
                        "A reference must be an image"
                    }
                    _ => "An end image must be an image",
                };
                let changes = |spec| form.changes_video(spec);
                let is_changed = cx.models.model_of(form).is_some_and(changes);
                let verb = if is_changed { "changed" } else { "extended" };
                let text = format!("{name} is a video: it is {verb}");
                cx.notices.show(UserNotice::info(text, why));
            }
        }
        let is_image = self.video().is_none();
        if let Some(path) = seen.filter(|_| is_image && cx.page == MainPage::Watch) {
            cx.push(PlayerCommand::ShowInput(path));
        }
        if names_size {
            self.name_size(form, &cx.models);
        }
        let is_replaced = |slot| {
            before
                .1
                .inputs_of(slot)
                .iter()
                .any(|it| !self.placed.inputs_of(slot).contains(it))
        };
        if is_replaced(InputSlot::Start)
            || (is_given && InputSlot::ALL.into_iter().any(is_replaced))
        {
            self.replaced.get_or_insert(before);
        }
        self.settle_offers(cx);
    }

    /// Removes the offers of files that no slot contains any more.
    pub(crate) fn settle_offers(&self, cx: &mut AppContext) {
        // A file that is being opened is in no slot yet.
        if !self.is_opening() {
            cx.notices.end_where(
                |cause| matches!(cause, NoticeCause::SettingsOf(path) if !self.has_file(path)),
            );
        }
    }
}

fn places_of(form: &GenerateForm, models: &ModelChoice) -> SlotRules {
    let places = |spec| SlotRules {
        changes_video: form.changes_video(spec),
        ..SlotRules::from_spec(spec)
    };
    models.model_of(form).map(places).unwrap_or_default()
}

/// Removes what belongs to the start image before: a painted mask, and the strength that outpainting set.
fn leave_start(
    before: &SlotContents,
    placed: &mut SlotContents,
    form: &mut GenerateForm,
    paths: Option<&AppPaths>,
) {
    let Some(folder) = paths.map(masks_folder) else {
        return;
    };
    let is_made = |slot| {
        let input = before.inputs_of(slot).first();
        input.is_some_and(|input| input.source.path().starts_with(&folder))
    };
    if is_made(InputSlot::Mask) {
        placed.of_mut(InputSlot::Mask).clear();
    }
    if is_made(InputSlot::Start) && form.sampling.strength == Some(1.0) {
        form.sampling.strength = None;
        form.keeps_unmasked = false;
    }
}

/// Returns whether a model takes images only, and no video to regenerate.
fn makes_images(form: &GenerateForm, spec: &ModelSpec) -> bool {
    spec.family.makes_images && spec.start_image.is_possible() && !form.changes_video(spec)
}

fn offer_first_frame(video: SourceVideo, name: &str, model: &str, cx: &mut AppContext) {
    let text = format!("the video {name} is not used: {model} makes images");
    let advice = "Start from its first frame, or choose a video model and drop it again";
    let hover = "Save the first frame as an image, and start from that";
    let notice = UserNotice::warning(text, advice).about(NoticeCause::Inputs);
    let command = InputsCommand::TakeFirst(video);
    cx.notices
        .show(notice.offer("Use its first frame", hover, command));
}

fn leave(input: &ChosenInput, cx: &mut AppContext) {
    cx.push(PlayerCommand::LeaveInput(input.source.path().to_path_buf()));
}

fn say_left_out(form: &GenerateForm, num_files: usize, taken: &[String], cx: &mut AppContext) {
    let model = cx.models.model_of(form);
    let makes_images = model.is_some_and(|model| model.family.makes_images);
    let places = model.map(SlotRules::from_spec).unwrap_or_default();
    let reason = match places.second {
        _ if places.max_references > 0 => "The model takes no more reference images",
        _ if places.max_controls > 0 => "The model takes no more control images",
        Some(InputSlot::Mask) => "There is one image and one mask",
        Some(_) => "A video has one start and one end image",
        None if makes_images => "An image starts from one image",
        None => "A video starts from one image",
    };
    let advice = if places.max_references > 0 || places.max_controls > 0 {
        "Remove one first"
    } else {
        "Press Generate, then drop the next one: it waits in the queue"
    };
    let text = match taken {
        [one] => format!("only one of {num_files} files is used: {one}"),
        _ => format!(
            "not all of {num_files} files are used, only these: {}",
            taken.join(", ")
        ),
    };
    cx.notices
        .show(UserNotice::info(text, format!("{reason}. {advice}")));
}
