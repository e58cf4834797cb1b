//! Values of inputs, also those that primitives, sliders, maths nodes and size selectors give.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::Environment;
use minijinja::value::Rest;
use serde_json::Value;

use super::nodes::{InputSource, LinkKind, NodeInput, NodeRef, first_match, has_word, names_of};
use crate::restore::{ForeignSettings, fields, short};

/// Pixels of an edge.
const MIN_EDGE: f64 = 16.0;
/// Letters of an expression.
const MAX_LETTERS: usize = 500;

impl<'g> NodeRef<'g> {
    /// Value of the first of these inputs that has one, wherever it comes from.
    pub fn value(self, names: &str) -> Option<Value> {
        let own = names_of(names).find_map(|name| self.value_of(self.input(name)?, name));
        own.or_else(|| {
            let pipe = self.pipe()?;
            names_of(names).find_map(|name| match self.graph.far_end(pipe, name)? {
                InputSource::Value(value) => scalar(value),
                InputSource::Node(held, _) => held.value_of(held.input(name)?, name),
            })
        })
    }

    fn value_of(self, input: &'g NodeInput, name: &str) -> Option<Value> {
        let read = || match self.graph.source(input, name)? {
            InputSource::Value(value) => scalar(value),
            InputSource::Node(node, slot) => node.held_value(slot, name),
        };
        let found = self.graph.nested(read)?;
        // Nodes that change a sampler or its sigmas on the way are unused with them.
        if input.link().is_none() || !matches!(name, "sampler" | "sigmas") {
            self.use_input(name);
        }
        Some(found)
    }

    /// Value that a node without an effect gives at a slot, such as a primitive's.
    fn held_value(self, slot: u64, name: &str) -> Option<Value> {
        let is_edge = matches!(name, "width" | "height");
        let is_sized = || self.size_preset().is_some() || self.has("height");
        if is_edge && (is_sized() || self.measures_image()) {
            let (width, height) = self.size()?;
            let is_height = self.is_height(slot, name);
            return Some(if is_height { height } else { width }.into());
        }
        // A switch that did not choose, and what is measured of a file.
        if self.is_switch() || self.file_input().is_some() {
            return None;
        }
        if self.has("Xi, Xf") {
            // A slider of one or two numbers, each whole or not.
            self.use_all();
            let axis = if slot == 0 { 'X' } else { 'Y' };
            let is_float = self.number(&format!("isfloat{axis}")).unwrap_or(0.0) != 0.0;
            return self.value(&format!("{axis}{}", if is_float { 'f' } else { 'i' }));
        }
        if let Some(number) = self.computed(slot) {
            return Some(number.into());
        }
        let key = self.key_of(name)?;
        let value = self.value(key)?;
        let is_large = fields::number(&value).is_none_or(|edge| edge >= MIN_EDGE);
        match value {
            // Such as a number of megapixels.
            _ if is_edge && !is_large => None,
            _ if self.is_called("HOLDERS") => Some(value),
            Value::Bool(is_on) if self.is_called("NEGATIONS") => Some((!is_on).into()),
            // It is not known what the node makes of it.
            Value::Bool(_) if self.link(key).is_some() => None,
            Value::Number(_) if self.is_called("FUNCTIONS") => None,
            value => Some(value),
        }
    }

    /// Input with the value that a node gives: the one that is named after the input it is for, else the only number or
    /// text, else the only switch.
    fn key_of(self, name: &str) -> Option<&'g str> {
        let is_named = |key: &str| {
            let key = key.to_lowercase();
            key == name || (key.starts_with(name) && key.ends_with("_total"))
        };
        if let Some((key, _)) = self.inputs().find(|(key, _)| is_named(key)) {
            return Some(key);
        }
        let is_number = |(key, input): &(&str, &NodeInput)| match input {
            NodeInput::Value(value) => value.is_number() || value.is_string(),
            NodeInput::Link(link) => {
                let kind = self.graph.kind(key, link);
                !matches!(kind, LinkKind::Image | LinkKind::Latent)
            }
        };
        let inputs = self.inputs().filter(|it| !it.0.starts_with("control_"));
        let (numbers, mut others): (Vec<_>, Vec<_>) = inputs.partition(is_number);
        others.retain(|(_, input)| input.value().is_some_and(Value::is_boolean));
        match (&numbers[..], &others[..]) {
            ([(key, _)], _) | (_, [(key, _)]) => Some(key),
            _ => None,
        }
    }

    /// Result of a maths node at a slot; `None` for a node of another kind, and for what is not understood.
    fn computed(self, slot: u64) -> Option<f64> {
        // Others may round in another way.
        if !self.is_called("MATHS") {
            return None;
        }
        let of_operation = || {
            let sign = match &*self.name("operation")? {
                "add" => "+",
                "subtract" => "-",
                "multiply" => "*",
                "divide" => "/",
                "modulo" => "%",
                "power" => "**",
                _ => return None,
            };
            Some(format!("a {sign} b"))
        };
        let text = self.name("expression, value").or_else(of_operation)?;
        let result = compute(&text, |name| self.number(&format!("{name}, values.{name}")))?;
        self.use_all();
        let is_whole = match self.node.output(slot).map(|slot| &*slot.kind) {
            Some("FLOAT") => false,
            Some("INT") => true,
            // ComfyUI's own node gives the whole number second.
            _ => (slot == 0) != self.is_called("comfymath mathfloat"),
        };
        Some(match is_whole {
            true if self.is_called("simplemath") => result.round_ties_even(),
            true => result.trunc(),
            false => result,
        })
    }

    pub fn name(self, names: &str) -> Option<String> {
        self.value(names)?.as_str().map(str::to_owned)
    }

    pub fn number(self, names: &str) -> Option<f64> {
        fields::number(&self.value(names)?)
    }

    pub fn count(self, names: &str) -> Option<u32> {
        fields::count(&self.value(names)?)
    }

    /// Size that a node sets: by a preset such as `3:4 portrait 896x1152`, else by width and height.
    pub fn size(self) -> Option<(u32, u32)> {
        if self.measures_image() {
            let image = self.linked(self.links_of(LinkKind::Image).first()?)?;
            return self.graph.nested(|| image.size());
        }
        if self.keeps_aspect() {
            return None;
        }
        let preset = self.size_preset();
        let mut found = match &preset {
            None => self
                .count("WIDTHS")
                .and_then(|width| Some((width, self.count("HEIGHTS")?))),
            Some(preset) if self.class == "ResolutionSelector" => self.size_of_aspect(preset),
            Some(preset) => {
                let is_part = |it: char| it.is_ascii_digit() || "x×* ".contains(it);
                let mut words = preset.split(|it| !is_part(it));
                words.find_map(|word| fields::size(word.trim()))
            }
        };
        let mut names = self.node.inputs.keys();
        if let Some(swap) = names.find(|name| has_word(name, "swap flip invert"))
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
            let is_choice = |name: &str| has_word(name, "SIZE_PRESETS") && !name.contains("batch");
            let names = self.node.inputs.keys();
            let choices = names.filter(|name| is_choice(&name.to_lowercase()));
            choices.for_each(|name| self.use_input(name));
        }
        Some((width, edge("height_override", found.map(|it| it.1))?))
    }

    /// Returns whether a slot of a node gives its height: by the slot's name, else by the slots that are linked to the
    /// edges of others, of which the first gives the width; `wanted` is the edge that is looked for.
    fn is_height(self, slot: u64, wanted: &str) -> bool {
        let name = self.node.output(slot).map(|slot| slot.name.to_lowercase());
        match name {
            Some(name) if name.contains("height") => return true,
            Some(name) if name.contains("width") => return false,
            _ if slot == 0 || !self.graph.spend(self.graph.nodes.len() / 16) => return false,
            _ => {}
        }
        let inputs = self.graph.nodes.values().flat_map(|other| &other.inputs);
        let edges = inputs.filter(|(name, _)| has_word(name, "width height"));
        let links = edges.filter_map(|(_, input)| input.link().filter(|it| it.from == self.id));
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
    fn size_preset(self) -> Option<String> {
        let mut texts = self.texts();
        let preset = texts.find(|(name, text)| {
            let text = text.to_lowercase();
            let is_own = has_word(&text, "custom none manual");
            let is_switch = matches!(&*text, "on" | "off" | "true" | "false");
            has_word(&name.to_lowercase(), "SIZE_PRESETS") && !is_own && !is_switch
        });
        Some(preset?.1.to_lowercase())
    }

    /// Returns whether a node gives the size of the image that it is given.
    fn measures_image(self) -> bool {
        self.is_called("SIZE_READERS") && !self.has("width, height")
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

/// Reads a number of the first of these nodes that has it, or names the one that cannot be read.
pub(super) fn number_or_note(
    nodes: &[NodeRef<'_>],
    names: &str,
    what: &str,
    restored: &mut ForeignSettings,
) -> Option<f64> {
    let found = nodes.iter().find_map(|node| node.number(names));
    if found.is_none() {
        note_unread(nodes, names, what, restored);
    }
    found
}

/// Notes a setting that one of these nodes has in a way that is not understood.
pub(super) fn note_unread(
    nodes: &[NodeRef<'_>],
    names: &str,
    what: &str,
    restored: &mut ForeignSettings,
) {
    let inputs = names_of(names).flat_map(|name| nodes.iter().map(move |node| (*node, name)));
    let maker = inputs.clone().find_map(|(node, name)| {
        node.use_input(name);
        node.linked(name)
    });
    let value = || inputs.clone().find_map(|(node, name)| node.value(name));
    let why = if let Some(maker) = maker {
        if maker.file_input().is_none() {
            maker.use_all();
        }
        format!("{maker} makes it")
    } else if let Some(value) = value().filter(|value| value != "") {
        format!("it is {}", short(&value.to_string()))
    } else {
        return;
    };
    let instead = match what {
        "seed" => "The form keeps its own",
        "denoising strength" => "1 is used",
        _ => "The model's own is used",
    };
    restored.note(format!("The {what} could not be read: {why}. {instead}"));
}

/// State of a switch, as a boolean or a word.
pub(super) fn is_on(value: &Value) -> Option<bool> {
    match value.as_str().map(str::to_lowercase).as_deref() {
        Some("true" | "on" | "yes" | "enable") => Some(true),
        Some("false" | "off" | "no" | "disable") => Some(false),
        _ => value.as_bool(),
    }
}

/// A value that is neither list nor object, but for a chosen file with its preview image.
fn scalar(value: &Value) -> Option<Value> {
    let content = value.get("content").filter(|it| it.is_string());
    let value = content.unwrap_or(value);
    (!value.is_array() && !value.is_object() && !value.is_null()).then(|| value.clone())
}

/// Result of an expression of Python's operators and a few functions; `None` for what is not understood, and for what is
/// not finite. `variable` gives the value of a name.
fn compute(text: &str, variable: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    /// Powers that Python computes in another order than the crate: `a ** b ** c` without a whole exponent, `-a ** b`.
    const OTHER_ORDER: &str = r"(?s)\*\*(?!\s*(?>[0-9.]+)\s*(?!\*\*)\S).*\*\*|(?:^|[(,+*/%-])\s*-";
    type MathsFunction = fn(f64) -> f64;
    const FUNCTIONS: [(&str, MathsFunction); 7] = [
        ("int", f64::trunc),
        ("float", |it| it),
        ("round", f64::round_ties_even),
        ("floor", f64::floor),
        ("ceil", f64::ceil),
        ("abs", f64::abs),
        ("sqrt", f64::sqrt),
    ];
    let has_other_order = text.contains("**") && first_match(OTHER_ORDER, text).is_some();
    if text.len() > MAX_LETTERS || has_other_order {
        return None;
    }
    let mut environment = Environment::empty();
    environment.add_function("min", |all: Rest<f64>| all.iter().copied().reduce(f64::min));
    environment.add_function("max", |all: Rest<f64>| all.iter().copied().reduce(f64::max));
    for (name, function) in FUNCTIONS {
        environment.add_function(name, function);
    }
    let expression = environment.compile_expression(text.trim()).ok()?;
    // In their order, so that the first one that cannot be read ends it.
    let names: BTreeSet<String> = expression.undeclared_variables(false).into_iter().collect();
    let is_function = |name: &str| environment.globals().any(|(known, _)| known == name);
    let names = names.into_iter().filter(|name| !is_function(name));
    let values = names.map(|name| variable(&name).map(|value| (name, value)));
    let values: Option<BTreeMap<String, f64>> = values.collect();
    let result = f64::try_from(expression.eval(values?).ok()?).ok()?;
    result.is_finite().then_some(result)
}
