//! Every colour and size of the interface, and the two looks made from them: the darkroom and daylight.
//!
//! Lengths are in points. No other file names a colour or a width.

use egui::style::{Selection, WidgetVisuals, Widgets};
use egui::{Color32, Context, CornerRadius, Margin, Stroke, TextStyle, Vec2, Visuals, vec2};
use safelight_core::job::Stage;

/// Of a code for cameras, in both themes.
pub const CODE_LIGHT: Color32 = Color32::WHITE;
pub const CODE_DARK: Color32 = Color32::BLACK;
/// The three sizes of text: labels and notes, all else, headings.
pub const SMALL_TEXT: f32 = 11.5;
pub const BODY_TEXT: f32 = 13.5;
pub const HEADING_TEXT: f32 = 18.0;
/// Of an icon on a button.
pub const ICON: f32 = 17.0;
pub const FORM_WIDTH: f32 = 384.0;
/// It can be as narrow and as wide as this.
pub const FORM_WIDTHS: std::ops::RangeInclusive<f32> = 340.0..=600.0;
pub const BESIDE_FORM_WIDTH: f32 = 420.0;
/// A long prompt scrolls beyond this height.
pub const PROMPT_HEIGHT: f32 = 176.0;
/// The line below the prompt: its tokens, or examples while it is empty.
pub const BELOW_PROMPT_HEIGHT: f32 = 22.0;
/// A hint of one line above the main button, with its button.
pub const HINT_HEIGHT: f32 = 24.0;
pub const FRAMES_WIDTH: f32 = 92.0;
/// Maximum share of the height for the memory panel: the image takes the rest.
pub const MEMORY_SHARE: f32 = 0.36;
/// Height of the memory graph with the lines of text above it.
pub const GRAPH_HEIGHT: f32 = 176.0;
/// The graph alone is no lower.
pub const GRAPH_MIN_HEIGHT: f32 = 64.0;
/// The longer side of a thumbnail in the strip of results.
pub const THUMB_SIDE: f32 = 64.0;
/// The longer side of an image of a batch below the one that is looked at.
pub const BATCH_SIDE: f32 = 84.0;
pub const COUNT_SIZE: f32 = 18.0;
/// The square in which a start image is shown, and the height of one in a pair.
pub const IMAGE_SIDE: f32 = 84.0;
/// The place for an image, while it is empty.
pub const DROP_HEIGHT: f32 = 46.0;
pub const REFERENCE_SIDE: f32 = 76.0;
/// Maximum height of the detected edges of a control image.
pub const EDGES_HEIGHT: f32 = 200.0;
/// Height of an empty slot next to a filled one.
pub const TILE_HEIGHT: f32 = 146.0;
/// One of two empty ones.
pub const EMPTY_TILE_HEIGHT: f32 = 72.0;
pub const HEADING_HEIGHT: f32 = 28.0;
/// Inside such a place.
pub const TILE_MARGIN: i8 = 8;
/// Beside the icons in it.
pub const ICON_PADDING: f32 = 3.0;
pub const BADGE_SIZE: f32 = 20.0;
/// The open list of models scrolls beyond this height.
pub const PICKER_HEIGHT: f32 = 380.0;
/// The list of models with problems scrolls beyond this height.
pub const PROBLEMS_HEIGHT: f32 = 132.0;
pub const LIST_WIDTH: f32 = 320.0;
/// Width of the list of LoRAs.
pub const SHELF_WIDTH: f32 = 560.0;
/// Heights of that list, and of one LoRA in it.
pub const SHELF_HEIGHT: f32 = 380.0;
pub const SHELF_ROW_HEIGHT: f32 = 44.0;
/// Columns of a name, and of the text below it, that fit into its width.
pub const SHELF_NAME_COLUMNS: usize = 68;
pub const SHELF_TEXT_COLUMNS: usize = 88;
pub const SEED_MODE_WIDTH: f32 = 102.0;
pub const SEED_DICE_WIDTH: f32 = 30.0;
pub const WINDOW_SIZE: Vec2 = vec2(1240.0, 820.0);
pub const WINDOW_MIN_SIZE: Vec2 = vec2(800.0, 500.0);
/// Includes the scroll bar.
pub const FORM_MARGIN: i8 = 14;
pub const SIGN_SIZE: f32 = 26.0;
/// A button of the header: its icon, and below it its label.
pub const HEADER_BUTTON_HEIGHT: f32 = 40.0;
pub const HEADER_BUTTON_MARGIN: f32 = 3.0;
/// Diameter of the dot in a chip.
pub const CHIP_DOT: f32 = 6.0;
pub const BADGE_HEIGHT: f32 = 15.0;
pub const GAP: f32 = 12.0;
/// Between things that belong together.
pub const SMALL_GAP: f32 = 6.0;
pub const MAIN_BUTTON_HEIGHT: f32 = 40.0;
pub const CARD_WIDTH: f32 = 460.0;
/// Limit for readable lines.
pub const PAGE_WIDTH: f32 = 860.0;
pub const CHECK_ICON_WIDTH: f32 = 20.0;
pub const CHECK_NAME_WIDTH: f32 = 104.0;
pub const CHECK_FIGURE_AT: f32 = 270.0;
/// As high as its words.
pub const CHECK_HEIGHT: f32 = 18.0;
/// Width below which the model search gets a separate row.
pub const SEARCH_BESIDE_WIDTH: f32 = 620.0;
pub const MODELS_WIDTH: f32 = 380.0;
pub const MODELS_MIN_WIDTH: f32 = 250.0;
pub const MODEL_ROW_HEIGHT: f32 = 46.0;
/// A model of the first page, with whether it fits.
pub const FIRST_BUTTON_WIDTH: f32 = 320.0;
/// Margins of a page; the scroll bar is in the right one.
pub const PAGE_MARGIN: Margin = margin([24, 12], [16, 0]);
pub const SETTINGS_NAME_WIDTH: f32 = 168.0;
/// Width below which names are above their controls.
pub const SETTINGS_NARROW: f32 = 460.0;
pub const SEARCH_WIDTH: f32 = 220.0;
pub const CHOICE_WIDTH: f32 = 250.0;
pub const PATH_WIDTH: f32 = 380.0;
pub const VARIABLE_WIDTH: f32 = 250.0;
pub const SETTINGS_SLIDER_WIDTH: f32 = 180.0;
pub const RESET_WIDTH: f32 = 36.0;
pub const PALETTE_WIDTH: f32 = 560.0;
/// The list scrolls beyond this height.
pub const PALETTE_HEIGHT: f32 = 380.0;
/// The keys of a shortcut, before its name.
pub const KEYS_WIDTH: f32 = 150.0;
pub const PALETTE_ROW: f32 = 28.0;
/// Width below which the window shows either the form or the view.
pub const NARROW_WIDTH: f32 = 760.0;
/// In a window of less height the queue scrolls as a whole.
pub const SHORT_HEIGHT: f32 = 520.0;
/// The image has at least this height, or this share of what there is: the memory and the strip make room for it.
pub const STAGE_HEIGHT: f32 = 240.0;
pub const STAGE_SHARE: f32 = 0.4;
/// Another page above the memory has at least this height.
pub const PAGE_MIN_HEIGHT: f32 = 320.0;
/// Lower than this, the memory is not shown.
pub const MEMORY_MIN_HEIGHT: f32 = 96.0;
pub const STRIP_HEIGHT: f32 = THUMB_SIDE + 28.0;
/// Width below which columns are stacked, and buttons become icons.
pub const STACK_WIDTH: f32 = 500.0;
pub const QUEUE_WIDTH: f32 = 316.0;
/// Minimum width of the view next to the queue; in less, the queue covers it.
pub const WATCH_MIN_WIDTH: f32 = 340.0;
/// And another page.
pub const PAGE_MIN_WIDTH: f32 = 480.0;
pub const QUEUE_ROW: f32 = 58.0;
pub const QUEUE_GAP: f32 = 4.0;
pub const QUEUE_THUMB: Vec2 = vec2(62.0, 46.0);
pub const QUEUE_SIGN: f32 = 22.0;
pub const QUESTION_WIDTH: f32 = 400.0;
/// A long negative prompt scrolls beyond this height.
pub const NEGATIVE_HEIGHT: f32 = 84.0;
/// Width of the labels before controls, with room for a small button.
pub const LABEL_WIDTH: f32 = 106.0;
/// Of the icon that puts a field back.
pub const SMALL_ICON: f32 = 12.0;
pub const CHEVRON: f32 = 12.0;
pub const MENU_WIDTH: f32 = 240.0;
/// Width of the number after a slider, so that all of them end at one edge.
pub const VALUE_WIDTH: f32 = 64.0;
pub const STAGE_MARGIN: f32 = 16.0;
/// The player's buttons and the gaps between them.
pub const BAR_BUTTONS_WIDTH: f32 = 505.0;
/// Width of the bar if the menu's button has no label.
pub const BAR_SNUG_WIDTH: f32 = 452.0;
/// Width of the bar if speed, repeat and size are in the menu.
pub const BAR_NARROW_WIDTH: f32 = 230.0;
/// The bar over an image that has the whole screen is no wider.
pub const FULL_BAR_WIDTH: f32 = 960.0;
/// Width below which the player's slider gets a separate row.
pub const POSITION_MIN_WIDTH: f32 = 160.0;
pub const SPEED_WIDTH: f32 = 64.0;
pub const VOLUME_WIDTH: f32 = 56.0;
/// Mute button, volume, and the gaps between them.
pub const SOUND_WIDTH: f32 = 100.0;
/// Of the handles that trim a video.
pub const TRIM_WIDTH: f32 = 7.0;
pub const TRIM_HEIGHT: f32 = 9.0;
/// As wide as a hand finds the line between two images.
pub const DIVIDER_GRIP: f32 = 16.0;
pub const RADIUS: u8 = 6;
/// Of numbers and sliders. The fill of a slider ends under its handle by as much.
pub const NUMBER_RADIUS: u8 = 4;
pub const CARD_RADIUS: u8 = 10;

/// The smallest and largest small image of the gallery.
pub const GALLERY_SIDES: std::ops::RangeInclusive<f32> = 96.0..=320.0;
pub const GALLERY_GAP: f32 = 8.0;
pub const GALLERY_SLIDER: f32 = 90.0;
pub const GALLERY_SEARCH: f32 = 260.0;
/// Beside the small images, what is known of one.
pub const DETAILS_WIDTH: f32 = 268.0;
pub const DETAILS_IMAGE: f32 = 220.0;
pub const DETAILS_PROMPT: f32 = 132.0;

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place where colours are made"
)]
const fn rgb(hex: u32) -> Color32 {
    Color32::from_rgb((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

macro_rules! theme_colors {
    ($($(#[$doc:meta])* $name:ident: $dark:literal, $light:literal;)*) => {
        #[derive(Clone, Copy, Debug)]
        pub struct ThemeColors {
            $($(#[$doc])* pub $name: Color32,)*
        }

        const DARKROOM: ThemeColors = ThemeColors { $($name: rgb($dark),)* };
        const DAYLIGHT: ThemeColors = ThemeColors { $($name: rgb($light),)* };
    };
}

// Each colour in the darkroom and in daylight.
theme_colors! {
    panel: 0x1a_1614, 0xf7_f5f3;
    stage: 0x0c_0a09, 0xe1_e1e1;
    field: 0x11_0e0d, 0xff_ffff;
    raised: 0x2a_2421, 0xec_e8e4;
    hovered: 0x38_302b, 0xdf_dad5;
    line: 0x35_2d28, 0xd2_ccc6;
    text: 0xec_e4db, 0x27_2320;
    weak: 0xa3_978c, 0x61_5b56;
    /// The safelight itself.
    accent: 0xf0_4a2e, 0xc9_3519;
    on_accent: 0xff_f6f0, 0xff_fdfa;
    /// Behind what is chosen, and its text.
    selected: 0x8f_3222, 0x4a_433e;
    on_selected: 0xf8_f0e8, 0xff_ffff;
    amber: 0xf5_a95c, 0x8a_4b08;
    error: 0xff_7d66, 0xb0_2a12;
    good: 0x9c_c98a, 0x33_6524;
    used: 0xf5_a95c, 0x9d_5b0f;
    allocated: 0xf0_4a2e, 0xc9_3519;
    reserved: 0xb0_7aa1, 0x80_4a75;
    cap: 0x8d_8278, 0x74_6960;
    /// Of the machine around the job.
    cache: 0x6f_9fb0, 0x2f_6b80;
    available: 0x86_b07a, 0x48_7638;
}

/// Left and right, then top and bottom.
pub const fn margin([left, right]: [i8; 2], [top, bottom]: [i8; 2]) -> Margin {
    Margin {
        left,
        right,
        top,
        bottom,
    }
}

/// Colours of the overlay that shows a mask, one of which differs from any image.
pub const MASK_COLOURS: [(Color32, &str); 4] = [
    (rgb(0xf0_4a2e), "Red"),
    (rgb(0x2f_d05f), "Green"),
    (rgb(0x2f_7dff), "Blue"),
    (rgb(0xff_d52e), "Yellow"),
];

pub fn palette(visuals: &Visuals) -> &'static ThemeColors {
    if visuals.dark_mode {
        &DARKROOM
    } else {
        &DAYLIGHT
    }
}

/// Tint of the band that shows a stage in the memory graph, the same in every job.
pub fn stage_tint(palette: &ThemeColors, stage: Stage) -> Color32 {
    let tint = match stage {
        Stage::EncodeText => palette.amber,
        Stage::EncodeImage => palette.available,
        Stage::EncodeVision => palette.cache,
        Stage::Denoise | Stage::DenoiseHigh => palette.accent,
        Stage::DenoiseLow => palette.reserved,
        Stage::Unload => palette.cap,
        Stage::Decode | Stage::Upscale | Stage::Interpolate | Stage::Depth => palette.good,
        Stage::Save => palette.weak,
    };
    tint.gamma_multiply(0.13)
}

/// Gives the context both looks, the fonts and the chosen theme.
pub fn install(ctx: &Context) {
    crate::window::widgets::icons::install(ctx);
    for (theme, palette) in [
        (egui::Theme::Dark, &DARKROOM),
        (egui::Theme::Light, &DAYLIGHT),
    ] {
        ctx.style_mut_of(theme, |style| {
            style.visuals = visuals(theme, palette);
            style.spacing.item_spacing = vec2(8.0, SMALL_GAP);
            style.spacing.button_padding = vec2(10.0, 5.0);
            style.spacing.interact_size.y = 28.0;
            style.spacing.slider_rail_height = 4.0;
            style.spacing.icon_width = 18.0;
            style.spacing.menu_margin = Margin::same(8);
            style.spacing.window_margin = Margin::same(16);
            style.interaction.selectable_labels = false;
            for (text, font) in &mut style.text_styles {
                font.size = match text {
                    TextStyle::Small | TextStyle::Monospace => SMALL_TEXT,
                    TextStyle::Heading => HEADING_TEXT,
                    _ => BODY_TEXT,
                };
            }
        });
    }
}

fn visuals(theme: egui::Theme, palette: &ThemeColors) -> Visuals {
    let mut visuals = theme.default_visuals();
    visuals.panel_fill = palette.panel;
    visuals.window_fill = palette.panel;
    visuals.window_stroke = Stroke::new(1.0, palette.line);
    visuals.window_corner_radius = CornerRadius::same(CARD_RADIUS);
    visuals.menu_corner_radius = CornerRadius::same(CARD_RADIUS);
    visuals.extreme_bg_color = palette.field;
    visuals.text_edit_bg_color = Some(palette.field);
    visuals.faint_bg_color = palette.raised.gamma_multiply(0.5);
    visuals.code_bg_color = palette.field;
    visuals.weak_text_color = Some(palette.weak);
    visuals.hyperlink_color = palette.amber;
    visuals.warn_fg_color = palette.amber;
    visuals.error_fg_color = palette.error;
    visuals.slider_trailing_fill = true;
    visuals.handle_shape = egui::style::HandleShape::Rect { aspect_ratio: 0.36 };
    // A blinking cursor paints the window twice a second, for as long as a field has the keyboard.
    visuals.text_cursor.blink = false;
    visuals.selection = Selection {
        bg_fill: palette.selected,
        stroke: Stroke::new(1.0, palette.on_selected),
    };
    visuals.widgets = widgets(palette);
    visuals
}

fn widgets(palette: &ThemeColors) -> Widgets {
    let state = |fill, line, text| WidgetVisuals {
        bg_fill: fill,
        weak_bg_fill: fill,
        bg_stroke: Stroke::new(1.0, line),
        corner_radius: CornerRadius::same(RADIUS),
        fg_stroke: Stroke::new(1.0, text),
        expansion: 0.0,
    };
    Widgets {
        noninteractive: state(palette.panel, palette.line, palette.text),
        inactive: state(palette.raised, palette.line, palette.text),
        hovered: state(
            palette.hovered,
            palette.amber.gamma_multiply(0.6),
            palette.text,
        ),
        active: state(palette.hovered, palette.accent, palette.text),
        open: state(palette.hovered, palette.line, palette.text),
    }
}

#[cfg(test)]
mod tests {
    use egui::{Id, TextEdit, ViewportId};

    use super::*;

    #[test]
    fn focused_text_field_requests_no_repaint() {
        let ctx = Context::default();
        install(&ctx);
        let mut text = String::from("a boat");
        let mut delay = None;
        for round in 0..10 {
            let input = egui::RawInput {
                time: Some(f64::from(round) * 0.1),
                ..Default::default()
            };
            let mut output = ctx.run_ui(input, |ui| {
                let id = Id::unique("prompt");
                ui.memory_mut(|memory| memory.request_focus(id));
                ui.add(TextEdit::multiline(&mut text).id(id));
            });
            output.textures_delta.clear();
            delay = Some(output.viewport_output[&ViewportId::ROOT].repaint_delay);
        }
        assert_eq!(delay, Some(std::time::Duration::MAX));
    }

    /// As WCAG 2 defines it; 4.5 can be read by most people.
    fn contrast(one: Color32, other: Color32) -> f32 {
        let luminance = |colour: Color32| {
            let [red, green, blue, _] = egui::Rgba::from(colour).to_array();
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn text_colours_have_enough_contrast_on_every_background() {
        for palette in [&DARKROOM, &DAYLIGHT] {
            let assert_readable = |ink: Color32, fill: Color32, least: f32| {
                let found = contrast(ink, fill);
                assert!(
                    found >= least,
                    "{ink:?} on {fill:?} has a contrast of {found}"
                );
            };
            let ThemeColors {
                panel,
                stage,
                field,
                raised,
                ..
            } = *palette;
            let ThemeColors {
                text,
                weak,
                amber,
                error,
                good,
                ..
            } = *palette;
            for fill in [panel, stage, field, raised] {
                for ink in [text, weak, amber, error, good] {
                    assert_readable(ink, fill, 4.5);
                }
            }
            assert_readable(palette.on_selected, palette.selected, 4.5);
            assert_readable(text, palette.hovered, 4.5);
            // Large words only.
            assert_readable(palette.on_accent, palette.accent, 3.0);
            let ThemeColors {
                used,
                allocated,
                reserved,
                cap,
                cache,
                available,
                ..
            } = *palette;
            for ink in [used, allocated, reserved, cap, cache, available] {
                assert_readable(ink, panel, 4.5);
            }
        }
    }
}
