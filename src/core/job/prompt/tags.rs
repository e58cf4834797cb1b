//! A1111's tags in prompts: `<lora:name:0.8>` is a LoRA of the job, and others are not used. No encoder reads them.

use super::PromptError;

/// LoRAs of one prompt, and bytes of a tag.
const MAX_TAGS: usize = 64;
const MAX_TAG_BYTES: usize = 1000;
/// The strengths that [`crate::job::GenerateForm`] takes, on both sides of 0.
const MAX_STRENGTH: f64 = 10.0;

/// Kinds of tags, and whether they name a LoRA.
const KINDS: [(&str, bool); 6] = [
    ("lora", true),
    ("lyco", true),
    ("hypernet", false),
    ("hypernetwork", false),
    ("embedding", false),
    ("embed", false),
];

/// A LoRA that a prompt names.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraTag {
    /// With folders, as written.
    pub name: String,
    pub strength: f64,
    /// On the low-noise expert, where it is another one.
    pub strength_2: Option<f64>,
    /// The whole tag.
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
    /// Takes the tags out of a prompt. Other text in angle brackets stays, and a prompt without tags is not changed.
    pub fn parse(prompt: &str) -> Result<Self, PromptError> {
        let mut all = Self::default();
        let mut rest = prompt;
        while let Some((at, kind, is_lora)) = next_tag(rest) {
            let inside = &rest[at + kind.len() + 2..];
            let end = inside.find(['>', '<', '\n']);
            let end = end.filter(|end| *end <= MAX_TAG_BYTES && inside[*end..].starts_with('>'));
            let Some(end) = end else {
                return Err(PromptError::OpenTag {
                    beginning: rest[at..].chars().take(24).collect(),
                });
            };
            let written = &rest[at..=at + kind.len() + 2 + end];
            if is_lora {
                if all.loras.len() == MAX_TAGS {
                    return Err(PromptError::TooManyTags { limit: MAX_TAGS });
                }
                let lora = all.lora(&inside[..end], written)?;
                all.loras.push(lora);
            } else {
                let notice =
                    format!("{written} in the prompt is not used: Safelight has no {kind}");
                all.notices.push(notice);
            }
            all.text.push_str(&rest[..at]);
            rest = all.joined(&inside[end + 1..]);
        }
        let has_tags = rest.len() < prompt.len();
        all.text.push_str(rest);
        if has_tags {
            let text = all.text.trim().trim_end_matches([',', ' ', '\n']);
            all.text = text.to_owned();
        }
        Ok(all)
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

    /// `name`, `name:0.8`, `name:0.8:0.6` with a text encoder's strength, `name:te=0.6:unet=0.8`, and sd.cpp's
    /// `|high_noise|name:1`.
    fn lora(&mut self, inside: &str, written: &str) -> Result<LoraTag, PromptError> {
        let wrong = || PromptError::WrongTag {
            tag: written.to_owned(),
        };
        let high_only = inside.strip_prefix("|high_noise|");
        let mut parts = high_only.unwrap_or(inside).split(':').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty());
        let name = name.ok_or_else(wrong)?.to_owned();
        let (mut strength, mut encoder) = (None, None);
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or(("", part));
            let number = || {
                let number: Option<f64> = value.trim().parse().ok();
                number
                    .filter(|number| number.abs() <= MAX_STRENGTH)
                    .ok_or_else(wrong)
            };
            match key.trim() {
                "" if strength.is_none() => strength = Some(number()?),
                "" if encoder.is_none() => encoder = Some(number()?),
                "unet" => strength = Some(number()?),
                "te" => encoder = Some(number()?),
                _ => self
                    .notices
                    .push(format!("\"{part}\" in {written} is not used")),
            }
        }
        let strength = strength.or(encoder).unwrap_or(1.0);
        if let Some(encoder) = encoder.filter(|encoder| *encoder != strength) {
            self.notices.push(format!(
                "the text encoder's strength {encoder} in {written} is not used: a LoRA has one strength for all, here {strength}"
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

/// The place of the first tag, its kind as written, and whether it names a LoRA.
fn next_tag(text: &str) -> Option<(usize, &str, bool)> {
    text.match_indices('<').find_map(|(at, _)| {
        let behind = &text[at + 1..];
        let letters = behind.bytes().take_while(u8::is_ascii_alphabetic).count();
        let kind = &behind[..letters];
        let known = KINDS.iter().find(|(it, _)| kind.eq_ignore_ascii_case(it));
        let (_, is_lora) = known.filter(|_| behind[letters..].starts_with(':'))?;
        Some((at, kind, *is_lora))
    })
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
                "<lora:sub\\dir\\Name (v1.2):0.33>",
                "sub\\dir\\Name (v1.2)",
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
            assert_eq!(
                (lora.name.as_str(), lora.strength),
                (name, strength),
                "{tag}"
            );
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
    fn what_a_tag_asks_for_and_is_not_done_is_named() {
        let found = parsed("fox <lora:a:0.8:0.6:lbw=OUTALL> <hypernet:x:1> <embedding:bad>");
        assert_eq!((found.text.as_str(), found.loras[0].strength), ("fox", 0.8));
        let notices = found.notices.join("\n");
        for part in [
            "strength 0.6",
            "lbw=OUTALL",
            "<hypernet:x:1>",
            "<embedding:bad>",
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
