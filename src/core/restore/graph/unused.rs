//! Files that a result was made from and that the user has to add, and nodes and numbers that feed or follow the samplers
//! without being used, as notes.
//!
//! All links are followed, whatever the nodes are called: the graph knows which inputs were read, and what else is met is
//! named, unless it has no effect on the result.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::nodes::{ComfyGraph, LinkKind, MAX_CHAIN, NodeInput, NodeRef, has_word, names_of};
use super::passes::takes_image;
use super::results::PassChain;
use crate::media::{has_image_name, has_video_name};
use crate::restore::controls::kind_named;
use crate::restore::names::file_name;
use crate::restore::{ForeignSettings, RestoredControl, fields, short};

/// Nodes and values that one note names.
const MAX_NAMED: usize = 16;
/// Values that are named of one node.
const MAX_VALUES: usize = 4;
const NUM_RANKS: usize = 6;

impl<'g> NodeRef<'g> {
    /// Input with the file of a node that loads an image, a video or the like.
    pub fn file_input(self) -> Option<&'static str> {
        // An old canvas does not name the widgets of every node.
        const UNNAMED: &str = "widget 1";
        let mut names = names_of("FILES").filter(|_| self.is_called("load"));
        names.find(|name| self.has(name)).or_else(|| {
            let path = Path::new(self.input(UNNAMED)?.value()?.as_str()?);
            (has_image_name(path) || has_video_name(path)).then_some(UNNAMED)
        })
    }

    /// File in one of the node's inputs, without a folder such as ` [input]`.
    fn file(self, names: &str) -> Option<String> {
        let file = self.name(names)?;
        Some(short(file_name(file.split(" [").next()?)))
    }

    /// File of an image or video that a node gives, scaled or in latents.
    fn file_before(self) -> Option<String> {
        let before = |node: Self| names_of("HANDED_ON").find_map(|name| node.linked(name));
        self.chain(before).find_map(|node| {
            let is_own = |name: &&str| node.input(name).is_some_and(|it| it.value().is_some());
            let mut own = ["image", "video", "file", "audio"].into_iter();
            node.file(own.find(is_own)?)
        })
    }

    /// Returns whether an input is the mask of what is inpainted.
    fn is_inpaint_mask(self, name: &str) -> bool {
        name.contains("mask") && self.is_called("INPAINTERS")
    }

    /// Input of an inpainting node for its mask.
    fn inpaint_mask(self) -> Option<&'g str> {
        let mut names = self.links().map(|(name, _)| name);
        names.find(|name| self.is_inpaint_mask(name))
    }

    /// First node on the way to a mask.
    fn mask_source(self, name: &str) -> Option<Self> {
        let chain = self.linked(name)?.chain(|node| {
            let (name, _) = node.links().find(|(name, link)| {
                name.contains("mask") || node.graph.kind_name(link) == "MASK"
            })?;
            node.linked(name)
        });
        chain.last()
    }

    /// Node that makes the mask of an inpainting node, unless that is a file, or a border whose mask is made with it.
    fn mask_maker(self) -> Option<Self> {
        let source = self.mask_source(self.inpaint_mask()?)?;
        let is_known = is_idle(source) || source.file_input().is_some() || source.is_called("pad");
        (!is_known).then_some(source)
    }
}

/// Reads the ControlNets of a graph: ControlNetApplyAdvanced, ControlNetApplySD3, QwenImageDiffsynthControlnet, ...
pub(super) fn read_controls(graph: &ComfyGraph, restored: &mut ForeignSettings) {
    let nodes = graph.refs();
    for node in nodes.filter(|it| it.is_called("controlnet") && it.link("image").is_some()) {
        let loaders = ["control_net", "model_patch"].into_iter();
        let loaders = loaders
            .filter_map(|name| node.linked(name))
            .flat_map(|loader| loader.chain(|loader| loader.linked("control_net")));
        let loaders: Vec<NodeRef<'_>> = loaders.collect();
        // Of SetUnionControlNetType.
        let kind = loaders.iter().find_map(|it| it.name("type"));
        let mut loaders = loaders.into_iter();
        let network = loaders.find_map(|it| it.name("control_net_name, name, model_name"));
        let network = network.map(|name| short(file_name(&name)));
        let numbers = ["strength", "start_percent", "end_percent"];
        restored.add_control(RestoredControl {
            image: node.linked("image").and_then(NodeRef::file_before),
            kind: kind.as_deref().and_then(kind_named),
            ..RestoredControl::new(network, numbers.map(|name| node.number(name)))
        });
    }
}

/// A node on the way back from the result.
struct NodeVisit<'g> {
    node: NodeRef<'g>,
    /// Kind of the link by which the node was met, and its type as far as the file says it.
    by: LinkKind,
    kind: &'g str,
    /// Node and input to which it was given.
    role: Option<(NodeRef<'g>, &'g str)>,
    /// Of all that it gives only a text or a number has an effect.
    is_value: bool,
    /// Lower ranks are visited first, whatever their depth: the first way to a file says what it was, as a reference rather
    /// than as the latents of its size.
    rank: usize,
}

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
        let mask = node.mask_maker();
        makers.extend(mask.map(|node| (node, "the mask", "draw or choose a mask")));
        if makers.iter().any(|(maker, ..)| *maker == node) {
            continue;
        }
        match node.file_input() {
            Some(name) if !node.input(name).is_some_and(|input| node.is_read(input)) => {
                files.extend(node.file(name).map(|file| (file, visit)));
            }
            Some(_) => {}
            None => visit.sources(|source| stacks[source.rank].push(source)),
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
    let more = match unused.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    unused.truncate(MAX_NAMED);
    if !unused.is_empty() {
        restored.note(format!("Not used: {}{more}", unused.join("; ")));
    }
}

impl NodeVisit<'_> {
    /// Input of a job that the node makes, and the advice instead: of a row of `nodes.txt`.
    fn made_input(&self) -> Option<(&'static str, &'static str)> {
        let (node, (user, input)) = (self.node, self.role?);
        if node.is_used() || is_idle(node) || node.file_input().is_some() || self.is_value {
            return None;
        }
        let input = input.to_lowercase();
        let mut rows = ["MADE_SOUND", "MADE_MOVEMENT", "MADE_CONTROL"].into_iter();
        let [.., what, instead] = rows.find_map(|row| {
            let row: [&str; 4] = names_of(row).collect::<Vec<_>>().try_into().ok()?;
            let is_unknown = self.kind.is_empty() && has_word(&input, row[1]);
            let is_of_kind = row[0].split(' ').any(|kind| kind == self.kind);
            (is_unknown || is_of_kind).then_some(row)
        })?;
        // Other nodes only change an image.
        let is_control = user.is_called("controlnet") || has_word(&input, "control pose");
        let is_made =
            what != "the control image" || (is_control && node.is_called("PREPROCESSORS"));
        is_made.then_some((what, instead))
    }

    /// Gives the nodes before this one, the first to be visited last.
    fn sources(&self, mut add: impl FnMut(Self)) {
        let (node, is_used, is_idle) = (self.node, self.node.is_used(), is_idle(self.node));
        let is_pixels = |kind| matches!(kind, LinkKind::Image | LinkKind::Other);
        let links = node
            .links()
            .map(|(name, link)| (name, link, node.graph.kind(name, link)));
        for (name, link, by) in links.rev() {
            let is_value = match by {
                LinkKind::Text | LinkKind::Number => true,
                LinkKind::Unknown => has_word(name, "IDLE_NUMBERS"),
                _ => false,
            };
            let is_mask = node.is_inpaint_mask(name);
            let rank = match by {
                _ if is_mask => 5,
                _ if is_value => 4,
                LinkKind::Latent => 3,
                _ if has_word(name, "vision mask clip_embeds") => 2,
                LinkKind::Conditioning => 0,
                _ => 1,
            };
            if is_mask {
                node.use_input(name);
            }
            let Some(source) = node.linked(name).filter(|_| is_used || !is_value) else {
                continue;
            };
            let are_latents = [self.by, by] == [LinkKind::Latent; 2];
            let is_handed_on = is_idle || are_latents || (is_pixels(self.by) && is_pixels(by));
            add(Self {
                node: source,
                by,
                kind: node.graph.kind_name(link),
                role: self.role.filter(|_| is_handed_on).or(Some((node, name))),
                is_value: is_value || self.is_value,
                rank: rank.max(self.rank),
            });
        }
    }

    /// Input of a job that a file is; `None` where there is no such one.
    fn input_of(&self, file: &str) -> Option<String> {
        let (node, name) = self.role.filter(|_| !self.is_value)?;
        let lower = name.to_lowercase();
        let is = |words| has_word(&lower, words);
        let strength = || match node.number("strength") {
            Some(strength) => format!(" at strength {strength}"),
            None => String::new(),
        };
        if node.is_called("REFERENCES") || is("reference") || lower.starts_with("ref_") {
            node.use_input(name);
            return Some("reference image".to_owned());
        }
        if node.is_called("stylemodel") {
            return Some(format!("image as a prompt{}", strength()));
        }
        let what = match () {
            () if !node.is_used() && !is("pixels start_ end_ control") => return None,
            () if is("control") && is("mask") => "mask of the control video",
            () if is("control") => return Some(format!("control video{}", strength())),
            () if lower.starts_with("end_") => "end image",
            () if is("mask face pose bg_ background character motion") => return None,
            () if !is("start image pixels latent samples vision") => return None,
            () if has_video_name(Path::new(file)) => "video",
            () => "start image",
        };
        Some(what.to_owned())
    }
}

/// Notes files that have to be added again; returns descriptions of the others.
fn note_files(files: Vec<(String, NodeVisit<'_>)>, restored: &mut ForeignSettings) -> Vec<String> {
    let mut inputs: Vec<(String, Vec<String>)> = Vec::new();
    let mut others = Vec::new();
    for (file, visit) in files {
        let Some((node, input)) = visit.role else {
            others.push(file);
            continue;
        };
        if node.is_inpaint_mask(input) {
            continue;
        }
        let Some(what) = visit.input_of(&file) else {
            others.push(format!("{file} ({} of {node})", short(input)));
            continue;
        };
        match inputs.iter_mut().find(|(known, _)| *known == what) {
            Some((_, files)) if files.contains(&file) => {}
            Some((_, files)) => files.push(file),
            None => inputs.push((what, vec![file])),
        }
    }
    for (what, files) in inputs {
        let names = files.join(", ");
        let (what, are, them) = match files.len() {
            1 => (what, "is", "it"),
            _ => (what.replacen("image", "images", 1), "are", "them"),
        };
        restored.note_input(format!(
            "Its {what}, {names}, {are} not in the file: add {them} separately"
        ));
    }
    others
}

/// Notes the mask of an inpainting node, unless a node makes it.
fn note_mask(node: NodeRef<'_>, restored: &mut ForeignSettings) {
    let Some(name) = node.inpaint_mask() else {
        return;
    };
    restored.from_image = true;
    if node.mask_maker().is_none() {
        let file = node.mask_source(name).and_then(NodeRef::file_before);
        let file = file.map_or_else(String::new, |file| format!(", {file},"));
        restored.note(format!(
            "Its mask{file} is not in the file: set it again (it was given to {node})"
        ));
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
        before.extend(node.all_linked());
    }
    let from = file.map_or_else(String::new, |file| format!(" from {file}"));
    restored.note(format!(
        "{} makes {what}{from}: Safelight cannot; {instead}",
        node.at_start()
    ));
    node.use_all();
}

pub(super) fn is_idle(node: NodeRef<'_>) -> bool {
    let is_number = |input: &NodeInput| {
        let value = input.value();
        value.is_some_and(|it| it.is_number() || it.is_boolean())
    };
    // LoRAs and texts have an effect.
    (node.is_called("IDLE") && !node.is_called("lora primitivestring"))
        || names_of("IMAGE_ENCODERS").any(|class| class == node.plain_class)
        || node.is_bundle()
        || (node.is_called("NUMBER_NODES") && node.node.inputs.values().all(is_number))
}

/// Description of a node and its values as far as they are not used; `None` where all is.
fn described(node: NodeRef<'_>) -> Option<String> {
    let is_used = node.is_used();
    let has_loras = node.inputs.keys().any(|name| name.contains("lora"));
    let inputs = node.inputs().filter(|(_, input)| !node.is_read(input));
    let values = inputs.filter_map(|(name, input)| {
        let (acts, text) = match input.value()? {
            Value::String(text) if fields::number_of_text(text).is_none() => {
                (!is_used && says_what(name, text), short(text))
            }
            // Such values change nothing.
            value => {
                let number = fields::number(value)?;
                let is_of_lora = is_used && has_loras && has_word(name, "LORA_NUMBERS");
                let is_idle = is_of_lora || has_word(name, "IDLE_NUMBERS");
                let text = value.as_str().map_or_else(|| number.to_string(), short);
                (!is_idle && !matches!(number.abs(), 0.0 | 1.0), text)
            }
        };
        acts.then(|| format!("{} {text}", short(name)))
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
    let is_file = has_word(&text.to_lowercase(), "FILE_ENDINGS");
    !text.trim().is_empty() && (has_word(name, "TEXT_NAMES") || is_file)
}
