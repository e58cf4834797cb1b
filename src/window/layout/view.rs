//! State of panels: [`UiContext`] for one frame, [`PanelStates`] between frames.

use std::sync::Arc;

use safelight_core::fitting::FoundLora;
use safelight_core::media::{OutpaintMargins, OutpaintRequest};

use crate::window::app::SafelightApp;
use crate::window::layout::prelude::*;
use crate::window::prompt::prompt_cursor::PromptCursor;
use crate::window::state::{DrawnFrame, FoldState};

pub struct UiContext<'a> {
    pub app: &'a SafelightApp,
    pub form: &'a mut GenerateForm,
    pub typing: &'a mut PromptCursor,
    pub folds: &'a mut FoldState,
    pub panels: &'a mut PanelStates,
    pub drawn: DrawnFrame,
    pub commands: Vec<AppCommand>,
    pub setters: Vec<AppSetter>,
}

/// Change of the app's state that needs no command, done when the frame is drawn.
pub type AppSetter = Box<dyn FnOnce(&mut SafelightApp)>;

/// State of the panels between frames: typed text, scrolling.
#[derive(Default)]
pub struct PanelStates {
    /// Only checks with problems are shown.
    pub hides_fine_checks: bool,
    pub gallery: GalleryPanel,
    pub library: LibraryPanel,
    pub settings: SettingsPanel,
    pub watch: WatchPanel,
    pub loras: LoraPanel,
    pub presets: PresetsPanel,
    pub prompt: PromptPanel,
    pub palette: PalettePanel,
    pub mask: MaskPanel,
    pub num_advanced_shown: u64,
    /// Id of the tab that is being renamed, and its new name.
    pub renamed_tab: Option<(u64, String)>,
}

impl<'a> UiContext<'a> {
    pub fn push(&mut self, command: impl Into<AppCommand>) {
        self.commands.push(command.into());
    }

    /// Changes a field of the app, which panels only read, once the frame is drawn.
    pub fn set(&mut self, change: impl FnOnce(&mut SafelightApp) + 'static) {
        self.setters.push(Box::new(change));
    }

    pub fn on_click(&mut self, response: &Response, command: impl Into<AppCommand>) {
        if response.clicked() {
            self.push(command);
        }
    }

    /// Calls a method of a part, once the frame is drawn, if this was clicked.
    pub fn on_press(&mut self, response: &Response, act: impl FnOnce(&mut SafelightApp) + 'static) {
        if response.clicked() {
            self.set(act);
        }
    }

    pub fn close_button(&mut self, ui: &mut Ui, name: &str) {
        let button = icon_button(ui, icons::X, name, "Back to the image (Escape)");
        self.on_click(&button, AppCommand::Show(MainPage::Watch));
    }

    pub fn model(&self) -> Option<&'a ModelSpec> {
        self.app.cx.models.model_of(self.form)
    }

    pub fn makes_images(&self) -> bool {
        self.model().is_some_and(|spec| spec.family.makes_images)
    }

    pub fn inputs(&self) -> FormInputs {
        let app: &'a SafelightApp = self.app;
        match self.model() {
            Some(spec) => app.inputs.inputs_for(self.form, spec),
            None => app.inputs.form_inputs(),
        }
    }

    pub fn error_of(&self, field: &str) -> Option<String> {
        let mut errors = self.app.cx.field_errors.iter();
        Some(errors.find(|err| err.field == field)?.message.clone())
    }

    /// Notice of what will be done differently than a field says.
    pub fn notice_of(&self, field: &str) -> Option<String> {
        let mut notices = self.app.cx.field_notices.iter();
        Some(notices.find(|it| it.field == field)?.message.clone())
    }
}

pub fn said_ui(ui: &mut Ui, view: &UiContext<'_>, fields: &[&str]) {
    for field in fields {
        if let Some(message) = view.error_of(field) {
            field_error(ui, &message);
        }
        if let Some(message) = view.notice_of(field) {
            field_note(ui, &message);
        }
    }
}

#[derive(Default)]
pub struct GalleryPanel {
    pub num_columns: usize,
    /// Moves of the selection that the page has followed by scrolling.
    pub num_moves: u64,
    /// A result has the keyboard, and no field.
    pub is_cell_focused: bool,
    /// A field had the keyboard in the last frame.
    pub is_typing: bool,
    /// Scroll offset and visible height, in points.
    pub scrolled: (f32, f32),
    pub is_search_wanted: bool,
    /// Tag that is being written for the selected results.
    pub new_tag: String,
    pub filter_search: String,
}

#[derive(Default)]
pub struct LibraryPanel {
    /// Openings of the page that it has followed.
    pub num_opened: u64,
    /// Moves of the selection that the list has followed by scrolling.
    pub num_moves: u64,
    /// Another field had the keyboard in the last frame.
    pub is_typing: bool,
}

#[derive(Default)]
pub struct SettingsPanel {
    pub search: String,
    /// Field and text that is being typed, before it takes effect.
    pub draft: Option<(String, String)>,
    /// The scale while it is dragged: the window must not grow under the pointer.
    pub scale_draft: Option<f64>,
    /// Requests for a row that the page has followed.
    pub num_shown: u64,
    pub wanted: Option<&'static str>,
    /// Id of the runtime whose deletion is to be confirmed.
    pub deleted_runtime: Option<String>,
}

#[derive(Default)]
pub struct WatchPanel {
    /// Height of the controls below the image in the last frame.
    pub controls_height: f32,
    pub full_bar: FullBar,
}

#[derive(Default)]
pub struct FullBar {
    /// Time at which it fades; `None` before it was shown.
    pub fades_at: Option<f64>,
    pub place: Option<Rect>,
}

#[derive(Default)]
pub struct LoraPanel {
    pub search: String,
    pub hides_others: bool,
    pub shown: Option<ShownLoras>,
}

pub struct ShownLoras {
    pub found: Arc<Vec<Arc<FoundLora>>>,
    pub search: String,
    pub hides_others: bool,
    pub loras: Arc<[Arc<FoundLora>]>,
}

#[derive(Default)]
pub struct PresetsPanel {
    pub new_name: String,
    /// A new preset also has the prompts, or the LoRAs, of the form.
    pub has_prompt: bool,
    pub has_loras: bool,
    /// Old and new name of a preset.
    pub renaming: Option<(String, String)>,
}

#[derive(Default)]
pub struct PromptPanel {
    pub history_search: String,
    pub wildcard_search: String,
}

#[derive(Default)]
pub struct PalettePanel {
    pub query: String,
    pub chosen: usize,
    /// The chosen entry has to be scrolled to.
    pub is_moved: bool,
}

#[derive(Default)]
pub struct MaskPanel {
    /// Number of the mask that these values belong to.
    pub number: u64,
    /// Of the brush, in pixels of the image.
    pub diameter: f32,
    /// The part of the brush's radius over which it fades, in percent.
    pub softness: f32,
    pub tool: MaskTool,
    pub is_erasing: bool,
    /// Of the overlay, from 0 to 1.
    pub opacity: f32,
    /// Index in [`theme::MASK_COLOURS`]; `None` is the first that differs from the image.
    pub colour: Option<usize>,
    /// Distance of growing and shrinking, and that of softening, in pixels of the image.
    pub grow_by: u32,
    pub soften_by: u32,
    /// Points per pixel of the image; `None` fits the whole image.
    pub scale: Option<f32>,
    /// From the centre of the area to that of the image, in points.
    pub offset: Vec2,
    pub extend: ExtendPanel,
}

/// Outpainting: the margins that are dragged.
#[derive(Default)]
pub struct ExtendPanel {
    pub request: OutpaintRequest,
    /// Margins of the form from which `request` was set.
    pub known: OutpaintMargins,
    /// The view was fitted before a drag zoomed it out.
    pub fits_again: bool,
    pub hovered: Option<ImageEdge>,
    pub dragged: Option<DraggedEdge>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageEdge {
    Left,
    Top,
    Right,
    Bottom,
}

#[derive(Clone, Copy)]
pub struct DraggedEdge {
    pub side: ImageEdge,
    /// Start of the drag in pixels of the image, and the room at that time.
    pub from: [f32; 2],
    pub at: f32,
    /// The room that it has now, in pixels.
    pub room: f32,
    /// Time in seconds since which the pointer is at the border of the canvas.
    pub at_border_since: Option<f64>,
}
