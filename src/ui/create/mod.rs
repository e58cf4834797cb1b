//! The form: model, prompt, input images, size and all other settings of a job.

pub(super) mod advanced;
mod grid;
mod guidance;
pub(super) mod images;
pub(super) mod loras;
mod parameters;
pub(super) mod presets;
pub(super) mod prompt;
pub(super) mod submit_hints;

use crate::app::library::rows::needs_text;
use crate::ui::prelude::*;
use crate::ui::queue;
use crate::ui::status::header_ui;

pub(super) fn create_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let margin = Margin {
        right: theme::FORM_MARGIN,
        ..Margin::ZERO
    };
    Frame::new()
        .inner_margin(margin)
        .show(ui, |ui| header_ui(ui, view));
    ui.add_space(theme::SMALL_GAP);
    Panel::bottom("go")
        .frame(Frame::new().inner_margin(Margin { top: 6, ..margin }))
        .resizable(false)
        .show_separator_line(false)
        .show(ui, |ui| queue::go_ui(ui, view));
    ScrollArea::vertical()
        .auto_shrink([false, false])
        .show(ui, |ui| {
            Frame::new().inner_margin(margin).show(ui, |ui| {
                model_ui(ui, view);
                ui.add_space(theme::GAP);
                prompt::prompt_ui(ui, view);
                ui.add_space(theme::GAP);
                images::inputs_ui(ui, view);
                loras::loras_ui(ui, view);
                parameters::parameters_ui(ui, view);
                ui.add_space(theme::SMALL_GAP);
            });
        });
}

fn model_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let explanation = "The model that makes the result. Folders with more models are added in the \
                      settings";
    let label = group_label(ui, "Model", explanation);
    if view.app.cx.models.are_loading {
        ui.label("Looking for models…");
    } else if view.app.cx.models.all().is_empty() {
        none_ui(ui, view);
    } else {
        let chosen = view.model();
        let name = chosen.map_or("Choose a model", |spec| spec.name.as_str());
        let name = name.to_owned();
        picker_ui(ui, view, &name, label.id);
        if let Some(spec) = view.model() {
            let mut text = format!(
                "{}  ·  {}  ·  {}",
                spec.family.kind_text(&spec.variant),
                needs_text(spec),
                size_text(spec.bytes)
            );
            if !matches!(spec.licence.as_str(), "" | "not stated") {
                text = format!("{text}  ·  {}", spec.licence);
            }
            ui.add(Label::new(RichText::new(text).small().color(palette(ui).weak)).truncate())
                .on_hover_text(hover_text(spec));
        }
    }
    problems_ui(ui, view);
}

/// Opens the page of models; pressed again, it goes back.
fn picker_ui(ui: &mut Ui, view: &mut UiContext<'_>, name: &str, label: egui::Id) {
    let is_open = view.app.cx.page == MainPage::Models;
    let caret = RichText::new(icons::CARET_DOWN).size(theme::CHEVRON);
    let size = egui::vec2(ui.available_width(), ui.spacing().interact_size.y);
    let button = Button::new(name)
        .right_text(caret.color(palette(ui).weak))
        .truncate()
        .min_size(size);
    let response = ui.add(button);
    response.widget_info(|| {
        let mut info = egui::WidgetInfo::labeled(egui::Role::ComboBox, true, "");
        info.current_text_value = Some(name.to_owned());
        info
    });
    let response = response
        .labelled_by(label)
        .on_hover_text("All models: what they are, whether they fit, what is missing");
    if response.clicked() {
        view.push(AppCommand::Show(if is_open {
            MainPage::Watch
        } else {
            MainPage::Models
        }));
    }
}

fn hover_text(spec: &ModelSpec) -> String {
    let (about, licence, needs) = (&spec.description, &spec.licence, needs_text(spec));
    let (bytes, folder) = (size_text(spec.bytes), spec.folder.display());
    let makes = result_word(spec.family.makes_images);
    format!("{about}\nMakes {makes}s from {needs}\nLicence: {licence}\n{bytes} on disk: {folder}")
}

/// Number of models that are on the disk and cannot be used: the page of models says what each needs.
fn problems_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let problems = &view.app.cx.models.found.problems;
    if problems.is_empty() {
        return;
    }
    let title = counted(problems.len(), "1 incomplete model", "{} incomplete models");
    let summaries: Vec<&str> = problems.iter().map(|it| it.summary.as_str()).collect();
    ui.horizontal(|ui| {
        let text = RichText::new(&title).small().color(palette(ui).weak);
        let response = flush(ui, Button::new(text).frame_when_inactive(false))
            .on_hover_text(summaries.join("\n"))
            .accessible_name(&title);
        view.on_click(&response, AppCommand::Show(MainPage::Models));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let hover = "Copy details for a bug report";
            if icon_button(ui, icons::COPY, "Copy what is wrong with models", hover).clicked() {
                let whole = problems
                    .iter()
                    .map(|it| format!("{}\n{}\n{}", it.summary, it.advice, it.details));
                let text = whole.collect::<Vec<_>>().join("\n\n");
                view.push(DesktopCommand::CopyText(text));
            }
        });
    });
}

fn none_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    ui.label("No model was found");
    let text = "Safelight comes with one, but its assets folder is missing. Install Safelight again, \
               or add a folder with models in the settings.";
    ui.label(RichText::new(text).small().color(palette(ui).weak));
    searched_ui(ui, view);
    ui.horizontal(|ui| {
        let button = ui.button("Open settings…");
        view.on_click(&button, AppCommand::Show(MainPage::Settings));
        let button = icon_button(ui, icons::RESET, "Look again", "Look for models again");
        view.on_click(&button, LibraryCommand::Reload);
        let button = hint_button(ui, "Get a model…", "Models that can be downloaded");
        view.on_click(&button, AppCommand::Show(MainPage::Welcome));
    });
}

fn searched_ui(ui: &mut Ui, view: &UiContext<'_>) {
    if view.app.cx.models.found.searched.is_empty() {
        return;
    }
    ui.label(RichText::new("These folders were searched").small());
    ScrollArea::vertical()
        .id_salt("searched-places")
        .max_height(theme::PROBLEMS_HEIGHT)
        .show(ui, |ui| {
            ui.spacing_mut().item_spacing.y = 2.0;
            for place in &view.app.cx.models.found.searched {
                let folder = place.path.display().to_string();
                wide_note(ui, &searched_text(&folder, place.exists), palette(ui).weak);
            }
        });
}

fn searched_text(folder: &str, exists: bool) -> String {
    if exists {
        folder.to_owned()
    } else {
        format!("{folder} (not there)")
    }
}
