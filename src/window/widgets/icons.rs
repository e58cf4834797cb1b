//! Icon font (Phosphor, regular) and the names of the glyphs in use.
//!
//! It is placed after the text font and before the emoji, which claim some of its code points.

use std::sync::Arc;

use egui::{Context, FontData, FontDefinitions, FontFamily};

pub const APERTURE: char = '\u{e00a}';
pub const ARROWS_OUT: char = '\u{e0a4}';
pub const ARROW_RIGHT: char = '\u{e06c}';
pub const CHECK_CIRCLE: char = '\u{e184}';
pub const X_CIRCLE: char = '\u{e4f8}';
pub const STETHOSCOPE: char = '\u{e7ea}';
pub const DOWNLOAD: char = '\u{e20c}';
pub const BROOM: char = '\u{ec54}';
pub const BRUSH: char = '\u{e6f0}';
pub const ERASER: char = '\u{e21e}';
pub const LASSO: char = '\u{edc6}';
pub const SELECTION: char = '\u{e69a}';
pub const REDO: char = '\u{e036}';
pub const ARROW_DOWN: char = '\u{e03e}';
pub const ARROW_UP: char = '\u{e08e}';
pub const ARROW_TO_TOP: char = '\u{e066}';
pub const DOTS: char = '\u{e208}';
pub const QUEUE: char = '\u{e6ac}';
pub const CAMERA: char = '\u{e10e}';
pub const CARET_DOWN: char = '\u{e136}';
pub const CARET_LEFT: char = '\u{e138}';
pub const CARET_RIGHT: char = '\u{e13a}';
pub const COLUMNS: char = '\u{e546}';
pub const CIRCLE: char = '\u{e18a}';
pub const LIST: char = '\u{e2f2}';
pub const CLOCK: char = '\u{e1a0}';
pub const COPY: char = '\u{e1ca}';
pub const CORNERS_IN: char = '\u{e1ce}';
pub const CORNERS_OUT: char = '\u{e1d0}';
pub const DICE: char = '\u{e1ee}';
pub const FILES: char = '\u{e710}';
pub const FILM: char = '\u{e792}';
pub const FLAG: char = '\u{e244}';
pub const FOLDER_OPEN: char = '\u{e256}';
pub const FUNNEL: char = '\u{e266}';
pub const GEAR: char = '\u{e272}';
pub const IMAGES: char = '\u{e836}';
pub const IMAGE_BROKEN: char = '\u{e7a8}';
pub const STAR: char = '\u{e46a}';
pub const SEARCH: char = '\u{e30c}';
pub const IMAGE: char = '\u{e2ca}';
pub const INFO: char = '\u{e2ce}';
pub const MOON: char = '\u{e330}';
pub const PAUSE: char = '\u{e39e}';
pub const PENCIL: char = '\u{e3b4}';
pub const PLAY: char = '\u{e3d0}';
pub const PLUS: char = '\u{e3d4}';
pub const RESET: char = '\u{e038}';
pub const ROWS: char = '\u{e5a2}';
pub const REPEAT: char = '\u{e3f6}';
pub const SAVE: char = '\u{e248}';
pub const SPARKLE: char = '\u{e6a2}';
pub const SPEAKER: char = '\u{e44a}';
pub const SPEAKER_OFF: char = '\u{e45a}';
pub const STOP: char = '\u{e46c}';
pub const SWAP: char = '\u{e0a0}';
pub const SUN: char = '\u{e472}';
pub const TAG: char = '\u{e478}';
pub const TRASH: char = '\u{e4a6}';
pub const UPLOAD: char = '\u{e4c0}';
pub const WARNING: char = '\u{e4e2}';
pub const X: char = '\u{e4f6}';

pub(crate) fn install(ctx: &Context) {
    let mut fonts = FontDefinitions::default();
    let icons = FontData::from_static(include_bytes!("../../../assets/fonts/phosphor.ttf"));
    fonts
        .font_data
        .insert("phosphor".to_owned(), Arc::new(icons));
    for family in [FontFamily::Proportional, FontFamily::Monospace] {
        let names = fonts.families.entry(family).or_default();
        names.insert(names.len().min(1), "phosphor".to_owned());
    }
    ctx.set_fonts(fonts);
}
