//! The commands and promises of a page, in its order.

use anyhow::{Result, bail};
use pulldown_cmark::{CodeBlockKind, Event, OffsetIter, Options, Parser, Tag, TagEnd};

/// Request of a page to its reader, or promise.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Item {
    /// A command line of an `sh` block, its continuation lines joined, without the comment at its end.
    Line { line: String, number: usize },
    /// A `text` block directly below an `sh` block: the output of its last line.
    Promise { text: String, number: usize },
}

/// Collects the items of a page.
///
/// # Errors
/// A code block has no language: nobody could tell whether it is to be run.
pub(super) fn parse(text: &str) -> Result<Vec<Item>> {
    let mut events = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
    let mut items = Vec::new();
    let mut is_below_commands = false;
    while let Some((event, range)) = events.next() {
        let number = text[..range.start].lines().count() + 1;
        let Event::Start(tag) = event else { continue };
        let was_below_commands = std::mem::take(&mut is_below_commands);
        if let Tag::CodeBlock(CodeBlockKind::Fenced(language)) = tag {
            let code = code(&mut events);
            match &*language {
                "" => bail!("line {number}: a code block without a language; commands are `sh`, output is `text`"),
                "sh" => items.extend(lines(&code, number + 1)),
                "text" if was_below_commands => items.push(Item::Promise { text: code, number: number + 1 }),
                _ => {}
            }
            is_below_commands = &*language == "sh";
        }
    }
    Ok(items)
}

/// Returns the text of the code block that has begun.
fn code(events: &mut OffsetIter<'_>) -> String {
    let mut code = String::new();
    for (event, _) in events.by_ref() {
        if let Event::Text(text) = event {
            code.push_str(&text);
        } else if event == Event::End(TagEnd::CodeBlock) {
            break;
        }
    }
    code
}

/// Splits a block into command lines. Comments are for the reader.
fn lines(code: &str, first: usize) -> Vec<Item> {
    let mut items = Vec::new();
    let mut joined = String::new();
    for (index, line) in code.lines().enumerate() {
        if let Some(begun) = line.strip_suffix('\\') {
            joined.push_str(begun);
            continue;
        }
        joined.push_str(line);
        let line = joined.split(" #").next().unwrap_or_default().trim().to_owned();
        if !line.is_empty() && !line.starts_with('#') {
            items.push(Item::Line { line, number: first + index });
        }
        joined.clear();
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: &str, number: usize) -> Item {
        Item::Line { line: line.to_owned(), number }
    }

    #[test]
    fn commands_come_in_the_order_of_the_page() {
        let page = "# A\n\n```sh\na b   # why\n# only said\nc \\\n  d\n```\n\n```text\n5\n```\n\nand\n\n```text\nno promise\n```\n";
        let promise = Item::Promise { text: "5\n".to_owned(), number: 11 };
        assert_eq!(parse(page).unwrap(), [line("a b", 4), line("c   d", 7), promise]);
    }

    #[test]
    fn a_block_without_a_language_is_refused() {
        let error = parse("text\n\n```\nls\n```\n").unwrap_err();
        assert!(error.to_string().starts_with("line 3: "), "{error}");
    }
}
