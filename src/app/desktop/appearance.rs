//! Whether the desktop is dark or light, by the settings portal of freedesktop.org, and when that changes.
//!
//! The window library does not know it on Linux. Without a portal the window stays as it is.

use egui::{Context, ThemePreference};
use futures_lite::StreamExt as _;
use safelight_core::settings::Theme;
use zbus::zvariant::{OwnedValue, Value};

use super::bus;

const NAME: &str = "org.freedesktop.portal.Desktop";
const PATH: &str = "/org/freedesktop/portal/desktop";
const INTERFACE: &str = "org.freedesktop.portal.Settings";
const NAMESPACE: &str = "org.freedesktop.appearance";
const KEY: &str = "color-scheme";

/// Tells how the desktop looks, now and whenever it changes, for as long as there is a bus.
pub(super) fn follow(tell: impl Fn(Theme)) {
    if let Err(err) = bus::wait(follow_portal(tell)) {
        tracing::debug!("the desktop does not say how it looks: {err}");
    }
}

/// Dresses the window so from now on.
pub fn choose(ctx: &Context, theme: Theme) {
    ctx.set_theme(match theme {
        Theme::Dark => ThemePreference::Dark,
        Theme::Light => ThemePreference::Light,
        Theme::System => ThemePreference::System,
    });
}

/// How the desktop looks, where the look is to be the desktop's.
pub fn adopt(ctx: &Context, looks: Theme) {
    let looks = match looks {
        Theme::Light => egui::Theme::Light,
        Theme::Dark | Theme::System => egui::Theme::Dark,
    };
    ctx.options_mut(|options| options.fallback_theme = looks);
}

/// The look that is not shown.
pub fn other(ctx: &Context) -> Theme {
    match ctx.theme() {
        egui::Theme::Dark => Theme::Light,
        egui::Theme::Light => Theme::Dark,
    }
}

async fn follow_portal(tell: impl Fn(Theme)) -> zbus::Result<()> {
    let connection = bus::session().await?;
    let mut signals = bus::signals(&connection, INTERFACE).await?;
    let asked = (NAMESPACE, KEY);
    let reply = connection
        .call_method(Some(NAME), PATH, Some(INTERFACE), "Read", &asked)
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

/// 1 is dark, 2 light, and 0 no wish: which is how desktops say that they are light.
fn looks_of(value: &Value<'_>) -> Option<Theme> {
    match value {
        // Wrapped once or twice, by the portal's version.
        Value::Value(inner) => looks_of(inner),
        Value::U32(1) => Some(Theme::Dark),
        Value::U32(_) => Some(Theme::Light),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_portals_number_is_found_in_any_wrapping() {
        let twice = Value::Value(Box::new(Value::Value(Box::new(Value::U32(1)))));
        assert_eq!(looks_of(&twice), Some(Theme::Dark));
        assert_eq!(looks_of(&Value::U32(0)), Some(Theme::Light));
        assert_eq!(looks_of(&Value::from("dark")), None);
    }
}
