//! Files that a result was made from: images, videos, masks and control images, which the user has to add.

use std::path::Path;

use super::nodes::{ComfyGraph, NodeInput, NodeRef, has_word};
use super::tables::{CONTROLNETS, FILES, INPAINTERS, REFERENCES};
use super::unused::is_idle;
use crate::media::{has_image_name, has_video_name};
use crate::restore::names::file_name;
use crate::restore::{ForeignSettings, RestoredControl, short};

/// Inputs that hand on a file, or what was made of it.
const HANDED_ON: [&str; 7] = [
    "pixels", "image", "samples", "latent", "video", "audio", "mask",
];

impl<'g> NodeRef<'g> {
    /// Input with the file of a node that loads an image, a video or the like.
    pub fn file_input(self) -> Option<&'static str> {
        // An old canvas does not name the widgets of every node.
        const UNNAMED: &str = "widget 1";
        let mut names = FILES.split(", ").filter(|_| self.is_called("load"));
        names.find(|name| self.has(name)).or_else(|| {
            let NodeInput::Value(value) = self.input(UNNAMED)? else {
                return None;
            };
            let path = Path::new(value.as_str()?);
            (has_image_name(path) || has_video_name(path)).then_some(UNNAMED)
        })
    }

    /// File in one of the node's inputs, without a folder such as ` [input]`.
    pub fn file(self, names: &str) -> Option<String> {
        let file = self.name(names)?;
        Some(short(file_name(file.split(" [").next()?)))
    }

    /// File of an image or video that a node gives, scaled or in latents.
    fn file_before(self) -> Option<String> {
        let mut chain = self.chain(|node| HANDED_ON.iter().find_map(|name| node.linked(name)));
        chain.find_map(|node| {
            let mut own = ["image", "video", "file", "audio"].into_iter();
            node.file(own.find(|name| matches!(node.input(name), Some(NodeInput::Value(_))))?)
        })
    }

    /// Returns whether an input is the mask of what is inpainted.
    pub fn is_inpaint_mask(self, name: &str) -> bool {
        name.contains("mask") && self.is_called(INPAINTERS)
    }

    /// Input of an inpainting node for its mask.
    pub fn inpaint_mask(self) -> Option<&'g str> {
        let mut names = self.links().map(|(name, _)| name);
        names.find(|name| self.is_inpaint_mask(name))
    }

    /// First node on the way to a mask.
    pub fn mask_source(self, name: &str) -> Option<Self> {
        let is_mask =
            |name: &str, link| self.graph.kind_name(link) == "MASK" || name.contains("mask");
        let chain = self.linked(name)?.chain(|node| {
            let (name, _) = node.links().find(|(name, link)| is_mask(name, link))?;
            node.linked(name)
        });
        chain.last()
    }

    /// Node that makes a mask, unless that is a file, or a border whose mask is made with it.
    pub fn mask_maker(self, name: &str) -> Option<Self> {
        let source = self.mask_source(name)?;
        let is_known = is_idle(source) || source.file_input().is_some() || source.is_called("pad");
        (!is_known).then_some(source)
    }
}

/// Notes the mask of an inpainting node, unless a node makes it.
pub(super) fn note_mask(node: NodeRef<'_>, restored: &mut ForeignSettings) {
    let Some(name) = node.inpaint_mask() else {
        return;
    };
    restored.from_image = true;
    if node.mask_maker(name).is_none() {
        let file = node.mask_source(name).and_then(NodeRef::file_before);
        let file = file.map_or_else(String::new, |file| format!(", {file},"));
        restored.note(format!(
            "Its mask{file} is not in the file: set it again (it was given to {node})"
        ));
    }
}

/// Reads the ControlNets of a graph: ControlNetApplyAdvanced, ControlNetApplySD3, QwenImageDiffsynthControlnet, ...
pub(super) fn read_controls(graph: &ComfyGraph, restored: &mut ForeignSettings) {
    let nodes = graph.refs();
    for node in nodes.filter(|it| it.is_called(CONTROLNETS) && it.link("image").is_some()) {
        let networks = ["control_net", "model_patch"].into_iter();
        let network = networks
            .filter_map(|name| node.linked(name))
            .find_map(|loader| {
                let mut loaders = loader.chain(|loader| loader.linked("control_net"));
                loaders.find_map(|loader| loader.name("control_net_name, name, model_name"))
            });
        let network = network.map(|name| short(file_name(&name)));
        let numbers = ["strength", "start_percent", "end_percent"];
        restored.add_control(RestoredControl {
            image: node.linked("image").and_then(NodeRef::file_before),
            ..RestoredControl::new(network, numbers.map(|name| node.number(name)))
        });
    }
}

/// Input of a node to which a file was given.
pub(super) type FileRole<'g> = (NodeRef<'g>, &'g str);

/// Notes files that have to be added again; returns descriptions of the others. Each comes with the input that it was given
/// to, and with whether it is only a text or a number to the result.
pub(super) fn note_files(
    files: Vec<(String, Option<FileRole<'_>>, bool)>,
    restored: &mut ForeignSettings,
) -> Vec<String> {
    let mut inputs: Vec<(String, Vec<String>)> = Vec::new();
    let mut others = Vec::new();
    for (file, role, is_value) in files {
        let Some((node, input)) = role else {
            others.push(file);
            continue;
        };
        if node.is_inpaint_mask(input) {
            continue;
        }
        let what = input_named(node, input, &file).filter(|_| !is_value);
        let Some(what) = what else {
            others.push(format!("{file} ({} of {node})", short(input)));
            continue;
        };
        match inputs.iter_mut().find(|(known, _)| *known == what) {
            Some((_, files)) if !files.contains(&file) => files.push(file),
            Some(_) => {}
            None => inputs.push((what, vec![file])),
        }
    }
    for (what, files) in inputs {
        let names = files.join(", ");
        restored.note_input(if files.len() == 1 {
            format!("Its {what}, {names}, is not in the file: add it separately")
        } else {
            let what = what.replacen("image", "images", 1);
            format!("Its {what}, {names}, are not in the file: add them separately")
        });
    }
    others
}

/// Name of the input of a job that an input of a node is; `None` where there is no such one.
fn input_named(node: NodeRef<'_>, name: &str, file: &str) -> Option<String> {
    let lower = name.to_lowercase();
    let strength = || {
        node.number("strength")
            .map(|it| format!(" at strength {it}"))
    };
    let what = match &*lower {
        name if node.is_called(REFERENCES)
            || name.contains("reference")
            || name.starts_with("ref_") =>
        {
            node.use_input(name);
            "reference image"
        }
        _ if node.is_called("stylemodel") => {
            return Some(format!(
                "image as a prompt{}",
                strength().unwrap_or_default()
            ));
        }
        name if !node.is_used() && !has_word(name, "pixels start_ end_ control") => return None,
        name if name.contains("control") && name.contains("mask") => "mask of the control video",
        name if name.contains("control") => {
            return Some(format!("control video{}", strength().unwrap_or_default()));
        }
        name if name.starts_with("end_") => "end image",
        name if has_word(name, "mask face pose bg_ background character motion") => return None,
        name if !has_word(name, "start image pixels latent samples vision") => return None,
        _ if has_video_name(Path::new(file)) => "video",
        _ => "start image",
    };
    Some(what.to_owned())
}
