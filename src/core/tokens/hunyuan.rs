//! Prompt template of HunyuanVideo and FramePack for Llama.
//!
//! The text is part of the trained model: one character more changes every embedding. Encodes nothing.
//! After
//! <https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/pipelines/hunyuan_video/pipeline_hunyuan_video_framepack.py>.

use super::{PromptPadding, PromptTemplate};

const BEFORE: &str = "<|start_header_id|>system<|end_header_id|>\n\n\
    Describe the video by detailing the following aspects: \
    1. The main content and theme of the video.\
    2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects.\
    3. Actions, events, behaviors temporal relationships, physical movement changes of the objects.\
    4. background environment, light, style and atmosphere.\
    5. camera angles, movements, and transitions used in the video:<|eot_id|>\
    <|start_header_id|>user<|end_header_id|>\n\n";
const BEHIND: &str = "<|eot_id|>";

/// Chat with a Llama about a video, of which only the user's words count.
pub const HUNYUAN_PROMPT: PromptTemplate = PromptTemplate {
    before: BEFORE,
    behind: BEHIND,
    dropped: 95,
    ids_behind: 1,
    room: 256,
    padding: PromptPadding::After,
    keeps_end: false,
    removed: "",
};
