//! Notifications of the desktop, as freedesktop.org describes them, with a click that is told.
//!
//! A desktop without them is no error: then there is silence.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use futures_lite::StreamExt as _;
use zbus::zvariant::Value;

use super::{APP_ID, bus};

const NAME: &str = "org.freedesktop.Notifications";
const PATH: &str = "/org/freedesktop/Notifications";
/// Somebody who comes back later than this finds the window without it.
const CLICKED_WITHIN: Duration = Duration::from_mins(30);

/// What the desktop shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub summary: String,
    pub body: String,
}

/// Shows a message from a thread of its own, and calls back when it is clicked.
pub(super) fn send(message: Message, clicked: Box<dyn FnOnce() + Send>) {
    let spawned = thread::Builder::new()
        .name("notification".to_owned())
        .spawn(
            move || match bus::wait_at_most(CLICKED_WITHIN, show(&message)) {
                Some(Ok(true)) => clicked(),
                Some(Ok(false)) | None => {}
                Some(Err(err)) => tracing::debug!("no notification could be shown: {err}"),
            },
        );
    if let Err(err) = spawned {
        tracing::debug!("no notification could be sent: {err}");
    }
}

/// Whether it was clicked, once it is gone.
async fn show(message: &Message) -> zbus::Result<bool> {
    let connection = bus::session().await?;
    // Before the message, so that no click is missed.
    let mut signals = bus::signals(&connection, NAME).await?;
    let hints = HashMap::from([
        ("desktop-entry", Value::from(APP_ID)),
        ("urgency", Value::from(1_u8)),
    ]);
    let actions = ["default", "Show"];
    let body = escaped(&message.body);
    let content = (
        "Safelight",
        0_u32,
        APP_ID,
        message.summary.as_str(),
        body.as_str(),
        actions.as_slice(),
        hints,
        -1_i32,
    );
    let reply = connection
        .call_method(Some(NAME), PATH, Some(NAME), "Notify", &content)
        .await?;
    let id: u32 = reply.body().deserialize()?;
    while let Some(signal) = signals.next().await {
        let signal = signal?;
        let header = signal.header();
        let Some(member) = header.member() else {
            continue;
        };
        match member.as_str() {
            "ActionInvoked" => {
                let (of, _action): (u32, String) = signal.body().deserialize()?;
                if of == id {
                    return Ok(true);
                }
            }
            "NotificationClosed" => {
                let (of, _reason): (u32, u32) = signal.body().deserialize()?;
                if of == id {
                    return Ok(false);
                }
            }
            _ => {}
        }
    }
    Ok(false)
}

/// The body may hold markup: what looks like it in a prompt is none.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_with_brackets_is_no_markup() {
        assert_eq!(escaped("<lora:a:1> & more"), "&lt;lora:a:1&gt; &amp; more");
    }
}
