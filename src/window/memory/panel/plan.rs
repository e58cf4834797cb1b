//! The plan of the form's job: verdict, suggestions, reserved memory and cap.

use safelight_core::plan::MemoryPlan;
use safelight_core::settings::MemorySettings;
use safelight_core::units::{about_text, gib_text, in_gib};

use crate::window::layout::prelude::*;
use crate::window::memory::panel::{small_figure, time_text};
use crate::window::memory::planning::{self, FormPlan};
use crate::window::state::PanelPlace;

const SLIDER_WIDTH: f32 = 170.0;
const CAP_WIDTH: f32 = 180.0;
const TIME_HOVER: &str = "Estimated from earlier jobs; other programs and throttling affect it";
const KEEP_FREE_HOVER: &str = "Preserved memory: the part of the device's memory that is kept free for what a model computes, beside its weights. More is safer and slower: weights that do not stay are read again in each step";
const CAP_HOVER: &str =
    "Safelight never uses more of the device's memory than this, other programs included";

/// The memory that is kept free, and the cap.
pub(super) fn limits_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(planned) = view.app.memory.planned().cloned() else {
        return;
    };
    let (before, settings) = (view.app.memory.draft, view.app.cx.settings.memory);
    let mut memory = before.unwrap_or(settings);
    ui.horizontal_wrapped(|ui| {
        preserved_ui(ui, &mut memory, &planned.plan);
        // In one piece, and its words as high as its field.
        if ui.available_size_before_wrap().x < CAP_WIDTH {
            ui.end_row();
        } else {
            ui.add_space(theme::GAP);
        }
        ui.horizontal(|ui| cap_ui(ui, &mut memory, &planned.plan));
    });
    // Stored when the mouse button is released.
    let is_held = ui.input(|input| input.pointer.any_down());
    let is_changed = memory != settings;
    let draft = (is_held && is_changed).then_some(memory);
    if draft != before {
        view.set(move |app| app.memory.draft = draft);
    }
    if is_changed && !is_held {
        let mut settings = view.app.cx.settings.clone();
        settings.memory = memory;
        view.push(SettingsCommand::Change(Box::new(settings)));
    }
    ui.add_space(theme::SMALL_GAP);
}

/// The plan in one line: the verdict, what it needs and what is free, the time, and what would make it fit.
pub(super) fn line_ui(ui: &mut Ui, view: &mut UiContext<'_>, planned: &FormPlan) {
    let plan = &planned.plan;
    let budget = size_text(plan.budget.cap_bytes);
    let text = &plan.verdict.text;
    let verdict = format!("{text}\nAt most {budget} is used on this device");
    state_chip(ui, verdict_word(plan), verdict_tone(plan)).on_hover_text(&verdict);
    small_figure(ui, needs_text(plan), &verdict);
    small_figure(ui, time_text(&planned.course), TIME_HOVER);
    if planned.course.is_timed && planned.num_jobs > 1 {
        let all = about_text(planned.all_secs);
        let text = format!("All {} jobs take {all}", planned.num_jobs);
        small_figure(ui, text, TIME_HOVER);
    }
    for suggestion in &planned.suggestions {
        let button = Button::new(RichText::new(&suggestion.text).small());
        let button = ui.add(button).on_hover_text(&suggestion.verdict);
        let change = suggestion.change.clone();
        view.on_press(&button, move |app| planning::apply(&change, &mut app.cx));
    }
}

fn verdict_word(plan: &MemoryPlan) -> &'static str {
    ["Fits", "Just fits", "Does not fit"][rank_index(plan)]
}

pub(super) fn verdict_tone(plan: &MemoryPlan) -> NoteTone {
    [NoteTone::Good, NoteTone::Warning, NoteTone::Error][rank_index(plan)]
}

/// 0 if it fits, 1 with streaming or tiles, 2 if it does not fit.
fn rank_index(plan: &MemoryPlan) -> usize {
    usize::from(plan.rank().min(2))
}

fn needs_text(plan: &MemoryPlan) -> String {
    let [needs, free] = [plan.verdict.needs_bytes, plan.verdict.of_bytes].map(gib_text);
    format!("needs {needs} GiB  ·  {free} GiB free")
}

/// The verdict in the status line, unless a job runs or the panel shows it.
pub(crate) fn summary_ui(ui: &mut Ui, view: &UiContext<'_>) {
    let is_said = view.app.cx.drawn.memory != PanelPlace::Nowhere;
    if is_said || view.app.queue.live().is_some() {
        return;
    }
    let Some(planned) = view.app.memory.planned() else {
        return;
    };
    state_chip(ui, &summary_text(planned), verdict_tone(&planned.plan))
        .on_hover_text("Whether the job of the form fits. Press Memory for details");
}

/// The plan in a few words, with a time where one is known: `Fits · about 14 s`.
fn summary_text(planned: &FormPlan) -> String {
    let plan = &planned.plan;
    let verdict = verdict_word(plan);
    if !plan.fits() {
        return format!("{verdict}  ·  {}", needs_text(plan));
    }
    if !planned.course.is_timed {
        return verdict.to_owned();
    }
    let time = about_text(planned.all_secs);
    match planned.num_jobs {
        0 | 1 => format!("{verdict}  ·  {time}"),
        num_jobs => format!("{verdict}  ·  {time} for {num_jobs} jobs"),
    }
}

/// The verdict above the main button, if it warns and the panel is closed; a click opens the panel.
pub(crate) fn warning_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    if view.app.cx.drawn.memory != PanelPlace::Nowhere {
        return;
    }
    let plan = view.app.memory.planned().map(|planned| &planned.plan);
    let Some(plan) = plan.filter(|plan| plan.rank() > 0) else {
        return;
    };
    let verdict = &plan.verdict.text;
    let colour = verdict_tone(plan).colour(palette(ui));
    let icon = RichText::new(icons::WARNING).small().color(colour);
    let text = RichText::new(verdict).small();
    let button = Button::new((icon, text)).frame_when_inactive(false);
    let response = flush(ui, button.truncate())
        .on_hover_text(format!("{verdict}\nPress to open the memory panel"))
        .accessible_name(verdict);
    view.on_click(&response, DesktopCommand::ToggleMemory);
}

fn preserved_ui(ui: &mut Ui, memory: &mut MemorySettings, plan: &MemoryPlan) {
    let label = ui.weak(RichText::new("Reserved for activations").small());
    let label = label.on_hover_text(KEEP_FREE_HOVER);
    let most = in_gib(plan.budget.cap_bytes).max(1.0);
    let suggested = in_gib(plan.suggested_preserved_bytes);
    // Rounded before, because a slider that rounds says that it was changed.
    let shown = rounded(memory.preserved_gib.unwrap_or(suggested).min(most));
    let mut value = shown;
    ui.spacing_mut().slider_width = SLIDER_WIDTH;
    let slider = Slider::new(&mut value, 0.0..=most)
        .fixed_decimals(1)
        .update_while_editing(false)
        .suffix(" GiB");
    number_ui(ui, slider)
        .on_hover_text(KEEP_FREE_HOVER)
        .labelled_by(label.id);
    if rounded(value) != shown {
        memory.preserved_gib = Some(rounded(value));
    }
    let text = format!("Auto ({})", size_text(plan.suggested_preserved_bytes));
    let is_own = memory.preserved_gib.is_none();
    let tick = Button::new(RichText::new(text).small().color(ink(ui, is_own))).selected(is_own);
    let hover = "Calculated for each job: what it is estimated to need, and a margin";
    if ui.add(tick).on_hover_text(hover).clicked() {
        memory.preserved_gib = None;
    }
}

fn cap_ui(ui: &mut Ui, memory: &mut MemorySettings, plan: &MemoryPlan) {
    let label = ui
        .weak(RichText::new("Memory cap").small())
        .on_hover_text(CAP_HOVER);
    let total = in_gib(plan.budget.total_bytes).max(1.0);
    let own = in_gib(plan.budget.cap_bytes);
    let mut value = rounded(memory.cap_gib.unwrap_or(own).min(total));
    let drag = DragValue::new(&mut value)
        .range(0.0..=total)
        .speed(0.1)
        .fixed_decimals(1)
        .update_while_editing(false)
        .suffix(" GiB");
    let response = number_ui(ui, drag);
    let response = response.on_hover_text(CAP_HOVER).labelled_by(label.id);
    if response.changed() {
        memory.cap_gib = Some(rounded(value));
    }
    if memory.cap_gib.is_some() {
        let text = RichText::new("Default cap").small();
        if ui.add(Button::new(text.color(palette(ui).weak))).clicked() {
            memory.cap_gib = None;
        }
    }
}

fn rounded(gib: f64) -> f64 {
    (gib * 10.0).round() / 10.0
}
