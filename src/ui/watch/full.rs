//! The picture on the whole screen: nothing but it, and a bar that fades when nobody moves the pointer or presses a key.
//!
//! The bar's buttons are [`super::bar`]'s.

use egui::{
    Align2, Area, CornerRadius, CursorIcon, Event, Frame, Id, Margin, Order, Popup, Rect, Stroke,
    Ui, vec2,
};

use crate::app::player::Viewing;
use crate::ui::watch::caption;
use crate::ui::watch::{bar, compare, picture_ui};
use crate::ui::widgets::palette;
use crate::ui::{View, theme};

/// The bar stays so long after the last movement.
const STAYS_SECS: f64 = 2.5;
/// So long it takes to fade.
const FADE_SECS: f32 = 0.25;

/// What is remembered of the bar.
#[derive(Default)]
pub(super) struct FullBar {
    /// When it fades; nothing before it was shown.
    fades_at: Option<f64>,
    /// Where it stands.
    place: Option<Rect>,
}

/// Gives the place of the picture.
pub(super) fn full_ui(ui: &mut Ui, view: &mut View<'_>) -> Rect {
    let area = ui.available_rect_before_wrap();
    if view.app.watch.viewing == Viewing::Compare {
        compare::pictures_ui(ui, view, area);
    } else {
        picture_ui(ui, view, area);
    }
    let is_shown = is_bar_shown(ui, view);
    let id = Id::unique("bar-over-the-picture");
    let strength = ui
        .ctx()
        .animate_bool_with_time(id.with("fade"), is_shown, FADE_SECS);
    if strength <= 0.0 {
        view.panels.watch.full_bar.place = None;
        ui.ctx().set_cursor_icon(CursorIcon::None);
        return area;
    }
    let palette = palette(ui);
    let width = theme::FULL_BAR_WIDTH.min(area.width() - 2.0 * theme::STAGE_MARGIN);
    let shown = Area::new(id)
        .order(Order::Middle)
        .pivot(Align2::CENTER_BOTTOM)
        .fixed_pos(area.center_bottom() - vec2(0.0, theme::STAGE_MARGIN))
        .show(ui.ctx(), |ui| {
            ui.set_opacity(strength);
            let frame = Frame::new()
                .fill(palette.panel.gamma_multiply(0.92))
                .stroke(Stroke::new(1.0, palette.line))
                .corner_radius(CornerRadius::same(theme::CARD_RADIUS))
                .inner_margin(Margin::symmetric(12, 8));
            let margin = frame.total_margin().sum().x;
            frame.show(ui, |ui| {
                ui.set_width(width - margin);
                let told = caption::told(view);
                bar::bar_ui(ui, view, told.as_ref());
                if view.app.watch.viewing == Viewing::Compare {
                    compare::controls_ui(ui, view);
                }
            });
        });
    view.panels.watch.full_bar.place = Some(shown.response.rect);
    area
}

/// Forgets when the bar was shown.
pub(super) fn leave(view: &mut View<'_>) {
    view.panels.watch.full_bar = FullBar::default();
}

/// Whether somebody has done something lately, or rests on the bar. Wakes the window when that ends.
fn is_bar_shown(ui: &Ui, view: &mut View<'_>) -> bool {
    let bar = &mut view.panels.watch.full_bar;
    let (now, is_active, pointer) = ui.input(|input| {
        let is_active = input.events.iter().any(|event| {
            matches!(
                event,
                Event::PointerMoved(_)
                    | Event::MouseMoved(_)
                    | Event::PointerButton { .. }
                    | Event::Touch { .. }
                    | Event::Key { pressed: true, .. }
            )
        });
        (input.time, is_active, input.pointer.latest_pos())
    });
    let rests = bar
        .place
        .zip(pointer)
        .is_some_and(|(it, at)| it.contains(at));
    let has_keyboard = ui.memory(|memory| memory.focused().is_some());
    let is_held = rests || has_keyboard || Popup::is_any_open(ui.ctx());
    let fades_at = match bar.fades_at {
        Some(fades_at) if !is_active && !is_held => fades_at,
        _ => now + STAYS_SECS,
    };
    bar.fades_at = Some(fades_at);
    let left = fades_at - now;
    if left > 0.0 && !is_held {
        ui.ctx().request_repaint_after_secs(left as f32);
    }
    left > 0.0
}
