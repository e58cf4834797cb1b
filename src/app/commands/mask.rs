//! What may be asked of the page where a mask is painted.
//!
//! Nothing is done here.

use safelight_core::media::{Brush, Outpaint};

use crate::app::inputs::slots::MaskOf;
use crate::app::mask::tiles::Sight;

#[derive(Clone, Debug, PartialEq)]
pub enum MaskCommand {
    /// Paint over this, from the mask that there is.
    Open(MaskOf),
    /// The pointer went down here; pixels of the picture.
    Begin([f32; 2], Brush),
    /// And on to here.
    Move([f32; 2], Brush),
    /// And up.
    End,
    Fill,
    Clear,
    Invert,
    /// Soften all edges by so many pixels.
    Soften(u32),
    /// Give the picture room at its sides; none takes it away again.
    Extend(Outpaint),
    See(Sight),
    Undo,
    Redo,
    /// Keep it as a file and as the mask of what it lies on.
    Use,
    /// Go back without it.
    Discard,
}
