//! A1111's tags in prompts: `<lora:name:0.8>` is a LoRA of the job, and others are not used. No encoder reads them.

use super::PromptError;

const MAX_TAGS: usize = 64;
/// The strengths that [`crate::job::GenerateForm`] takes, on both sides of 0.
const MAX_STRENGTH: f64 = 10.0;

/// Kinds of tags that name a LoRA.
const LORAS: &str = "lora lyco";
/// Kinds of A1111 and SwarmUI that are not used.
const OTHERS: &str = "hypernet hypernetwork embedding embed random wildcard alternate fromto";
/// More of them, whose words follow the tag.
const PARTS: &str = "segment object region";

/// A LoRA that a prompt names.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraTag {
    /// With folders, as written.
    pub name: String,
    pub strength: f64,
    /// On the low-noise expert, where it is another one.
    pub strength_2: Option<f64>,
    pub written: String,
}

/// A prompt without its tags.
#[derive(Debug, Default, PartialEq)]
pub struct TaggedPrompt {
    pub text: String,
    pub loras: Vec<LoraTag>,
    /// A sentence about each part of a tag that is not used.
    pub notices: Vec<String>,
}

impl TaggedPrompt {
    /// Takes the tags out of a prompt. Other text in angle brackets stays, and a prompt without tags is not changed. Of
    /// two strengths the text encoder's is the first, as in A1111.
    pub fn parse(prompt: &str) -> Result<Self, PromptError> {
        let (all, errors) = Self::read(prompt, true);
        errors.into_iter().next().map_or(Ok(all), Err)
    }

    /// Takes the tags out of another program's prompt, and names those that cannot be read. A1111 writes the text
    /// encoder's strength first of two, others write it second.
    pub fn of_foreign(prompt: &str, is_encoder_first: bool) -> Self {
        let (mut all, errors) = Self::read(prompt, is_encoder_first);
        all.notices.extend(errors.iter().map(|err| match err {
            PromptError::WrongTag { tag } => format!(
                "{tag} cannot be read and is not used: a strength is a number from -{MAX_STRENGTH} to {MAX_STRENGTH}"
            ),
            other => other.to_string(),
        }));
        all
    }

    fn read(prompt: &str, is_encoder_first: bool) -> (Self, Vec<PromptError>) {
        let (mut all, mut errors) = (Self::default(), Vec::new());
        let mut rest = prompt;
        while let Some((at, kind, written)) = next_tag(rest) {
            let Some(written) = written else {
                errors.push(PromptError::OpenTag {
                    beginning: rest[at..].chars().take(24).collect(),
                });
                break;
            };
            if !is_one_of(LORAS, kind) {
                let more = if is_one_of(PARTS, kind) {
                    ". The words after it, which were for that part of the image, act on all of it"
                } else {
                    ""
                };
                let notice = format!("{written} in the prompt is not used{more}");
                all.notices.push(notice);
            } else if all.loras.len() == MAX_TAGS {
                errors.push(PromptError::TooManyTags { limit: MAX_TAGS });
                break;
            } else {
                match all.lora(written, is_encoder_first) {
                    Ok(lora) => all.loras.push(lora),
                    Err(err) => errors.push(err),
                }
            }
            all.text.push_str(&rest[..at]);
            rest = all.joined(&rest[at + written.len()..]);
        }
        let has_tags = rest.len() < prompt.len();
        all.text.push_str(rest);
        if has_tags {
            let text = all.text.trim().trim_end_matches([',', ' ', '\n']);
            all.text = text.to_owned();
        }
        (all, errors)
    }

    /// Returns the text after a tag, without a space or comma that would be doubled.
    fn joined<'a>(&mut self, behind: &'a str) -> &'a str {
        let mut rest = behind;
        if let Some(behind_comma) = rest.trim_start_matches(' ').strip_prefix(',') {
            self.text.truncate(self.text.trim_end_matches(' ').len());
            if self.text.is_empty() || self.text.ends_with([',', '\n']) {
                rest = behind_comma;
            }
        }
        if self.text.is_empty() || self.text.ends_with([' ', '\n']) {
            rest = rest.trim_start_matches(' ');
        }
        rest
    }

    /// `name`, `name:0.8`, `name:0.6:0.8` with a text encoder's strength, `name:te=0.6:unet=0.8`, and sd.cpp's
    /// `|high_noise|name:1`.
    fn lora(&mut self, written: &str, is_encoder_first: bool) -> Result<LoraTag, PromptError> {
        let wrong = || PromptError::WrongTag {
            tag: written.to_owned(),
        };
        let inside = written.split_once(':').map_or("", |(_, inside)| inside);
        let inside = inside.trim_end_matches('>');
        let high_only = inside.strip_prefix("|high_noise|");
        let mut parts = high_only.unwrap_or(inside).split(':').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty());
        let name = name.ok_or_else(wrong)?.to_owned();
        let (mut model, mut encoder, mut plain) = (None, None, Vec::new());
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or(("", part));
            let number = || {
                let number: Option<f64> = value.trim().replace(',', ".").parse().ok();
                number
                    .filter(|number| number.abs() <= MAX_STRENGTH)
                    .ok_or_else(wrong)
            };
            match key.trim() {
                "" if plain.len() < 2 => plain.push(number()?),
                "unet" => model = Some(number()?),
                "te" => encoder = Some(number()?),
                _ => self
                    .notices
                    .push(format!("The part {part} of {written} is not used")),
            }
        }
        if is_encoder_first {
            plain.reverse();
        }
        let mut plain = plain.into_iter();
        let model = model.or_else(|| plain.next());
        let encoder = encoder.or_else(|| plain.next());
        let strength = model.or(encoder).unwrap_or(1.0);
        if let Some(encoder) = encoder.filter(|encoder| *encoder != strength) {
            self.notices.push(format!(
                "The text encoder's strength {encoder} in {written} is not used: a LoRA has one strength for all, here {strength}"
            ));
        }
        Ok(LoraTag {
            name,
            strength,
            strength_2: high_only.map(|_| 0.0),
            written: written.to_owned(),
        })
    }
}

/// Tags of a prompt as they are written, without those that are never closed.
pub fn tags(prompt: &str) -> impl Iterator<Item = &str> {
    let mut rest = prompt;
    std::iter::from_fn(move || {
        let (at, _, written) = next_tag(rest)?;
        let written = written?;
        rest = &rest[at + written.len()..];
        Some(written)
    })
}

/// The place and kind of the first tag, and all of it; `None` for one that is never closed.
fn next_tag(text: &str) -> Option<(usize, &str, Option<&str>)> {
    // `random[2]:`
    const MAX_COUNT_BYTES: usize = 16;
    text.match_indices('<').find_map(|(at, _)| {
        let behind = &text[at + 1..];
        let letters = behind.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (kind, mut behind) = behind.split_at(letters);
        if behind.starts_with('[')
            && let Some(end) = behind
                .bytes()
                .take(MAX_COUNT_BYTES)
                .position(|it| it == b']')
        {
            behind = &behind[end + 1..];
        }
        let is_known = |kinds: &&str| is_one_of(kinds, kind);
        if !behind.starts_with(':') || ![LORAS, OTHERS, PARTS].iter().any(is_known) {
            return None;
        }
        let start = text.len() - behind.len();
        let end = behind.find(['>', '<', '\n']);
        let end = end.filter(|end| behind[*end..].starts_with('>'));
        Some((at, kind, end.map(|end| &text[at..=start + end])))
    })
}

fn is_one_of(kinds: &str, kind: &str) -> bool {
    let mut kinds = kinds.split(' ');
    kinds.any(|known| kind.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(prompt: &str) -> TaggedPrompt {
        TaggedPrompt::parse(prompt).unwrap()
    }

    #[test]
    fn tags_are_taken_out_and_read_in_every_form() {
        for (tag, name, strength, strength_2) in [
            ("<lora:ink:0.8>", "ink", 0.8, None),
            ("<lora:ink>", "ink", 1.0, None),
            ("<LoRA: ink : .5 >", "ink", 0.5, None),
            ("<lyco:old:-0.7>", "old", -0.7, None),
            (
                r"<lora:sub\dir\N (1.2):0.33>",
                r"sub\dir\N (1.2)",
                0.33,
                None,
            ),
            ("<lora:a.b.v1.2:.25:.25>", "a.b.v1.2", 0.25, None),
            ("<lora:d:te=0.8:unet=0.8>", "d", 0.8, None),
            ("<lora:d:te=0.5>", "d", 0.5, None),
            ("<lora:|high_noise|w:1>", "w", 1.0, Some(0.0)),
        ] {
            let found = parsed(&format!("a fox {tag} in snow"));
            assert_eq!(found.text, "a fox in snow", "{tag}");
            assert!(found.notices.is_empty(), "{found:?}");
            let lora = &found.loras[0];
            assert_eq!(lora.name.as_str(), name, "{tag}");
            assert_eq!(lora.strength, strength, "{tag}");
            assert_eq!((lora.strength_2, lora.written.as_str()), (strength_2, tag));
        }
    }

    #[test]
    fn the_text_around_tags_has_no_blank_or_comma_twice() {
        for (prompt, text) in [
            ("<lora:a:1>a fox", "a fox"),
            ("<lora:a:1>, a fox", "a fox"),
            ("a fox, <lora:a:1>, snow", "a fox, snow"),
            ("a fox, <lora:a:1> <lora:b:1>", "a fox"),
            ("a fox <lora:a:1>, snow", "a fox, snow"),
            ("a\n<lora:a:1>\nb", "a\n\nb"),
            ("<lora:a:1>", ""),
        ] {
            assert_eq!(parsed(prompt).text, text, "{prompt}");
        }
    }

    #[test]
    fn other_text_in_angle_brackets_stays() {
        for prompt in [
            "a <3 b > c, ",
            " <b>bold</b> <a href=\"x:y\">",
            "<http://example.com> <svg:rect>",
            "<lorax:1> < lora:x:1>, ",
        ] {
            let found = parsed(prompt);
            assert_eq!((found.text.as_str(), found.loras.len()), (prompt, 0));
        }
    }

    #[test]
    fn ignored_tag_features_are_named_in_notices() {
        let found = parsed("fox <lora:a:0.8:0.6:lbw=OUTALL> <hypernet:x:1> <embedding:bad>");
        assert_eq!((found.text.as_str(), found.loras[0].strength), ("fox", 0.6));
        let notices = found.notices.join("\n");
        for part in [
            "The text encoder's strength 0.8",
            "The part lbw=OUTALL of <lora:a:0.8:0.6:lbw=OUTALL>",
            "<hypernet:x:1>",
            "<embedding:bad>",
        ] {
            assert!(notices.contains(part), "{notices}");
        }
    }

    #[test]
    fn tags_of_other_programs_are_named() {
        let found =
            parsed("a fox <segment:face,0.6> smiling, <random[1-2]:red|blue> <Wildcard:place>");
        assert_eq!(found.text, "a fox smiling");
        let notices = found.notices.join("\n");
        for part in [
            "<segment:face,0.6> in the prompt is not used. The words after it",
            "<random[1-2]:red|blue> in the prompt is not used",
            "<Wildcard:place> in the prompt is not used",
        ] {
            assert!(notices.contains(part), "{notices}");
        }
        let all: Vec<_> = tags("a <b> <lora:x:1> <embed:y> <lora:open").collect();
        assert_eq!(all, ["<lora:x:1>", "<embed:y>"]);
    }

    #[test]
    fn foreign_prompt_keeps_unclosed_tags_and_drops_invalid_ones_with_a_notice() {
        let found = TaggedPrompt::of_foreign("fox <lora:bad:abc> <lora:a:0:0,8> <lora:open", true);
        assert_eq!(found.text, "fox <lora:open");
        let [lora] = found.loras.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!((&*lora.name, lora.strength), ("a", 0.8));
        let notices = found.notices.join("\n");
        for part in [
            "strength 0 in <lora:a:0:0,8>",
            "<lora:bad:abc> cannot be read and is not used",
            "never closed",
        ] {
            assert!(notices.contains(part), "{notices}");
        }
    }

    #[test]
    fn wrong_tags_are_refused_by_name() {
        for prompt in [
            "<lora:>",
            "<lora::1>",
            "<lora:a:strong>",
            "<lora:a:nan>",
            "<lora:a:11>",
            "<lora:a:1@0.5>",
            "a <lora:b:0.8 fox",
            "<lora:a\n:1>",
            "<lora:<lora:a:1>:1>",
        ] {
            let err = TaggedPrompt::parse(prompt).unwrap_err().to_string();
            assert!(err.contains("<lora:"), "{err}");
        }
        assert!(TaggedPrompt::parse(&"<lora:a>".repeat(64)).is_ok());
        assert!(TaggedPrompt::parse(&"<lora:a>".repeat(65)).is_err());
    }
}
