//! Meaning of file and folder names: the expert of a pair, and the published model.
//!
//! Headers take precedence. Names only count for what no header states.

/// Part of the schedule that an expert works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoiseSide {
    High,
    Low,
}

impl NoiseSide {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::High => Self::Low,
            Self::Low => Self::High,
        }
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::High => "high-noise",
            Self::Low => "low-noise",
        }
    }
}

/// The spellings of a side, longest first.
const SPELLINGS: [(&str, &str); 6] = [
    ("highnoise", "lownoise"),
    ("high", "low"),
    ("hne", "lne"),
    ("hi", "lo"),
    ("hn", "ln"),
    ("h", "l"),
];

/// Words that only say how weights are stored.
const STORAGE: [&str; 21] = [
    "fp32",
    "fp16",
    "bf16",
    "f32",
    "f16",
    "fp8",
    "int8",
    "int4",
    "nvfp4",
    "mxfp8",
    "w4a4",
    "w4a8",
    "convrot",
    "e4m3fn",
    "e5m2",
    "scaled",
    "mixed",
    "safetensors",
    "gguf",
    "sft",
    "comfy",
];

/// Ends after `Q4` or `IQ4` in the name of a GGUF type: `Q4_K_M`, `Q8_0`, `IQ4_XS`.
const BLOCK_ENDS: [&str; 9] = ["0", "1", "k", "s", "m", "l", "xl", "xs", "nl"];

/// Returns true if a word begins the name of a GGUF type.
fn begins_block_type(word: &str) -> bool {
    let digits = word.strip_prefix("iq").or_else(|| word.strip_prefix('q'));
    digits.is_some_and(|digits| digits.len() == 1 && digits.as_bytes()[0].is_ascii_digit())
}

/// The side that a word names, and its number among the spellings.
fn side_of_word(word: &str) -> Option<(NoiseSide, usize)> {
    let word = word.to_lowercase();
    SPELLINGS
        .iter()
        .enumerate()
        .find_map(|(number, (high, low))| {
            if word == *high {
                Some((NoiseSide::High, number))
            } else if word == *low {
                Some((NoiseSide::Low, number))
            } else {
                None
            }
        })
}

/// The side that a name states outright: `high_noise`, `LowNoise`.
pub(crate) fn stated_side(name: &str) -> Option<NoiseSide> {
    let words = words(name);
    words.iter().enumerate().find_map(|(i, word)| {
        let (side, spelling) = side_of_word(word)?;
        let is_before_noise = || {
            words
                .get(i + 1)
                .is_some_and(|next| next.eq_ignore_ascii_case("noise"))
        };
        (spelling == 0 || (spelling == 1 && is_before_noise())).then_some(side)
    })
}

/// The side that a name may mean: stated outright, or by the only such word in it.
pub(crate) fn possible_side(name: &str) -> Option<NoiseSide> {
    stated_side(name).or_else(|| {
        let words = words(name);
        let mut sides = words.iter().filter_map(|word| side_of_word(word));
        match (sides.next(), sides.next()) {
            (Some((side, _)), None) => Some(side),
            _ => None,
        }
    })
}

/// The side that the last word of a name says, but for words of storage and size: `high` or `low` in full.
pub(crate) fn side_at_end(name: &str) -> Option<NoiseSide> {
    name.split(|c: char| !c.is_alphanumeric())
        .rfind(|part| !part.is_empty() && !is_storage_or_size(part))
        .and_then(|part| words(part).last().copied().and_then(side_of_word))
        .and_then(|(side, spelling)| (spelling < 2).then_some(side))
}

/// `bf16`, `14B`
fn is_storage_or_size(part: &str) -> bool {
    let part = part.to_lowercase();
    let size = part.strip_suffix('b').unwrap_or("-");
    let is_block_type = begins_block_type(&part) || BLOCK_ENDS.contains(&part.as_str());
    is_block_type || STORAGE.contains(&part.as_str()) || size.bytes().all(|b| b.is_ascii_digit())
}

/// The side of `name`, where `other` is the same name but for words of the other side.
pub(crate) fn side_beside(name: &str, other: &str) -> Option<NoiseSide> {
    let (names, others) = (words(name), words(other));
    if names.len() != others.len() {
        return None;
    }
    let mut found = None;
    for (one, two) in names.iter().zip(&others) {
        if one.eq_ignore_ascii_case(two) || (is_float(one) && is_float(two)) {
            continue;
        }
        let (one, two) = (side_of_word(one)?, side_of_word(two)?);
        if one.0 == two.0 || one.1 != two.1 || found.is_some_and(|side| side != one.0) {
            return None;
        }
        found = Some(one.0);
    }
    found
}

/// Returns true if a word begins the name of a float type; two experts need not be stored alike.
fn is_float(word: &str) -> bool {
    ["fp", "bf", "f"]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known))
}

/// The name that the other expert would have; `None` for a name without a side.
pub(crate) fn counterpart(name: &str) -> Option<String> {
    let stated = stated_side(name).is_some();
    let mut renamed = String::new();
    let mut is_changed = false;
    let mut rest = name;
    for word in words(name) {
        let at = rest.find(word).unwrap_or(0);
        renamed.push_str(&rest[..at]);
        rest = &rest[at + word.len()..];
        match side_of_word(word) {
            // A lone letter is something else where a whole word says the side.
            Some((side, spelling)) if !stated || spelling < 2 => {
                let (high, low) = SPELLINGS[spelling];
                let new = if side == NoiseSide::High { low } else { high };
                renamed.push_str(&in_case_of(word, new));
                is_changed = true;
            }
            _ => renamed.push_str(word),
        }
    }
    renamed.push_str(rest);
    is_changed.then_some(renamed)
}

fn in_case_of(model: &str, text: &str) -> String {
    let is_upper = |c: char| c.is_ascii_uppercase();
    if model.chars().all(is_upper) {
        text.to_uppercase()
    } else if model.starts_with(is_upper) {
        let (first, rest) = text.split_at(1);
        format!("{}{rest}", first.to_uppercase())
    } else {
        text.to_owned()
    }
}

/// A name without the words for a side: what two experts are called together.
pub(crate) fn without_side(name: &str) -> String {
    let kept: Vec<&str> = name
        .split_inclusive(|c: char| !c.is_alphanumeric())
        .filter(|part| {
            let word = part.trim_end_matches(|c: char| !c.is_alphanumeric());
            let is_noise = word.eq_ignore_ascii_case("noise");
            let is_side = stated_side(word).is_some()
                || side_of_word(word).is_some_and(|(_, spelling)| spelling < 2);
            !is_noise && !is_side
        })
        .collect();
    let text = kept.concat();
    let text = text.trim_matches(|c: char| !c.is_alphanumeric());
    if text.is_empty() {
        name.to_owned()
    } else {
        text.to_owned()
    }
}

/// Words of a model's name without its storage and its expert, sorted: the same for
/// `wan2.1_i2v_480p_14B_fp16` and `Wan2_1-I2V-14B-480P_fp8_e4m3fn`.
pub(crate) fn model_words(name: &str) -> Vec<String> {
    let mut is_in_block_type = false;
    let mut words: Vec<String> = name
        .split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .filter(|word| {
            is_in_block_type = begins_block_type(word)
                || (is_in_block_type && BLOCK_ENDS.contains(&word.as_str()));
            !is_in_block_type
        })
        .filter(|word| !word.is_empty() && !STORAGE.contains(&word.as_str()))
        .filter(|word| word != "noise" && side_of_word(word).is_none())
        .collect();
    words.sort();
    words
}

/// Letters that belong together, split where capitals begin, and digits.
fn words(name: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = name.char_indices().collect();
    let mut words = Vec::new();
    let mut start = None;
    for (i, &(at, c)) in chars.iter().enumerate() {
        let before = i.checked_sub(1).map(|i| chars[i].1);
        let after = chars.get(i + 1).map(|&(_, c)| c);
        if let Some(from) = start
            && before.is_some_and(|before| is_boundary(before, c, after))
        {
            words.push(&name[from..at]);
            start = None;
        }
        if start.is_none() && c.is_alphanumeric() {
            start = Some(at);
        }
    }
    words.extend(start.map(|from| &name[from..]));
    words
}

fn is_boundary(before: char, c: char, after: Option<char>) -> bool {
    !c.is_alphanumeric()
        || before.is_ascii_digit() != c.is_ascii_digit()
        || (before.is_lowercase() && c.is_uppercase())
        || (before.is_uppercase() && c.is_uppercase() && after.is_some_and(char::is_lowercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_experts_are_paired_in_every_usual_spelling() {
        for (high, low) in crate::testing::table(
            "wan2.2_t2v_high_noise_14B_fp16 -> wan2.2_t2v_low_noise_14B_fp16
             Wan2.2-I2V-A14B-HighNoise-Q8_0 -> Wan2.2-I2V-A14B-LowNoise-Q8_0
             Wan2_2-T2V-A14B-HIGH_fp8_scaled -> Wan2_2-T2V-A14B-LOW_fp8_scaled
             wan22-high-noise -> wan22-low-noise
             my_wan_h_v2 -> my_wan_l_v2
             wan22Enhanced_fp8H -> wan22Enhanced_fp8L
             Remix_i2v_14b_high_lighting_v2.1 -> Remix_i2v_14b_low_lighting_v2.1
             highnoise -> LOWNOISE",
        ) {
            assert_eq!(side_beside(high, low), Some(NoiseSide::High), "{high}");
            assert_eq!(side_beside(low, high), Some(NoiseSide::Low), "{low}");
            let other = counterpart(high).unwrap();
            assert!(other.eq_ignore_ascii_case(low), "{other}");
        }
        assert_eq!(
            side_beside("wan_high_bf16", "wan_low_fp16"),
            Some(NoiseSide::High)
        );
        for (one, two) in [
            ("wan_high", "wan_high"),
            ("wan_high_v1", "wan_low_v2"),
            ("wan_high_l", "wan_low_h"),
            ("wan_slow", "wan_shigh"),
            ("t2v_high", "i2v_low"),
            ("a_high", "a_l"),
        ] {
            assert_eq!(side_beside(one, two), None, "{one} {two}");
        }
    }

    #[test]
    fn a_side_is_stated_only_by_whole_words() {
        assert_eq!(
            stated_side("wan2.2_t2v_low_noise_14B"),
            Some(NoiseSide::Low)
        );
        assert_eq!(stated_side("HighNoise-Q8"), Some(NoiseSide::High));
        for name in ["wan_lowvram", "slow_motion", "wan_high", "highly_noisy", ""] {
            assert_eq!(stated_side(name), None, "{name}");
        }
        assert_eq!(possible_side("wan_high"), Some(NoiseSide::High));
        assert_eq!(possible_side("wan_high_l"), None);
    }

    #[test]
    fn the_name_of_the_missing_expert_keeps_everything_else() {
        assert_eq!(
            counterpart("wan2.2_t2v_high_noise_14B_fp16.safetensors").as_deref(),
            Some("wan2.2_t2v_low_noise_14B_fp16.safetensors")
        );
        assert_eq!(
            counterpart("h_model_HighNoise").as_deref(),
            Some("h_model_LowNoise")
        );
        assert_eq!(counterpart("wan2.1_t2v"), None);
        assert_eq!(without_side("wan2.2_t2v_high_noise_14B"), "wan2.2_t2v_14B");
        assert_eq!(without_side("high_noise"), "high_noise");
    }

    #[test]
    fn publishers_names_of_one_model_are_the_same_words() {
        assert_eq!(
            model_words("wan2.1_i2v_480p_14B_fp16"),
            model_words("Wan2_1-I2V-14B-480P_fp8_e4m3fn")
        );
        assert_ne!(
            model_words("wan2.1_t2v_14B"),
            model_words("wan2.1_t2v_1.3B")
        );
    }
}
