//! State of each other computer, below its settings.

use crate::computers::link::ComputerState;
use crate::window::layout::prelude::*;

/// Setting below which they are shown.
pub(crate) const KEY: &str = "computers.hosts";

pub(crate) fn states_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    for computer in &view.app.computers.list {
        let (colour, text, advice) = match &computer.state {
            ComputerState::Connecting => (palette(ui).weak, "connecting".to_owned(), ""),
            ComputerState::Connected(info) => {
                let models = counted(info.models.len(), "1 model", "{} models");
                let (free, total) = (size_text(info.free_bytes), size_text(info.total_bytes));
                let text = format!(
                    "Safelight {}, {}, {free} of {total} free, {models}",
                    info.version, info.device
                );
                (palette(ui).text, text, "")
            }
            ComputerState::Failed(err) => {
                (palette(ui).amber, err.summary.clone(), err.advice.as_str())
            }
        };
        ui.horizontal_wrapped(|ui| {
            ui.strong(&computer.host);
            ui.label(RichText::new(text).color(colour));
            let name = format!("Reconnect: {}", computer.host);
            let button = Button::new("Reconnect");
            if matches!(computer.state, ComputerState::Failed(_))
                && pressed(ui.add(button), "Connect now instead of waiting", &name)
            {
                let host = computer.host.clone();
                view.set(move |app| {
                    let mut list = app.computers.list.iter();
                    if let Some(computer) = list.find(|it| it.host == host) {
                        computer.reconnect();
                    }
                });
            }
        });
        if !advice.is_empty() {
            small_line(ui, sentence(advice));
        }
    }
}
