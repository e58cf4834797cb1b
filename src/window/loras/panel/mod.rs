//! The LoRAs that the form has chosen, each with its strength, its words and what jobs said of it; and the
//! LoRAs on this machine to choose from, first those for the selected model.

use std::sync::Arc;

use egui::{Checkbox, SliderClamping, TextFormat, TextWrapMode};
use safelight_core::fitting::{FoundLora, LoraFit};
use safelight_core::job::ChosenLora;
use safelight_core::lora::LoraCoverage;
use safelight_core::presets::PresetValues;

use crate::window::create::choices::PresetKey;
use crate::window::layout::prelude::*;
use crate::window::layout::view::{LoraPanel, ShownLoras};
use crate::window::loras::LoraLibrary;

const MAX_WORDS: usize = 6;
const ADD: &str = "Add LoRA";
const HIGH_NOISE: &str = "High noise";
const LOW_NOISE: &str = "Low noise";

pub(crate) fn loras_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(spec) = view.model().cloned() else {
        return;
    };
    let hover = "Small files that teach the model a style, a person or a movement. Drop one \
                onto the window, or choose from those on this machine";
    ui.horizontal(|ui| {
        group_label(ui, "LoRAs", hover);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let button = Button::new(RichText::new(with_icon(icons::PLUS, ADD)).small());
            let add = ui.add(button).on_hover_text(hover);
            view.on_click(&add.accessible_name(ADD), LorasCommand::Open);
        });
    });
    let mut command = None;
    let library = &view.app.loras;
    let form = view.form.clone();
    for (index, lora) in view.form.loras.iter_mut().enumerate() {
        let frame = field_frame(ui);
        let wanted = ui.push_id(("lora", index), |ui| {
            frame.show(ui, |ui| lora_ui(ui, (index, lora), library, &form, &spec))
        });
        command = wanted.inner.inner.or(command);
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
            let hover = "Remove it from the form. The file stays";
            if icon_button(ui, icons::X, &remove, hover).clicked() {
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
        let is_gone = library.is_gone(lora);
        let tone = if is_gone {
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
    coverage_ui(ui, known, library.coverage.get(&lora.path));
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
    let authors = "This LoRA was made for few steps. Set what its authors say";
    let (text, hover) = (
        format!("Use the preset {}", preset.name),
        format!("{authors}: {}", values.described()),
    );
    hint_button(ui, &text, &hover).clicked()
}

/// One strength, or one for each expert where the file is not for one of them alone.
fn strengths_ui(
    ui: &mut Ui,
    lora: &mut ChosenLora,
    name: &str,
    known: Option<&FoundLora>,
    spec: &ModelSpec,
) {
    let hover = "How strongly it acts: 1 as trained, 0 not at all, below 0 the opposite";
    let expert = known.and_then(|known| known.card.as_ref()?.expert);
    if !spec.has_two_experts() || expert.is_some() {
        let label = match expert.filter(|_| spec.has_two_experts()) {
            Some("high-noise") => HIGH_NOISE,
            Some(_) => LOW_NOISE,
            None => "Strength",
        };
        let name = format!("Strength of {name}");
        strength_ui(ui, label, &name, hover, &mut lora.strength);
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
fn strength_ui(ui: &mut Ui, label: &str, name: &str, hover: &str, strength: &mut f64) -> bool {
    row(ui, label, hover, |ui, _| {
        let slider = Slider::new(strength, -2.0..=2.0)
            .step_by(0.05)
            .max_decimals(3)
            .custom_parser(typed_number)
            .clamping(SliderClamping::Never);
        wide_slider(ui, slider, hover)
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
            let hover = "It was trained on this word. Click to write it into the prompt";
            if chip(ui, word, &name, hover).clicked() {
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
    let text = notice.map_or(text, |notice| sentence(notice));
    let is_poor = coverage.is_poor();
    let tone = if is_poor {
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
        lines.push(sentence(&card.text()));
        let base = card.base_model.as_deref();
        lines.extend(base.map(|base| format!("Base model: {base}")));
    }
    lines.push(lora.path.display().to_string());
    lines.join("\n")
}

const GONE: &str = "The file is gone";

impl LoraPanel {
    /// LoRAs that match the search, and the model if others are hidden. While `is_held`, as when a pointer button is
    /// down on one of them, new ones wait.
    fn filtered(
        &mut self,
        found: &Arc<Vec<Arc<FoundLora>>>,
        is_held: bool,
    ) -> Arc<[Arc<FoundLora>]> {
        let known = self.shown.take().filter(|shown| {
            (is_held || Arc::ptr_eq(&shown.found, found))
                && shown.search == self.search
                && shown.hides_others == self.hides_others
        });
        let shown = known.unwrap_or_else(|| {
            let wanted = self.search.to_lowercase();
            let is_shown = |lora: &&Arc<FoundLora>| {
                (!self.hides_others || lora.fits()) && lora.has_words(&wanted)
            };
            ShownLoras {
                found: Arc::clone(found),
                search: self.search.clone(),
                hides_others: self.hides_others,
                loras: found.iter().filter(is_shown).cloned().collect(),
            }
        });
        Arc::clone(&self.shown.insert(shown).loras)
    }
}

pub(crate) fn lora_browser_ui(ctx: &Context, view: &mut UiContext<'_>) {
    if !view.app.loras.is_open {
        return;
    }
    let response = modal(ctx, "loras", (theme::SHELF_WIDTH, 20), |ui| {
        ui.heading("Add a LoRA");
        ui.add_space(theme::SMALL_GAP);
        let model = view.model().map_or("the model", |spec| spec.name.as_str());
        let only = format!("Only those for {model}");
        let panel = &mut view.panels.loras;
        search_field(ui, &mut panel.search, "Search LoRAs");
        ui.checkbox(&mut panel.hides_others, only)
            .on_hover_text("LoRAs for other models are grey and say why they do not fit");
        list_ui(ui, view);
        ui.add_space(theme::SMALL_GAP);
        buttons_ui(ui, view)
    });
    if response.inner || response.should_close() {
        view.set(|app| app.loras.is_open = false);
    }
}

fn list_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let library = &view.app.loras;
    let is_held = ui.input(|input| input.pointer.any_down());
    let shown = view.panels.loras.filtered(&library.found, is_held);
    if let Some(problem) = &library.problem {
        wide_note(ui, problem, NoteTone::Error);
    }
    let text = match (shown.len(), library.is_looking()) {
        (0, true) => "Looking…",
        (_, true) => "Looking for more…",
        (0, false) if library.found.is_empty() => {
            "No LoRA files were found where ComfyUI and other programs keep them, nor in your own \
            model folders (see Settings)"
        }
        (0, false) => "No matches",
        (_, false) => "",
    };
    // Its line and the list's height stay constant while LoRAs arrive, so that no click misses.
    if text.is_empty() {
        ui.add_space(ui.text_style_height(&TextStyle::Small) + ui.spacing().item_spacing.y);
    } else {
        wide_note(ui, text, NoteTone::Hint);
    }
    let mut clicked = None;
    ScrollArea::vertical()
        .id_salt("lora-browser")
        .max_height(theme::SHELF_HEIGHT)
        .min_scrolled_height(list_height(ui, theme::SHELF_HEIGHT))
        .auto_shrink([false, false])
        .show_rows(ui, theme::SHELF_ROW_HEIGHT, shown.len(), |ui, rows| {
            for lora in shown.get(rows).unwrap_or_default() {
                let chosen = &view.form.loras;
                let is_chosen = chosen.iter().any(|known| known.path == lora.path);
                if entry_ui(ui, lora, is_chosen) {
                    clicked = Some(lora.path.clone());
                }
            }
        });
    if let Some(path) = clicked {
        let at = view.form.loras.iter().position(|lora| lora.path == path);
        match at {
            Some(at) => drop(view.form.loras.remove(at)),
            None => view.push(LorasCommand::Add(vec![path])),
        }
    }
}

/// Returns true if "Done" was pressed.
fn buttons_ui(ui: &mut Ui, view: &mut UiContext<'_>) -> bool {
    ui.horizontal(|ui| {
        let palette = palette(ui);
        let done = Button::new(RichText::new("Done").color(palette.on_accent)).fill(palette.accent);
        let is_done = ui.add(done).clicked();
        let is_free = !view.app.cx.background.is_asking();
        let pick = Button::new(with_icon(icons::FOLDER_OPEN, "From a file…"));
        let pick = ui
            .add_enabled(is_free, pick)
            .on_hover_text("A LoRA from any folder")
            .accessible_name("LoRA from a file");
        view.on_press(&pick, |app| app.loras.pick(&app.cx));
        let again = Button::new(with_icon(icons::RESET, "Look again"));
        let again = ui
            .add_enabled(!view.app.loras.is_looking(), again)
            .on_hover_text("Search the folders again")
            .accessible_name("Look for LoRAs again");
        view.on_press(&again, |app| app.loras.search_again(&app.cx));
        is_done
    })
    .inner
}

/// Returns true if it was clicked.
fn entry_ui(ui: &mut Ui, lora: &FoundLora, is_chosen: bool) -> bool {
    let fits = lora.fits();
    let name = lora.name();
    let size = vec2(ui.available_width(), theme::SHELF_ROW_HEIGHT);
    let button = Button::selectable(is_chosen, entry_text(ui, lora))
        .wrap_mode(TextWrapMode::Extend)
        .min_size(size);
    let path = lora.path.display();
    let hover = match &lora.fit {
        LoraFit::Yes(coverage) if coverage.total == 0 => path.to_string(),
        LoraFit::Yes(coverage) => format!("{coverage}\n{path}"),
        LoraFit::No(reason) => format!("{}\n{path}", sentence(reason)),
        LoraFit::Gone => format!("{GONE}\n{path}"),
    };
    ui.add_enabled(fits, button)
        .on_hover_text(&hover)
        .on_disabled_hover_text(&hover)
        .accessible_name(name)
        .clicked()
}

fn entry_text(ui: &Ui, lora: &FoundLora) -> LayoutJob {
    let palette = palette(ui);
    let format = |style: TextStyle, color| TextFormat {
        font_id: style.resolve(ui.style()),
        color,
        ..Default::default()
    };
    let fits = lora.fits();
    let ink = if fits { palette.text } else { palette.weak };
    let below = match &lora.fit {
        LoraFit::Yes(_) => facts_text(lora),
        LoraFit::No(reason) => sentence(reason),
        LoraFit::Gone => GONE.to_owned(),
    };
    let mut job = LayoutJob::default();
    let name = cropped(&lora.name(), theme::SHELF_NAME_COLUMNS);
    job.append(&name, 0.0, format(TextStyle::Button, ink));
    let folder = cropped(&lora.folder(), theme::SHELF_NAME_COLUMNS);
    let below = cropped(&below.replace('\n', " "), theme::SHELF_TEXT_COLUMNS);
    let small = format(TextStyle::Small, palette.weak);
    job.append(&format!("   {folder}\n{below}"), 0.0, small);
    job
}

fn facts_text(lora: &FoundLora) -> String {
    let mut facts = Vec::new();
    if let Some(card) = &lora.card {
        facts.push(card.made_for.clone());
        facts.push(card.algorithms.join(" and "));
        facts.extend(card.ranks.last().map(|rank| format!("rank {rank}")));
        facts.extend(card.expert.map(|expert| format!("{expert} expert")));
        facts.extend(card.trained_words.first().map(|word| format!("“{word}”")));
    }
    facts.push(size_text(lora.bytes));
    facts.retain(|fact| !fact.is_empty());
    facts.join("  ·  ")
}

/// Text cropped to a number of columns: Chinese, Japanese and Korean characters take two.
fn cropped(text: &str, columns: usize) -> String {
    const WIDE_FROM: char = '\u{2e80}';
    let mut used = 0;
    let mut letters = text.char_indices();
    let end = letters.find_map(|(at, letter)| {
        used += if letter < WIDE_FROM { 1 } else { 2 };
        (used > columns).then_some(at)
    });
    end.map_or_else(|| text.to_owned(), |end| format!("{}…", &text[..end]))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use safelight_core::lora::LoraCoverage;

    use super::*;

    #[test]
    fn lora_list_is_filtered_again_only_when_the_search_changes() {
        let lora = |name: &str, fit| {
            let path = Path::new("/loras").join(name);
            Arc::new(FoundLora::new(&path, 1, None, fit))
        };
        let other = || LoraFit::No("it is for another model".to_owned());
        let found = Arc::new(vec![
            lora("Ink.safetensors", LoraFit::Yes(LoraCoverage::default())),
            lora("ink-old.safetensors", other()),
            lora("boats.safetensors", other()),
        ]);
        let mut panel = LoraPanel::default();
        let all = panel.filtered(&found, false);
        assert_eq!(all.len(), 3);
        assert!(Arc::ptr_eq(&all, &panel.filtered(&found, false)));
        panel.search = "INK ".to_owned();
        assert_eq!(panel.filtered(&found, false).len(), 2);
        panel.hides_others = true;
        assert_eq!(panel.filtered(&found, false).len(), 1);
        // Nothing moves away under a button that is down.
        assert_eq!(panel.filtered(&Arc::default(), true).len(), 1);
        assert!(panel.filtered(&Arc::default(), false).is_empty());
    }

    #[test]
    fn long_texts_are_cut_where_the_row_ends() {
        assert_eq!(cropped("short", 5), "short");
        assert_eq!(cropped("too long", 5), "too l…");
        assert_eq!(cropped("海の風景", 5), "海の…");
    }
}
