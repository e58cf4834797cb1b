//! The check on updates, which is made only when somebody asks for it.

use safelight_core::settings::UpdateSettings;

use super::Check;
use crate::updates::{VERSION, newest};

/// Asks the address of the settings, where there is one.
pub fn updates(settings: &UpdateSettings) -> Check {
    let Some(feed) = &settings.feed else {
        let message = format!(
            "this is Safelight {VERSION}; no address for updates is set, so nothing was asked"
        );
        return Check::warn("updates", message).advise(
            "Safelight has no address of its own yet: name one in the setting updates.feed",
        );
    };
    match newest(feed) {
        Ok(newest) if newest.is_newer() => {
            let message = format!(
                "Safelight {} is there, and this is {VERSION}",
                newest.version
            );
            Check::warn("updates", message).advise(newest.page.unwrap_or_default())
        }
        Ok(_) => Check::ok("updates", format!("Safelight {VERSION} is the newest")),
        Err(err) => Check::fail("updates", err.summary).advise(err.advice),
    }
}
