//! How well a few letters match a name: all of them in order, better together and at the beginnings of words.
//!
//! Pure; any language, by letters without regard to their case.

const AT_WORD: i32 = 8;
const TOGETHER: i32 = 5;
const AT_START: i32 = 6;
/// For each letter that is passed over, up to a limit.
const GAP: i32 = 1;
const MAX_GAP: i32 = 6;

/// `None` when a letter of the query (in lower case) is missing. Higher is better; everything matches an empty query.
pub(super) fn score(query: &str, name: &str) -> Option<i32> {
    let name: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
    let mut total = 0;
    let mut at = 0;
    let mut last: Option<usize> = None;
    for letter in query.chars().filter(|letter| !letter.is_whitespace()) {
        let places = |is_good: &dyn Fn(usize) -> bool| {
            (at..name.len()).find(|place| name[*place] == letter && is_good(*place))
        };
        let follows = |place: usize| last.is_some_and(|last| place == last + 1);
        let begins = |place: usize| place == 0 || !name[place - 1].is_alphanumeric();
        // What goes on with a word is better than the next word's beginning, and both than the middle of one.
        let place = places(&follows)
            .or_else(|| places(&begins))
            .or_else(|| places(&|_| true))?;
        let gap = last.map_or(0, |last| place - last - 1);
        total += 1;
        total += if place == 0 { AT_START } else { 0 };
        total += if begins(place) { AT_WORD } else { 0 };
        total += if follows(place) { TOGETHER } else { 0 };
        total -= (gap as i32 * GAP).min(MAX_GAP);
        last = Some(place);
        at = place + 1;
    }
    if last.is_none() {
        // Nothing is asked for yet: they stay in their order.
        return Some(0);
    }
    // Of two that match as well, the shorter one is nearer.
    Some(total * 8 - (name.len() as i32).min(64) / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best<'a>(query: &str, names: &[&'a str]) -> &'a str {
        let scored = names
            .iter()
            .filter_map(|name| Some((score(query, name)?, *name)));
        scored.max_by_key(|(score, _)| *score).unwrap().1
    }

    #[test]
    fn letters_match_in_order_and_not_otherwise() {
        assert!(score("gnr", "Generate").is_some());
        assert!(score("gz", "Generate").is_none());
        assert!(score("etareneg", "Generate").is_none());
        assert!(score("", "anything").is_some());
        assert!(score("été", "Été à Paris").is_some());
        assert!(score("a b", "A Boat").is_some());
    }

    #[test]
    fn words_and_their_beginnings_are_better_than_scattered_letters() {
        let names = [
            "Show or hide the memory graph",
            "Memory cap",
            "Models that are many",
        ];
        assert_eq!(best("mem", &names), "Memory cap");
        assert_eq!(best("mc", &names), "Memory cap");
        assert_eq!(best("graph", &names), "Show or hide the memory graph");
        let sizes = ["Normal size", "Snow on the roof"];
        assert_eq!(best("ns", &sizes), "Normal size");
    }
}
