//! The window's place on the screen and its theme.

use eframe::Frame;
use egui::{Context, Rect, ThemePreference, Vec2, ViewportBuilder, ViewportCommand, pos2, vec2};
use futures_lite::StreamExt as _;
use safelight_core::settings::ThemeChoice;
use zbus::zvariant::{OwnedValue, Value};

use crate::window::desktop::notification;

/// Minimum visible part of the window, in pixels, by which it can be dragged.
const MIN_SEEN: Vec2 = vec2(160.0, 48.0);
const NAME: &str = "org.freedesktop.portal.Desktop";
const PATH: &str = "/org/freedesktop/portal/desktop";
const INTERFACE: &str = "org.freedesktop.portal.Settings";
const NAMESPACE: &str = "org.freedesktop.appearance";
const KEY: &str = "color-scheme";

/// The remembered size is in points of the scale that the settings name, and the window is made before that acts.
pub fn at_scale(mut builder: ViewportBuilder, scale: f32) -> ViewportBuilder {
    let size = builder.inner_size;
    builder.inner_size = size.map(|size| size * scale);
    // Neither a large scale nor a small screen, to which the size is clamped already, may give a window that is larger
    // than the screen.
    builder.min_inner_size = builder.min_inner_size.map(|least| {
        let least = least / scale.max(1.0);
        size.map_or(least, |size| least.min(size))
    });
    builder
}

/// Once the window is there: brings it back to a screen, and makes it no larger than that. `least`: smallest size of
/// the window in points on a screen that has room for it.
pub fn correct(ctx: &Context, frame: &Frame, least: Vec2) {
    let Some(window) = frame.winit_window() else {
        return;
    };
    let screens = window.available_monitors().map(|monitor| {
        let (position, size) = (monitor.position(), monitor.size());
        rect(position.x, position.y, size.width, size.height)
    });
    let screens: Vec<Rect> = screens.collect();
    // A window system that keeps positions private also restores them.
    let Ok(position) = window.outer_position() else {
        return;
    };
    let size = window.outer_size();
    let now = rect(position.x, position.y, size.width, size.height);
    let Some(better) = corrected(now, &screens) else {
        return;
    };
    let points = ctx.pixels_per_point();
    if better.size() != now.size() {
        let inner = window.inner_size();
        let edges = now.size() - vec2(inner.width as f32, inner.height as f32);
        let size = (better.size() - edges) / points;
        ctx.send_viewport_cmd(ViewportCommand::MinInnerSize(size.min(least)));
        ctx.send_viewport_cmd(ViewportCommand::InnerSize(size));
    }
    ctx.send_viewport_cmd(ViewportCommand::OuterPosition(better.min / points));
}

fn rect(x: i32, y: i32, width: u32, height: u32) -> Rect {
    Rect::from_min_size(pos2(x as f32, y as f32), vec2(width as f32, height as f32))
}

/// A better position in pixels; `None` if the window is visible where it is.
fn corrected(window: Rect, screens: &[Rect]) -> Option<Rect> {
    let seen = |screen: &Rect| {
        let part = window.intersect(*screen);
        if part.is_positive() { part.area() } else { 0.0 }
    };
    let screens = screens.iter().copied().filter(Rect::is_positive);
    let best = screens.max_by(|a, b| seen(a).total_cmp(&seen(b)))?;
    let part = window.intersect(best);
    let is_seen = part.width() >= MIN_SEEN.x.min(window.width())
        && part.height() >= MIN_SEEN.y.min(window.height());
    // Its title bar is what one gets hold of.
    let is_held = window.min.y >= best.min.y - 1.0;
    let fits = window.width() <= best.width() && window.height() <= best.height();
    if is_seen && is_held && fits {
        return None;
    }
    let size = window.size().min(best.size());
    let min = window.min.clamp(best.min, best.max - size);
    Some(Rect::from_min_size(min, size))
}

/// Tells how the desktop looks, now and whenever it changes, for as long as there is a bus.
pub(super) fn follow(tell: impl Fn(ThemeChoice)) {
    if let Err(err) = notification::wait(follow_portal(tell)) {
        tracing::debug!("the desktop does not say how it looks: {err}");
    }
}

pub fn choose(ctx: &Context, theme: ThemeChoice) {
    ctx.set_theme(match theme {
        ThemeChoice::Dark => ThemePreference::Dark,
        ThemeChoice::Light => ThemePreference::Light,
        ThemeChoice::System => ThemePreference::System,
    });
}

pub fn adopt(ctx: &Context, looks: ThemeChoice) {
    let looks = match looks {
        ThemeChoice::Light => egui::Theme::Light,
        ThemeChoice::Dark | ThemeChoice::System => egui::Theme::Dark,
    };
    ctx.options_mut(|options| options.fallback_theme = looks);
}

/// Theme that is not shown.
pub fn other(ctx: &Context) -> ThemeChoice {
    match ctx.theme() {
        egui::Theme::Dark => ThemeChoice::Light,
        egui::Theme::Light => ThemeChoice::Dark,
    }
}

async fn follow_portal(tell: impl Fn(ThemeChoice)) -> zbus::Result<()> {
    let connection = notification::session().await?;
    let mut signals = notification::signals(&connection, INTERFACE).await?;
    let arguments = (NAMESPACE, KEY);
    let reply = connection
        .call_method(Some(NAME), PATH, Some(INTERFACE), "Read", &arguments)
        .await?;
    let value: OwnedValue = reply.body().deserialize()?;
    if let Some(looks) = looks_of(&value) {
        tell(looks);
    }
    while let Some(signal) = signals.next().await {
        let signal = signal?;
        let Ok((namespace, key, value)) =
            signal.body().deserialize::<(String, String, OwnedValue)>()
        else {
            continue;
        };
        if let (NAMESPACE, KEY, Some(looks)) = (namespace.as_str(), key.as_str(), looks_of(&value))
        {
            tell(looks);
        }
    }
    Ok(())
}

/// 1 is dark, 2 light, and 0 no preference, which is how desktops report light.
fn looks_of(value: &Value<'_>) -> Option<ThemeChoice> {
    match value {
        // Wrapped once or twice, by the portal's version.
        Value::Value(inner) => looks_of(inner),
        Value::U32(1) => Some(ThemeChoice::Dark),
        Value::U32(_) => Some(ThemeChoice::Light),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCREEN: Rect = Rect {
        min: pos2(0.0, 0.0),
        max: pos2(1920.0, 1080.0),
    };

    #[test]
    fn a_window_on_a_screen_that_is_gone_comes_back_to_one_that_is_there() {
        let window = rect(2500, 300, 1240, 820);
        let second = rect(1920, 0, 1920, 1080);
        assert_eq!(corrected(window, &[SCREEN, second]), None);
        let better = corrected(window, &[SCREEN]).unwrap();
        assert!(SCREEN.contains_rect(better) && better.size() == window.size());
        assert_eq!(corrected(window, &[]), None, "nothing is known");
    }

    #[test]
    fn a_window_is_no_larger_than_its_screen_and_its_title_bar_can_be_reached() {
        let better = corrected(rect(-10, -40, 3720, 2460), &[SCREEN]).unwrap();
        assert_eq!(better, SCREEN);
        let better = corrected(rect(100, -300, 800, 600), &[SCREEN]).unwrap();
        assert_eq!(better.min, pos2(100.0, 0.0));
        let found = corrected(rect(-200, 900, 1240, 820), &[SCREEN]);
        assert_eq!(found, None, "half of it is seen");
    }

    #[test]
    fn a_remembered_size_in_points_is_the_same_in_pixels_at_any_scale() {
        let builder = ViewportBuilder::default().with_inner_size(vec2(620.0, 410.0));
        assert_eq!(at_scale(builder, 2.0).inner_size, Some(vec2(1240.0, 820.0)));
    }

    #[test]
    fn the_smallest_size_is_no_larger_than_a_small_screen() {
        // 1280x800 pixels at a scale factor of 2.
        let builder = ViewportBuilder::default()
            .with_inner_size(vec2(640.0, 400.0))
            .with_min_inner_size(vec2(800.0, 500.0));
        let least = at_scale(builder.clone(), 1.0).min_inner_size;
        assert_eq!(least, Some(vec2(640.0, 400.0)));
        let wide = builder.with_inner_size(vec2(1240.0, 820.0));
        assert_eq!(at_scale(wide, 1.0).min_inner_size, Some(vec2(800.0, 500.0)));
    }

    #[test]
    fn the_portals_number_is_found_in_any_wrapping() {
        let twice = Value::Value(Box::new(Value::Value(Box::new(Value::U32(1)))));
        assert_eq!(looks_of(&twice), Some(ThemeChoice::Dark));
        assert_eq!(looks_of(&Value::U32(0)), Some(ThemeChoice::Light));
        assert_eq!(looks_of(&Value::from("dark")), None);
    }
}
