//! Imports shared by most panels.

pub use egui::text::LayoutJob;
pub use egui::{
    Align, Align2, Button, Color32, ComboBox, Context, CornerRadius, CursorIcon, DragValue, Event,
    FontId, Frame, Id, Image, Key, Label, Layout, Margin, Modifiers, Panel, Pos2, ProgressBar,
    Rect, Response, RichText, ScrollArea, Sense, Slider, Stroke, StrokeKind, TextEdit, TextStyle,
    Ui, UiBuilder, Vec2, pos2, vec2,
};

pub use safelight_core::files::file_name;
pub use safelight_core::job::{FormInputs, GenerateForm, JobId};
pub use safelight_core::model::ModelSpec;
pub use safelight_core::units::{duration_text, seconds_text, size_text};

pub use crate::window::commands::*;
pub use crate::window::create::choices::InputSlot;
pub use crate::window::create::form::result_word;
pub use crate::window::layout::view::{UiContext, said_ui};
pub use crate::window::notices::{counted, sentence};
pub use crate::window::state::MainPage;
pub use crate::window::thumbnails::ThumbSource;
pub use crate::window::widgets::{icons, theme, *};
