//! Actions on a result, wherever it is shown: one menu for the gallery, the viewer and the strip, also used for the
//! gallery's buttons.
//!
//! Entries push commands.

mod finishing;

use std::path::PathBuf;

use egui::containers::menu::{MenuButton, SubMenuButton, is_in_menu};
use safelight_core::gallery::{GalleryItem, ItemReading, MarkChange, ResultMark};

use crate::window::create::choices::{RemakeKind, SlotTarget, TrashRequest};
use crate::window::layout::prelude::*;
use crate::window::queue::ResultItem;
use crate::window::viewer::{ViewedMedia, ViewerMode};
use finishing::{depth_action, frames_actions, upscale_actions};
pub use finishing::{drag_results, drag_source, drag_ui, network_actions};

const REMAKES: [(char, &str, &str, RemakeKind); 3] = [
    (
        icons::DICE,
        "Same seed again",
        "Lock this seed in the form; prompt and settings stay as they are",
        RemakeKind::SameSeed,
    ),
    (
        icons::SPARKLE,
        "Vary",
        "Generate again with its prompt and settings and a new seed",
        RemakeKind::Vary,
    ),
    (
        icons::SPARKLE,
        "Remake as Final",
        "Generate again with its prompt and seed at full quality",
        RemakeKind::Final,
    ),
];
const UNREADABLE: &str = "The file cannot be read";
const NO_SETTINGS: &str = "The file does not contain its settings";

pub struct ResultAction {
    pub icon: char,
    pub name: String,
    pub hover: &'static str,
    /// Why not.
    pub obstacle: Option<&'static str>,
    /// `None` for one with choices.
    pub command: Option<AppCommand>,
    /// One of these is chosen first.
    pub choices: Vec<Self>,
}

impl ResultAction {
    pub fn new(icon: char, name: impl Into<String>, command: impl Into<AppCommand>) -> Self {
        let command = Some(command.into());
        Self {
            command,
            ..Self::of_several(icon, name, Vec::new())
        }
    }

    /// One of which there are several kinds.
    pub fn of_several(icon: char, name: impl Into<String>, choices: Vec<Self>) -> Self {
        Self {
            icon,
            name: name.into(),
            hover: "",
            obstacle: None,
            command: None,
            choices,
        }
    }

    pub fn explained(self, hover: &'static str) -> Self {
        Self { hover, ..self }
    }

    pub fn unless(self, obstacle: Option<&'static str>) -> Self {
        Self { obstacle, ..self }
    }

    pub fn wide_ui(self, ui: &mut Ui, view: &mut UiContext<'_>) {
        self.button_ui(ui, view, ui.available_width());
    }

    /// A button with its name; whether it, or one of its choices, was pressed.
    fn button_ui(self, ui: &mut Ui, view: &mut UiContext<'_>, min_width: f32) -> bool {
        let button = Button::new(with_icon(self.icon, &self.name)).min_size(vec2(min_width, 0.0));
        let mut is_pressed = false;
        let is_possible = self.obstacle.is_none();
        let response = if self.choices.is_empty() || !is_possible {
            ui.add_enabled(is_possible, button)
        } else {
            let choices_ui = |ui: &mut Ui| {
                for choice in self.choices {
                    is_pressed |= choice.button_ui(ui, view, 0.0);
                }
            };
            if is_in_menu(ui) {
                let button = button.right_text(SubMenuButton::arrow_atom(None));
                SubMenuButton::from_button(button).ui(ui, choices_ui).0
            } else {
                let button = button.right_text(icons::CARET_DOWN.to_string());
                MenuButton::from_button(button).ui(ui, choices_ui).0
            }
        };
        let response = response
            .on_hover_text(self.hover)
            .on_disabled_hover_text(self.obstacle.unwrap_or_default())
            .accessible_name(&self.name);
        let command = self.command.filter(|_| response.clicked());
        is_pressed |= command.is_some();
        view.commands.extend(command);
        is_pressed
    }
}

pub struct ResultSubject {
    /// In a batch, the selected image.
    pub path: PathBuf,
    pub is_video: bool,
    /// Frames a second, where that is known.
    fps: Option<f64>,
    /// It was generated in this session, and its frames are here.
    job: Option<JobId>,
    is_unreadable: bool,
    has_settings: bool,
    is_favourite: bool,
    trash: Vec<TrashRequest>,
    is_shown: bool,
}

impl ResultSubject {
    pub fn of_entry(entry: &GalleryItem) -> Self {
        let facts = entry.facts();
        Self {
            path: entry.path.clone(),
            is_video: entry.is_video(),
            fps: facts.map(|facts| facts.fps),
            job: None,
            is_unreadable: matches!(entry.reading, ItemReading::Broken(_)),
            has_settings: facts.is_none_or(|facts| facts.has_settings),
            is_favourite: entry.is_favourite,
            trash: vec![trash_request(entry)],
            is_shown: false,
        }
    }

    pub fn of_result(view: &UiContext<'_>, item: &ResultItem) -> Self {
        let shown = Self::from_view(view).filter(|_| view.app.watch.shows(item));
        shown.unwrap_or_else(|| Self::of_media(view, &ViewedMedia::of_result(item), 0))
    }

    pub fn from_view(view: &UiContext<'_>) -> Option<Self> {
        let media = view.app.watch.media()?;
        let subject = Self::of_media(view, media, view.app.watch.batch_index());
        Some(Self {
            is_shown: true,
            ..subject
        })
    }

    fn of_media(view: &UiContext<'_>, media: &ViewedMedia, shown: usize) -> Self {
        let path = media.path_of(shown).to_path_buf();
        let mut items = view.app.gallery.items().iter();
        let entry = items.find(|entry| entry.path == path);
        Self {
            is_video: media.is_video && media.num_frames > 1,
            fps: Some(media.fps),
            job: media.job,
            is_unreadable: false,
            // Another program's settings are read only when they are used.
            has_settings: true,
            is_favourite: entry.is_some_and(|entry| entry.is_favourite),
            trash: media.trash_requests(shown),
            is_shown: false,
            path,
        }
    }

    pub fn trash(&self) -> AppCommand {
        GalleryCommand::Trash(self.trash.clone()).into()
    }
}

pub fn trash_request(entry: &GalleryItem) -> TrashRequest {
    TrashRequest {
        path: entry.path.clone(),
        is_frame: entry.facts().is_some_and(|facts| facts.is_frame),
    }
}

pub fn main_actions(view: &UiContext<'_>, subject: &ResultSubject) -> Vec<ResultAction> {
    let path = || subject.path.clone();
    let unreadable = subject.is_unreadable.then_some(UNREADABLE);
    let silent = (!subject.has_settings).then_some(NO_SETTINGS);
    let mut actions = Vec::new();
    if !subject.is_shown {
        let play = match subject.job {
            Some(id) => PlayerCommand::ShowResult(id),
            None => PlayerCommand::PlayFile(path()),
        };
        let (icon, name) = if subject.is_video {
            (icons::PLAY, "Play")
        } else {
            (icons::IMAGE, "Show")
        };
        let play = ResultAction::new(icon, name, play).explained("View full size");
        actions.push(play.unless(unreadable));
    }
    let take_over: AppCommand = match subject.job {
        Some(id) => PlayerCommand::UseSettingsOf(id).into(),
        None => RestoreCommand::Use(path()).into(),
    };
    let take_over = ResultAction::new(icons::RESET, "Use settings", take_over)
        .explained("Put its prompt, seed and settings into the form")
        .unless(unreadable.or(silent));
    actions.push(take_over);
    if let Some(id) = subject.job {
        let choices = REMAKES.map(|(icon, name, hover, remake)| {
            let remake = PlayerCommand::Remake(id, remake);
            ResultAction::new(icon, name, remake).explained(hover)
        });
        let choices = choices.into_iter().chain([workflow_action(subject)]);
        let again = ResultAction::of_several(icons::SPARKLE, "Generate again", choices.collect());
        let hover = "With the same seed, another one, as Final, or in ComfyUI";
        actions.push(again.explained(hover));
    }
    actions.push(start_action(view, subject));
    for (slot, icon, name, hover) in other_places(view, subject) {
        let place = InputsCommand::Open(vec![path()], SlotTarget::onto(Some(slot)));
        let place = ResultAction::new(icon, name, place).explained(hover);
        actions.push(place.unless(unreadable));
    }
    actions.extend(upscale_actions(view, subject));
    actions.extend(frames_actions(view, subject));
    // A depth map of a video is for models that follow one.
    let takes_videos = |spec: &ModelSpec| spec.limits.controls.takes_videos;
    if !subject.is_video || view.model().is_some_and(takes_videos) {
        actions.push(depth_action(view, subject));
    }
    if let Some(id) = subject.job
        && !subject.is_shown
        && !matches!(view.app.watch.mode, ViewerMode::Live)
    {
        let command = PlayerCommand::CompareWith(id);
        let compare = ResultAction::new(icons::COLUMNS, "Compare with what is shown", command);
        actions.push(compare.explained("Show both beside each other (Ctrl-click)"));
    }
    actions
}

/// A video is extended; an image begins a video, or another one is made from it.
fn start_action(view: &UiContext<'_>, subject: &ResultSubject) -> ResultAction {
    let path = || subject.path.clone();
    let command: AppCommand = match (subject.job, subject.is_video) {
        (Some(id), _) => PlayerCommand::ContinueFrom(id).into(),
        (None, true) => InputsCommand::ContinueFrom(path()).into(),
        (None, false) => {
            InputsCommand::Open(vec![path()], SlotTarget::onto(Some(InputSlot::Start))).into()
        }
    };
    let spec = view.model();
    let changes = spec.is_some_and(|spec| view.form.changes_video(spec));
    let (name, hover) = if subject.is_video && changes {
        let hover = "Generate a new video from this one, using the denoising strength";
        ("Regenerate video (vid2vid)", hover)
    } else if subject.is_video {
        ("Extend video", "Add new frames after the last one")
    } else {
        ("Use as start image", "Make the next result from this image")
    };
    let obstacle = if subject.is_unreadable {
        Some(UNREADABLE)
    } else if subject.is_video && changes {
        None
    } else if !spec.is_some_and(|spec| spec.start_image.is_possible()) {
        Some("The selected model cannot start from an image")
    } else if subject.is_video && spec.is_some_and(|spec| spec.family.makes_images) {
        Some("The selected model makes images and cannot extend a video")
    } else {
        None
    };
    ResultAction::new(icons::ARROW_RIGHT, name, command)
        .explained(hover)
        .unless(obstacle)
}

/// Other slots in which the selected model accepts an image, or a video.
fn other_places(
    view: &UiContext<'_>,
    subject: &ResultSubject,
) -> Vec<(InputSlot, char, &'static str, &'static str)> {
    let Some(spec) = view.model() else {
        return Vec::new();
    };
    let (icon, controls) = (icons::IMAGES, spec.limits.controls);
    if subject.is_video {
        let hover = "The next video follows this one, frame by frame";
        let place = (InputSlot::Control, icon, "Use as control video", hover);
        return Vec::from_iter(controls.takes_videos.then_some(place));
    }
    let has_prompts = spec.prompt_images.is_some() && spec.files.image_prompts.is_some();
    let end = "Use this image as the last frame of the next video";
    let mask = "White is regenerated, black stays";
    let reference = "Use this image as a reference for the next prompt";
    let control = "The next result follows this image";
    let prompt = "Use this image as an image prompt, in addition to the text";
    let places = [
        (InputSlot::End, icons::FLAG, "Use as end image", end),
        (InputSlot::Mask, icons::BRUSH, "Use as mask", mask),
        (InputSlot::Reference, icon, "Use as reference", reference),
        (InputSlot::Control, icon, "Use as control image", control),
        (InputSlot::Prompt, icon, "Use as prompt", prompt),
    ];
    let is_taken = |slot| match slot {
        InputSlot::Start => false,
        InputSlot::End => spec.end_image.is_possible(),
        InputSlot::Mask => spec.mask.is_possible(),
        InputSlot::Reference => spec.limits.max_references > 0,
        InputSlot::Control => controls.is_possible(),
        InputSlot::Prompt => has_prompts,
    };
    places.into_iter().filter(|it| is_taken(it.0)).collect()
}

pub fn file_actions(subject: &ResultSubject) -> Vec<ResultAction> {
    let folder = GalleryCommand::OpenFolder(subject.path.clone());
    let path = DesktopCommand::CopyText(subject.path.display().to_string());
    let mut actions = vec![
        favourite_action(vec![subject.path.clone()], subject.is_favourite),
        ResultAction::new(icons::FOLDER_OPEN, "Open folder", folder)
            .explained("Show the file in the file manager"),
        ResultAction::new(icons::COPY, "Copy path", path)
            .explained("Put the file's path on the clipboard"),
    ];
    // Results of a job have it under "Generate again".
    if subject.job.is_none() {
        actions.push(workflow_action(subject));
    }
    actions.push(delete_action(subject.trash.clone(), subject.trash.len()));
    actions
}

fn workflow_action(subject: &ResultSubject) -> ResultAction {
    let command = RestoreCommand::CopyWorkflow(subject.path.clone());
    ResultAction::new(icons::COPY, "Copy as ComfyUI workflow", command)
        .explained("Put a workflow with its settings on the clipboard, as JSON")
        .unless((!subject.has_settings).then_some(NO_SETTINGS))
}

/// Makes all of these favourites, or none of them if all are.
pub fn favourite_action(paths: Vec<PathBuf>, are_favourites: bool) -> ResultAction {
    let mut name = "Favourite";
    let mut hover = "Mark it with a star, to find it again (B in the gallery)";
    if are_favourites {
        (name, hover) = ("Not a favourite", "Take the star away (B in the gallery)");
    }
    let command = GalleryCommand::Mark(MarkChange {
        paths,
        mark: ResultMark::Favourite,
        is_set: !are_favourites,
    });
    ResultAction::new(icons::STAR, name, command).explained(hover)
}

/// Copies the files of these results.
pub fn copy_action(results: Vec<TrashRequest>) -> ResultAction {
    let name = counted(results.len(), "Copy file", "Copy files");
    let hover = "Put it on the clipboard as a file, to paste in a file manager or a message";
    ResultAction::new(icons::FILES, name, DesktopCommand::CopyFiles(results)).explained(hover)
}

/// `num_files`: how many of them the name tells of.
pub fn delete_action(requests: Vec<TrashRequest>, num_files: usize) -> ResultAction {
    let name = counted(num_files, "Delete", "Delete all {} images");
    ResultAction::new(icons::TRASH, name, GalleryCommand::Trash(requests))
        .explained("Move it to the trash. Undo brings it back (Delete)")
}

/// Menu that scrolls if the window has no room for it.
pub fn menu_ui(ui: &mut Ui, contents: impl FnOnce(&mut Ui)) {
    ui.set_width(theme::MENU_WIDTH);
    // All of it has room in the smallest window.
    ui.spacing_mut().item_spacing.y = 2.0;
    ui.spacing_mut().interact_size.y = 23.0;
    ui.spacing_mut().button_padding.y = 3.0;
    let room = ui.ctx().content_rect().height() - 4.0 * theme::GAP;
    let area = ScrollArea::vertical()
        .max_height(room)
        .min_scrolled_height(room);
    area.show(ui, |ui| {
        ui.set_width(theme::MENU_WIDTH);
        contents(ui);
    });
}

pub fn entries_ui(ui: &mut Ui, view: &mut UiContext<'_>, groups: Vec<Vec<ResultAction>>) {
    let groups = groups.into_iter().filter(|group| !group.is_empty());
    for (index, group) in groups.enumerate() {
        if index > 0 {
            ui.separator();
        }
        for action in group {
            if action.button_ui(ui, view, 0.0) {
                ui.close();
            }
        }
    }
}

pub fn result_menu_ui(ui: &mut Ui, view: &mut UiContext<'_>, subject: &ResultSubject) {
    let groups = vec![
        main_actions(view, subject),
        network_actions(view, subject.is_video),
        file_actions(subject),
    ];
    menu_ui(ui, |ui| entries_ui(ui, view, groups));
}
