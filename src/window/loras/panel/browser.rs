//! The LoRAs on this machine, to choose from: first those for the chosen model.

use std::sync::Arc;

use egui::{TextFormat, TextWrapMode};
use safelight_core::fitting::{FoundLora, LoraFit};

use crate::window::layout::prelude::*;
use crate::window::layout::view::{LoraPanel, ShownLoras};

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

pub(in crate::window) fn lora_browser_ui(ctx: &Context, view: &mut UiContext<'_>) {
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
                if lora_ui(ui, lora, is_chosen) {
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
        view.on_click(&pick, LorasCommand::Pick);
        let again = Button::new(with_icon(icons::RESET, "Look again"));
        let again = ui
            .add_enabled(!view.app.loras.is_looking(), again)
            .on_hover_text("Search the folders again")
            .accessible_name("Look for LoRAs again");
        view.on_click(&again, LorasCommand::Look);
        is_done
    })
    .inner
}

/// Returns true if it was clicked.
fn lora_ui(ui: &mut Ui, lora: &FoundLora, is_chosen: bool) -> bool {
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
    let ink = if lora.fits() {
        palette.text
    } else {
        palette.weak
    };
    let below = match &lora.fit {
        LoraFit::Yes(_) => facts_text(lora),
        LoraFit::No(reason) => sentence(reason),
        LoraFit::Gone => GONE.to_owned(),
    };
    let mut job = LayoutJob::default();
    let name = cropped(&lora.name(), theme::SHELF_NAME_COLUMNS);
    job.append(&name, 0.0, format(TextStyle::Button, ink));
    let folder = cropped(&lora.folder(), theme::SHELF_NAME_COLUMNS);
    let folder = format!("   {folder}");
    job.append(&folder, 0.0, format(TextStyle::Small, palette.weak));
    let below = cropped(&below.replace('\n', " "), theme::SHELF_TEXT_COLUMNS);
    let below = format!("\n{below}");
    job.append(&below, 0.0, format(TextStyle::Small, palette.weak));
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
