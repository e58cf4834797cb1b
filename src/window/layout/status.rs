//! The header of the form, and the status line with the progress of the job that is shown.

use egui::accesskit::Live;
use egui::{Galley, Role, WidgetInfo};
use safelight_core::job::{Recipe, Stage};

use crate::window::downloads;
use crate::window::layout::prelude::*;
use crate::window::memory;
use crate::window::queue;
use crate::window::queue::{JobQueue, RunningJob};
use crate::window::runtimes::panel::idle_ui;
use crate::window::shortcuts;
use crate::window::state::PanelPlace;
use crate::window::tabs;
use crate::window::widgets;

const DOWNLOADS: &str = "Downloads";
pub(crate) const SEPARATOR: &str = "  ·  ";

pub(crate) fn status_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let palette = palette(ui);
    ui.horizontal(|ui| {
        if let Some(job) = view.app.queue.live() {
            let bar = ProgressBar::new(job.progress())
                .desired_width(180.0_f32.min(ui.available_width() * 0.25))
                .desired_height(8.0)
                .fill(palette.accent);
            progress_bar(ui, bar).accessible_name("Progress");
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            memory_button(ui, view);
            memory::panel::summary_ui(ui, view);
            ui.add_space(theme::SMALL_GAP);
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                waiting_ui(ui, view);
                text_ui(ui, view);
                idle_ui(ui, view);
                let line = &view.app.queue.device_line;
                if !line.is_empty() && ui.available_width() > theme::LABEL_WIDTH {
                    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                        small_line(ui, line).on_hover_text(line);
                    });
                }
            });
        });
    });
}

fn waiting_ui(ui: &mut Ui, view: &UiContext<'_>) {
    let Some(job) = view.app.queue.live() else {
        return;
    };
    if job.waiting.is_some() && !job.cancel.is_cancelled() {
        let hover = "Resume now, even if other programs need the memory";
        if ui
            .small_button("Continue now")
            .on_hover_text(hover)
            .clicked()
        {
            job.cancel.wait_no_more();
        }
    }
}

/// Current activity. Screen readers announce changes, but not each step of a job.
fn text_ui(ui: &mut Ui, view: &UiContext<'_>) {
    let running = view.app.queue.live();
    // A wait is one change, and no step.
    let is_shown = running.is_none_or(|job| job.waiting.is_some());
    let colour = if running.is_some() {
        palette(ui).text
    } else {
        palette(ui).weak
    };
    let response = ui.add(Label::new(RichText::new(status_text(view)).color(colour)).truncate());
    if is_shown {
        ui.ctx()
            .accesskit_node_builder(response.id, |node| node.set_live(Live::Polite));
    }
}

fn memory_button(ui: &mut Ui, view: &mut UiContext<'_>) {
    let is_open = view.app.cx.drawn.memory != PanelPlace::Nowhere;
    let name = if is_open {
        "Hide memory"
    } else {
        "Show memory"
    };
    let text = RichText::new(format!("{} Memory", caret(is_open))).small();
    let button = ui
        .add(Button::new(text).frame_when_inactive(false))
        .on_hover_text(crate::window::shortcuts::explained(
            "What the job needs, and the memory graph",
            "memory",
        ))
        .accessible_name(name);
    view.on_click(&button, DesktopCommand::ToggleMemory);
}

fn status_text(view: &UiContext<'_>) -> String {
    let queue = &view.app.queue;
    let cx = &view.app.cx;
    if let Some(job) = queue.live() {
        running_text(job, queue)
    } else if queue.is_paused {
        format!("Paused  ·  {} waiting", queue.waiting.len())
    } else if queue.next(queue.edited()).is_some() {
        "Preparing the next job…".to_owned()
    } else if cx.models.are_loading {
        "Looking for models…".to_owned()
    } else if cx.models.all().is_empty() {
        "No model to generate with".to_owned()
    } else if cx.last_word.is_empty() {
        "Ready".to_owned()
    } else {
        cx.last_word.clone()
    }
}

pub(crate) fn stage_text(job: &RunningJob, stage: Stage) -> &'static str {
    let request = job.request.generate();
    let are_several = request.is_some_and(|request| match stage {
        Stage::EncodeImage => {
            let frames = [&request.image, &request.last_image];
            request.references.len() + frames.into_iter().flatten().count() > 1
        }
        Stage::EncodeVision => request.prompt_images.len() > 1,
        _ => false,
    });
    match stage {
        Stage::EncodeImage if are_several => "Reading the images",
        Stage::EncodeVision if are_several => "Encoding the images (CLIP vision)",
        stage => stage.label(),
    }
}

fn running_text(job: &RunningJob, queue: &JobQueue) -> String {
    let stopping = stopping_text(job);
    let text = stopping.map_or_else(|| job_text(job), str::to_owned);
    let (num_running, num_waiting) = (queue.running.len(), queue.waiting.len());
    let mut parts = vec![text];
    if num_running > 1 {
        parts[0] = format!("{}: {}", job.device_name, parts[0]);
        parts.push(format!("{num_running} running"));
    }
    if num_waiting > 0 && job.waiting.is_none() && stopping.is_none() {
        parts.push(format!("{num_waiting} waiting"));
    }
    parts.join(SEPARATOR)
}

pub(crate) fn stopping_text(job: &RunningJob) -> Option<&'static str> {
    if job.cancel.is_paused() {
        Some("Pausing…")
    } else {
        job.cancel.is_cancelled().then_some("Cancelling…")
    }
}

/// `Denoising  ·  step 7 of 25  ·  section 2 of 5  ·  about 3 min left`
pub(crate) fn job_text(job: &RunningJob) -> String {
    if let Some(crowded) = &job.waiting {
        return crowded.to_string();
    }
    let Some(stage) = job.stage else {
        return "Starting the engine…".to_owned();
    };
    let mut facts = vec![stage_text(job, stage).to_owned()];
    if let Some((step, num_steps)) = job.step {
        let unit = match stage {
            _ if stage.is_postprocess() => "frame",
            _ if stage.is_denoising() => "step",
            _ => "part",
        };
        facts.push(format!("{unit} {step} of {num_steps}"));
    } else if stage == Stage::Decode && job.num_frames_decoded > 0 {
        let are_images = job.request.batch_size() > 1;
        let unit = if are_images { "image" } else { "frame" };
        let (number, count) = (job.num_frames_decoded, job.num_frames_of_stage());
        facts.push(format!("{unit} {number} of {count}"));
    }
    let num_sections = job.recipe.as_ref().map_or(1, Recipe::num_sections);
    let is_of_section = stage.is_denoising() || matches!(stage, Stage::Unload | Stage::Decode);
    if num_sections > 1 && is_of_section {
        facts.push(format!("section {} of {num_sections}", job.section + 1));
    }
    if job.has_resumed {
        facts.push("resumed after the engine was restarted".to_owned());
    }
    facts.extend(job.secs_left.map(left_text));
    facts.join(SEPARATOR)
}

pub(crate) fn left_text(secs: f64) -> String {
    format!("about {} left", duration_text(secs.max(1.0)))
}

pub(crate) fn header_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    use MainPage::{Doctor, Gallery, Settings};
    ui.horizontal(|ui| {
        widgets::sign(ui, icons::APERTURE, theme::SIGN_SIZE, palette(ui).accent);
        if view.app.tabs.list.len() == 1 {
            tabs::panel::new_tab_button(ui, view);
        }
        widgets::at_right(ui, "header", |ui| {
            ui.spacing_mut().item_spacing.x = 1.0;
            queue::panel::list::header_button(ui, view);
            let hover = "All results: search them, look at them again, make more of them";
            page_button(ui, view, Gallery, (icons::IMAGES, "Gallery"), hover);
            downloads_button(ui, view);
            let hover = "Check this machine: GPU, memory, libtorch, speed, models";
            page_button(ui, view, Doctor, (icons::STETHOSCOPE, "Doctor"), hover);
            let hover = "Device, folders and appearance";
            page_button(ui, view, Settings, (icons::GEAR, "Settings"), hover);
            theme_button(ui, view);
        });
    });
}

/// Opens a page; pressed again, it goes back to what is watched.
fn page_button(
    ui: &mut Ui,
    view: &mut UiContext<'_>,
    page: MainPage,
    (icon, name): (char, &str),
    hover: &str,
) {
    let is_open = is_open(view, page);
    let hover = shortcuts::explained(hover, &name.to_lowercase());
    if button(ui, is_open, (icon, name), name, &hover).clicked() {
        show(view, page, is_open);
    }
}

fn is_open(view: &UiContext<'_>, page: MainPage) -> bool {
    let is_covered = [view.drawn.queue, view.app.cx.drawn.memory].contains(&PanelPlace::Over);
    view.app.cx.page == page && !is_covered
}

fn show(view: &mut UiContext<'_>, page: MainPage, is_open: bool) {
    let page = if is_open { MainPage::Watch } else { page };
    view.push(AppCommand::Show(page));
}

/// With how far a download is, or how many came to a halt.
fn downloads_button(ui: &mut Ui, view: &mut UiContext<'_>) {
    let (percent, num_stopped) = downloads::panel::state(view);
    let is_open = is_open(view, MainPage::Downloads);
    let one = "1 download was paused or has failed";
    let hover = match (percent, num_stopped) {
        (Some(percent), _) => format!("A model is being downloaded: {percent} %"),
        (None, 0) => "Models that are being downloaded".to_owned(),
        (None, count) => counted(count, one, "{} downloads were paused or have failed"),
    };
    let hover = shortcuts::explained(&hover, "downloads");
    let face = (icons::DOWNLOAD, DOWNLOADS);
    let response = button(ui, is_open, face, DOWNLOADS, &hover);
    let stopped = (num_stopped > 0).then(|| num_stopped.min(99).to_string());
    if let Some(text) = percent.map(|percent| format!("{percent}%")).or(stopped) {
        badge(ui, response.rect, &text, palette(ui).accent);
    }
    if response.clicked() {
        show(view, MainPage::Downloads, is_open);
    }
}

fn theme_button(ui: &mut Ui, view: &mut UiContext<'_>) {
    let (icon, theme) = if ui.visuals().dark_mode {
        (icons::SUN, "light theme")
    } else {
        (icons::MOON, "dark theme")
    };
    let hover = shortcuts::explained(&format!("Switch to the {theme}"), "theme");
    let button = icon_button(ui, icon, &sentence(theme), &hover);
    view.on_click(&button, SettingsCommand::SwitchTheme);
}

/// A button of the header, an icon with its label below. `name` is what a screen reader says.
pub(crate) fn button(
    ui: &mut Ui,
    is_on: bool,
    (icon, label): (char, &str),
    name: &str,
    hover: &str,
) -> Response {
    let palette = palette(ui);
    let colour = if is_on { palette.amber } else { palette.text };
    let of_size = |text: String, size, colour| {
        let font = FontId::proportional(size);
        ui.painter().layout_no_wrap(text, font, colour)
    };
    let label_colour = if is_on { colour } else { palette.weak };
    let label = of_size(label.to_owned(), theme::SMALL_TEXT, label_colour);
    let icon = of_size(icon.to_string(), theme::ICON, colour);
    let width = label.size().x + 2.0 * theme::HEADER_BUTTON_MARGIN;
    let size = vec2(width, theme::HEADER_BUTTON_HEIGHT);
    let (rect, response) = ui.allocate_exact_size(size, Sense::click());
    response.widget_info(|| WidgetInfo::selected(Role::Button, ui.is_enabled(), is_on, name));
    if is_on || response.hovered() || response.has_focus() {
        let fill = if is_on {
            palette.raised
        } else {
            palette.hovered
        };
        ui.painter().rect_filled(rect, theme::RADIUS, fill);
    }
    let centre = rect.center().x;
    let at = |galley: &Galley, y: f32| pos2(centre - galley.size().x / 2.0, y);
    let icon_at = at(&icon, rect.top() + 3.0);
    let label_at = at(&label, rect.bottom() - label.size().y - 2.0);
    ui.painter().galley(icon_at, icon, colour);
    ui.painter().galley(label_at, label, colour);
    response.on_hover_text(hover)
}

pub(crate) fn badge(ui: &Ui, button: Rect, text: &str, fill: Color32) {
    let font = FontId::proportional(theme::SMALL_TEXT);
    let ink = palette(ui).on_accent;
    let galley = ui.painter().layout_no_wrap(text.to_owned(), font, ink);
    let width = (galley.size().x + 7.0).max(theme::BADGE_HEIGHT);
    let size = vec2(width, theme::BADGE_HEIGHT);
    let rect = Align2::RIGHT_TOP.align_size_within_rect(size, button);
    let corners = CornerRadius::same((theme::BADGE_HEIGHT / 2.0) as u8);
    ui.painter().rect_filled(rect, corners, fill);
    let at = rect.center() - galley.size() / 2.0;
    ui.painter().galley(at, galley, ink);
}
