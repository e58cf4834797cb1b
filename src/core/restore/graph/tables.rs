//! Tables by which nodes of any pack are known: words in their classes (lowercase letters and digits), and names of their
//! inputs.

// Classes, by what the nodes do.
pub(super) const SAVERS: &str = "save videocombine";
pub(super) const PREVIEWS: &str = "preview combine";
/// Steps after a job.
pub(super) const FINISHERS: &str = "upscale interpol vfi facerestore";
pub(super) const INTERPOLATORS: &str = "interpol vfi rife";
pub(super) const DETAILERS: &str = "upscale detail";
/// Run the steps that the sampler before them has left, with its noise.
pub(super) const CHAINED_SAMPLERS: &str = "chainsampler";
pub(super) const RESIZERS: &str = "scale resize crop pad fit stitch";
/// Resizers that change the shape.
pub(super) const RESHAPERS: &str = "pad crop stitch";
pub(super) const ENLARGERS: &str = "scale resize";
/// Give the size of the image that they are given.
pub(super) const SIZE_READERS: &str = "getimagesize imagesize getsize";
pub(super) const SWITCHES: &str = "switch ifelse conditionalbranch";
/// Bundle or unbundle links.
pub(super) const BUNDLES: &str = "pipe context busnode";
/// Give values to nodes without links to them.
pub(super) const BROADCASTERS: &str = "everywhere globalseed globalsampler";
/// Give the high half of sigmas at slot 0 and the low half at slot 1.
pub(super) const SIGMA_SPLITTERS: &str = "splitsigmas";
/// Turn a schedule round, so that a sampler makes noise of an image.
pub(super) const SIGMA_FLIPPERS: &str = "flipsigmas";
/// Schedulers of one schedule, without a name for it.
pub(super) const OWN_SCHEDULERS: &str = "flux2scheduler ltxvscheduler";
/// Let a prompt act on a part of the image or of the steps.
pub(super) const PROMPT_AREAS: &str = "setarea setmask timesteprange";
/// Encode a prompt and load the LoRAs of its tags.
pub(super) const TAG_ENCODERS: &str = "wildcardencode powerprompt";
/// Show a text and hand it on.
pub(super) const DISPLAYS: &str = "showtext showany display preview debug textbox";
/// Give a text that is computed by a network, drawn at random, taken from elsewhere, or made of another one.
pub(super) const TEXT_GENERATORS: &str = "llm gpt ollama generat caption describe enhance translat random wildcard load style \
    upper lower case split append prepend slice substr truncat extract remove filter sort shuffle reverse regex schedul \
    format pars";
pub(super) const MATHS: &str = "mathexpression simplemath easymath";
/// Give the opposite of their value.
pub(super) const NEGATIONS: &str = "not neg inver opposite";
/// Compute a number from one.
pub(super) const FUNCTIONS: &str =
    "negat inver abs sqrt square math increment round ceil floor tostep";
/// Give their value, whatever else is in their names.
pub(super) const HOLDERS: &str = "primitive constant note notif annot passthr display show preview";
/// Hold or compute numbers.
pub(super) const NUMBER_NODES: &str =
    "primitive int float number constant slider math seed boolean";
pub(super) const CONTROLNETS: &str = "controlnet";
/// Make a control image of another image in a way that Safelight does not have.
pub(super) const PREPROCESSORS: &str =
    "preprocessor pose depth normal lineart hed scribble segment keypoint";
pub(super) const INPAINTERS: &str = "inpaint latentnoisemask maskdetailer";
pub(super) const REFERENCES: &str = "referencelatent qwenimageedit fluximageedit";
/// Have no effect on the result, or one that follows from the rest.
pub(super) const IDLE: &str = "load decode preview display show debug note reroute primitive save pipe vram memory sage compile \
    blockswap torch accumulation getimagesize videocomponents createvideo trimvideolatent zeroout basicguider \
    disablenoise imagetomask masktoimage emptylatentaudio";
/// Hand an image on as it is, with other ends that have an effect; whole classes.
pub(super) const IMAGE_ENCODERS: [&str; 5] = [
    "vaeencode",
    "vaeencodeadvanced",
    "vaeencodetiled",
    "clipvisionencode",
    "wanvideoencode",
];

// Inputs, of which the first that a node has counts.
pub(super) const MODEL_NAMES: &str =
    "unet_name, ckpt_name, model_name, gguf_name, model_path, model";
pub(super) const SEEDS: &str = "seed, noise_seed, main_seed";
pub(super) const SAMPLERS: &str = "sampler_name, sampler";
/// Part of the steps that a sampler runs.
pub(super) const DENOISE: &str = "denoise, denoise_strength, denoising_strength";
/// Latents from which a sampler starts.
pub(super) const LATENTS: &str = "latent_image, samples, latent, image_embeds";
pub(super) const WIDTHS: &str = "width, generation_width, empty_latent_width";
pub(super) const HEIGHTS: &str = "height, generation_height, empty_latent_height";
/// Choice of a switch among its other inputs.
pub(super) const SELECTORS: &str = "select, index, input, Input, switch, boolean, condition, cond";
pub(super) const RATES: &str = "fps, frame_rate";
/// Factors by which nodes enlarge.
pub(super) const SCALES: &str = "scale_by, upscale_by, scale_factor, rescale_factor, upscale_factor, upscale, factor, multiplier";
pub(super) const FILES: &str =
    "image, video, file, audio, mask, latent, video_path, image_path, path, directory";
/// Texts that text nodes stored, and those that displays did.
pub(super) const STORED_TEXTS: &str = "populated_text, result";
pub(super) const SHOWN_TEXTS: &str = "text_0, text2, text";
/// Text that a node changes.
pub(super) const CHANGED_TEXTS: &str = "string, text, text_a, input_string, value";
/// Operation of a text node.
pub(super) const MODES: &str = "mode, action, operation";

// Words in the names of inputs.
/// Choices of a size.
pub(super) const SIZE_PRESETS: &str = "aspect resolution preset dimension ratio size";
/// Strengths of a LoRA; the text encoder's is not among them.
pub(super) const STRENGTHS: &str = "strength weight _wt _str multiplier";
pub(super) const LORA_SWITCHES: &str = "switch toggle enable active";
/// Numbers that are read together with a LoRA.
pub(super) const LORA_NUMBERS: &str = "lora strength weight _wt _str";
/// Options of nodes that join texts.
pub(super) const JOIN_OPTIONS: &str =
    "delimiter separator mode action operation tidy_tags clean_whitespace";
/// Numbers that have no effect, or one that follows from the rest.
pub(super) const IDLE_NUMBERS: &str = "seed width height crop tile min_ device index vram";
/// Texts that were encoded.
pub(super) const TEXT_NAMES: &str = "text prompt string value";
