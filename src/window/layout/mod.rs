//! The panels: what the window shows and what its controls ask for.
//!
//! Panels read the app's state, edit the form in place, and push [`AppCommand`]s; they know no channel, file or thread.
//! Colours and sizes are in [`theme`] alone.

pub mod narrow;
pub mod prelude;
pub mod status;
pub mod view;

use egui::{CentralPanel, LayerId, Popup};

use crate::window::app::SafelightApp;
use crate::window::layout::prelude::*;
use crate::window::layout::view::PanelStates;
use crate::window::state::{DrawnFrame, PanelPlace};
use crate::window::{
    create, doctor, downloads, gallery, inputs, library, loras, mask, notices, palette, queue,
    restore, results, settings, viewer,
};

/// Draws the whole window, of which panels change the form alone. Gives what was seen, and what controls ask for.
pub fn draw(
    ui: &mut Ui,
    app: &mut SafelightApp,
    panels: &mut PanelStates,
) -> (DrawnFrame, Vec<AppCommand>) {
    let (mut form, mut typing) = (app.cx.form.clone(), app.cx.typing.clone());
    let mut folds = app.cx.folds;
    let mut view = UiContext {
        app,
        form: &mut form,
        typing: &mut typing,
        folds: &mut folds,
        panels,
        drawn: DrawnFrame::default(),
        commands: Vec::new(),
        setters: Vec::new(),
    };
    view.app.cx.thumbs.begin_round();
    window_ui(ui, &mut view);
    let (mut drawn, commands, setters) = (view.drawn, view.commands, view.setters);
    drawn.had_focus = ui.ctx().memory(|memory| memory.focused().is_some());
    (app.cx.form, app.cx.typing, app.cx.folds) = (form, typing, folds);
    if !setters.is_empty() {
        ui.ctx().request_repaint();
    }
    for set in setters {
        set(app);
    }
    (drawn, commands)
}

fn window_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    close_menus(ui.ctx());
    let root = egui::accesskit_root_id();
    ui.ctx().accesskit_node_builder(root, |node| {
        node.set_label("Safelight");
    });
    let palette = palette(ui);
    if view.app.watch.is_full && view.app.cx.page == MainPage::Watch {
        let shown = CentralPanel::default()
            .frame(Frame::new().fill(palette.stage))
            .show(ui, |ui| viewer::panel::watch_ui(ui, view));
        notices::panel::over_ui(ui.ctx(), view, shown.inner);
    } else {
        whole_ui(ui, view);
    }
    queue::panel::questions_ui(ui.ctx(), view);
    library::panel::details::question_ui(ui.ctx(), view);
    restore::panel::outputs_ui(ui.ctx(), view);
    palette::panel::palette_ui(ui.ctx(), view);
    palette::panel::shortcuts_ui(ui.ctx(), view);
    loras::panel::lora_browser_ui(ui.ctx(), view);
    results::panel::drag_ui(ui, view);
    inputs::panel::drop_overlay(ui, view);
}

/// A menu that was open does not stay above a question that comes.
fn close_menus(ctx: &Context) {
    let modal = ctx.memory(egui::Memory::top_modal_layer);
    let id = Id::unique("modal-of-the-frame-before");
    let before = ctx.data_mut(|data| {
        std::mem::replace(data.get_temp_mut_or_default::<Option<LayerId>>(id), modal)
    });
    if modal.is_some() && modal != before {
        Popup::close_all(ctx);
    }
}

/// Form, pages, memory and the status line.
fn whole_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let palette = palette(ui);
    let bar = Frame::new()
        .fill(palette.panel)
        .inner_margin(Margin::symmetric(14, 8));
    Panel::bottom("status")
        .frame(bar)
        .resizable(false)
        .show(ui, |ui| status::status_ui(ui, view));
    let is_narrow = ui.available_width() < theme::NARROW_WIDTH;
    if is_narrow {
        Panel::top("sides")
            .frame(bar)
            .resizable(false)
            .show(ui, |ui| narrow::sides_ui(ui, view));
    }
    let form = Frame::new().fill(palette.panel).inner_margin(Margin {
        left: theme::FORM_MARGIN,
        ..Margin::symmetric(0, 10)
    });
    if is_narrow && !view.app.cx.is_view_shown {
        notices::panel::below_ui(ui, view);
        CentralPanel::default()
            .frame(form)
            .show(ui, |ui| create::panel::create_ui(ui, view));
        return;
    }
    if !is_narrow {
        form_ui(ui, view, form);
    }
    beside_form_ui(ui, view, bar);
}

fn form_ui(ui: &mut Ui, view: &mut UiContext<'_>, frame: Frame) {
    let preferred = view.folds.form_width.map_or(theme::FORM_WIDTH, f32::from);
    let (least, most) = (*theme::FORM_WIDTHS.start(), *theme::FORM_WIDTHS.end());
    let room = (ui.available_width() - theme::BESIDE_FORM_WIDTH).clamp(least, most);
    let shown = Panel::left("form")
        .frame(frame)
        .resizable(true)
        .default_size(preferred.clamp(least, room))
        .size_range(least..=room)
        .show(ui, |ui| {
            // Content wider than the form is clipped, and does not push the edge.
            let place = ui.available_rect_before_wrap();
            let mut inside = ui.new_child(UiBuilder::new().max_rect(place));
            create::panel::create_ui(&mut inside, view);
            ui.allocate_rect(place, Sense::hover());
        });
    let width = shown.response.rect.width().round();
    // A window without room for it does not change the chosen width.
    if width != preferred.min(room).round() {
        view.folds.form_width = Some(width as u16);
    }
}

/// View, with the memory graph below it.
fn beside_form_ui(ui: &mut Ui, view: &mut UiContext<'_>, bar: Frame) {
    let palette = palette(ui);
    let queue = queue::panel::list::place(ui.available_width(), view);
    view.drawn.queue = queue;
    if queue == PanelPlace::Over {
        notices::panel::below_ui(ui, view);
        queue::panel::list::whole_ui(ui, view);
        return;
    }
    view.drawn.memory = narrow::memory_place(ui.available_height(), view);
    match view.drawn.memory {
        PanelPlace::Nowhere => {}
        PanelPlace::Beside => narrow::graph_ui(ui, view, bar),
        PanelPlace::Over => {
            notices::panel::below_ui(ui, view);
            narrow::memory_page_ui(ui, view, bar);
            return;
        }
    }
    // Beside what is watched: the memory needs the whole width.
    if queue == PanelPlace::Beside {
        queue::panel::list::panel_ui(ui, view);
    }
    if view.app.cx.page == MainPage::Watch {
        notices::panel::above_ui(ui, view);
    } else {
        notices::panel::below_ui(ui, view);
    }
    CentralPanel::default()
        .frame(Frame::new().fill(palette.stage))
        .show(ui, |ui| match view.app.cx.page {
            MainPage::Watch => {
                viewer::panel::strip::strip_ui(ui, view);
                viewer::panel::watch_ui(ui, view);
            }
            MainPage::Models => library::panel::library_ui(ui, view),
            MainPage::Welcome => library::panel::welcome::welcome_ui(ui, view),
            MainPage::Mask => mask::panel::mask_ui(ui, view),
            MainPage::Gallery => gallery::panel::gallery_ui(ui, view),
            MainPage::Doctor => doctor::panel::doctor_ui(ui, view),
            MainPage::Downloads => downloads::panel::downloads_ui(ui, view),
            MainPage::Settings => settings::panel::settings_ui(ui, view),
        });
}
