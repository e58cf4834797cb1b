//! Imports shared by most panels.

pub use egui::text::LayoutJob;
pub use egui::{
    Align, Align2, Button, Color32, ComboBox, Context, CornerRadius, CursorIcon, DragValue, Event,
    FontId, Frame, Id, Image, Key, Label, Layout, Margin, Modifiers, Panel, Pos2, ProgressBar,
    Rect, Response, RichText, ScrollArea, Sense, Slider, Stroke, StrokeKind, TextEdit, TextStyle,
    Ui, UiBuilder, Vec2, pos2, vec2,
};

pub use safelight_core::job::{FormInputs, GenerateForm, JobId};
pub use safelight_core::model::ModelSpec;
pub use safelight_core::units::{duration_text, seconds_text, size_text};

pub use crate::app::choices::InputSlot;
pub use crate::app::commands::*;
pub use crate::app::form::result_word;
pub use crate::app::notices::{counted, sentence};
pub use crate::app::state::MainPage;
pub use crate::app::thumbs::ThumbSource;
pub use crate::ui::view::{UiContext, said_ui};
pub use crate::ui::widgets::*;
pub(super) use crate::ui::{icons, theme};
