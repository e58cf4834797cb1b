//! Images and videos: reading the files that people have, writing results, and the settings that travel inside the
//! files.
//!
//! Everything works on plain [`RgbPixels`]s. Nothing here knows a tensor or a widget.

#[cfg_attr(not(feature = "h264"), path = "no_aac.rs")]
mod aac;
mod alpha;
mod colour;
mod edges;
mod endings;
mod error;
mod export;
mod ffmpeg_images;
mod fingerprint;
mod look;
mod mask;
mod metadata;
mod open;
mod open_sound;
mod opened;
mod outpaint;
mod pixels;
mod place;
mod resize;
mod sampled_sound;
mod sheet;
mod sound;
mod source;
mod times;
mod video;

/// True if this build reads and writes H.264 and AAC, and so MP4: `docs/packages.md` says why one may be without.
pub const HAS_H264: bool = cfg!(feature = "h264");

pub use crate::formats::kind::{image_formats, video_formats};
pub use aac::encode_sound;
pub use alpha::AlphaChannel;
pub use edges::canny;
pub use endings::{IMAGE_ENDINGS, VIDEO_ENDINGS, has_image_name, has_video_name};
pub use error::{MAX_SETTINGS_BYTES, MediaError, MediaErrorKind};
pub use export::{EXPORT_FORMATS, ExportedVideo, VideoExport, export_name, frames_between};
pub use fingerprint::{component_fingerprint, image_fingerprint, video_fingerprint};
pub use look::{describe_media, media_info, video_or_image_info};
pub use mask::{
    ImageMask, MaskBrush, MaskFilter, PixelArea, mask_of_image, open_mask, softened, write_mask,
};
#[cfg(test)]
pub(crate) use metadata::test_files;
pub use metadata::{MetadataText, read_settings, read_texts};
pub use open::{MAX_PIXELS, OpenedImage, open_image, open_rgb, open_rgba};
pub use open_sound::open_sound;
pub(crate) use outpaint::with_gray;
pub use outpaint::{
    ExtendedImage, MAX_OVERLAP, OutpaintFill, OutpaintMargins, OutpaintRequest, extend_image,
    write_extended,
};
pub use pixels::RgbPixels;
pub use place::check_target;
pub use resize::{crop_centre, crop_to_aspect, resize_lanczos, thumbnail, thumbnail_size};
pub use sampled_sound::SampledSound;
pub use sheet::{ContactSheet, SheetCell, SheetLabels, SheetPlace, draw_sheet, sheet_edge};
pub use sound::{FoundSound, SoundCodec, SoundTrack, sound_for};
pub(crate) use source::first_frame;
pub use source::{
    MAX_VIDEO_PIXELS, TakeFrame, Video, VideoInfo, VideoReader, frame_starts, last_frame,
    open_video, open_video_for_model, video_files, video_info,
};
pub use times::FrameStarts;
pub use video::{
    DEFAULT_VIDEO_ENDING, FrameSegments, SegmentWriter, VideoFormat, VideoOptions, VideoWriter,
    check_frame_size, check_frames_writable, check_writable, jpeg_bytes, open_jpeg, write_png,
    write_video,
};
