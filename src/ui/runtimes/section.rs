//! The section of the settings with the libtorch folders: which are here, which one jobs use, which would fit this machine.
//!
//! One errand runs at a time; its row shows how far it is.

use egui::{Button, Frame, RichText, Ui};
use safelight_core::units::size_text;

use super::{failure_ui, mend_ui, progress_ui};
use crate::app::commands::RuntimeCommand;
use crate::app::notices::sentence;
use crate::app::runtimes::{Errand, RuntimeState};
use crate::runtimes::{Advice, Before, Build, Kind, Overview, RuntimeRow};
use crate::ui::runtimes::{DONE, GET_HOVER, NEVER_ON_AMD, USE, USE_HOVER};
use crate::ui::widgets::{palette, wide_note};
use crate::ui::{View, theme};

/// The setting below whose section it stands.
pub(in crate::ui) const KEY: &str = "runtime.libtorch";

/// What the section remembers for itself.
#[derive(Default)]
pub struct SectionState {
    /// The id of the one that is perhaps deleted, until that is answered.
    asked: Option<String>,
}

/// Whether the section is meant by these words of a search, in lower case.
fn is_meant(search: &str) -> bool {
    let mut wanted = search.split_whitespace();
    wanted.all(|word| {
        "runtimes libtorch gpu rocm cuda cpu device engine install use check repair delete remove \
        go back"
            .contains(word)
    })
}

/// `search`: what is looked for in the settings. The answer is whether it was shown.
pub(in crate::ui) fn section_ui(ui: &mut Ui, view: &mut View<'_>, search: &str) -> bool {
    if !is_meant(search) {
        return false;
    }
    ui.add_space(theme::GAP);
    ui.label(RichText::new("Runtimes").strong());
    ui.separator();
    let note = "A runtime is a folder with libtorch, which computes the jobs.";
    wide_note(ui, note, palette(ui).weak);
    let Some(overview) = view.app.runtimes.overview.clone() else {
        wide_note(ui, "Looking at this machine…", palette(ui).weak);
        return true;
    };
    let here = overview.here.iter().map(|row| &row.found.id);
    let mut shown = here.chain(overview.offers.iter().map(|build| &build.id));
    // One that is deleted has no row any more.
    if !shown.any(|id| is_about(view, id)) {
        ended_ui(ui, view);
    }
    for row in &overview.here {
        row_ui(ui, view, row);
    }
    if overview.here.is_empty() {
        wide_note(ui, "No runtime was found.", palette(ui).amber);
    }
    if let Some(before) = overview.previous()
        && !view.app.runtimes.is_busy()
    {
        let id = &before.found.id;
        let button = ui.button(format!("Go back to {id}"));
        if button
            .on_hover_text("Try the runtime that jobs used before the one in use, and use it again")
            .clicked()
        {
            view.push(RuntimeCommand::Use(id.clone()));
        }
    }
    fitting_ui(ui, view, &overview);
    true
}

/// What came of the last errand.
fn ended_ui(ui: &mut Ui, view: &View<'_>) {
    failure_ui(ui, view);
    let runtimes = &view.app.runtimes;
    if runtimes.state != RuntimeState::Done {
        return;
    }
    let text = match &runtimes.errand {
        Some(Errand::Get { .. } | Errand::Use(_)) => DONE.to_owned(),
        Some(Errand::Check(id)) => format!("The check passed: {id} computes right."),
        Some(Errand::Remove(id)) => format!("Deleted: {id}."),
        None => return,
    };
    wide_note(ui, &text, palette(ui).good);
}

/// Whether the errand that runs, or ran last, is about this one.
fn is_about(view: &View<'_>, id: &str) -> bool {
    let errand = view.app.runtimes.errand.as_ref();
    errand.is_some_and(|it| it.id() == id)
}

fn frame(ui: &Ui) -> Frame {
    Frame::new()
        .fill(palette(ui).panel)
        .corner_radius(theme::RADIUS)
        .inner_margin(theme::SMALL_GAP)
}

fn row_ui(ui: &mut Ui, view: &mut View<'_>, row: &RuntimeRow) {
    let found = &row.found;
    frame(ui).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.horizontal_wrapped(|ui| {
            ui.label(RichText::new(&found.id).strong());
            if found.is_used {
                ui.label(RichText::new("in use").small().color(palette(ui).good));
            } else if found.is_previous() {
                ui.label(RichText::new("used before").small().color(palette(ui).weak));
            }
        });
        let facts = facts_text(row.kind, row.version.as_deref(), &row.targets, row.bytes);
        wide_note(ui, &facts, palette(ui).text);
        if let Some(device) = &row.device {
            wide_note(
                ui,
                &format!("When it was last checked it computed on {device}"),
                palette(ui).text,
            );
        }
        let folder = found.runtime.folder.display().to_string();
        wide_note(ui, &folder, palette(ui).weak);
        for concern in &row.concerns {
            wide_note(ui, &sentence(concern), palette(ui).amber);
        }
        let is_idle = !view.app.runtimes.is_busy();
        let is_about_it = is_about(view, &found.id);
        if is_about_it && !is_idle {
            progress_ui(ui, view);
        } else {
            if is_about_it {
                ended_ui(ui, view);
            }
            ui.add_enabled_ui(is_idle, |ui| {
                ui.horizontal_wrapped(|ui| buttons_ui(ui, view, row));
            });
        }
        question_ui(ui, view, row);
    });
}

/// Device kind, version, GPU targets and size of a libtorch.
fn facts_text(kind: Kind, version: Option<&str>, targets: &[String], bytes: u64) -> String {
    let kind = match kind {
        Kind::Cpu => "CPU",
        Kind::Cuda => "CUDA",
        Kind::Rocm => "ROCm",
    };
    let version = version.unwrap_or("version unknown");
    let mut facts = vec![kind.to_owned(), format!("libtorch {version}")];
    if !targets.is_empty() {
        facts.push(targets.join(" "));
    }
    facts.push(size_text(bytes));
    facts.join(" · ")
}

fn buttons_ui(ui: &mut Ui, view: &mut View<'_>, row: &RuntimeRow) {
    let (found, id) = (&row.found, &row.found.id);
    if !found.is_used {
        let button = ui.button(USE).on_hover_text(USE_HOVER);
        if button.accessible_name(format!("Use {id}")).clicked() {
            view.push(RuntimeCommand::Use(id.clone()));
        }
    }
    let has_failed =
        matches!(view.app.runtimes.state, RuntimeState::Failed(_)) && is_about(view, id);
    if let Some(build) = row
        .build
        .as_ref()
        .filter(|_| has_failed || row.is_incomplete)
    {
        let button = ui.button("Repair").on_hover_text(
            "Download the files that are missing or damaged, try whether it computes right, and \
            use it",
        );
        if button.accessible_name(format!("Repair {id}")).clicked() {
            view.push(RuntimeCommand::Install(Box::new(build.clone())));
        }
    }
    let button = ui.button("Check").on_hover_text(
        "Compare its files with those that were installed, and a matrix product, a convolution and \
        attention with the CPU, in a process of its own",
    );
    if button.accessible_name(format!("Check {id}")).clicked() {
        view.push(RuntimeCommand::Check(id.clone()));
    }
    if found.is_own && !found.is_used {
        let is_kept = found.before == Before::Kept;
        let explanation = if is_kept {
            "Kept until a job has finished on the runtime in use, so that you can go back to it"
        } else {
            "Delete its folder. Another runtime is used"
        };
        let button = ui.add_enabled(!is_kept, Button::new("Delete…"));
        let button = button
            .on_hover_text(explanation)
            .on_disabled_hover_text(explanation);
        if button.accessible_name(format!("Delete {id}")).clicked() {
            view.panels.settings.runtimes.asked = Some(id.clone());
        }
    }
}

/// Whether it is really to be deleted.
fn question_ui(ui: &mut Ui, view: &mut View<'_>, row: &RuntimeRow) {
    let id = &row.found.id;
    if view.panels.settings.runtimes.asked.as_ref() != Some(id) {
        return;
    }
    let is_possible = row.found.can_be_removed() && !view.app.runtimes.is_busy();
    ui.horizontal_wrapped(|ui| {
        ui.label(format!("Delete {id} and free {}?", size_text(row.bytes)));
        let remove = ui.add_enabled(is_possible, Button::new("Delete it"));
        if remove.on_hover_text("It can be installed again").clicked() {
            view.push(RuntimeCommand::Remove(id.clone()));
            view.panels.settings.runtimes.asked = None;
        }
        let keep = ui.button("Keep it").on_hover_text("Delete nothing");
        if keep.clicked() {
            view.panels.settings.runtimes.asked = None;
        }
    });
}

/// What could be installed, or what has to be mended before anything can.
fn fitting_ui(ui: &mut Ui, view: &mut View<'_>, overview: &Overview) {
    let is_refused = matches!(overview.advice, Advice::Mend { .. });
    if overview.offers.is_empty() && !is_refused {
        if overview.machine.gpus.is_empty() && overview.advice == Advice::NoGpu {
            let note = "No GPU was found: jobs run on the CPU.";
            wide_note(ui, note, palette(ui).weak);
        }
        return;
    }
    ui.add_space(theme::SMALL_GAP);
    ui.label(RichText::new("For this machine").color(palette(ui).weak));
    if let Advice::Mend { refusal, .. } = &overview.advice {
        frame(ui).show(ui, |ui| {
            ui.set_width(ui.available_width());
            mend_ui(ui, view, refusal);
        });
    }
    for build in &overview.offers {
        offer_ui(ui, view, build);
    }
}

fn offer_ui(ui: &mut Ui, view: &mut View<'_>, build: &Build) {
    frame(ui).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.label(RichText::new(&build.name).strong());
        wide_note(ui, &offer_text(build), palette(ui).text);
        if build.kind == Kind::Rocm {
            wide_note(ui, NEVER_ON_AMD, palette(ui).weak);
        }
        let is_idle = !view.app.runtimes.is_busy();
        if is_about(view, &build.id) {
            if !is_idle {
                progress_ui(ui, view);
                return;
            }
            ended_ui(ui, view);
        }
        let button = ui.add_enabled(is_idle, Button::new("Install"));
        let name = format!("Install {}", build.name);
        let button = button.on_hover_text(GET_HOVER);
        if button.accessible_name(name).clicked() {
            view.push(RuntimeCommand::Install(Box::new(build.clone())));
        }
    });
}

fn offer_text(build: &Build) -> String {
    let size = size_text(build.download_mb * 1_000_000);
    format!("About {size} to download. Licences: {}.", build.licences)
}
