//! ControlNets: their settings, and the control images that the user has to add.

use super::walk::GraphWalk;
use super::{ComfyNode, MAX_CHAIN, NodeInput};
use crate::restore::names::file_name;
use crate::restore::{ForeignSettings, RestoredControl, short};

/// Name of a file that a node loads, without a folder such as ` [input]`.
pub(super) fn shown_file(file: &str) -> String {
    short(file_name(file.split(" [").next().unwrap_or_default()))
}

/// File of an image or video that a node gives, scaled or in latents.
pub(super) fn file_of<'a>(walk: &GraphWalk<'a>, node: &'a ComfyNode) -> Option<String> {
    let mut source = node;
    for _ in 0..MAX_CHAIN {
        let is_value =
            |name: &&&str| matches!(source.inputs.get(**name), Some(NodeInput::Value(_)));
        let own = ["image", "video", "file", "audio"].iter().find(is_value);
        if let Some(file) = own.and_then(|name| walk.name(source, name)) {
            return Some(shown_file(&file));
        }
        let inputs = [
            "pixels", "image", "samples", "latent", "video", "audio", "mask",
        ];
        source = inputs.iter().find_map(|name| walk.linked(source, name))?;
    }
    None
}

pub(super) fn read_controls(walk: &GraphWalk<'_>, restored: &mut ForeignSettings) {
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
            image: walk.linked(node, "image").and_then(|it| file_of(walk, it)),
            strength: walk.number(node, "strength").unwrap_or(1.0),
            from: walk.number(node, "start_percent").unwrap_or(0.0),
            until: walk.number(node, "end_percent").unwrap_or(1.0),
        });
    }
}
