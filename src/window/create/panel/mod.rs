//! The form: model, prompt, input images, size and all other settings of a job; and the hint above Generate: why it is
//! disabled, or what the selected model does not use, with a button that helps.

pub(crate) mod advanced;
mod grid;
mod guidance;
mod parameters;

use egui::{TextWrapMode, WidgetText};

use crate::window::create::choices::MaskOf;
use crate::window::inputs::panel::slot::slot_words;
use crate::window::inputs::panel::{PAINT_MASK_HOVER, paint_control_mask_hover};
use crate::window::layout::prelude::*;
use crate::window::layout::status::header_ui;
use crate::window::library::rows::needs_text;
use crate::window::{inputs, loras, prompt, queue, tabs};

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
    let hover = "The model that makes the result. Folders with more models are added in the \
                settings";
    let label = group_label(ui, "Model", hover);
    if view.app.cx.models.are_loading {
        ui.label("Looking for models…");
    } else if view.app.cx.models.all().is_empty() {
        none_ui(ui, view);
    } else {
        let name = view.model().map_or("Choose a model", |spec| &spec.name);
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

/// The rest is in the hover text.
const MAX_LINES: usize = 3;
const REMOVE: &str = "Remove";
const REMOVE_HOVER: &str = "Take it out of the form. Files on the disk stay";
const CHOOSE: &str = "Choose…";
const PAINT: &str = "Paint…";

struct SubmitHint {
    text: String,
    tone: NoteTone,
    help: Option<HelpButton>,
}

struct HelpButton {
    name: &'static str,
    hover: String,
    commands: Vec<AppCommand>,
}

impl HelpButton {
    fn new(name: &'static str, hover: &str, command: impl Into<AppCommand>) -> Self {
        Self {
            name,
            hover: hover.to_owned(),
            commands: vec![command.into()],
        }
    }
}

pub(crate) fn submit_hint_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(SubmitHint { text, tone, help }) = submit_hint(view) else {
        return;
    };
    let icon_width = tone
        .icon()
        .map_or(0.0, |_| theme::SMALL_TEXT + theme::SMALL_GAP);
    let job = lines(ui, &text, icon_width, help.as_ref());
    let height = ui.fonts_mut(|fonts| fonts.layout_job(job.clone())).size().y;
    reserved(ui, height.max(theme::HINT_HEIGHT), |ui| {
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if let Some(help) = help {
                ui.spacing_mut().button_padding.y = 2.0;
                let button = Button::new(RichText::new(help.name).small());
                if ui.add(button).on_hover_text(help.hover).clicked() {
                    view.commands.extend(help.commands);
                }
            }
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                ui.spacing_mut().item_spacing.x = theme::SMALL_GAP;
                if let Some(icon) = tone.icon() {
                    sign(ui, icon, theme::SMALL_TEXT, tone.colour(palette(ui)));
                }
                ui.add(Label::new(job).wrap()).on_hover_text(&text);
            });
        });
    });
}

fn lines(ui: &Ui, text: &str, icon_width: f32, help: Option<&HelpButton>) -> LayoutJob {
    let font = TextStyle::Small.resolve(ui.style());
    let spacing = ui.spacing();
    let taken = help.map_or(0.0, |help| {
        let name = WidgetText::from(RichText::new(help.name).small());
        let name = name.into_galley(ui, Some(TextWrapMode::Extend), 0.0, TextStyle::Small);
        name.size().x + 2.0 * spacing.button_padding.x + spacing.item_spacing.x
    });
    let width = ui.available_width() - taken - icon_width;
    let mut job = LayoutJob::simple(text.to_owned(), font, palette(ui).text, width);
    job.wrap.max_rows = MAX_LINES;
    job
}

fn submit_hint(view: &UiContext<'_>) -> Option<SubmitHint> {
    let spec = view.model()?;
    if let Some(err) = view.app.cx.field_errors.first() {
        let (help, text) = help_with(err.field, view, spec).unzip();
        let text = text.flatten().unwrap_or_else(|| sentence(&err.message));
        let is_missing = (err.field != "extend" && help.is_some())
            || (err.field == "control" && inputs::panel::controls::is_incomplete(view));
        let tone = if is_missing {
            NoteTone::Warning
        } else {
            NoteTone::Error
        };
        return Some(SubmitHint { text, tone, help });
    }
    let mut parked = parked(view, spec);
    if parked.is_empty() {
        return None;
    }
    let text = match parked.as_slice() {
        [(_, text, _)] => text.clone(),
        several => {
            let names: Vec<&str> = several.iter().map(|(name, ..)| name.as_str()).collect();
            format!("Not used by this model: {}", names.join(", "))
        }
    };
    // LoRAs are named by their number: the last one is taken out first.
    parked.reverse();
    let said: Vec<String> = parked.iter().map(|(_, text, _)| text.clone()).collect();
    Some(SubmitHint {
        text,
        tone: NoteTone::Hint,
        help: Some(HelpButton {
            name: REMOVE,
            hover: format!("{}\n{REMOVE_HOVER}", said.join("\n")),
            commands: parked.into_iter().map(|(.., command)| command).collect(),
        }),
    })
}

/// The button for a field with an error, and a better text than the field's where there is one.
fn help_with(
    field: &str,
    view: &UiContext<'_>,
    spec: &ModelSpec,
) -> Option<(HelpButton, Option<String>)> {
    let inputs = &view.app.inputs;
    let has = |slot| inputs.get(slot).is_some();
    let choose = |slot| {
        let hover = slot_words(slot, Some(spec)).choose;
        HelpButton::new(CHOOSE, hover, InputsCommand::Pick(slot))
    };
    let help = match field {
        "image" if !has(InputSlot::Start) => choose(InputSlot::Start),
        "last-image" if !has(InputSlot::End) => choose(InputSlot::End),
        "mask" if !has(InputSlot::Mask) && has(InputSlot::Start) => {
            HelpButton::new(PAINT, PAINT_MASK_HOVER, MaskCommand::Open(MaskOf::Start))
        }
        "control" if !has(InputSlot::Control) => choose(InputSlot::Control),
        "control" => {
            let index = inputs.lacks_control_mask(spec)?;
            let mut controls = inputs.inputs_in(InputSlot::Control).iter();
            if controls.any(|input| input.control.network.is_none()) {
                return None;
            }
            let paint = MaskCommand::Open(MaskOf::Control(index));
            HelpButton::new(PAINT, paint_control_mask_hover(Some(spec)), paint)
        }
        "extend" if view.inputs().extend.is_some() => return extend_elsewhere(view, spec),
        "lora" => {
            let is_gone = |lora| view.app.loras.is_gone(lora);
            let at = view.form.loras.iter().position(is_gone)?;
            HelpButton::new(REMOVE, REMOVE_HOVER, LorasCommand::Remove(at))
        }
        _ => return None,
    };
    Some((help, None))
}

/// For a model that cannot extend a video: the installed one of its family that can.
fn extend_elsewhere(
    view: &UiContext<'_>,
    spec: &ModelSpec,
) -> Option<(HelpButton, Option<String>)> {
    let can_extend = |other: &&ModelSpec| {
        other.family == spec.family && other.id != spec.id && other.can_extend()
    };
    let mut models = view.app.cx.models.all().iter();
    let other = models.find(can_extend).filter(|_| !spec.can_extend())?;
    let hover = format!("Choose {}. The video and the prompt stay", other.name);
    let help = HelpButton::new("Switch", &hover, LibraryCommand::Choose(other.id.clone()));
    let text = format!("{} cannot continue a video. Use {}.", spec.name, other.name);
    Some((help, Some(text)))
}

/// Inputs that the selected model does not use: name, reason, and the command that removes it.
fn parked(view: &UiContext<'_>, spec: &ModelSpec) -> Vec<(String, String, AppCommand)> {
    let mut parked = Vec::new();
    for slot in InputSlot::ALL {
        if let Some(why) = view.app.inputs.parked(slot, view.form, spec) {
            let name = slot_words(slot, None).heading.to_lowercase();
            parked.push((name, why.to_owned(), InputsCommand::Remove(slot).into()));
        }
    }
    for index in 0..view.app.inputs.inputs_in(InputSlot::Control).len() {
        if view.app.inputs.is_control_mask_parked(index, spec) {
            let why = if spec.limits.controls.takes_masks {
                "This ControlNet takes no mask. The mask of the control image is kept."
            } else {
                "This model takes no mask of a control image. The mask is kept."
            };
            let remove = InputsCommand::RemoveControlMask(index);
            parked.push(("control mask".to_owned(), why.to_owned(), remove.into()));
        }
    }
    for (index, lora) in view.form.loras.iter().enumerate() {
        if view.app.loras.is_parked(lora) {
            let name = lora.name();
            let text = format!("The LoRA {name} is not for this model. It is kept.");
            parked.push((name, text, LorasCommand::Remove(index).into()));
        }
    }
    parked
}
