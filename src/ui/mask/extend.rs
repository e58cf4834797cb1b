//! Extending the picture that is painted on: the row with its numbers, and the edges that are dragged.
//!
//! What room a model takes is core's to say, and making it the app's.

use egui::{
    Align2, Button, CornerRadius, CursorIcon, DragValue, Id, Pos2, Rect, RichText, Sense, Stroke,
    StrokeKind, TextStyle, Ui, Vec2, vec2,
};
use safelight_core::media::{MAX_OVERLAP, Margins, Outpaint};

use crate::app::commands::MaskCommand;
use crate::app::mask::Editor;
use crate::ui::View;
use crate::ui::mask::canvas::Lie;
use crate::ui::mask::words;
use crate::ui::widgets::palette;

/// As much as is offered on one side.
const MAX_ROOM: u32 = 4096;
/// How far outside of an edge it is taken hold of, in points.
const HOLD: f32 = 12.0;
/// The bar in the middle of an edge that shows that.
const GRIP: Vec2 = vec2(40.0, 4.0);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Left,
    Top,
    Right,
    Bottom,
}

impl Side {
    const ALL: [Self; 4] = [Self::Left, Self::Top, Self::Right, Self::Bottom];

    fn name(self) -> &'static str {
        match self {
            Self::Left => words::LEFT,
            Self::Top => words::TOP,
            Self::Right => words::RIGHT,
            Self::Bottom => words::BOTTOM,
        }
    }

    fn of(self, margins: &mut Margins) -> &mut u32 {
        match self {
            Self::Left => &mut margins.left,
            Self::Top => &mut margins.top,
            Self::Right => &mut margins.right,
            Self::Bottom => &mut margins.bottom,
        }
    }

    /// Out of the picture.
    fn outwards(self) -> Vec2 {
        match self {
            Self::Left => vec2(-1.0, 0.0),
            Self::Top => vec2(0.0, -1.0),
            Self::Right => vec2(1.0, 0.0),
            Self::Bottom => vec2(0.0, 1.0),
        }
    }

    /// The strip outside of this edge, `by` wide.
    fn strip(self, picture: Rect, by: f32) -> Rect {
        let out = self.outwards();
        let edge = match self {
            Self::Left => Rect::from_min_max(picture.left_top(), picture.left_bottom()),
            Self::Top => Rect::from_min_max(picture.left_top(), picture.right_top()),
            Self::Right => Rect::from_min_max(picture.right_top(), picture.right_bottom()),
            Self::Bottom => Rect::from_min_max(picture.left_bottom(), picture.right_bottom()),
        };
        edge.union(edge.translate(out * by))
    }

    fn cursor(self) -> CursorIcon {
        match self {
            Self::Left | Self::Right => CursorIcon::ResizeHorizontal,
            Self::Top | Self::Bottom => CursorIcon::ResizeVertical,
        }
    }
}

/// What is wished of the picture's room.
#[derive(Default)]
pub(super) struct ExtendPanel {
    wish: Outpaint,
    /// The room that the wish was taken from.
    known: Margins,
    /// An edge that is dragged, and the room there in pixels.
    dragged: Option<(Side, f32)>,
}

impl ExtendPanel {
    /// What was made may be more than was wished.
    fn follow(&mut self, editor: &Editor) {
        if self.known != editor.painted.margins {
            self.known = editor.painted.margins;
            self.wish.margins = self.known;
        }
    }
}

/// The room in numbers.
pub(super) fn extend_ui(ui: &mut Ui, view: &mut View<'_>, editor: &Editor) {
    if !editor.can_extend {
        return;
    }
    let panel = &mut view.panels.mask.extend;
    panel.follow(editor);
    let mut wish = panel.wish;
    let is_applied = ui
        .horizontal_wrapped(|ui| {
            let weak = palette(ui).weak;
            ui.label(RichText::new(words::EXTEND).color(weak))
                .on_hover_text(words::EXTEND_HOVER);
            for side in Side::ALL {
                let value = DragValue::new(side.of(&mut wish.margins))
                    .range(0..=MAX_ROOM)
                    .prefix(side.name())
                    .suffix(" px");
                ui.add(value)
                    .on_hover_text(words::EXTEND_HOVER)
                    .accessible_name(words::side_name(side.name()));
            }
            let overlap = DragValue::new(&mut wish.overlap)
                .range(0..=MAX_OVERLAP)
                .prefix(words::OVERLAP_BEFORE)
                .suffix(" px");
            ui.add(overlap)
                .on_hover_text(words::OVERLAP_HOVER)
                .accessible_name(words::OVERLAP_NAME);
            let can_apply = editor.busy.is_none();
            ui.add_enabled(can_apply, Button::new(words::APPLY))
                .on_hover_text(words::APPLY_HOVER)
                .clicked()
        })
        .inner;
    panel.wish = wish;
    if is_applied {
        view.push(MaskCommand::Extend(wish));
    }
}

/// The edges of the picture, which are dragged; whether the pointer is theirs.
pub(super) fn edges_ui(
    ui: &Ui,
    view: &mut View<'_>,
    editor: &Editor,
    lie: Lie,
    area: Rect,
) -> bool {
    if !editor.can_extend || editor.busy.is_some() {
        view.panels.mask.extend.dragged = None;
        return false;
    }
    let picture = on_screen(editor, lie);
    let mut is_theirs = false;
    for side in Side::ALL {
        let strip = side.strip(picture, HOLD).intersect(area);
        let dragged = view.panels.mask.extend.dragged;
        let is_dragged = dragged.is_some_and(|(of, _)| of == side);
        if !strip.is_positive() && !is_dragged {
            continue;
        }
        let id = Id::unique(("extend-edge", side));
        let response = ui
            .interact(strip, id, Sense::drag())
            .on_hover_cursor(side.cursor())
            .on_hover_text(words::EDGE_HOVER);
        let name = words::edge_name(side.name());
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Splitter, true, &name));
        is_theirs |= response.hovered() || response.dragged();
        let panel = &mut view.panels.mask.extend;
        let mut margins = editor.painted.margins;
        if response.drag_started() {
            panel.dragged = Some((side, *side.of(&mut margins) as f32));
        }
        let Some((_, room)) = panel.dragged.as_mut().filter(|(of, _)| *of == side) else {
            continue;
        };
        let moved = response.drag_delta().dot(side.outwards());
        *room = (*room + moved / lie.scale.max(f32::EPSILON)).clamp(0.0, MAX_ROOM as f32);
        if response.drag_stopped() {
            let room = room.round() as u32;
            panel.dragged = None;
            if *side.of(&mut margins) != room {
                *side.of(&mut margins) = room;
                let outpaint = Outpaint {
                    margins,
                    ..panel.wish
                };
                view.push(MaskCommand::Extend(outpaint));
            }
        }
    }
    is_theirs
}

/// What shows that edges can be dragged, and the room that is dragged out.
pub(super) fn draw_edges(ui: &Ui, view: &View<'_>, editor: &Editor, lie: Lie, area: Rect) {
    if !editor.can_extend {
        return;
    }
    let palette = palette(ui);
    let painter = ui.painter().with_clip_rect(area);
    let picture = on_screen(editor, lie);
    for side in Side::ALL {
        let out = side.outwards();
        let middle = side.strip(picture, HOLD).center();
        let size = if out.x == 0.0 {
            GRIP
        } else {
            vec2(GRIP.y, GRIP.x)
        };
        painter.rect_filled(
            Rect::from_center_size(middle, size),
            CornerRadius::same(2),
            palette.weak,
        );
    }
    if let Some((side, room)) = view.panels.mask.extend.dragged {
        let mut margins = editor.painted.margins;
        let by = (room - *side.of(&mut margins) as f32) * lie.scale;
        let strip = side.strip(picture, by);
        painter.rect_filled(
            strip,
            CornerRadius::ZERO,
            palette.accent.gamma_multiply(0.35),
        );
        let stroke = Stroke::new(1.5, palette.accent);
        painter.rect_stroke(strip, CornerRadius::ZERO, stroke, StrokeKind::Inside);
        let font = TextStyle::Body.resolve(ui.style());
        let text = words::room(room.round() as u32);
        painter.text(
            strip.center(),
            Align2::CENTER_CENTER,
            text,
            font,
            palette.text,
        );
    }
}

fn on_screen(editor: &Editor, lie: Lie) -> Rect {
    lie.to_screen(Rect::from_min_size(Pos2::ZERO, editor.size()))
}
