//! Whether the colours of both themes can be read, and what the style does.

use egui::{Id, TextEdit, ViewportId};

use crate::window::widgets::theme::*;

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
