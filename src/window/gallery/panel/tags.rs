//! Tags of the selected results.

use std::collections::BTreeMap;

use safelight_core::gallery::{GalleryFilter, MarkChange, ResultMark};

use crate::window::layout::prelude::*;

/// Known tags that are offered while one is written.
const MAX_OFFERED: usize = 4;

pub(super) fn tags_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let chosen = view.app.gallery.chosen();
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for tag in chosen.iter().flat_map(|entry| &entry.tags) {
        *counts.entry(tag).or_default() += 1;
    }
    // Only of those that change, so that undoing it changes no others.
    let mark = |view: &mut UiContext<'_>, tag: &str, is_set: bool| {
        let changed = chosen
            .iter()
            .filter(|entry| entry.tags.contains(tag) != is_set);
        view.push(GalleryCommand::Mark(MarkChange {
            paths: changed.map(|entry| entry.path.clone()).collect(),
            mark: ResultMark::Tag(tag.to_owned()),
            is_set,
        }));
    };
    ui.add_space(theme::SMALL_GAP);
    ui.horizontal_wrapped(|ui| {
        sign(ui, icons::TAG, theme::SMALL_ICON, palette(ui).weak);
        for (tag, count) in &counts {
            let tagged = if *count < chosen.len() {
                format!("{tag} ({count})")
            } else {
                (*tag).clone()
            };
            if removable_chip(ui, &tagged, "tag") {
                mark(view, tag, false);
            }
        }
        let text = &mut view.panels.gallery.new_tag;
        let edit = TextEdit::singleline(text)
            .hint_text("Add a tag")
            .desired_width(theme::LABEL_WIDTH);
        let response = ui
            .add(edit)
            .on_hover_text(
                "Words to find these results by. Enter adds them; commas separate several",
            )
            .accessible_name("Add a tag");
        if response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter)) {
            for tag in ResultMark::tags_in(&std::mem::take(text)) {
                mark(view, &tag, true);
            }
            response.request_focus();
        }
        let start = view.panels.gallery.new_tag.trim().to_lowercase();
        let listing = view.app.gallery.listing.as_ref();
        let known = listing.into_iter().flat_map(|listing| &listing.filters);
        let offered = known.filter_map(|(filter, _)| match filter {
            GalleryFilter::Tag(tag) => Some(tag).filter(|tag| {
                let is_new = counts.get(tag) != Some(&chosen.len());
                is_new && !start.is_empty() && tag.to_lowercase().starts_with(&start)
            }),
            _ => None,
        });
        for tag in offered.take(MAX_OFFERED) {
            if chip_of(ui, tag, &format!("Add tag {tag}"), "Add this tag").clicked() {
                view.panels.gallery.new_tag.clear();
                mark(view, tag, true);
            }
        }
    });
}
