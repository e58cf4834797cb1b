//! The words of the page on which a mask is painted, as whole sentences, so that they can be translated.
//!
//! Nothing is drawn here.

pub(super) const TITLE: &str = "Paint a mask";
pub(super) const CANVAS: &str = "Mask over the picture";
pub(super) const OPENING: &str = "Opening the picture…";
pub(super) const NO_PICTURE: &str = "Choose a picture first, then paint a mask over it";
pub(super) const CLOSE: &str = "Close the mask";
pub(super) const CLOSE_HOVER: &str = "Back to the picture. What you painted is kept and used";
pub(super) const USE: &str = "Use this mask";
pub(super) const USE_HOVER: &str =
    "Save it and regenerate the painted part. Generate does this by itself";
pub(super) const DISCARD: &str = "Discard";
pub(super) const DISCARD_HOVER: &str =
    "Throw away what you painted here. A mask that was there before stays";
pub(super) const SOFTENING: &str = "Softening…";
pub(super) const KEEPING: &str = "Saving…";
pub(super) const PAINT: &str = "Paint";
pub(super) const PAINT_HOVER: &str = "The painted part is regenerated";
pub(super) const ERASE: &str = "Erase";
pub(super) const ERASE_HOVER: &str =
    "The erased part stays as it is. The right mouse button erases too (E)";
pub(super) const BRUSH: &str = "Brush size";
pub(super) const BRUSH_HOVER: &str =
    "Diameter of the brush in pixels of the picture ([ and ], or the wheel)";
pub(super) const SOFT: &str = "Soft edge";
pub(super) const SOFT_HOVER: &str = "How much of the brush fades towards its edge. 0 % is hard";
pub(super) const OVERLAY: &str = "Overlay";
pub(super) const OVERLAY_HOVER: &str =
    "How strongly the colour covers the picture. The mask itself does not change";
pub(super) const UNDO: &str = "Undo";
pub(super) const UNDO_HOVER: &str = "Undo the last step (Ctrl+Z)";
pub(super) const REDO: &str = "Redo";
pub(super) const REDO_HOVER: &str = "Redo the step (Ctrl+Shift+Z)";
pub(super) const FILL: &str = "Fill";
pub(super) const FILL_HOVER: &str = "Paint the whole picture";
pub(super) const CLEAR: &str = "Clear";
pub(super) const CLEAR_HOVER: &str = "Erase everything";
pub(super) const INVERT: &str = "Invert";
pub(super) const INVERT_HOVER: &str = "Paint what is not painted, and erase what is";
pub(super) const FEATHER: &str = "Feather";
pub(super) const FEATHER_HOVER: &str =
    "Soften all edges of the mask by this many pixels to each side";
pub(super) const FEATHER_BY: &str = "Feather by";
pub(super) const FEATHER_BY_HOVER: &str = "How far Feather softens";
pub(super) const EXTEND: &str = "Extend";
pub(super) const EXTEND_HOVER: &str = "Give the picture room at its sides, which is generated (outpainting); of a clip every frame gets it. Write pixels here, or drag an edge of the picture. Edges grow to what the model takes";
pub(super) const LEFT: &str = "left ";
pub(super) const TOP: &str = "top ";
pub(super) const RIGHT: &str = "right ";
pub(super) const BOTTOM: &str = "bottom ";
pub(super) const OVERLAP_BEFORE: &str = "overlap ";
pub(super) const OVERLAP_NAME: &str = "Overlap";
pub(super) const OVERLAP_HOVER: &str = "How far the mask fades into the picture at an extended side: half of that is generated anew, so that no seam is seen. 0 keeps every pixel of the picture";
pub(super) const APPLY: &str = "Extend the picture";
pub(super) const APPLY_HOVER: &str =
    "Make the room. What you painted on the picture stays; 0 on all sides takes the room away";
pub(super) const EXTENDING: &str = "Extending…";
pub(super) const EDGE_HOVER: &str = "Drag outwards to extend the picture on this side; drag back to take the room away. What is new is generated";
pub(super) const FIT: &str = "Fit";
pub(super) const FIT_HOVER: &str = "Show the whole picture";
pub(super) const TRUE_SIZE: &str = "100 %";
pub(super) const TRUE_SIZE_HOVER: &str = "One pixel of the picture for each pixel of the screen. Ctrl and the wheel zoom, the middle button moves";

/// The picture that is painted on.
pub(super) fn picture(name: &str, width: f32, height: f32) -> String {
    format!("{name}  ·  {width} × {height} pixels")
}

/// The field of a side, and the edge that is dragged.
pub(super) fn side_name(side: &str) -> String {
    format!("Extend {}", side.trim())
}

pub(super) fn edge_name(side: &str) -> String {
    format!("Drag the {} edge", side.trim())
}

/// How far a side is dragged.
pub(super) fn room(pixels: u32) -> String {
    format!("+{pixels} px")
}
