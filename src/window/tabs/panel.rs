//! The row of tabs above the form, shown when there are several.

use crate::window::layout::prelude::*;
use crate::window::shortcuts::explained;

const CLOSE_WIDTH: f32 = 30.0;
/// Of one tab, in points; more of them scroll.
const WIDTHS: std::ops::RangeInclusive<f32> = 84.0..=170.0;

pub(crate) fn tabs_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let count = view.app.tabs.list.len();
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 2.0;
        ui.spacing_mut().button_padding.x = theme::SMALL_GAP;
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            new_tab_button(ui, view);
            let width = ui.available_width() / count as f32 - 2.0;
            let width = width.clamp(*WIDTHS.start(), *WIDTHS.end());
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                ScrollArea::horizontal().id_salt("tabs").show(ui, |ui| {
                    for index in 0..count {
                        tab_ui(ui, view, index, width);
                    }
                });
            });
        });
    });
    ui.add_space(theme::SMALL_GAP);
}

pub(crate) fn new_tab_button(ui: &mut Ui, view: &mut UiContext<'_>) {
    let hover = "Another form with its own model, prompt and images. The queue is shared";
    let button = icon_button(ui, icons::PLUS, "New tab", &explained(hover, "new-tab"));
    view.on_click(&button, TabsCommand::New);
}

fn tab_ui(ui: &mut Ui, view: &mut UiContext<'_>, index: usize, width: f32) {
    let tabs = &view.app.tabs;
    let (tab, is_active) = (&tabs.list[index], tabs.active() == index);
    let title = tab.title(view.form);
    let size = vec2(width, ui.spacing().interact_size.y);
    if let Some((renamed, text)) = &mut view.panels.renamed_tab
        && *renamed == tab.id
    {
        let field = ui.add_sized(size, TextEdit::singleline(text));
        let field = field.accessible_name("Tab name");
        if field.lost_focus() {
            let name = std::mem::take(text);
            view.panels.renamed_tab = None;
            if !ui.input(|input| input.key_pressed(Key::Escape)) {
                view.push(TabsCommand::Rename(index, name));
            }
        } else if !field.has_focus() {
            field.request_focus();
        }
        return;
    }
    let text = RichText::new(&title).color(ink(ui, is_active));
    let button = Button::selectable(is_active, text).frame_when_inactive(true);
    ui.push_id(tab.id, |ui| {
        ui.horizontal(|ui| {
            let close_width = if is_active { CLOSE_WIDTH } else { 0.0 };
            let room = size - vec2(close_width, 0.0);
            let hover = format!("{title}\nDouble-click renames, a middle click closes");
            let response = ui
                .add_sized(room, button.truncate())
                .on_hover_text(hover)
                .accessible_name(format!("Tab {title}"));
            if is_active && response.double_clicked() {
                view.panels.renamed_tab = Some((tab.id, tab.name.clone()));
            } else {
                view.on_click(&response, TabsCommand::Show(index));
            }
            if response.middle_clicked() {
                view.push(TabsCommand::Close(Some(index)));
            }
            if is_active {
                let (name, hover) = (
                    format!("Close {title}"),
                    "Close this tab. Undo brings it back",
                );
                let button = icon_button(ui, icons::X, &name, hover);
                view.on_click(&button, TabsCommand::Close(Some(index)));
            }
        });
    });
}
