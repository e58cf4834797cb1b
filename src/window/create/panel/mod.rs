//! The form: model, prompt, input images, size and all other settings of a job.

pub(crate) mod advanced;
mod grid;
mod guidance;
mod parameters;
pub(crate) mod submit_hints;

use crate::window::inputs;
use crate::window::layout::prelude::*;
use crate::window::library::rows::needs_text;
use crate::window::loras;
use crate::window::prompt;

use crate::window::layout::status::header_ui;
use crate::window::queue;
use crate::window::tabs;

pub(crate) fn create_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
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
        .show(ui, |ui| queue::panel::go_ui(ui, view));
    if view.app.tabs.list.len() > 1 {
        Frame::new()
            .inner_margin(margin)
            .show(ui, |ui| tabs::panel::tabs_ui(ui, view));
    }
    // Each tab scrolls for itself, and its fields have their own histories.
    ScrollArea::vertical()
        .id_salt(view.app.tabs.active_id())
        .auto_shrink([false, false])
        .show(ui, |ui| {
            Frame::new().inner_margin(margin).show(ui, |ui| {
                model_ui(ui, view);
                ui.add_space(theme::GAP);
                prompt::panel::prompt_ui(ui, view);
                ui.add_space(theme::GAP);
                inputs::panel::inputs_ui(ui, view);
                loras::panel::loras_ui(ui, view);
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
        let name = view
            .model()
            .map_or("Choose a model", |spec| spec.name.as_str());
        picker_ui(ui, view, name, label.id);
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
            let (about, needs) = (&spec.description, needs_text(spec));
            let (bytes, folder) = (size_text(spec.bytes), spec.folder.display());
            let (makes, licence) = (result_word(spec.family.makes_images), &spec.licence);
            small_line(ui, text).on_hover_text(format!(
    "{about}\nMakes {makes}s from {needs}\nLicence: {licence}\n{bytes} on disk: {folder}"
   ));
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
        let page = if is_open {
            MainPage::Watch
        } else {
            MainPage::Models
        };
        view.push(AppCommand::Show(page));
    }
}

/// Number of models that are on the disk and cannot be used: the page of models says what each needs.
fn problems_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let problems = &view.app.cx.models.found.problems;
    if problems.is_empty() {
        return;
    }
    let title = counted(problems.len(), "1 incomplete model", "{} incomplete models");
    let summaries: Vec<&str> = problems.iter().map(|it| it.summary.as_str()).collect();
    let text = RichText::new(&title).small().color(palette(ui).weak);
    let response = flush(ui, Button::new(text).frame_when_inactive(false))
        .on_hover_text(summaries.join("\n"))
        .accessible_name(&title);
    view.on_click(&response, AppCommand::Show(MainPage::Models));
}

fn none_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    ui.label("No model was found");
    let text = "Safelight comes with one, but its assets folder is missing. Install Safelight again, \
               or add a folder with models in the settings.";
    ui.weak(RichText::new(text).small());
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
    ui.small("These folders were searched");
    ScrollArea::vertical()
        .id_salt("searched-places")
        .max_height(theme::PROBLEMS_HEIGHT)
        .show(ui, |ui| {
            ui.spacing_mut().item_spacing.y = 2.0;
            for place in &view.app.cx.models.found.searched {
                let folder = place.path.display().to_string();
                let missing = if place.exists { "" } else { " (not there)" };
                wide_note(ui, &format!("{folder}{missing}"), NoteTone::Hint);
            }
        });
}
