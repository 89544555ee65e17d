//! Arguments of a command, written on one line, and as COMMAND DOCS shows them.
//!
//! `key:key value [NX|XX] [EX seconds:integer|KEEPTTL] [name...] <key:key value>...`: words in upper case are typed
//! literally, others are names of values with a type (a string if none is given); `[]` is optional, `<>` only groups, `|`
//! separates choices, and `...` repeats.

use crate::reply::Reply;

/// Arguments of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Syntax<'s>(pub(super) &'s str);

const TYPES: [&str; 5] = ["key", "integer", "double", "pattern", "unix-time"];

/// One argument, or several together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Argument<'s> {
    shape: Shape<'s>,
    /// Word in front of the argument, in upper case.
    token: Option<&'s str>,
    is_optional: bool,
    is_repeated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape<'s> {
    /// Nothing but the token.
    Token,
    Value {
        name: &'s str,
        kind: &'s str,
    },
    OneOf(Vec<Argument<'s>>),
    Block(Vec<Argument<'s>>),
}

impl<'s> Syntax<'s> {
    /// Returns the line for people to read.
    pub(super) fn without_types(self) -> String {
        TYPES.iter().fold(self.0.to_owned(), |text, kind| text.replace(&format!(":{kind}"), ""))
    }

    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Writes the list of arguments.
    pub(super) fn write(self, reply: &mut Reply<'_>) {
        write_all(&parse_sequence(&mut { self.0 }), &mut 0, reply);
    }
}

/// Parses arguments up to the end of a group or of a choice.
fn parse_sequence<'s>(rest: &mut &'s str) -> Vec<Argument<'s>> {
    let mut arguments = Vec::new();
    loop {
        *rest = rest.trim_start();
        match rest.chars().next() {
            None | Some(']' | '>' | '|') => return arguments,
            Some(_) => arguments.push(parse_argument(rest)),
        }
    }
}

fn parse_argument<'s>(rest: &mut &'s str) -> Argument<'s> {
    let mut argument = match rest.as_bytes() {
        [b'[', ..] => {
            let inside = parse_group(rest);
            Argument { is_optional: true, ..inside }
        }
        [b'<', ..] => parse_group(rest),
        _ => parse_word(rest),
    };
    // A word in upper case takes the argument behind it, unless that is such a word, too.
    let next = rest.strip_prefix(' ').and_then(|next| next.chars().next());
    if argument.shape == Shape::Token && next.is_some_and(|next| next.is_ascii_lowercase() || next == '<') {
        *rest = rest.trim_start();
        let value = parse_argument(rest);
        argument = Argument { token: argument.token, ..value };
    }
    if let Some(after) = rest.strip_prefix("...") {
        *rest = after;
        argument.is_repeated = true;
    }
    argument
}

/// Parses a group in brackets.
fn parse_group<'s>(rest: &mut &'s str) -> Argument<'s> {
    let mut choices = Vec::new();
    loop {
        *rest = &rest[1..]; // The bracket, or the separator of choices.
        choices.push(merge(parse_sequence(rest)));
        if !rest.starts_with('|') {
            *rest = rest.get(1..).unwrap_or_default();
            break;
        }
    }
    match choices.len() {
        1 => choices.remove(0),
        _ => plain(Shape::OneOf(choices)),
    }
}

/// Makes one argument of several.
fn merge(mut arguments: Vec<Argument<'_>>) -> Argument<'_> {
    match arguments.len() {
        1 => arguments.remove(0),
        _ => plain(Shape::Block(arguments)),
    }
}

/// Returns an argument that is neither optional nor repeated.
fn plain(shape: Shape<'_>) -> Argument<'_> {
    Argument { shape, token: None, is_optional: false, is_repeated: false }
}

fn parse_word<'s>(rest: &mut &'s str) -> Argument<'s> {
    let end = rest.find([' ', '|', ']', '>']).unwrap_or(rest.len());
    let end = rest[..end].find("...").unwrap_or(end);
    let (word, after) = rest.split_at(end);
    *rest = after;
    if !word.contains(|character: char| character.is_ascii_lowercase()) {
        return Argument { token: Some(word), ..plain(Shape::Token) };
    }
    let typed = word.rsplit_once(':').filter(|(_, kind)| TYPES.contains(kind));
    let (name, kind) = typed.unwrap_or((word, "string"));
    plain(Shape::Value { name, kind })
}

/// Writes a list of arguments. `keys` counts the key specifications used so far; a key takes one.
fn write_all(arguments: &[Argument<'_>], keys: &mut i64, reply: &mut Reply<'_>) {
    reply.array(arguments.len());
    arguments.iter().for_each(|argument| argument.write(keys, reply));
}

impl Argument<'_> {
    fn write(&self, keys: &mut i64, reply: &mut Reply<'_>) {
        let (kind, inside) = match &self.shape {
            Shape::Token => ("pure-token", None),
            Shape::Value { kind, .. } => (*kind, None),
            Shape::OneOf(inside) => ("oneof", Some(inside)),
            Shape::Block(inside) => ("block", Some(inside)),
        };
        let has_flags = self.is_optional || self.is_repeated;
        let fields = [kind == "key", self.token.is_some(), has_flags, inside.is_some()];
        reply.map(2 + fields.into_iter().filter(|&is_there| is_there).count());
        reply.bulk(b"name");
        reply.bulk(self.name().as_bytes());
        reply.bulk(b"type");
        reply.bulk(kind.as_bytes());
        if kind == "key" {
            reply.bulk(b"key_spec_index");
            reply.integer(*keys);
            *keys += 1;
        }
        if let Some(token) = self.token {
            reply.bulk(b"token");
            reply.bulk(token.as_bytes());
        }
        if has_flags {
            let flags: Vec<_> = [(self.is_optional, "optional"), (self.is_repeated, "multiple")].into();
            let flags: Vec<_> = flags.into_iter().filter(|(is_set, _)| *is_set).collect();
            reply.bulk(b"flags");
            reply.set(flags.len());
            flags.iter().for_each(|(_, flag)| reply.simple(flag));
        }
        if let Some(inside) = inside {
            reply.bulk(b"arguments");
            write_all(inside, keys, reply);
        }
    }

    /// Returns the name; a group has that of its first part.
    fn name(&self) -> String {
        match (&self.shape, self.token) {
            (Shape::Value { name, .. }, _) => (*name).to_owned(),
            (Shape::Token, token) => token.unwrap_or_default().to_ascii_lowercase(),
            (Shape::OneOf(inside) | Shape::Block(inside), _) => inside.first().map_or_else(String::new, Self::name),
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::Outbox;
    use wire::resp::Version;

    use super::*;

    fn parsed(text: &str) -> Vec<Argument<'_>> {
        parse_sequence(&mut { text })
    }

    #[test]
    fn a_line_is_parsed_into_arguments() {
        let arguments =
            parsed("key:key value [NX|XX] [EX seconds:integer|KEEPTTL] [TYPE <A|B>] <field value>... NO ONE");
        assert_eq!(arguments.len(), 8);
        assert_eq!(arguments[0].shape, Shape::Value { name: "key", kind: "key" });
        let Shape::OneOf(choices) = &arguments[2].shape else { panic!("{:?}", arguments[2]) };
        assert!(arguments[2].is_optional && choices[1].token == Some("XX") && choices[1].shape == Shape::Token);
        let Shape::OneOf(choices) = &arguments[3].shape else { panic!("{:?}", arguments[3]) };
        assert_eq!(choices[0].token, Some("EX"));
        assert_eq!(choices[0].shape, Shape::Value { name: "seconds", kind: "integer" });
        assert_eq!((arguments[4].token, arguments[4].is_optional), (Some("TYPE"), true));
        assert!(matches!(&arguments[5].shape, Shape::Block(block) if block.len() == 2) && arguments[5].is_repeated);
    }

    #[test]
    fn every_line_is_parsed_to_its_end() {
        for command in crate::command_table::TABLE {
            let mut rest = crate::commands::details::of(command.name).syntax.0;
            parse_sequence(&mut rest);
            assert_eq!(rest, "", "{}", command.name);
        }
    }

    #[test]
    fn arguments_are_written_as_redis_does() {
        let mut out = Outbox::default();
        Syntax("key:key").write(&mut Reply { out: &mut out, version: Version::Resp2 });
        let wanted =
            "*1\r\n*6\r\n$4\r\nname\r\n$3\r\nkey\r\n$4\r\ntype\r\n$3\r\nkey\r\n$14\r\nkey_spec_index\r\n:0\r\n";
        assert_eq!(out.inline(), wanted.as_bytes());
    }
}
