//! From JSON to Lua values.

use mlua::{Lua, Value};

use super::{Config, DEPTH_MAX};
use crate::{failure::text, stack::with_stack};

/// Piece of JSON.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Bad(&'static str),
}

impl Token {
    /// Returns the name that lua-cjson has for it in errors.
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::Text(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Bad(why) => why,
        }
    }
}

struct Reader<'r> {
    lua: &'r Lua,
    config: &'r Config,
    data: &'r [u8],
    at: usize,
    /// Position of the last token.
    begin: usize,
}

/// Reads a whole document.
pub(super) fn document(lua: &Lua, config: &Config, data: &[u8]) -> mlua::Result<Value> {
    if data.len() >= 2 && (data[0] == 0 || data[1] == 0) {
        return Err(text(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut reader = Reader { lua, config, data, at: 0, begin: 0 };
    let first = reader.token();
    let value = reader.value(first, 0)?;
    match reader.token() {
        Token::End => Ok(value),
        other => Err(reader.expected("the end", &other)),
    }
}

impl Reader<'_> {
    fn expected(&self, what: &str, found: &Token) -> mlua::Error {
        let at = self.begin + 1;
        text(self.lua, format_args!("Expected {what} but found {} at character {at}", found.name()))
    }

    /// Returns the byte at the position; 0 ends the text, as in C.
    fn byte(&self) -> u8 {
        self.data.get(self.at).copied().unwrap_or(0)
    }

    fn value(&mut self, token: Token, depth: i32) -> mlua::Result<Value> {
        Ok(match token {
            Token::Text(bytes) => Value::String(self.lua.create_string(bytes)?),
            Token::Number(number) => Value::Number(number),
            Token::Boolean(value) => Value::Boolean(value),
            Token::Null => Value::NULL,
            Token::ObjectBegin => with_stack(|| self.object(depth + 1))?,
            Token::ArrayBegin => with_stack(|| self.array(depth + 1))?,
            other => return Err(self.expected("value", &other)),
        })
    }

    fn check_depth(&self, depth: i32) -> mlua::Result<()> {
        if depth <= self.config.decode_depth.min(DEPTH_MAX) {
            return Ok(());
        }
        let at = self.at;
        Err(text(self.lua, format_args!("Found too many nested data structures ({depth}) at character {at}")))
    }

    fn object(&mut self, depth: i32) -> mlua::Result<Value> {
        self.check_depth(depth)?;
        let table = self.lua.create_table()?;
        let mut token = self.token();
        if token == Token::ObjectEnd {
            return Ok(Value::Table(table));
        }
        loop {
            let Token::Text(key) = token else { return Err(self.expected("object key string", &token)) };
            let colon = self.token();
            if colon != Token::Colon {
                return Err(self.expected("colon", &colon));
            }
            let first = self.token();
            let value = self.value(first, depth)?;
            table.raw_set(self.lua.create_string(key)?, value)?;
            match self.token() {
                Token::ObjectEnd => return Ok(Value::Table(table)),
                Token::Comma => token = self.token(),
                other => return Err(self.expected("comma or object end", &other)),
            }
        }
    }

    fn array(&mut self, depth: i32) -> mlua::Result<Value> {
        self.check_depth(depth)?;
        let table = self.lua.create_table()?;
        let mut token = self.token();
        if token == Token::ArrayEnd {
            return Ok(Value::Table(table));
        }
        for index in 1.. {
            let value = self.value(token, depth)?;
            table.raw_seti(index, value)?;
            match self.token() {
                Token::ArrayEnd => break,
                Token::Comma => token = self.token(),
                other => return Err(self.expected("comma or array end", &other)),
            }
        }
        Ok(Value::Table(table))
    }

    fn token(&mut self) -> Token {
        while matches!(self.byte(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.begin = self.at;
        let simple = match self.byte() {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            0 if self.at >= self.data.len() => return Token::End,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => {
                return match !self.config.decodes_invalid && self.is_invalid_number() {
                    true => Token::Bad("invalid number"),
                    false => self.number(),
                };
            }
            _ => return self.word(),
        };
        self.at += 1;
        simple
    }

    fn word(&mut self) -> Token {
        let rest = &self.data[self.at..];
        for (word, token) in [("true", Token::Boolean(true)), ("false", Token::Boolean(false)), ("null", Token::Null)] {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return token;
            }
        }
        match self.config.decodes_invalid && self.is_invalid_number() {
            true => self.number(),
            false => Token::Bad("invalid token"),
        }
    }

    /// True for what C reads as a number and JSON does not.
    fn is_invalid_number(&self) -> bool {
        let rest = &self.data[self.at..];
        let unsigned = rest.strip_prefix(b"-").unwrap_or(rest);
        match unsigned {
            _ if rest.starts_with(b"+") => true,
            [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
            [b'0'..=b'9', ..] => false,
            [a, b, c, ..] => {
                let word = [*a, *b, *c].map(|byte| byte.to_ascii_lowercase());
                word == *b"inf" || word == *b"nan"
            }
            _ => false,
        }
    }

    /// Reads a number as strtod(3) does.
    fn number(&mut self) -> Token {
        let rest = &self.data[self.at..];
        match strtod(rest) {
            Some((number, len)) => {
                self.at += len;
                Token::Number(number)
            }
            None => Token::Bad("invalid number"),
        }
    }

    fn string(&mut self) -> Token {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.byte() {
                b'"' => {
                    self.at += 1;
                    return Token::Text(text);
                }
                0 if self.at >= self.data.len() => return self.bad("unexpected end of string"),
                b'\\' => {
                    let escaped = match self.data.get(self.at + 1) {
                        Some(b'u') => match self.unicode_escape(&mut text) {
                            true => continue,
                            false => return self.bad("invalid unicode escape code"),
                        },
                        Some(b'b') => 8,
                        Some(b'f') => 12,
                        Some(b'n') => b'\n',
                        Some(b'r') => b'\r',
                        Some(b't') => b'\t',
                        Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
                        _ => return self.bad("invalid escape code"),
                    };
                    text.push(escaped);
                    self.at += 2;
                }
                byte => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn bad(&mut self, why: &'static str) -> Token {
        self.begin = self.at;
        Token::Bad(why)
    }

    /// Reads `\uXXXX`, or two of them for a character beyond 16 bits. False if it is none.
    fn unicode_escape(&mut self, text: &mut Vec<u8>) -> bool {
        let Some(first) = self.hex(self.at + 2) else { return false };
        let (code, len) = match first {
            0xd800..0xdc00 => match self.data.get(self.at + 6..self.at + 8) {
                Some(b"\\u") => match self.hex(self.at + 8) {
                    Some(second @ 0xdc00..0xe000) => (0x10000 + ((first & 0x3ff) << 10 | second & 0x3ff), 12),
                    _ => return false,
                },
                _ => return false,
            },
            0xdc00..0xe000 => return false,
            code => (code, 6),
        };
        let Some(character) = char::from_u32(code) else { return false };
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += len;
        true
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.data.get(at..at + 4)?;
        digits.iter().try_fold(0, |code, &digit| Some(code << 4 | char::from(digit).to_digit(16)?))
    }
}

/// Returns the number that a text begins with, and its length.
fn strtod(text: &[u8]) -> Option<(f64, usize)> {
    let sign_len = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let sign = if text.first() == Some(&b'-') { -1.0 } else { 1.0 };
    let rest = &text[sign_len..];
    let digits = |from: usize| rest[from.min(rest.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if rest.len() >= 3 {
        let lower: Vec<u8> = rest.iter().take(8).map(u8::to_ascii_lowercase).collect();
        if lower.starts_with(b"infinity") {
            return Some((sign * f64::INFINITY, sign_len + 8));
        } else if lower.starts_with(b"inf") {
            return Some((sign * f64::INFINITY, sign_len + 3));
        } else if lower.starts_with(b"nan") {
            return Some((f64::NAN.copysign(sign), sign_len + 3));
        } else if lower.starts_with(b"0x") && lower[2].is_ascii_hexdigit() {
            let (number, len) = hexadecimal(&rest[2..]);
            return Some((sign * number, sign_len + 2 + len));
        }
    }
    let whole = digits(0);
    let mut len = whole;
    if rest.get(len) == Some(&b'.') {
        let decimals = digits(len + 1);
        if whole + decimals > 0 {
            len += 1 + decimals;
        }
    }
    if len == 0 {
        return None;
    }
    if matches!(rest.get(len), Some(b'e' | b'E')) {
        let signed = len + 1 + usize::from(matches!(rest.get(len + 1), Some(b'-' | b'+')));
        if digits(signed) > 0 {
            len = signed + digits(signed);
        }
    }
    let number: f64 = std::str::from_utf8(&rest[..len]).ok()?.parse().ok()?;
    Some((sign * number, sign_len + len))
}

/// Reads what follows `0x`: digits, a fraction and a power of two.
fn hexadecimal(text: &[u8]) -> (f64, usize) {
    let (mut number, mut at, mut scale) = (0.0, 0, 1.0);
    let digit = |at: usize| text.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    while let Some(value) = digit(at) {
        number = number * 16.0 + f64::from(value);
        at += 1;
    }
    if text.get(at) == Some(&b'.') {
        at += 1;
        while let Some(value) = digit(at) {
            scale /= 16.0;
            number += f64::from(value) * scale;
            at += 1;
        }
    }
    if matches!(text.get(at), Some(b'p' | b'P')) {
        let signed = at + 1 + usize::from(matches!(text.get(at + 1), Some(b'-' | b'+')));
        let end =
            signed + text.get(signed..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count();
        if end > signed {
            let exponent = std::str::from_utf8(&text[at + 1..end]).ok().and_then(|text| text.parse::<i32>().ok());
            number *= 2.0_f64.powi(exponent.unwrap_or(0));
            at = end;
        }
    }
    (number, at)
}
