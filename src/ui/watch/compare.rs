//! Two results beside each other, one wiped over the other, or how far they differ; and the menu that begins it.
//!
//! What is compared is the app's; here it is drawn and its divider is moved.

use egui::{
    Align2, Button, Color32, Label, Rect, RichText, Sense, Slider, Stroke, Ui, Vec2, pos2, vec2,
};
use safelight_core::job::JobId;

use crate::app::commands::PlayerCommand;
use crate::app::player::Viewing;
use crate::app::player::compare::{Compare, CompareMode, GAINS};
use crate::app::player::screen::Screen;
use crate::app::player::zoom::Zoom;
use crate::ui::watch::result::{button, live_button};
use crate::ui::watch::stage;
use crate::ui::widgets::{badge, choice, palette, with_icon};
use crate::ui::{View, icons, theme};

/// Results that are offered.
const MAX_OFFERED: usize = 30;
const MODES: [(CompareMode, &str, &str); 3] = [
    (
        CompareMode::SideBySide,
        "Side by side",
        "A at the left, B at the right",
    ),
    (
        CompareMode::Wipe,
        "Wipe",
        "B over A: drag the line between them, or use the keys [ and ]",
    ),
    (
        CompareMode::Difference,
        "Difference",
        "How far each pixel of B is from A's: black where they are the same",
    ),
];

/// Offers the other results of this session to be put beside what is shown.
pub(super) fn compare_menu(ui: &mut Ui, view: &mut View<'_>) {
    let shown = match view.app.watch.viewing {
        Viewing::Result(id) => Some(id),
        _ => None,
    };
    let others: Vec<(JobId, String)> = view
        .app
        .queue
        .results
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, item)| Some(item.id) != shown)
        .take(MAX_OFFERED)
        .map(|(index, item)| {
            let prompt: String = item.request.prompt.chars().take(40).collect();
            let text = format!("{}: {prompt}, seed {}", index + 1, item.request.seed);
            (item.id, text)
        })
        .collect();
    let explanation =
        "Look at this and another result together. Ctrl-click in the strip below does the same";
    if others.is_empty() {
        ui.add_enabled(false, Button::new(with_icon(icons::COLUMNS, "Compare")))
            .on_disabled_hover_text("There is no other result yet")
            .accessible_name("Compare");
        return;
    }
    let menu = ui.menu_button(with_icon(icons::COLUMNS, "Compare"), |ui| {
        for (id, text) in &others {
            if ui.button(text).clicked() {
                view.push(PlayerCommand::CompareWith(*id));
                ui.close();
            }
        }
    });
    menu.response
        .on_hover_text(explanation)
        .accessible_name("Compare");
}

pub(super) fn controls_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(compare) = &view.app.watch.compare else {
        return;
    };
    ui.horizontal_wrapped(|ui| {
        for (mode, name, explanation) in MODES {
            if choice(ui, compare.mode == mode, name, explanation).clicked() {
                view.push(PlayerCommand::CompareAs(mode));
            }
        }
        match compare.mode {
            CompareMode::SideBySide => {}
            CompareMode::Wipe => divider_slider(ui, view, compare),
            CompareMode::Difference => gain_ui(ui, view, compare),
        }
        if button(ui, icons::SWAP, "Swap A and B", "Let A and B change places") {
            view.push(PlayerCommand::SwapSides);
        }
        if button(
            ui,
            icons::X,
            "Leave",
            "Back to what was shown before (Escape)",
        ) {
            view.push(PlayerCommand::LeaveCompare);
        }
    });
    lines_ui(ui, compare);
    live_button(ui, view);
}

fn divider_slider(ui: &mut Ui, view: &mut View<'_>, compare: &Compare) {
    let mut divider = compare.divider;
    ui.spacing_mut().slider_width = theme::LABEL_WIDTH * 1.5;
    let slider = Slider::new(&mut divider, 0.0..=1.0).show_value(false);
    ui.add(slider)
        .on_hover_text("Where A ends and B begins (keys [ and ])")
        .accessible_name("Divider");
    move_divider(view, compare, divider);
}

fn move_divider(view: &mut View<'_>, compare: &Compare, to: f32) {
    if to != compare.divider {
        view.push(PlayerCommand::MoveDivider(to - compare.divider));
    }
}

fn gain_ui(ui: &mut Ui, view: &mut View<'_>, compare: &Compare) {
    for gain in GAINS {
        let name = format!("{gain} times");
        let explanation = format!("Differences are shown {gain} times as strong as they are");
        if choice(ui, compare.gain == gain, &name, &explanation).clicked() {
            view.push(PlayerCommand::Amplify(gain));
        }
    }
}

/// What A and B are, and what differs in how they were made.
fn lines_ui(ui: &mut Ui, compare: &Compare) {
    let palette = palette(ui);
    let lines = compare.differences.lines();
    for ((letter, side), line) in ["A", "B"].into_iter().zip(&compare.sides).zip(&lines) {
        ui.spacing_mut().interact_size.y = 0.0;
        ui.horizontal(|ui| {
            ui.label(RichText::new(letter).strong().color(palette.amber));
            let text = format!("{line}  ·  {}", side.title);
            let label = Label::new(RichText::new(&text).small().color(palette.weak)).truncate();
            ui.add(label).on_hover_text(&text);
        });
    }
}

pub(super) fn pictures_ui(ui: &mut Ui, view: &mut View<'_>, area: Rect) {
    let Some(compare) = &view.app.watch.compare else {
        return;
    };
    match compare.mode {
        CompareMode::SideBySide => side_by_side_ui(ui, view, compare, area),
        CompareMode::Wipe => wipe_ui(ui, view, compare, area),
        CompareMode::Difference => {
            let size = compare.difference.size().unwrap_or(Vec2::splat(1.0));
            let (response, shown) = stage::stage_ui(ui, view, area, size);
            named(&response, "Difference of A and B");
            stage::paint(ui, area, shown, &compare.difference, Color32::WHITE);
            stage::edge(ui, area, shown, palette(ui).line);
        }
    }
}

fn named(response: &egui::Response, name: &str) {
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, name));
}

fn size_of(screen: &Screen) -> Vec2 {
    screen.size().unwrap_or(Vec2::splat(1.0))
}

fn side_by_side_ui(ui: &mut Ui, view: &mut View<'_>, compare: &Compare, area: Rect) {
    let (left, right) = area.split_left_right_at_fraction(0.5);
    for (place, side, letter) in [
        (left, &compare.sides[0], "A"),
        (right, &compare.sides[1], "B"),
    ] {
        let (response, shown) = stage::stage_ui(ui, view, place, size_of(&side.screen));
        named(&response, &format!("{letter}: {}", side.title));
        stage::paint(ui, place, shown, &side.screen, Color32::WHITE);
        stage::edge(ui, place, shown, palette(ui).line);
        let corner = shown.intersect(place).left_top();
        letter_ui(ui, corner + vec2(6.0, 6.0), Align2::LEFT_TOP, letter);
    }
}

fn wipe_ui(ui: &mut Ui, view: &mut View<'_>, compare: &Compare, area: Rect) {
    let size = size_of(&compare.sides[0].screen);
    let (response, shown) = stage::stage_ui(ui, view, area, size);
    let names = format!(
        "A: {}, B: {}",
        compare.sides[0].title, compare.sides[1].title
    );
    named(&response, &names);
    // B in A's place, each in its own shape.
    let other = Zoom::Fit.rect(shown, size_of(&compare.sides[1].screen));
    let visible = shown.intersect(area);
    let x = visible.left() + visible.width() * compare.divider;
    let left = Rect::from_min_max(area.min, pos2(x, area.max.y));
    let right = Rect::from_min_max(pos2(x, area.min.y), area.max);
    stage::paint(ui, left, shown, &compare.sides[0].screen, Color32::WHITE);
    stage::paint(ui, right, other, &compare.sides[1].screen, Color32::WHITE);
    stage::edge(ui, area, shown, palette(ui).line);
    let line = Rect::from_center_size(
        pos2(x, visible.center().y),
        vec2(theme::DIVIDER_GRIP, visible.height()),
    );
    // Above the picture, so that it takes the drag.
    let grip = ui.interact(line, ui.scope_id().with("divider"), Sense::drag());
    let grip = grip.on_hover_cursor(egui::CursorIcon::ResizeHorizontal);
    if let Some(pointer) = grip.interact_pointer_pos() {
        let at = (pointer.x - visible.left()) / visible.width().max(1.0);
        move_divider(view, compare, at.clamp(0.0, 1.0));
    }
    let colour = if grip.hovered() || grip.dragged() {
        palette(ui).accent
    } else {
        palette(ui).amber
    };
    ui.painter()
        .vline(x, visible.y_range(), Stroke::new(2.0, colour));
    let top = visible.top() + 6.0;
    letter_ui(ui, pos2(visible.left() + 6.0, top), Align2::LEFT_TOP, "A");
    letter_ui(ui, pos2(visible.right() - 6.0, top), Align2::RIGHT_TOP, "B");
}

/// A letter that can be read on any picture.
fn letter_ui(ui: &Ui, at: egui::Pos2, align: Align2, letter: &str) {
    let palette = palette(ui);
    let size = Vec2::splat(theme::COUNT_SIZE * 1.2);
    let rect = align.anchor_size(at, size);
    let ground = palette.stage.gamma_multiply(0.85);
    badge(
        ui,
        rect,
        ground,
        letter,
        (theme::COUNT_SIZE * 0.75, palette.text),
    );
}
