//! Sizes: widths and heights, presets, and the sizes of images that are measured.

use std::collections::BTreeSet;

use serde_json::Value;

use super::link_kind::LinkKind;
use super::nodes::{NodeInput, NodeRef, has_word};
use super::tables::{HEIGHTS, SIZE_PRESETS, SIZE_READERS, WIDTHS};
use super::values::is_on;
use crate::restore::fields;

impl NodeRef<'_> {
    /// Size that a node sets: by a preset such as `3:4 portrait 896x1152`, else by width and height.
    pub fn size(self) -> Option<(u32, u32)> {
        if self.measures_image() {
            let images = self.links_of(LinkKind::Image);
            let image = self.linked(images.first()?)?;
            return self.graph.nested(|| image.size()).flatten();
        }
        if self.keeps_aspect() {
            return None;
        }
        let preset = self.size_preset();
        let mut found = match &preset {
            None => self
                .count(WIDTHS)
                .and_then(|width| Some((width, self.count(HEIGHTS)?))),
            Some(preset) if self.class == "ResolutionSelector" => self.size_of_aspect(preset),
            Some(preset) => {
                let is_part = |it: char| it.is_ascii_digit() || "x×* ".contains(it);
                let mut words = preset.split(|it| !is_part(it));
                words.find_map(|word| fields::size(word.trim()))
            }
        };
        let mut swaps = self.node.inputs.keys();
        let swap = swaps.find(|name| has_word(name, "swap flip invert"));
        if let Some(swap) = swap
            && is_on(&self.value(swap)?) == Some(true)
        {
            found = found.map(|(width, height)| (height, width));
        }
        if self.has("prescale_factor") {
            let scale = self.number("prescale_factor")?;
            let scaled = |edge| fields::count(&(f64::from(edge) * scale).floor().into());
            found = found.and_then(|(width, height)| scaled(width).zip(scaled(height)));
        }
        // 0 leaves the edge of the preset.
        let edge = |name: &str, of_preset: Option<u32>| match self.number(name) {
            None if self.has(name) => None,
            None | Some(0.0) => of_preset,
            Some(_) => self.count(name),
        };
        let width = edge("width_override", found.map(|it| it.0))?;
        if preset.is_some() {
            let is_choice = |name: &str| has_word(name, SIZE_PRESETS) && !name.contains("batch");
            let names = self.node.inputs.keys();
            let choices = names.filter(|name| is_choice(&name.to_lowercase()));
            choices.for_each(|name| self.use_input(name));
        }
        Some((width, edge("height_override", found.map(|it| it.1))?))
    }

    /// Returns whether a slot of a node gives its height: by the slot's name, else by the slots that are linked to the
    /// edges of others, of which the first gives the width; `wanted` is the edge that is looked for.
    pub fn is_height(self, slot: u64, wanted: &str) -> bool {
        let name = self.node.output(slot).map(|slot| slot.name.to_lowercase());
        match name {
            Some(name) if name.contains("height") => return true,
            Some(name) if name.contains("width") => return false,
            _ => {}
        }
        let graph = self.graph;
        if slot == 0 || !graph.spend(graph.nodes.len() / 16) {
            return false;
        }
        let links = graph.nodes.values().flat_map(|other| &other.inputs);
        let links = links.filter_map(|(name, input)| match input {
            NodeInput::Link(link) if has_word(name, "width height") => Some(link),
            _ => None,
        });
        let links = links.filter(|link| link.from == self.id);
        let slots: BTreeSet<u64> = links.map(|link| link.slot).collect();
        match slots.first() {
            Some(first) if slots.len() > 1 => slot.abs_diff(*first) % 2 == 1,
            _ => wanted == "height",
        }
    }

    /// Size of an aspect such as `16:9 (Widescreen)` and a number of megapixels.
    fn size_of_aspect(self, aspect: &str) -> Option<(u32, u32)> {
        let (width, height) = aspect.split_whitespace().next()?.split_once(':')?;
        let (width, height): (f64, f64) = (width.parse().ok()?, height.parse().ok()?);
        let pixels = self.number("megapixels")? * 1024.0 * 1024.0;
        let multiple = self.number("multiple").unwrap_or(8.0);
        let least = self.number("minimum").unwrap_or(1.0);
        let scale = (pixels / (width * height)).sqrt();
        let edge = |edge: f64| {
            let edge = (edge * scale / multiple).round_ties_even() * multiple;
            fields::count(&edge.into()).filter(|_| edge >= least)
        };
        edge(width).zip(edge(height))
    }

    /// Preset from which a node takes its size, unless that is custom.
    pub fn size_preset(self) -> Option<String> {
        self.texts().find_map(|(name, text)| {
            let (name, text) = (name.to_lowercase(), text.to_lowercase());
            let is_own = has_word(&text, "custom none manual");
            let is_switch = matches!(&*text, "on" | "off" | "true" | "false");
            (has_word(&name, SIZE_PRESETS) && !is_own && !is_switch).then_some(text)
        })
    }

    /// Returns whether a node gives the size of the image that it is given.
    pub fn measures_image(self) -> bool {
        self.is_called(SIZE_READERS) && !self.has("width, height")
    }

    /// Returns whether a node scales an image into a size without changing its shape.
    fn keeps_aspect(self) -> bool {
        self.values().any(|(name, value)| match value {
            Value::Bool(is_on) => *is_on && has_word(name, "proportion aspect"),
            Value::String(text) => {
                has_word(name, "proportion aspect method mode")
                    && has_word(text, "proportion resize fit longest total")
            }
            _ => false,
        })
    }
}
