//! A thread that looks now and then whether somebody else has written the settings file.
//!
//! It sleeps otherwise, and draws nothing while the file stays as it is.

use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use safelight_core::settings::{SettingsFile, SettingsWatch};

use super::SettingsAnswer;
use crate::app::background::{Answer, Background};

/// How often; an edit acts within twice this time.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Watches until what it gives is dropped.
pub(super) fn start(background: &Background, file: SettingsFile) -> Sender<()> {
    let (stop, stopped) = bounded(0);
    background.spawn("settings", move |postbox| {
        let mut watch = SettingsWatch::new(file);
        while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if let Some(news) = watch.look() {
                postbox.post(Answer::Settings(SettingsAnswer::News(news)));
            }
        }
    });
    stop
}
