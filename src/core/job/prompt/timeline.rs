//! Prompts on a timeline: `a man on a pier [0s-2s: he waves] [2s: he turns around]`.
//!
//! Text outside of the brackets applies at all times, before the timed text. A time without an end lasts until the next
//! begins. Blends prompts by their share of a section's time; knows no tokens.

use crate::job::VideoSections;

/// Less than this part of a section's time is not heard.
const LEAST_SHARE: f64 = 0.05;
/// Longer than any video, in seconds.
const MAX_SECS: f64 = 3600.0;
/// More than the times before the words of a prompt take: `[12.5s-14.75s: …`.
const MAX_TIMES_BYTES: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct TimedPrompt {
    /// Seconds from the video's start.
    pub start: f64,
    /// The video's end where absent.
    pub end: Option<f64>,
    pub text: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptTimeline {
    /// Text that applies to all sections.
    pub common: String,
    /// In the order of their starts.
    pub timed: Vec<TimedPrompt>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PromptShare {
    /// Its place among [`SectionPrompts::texts`].
    pub text: usize,
    /// More than 0; those of a section are 1 together.
    pub share: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SectionPrompts {
    /// Texts for the text encoders, without duplicates; one text if the prompt has no times.
    pub texts: Vec<String>,
    /// For each section, in the order in which they are made: which texts, in rising order.
    pub shares: Vec<Vec<PromptShare>>,
}

impl PromptTimeline {
    /// The times in a prompt; `None` where there are none. The error is a sentence.
    pub fn parse(prompt: &str) -> Result<Option<Self>, String> {
        let mut timeline = Self::default();
        let mut common = String::new();
        let mut rest = prompt;
        while let Some(at) = rest.find('[') {
            common.push_str(&rest[..at]);
            let Some((timed, behind)) = timed_prompt(&rest[at..])? else {
                common.push('[');
                rest = &rest[at + 1..];
                continue;
            };
            timeline.timed.push(timed);
            rest = behind;
        }
        common.push_str(rest);
        if timeline.timed.is_empty() {
            return Ok(None);
        }
        timeline.common = words(&common);
        timeline
            .timed
            .sort_by(|one, two| one.start.total_cmp(&two.start));
        Ok(Some(timeline))
    }

    /// Every text that a section may use.
    pub fn texts(&self) -> Vec<String> {
        let timed = self.timed.iter();
        let mut texts: Vec<String> = timed
            .map(|timed| with_common(&self.common, &timed.text))
            .collect();
        if !self.common.is_empty() {
            texts.push(self.common.clone());
        }
        texts
    }

    /// From when to when each of the timed prompts is said.
    fn spans(&self) -> Vec<(f64, f64, &str)> {
        let mut spans = Vec::with_capacity(self.timed.len());
        for (index, timed) in self.timed.iter().enumerate() {
            let next = self.timed[index + 1..].iter().map(|later| later.start);
            let next = next.filter(|start| *start > timed.start).reduce(f64::min);
            let end = timed.end.or(next).unwrap_or(f64::INFINITY);
            spans.push((timed.start, end, timed.text.as_str()));
        }
        if self.common.is_empty() {
            close_gaps(&mut spans);
        }
        spans
    }

    /// The texts between two times, and how much of the time each has.
    fn between(&self, from: f64, to: f64) -> Vec<(String, f64)> {
        let length = to - from;
        let mut heard: Vec<(String, f64)> = Vec::new();
        let mut covered = 0.0;
        for (start, end, text) in self.spans() {
            let part = (end.min(to) - start.max(from)).max(0.0) / length;
            covered += part;
            heard.push((with_common(&self.common, text), part));
        }
        if !self.common.is_empty() && covered < 1.0 {
            heard.insert(0, (self.common.clone(), 1.0 - covered));
        }
        if heard.iter().any(|(_, share)| *share >= LEAST_SHARE) {
            heard.retain(|(_, share)| *share >= LEAST_SHARE);
        }
        let sum: f64 = heard.iter().map(|(_, share)| share).sum();
        for (_, share) in &mut heard {
            *share /= sum;
        }
        heard
    }
}

impl SectionPrompts {
    /// Texts of each section for a prompt that may contain times. The error is a sentence.
    pub fn parse(prompt: &str, sections: &VideoSections, fps: f64) -> Result<Self, String> {
        let alone = || PromptShare {
            text: 0,
            share: 1.0,
        };
        let Some(timeline) = PromptTimeline::parse(prompt)? else {
            return Ok(Self {
                texts: vec![prompt.to_owned()],
                shares: vec![vec![alone()]; sections.count as usize],
            });
        };
        let mut texts: Vec<String> = Vec::new();
        let mut shares = Vec::with_capacity(sections.count as usize);
        for section in 0..sections.count {
            let (from, to) = sections.span(section, fps);
            let mut own: Vec<PromptShare> = Vec::new();
            for (text, share) in timeline.between(from, to) {
                let known = texts.iter().position(|known| *known == text);
                let text = known.unwrap_or_else(|| {
                    texts.push(text);
                    texts.len() - 1
                });
                match own.iter_mut().find(|other| other.text == text) {
                    Some(same) => same.share += share,
                    None => own.push(PromptShare { text, share }),
                }
            }
            own.sort_by_key(|share| share.text);
            shares.push(own);
        }
        Ok(Self { texts, shares })
    }
}

/// `[0s-2s: words]` at the start of `text`, and the text after it; `None` for other brackets.
fn timed_prompt(text: &str) -> Result<Option<(TimedPrompt, &str)>, String> {
    let inside = &text[1..];
    // Not looked for in all of the text: a prompt of brackets alone would take for ever.
    let near = &inside[..inside.floor_char_boundary(MAX_TIMES_BYTES)];
    let Some(colon) = near.find(':') else {
        return Ok(None);
    };
    let (times, words_on) = (&inside[..colon], &inside[colon + 1..]);
    let (start, end) = match times.split_once(['-', '–']) {
        Some((start, end)) if end.trim().is_empty() => (secs(start), None),
        Some((start, end)) => match secs(end) {
            Some(end) => (secs(start), Some(end)),
            None => return Ok(None),
        },
        None => (secs(times), None),
    };
    let Some(start) = start else {
        return Ok(None);
    };
    let Some(close) = closing(words_on) else {
        return Err(format!(
            "the section [{times}: … is not closed: add a ] at its end"
        ));
    };
    if let Some(end) = end
        && end <= start
    {
        return Err(format!(
            "in [{times}: …] the end, {end} s, must be later than the start, {start} s"
        ));
    }
    let timed = TimedPrompt {
        start,
        end,
        text: words(&words_on[..close]),
    };
    Ok(Some((timed, &words_on[close + 1..])))
}

/// `2s`, `2.5 s`
fn secs(text: &str) -> Option<f64> {
    let number = text.trim().strip_suffix('s')?.trim_end();
    let is_plain = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let secs: f64 = number
        .bytes()
        .all(is_plain)
        .then(|| number.parse().ok())??;
    (secs <= MAX_SECS).then_some(secs)
}

/// Position of the bracket that closes the one before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' if depth == 0 => return Some(at),
            ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Each prompt lasts until the next begins, and the first begins with the video.
fn close_gaps(spans: &mut [(f64, f64, &str)]) {
    if let Some(first) = spans.first_mut() {
        first.0 = 0.0;
    }
    // The one that lasts longest so far is what is still said in a gap.
    let mut longest = 0;
    for index in 0..spans.len() {
        if spans[index].1 >= spans[longest].1 {
            longest = index;
        }
        let next = spans.get(index + 1).map_or(f64::INFINITY, |next| next.0);
        spans[longest].1 = spans[longest].1.max(next);
    }
}

/// One space between words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn with_common(common: &str, text: &str) -> String {
    match (common, text) {
        ("", text) => text.to_owned(),
        (common, "") => common.to_owned(),
        (common, text) => format!("{common} {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::SectionOrder;

    fn section_texts(prompt: &str, count: u32, order: SectionOrder) -> Vec<Vec<(String, f64)>> {
        let sections = VideoSections {
            count,
            window: 9,
            order,
            lead: 1,
        };
        let prompts = SectionPrompts::parse(prompt, &sections, 36.0).unwrap();
        let named = |share: &PromptShare| {
            let rounded = (share.share * 100.0).round() / 100.0;
            (prompts.texts[share.text].clone(), rounded)
        };
        let of_section = |shares: &Vec<PromptShare>| shares.iter().map(named).collect();
        prompts.shares.iter().map(of_section).collect()
    }

    fn heard(parts: &[(&str, f64)]) -> Vec<(String, f64)> {
        let owned = |(text, share): &(&str, f64)| ((*text).to_owned(), *share);
        parts.iter().map(owned).collect()
    }

    // A section of 9 latent frames is a second at 36 frames a second.

    #[test]
    fn prompt_without_times_applies_to_every_section_unchanged() {
        let all = section_texts("a [very] odd  man [2: x]", 3, SectionOrder::F1);
        assert_eq!(all, vec![heard(&[("a [very] odd  man [2: x]", 1.0)]); 3]);
    }

    #[test]
    fn prompts_on_a_timeline_are_blended_where_a_section_has_a_border_in_it() {
        let prompt = "[0s-1.5s: he waves] [1.5s: he sits]";
        let expected = [
            heard(&[("he waves", 1.0)]),
            heard(&[("he waves", 0.5), ("he sits", 0.5)]),
            heard(&[("he sits", 1.0)]),
        ];
        assert_eq!(section_texts(prompt, 3, SectionOrder::F1), expected);
        // Made back to front, each section is still message what is said at its time; the texts are counted as met.
        let prompt = "[1.25s: he sits] [0s: he waves]";
        let expected = [
            heard(&[("he sits", 1.0)]),
            heard(&[("he sits", 0.75), ("he waves", 0.25)]),
            heard(&[("he waves", 1.0)]),
        ];
        assert_eq!(section_texts(prompt, 3, SectionOrder::Original), expected);
    }

    #[test]
    fn text_outside_time_ranges_applies_to_all_sections_and_fills_gaps() {
        let prompt = "a man, oil paint: [1s-2s: he  [really] waves]";
        let (gap, whole) = ("a man, oil paint:", "a man, oil paint: he [really] waves");
        let expected = [gap, whole, gap].map(|text| heard(&[(text, 1.0)]));
        assert_eq!(section_texts(prompt, 3, SectionOrder::F1), expected);
    }

    #[test]
    fn without_other_words_a_prompt_lasts_until_the_next_and_the_first_begins_with_the_video() {
        let expected = ["one", "one", "two", "two"].map(|text| heard(&[(text, 1.0)]));
        let prompt = "[0.5 s - 1s: one][2s-3s: two]";
        assert_eq!(section_texts(prompt, 4, SectionOrder::F1), expected);
    }

    #[test]
    fn prompt_that_barely_overlaps_a_section_is_ignored_there() {
        let prompt = "[0s-1.04s: one] [1.04s: two]";
        let expected = [heard(&[("one", 1.0)]), heard(&[("two", 1.0)])];
        assert_eq!(section_texts(prompt, 2, SectionOrder::F1), expected);
    }

    #[test]
    fn invalid_prompt_time_ranges_are_refused_and_other_brackets_are_plain_text() {
        let problem = |prompt| PromptTimeline::parse(prompt).unwrap_err();
        assert!(problem("[2s-1s: x]").contains("must be later than the start"));
        assert!(problem("[2s: x").contains("is not closed"));
        for plain in "[2: x]|[s: x]|[2s x]|[a-2s: x|[]|[2s|[-1s: x]|[1.2.3s: x]".split('|') {
            assert_eq!(PromptTimeline::parse(plain), Ok(None), "{plain}");
        }
    }
}
