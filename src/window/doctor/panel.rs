//! The doctor page: checks of this machine, and the report with measurements.

use crate::doctor::miopen::MIOPEN_CACHE;
use crate::doctor::{CheckGroup, CheckResult, CheckStatus};
use crate::window::layout::prelude::*;

pub(crate) fn doctor_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    Frame::new()
        .inner_margin(theme::PAGE_MARGIN)
        .show(ui, |ui| {
            header_ui(ui, view);
            progress_ui(ui, view);
            ui.add_space(theme::GAP);
            page_column(ui, "doctor", |ui| {
                for group in CheckGroup::ALL {
                    group_ui(ui, view, group);
                }
            });
        });
}

fn header_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let is_small = ui.available_width() < theme::STACK_WIDTH;
    ui.horizontal(|ui| {
        ui.label(RichText::new("Doctor").heading().strong());
        at_right(ui, "doctor", |ui| {
            let is_enabled = !view.app.doctor.is_examining();
            let name = "Examine again";
            let hover = "Takes a few seconds, while the GPU and the disk are measured";
            let again = ui.add_enabled_ui(is_enabled, |ui| {
                page_button(ui, is_small, icons::RESET, name, hover)
            });
            view.on_press(&again.inner, |app| {
                let is_idle = app.queue.running.is_empty();
                app.doctor.examine(is_idle, &app.cx);
            });
            let (name, hover) = ("Copy as text", "Copy all of this, for a bug report");
            if page_button(ui, is_small, icons::COPY, name, hover).clicked() {
                view.push(DesktopCommand::CopyText(view.app.doctor.text()));
            }
            button_ui(ui, view, is_small);
            view.close_button(ui, "Close the doctor");
            ui.add_space(theme::GAP);
        });
    });
    ui.horizontal_wrapped(|ui| {
        summary_ui(ui, view);
        let hides_fine = &mut view.panels.hides_fine_checks;
        ui.checkbox(hides_fine, "Show only what needs attention");
    });
}

fn summary_ui(ui: &mut Ui, view: &UiContext<'_>) {
    let page = &view.app.doctor;
    for status in [CheckStatus::Fail, CheckStatus::Warn, CheckStatus::Ok] {
        let count = page.count(status);
        if count == 0 {
            continue;
        }
        let (icon, colour) = verdict(ui, status);
        sign(ui, icon, 16.0, colour);
        ui.label(match status {
            CheckStatus::Ok => format!("{count} fine"),
            CheckStatus::Warn => counted(count, "1 note", "{} notes"),
            CheckStatus::Fail => counted(count, "1 problem", "{} problems"),
        });
        ui.add_space(theme::SMALL_GAP);
    }
    if page.is_examining() {
        ui.label(RichText::new("Examining…").color(palette(ui).amber));
        ui.add_space(theme::SMALL_GAP);
    }
}

fn verdict(ui: &Ui, status: CheckStatus) -> (char, Color32) {
    let palette = palette(ui);
    match status {
        CheckStatus::Ok => (icons::CHECK_CIRCLE, palette.good),
        CheckStatus::Warn => (icons::WARNING, palette.amber),
        CheckStatus::Fail => (icons::X_CIRCLE, palette.error),
    }
}

fn group_ui(ui: &mut Ui, view: &mut UiContext<'_>, group: CheckGroup) {
    let hides_fine = view.panels.hides_fine_checks;
    let is_shown = |check: &&CheckResult| {
        check.group == group && !(hides_fine && check.status == CheckStatus::Ok)
    };
    let checks = view.app.doctor.checks.iter().filter(is_shown);
    let checks: Vec<CheckResult> = checks.cloned().collect();
    if checks.is_empty() {
        return;
    }
    group_label(ui, group.label(), "");
    wide_frame(ui, page_frame(ui, 12), |ui| {
        let mut last_name = "";
        for (index, check) in checks.iter().enumerate() {
            if index > 0 {
                ui.add_space(theme::SMALL_GAP);
            }
            let is_new = std::mem::replace(&mut last_name, check.name) != check.name;
            let name = if is_new { check.name } else { "" };
            ui.push_id((group, index), |ui| check_ui(ui, view, check, name));
        }
    });
    ui.add_space(theme::GAP);
}

/// Verdict, name, and text aligned at one edge; below the name if there is little room.
fn check_ui(ui: &mut Ui, view: &mut UiContext<'_>, check: &CheckResult, name: &str) {
    let height = theme::CHECK_HEIGHT;
    let title = RichText::new(title(name)).color(palette(ui).weak);
    ui.spacing_mut().interact_size.y = 0.0;
    let is_stacked = ui.available_width() < theme::STACK_WIDTH;
    if is_stacked && !name.is_empty() {
        ui.horizontal(|ui| {
            ui.add_space(theme::CHECK_ICON_WIDTH + ui.spacing().item_spacing.x);
            ui.label(title.clone());
        });
    }
    ui.with_layout(Layout::left_to_right(Align::TOP), |ui| {
        fixed_ui(ui, vec2(theme::CHECK_ICON_WIDTH, height), |ui| {
            // A fact is neither well nor ill.
            if check.is_verdict() {
                let (icon, colour) = verdict(ui, check.status);
                let name = match check.status {
                    CheckStatus::Ok => "Fine",
                    CheckStatus::Warn => "Note",
                    CheckStatus::Fail => "Problem",
                };
                sign(ui, icon, 16.0, colour)
                    .widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, name));
            }
        });
        if !is_stacked {
            fixed_ui(ui, vec2(theme::CHECK_NAME_WIDTH, height), |ui| {
                ui.label(title);
            });
        }
        ui.vertical(|ui| {
            ui.set_width(ui.available_width());
            words_ui(ui, view, check);
        });
    });
}

/// The name of a check as people write it.
fn title(name: &str) -> String {
    match name {
        "libtorch" => name.to_owned(),
        MIOPEN_CACHE => "MIOpen cache".to_owned(),
        _ => match name.strip_prefix("gpu") {
            Some(rest) => format!("GPU{rest}"),
            None => sentence(name),
        },
    }
}

fn fixed_ui(ui: &mut Ui, size: egui::Vec2, contents: impl FnOnce(&mut Ui)) {
    let (rect, _) = ui.allocate_exact_size(size, egui::Sense::hover());
    let layout = Layout::left_to_right(Align::Center);
    contents(&mut ui.new_child(UiBuilder::new().max_rect(rect).layout(layout)));
}

fn words_ui(ui: &mut Ui, view: &mut UiContext<'_>, check: &CheckResult) {
    let figure = check.message.split_once(": ");
    match figure.filter(|_| check.figure.is_some()) {
        Some((what, figure)) => figure_ui(ui, what, figure),
        None => {
            ui.add(Label::new(sentence(&check.message)).wrap());
        }
    }
    if !check.advice.is_empty() {
        let colour = match check.status {
            CheckStatus::Ok => palette(ui).weak,
            status => verdict(ui, status).1,
        };
        ui.add(Label::new(RichText::new(&check.advice).small().color(colour)).wrap());
    }
    if check.name == MIOPEN_CACHE {
        let hover = "Delete it. MIOpen makes it again when it is needed";
        let clear = sign_button(ui, icons::BROOM, "Clear", hover);
        let clear = clear.accessible_name("Clear MIOpen's cache");
        view.on_press(&clear, |app| app.doctor.clear_miopen(&app.cx));
    } else if !check.command.is_empty() {
        command_ui(ui, view, &check.command);
    }
}

fn figure_ui(ui: &mut Ui, what: &str, figure: &str) {
    let (rate, details) = figure.split_once(" (").unwrap_or((figure, ""));
    let has_room = ui.available_width() >= theme::CHECK_FIGURE_AT + 2.0 * theme::VALUE_WIDTH;
    if !has_room {
        ui.add(Label::new(sentence(what)).wrap());
    }
    ui.horizontal(|ui| {
        if has_room {
            let size = vec2(theme::CHECK_FIGURE_AT, theme::CHECK_HEIGHT);
            fixed_ui(ui, size, |ui| {
                ui.label(sentence(what));
            });
        }
        ui.strong(rate);
        let details = RichText::new(details.trim_end_matches(')'))
            .small()
            .color(palette(ui).weak);
        ui.add(Label::new(details).truncate());
    });
}

fn command_ui(ui: &mut Ui, view: &mut UiContext<'_>, command: &str) {
    let margin = Margin::symmetric(10, 2);
    let frame = filled_frame(palette(ui).field, theme::RADIUS, margin);
    frame.show(ui, |ui| {
        ui.horizontal(|ui| {
            let name = format!("Copy command {command}");
            let button = icon_button(ui, icons::COPY, &name, "Copy this command for a terminal");
            if button.clicked() {
                view.push(DesktopCommand::CopyText(command.to_owned()));
            }
            ui.add(Label::new(RichText::new(command).monospace()).wrap());
        });
    });
}

fn button_ui(ui: &mut Ui, view: &mut UiContext<'_>, is_small: bool) {
    let is_idle = view.app.queue.running.is_empty();
    let is_enabled = is_idle && !view.app.doctor.report.is_busy();
    let mut hover = "A report measures this machine: it waits until no job runs";
    if is_idle {
        hover = "Measure this machine for up to ten minutes and write a page about it, without \
                 names and folders. Nothing is sent";
    }
    let button = ui.add_enabled_ui(is_enabled, |ui| {
        page_button(ui, is_small, icons::CLOCK, "Make a report", hover)
    });
    let button = button.inner.on_disabled_hover_text(hover);
    view.on_press(&button, |app| app.doctor.make_report(&app.cx));
}

fn progress_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let doctor = &view.app.doctor;
    let (text, part) = if doctor.report.is_stopping() {
        ("Writing down what was measured…".to_owned(), None)
    } else if doctor.report.is_busy() {
        let progress = doctor.report.progress.as_ref();
        let what = match progress.map_or("", |progress| &progress.what) {
            "" => "Looking at this machine",
            what => what,
        };
        let part = progress.map_or(0.0, |progress| progress.part);
        (format!("Making a report: {what}"), Some(part))
    } else if let Some(made) = &doctor.made {
        let mut text = "The report was stopped: what was measured until then is there";
        if made.is_whole {
            text = "Report ready. Nothing was sent: review it before you share it";
        }
        (text.to_owned(), None)
    } else {
        return;
    };
    ui.add_space(theme::SMALL_GAP);
    page_frame(ui, 10).show(ui, |ui| {
        ui.set_width((ui.available_width() - 12.0).min(theme::PAGE_WIDTH));
        ui.add(Label::new(text).wrap());
        if let Some(part) = part {
            thin_progress(ui, part);
        }
        ui.horizontal(|ui| {
            let hover = "Measure no more. What was measured until now is kept";
            if !view.app.doctor.report.is_busy() {
                made_ui(ui, view);
            } else if part.is_some() && hint_button(ui, "Cancel", hover).clicked() {
                view.app.doctor.report.stop();
            }
        });
    });
}

fn page_frame(ui: &Ui, margin: i8) -> Frame {
    let margin = Margin::symmetric(16, margin);
    filled_frame(palette(ui).panel, theme::CARD_RADIUS, margin)
}

fn made_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let folder = "Open the folder with the page and its figures as JSON";
    for (is_folder, name, hover) in [
        (false, "Open", "Open the page in your browser"),
        (true, "Show folder", folder),
    ] {
        let button = hint_button(ui, name, hover);
        view.on_press(&button, move |app| {
            app.doctor.show_report(is_folder, &app.cx);
        });
    }
}
