//! Presets: values that go together, taken over with one click and given back with another; and the menu in which the
//! user's own are kept.

use safelight_core::presets::{OwnPreset, PresetContent, PresetEdit, PresetValues, QualityPreset};

use crate::window::create::choices::PresetKey;
use crate::window::layout::prelude::*;
use crate::window::presets::PresetChoice;

/// Width of the two icons at the end of the row.
const SIGNS_WIDTH: f32 = 47.0;

pub(crate) fn presets_ui(ui: &mut Ui, view: &mut UiContext<'_>, spec: &ModelSpec) {
    let choices = view.app.presets.choices(spec);
    let source = view.inputs().size();
    let form = &view.form;
    let is_chosen = |choice: &&PresetChoice| {
        let parts = &choice.content;
        // An empty preset always matches.
        (choice.values != PresetValues::default() || *parts != PresetContent::default())
            && form.has_values(&choice.values, spec, source)
            && parts.of_same_kinds(form) == *parts
    };
    // Of two that match, the one with prompts or LoRAs says more.
    let chosen = choices.iter().filter(is_chosen);
    let chosen = chosen.min_by_key(|choice| choice.content == PresetContent::default());
    let chosen = chosen.and_then(|chosen| choices.iter().position(|it| it.key == chosen.key));
    // Balanced equals the model's defaults: there is nothing to reset.
    let balanced = PresetKey::Quality(QualityPreset::Balanced);
    let has_other = chosen.is_some_and(|at| choices[at].key != balanced);
    let can_undo = form.before_preset.is_some() || has_other;
    let mut command = None;
    let hover = "Values that go together: steps, guidance, size and more at once";
    row(ui, "Preset", hover, |ui, _| {
        ui.horizontal_wrapped(|ui| {
            // Close together, so that all fit into a form of default width.
            ui.spacing_mut().item_spacing.x = theme::SMALL_GAP;
            for (index, preset) in choices.iter().enumerate() {
                let is_chosen = chosen == Some(index);
                let hover = format!("{}\nSets {}", preset.note, preset.described());
                if choice(ui, is_chosen, &preset.name, hover.trim_start()).clicked() {
                    // A second click gives back what the first one took.
                    command = Some(if is_chosen {
                        PresetsCommand::Undo
                    } else {
                        PresetsCommand::Apply(preset.key.clone())
                    });
                }
            }
            // Their scopes do not wrap by themselves.
            if ui.available_size_before_wrap().x < SIGNS_WIDTH {
                ui.end_row();
            }
            // It stays when a value was changed since, and its place is kept for it.
            let (name, hover) = ("Reset", "Back to the values before the preset");
            ui.spacing_mut().button_padding.x = theme::ICON_PADDING;
            let reset = |ui: &mut Ui| icon_button(ui, icons::RESET, name, hover).clicked();
            if ui.add_enabled_ui(can_undo, reset).inner {
                command = Some(PresetsCommand::Undo);
            }
            // The menu stays open while presets before it come and go.
            ui.push_id("preset-menu", |ui| menu_button(ui, view));
        });
    });
    // A distilled model's presets are listed in the row, which has room for them; hover text explains the others.
    let of_model = |preset: &&PresetChoice| matches!(preset.key, PresetKey::Model(_));
    if choices.iter().any(|preset| of_model(&preset)) {
        let preset = chosen.map(|index| &choices[index]).filter(of_model);
        field_hint(ui, preset.map_or(" ", |preset| preset.note.as_str()));
    }
    view.commands.extend(command.map(AppCommand::Presets));
}

fn menu_button(ui: &mut Ui, view: &mut UiContext<'_>) {
    let icon = RichText::new(icons::CARET_DOWN).size(theme::CHEVRON);
    let button = Button::new(icon).frame_when_inactive(false);
    let response = staying_menu(ui, button, |ui| menu_ui(ui, view))
        .on_hover_text("Save these settings as a preset of your own, or load them from a file")
        .accessible_name("Preset menu");
    // It may have been changed by hand.
    view.on_press(&response, |app| app.presets.load(&app.cx));
}

fn menu_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    ui.set_width(theme::MENU_WIDTH);
    let hover = "Use the settings stored in an image, a video or a JSON file, made here or by \
                 another program";
    if sign_button(ui, icons::FOLDER_OPEN, "From a file…", hover).clicked() {
        view.push(RestoreCommand::Pick);
        ui.close();
    }
    ui.separator();
    save_ui(ui, view);
    for own in &view.app.presets.list {
        own_ui(ui, view, own);
    }
}

fn save_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let mut is_wanted = false;
    ui.horizontal(|ui| {
        let name = &mut view.panels.presets.new_name;
        let edit = TextEdit::singleline(name)
            .hint_text("A name for these settings")
            .desired_width(theme::MENU_WIDTH - 76.0);
        let response = ui
            .add(edit)
            .on_hover_text(
                "Saves size, length, steps, guidance and the like, and what is ticked below; not \
                the images and the seed. A preset of the same name is replaced",
            )
            .accessible_name("Preset name");
        let is_entered = response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
        let is_named = !name.trim().is_empty();
        let save = ui
            .add_enabled(is_named, Button::new("Save"))
            .on_hover_text("Save these settings under this name")
            .accessible_name("Save preset");
        is_wanted = is_named && (is_entered || save.clicked());
    });
    let panel = &mut view.panels.presets;
    ui.horizontal(|ui| {
        ui.weak("With");
        for (is_on, text, name) in [
            (&mut panel.has_prompt, "Prompt", "Save the prompts, too"),
            (&mut panel.has_loras, "LoRAs", "Save the LoRAs, too"),
        ] {
            let hover = "Applying the preset then replaces those of the form";
            pressed(ui.checkbox(is_on, text), hover, name);
        }
    });
    if is_wanted {
        let typed = std::mem::take(panel);
        let with = (typed.has_prompt, typed.has_loras);
        view.set(move |app| app.presets.save(typed.new_name, with, &mut app.cx));
    }
}

fn own_ui(ui: &mut Ui, view: &mut UiContext<'_>, preset: &OwnPreset) {
    let name = preset.name.as_str();
    ui.horizontal(|ui| {
        if let Some((from, to)) = &mut view.panels.presets.renaming
            && from == name
        {
            let edit = TextEdit::singleline(to).desired_width(theme::MENU_WIDTH - 90.0);
            let response = ui
                .add(edit)
                .on_hover_text("The preset's new name")
                .accessible_name("New preset name");
            let is_entered =
                response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
            let done = ui.button("Rename").on_hover_text("Use this name");
            if is_entered || done.clicked() {
                let (from, to) = (from.clone(), to.clone());
                let edit = PresetEdit::Rename { from, to };
                view.panels.presets.renaming = None;
                view.set(move |app| app.presets.edit(edit, &mut app.cx));
            }
            return;
        }
        ui.add(Label::new(name).truncate()).on_hover_text(name);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let delete = format!("Delete preset {name}");
            let button = icon_button(ui, icons::TRASH, &delete, "Delete this preset");
            let edit = PresetEdit::Delete(name.to_owned());
            view.on_press(&button, move |app| app.presets.edit(edit, &mut app.cx));
            let rename = format!("Rename preset {name}");
            if icon_button(ui, icons::PENCIL, &rename, "Rename this preset").clicked() {
                view.panels.presets.renaming = Some((name.to_owned(), name.to_owned()));
            }
            let update = format!("Update preset {name}");
            let hover = "Replace its values with those of the form";
            let button = icon_button(ui, icons::SAVE, &update, hover);
            let (name, content) = (name.to_owned(), &preset.content);
            let with = (content.prompt.is_some(), content.loras.is_some());
            view.on_press(&button, move |app| {
                app.presets.save(name, with, &mut app.cx);
            });
        });
    });
}
