//! Control images, videos and networks: their settings, and the files that the user has to add.

use super::Node;
use super::walk::Walk;
use crate::restore::{Restored, RestoredControl, file_name, short};

/// Nodes of one chain, such as LoRAs after each other.
const MAX_CHAIN: usize = 200;

/// File of an image or video that a node is given, scaled or in latents.
pub(super) fn loaded_file<'a>(walk: &Walk<'a>, node: &'a Node, name: &str) -> Option<String> {
    let mut source = walk.linked(node, name)?;
    for _ in 0..MAX_CHAIN {
        if let Some(file) = walk.name(source, "image, video, file") {
            return Some(short(file_name(&file)));
        }
        let inputs = ["pixels", "image", "samples", "latent", "video", "mask"];
        source = inputs.iter().find_map(|name| walk.linked(source, name))?;
    }
    None
}

pub(super) fn read_controls(walk: &Walk<'_>, restored: &mut Restored) {
    let nodes = walk.graph.nodes.values().filter(|node| node.runs());
    // ControlNetApplyAdvanced, ControlNetApplySD3, QwenImageDiffsynthControlnet, ...
    let appliers =
        nodes.filter(|node| node.is_called("controlnet") && node.link("image").is_some());
    for node in appliers {
        let network = ["control_net", "model_patch"].iter().find_map(|name| {
            let mut loader = walk.linked(node, name)?;
            for _ in 0..MAX_CHAIN {
                if let Some(name) = walk.name(loader, "control_net_name, name, model_name") {
                    return Some(short(file_name(&name)));
                }
                loader = walk.linked(loader, "control_net")?;
            }
            None
        });
        restored.add_control(RestoredControl {
            network,
            image: loaded_file(walk, node, "image"),
            strength: walk.number(node, "strength").unwrap_or(1.0),
            from: walk.number(node, "start_percent").unwrap_or(0.0),
            until: walk.number(node, "end_percent").unwrap_or(1.0),
        });
    }
}

/// Names the inputs of a model with layers for a control video.
pub(super) fn note_control_videos(walk: &Walk<'_>, restored: &mut Restored) {
    let nodes = walk.graph.nodes.values().filter(|node| node.runs());
    for node in nodes.filter(|node| node.class == "WanVaceToVideo") {
        let strength = walk.number(node, "strength").unwrap_or(1.0);
        for (name, what) in [
            ("control_video", "control clip"),
            ("control_masks", "mask of the control clip"),
            ("reference_image", "reference picture"),
        ] {
            if node.link(name).is_none() {
                continue;
            }
            let file = loaded_file(walk, node, name);
            let file = file.map_or_else(String::new, |name| format!(", {name},"));
            let at_strength = match name {
                "control_video" => format!(" at strength {strength}"),
                _ => String::new(),
            };
            restored.note_picture(format!(
                "Its {what}{at_strength}{file} is not in the file: add it separately"
            ));
        }
    }
}
