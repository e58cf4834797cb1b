//! Size and length of a result: widths and heights, presets, and the sizes of images that are encoded.

use std::collections::BTreeSet;

use serde_json::Value;

use super::passes::takes_image;
use super::walk::{GraphWalk, InputSource, LinkKind, is_sampler};
use super::{ComfyNode, MAX_CHAIN, NodeInput, has_word};
use crate::restore::{ForeignSettings, fields};

/// Nodes that change the size of an image.
pub(super) const RESIZERS: &str = "scale resize crop pad fit stitch";
/// Words in the names of inputs that choose a size.
const PRESETS: &str = "aspect resolution preset dimension ratio size";

impl<'a> GraphWalk<'a> {
    /// Size that a node sets: by a preset such as `3:4 portrait 896x1152`, else by width and height.
    pub fn size(&self, node: &'a ComfyNode) -> Option<(u32, u32)> {
        // Both edges may come from a node whose edges come from elsewhere.
        let _guard = self.enter_size()?;
        if measures_image(node) {
            let (name, input) = *self.links_of(node, LinkKind::Image).first()?;
            return self.size(self.follow(input, name)?.node()?);
        }
        if keeps_aspect(node) {
            return None;
        }
        let preset = size_preset(node);
        let size = |width, height| Some((self.count(node, width)?, self.count(node, height)?));
        let mut found = match &preset {
            None => size(
                "width, generation_width, empty_latent_width",
                "height, generation_height, empty_latent_height",
            ),
            Some(preset) if node.class == "ResolutionSelector" => self.size_of_aspect(node, preset),
            Some(preset) => {
                let is_part = |it: char| it.is_ascii_digit() || "x×* ".contains(it);
                let mut words = preset.split(|it| !is_part(it));
                words.find_map(|word| fields::size(word.trim()))
            }
        };
        for name in node.inputs.keys() {
            if has_word(name, "swap flip invert") {
                let is_on = self.value(node, name)?;
                if is_on == true || is_on == "On" || is_on == "true" {
                    found = found.map(|(width, height)| (height, width));
                }
            }
        }
        if node.has("prescale_factor") {
            let scale = self.number(node, "prescale_factor")?;
            let scaled = |edge| fields::count(&(f64::from(edge) * scale).floor().into());
            found = found.and_then(|(width, height)| Some((scaled(width)?, scaled(height)?)));
        }
        // 0 leaves the edge of the preset.
        let edge = |name: &str, of_preset: Option<u32>| match self.number(node, name) {
            None if node.has(name) => None,
            None | Some(0.0) => of_preset,
            Some(_) => self.count(node, name),
        };
        let width = edge("width_override", found.map(|it| it.0))?;
        if preset.is_some() {
            let inputs = node.inputs.iter();
            let inputs = inputs.filter(|(name, _)| has_word(&name.to_lowercase(), PRESETS));
            inputs
                .filter(|(name, _)| !name.contains("batch"))
                .for_each(|(_, input)| self.use_input(input));
        }
        Some((width, edge("height_override", found.map(|it| it.1))?))
    }

    /// Returns whether a slot of a node gives its height: by the slot's name, else by the slots that are linked to the
    /// edges of others, of which the first gives the width; `wanted` is the edge that is looked for.
    pub fn is_height(&self, node: &ComfyNode, slot: u64, wanted: &str) -> bool {
        match node.output(slot).map(|slot| slot.name.to_lowercase()) {
            Some(name) if name.contains("height") => return true,
            Some(name) if name.contains("width") => return false,
            _ => {}
        }
        let nodes = &self.graph.nodes;
        if slot == 0 || !self.spend(nodes.len() / 16) {
            return false;
        }
        let links = nodes.values().flat_map(|other| &other.inputs);
        let slots: BTreeSet<u64> = links
            .filter_map(|(name, input)| match input {
                NodeInput::Link(link) if link.from == node.id => {
                    has_word(name, "width height").then_some(link.slot)
                }
                _ => None,
            })
            .collect();
        match slots.first() {
            Some(first) if slots.len() > 1 => slot.abs_diff(*first) % 2 == 1,
            _ => wanted == "height",
        }
    }

    /// Size of an aspect such as `16:9 (Widescreen)` and a number of megapixels.
    fn size_of_aspect(&self, node: &'a ComfyNode, aspect: &str) -> Option<(u32, u32)> {
        let (width, height) = aspect.split_whitespace().next()?.split_once(':')?;
        let (width, height): (f64, f64) = (width.parse().ok()?, height.parse().ok()?);
        let pixels = self.number(node, "megapixels")? * 1024.0 * 1024.0;
        let multiple = self.number(node, "multiple").unwrap_or(8.0);
        let scale = (pixels / (width * height)).sqrt();
        let edge = |edge: f64| {
            let edge = (edge * scale / multiple).round_ties_even() * multiple;
            let least = self.number(node, "minimum").unwrap_or(1.0);
            fields::count(&edge.into()).filter(|_| edge >= least)
        };
        edge(width).zip(edge(height))
    }
}

/// Preset from which a node takes its size, unless that is custom.
pub(super) fn size_preset(node: &ComfyNode) -> Option<String> {
    node.inputs.iter().find_map(|(name, input)| {
        let NodeInput::Value(Value::String(text)) = input else {
            return None;
        };
        let (name, text) = (name.to_lowercase(), text.to_lowercase());
        let is_own = has_word(&text, "custom none manual");
        let is_switch = matches!(text.as_str(), "on" | "off" | "true" | "false");
        (has_word(&name, PRESETS) && !is_own && !is_switch).then_some(text)
    })
}

/// Returns whether a node gives the size of the image that it is given.
pub(super) fn measures_image(node: &ComfyNode) -> bool {
    node.is_called("getimagesize imagesize getsize") && !node.has("width, height")
}

/// Returns whether a node scales an image into a size without changing its shape.
fn keeps_aspect(node: &ComfyNode) -> bool {
    node.inputs.iter().any(|(name, input)| match input {
        NodeInput::Value(Value::Bool(is_on)) => *is_on && has_word(name, "proportion aspect"),
        NodeInput::Value(Value::String(text)) => {
            has_word(name, "proportion aspect method mode")
                && has_word(text, "proportion resize fit longest total")
        }
        _ => false,
    })
}

/// Returns whether a sampler starts from noise alone: its latents are empty ones of some size.
pub(super) fn starts_from_noise<'a>(walk: &GraphWalk<'a>, sampler: &'a ComfyNode) -> bool {
    let mut node = sampler;
    for _ in 0..MAX_CHAIN {
        let next = match walk.links_of(node, LinkKind::Latent)[..] {
            [] => break,
            [(name, input)] => walk.follow(input, name).and_then(InputSource::node),
            _ => None,
        };
        match next {
            Some(next) if !is_sampler(next) => node = next,
            _ => return false,
        }
    }
    !is_sampler(node) && !takes_image(walk, node) && walk.size(node).is_some()
}

/// Reads the size and length of a node.
pub(super) fn read_size<'a>(
    walk: &GraphWalk<'a>,
    node: &'a ComfyNode,
    restored: &mut ForeignSettings,
) {
    // A box within the image has a position.
    if restored.width.is_none() && !node.has("x, y") {
        restored.take_size(walk.size(node));
    }
    // A part of a batch is not a video.
    if restored.num_frames.is_none() && !node.is_called("frombatch") {
        let names = "length, num_frames";
        let found = number_or_note(walk, node, names, "number of frames", restored);
        restored.num_frames = found.and_then(|it| fields::count(&it.into()));
    }
}

/// Reads the size from the sampler's latents, or from the image that they encode; returns the node that makes it where
/// it could not be read.
pub(super) fn read_latents<'a>(
    walk: &GraphWalk<'a>,
    sampler: &'a ComfyNode,
    restored: &mut ForeignSettings,
) -> Option<&'a ComfyNode> {
    let mut last = None;
    let mut node = sampler;
    // By which latents are enlarged before they are denoised; NaN where unknown.
    let mut scale = 1.0;
    for _ in 0..MAX_CHAIN {
        let latents = walk.links_of(node, LinkKind::Latent);
        let is_image = latents.is_empty() && !is_sampler(node) && restored.width.is_none();
        let images = walk.links_of(node, LinkKind::Image);
        let images = images.first().filter(|_| is_image);
        let next = match images.or_else(|| latents.first()) {
            Some((name, input)) => walk.follow(input, name),
            None => walk.source(node, "latent_image, samples, latent"),
        };
        let Some(next) = next
            .and_then(InputSource::node)
            .filter(|next| !is_sampler(next))
        else {
            break;
        };
        if images.is_none() || next.is_called(RESIZERS) {
            last = Some(next);
        }
        if next.is_switch() {
            break;
        }
        node = next;
        let is_sized = restored.width.is_some();
        if is_sized {
            // Replaced, and so not named as unused.
            _ = walk.size(node);
        }
        read_size(walk, node, restored);
        let size = restored.width.zip(restored.height);
        if let Some((width, height)) = size.filter(|_| !is_sized && scale != 1.0) {
            let scaled =
                |edge| fields::count(&((f64::from(edge) / 8.0 * scale).round() * 8.0).into());
            (restored.width, restored.height) = (scaled(width), scaled(height));
        } else if size.is_none() && node.is_called("scale") {
            scale *= walk.number(node, "scale_by").unwrap_or(f64::NAN);
        }
    }
    // Else it is that of the image, which has to be added.
    last.filter(|node| {
        restored.width.is_none() && (!takes_image(walk, node) || node.is_called(RESIZERS))
    })
}

/// Reads a number, and names it where other nodes make it in a way that is not followed.
pub(super) fn number_or_note<'a>(
    walk: &GraphWalk<'a>,
    node: &'a ComfyNode,
    names: &str,
    what: &str,
    restored: &mut ForeignSettings,
) -> Option<f64> {
    let found = walk.number(node, names);
    let mut makers = names
        .split(", ")
        .filter_map(|name| Some((name, walk.linked(node, name)?)));
    if let Some((name, maker)) = makers.next().filter(|_| found.is_none()) {
        walk.use_node(maker);
        walk.use_input(&node.inputs[name]);
        restored.note(format!(
            "The {what} could not be read: {maker} makes it. The model's own is used"
        ));
    }
    found
}
