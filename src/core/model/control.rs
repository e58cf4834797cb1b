//! Control types, and mechanisms by which a model accepts control images.

use serde::{Deserialize, Serialize};

use crate::enum_macros::{named, parsed};

named! {
    /// Control type.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum ControlKind {
        /// White lines on black, as Canny draws them.
        Edges = "edges", "Edges";
        /// As HED and PiDiNet draw them.
        SoftEdges = "soft_edges", "Soft edges";
        /// As M-LSD draws them.
        StraightLines = "straight_lines", "Straight lines";
        Scribble = "scribble", "Scribble";
        /// White is near.
        Depth = "depth", "Depth";
        Normals = "normals", "Normals";
        /// One colour for each kind of thing, as in ADE20K's palette.
        Segments = "segments", "Segments";
        /// Limbs in colours, as OpenPose and DWPose draw them.
        Pose = "pose", "Pose";
        Gray = "gray", "Gray";
        Blur = "blur", "Blur";
        /// The image itself, which is made anew with more details.
        Tile = "tile", "Tile";
        /// The image itself, which is restored.
        LowQuality = "low_quality", "Low quality";
        /// The image itself, of which the part under a mask is made anew.
        Inpaint = "inpaint", "Inpaint";
    }
}

parsed!(ControlKind, "a kind of control");

impl ControlKind {
    /// Description of such an image that fits after "needs".
    #[must_use]
    pub fn described(self) -> &'static str {
        match self {
            Self::Edges => "an image of edges",
            Self::SoftEdges => "an image of soft edges",
            Self::StraightLines => "an image of straight lines",
            Self::Scribble => "a scribble",
            Self::Depth => "a depth map",
            Self::Normals => "a normal map",
            Self::Segments => "a segmentation map",
            Self::Pose => "an image of a pose",
            Self::Gray => "a gray image",
            Self::Blur => "a blurred image",
            Self::Tile => "an image to add details to",
            Self::LowQuality => "an image to mend",
            Self::Inpaint => "an image to make anew in part",
        }
    }
}

/// Mechanism by which control images enter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlBy {
    #[default]
    Nothing,
    /// As input channels next to the noise in every step, at full strength.
    Channels,
    /// By layers of the model, with any strength.
    Layers,
    /// By one ControlNet each.
    Networks,
}

/// Control images that a model accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ControlUse {
    pub by: ControlBy,
    /// Maximum number; 0 if it accepts none.
    pub most: u32,
    /// The model makes nothing without one.
    pub is_required: bool,
    /// Videos as well as images.
    pub takes_videos: bool,
    /// Each with a mask of what is made anew.
    pub takes_masks: bool,
    /// Control type, if the model knows only one.
    pub kind: Option<ControlKind>,
}

impl ControlUse {
    pub const NONE: Self = Self {
        by: ControlBy::Nothing,
        most: 0,
        is_required: false,
        takes_videos: false,
        takes_masks: false,
        kind: None,
    };
    /// Any number of ControlNets.
    pub const NETWORKS: Self = Self {
        by: ControlBy::Networks,
        most: 4,
        ..Self::NONE
    };

    /// Returns whether a control image can be outpainted: gray there, with a mask of the gray area.
    #[must_use]
    pub fn can_extend(self) -> bool {
        self.takes_videos && self.takes_masks
    }

    /// Returns whether it accepts any.
    #[must_use]
    pub fn is_possible(self) -> bool {
        self.most > 0 && self.by != ControlBy::Nothing
    }
}
