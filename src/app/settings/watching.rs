//! A thread that looks now and then whether somebody else has written the settings file.
//!
//! It sleeps otherwise, and draws nothing while the file stays as it is.

use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use safelight_core::settings::{SettingsFile, SettingsNews, SettingsWatch};

use crate::app::background::Background;
use crate::app::pending::Stream;

/// How often; an edit acts within twice this time.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Watches until the first of what it gives is dropped.
pub(super) fn start(
    background: &Background,
    file: SettingsFile,
) -> (Sender<()>, Stream<SettingsNews>) {
    let (stop, stopped) = bounded(0);
    let news = background.stream("settings", move |postbox| {
        let mut watch = SettingsWatch::new(file);
        while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if let Some(news) = watch.look() {
                postbox.post(news);
            }
        }
    });
    (stop, news)
}
