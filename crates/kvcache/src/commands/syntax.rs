//! The arguments of a command, written on one line, and what COMMAND DOCS makes of them.
//!
//! `key:key value [NX|XX] [EX seconds:integer|KEEPTTL] [name...] <key:key value>...`: words in upper case are typed as
//! they are, others stand for something of a type (a string where none is given); `[]` may be left out, `<>` only
//! groups, `|` separates choices, and `...` repeats.

use crate::reply::Reply;

/// Of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Syntax<'s>(pub(super) &'s str);

const TYPES: [&str; 5] = ["key", "integer", "double", "pattern", "unix-time"];

/// One argument, or several together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Argument<'s> {
    what: What<'s>,
    /// In front of it, in upper case.
    token: Option<&'s str>,
    optional: bool,
    multiple: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What<'s> {
    /// The token is all there is.
    Token,
    Value {
        name: &'s str,
        kind: &'s str,
    },
    OneOf(Vec<Argument<'s>>),
    Block(Vec<Argument<'s>>),
}

impl<'s> Syntax<'s> {
    /// For people to read.
    pub(super) fn without_types(self) -> String {
        TYPES.iter().fold(self.0.to_owned(), |text, kind| text.replace(&format!(":{kind}"), ""))
    }

    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Writes the list of arguments.
    pub(super) fn write(self, reply: &mut Reply<'_>) {
        write_all(&sequence(&mut { self.0 }), &mut 0, reply);
    }
}

/// Arguments up to the end of a group or of a choice.
fn sequence<'s>(rest: &mut &'s str) -> Vec<Argument<'s>> {
    let mut arguments = Vec::new();
    loop {
        *rest = rest.trim_start();
        match rest.chars().next() {
            None | Some(']' | '>' | '|') => return arguments,
            Some(_) => arguments.push(argument(rest)),
        }
    }
}

fn argument<'s>(rest: &mut &'s str) -> Argument<'s> {
    let mut argument = match rest.as_bytes() {
        [b'[', ..] => {
            let inside = group(rest);
            Argument { optional: true, ..inside }
        }
        [b'<', ..] => group(rest),
        _ => word(rest),
    };
    // A word in upper case takes what follows it, but for another such word.
    let next = rest.strip_prefix(' ').and_then(|next| next.chars().next());
    if argument.what == What::Token && next.is_some_and(|next| next.is_ascii_lowercase() || next == '<') {
        *rest = rest.trim_start();
        let value = self::argument(rest);
        argument = Argument { token: argument.token, ..value };
    }
    if let Some(after) = rest.strip_prefix("...") {
        *rest = after;
        argument.multiple = true;
    }
    argument
}

/// What is between brackets.
fn group<'s>(rest: &mut &'s str) -> Argument<'s> {
    let mut choices = Vec::new();
    loop {
        *rest = &rest[1..]; // The bracket, or what separates choices.
        choices.push(one(sequence(rest)));
        if !rest.starts_with('|') {
            *rest = rest.get(1..).unwrap_or_default();
            break;
        }
    }
    match choices.len() {
        1 => choices.remove(0),
        _ => plain(What::OneOf(choices)),
    }
}

fn one(mut arguments: Vec<Argument<'_>>) -> Argument<'_> {
    match arguments.len() {
        1 => arguments.remove(0),
        _ => plain(What::Block(arguments)),
    }
}

fn plain(what: What<'_>) -> Argument<'_> {
    Argument { what, token: None, optional: false, multiple: false }
}

fn word<'s>(rest: &mut &'s str) -> Argument<'s> {
    let end = rest.find([' ', '|', ']', '>']).unwrap_or(rest.len());
    let end = rest[..end].find("...").unwrap_or(end);
    let (word, after) = rest.split_at(end);
    *rest = after;
    if !word.contains(|character: char| character.is_ascii_lowercase()) {
        return Argument { token: Some(word), ..plain(What::Token) };
    }
    let typed = word.rsplit_once(':').filter(|(_, kind)| TYPES.contains(kind));
    let (name, kind) = typed.unwrap_or((word, "string"));
    plain(What::Value { name, kind })
}

/// `keys`: how many specifications of keys have been used; one argument takes one.
fn write_all(arguments: &[Argument<'_>], keys: &mut i64, reply: &mut Reply<'_>) {
    reply.array(arguments.len());
    arguments.iter().for_each(|argument| argument.write(keys, reply));
}

impl Argument<'_> {
    fn write(&self, keys: &mut i64, reply: &mut Reply<'_>) {
        let (kind, inside) = match &self.what {
            What::Token => ("pure-token", None),
            What::Value { kind, .. } => (*kind, None),
            What::OneOf(inside) => ("oneof", Some(inside)),
            What::Block(inside) => ("block", Some(inside)),
        };
        let has_flags = self.optional || self.multiple;
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
            let flags: Vec<_> = [(self.optional, "optional"), (self.multiple, "multiple")].into();
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

    /// A group has the name of its first part.
    fn name(&self) -> String {
        match (&self.what, self.token) {
            (What::Value { name, .. }, _) => (*name).to_owned(),
            (What::Token, token) => token.unwrap_or_default().to_ascii_lowercase(),
            (What::OneOf(inside) | What::Block(inside), _) => inside.first().map_or_else(String::new, Self::name),
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::Outbox;
    use wire::resp::Version;

    use super::*;

    fn parsed(text: &str) -> Vec<Argument<'_>> {
        sequence(&mut { text })
    }

    #[test]
    fn a_line_becomes_arguments() {
        let arguments =
            parsed("key:key value [NX|XX] [EX seconds:integer|KEEPTTL] [TYPE <A|B>] <field value>... NO ONE");
        assert_eq!(arguments.len(), 8);
        assert_eq!(arguments[0].what, What::Value { name: "key", kind: "key" });
        let What::OneOf(choices) = &arguments[2].what else { panic!("{:?}", arguments[2]) };
        assert!(arguments[2].optional && choices[1].token == Some("XX") && choices[1].what == What::Token);
        let What::OneOf(choices) = &arguments[3].what else { panic!("{:?}", arguments[3]) };
        assert_eq!(choices[0].token, Some("EX"));
        assert_eq!(choices[0].what, What::Value { name: "seconds", kind: "integer" });
        assert_eq!((arguments[4].token, arguments[4].optional), (Some("TYPE"), true));
        assert!(matches!(&arguments[5].what, What::Block(block) if block.len() == 2) && arguments[5].multiple);
    }

    #[test]
    fn every_line_is_understood_to_its_end() {
        for command in crate::command_table::TABLE {
            let mut rest = crate::commands::details::of(command.name).syntax.0;
            sequence(&mut rest);
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
