//! Nodes, numbers and files that feed or follow the samplers without being used, as notes.
//!
//! All links are followed, whatever the nodes are called: [`GraphWalk`] knows which inputs were read, and what else is met is
//! named, unless it has no effect on the result.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::controls::{file_of, shown_file};
use super::passes::takes_image;
use super::results::PassChain;
use super::walk::{GraphWalk, LinkKind};
use super::{ComfyNode, MAX_CHAIN, NodeInput, NodeLink, has_word};
use crate::media::{has_image_name, has_video_name};
use crate::restore::{ForeignSettings, fields, short};

/// Words in the classes of nodes that have no effect on the result, or one that follows from the rest.
const IDLE: &str = "load decode preview display show debug note reroute primitive save pipe vram memory sage compile \
    blockswap torch accumulation getimagesize videocomponents createvideo trimvideolatent zeroout basicguider \
    disablenoise tokenizeroptions imagetomask masktoimage";
/// Classes of nodes that hand an image on as it is, with other ends that have an effect.
const ENCODERS: &str = "vaeencode vaeencodetiled clipvisionencode wanvideoencode";
/// Words in the classes of nodes that hold or compute numbers.
const NUMBER_NODES: &str = "primitive int float number constant slider math seed boolean";
/// Words in the names of numbers that have no effect, or one that follows from the rest.
const IDLE_NUMBERS: &str = "seed width height crop tile min_ device index vram";
/// Words in the names of a LoRA's numbers, which are read together with the LoRA.
const LORA_NUMBERS: &str = "lora strength weight _wt _str";
const FILES: &str =
    "image, video, file, audio, mask, latent, video_path, image_path, path, directory";
/// Nodes that make a control image of another image in a way that Safelight does not have.
const PREPROCESSORS: &str = "preprocessor pose depth normal lineart hed scribble segment keypoint";
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

/// Input of a node to which a file was given.
type FileRole<'a> = Option<(&'a ComfyNode, &'a str)>;

struct NodeVisit<'a> {
    node: &'a ComfyNode,
    /// Kind of the link by which the node was met, and its type as far as the file says it.
    by: LinkKind,
    kind: &'a str,
    role: FileRole<'a>,
    /// Of all that it gives only a text or a number has an effect.
    is_value: bool,
}

/// Notes what feeds or follows the passes of `chain` and was not read. Must run after everything that reads.
pub(super) fn note_unused<'a>(
    walk: &GraphWalk<'a>,
    chain: &PassChain<'a>,
    restored: &mut ForeignSettings,
) {
    // These are named as a whole.
    let unused = chain.passes[1..].iter().map(|pass| pass.sampler);
    let unused = unused.filter(|sampler| takes_image(walk, sampler));
    let mut seen: BTreeSet<&str> = chain.source.into_iter().chain(unused).map(id).collect();
    let passes = chain.passes.iter();
    let passes = passes.flat_map(|pass| pass.before.iter().chain([&pass.sampler]));
    let roots = chain.after.iter().rev().chain(passes);
    let root = |node| NodeVisit {
        node,
        by: LinkKind::Unknown,
        kind: "",
        role: None,
        is_value: false,
    };
    let mut stack: Vec<_> = roots.map(|&node| root(node)).collect();
    let (mut met, mut files, mut makers) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(visit) = stack.pop() {
        let NodeVisit { node, by, role, .. } = visit;
        if !seen.insert(&node.id) || !walk.spend(1 + node.inputs.len()) {
            continue;
        }
        met.push(node);
        if let Some((what, instead)) = made_input(walk, &visit) {
            restored.from_image |= by == LinkKind::Image;
            makers.push((node, what, instead));
        }
        let mask = inpaint_mask(node).and_then(|name| mask_maker(walk, node, name));
        makers.extend(mask.map(|node| (node, "the mask", "draw or choose a mask")));
        if makers.iter().any(|(maker, ..)| maker.id == node.id) {
            continue;
        }
        if let Some(name) = file_input(node) {
            if !walk.is_read(&node.inputs[name])
                && let Some(file) = walk.name(node, name)
            {
                files.push((shown_file(&file), role, visit.is_value));
            }
            continue;
        }
        let (is_used, is_idle) = (walk.is_used(node), is_idle(node));
        let is_pixels = |kind| matches!(kind, LinkKind::Image | LinkKind::Other);
        let is_value = |name: &str, kind| {
            matches!(kind, LinkKind::Text | LinkKind::Number)
                || (kind == LinkKind::Unknown && has_word(name, IDLE_NUMBERS))
        };
        let mut links: Vec<_> = node.links().collect();
        // The first way to a file says what it was: as a reference rather than as the latents of its size.
        links.sort_by_key(|(name, link)| match walk.kind(name, link) {
            _ if is_inpaint_mask(node, name) => 5,
            kind if is_value(name, kind) => 4,
            _ if has_word(name, "vision mask") => 2,
            LinkKind::Latent => 3,
            LinkKind::Conditioning => 0,
            _ => 1,
        });
        for (name, link) in links.into_iter().rev() {
            let kind = walk.kind(name, link);
            if is_inpaint_mask(node, name) {
                walk.use_input(&node.inputs[name]);
            }
            let is_value = is_value(name, kind);
            if let Some(source) = source(walk, node, name).filter(|_| is_used || !is_value) {
                let is_handed_on = is_idle || (is_pixels(by) && is_pixels(kind));
                let role = role.filter(|_| is_handed_on).or(Some((node, name)));
                stack.push(NodeVisit {
                    node: source,
                    by: kind,
                    kind: walk.kind_name(link),
                    role,
                    is_value: is_value || visit.is_value,
                });
            }
        }
    }
    let mut named = note_files(walk, files, restored);
    // Several of them may hand on one file.
    let mut notes = restored.notes.iter();
    if notes.any(|note| note.starts_with("Its reference image")) {
        for node in met.iter().filter(|node| node.class == "ReferenceLatent") {
            walk.use_node(node);
        }
    }
    for node in &met {
        note_mask(walk, node, restored);
    }
    for (node, what, instead) in &makers {
        note_maker(walk, node, what, instead, restored);
    }
    if !makers.is_empty() {
        restored.note("All settings that are not named are kept");
    }
    named.extend(met.into_iter().filter_map(|node| described(walk, node)));
    if !named.is_empty() {
        let more = named.len().saturating_sub(MAX_NAMED);
        named.truncate(MAX_NAMED);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        restored.note(format!("Not used: {}{more}", named.join("; ")));
    }
}

/// Input of a job that a node makes, and the advice instead: of its row of [`MADE_INPUTS`].
fn made_input<'a>(
    walk: &GraphWalk<'a>,
    visit: &NodeVisit<'a>,
) -> Option<(&'static str, &'static str)> {
    let (node, (user, input)) = (visit.node, visit.role?);
    if walk.is_used(node) || is_idle(node) || file_input(node).is_some() || visit.is_value {
        return None;
    }
    let input = input.to_lowercase();
    let mut rows = MADE_INPUTS.iter();
    let (kinds, _, what, instead) = rows.find(|(kinds, words, ..)| {
        let is_unknown = visit.kind.is_empty() && has_word(&input, words);
        is_unknown || kinds.split(' ').any(|known| known == visit.kind)
    })?;
    // Other nodes only change an image.
    let is_control = user.is_called("controlnet") || has_word(&input, "control pose");
    let is_made = !kinds.contains("IMAGE") || (is_control && node.is_called(PREPROCESSORS));
    is_made.then_some((what, instead))
}

/// Input by which a node is given a mask that it changes.
fn mask_link<'a>(walk: &GraphWalk<'a>, node: &'a ComfyNode) -> Option<&'a str> {
    let mut links = node.links();
    let is_mask =
        |(name, link): &(&str, &NodeLink)| walk.kind_name(link) == "MASK" || name.contains("mask");
    links.find(is_mask).map(|(name, _)| name)
}

fn note_maker<'a>(
    walk: &GraphWalk<'a>,
    node: &'a ComfyNode,
    what: &str,
    instead: &str,
    restored: &mut ForeignSettings,
) {
    let mut before = vec![node];
    let mut file = None;
    for _ in 0..MAX_CHAIN {
        let Some(node) = before.pop().filter(|_| file.is_none()) else {
            break;
        };
        file = file_input(node).and_then(|name| walk.name(node, name));
        before.extend(node.links().filter_map(|(name, _)| walk.linked(node, name)));
    }
    let file = file.map(|file| shown_file(&file));
    let from = file.map_or_else(String::new, |file| format!(" from {file}"));
    restored.note(format!(
        "{} makes {what}{from}: Safelight cannot; {instead}",
        node.at_start()
    ));
    walk.name_node(node);
}

/// Returns whether an input says where an image is made anew.
fn is_inpaint_mask(node: &ComfyNode, name: &str) -> bool {
    name.contains("mask") && node.is_called("inpaint latentnoisemask")
}

/// Input of an inpainting node for its mask.
fn inpaint_mask(node: &ComfyNode) -> Option<&str> {
    let mut names = node.links().map(|(name, _)| name);
    names.find(|name| is_inpaint_mask(node, name))
}

/// First node on the way to a mask.
fn mask_source<'a>(walk: &GraphWalk<'a>, node: &'a ComfyNode, name: &str) -> Option<&'a ComfyNode> {
    let mut source = walk.linked(node, name)?;
    for _ in 0..MAX_CHAIN {
        let before = mask_link(walk, source).and_then(|name| walk.linked(source, name));
        match before {
            Some(before) => source = before,
            None => break,
        }
    }
    Some(source)
}

/// Node that makes a mask, unless that is a file, or a border whose mask is made with it.
fn mask_maker<'a>(walk: &GraphWalk<'a>, node: &'a ComfyNode, name: &str) -> Option<&'a ComfyNode> {
    let source = mask_source(walk, node, name)?;
    let is_known = is_idle(source) || file_input(source).is_some() || source.is_called("pad");
    (!is_known).then_some(source)
}

fn note_mask<'a>(walk: &GraphWalk<'a>, node: &'a ComfyNode, restored: &mut ForeignSettings) {
    let Some(name) = inpaint_mask(node) else {
        return;
    };
    restored.from_image = true;
    if mask_maker(walk, node, name).is_some() {
        return;
    }
    let file = mask_source(walk, node, name).and_then(|source| file_of(walk, source));
    let file = file.map_or_else(String::new, |file| format!(", {file},"));
    restored.note(format!(
        "Its mask{file} is not in the file: set it again (it was given to {node})"
    ));
}

fn id(node: &ComfyNode) -> &str {
    &node.id
}

/// Node that an input is linked to; for a bundle of links itself, so that all of its members are met.
fn source<'a>(walk: &GraphWalk<'a>, node: &'a ComfyNode, name: &str) -> Option<&'a ComfyNode> {
    let link = node.link(name)?;
    let direct = walk.graph.nodes.get(&link.from)?;
    if direct.runs() && direct.is_bundle() && walk.kind(name, link) == LinkKind::Pipe {
        return Some(direct);
    }
    walk.linked(node, name)
}

pub(super) fn is_idle(node: &ComfyNode) -> bool {
    let class = &node.plain_class;
    let is_number = |input: &NodeInput| matches!(input, NodeInput::Value(it) if it.is_number() || it.is_boolean());
    // LoRAs and texts have an effect.
    (has_word(class, IDLE) && !has_word(class, "lora primitivestring"))
        || ENCODERS.split(' ').any(|known| known == class)
        || node.is_bundle()
        || (has_word(class, NUMBER_NODES) && node.inputs.values().all(is_number))
}

/// Input with the file of a node that loads an image, a video or the like.
fn file_input(node: &ComfyNode) -> Option<&'static str> {
    // An old canvas does not name the widgets of every node.
    const UNNAMED: &str = "widget 1";
    let mut names = FILES.split(", ").filter(|_| node.is_called("load"));
    names.find(|name| node.has(name)).or_else(|| {
        let NodeInput::Value(value) = node.inputs.get(UNNAMED)? else {
            return None;
        };
        let path = Path::new(value.as_str()?);
        (has_image_name(path) || has_video_name(path)).then_some(UNNAMED)
    })
}

/// Notes files that have to be added again; returns descriptions of the others.
fn note_files<'a>(
    walk: &GraphWalk<'a>,
    files: Vec<(String, FileRole<'a>, bool)>,
    restored: &mut ForeignSettings,
) -> Vec<String> {
    let mut inputs: Vec<(String, Vec<String>)> = Vec::new();
    let mut others = Vec::new();
    for (file, role, is_value) in files {
        let Some((node, input)) = role else {
            others.push(file);
            continue;
        };
        if is_inpaint_mask(node, input) {
            continue;
        }
        let what = input_named(walk, node, input, &file);
        let Some(what) = what.filter(|_| !is_value) else {
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
fn input_named<'a>(
    walk: &GraphWalk<'a>,
    node: &'a ComfyNode,
    name: &str,
    file: &str,
) -> Option<String> {
    let lower = name.to_lowercase();
    let at_strength = || match walk.number(node, "strength") {
        Some(strength) => format!(" at strength {strength}"),
        None => String::new(),
    };
    if node.is_called("referencelatent qwenimageedit") || lower.contains("reference") {
        walk.use_input(&node.inputs[name]);
        return Some("reference image".to_owned());
    }
    if node.is_called("stylemodel") {
        return Some(format!("image as a prompt{}", at_strength()));
    }
    if !walk.is_used(node) && !has_word(&lower, "pixels start_ end_ control") {
        return None;
    }
    if lower.contains("control") {
        return Some(if lower.contains("mask") {
            "mask of the control video".to_owned()
        } else {
            format!("control video{}", at_strength())
        });
    }
    let what = match &*lower {
        name if name.starts_with("end_") => "end image",
        name if has_word(name, "mask face pose bg_ background character motion") => return None,
        name if !has_word(name, "start image pixels latent samples vision") => return None,
        _ if has_video_name(Path::new(file)) => "video",
        _ => "start image",
    };
    Some(what.to_owned())
}

/// Description of a node and its values as far as they are not used; `None` where all is.
fn described<'a>(walk: &GraphWalk<'a>, node: &'a ComfyNode) -> Option<String> {
    let is_used = walk.is_used(node);
    let has_loras = node.inputs.keys().any(|name| name.contains("lora"));
    let inputs = node.sorted_inputs().into_iter();
    let values = inputs.filter_map(|(name, input)| match input {
        NodeInput::Value(value) if !walk.is_read(input) => {
            let is_of_lora = is_used && has_loras && has_word(name, LORA_NUMBERS);
            let is_idle = is_of_lora || has_word(name, IDLE_NUMBERS);
            match (fields::number(value), value) {
                // Such values change nothing.
                (Some(number), _) => {
                    let acts = !is_idle && !matches!(number.abs(), 0.0 | 1.0);
                    // A list of layers, `7,8`, is no number.
                    let text = value.as_str().map_or_else(|| number.to_string(), short);
                    acts.then(|| format!("{} {text}", short(name)))
                }
                (None, Value::String(text)) if !is_used && says_what(name, text) => {
                    Some(format!("{} {}", short(name), short(text)))
                }
                _ => None,
            }
        }
        _ => None,
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
    let endings = ".safetensors .gguf .sft .ckpt .pt .onnx .png .jpg .jpeg .webp .mp4";
    let is_text = has_word(name, "text prompt string value");
    !text.trim().is_empty() && (is_text || has_word(&text.to_lowercase(), endings))
}
