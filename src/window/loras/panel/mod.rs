//! The LoRAs that the form has chosen, each with its strength, its words and what jobs said of it.

pub(in crate::window) mod browser;

use egui::{Checkbox, SliderClamping};
use safelight_core::fitting::{FoundLora, LoraFit};
use safelight_core::job::ChosenLora;
use safelight_core::lora::LoraCoverage;
use safelight_core::presets::PresetValues;

use crate::window::create::choices::PresetKey;
use crate::window::layout::prelude::*;
use crate::window::loras::LoraLibrary;

const MAX_WORDS: usize = 6;
const ADD: &str = "Add LoRA";
const HIGH_NOISE: &str = "High noise";
const LOW_NOISE: &str = "Low noise";

pub(crate) fn loras_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(spec) = view.model().cloned() else {
        return;
    };
    let explanation = "Small files that teach the model a style, a person or a movement. Drop one \
                      onto the window, or choose from those on this machine";
    ui.horizontal(|ui| {
        group_label(ui, "LoRAs", explanation);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let button = Button::new(RichText::new(with_icon(icons::PLUS, ADD)).small());
            let add = ui.add(button).on_hover_text(explanation);
            view.on_click(&add.accessible_name(ADD), LorasCommand::Open);
        });
    });
    let mut command = None;
    let library = &view.app.loras;
    let form = view.form.clone();
    for (index, lora) in view.form.loras.iter_mut().enumerate() {
        let frame = field_frame(ui);
        let wanted = ui.push_id(("lora", index), |ui| {
            let shown = frame.show(ui, |ui| lora_ui(ui, (index, lora), library, &form, &spec));
            shown.inner
        });
        command = wanted.inner.or(command);
    }
    view.commands.extend(command);
    said_ui(ui, view, &["lora"]);
    ui.add_space(theme::SMALL_GAP);
}

fn lora_ui(
    ui: &mut Ui,
    (index, lora): (usize, &mut ChosenLora),
    library: &LoraLibrary,
    form: &GenerateForm,
    spec: &ModelSpec,
) -> Option<AppCommand> {
    let mut command = None;
    let name = lora.name();
    let known = library.chosen(&lora.path);
    let objection = library.objection(lora);
    ui.horizontal(|ui| {
        ui.add(Checkbox::without_text(&mut lora.is_on))
            .on_hover_text("Disabled LoRAs stay in the list")
            .accessible_name(format!("Use {name}"));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let remove = format!("Remove {name}");
            let explanation = "Remove it from the form. The file stays";
            if icon_button(ui, icons::X, &remove, explanation).clicked() {
                command = Some(LorasCommand::Remove(index).into());
            }
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                let palette = palette(ui);
                let is_used = lora.is_on && objection.is_none();
                let colour = if is_used { palette.text } else { palette.weak };
                ui.add(Label::new(RichText::new(&name).color(colour)).truncate())
                    .on_hover_text(about(lora, known));
            });
        });
    });
    if let Some(objection) = objection {
        // One for another model is kept for that; one that is gone has to be taken out.
        let tone = if library.is_gone(lora) {
            NoteTone::Error
        } else {
            NoteTone::Hint
        };
        wide_note(ui, &objection, tone);
        return command;
    }
    ui.add_enabled_ui(lora.is_on, |ui| strengths_ui(ui, lora, &name, known, spec));
    if lora.is_on && preset_ui(ui, lora, form, spec) {
        let preset = spec.preset_for(&lora.path);
        let key = preset.map(|preset| PresetKey::Model(preset.id.clone()));
        command = key.map(|key| PresetsCommand::Apply(key).into());
    }
    if let Some(word) = words_ui(ui, known) {
        command = Some(PromptCommand::Insert(word).into());
    }
    coverage_ui(ui, known, library.used(&lora.path));
    command
}

/// Preset of a few-step LoRA; returns whether it is requested, which is possible while it is not applied.
fn preset_ui(ui: &mut Ui, lora: &ChosenLora, form: &GenerateForm, spec: &ModelSpec) -> bool {
    let Some(preset) = spec.preset_for(&lora.path) else {
        return false;
    };
    let values = PresetValues::of_model(preset, spec);
    if form.has_values(&values, spec, None) {
        return false;
    }
    let text = format!("Use the preset {}", preset.name);
    let button = ui.button(&text);
    let hover = format!(
        "This LoRA was made for few steps. Set what its authors say: {}",
        values.described()
    );
    button.on_hover_text(hover).clicked()
}

/// One strength, or one for each expert where the file is not for one of them alone.
fn strengths_ui(
    ui: &mut Ui,
    lora: &mut ChosenLora,
    name: &str,
    known: Option<&FoundLora>,
    spec: &ModelSpec,
) {
    let explanation = "How strongly it acts: 1 as trained, 0 not at all, below 0 the opposite";
    let expert = known.and_then(|known| known.card.as_ref()?.expert);
    if !spec.has_two_experts() || expert.is_some() {
        let label = match expert.filter(|_| spec.has_two_experts()) {
            Some("high-noise") => HIGH_NOISE,
            Some(_) => LOW_NOISE,
            None => "Strength",
        };
        let name = format!("Strength of {name}");
        strength_ui(ui, label, &name, explanation, &mut lora.strength);
        return;
    }
    let label = format!("Strength of {name}, high noise");
    let hover = "How strongly it acts on the expert for composition and motion";
    strength_ui(ui, HIGH_NOISE, &label, hover, &mut lora.strength);
    let mut strength = lora.strength_2.unwrap_or(lora.strength);
    let label = format!("Strength of {name}, low noise");
    let hover = "How strongly it acts on the expert for details. It follows the other until you \
                set it";
    if strength_ui(ui, LOW_NOISE, &label, hover, &mut strength) {
        lora.strength_2 = Some(strength);
    }
}

/// Returns true if it was changed.
fn strength_ui(
    ui: &mut Ui,
    label: &str,
    name: &str,
    explanation: &str,
    strength: &mut f64,
) -> bool {
    row(ui, label, explanation, |ui, _| {
        let slider = Slider::new(strength, -2.0..=2.0)
            .step_by(0.05)
            .max_decimals(3)
            .custom_parser(typed_number)
            .clamping(SliderClamping::Never);
        wide_slider(ui, slider, explanation)
            .accessible_name(name)
            .changed()
    })
}

/// The words that it was trained on; gives the one that was clicked.
fn words_ui(ui: &mut Ui, known: Option<&FoundLora>) -> Option<String> {
    let trained = &known?.card.as_ref()?.trained_words;
    if trained.is_empty() {
        return None;
    }
    let mut clicked = None;
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().button_padding.y = 2.0;
        for word in trained.iter().take(MAX_WORDS) {
            let name = format!("Insert word: {word}");
            let explanation = "It was trained on this word. Click to write it into the prompt";
            if chip_of(ui, word, &name, explanation).clicked() {
                clicked = Some(word.clone());
            }
        }
    });
    clicked
}

/// Coverage in the last job with it, or the header's expectation if that is low.
fn coverage_ui(ui: &mut Ui, known: Option<&FoundLora>, used: Option<&LoraCoverage>) {
    let promised = known.and_then(|known| match &known.fit {
        LoraFit::Yes(coverage) if coverage.is_poor() => Some(coverage),
        _ => None,
    });
    let Some(coverage) = used.or(promised) else {
        return;
    };
    let (applied, total) = (coverage.applied, coverage.total);
    let text = match used {
        Some(_) => format!("{applied} of {total} keys used"),
        None => format!("Only {applied} of {total} keys fit this model"),
    };
    let notice = coverage.notices.first();
    let text = notice.map_or(text, |notice| crate::window::notices::sentence(notice));
    let tone = if coverage.is_poor() {
        NoteTone::Warning
    } else {
        NoteTone::Hint
    };
    wide_note(ui, &text, tone).on_hover_text(coverage.to_string());
}

fn about(lora: &ChosenLora, known: Option<&FoundLora>) -> String {
    let card = known.and_then(|known| known.card.as_ref());
    let mut lines: Vec<String> = Vec::new();
    if let Some(card) = card {
        lines.extend(card.title.clone());
        lines.push(crate::window::notices::sentence(&card.text()));
        let base = card.base_model.as_deref();
        lines.extend(base.map(|base| format!("Base model: {base}")));
    }
    lines.push(lora.path.display().to_string());
    lines.join("\n")
}
