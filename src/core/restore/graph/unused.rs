//! Nodes, numbers and files that feed or follow the samplers without being used, as notes.
//!
//! All links are followed, whatever the nodes are called: the graph knows which inputs were read, and what else is met is
//! named, unless it has no effect on the result.

use std::collections::BTreeSet;

use serde_json::Value;

use super::inputs::{FileRole, note_files, note_mask};
use super::link_kind::LinkKind;
use super::nodes::{MAX_CHAIN, NodeInput, NodeRef, has_word};
use super::passes::takes_image;
use super::results::PassChain;
use super::tables::{
    CONTROLNETS, IDLE, IDLE_NUMBERS, IMAGE_ENCODERS, LORA_NUMBERS, NUMBER_NODES, PREPROCESSORS,
    TEXT_NAMES,
};
use crate::restore::{ForeignSettings, fields, short};

const FILE_ENDINGS: &str = ".safetensors .gguf .sft .ckpt .pt .onnx .png .jpg .jpeg .webp .mp4";
/// Inputs of a job that other nodes make: types of links, and words in the names of the inputs that they are for; what
/// is made, and what to do instead.
const MADE_INPUTS: [(&str, &str, &str, &str); 3] = [
    (
        "AUDIO AUDIO_ENCODER_OUTPUT",
        "audio",
        "the sound",
        "the result is made without it",
    ),
    (
        "WAN_CAMERA_EMBEDDING TRACKS",
        "camera_cond tracks",
        "the movement",
        "describe it in the prompt",
    ),
    (
        "IMAGE VIDEO",
        "control pose depth image",
        "the control image",
        "add one that is made already",
    ),
];
/// Nodes and values that one note names.
const MAX_NAMED: usize = 16;
/// Values that are named of one node.
const MAX_VALUES: usize = 4;

struct NodeVisit<'g> {
    node: NodeRef<'g>,
    /// Kind of the link by which the node was met, and its type as far as the file says it.
    by: LinkKind,
    kind: &'g str,
    role: Option<FileRole<'g>>,
    /// Of all that it gives only a text or a number has an effect.
    is_value: bool,
    /// Lower ranks are visited first, whatever their depth: the first way to a file says what it was, as a reference rather
    /// than as the latents of its size.
    rank: usize,
}

const NUM_RANKS: usize = 6;

/// Notes what feeds or follows the passes of `chain` and was not read. Must run after everything that reads.
pub(super) fn note_unused(chain: &PassChain<'_>, restored: &mut ForeignSettings) {
    // These are named as a whole.
    let named = chain.passes[1..].iter().map(|pass| pass.sampler);
    let named = named.filter(|sampler| takes_image(*sampler));
    let named = chain.source.into_iter().chain(named);
    let mut seen: BTreeSet<&str> = named.map(|node| &*node.node.id).collect();
    let passes = chain.passes.iter();
    let passes = passes.flat_map(|pass| pass.before.iter().chain([&pass.sampler]));
    let roots = chain.after.iter().rev().chain(passes);
    let roots = roots.map(|node| NodeVisit {
        node: *node,
        by: LinkKind::Unknown,
        kind: "",
        role: None,
        is_value: false,
        rank: 0,
    });
    let mut stacks: [Vec<NodeVisit<'_>>; NUM_RANKS] = Default::default();
    stacks[0].extend(roots);
    let (mut met, mut files, mut makers) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(visit) = stacks.iter_mut().find_map(Vec::pop) {
        let node = visit.node;
        if !seen.insert(&node.node.id) || !node.graph.spend(1 + node.inputs.len()) {
            continue;
        }
        met.push(node);
        if let Some((what, instead)) = visit.made_input() {
            restored.from_image |= visit.by == LinkKind::Image;
            makers.push((node, what, instead));
        }
        let mask = node.inpaint_mask().and_then(|name| node.mask_maker(name));
        makers.extend(mask.map(|node| (node, "the mask", "draw or choose a mask")));
        if makers.iter().any(|(maker, ..)| *maker == node) {
            continue;
        }
        let Some(name) = node.file_input() else {
            for source in visit.sources() {
                stacks[source.rank].push(source);
            }
            continue;
        };
        if !node.input(name).is_some_and(|input| node.is_read(input))
            && let Some(file) = node.file(name)
        {
            files.push((file, visit.role, visit.is_value));
        }
    }
    let mut unused = note_files(files, restored);
    // Several of them may hand on one file.
    let mut notes = restored.notes.iter();
    if notes.any(|note| note.starts_with("Its reference image")) {
        let references = met.iter().filter(|node| node.class == "ReferenceLatent");
        references.for_each(|node| node.use_all());
    }
    for node in &met {
        note_mask(*node, restored);
    }
    for (node, what, instead) in &makers {
        note_maker(*node, what, instead, restored);
    }
    if !makers.is_empty() {
        restored.note("All settings that are not named are kept");
    }
    unused.extend(met.into_iter().filter_map(described));
    let more = unused.len().saturating_sub(MAX_NAMED);
    unused.truncate(MAX_NAMED);
    if !unused.is_empty() {
        let unused = unused.join("; ");
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        restored.note(format!("Not used: {unused}{more}"));
    }
}

impl NodeVisit<'_> {
    /// Input of a job that the node makes, and the advice instead: of its row of [`MADE_INPUTS`].
    fn made_input(&self) -> Option<(&'static str, &'static str)> {
        let (node, (user, input)) = (self.node, self.role?);
        if node.is_used() || is_idle(node) || node.file_input().is_some() || self.is_value {
            return None;
        }
        let input = input.to_lowercase();
        let mut rows = MADE_INPUTS.iter();
        let (kinds, _, what, instead) = rows.find(|(kinds, words, ..)| {
            let is_unknown = self.kind.is_empty() && has_word(&input, words);
            is_unknown || kinds.split(' ').any(|known| known == self.kind)
        })?;
        // Other nodes only change an image.
        let is_control = user.is_called(CONTROLNETS) || has_word(&input, "control pose");
        let is_made = !kinds.contains("IMAGE") || (is_control && node.is_called(PREPROCESSORS));
        is_made.then_some((what, instead))
    }

    /// Nodes before this one, the first to be visited last.
    fn sources(&self) -> Vec<Self> {
        let (node, is_used, is_idle) = (self.node, self.node.is_used(), is_idle(self.node));
        let is_pixels = |kind| matches!(kind, LinkKind::Image | LinkKind::Other);
        let is_value = |name: &str, kind| match kind {
            LinkKind::Text | LinkKind::Number => true,
            LinkKind::Unknown => has_word(name, IDLE_NUMBERS),
            _ => false,
        };
        let links = node
            .links()
            .map(|(name, link)| (name, link, node.graph.kind(name, link)));
        let links: Vec<_> = links.collect();
        let rank = |name: &str, kind| match kind {
            _ if node.is_inpaint_mask(name) => 5,
            kind if is_value(name, kind) => 4,
            LinkKind::Latent => 3,
            _ if has_word(name, "vision mask clip_embeds") => 2,
            LinkKind::Conditioning => 0,
            _ => 1,
        };
        let visits = links.into_iter().rev().filter_map(|(name, link, by)| {
            let rank = rank(name, by).max(self.rank);
            if node.is_inpaint_mask(name) {
                node.use_input(name);
            }
            let is_value = is_value(name, by);
            let source = node.linked(name).filter(|_| is_used || !is_value)?;
            let are_latents = [self.by, by] == [LinkKind::Latent; 2];
            let are_pixels = is_pixels(self.by) && is_pixels(by);
            let is_handed_on = is_idle || are_pixels || are_latents;
            Some(Self {
                node: source,
                by,
                kind: node.graph.kind_name(link),
                role: self.role.filter(|_| is_handed_on).or(Some((node, name))),
                is_value: is_value || self.is_value,
                rank,
            })
        });
        visits.collect()
    }
}

/// Notes what a node makes that Safelight cannot, and of which file.
fn note_maker(node: NodeRef<'_>, what: &str, instead: &str, restored: &mut ForeignSettings) {
    let mut before = vec![node];
    let mut file = None;
    for _ in 0..MAX_CHAIN {
        let Some(node) = before.pop().filter(|_| file.is_none()) else {
            break;
        };
        file = node.file_input().and_then(|name| node.file(name));
        before.extend(node.links().filter_map(|(name, _)| node.linked(name)));
    }
    let from = file.map_or_else(String::new, |file| format!(" from {file}"));
    restored.note(format!(
        "{} makes {what}{from}: Safelight cannot; {instead}",
        node.at_start()
    ));
    node.use_all();
}

pub(super) fn is_idle(node: NodeRef<'_>) -> bool {
    let is_number = |input: &NodeInput| matches!(input, NodeInput::Value(it) if it.is_number() || it.is_boolean());
    // LoRAs and texts have an effect.
    (node.is_called(IDLE) && !node.is_called("lora primitivestring"))
        || IMAGE_ENCODERS.contains(&&*node.plain_class)
        || node.is_bundle()
        || (node.is_called(NUMBER_NODES) && node.inputs.values().all(is_number))
}

/// Description of a node and its values as far as they are not used; `None` where all is.
fn described(node: NodeRef<'_>) -> Option<String> {
    let is_used = node.is_used();
    let has_loras = node.inputs.keys().any(|name| name.contains("lora"));
    let inputs = node.sorted_inputs().into_iter();
    let values = inputs.filter_map(|(name, input)| {
        let NodeInput::Value(value) = input else {
            return None;
        };
        let is_of_lora = is_used && has_loras && has_word(name, LORA_NUMBERS);
        let (acts, text) = match (fields::number(value), value) {
            // A list of layers, `7,8`, is no number. Such values change nothing.
            (Some(number), _) => {
                let is_idle = is_of_lora || has_word(name, IDLE_NUMBERS);
                let text = value.as_str().map_or_else(|| number.to_string(), short);
                (!is_idle && !matches!(number.abs(), 0.0 | 1.0), text)
            }
            (None, Value::String(text)) => (!is_used && says_what(name, text), short(text)),
            _ => return None,
        };
        let is_unused = acts && !node.is_read(input);
        is_unused.then(|| format!("{} {text}", short(name)))
    });
    let values = values.take(MAX_VALUES).collect::<Vec<_>>().join(", ");
    match (is_used, values.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("{values} of {node}")),
        (false, _) if is_idle(node) => None,
        // Its text is empty, or named itself.
        (false, true) if node.is_called("textencode") => None,
        (false, true) => Some(node.to_string()),
        (false, false) => Some(format!("{node} with {values}")),
    }
}

/// Returns whether a text is one that was encoded, or the name of a file.
fn says_what(name: &str, text: &str) -> bool {
    let is_file = has_word(&text.to_lowercase(), FILE_ENDINGS);
    !text.trim().is_empty() && (has_word(name, TEXT_NAMES) || is_file)
}
