//! Values of inputs, also those that primitives, sliders and maths nodes give.

use serde_json::Value;

use super::link_kind::LinkKind;
use super::maths::compute;
use super::nodes::{InputSource, NodeInput, NodeRef, has_word};
use super::tables::{FUNCTIONS, HOLDERS, MATHS, NEGATIONS};
use crate::restore::{ForeignSettings, fields, short};

/// Operations of two numbers, and their signs.
const OPERATIONS: [(&str, &str); 6] = [
    ("add", "+"),
    ("subtract", "-"),
    ("multiply", "*"),
    ("divide", "/"),
    ("modulo", "%"),
    ("power", "**"),
];
/// Pixels of an edge.
const MIN_EDGE: f64 = 16.0;

impl<'g> NodeRef<'g> {
    /// Value of the first of these inputs, which `, ` separates, that has one, wherever it comes from.
    pub fn value(self, names: &str) -> Option<Value> {
        let mut own = names.split(", ");
        let own = own.find_map(|name| self.value_of(self.input(name)?, name));
        own.or_else(|| {
            let pipe = self.pipe()?;
            let mut held = names.split(", ");
            held.find_map(|name| match self.graph.far_end(pipe, name)? {
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
        let found = self.graph.nested(read)??;
        // Nodes that change a sampler or its sigmas on the way are unused with them.
        if !matches!((input, name), (NodeInput::Link(_), "sampler" | "sigmas")) {
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
            let axis = if slot == 0 { 'X' } else { 'Y' };
            let is_float = self.number(&format!("isfloat{axis}")).unwrap_or(0.0) != 0.0;
            return self.value(&format!("{axis}{}", if is_float { 'f' } else { 'i' }));
        }
        if let Some(number) = self.computed(slot) {
            return Some(number);
        }
        let key = self.key_of(name)?;
        let value = self.value(key)?;
        let class = &self.plain_class;
        let is_large = fields::number(&value).is_none_or(|edge| edge >= MIN_EDGE);
        match value {
            // Such as a number of megapixels.
            _ if is_edge && !is_large => None,
            _ if has_word(class, HOLDERS) => Some(value),
            Value::Bool(is_on) if has_word(class, NEGATIONS) => Some((!is_on).into()),
            // It is not known what the node makes of it.
            Value::Bool(_) if self.link(key).is_some() => None,
            Value::Number(_) if has_word(class, FUNCTIONS) => None,
            value => Some(value),
        }
    }

    /// Input with the value that a node gives: the one that is named after the input it is for, else the only one.
    fn key_of(self, name: &str) -> Option<&'g str> {
        let inputs = self.sorted_inputs();
        let is_named = |key: &str| {
            let key = key.to_lowercase();
            key == name || (key.starts_with(name) && key.ends_with("_total"))
        };
        if let Some((key, _)) = inputs.iter().find(|(key, _)| is_named(key)) {
            return Some(key);
        }
        let only = |is_plain: fn(&Value) -> bool, may_be_link: bool| {
            let mut plain = inputs.iter().filter(|(key, input)| match input {
                _ if key.starts_with("control_") => false,
                NodeInput::Value(value) => is_plain(value),
                NodeInput::Link(link) => {
                    let kind = self.graph.kind(key, link);
                    may_be_link && !matches!(kind, LinkKind::Image | LinkKind::Latent)
                }
            });
            let (key, _) = plain.next()?;
            plain.next().is_none().then_some(*key)
        };
        let number = only(|it| it.is_number() || it.is_string(), true);
        number.or_else(|| only(Value::is_boolean, false))
    }

    /// Result of a maths node at a slot; `None` for a node of another kind, and for what is not understood.
    fn computed(self, slot: u64) -> Option<Value> {
        // Others may round in another way.
        if !self.is_called(MATHS) {
            return None;
        }
        let of_operation = || {
            let operation = self.name("operation")?;
            let mut signs = OPERATIONS.iter();
            let (_, sign) = signs.find(|(name, _)| *name == operation)?;
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
        let result = match is_whole {
            true if self.is_called("simplemath") => result.round_ties_even(),
            true => result.trunc(),
            false => result,
        };
        Some(result.into())
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
    let names = names.split(", ");
    let mut inputs = names.flat_map(|name| nodes.iter().map(move |node| (*node, name)));
    let maker = inputs.clone().find_map(|(node, name)| {
        node.use_input(name);
        node.linked(name)
    });
    let why = if let Some(maker) = maker {
        if maker.file_input().is_none() {
            maker.use_all();
        }
        format!("{maker} makes it")
    } else if let Some(value) = inputs.find_map(|(node, name)| node.value(name))
        && value != ""
    {
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
    match (value, value.as_str().map(str::to_lowercase).as_deref()) {
        (Value::Bool(is_on), _) => Some(*is_on),
        (_, Some("true" | "on" | "yes" | "enable")) => Some(true),
        (_, Some("false" | "off" | "no" | "disable")) => Some(false),
        _ => None,
    }
}

/// A value that is neither list nor object, but for a chosen file with its preview image.
fn scalar(value: &Value) -> Option<Value> {
    let content = value.get("content").filter(|it| it.is_string());
    let value = content.unwrap_or(value);
    (!value.is_array() && !value.is_object() && !value.is_null()).then(|| value.clone())
}
