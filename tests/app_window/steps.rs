//! What a person does in the window, and what a test waits for.

use std::path::Path;

use egui::accesskit::Role;
use egui::{Key, Modifiers, Pos2, Rect};
use egui_kittest::Node;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use safelight::window::commands::AppCommand;
use safelight::window::create::choices::InputSlot;
use safelight::window::viewer::ViewerMode;
use safelight_core::job::SizeChoice;
use safelight_core::settings::Settings;

use super::Bench;

impl Bench {
    pub fn has_node(&self, role: Role, name: &str) -> bool {
        let found = self.harness.query_by_role_and_label(role, name);
        found.is_some()
    }

    pub fn has_label(&self, name: &str) -> bool {
        self.harness.query_by_label(name).is_some()
    }

    pub fn rect(&self, role: Role, name: &str) -> Rect {
        self.node(role, name).rect()
    }

    pub fn count(&self, text: &str) -> usize {
        self.harness.query_all_by_label_contains(text).count()
    }

    pub fn run(&mut self, command: impl Into<AppCommand>) {
        self.push(command);
        self.harness.step();
        self.settle();
    }

    pub fn change_settings(&mut self, change: impl FnOnce(&mut Settings)) {
        let mut settings = self.app().cx.settings.clone();
        change(&mut settings);
        self.run(safelight::window::commands::SettingsCommand::Change(
            Box::new(settings),
        ));
    }

    pub fn set_model(&mut self, id: &str) {
        self.form().model = Some(id.to_owned());
        self.settle();
    }

    pub fn set_size(&mut self, width: u32, height: u32) {
        let form = self.form();
        (form.size, form.width, form.height) = (SizeChoice::Custom, Some(width), Some(height));
        self.settle();
    }

    pub fn scroll_and_press(&mut self, name: &str) {
        self.scroll_to(name);
        self.press(name);
    }

    /// Chooses from the menu of the result that is shown.
    pub fn press_more(&mut self, name: &str) {
        self.press("More");
        self.press(name);
    }

    pub fn open_advanced(&mut self) {
        self.scroll_to("Advanced");
        self.click_label("Advanced");
    }

    pub fn choose(&mut self, list: &str, entry: &str) {
        self.scroll_to(list);
        self.click(Role::ComboBox, list);
        // A long list scrolls.
        self.entry(entry).scroll_to_me();
        self.settle();
        self.entry(entry).click();
        self.settle();
    }

    fn entry<'a>(&'a self, name: &'a str) -> Node<'a> {
        let mut entries = self.harness.get_all_by_role_and_label(Role::Button, name);
        entries.next().expect("an entry")
    }

    pub fn focus_and_type(&mut self, role: Role, name: &str, text: &str) {
        self.node(role, name).focus();
        self.settle();
        self.node(role, name).type_text(text);
        self.settle();
    }

    pub fn has_focus(&self, role: Role, name: &str) -> bool {
        let node = self.node(role, name);
        node.accesskit_node().is_focused()
    }

    /// Has the pointer over a button, drops a file there, and waits for a text.
    pub fn drop_onto(&mut self, place: &str, file: &Path, text: &str) {
        let place = self.rect(Role::Button, place).center();
        self.harness.hover_at(place);
        self.settle();
        self.drop_until(file, text);
    }

    /// Clicks at a place as a mouse does, a frame for each part of it.
    pub fn click_at(&mut self, place: Pos2) {
        self.harness.hover_at(place);
        self.harness.step();
        for pressed in [true, false] {
            self.harness.event(primary_button(place, pressed));
            self.harness.step();
        }
    }

    /// Turns the wheel by this, in lines or points.
    pub fn turn_wheel(&mut self, unit: egui::MouseWheelUnit, by: f32) {
        self.harness.event(egui::Event::MouseWheel {
            unit,
            delta: egui::vec2(0.0, by),
            phase: egui::TouchPhase::Move,
            source: egui::MouseWheelSource::Wheel,
            modifiers: Modifiers::NONE,
        });
        self.harness.step();
    }

    /// Drags from one place to another, a frame for each part of the way.
    pub fn drag_and_drop(&mut self, from: Pos2, to: Pos2) {
        self.harness.drag_at(from);
        self.harness.step();
        self.harness.hover_at(from - egui::vec2(0.0, 20.0));
        self.harness.step();
        self.harness.hover_at(to);
        self.harness.step();
        self.harness.drop_at(to);
        self.settle();
    }

    /// Pastes an image of 40 by 30 pixels into the window.
    pub fn paste_image(&mut self) {
        let image = egui::ColorImage::filled([40, 30], egui::Color32::RED);
        let paste = egui::Event::PasteImage(std::sync::Arc::new(image));
        self.harness.event(paste);
        self.harness.step();
        self.wait_for("40 × 30 pixels");
    }

    pub fn click_secondary(&mut self, name: &str) {
        self.labelled(name).click_secondary();
        self.settle();
    }

    pub fn undo(&mut self) {
        self.press_keys(Modifiers::COMMAND, Key::Z);
    }

    pub fn search_commands(&mut self, text: &str) {
        self.press_keys(Modifiers::COMMAND, Key::K);
        self.type_into("Search commands", text);
    }

    pub fn until_video(&mut self) {
        let is_there = |bench: &mut Self| bench.app().inputs.video().is_some();
        self.until("a video is in the form", is_there);
    }

    pub fn until_input(&mut self, slot: InputSlot) {
        let is_there = |bench: &mut Self| bench.app().inputs.get(slot).is_some();
        self.until("the input is opened", is_there);
    }

    /// Waits until the viewer shows a file.
    pub fn until_file(&mut self, path: &Path) {
        self.until("the file is shown", |bench| {
            let watch = &bench.app().watch;
            let is_it = watch.media().is_some_and(|file| file.path_of(0) == path);
            is_it && watch.mode == ViewerMode::File && watch.texture.size().is_some()
        });
    }

    pub fn until_prompt(&mut self, prompt: &str) {
        let is_there = |bench: &mut Self| bench.form().prompt == prompt;
        self.until(prompt, is_there);
    }

    pub fn until_card(&mut self) {
        let is_there = |bench: &mut Self| bench.has_cards();
        self.until("a card is there", is_there);
    }

    pub fn until_no_card(&mut self) {
        let is_gone = |bench: &mut Self| !bench.has_cards();
        self.until("the cards are gone", is_gone);
    }

    pub fn has_cards(&mut self) -> bool {
        !self.app().cx.notices.all().is_empty()
    }

    pub fn until_at_rest(&mut self) {
        let is_at_rest = |bench: &mut Self| bench.next_repaint().is_none();
        self.until("it rests", is_at_rest);
    }

    pub fn until_image_is_shown(&mut self) {
        let are_there = |bench: &mut Self| !bench.app().cx.thumbs.is_busy();
        self.until("the small images are there", are_there);
    }

    pub fn told(&mut self) -> Vec<String> {
        let notices = self.app().cx.notices.all().iter();
        notices.map(|notice| notice.summary.clone()).collect()
    }

    pub fn waiting(&mut self) -> Vec<String> {
        let waiting = self.app().queue.waiting.iter();
        waiting
            .map(|job| job.request.title().into_owned())
            .collect()
    }

    pub fn viewport_commands(&self) -> &[egui::ViewportCommand] {
        &self.harness.output().viewport_output[&egui::ViewportId::ROOT].commands
    }

    pub fn copied_by(&mut self, name: &str) -> Option<String> {
        self.node(Role::Button, name).click();
        self.until_copied()
    }

    pub fn copied_by_label(&mut self, name: &str) -> Option<String> {
        self.labelled(name).click();
        self.until_copied()
    }

    pub fn until_copied(&mut self) -> Option<String> {
        let mut copied = None;
        for _ in 0..4 {
            self.harness.step();
            let commands = &self.harness.output().platform_output.commands;
            copied = copied.or_else(|| {
                commands.iter().find_map(|command| match command {
                    egui::OutputCommand::CopyText(text) => Some(text.clone()),
                    _ => None,
                })
            });
        }
        copied
    }
}

pub fn primary_button(pos: Pos2, pressed: bool) -> egui::Event {
    egui::Event::PointerButton {
        pos,
        button: egui::PointerButton::Primary,
        pressed,
        modifiers: Modifiers::NONE,
    }
}

pub fn key_event(key: Key, modifiers: Modifiers, pressed: bool) -> egui::Event {
    egui::Event::Key {
        key,
        physical_key: None,
        pressed,
        repeat: false,
        modifiers,
    }
}
