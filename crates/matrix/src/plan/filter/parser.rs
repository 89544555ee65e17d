//! From the text of a filter to its [`Expression`]: recursive descent, or below and below not.
//!
//! ```text
//! any  = all  { (";" | "or" | "||" | "|") all }
//! all  = one  { ("," | "and" | "&" | "&&") one }
//! one  = ("not" | "!") one | "(" any ")" | word { "/" word } | word relation word { "|" word }
//! ```
//! A `|` behind a value offers another value, unless a term, a parenthesis or a negation follows.

use super::expression::{Expression, Relation, Written};

/// Parentheses and negations in one another; more is a mistake, and must not end the program.
const DEPTH_MAX: usize = 64;

/// # Errors
/// PeerContext of the mistake, and what was expected there.
pub(super) fn parse(text: &str) -> Result<Expression, String> {
    let mut parser = Parser { rest: text, depth: 0 };
    let expression = parser.any()?;
    match parser.peek() {
        None => Ok(expression),
        Some(_) => Err(format!("`{}`: expected `and`, `or` or the end", parser.rest.trim_start())),
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

/// Characters that are no part of a name or pattern.
fn is_delimiter(character: char) -> bool {
    character.is_whitespace() || ",;&|()=!~/".contains(character)
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Result<Expression, String> {
        self.joined(Self::all, &[";", "||", "|"], "or", Expression::Any)
    }

    fn all(&mut self) -> Result<Expression, String> {
        self.joined(Self::one, &[",", "&&", "&"], "and", Expression::All)
    }

    /// One part or several with any of the signs or the word between them.
    fn joined(
        &mut self,
        part: fn(&mut Self) -> Result<Expression, String>,
        signs: &[&str],
        word: &str,
        join: fn(Vec<Expression>) -> Expression,
    ) -> Result<Expression, String> {
        let first = part(self)?;
        let mut parts = vec![first];
        while signs.iter().any(|sign| self.take(sign)) || self.take_word(word) {
            parts.push(part(self)?);
        }
        match parts.len() {
            1 => Ok(parts.swap_remove(0)),
            _ => Ok(join(parts)),
        }
    }

    fn one(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} parentheses or negations in one another"));
        }
        let one = self.nested();
        self.depth -= 1;
        one
    }

    fn nested(&mut self) -> Result<Expression, String> {
        if self.take_word("not") || self.take("!") {
            return Ok(Expression::Not(Box::new(self.one()?)));
        }
        if self.take("(") {
            let inner = self.any()?;
            return if self.take(")") { Ok(inner) } else { Err(format!("`{}`: expected `)`", self.rest.trim_start())) };
        }
        let before = self.rest;
        let key = self.word().ok_or_else(|| format!("`{}`: expected a key and a value", before.trim()))?;
        if let Some(relation) = self.relation() {
            return Ok(Expression::Term(Written { key, relation, patterns: self.patterns()? }));
        }
        let mut segments = vec![key];
        while self.take("/") {
            segments.push(self.word().ok_or_else(|| format!("`{}`: expected a name behind `/`", before.trim()))?);
        }
        // One word alone is more likely an unfinished term than a server.
        if segments.len() == 1 {
            Err(format!("`{}`: expected `=` and a value behind it", segments[0]))
        } else {
            Ok(Expression::Path(segments))
        }
    }

    fn patterns(&mut self) -> Result<Vec<String>, String> {
        let mut patterns = Vec::new();
        loop {
            let before = self.rest;
            patterns.push(self.word().ok_or_else(|| format!("`{}`: expected a value", before.trim()))?);
            if !self.offers_another_value() {
                return Ok(patterns);
            }
            self.take("|");
        }
    }

    /// True if `|` and a word follow that begins no term.
    fn offers_another_value(&self) -> bool {
        let mut ahead = Parser { rest: self.rest, depth: self.depth };
        if ahead.rest.trim_start().starts_with("||") || !ahead.take("|") {
            return false;
        }
        let Some(word) = ahead.word() else { return false };
        if ahead.relation().is_some() || ahead.rest.starts_with('/') {
            return false;
        }
        // `a=1|not b=2` goes on with a negation, `a=1|not and b=2` with a value.
        !(word == "not" && ahead.word().is_some() && ahead.relation().is_some())
    }

    fn relation(&mut self) -> Option<Relation> {
        Relation::ALL.iter().find(|(sign, _)| self.take(sign)).map(|(_, relation)| *relation)
    }

    fn peek(&self) -> Option<char> {
        self.rest.trim_start().chars().next()
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.rest.trim_start().strip_prefix(sign);
        found.inspect(|rest| self.rest = rest).is_some()
    }

    /// The word, if it stands alone: `order=1` does not begin with `or`.
    fn take_word(&mut self, word: &str) -> bool {
        let Some(rest) = self.rest.trim_start().strip_prefix(word) else { return false };
        let is_whole = rest.chars().next().is_none_or(|next| next.is_whitespace() || next == '(' || next == '!');
        // `not=1` is a term about something called `not`, and so is `! =`.
        let is_key = Relation::ALL.iter().any(|(sign, _)| rest.trim_start().starts_with(sign));
        if is_whole && !is_key {
            self.rest = rest;
        }
        is_whole && !is_key
    }

    fn word(&mut self) -> Option<String> {
        let start = self.rest.trim_start();
        let length = start.find(is_delimiter).unwrap_or(start.len());
        let (word, rest): (&'a str, &'a str) = start.split_at(length);
        if word.is_empty() {
            return None;
        }
        self.rest = rest;
        Some(word.to_owned())
    }
}
