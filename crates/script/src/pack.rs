//! The library `struct`: values as bytes, as Roberto Ierusalimschy's `struct` has them.

use mlua::{Lua, MultiValue, Table, Value};

use crate::{
    failure::{argument, text, wrong_type},
    number::to_integer,
};

/// Limit of the bytes of an integer.
const INTEGER_BYTES_MAX: usize = 32;
/// Alignment of `!` without a number.
const ALIGNMENT_MAX: usize = 8;
/// Limit of what one format makes.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Least number that a signed integer of 64 bits does not hold.
const HALF: f64 = 9_223_372_036_854_775_808.0;

/// Makes the table `struct`.
pub(crate) fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    table.raw_set("unpack", lua.create_function(unpack)?)?;
    table.raw_set("size", lua.create_function(size)?)?;
    Ok(table)
}

/// A format that is being read.
struct Format<'l> {
    lua: &'l Lua,
    name: &'static str,
    text: Vec<u8>,
    at: usize,
    is_big: bool,
    alignment: usize,
}

impl<'l> Format<'l> {
    fn new(lua: &'l Lua, args: &MultiValue, name: &'static str) -> mlua::Result<Self> {
        let mut text = string(lua, args, 0, name)?;
        // It is a C string there.
        text.truncate(text.iter().position(|&byte| byte == 0).unwrap_or(text.len()));
        Ok(Self { lua, name, text, at: 0, is_big: false, alignment: 1 })
    }

    /// Returns the next option and the bytes that it takes.
    fn next(&mut self) -> mlua::Result<Option<(u8, usize)>> {
        let Some(&option) = self.text.get(self.at) else { return Ok(None) };
        self.at += 1;
        let size = match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.number(1)?,
            b'i' | b'I' => match self.number(4)? {
                size if size > INTEGER_BYTES_MAX => {
                    let message = format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(text(self.lua, message));
                }
                size => size,
            },
            _ => 0,
        };
        Ok(Some((option, size)))
    }

    fn number(&mut self, default: usize) -> mlua::Result<usize> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = &self.text[self.at..self.at + digits];
        self.at += digits.len();
        if digits.is_empty() {
            return Ok(default);
        }
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i32>().ok());
        let number = number.ok_or_else(|| text(self.lua, "integral size overflow"))?;
        Ok(usize::try_from(number).unwrap_or(0))
    }

    /// Returns the bytes of padding in front of an option.
    fn padding(&self, total: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.alignment);
        (size - (total & (size - 1))) & (size - 1)
    }

    /// Takes an option that takes no value.
    fn control(&mut self, option: u8) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => match self.number(ALIGNMENT_MAX)? {
                alignment if alignment.is_power_of_two() => self.alignment = alignment,
                alignment => return Err(text(self.lua, format_args!("alignment {alignment} is not a power of 2"))),
            },
            _ => {
                let message = format!("invalid format option '{}'", option as char);
                return Err(argument(self.lua, 1, self.name, message));
            }
        }
        Ok(())
    }

    fn add(&self, out: &mut Vec<u8>, mut bytes: Vec<u8>) {
        if self.is_big {
            bytes.reverse();
        }
        out.append(&mut bytes);
    }

    fn take(&self, bytes: &[u8]) -> Vec<u8> {
        if self.is_big { bytes.iter().rev().copied().collect() } else { bytes.to_vec() }
    }
}

fn string(lua: &Lua, args: &MultiValue, index: usize, name: &str) -> mlua::Result<Vec<u8>> {
    let text = args.get(index).map(|arg| lua.coerce_string(arg.clone())).transpose()?.flatten();
    let text = text.ok_or_else(|| wrong_type(lua, index + 1, name, "string", args.get(index)))?;
    Ok(text.as_bytes().to_vec())
}

fn number(lua: &Lua, args: &MultiValue, index: usize, name: &str) -> mlua::Result<f64> {
    let number = args.get(index).map(|arg| lua.coerce_number(arg.clone())).transpose()?.flatten();
    number.ok_or_else(|| wrong_type(lua, index + 1, name, "number", args.get(index)))
}

fn pack(lua: &Lua, mut args: MultiValue) -> mlua::Result<mlua::LuaString> {
    let mut format = Format::new(lua, &args, "pack")?;
    let (mut out, mut index) = (Vec::new(), 1);
    // What is missing at the end counts as nil.
    args.push_back(Value::Nil);
    let args = &args;
    let next = |index: usize| number(lua, args, index, "pack");
    while let Some((option, size)) = format.next()? {
        let padding = format.padding(out.len(), option, size);
        if out.len() + padding > OUTPUT_BYTES_MAX {
            return Err(text(lua, "not enough memory"));
        }
        out.resize(out.len() + padding, 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = next(index)?;
                // As C does on x86.
                let bits = match number < HALF {
                    true => to_integer(number).cast_unsigned(),
                    false => to_integer(number - HALF).cast_unsigned() ^ (1 << 63),
                };
                let mut bytes = bits.to_le_bytes().to_vec();
                bytes.resize(size, 0);
                format.add(&mut out, bytes);
                index += 1;
            }
            b'x' => out.push(0),
            b'f' => {
                format.add(&mut out, (next(index)? as f32).to_le_bytes().to_vec());
                index += 1;
            }
            b'd' => {
                format.add(&mut out, next(index)?.to_le_bytes().to_vec());
                index += 1;
            }
            b'c' | b's' => {
                let bytes = string(lua, args, index, "pack")?;
                index += 1;
                let size = if size == 0 { bytes.len() } else { size };
                let wanted = bytes.get(..size).ok_or_else(|| argument(lua, index + 1, "pack", "string too short"))?;
                if out.len() + size > OUTPUT_BYTES_MAX {
                    return Err(text(lua, "not enough memory"));
                }
                out.extend_from_slice(wanted);
                if option == b's' {
                    out.push(0);
                }
            }
            _ => format.control(option)?,
        }
    }
    lua.create_string(out)
}

fn unpack(lua: &Lua, args: MultiValue) -> mlua::Result<MultiValue> {
    let mut format = Format::new(lua, &args, "unpack")?;
    let data = string(lua, &args, 1, "unpack")?;
    let start = if args.get(2).is_none_or(Value::is_nil) { 1.0 } else { number(lua, &args, 2, "unpack")? };
    let start = usize::try_from(to_integer(start)).ok().filter(|&start| start > 0);
    let mut at = start.ok_or_else(|| argument(lua, 3, "unpack", "offset must be 1 or greater"))? - 1;
    let mut values = MultiValue::new();
    let too_short = || argument(lua, 2, "unpack", "data string too short");
    while let Some((option, mut size)) = format.next()? {
        at = at.saturating_add(format.padding(at, option, size));
        let end = at.checked_add(size).filter(|&end| end <= data.len()).ok_or_else(too_short)?;
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let bytes = format.take(&data[at..end]);
                values.push_back(Value::Number(integer(&bytes, option.is_ascii_lowercase())));
            }
            b'x' => {}
            b'f' => {
                let bytes = format.take(&data[at..end]);
                let number = bytes.first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes));
                values.push_back(Value::Number(number.into()));
            }
            b'd' => {
                let bytes = format.take(&data[at..end]);
                values.push_back(Value::Number(bytes.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes))));
            }
            b'c' => {
                if size == 0 {
                    let last = values.pop_back().map(|value| lua.coerce_number(value)).transpose()?.flatten();
                    let last = last.ok_or_else(|| text(lua, "format 'c0' needs a previous size"))?;
                    size = usize::try_from(to_integer(last)).map_err(|_| too_short())?;
                }
                let end = at.checked_add(size).filter(|&end| end <= data.len()).ok_or_else(too_short)?;
                values.push_back(Value::String(lua.create_string(&data[at..end])?));
            }
            b's' => {
                let len = data[at..].iter().position(|&byte| byte == 0);
                let len = len.ok_or_else(|| text(lua, "unfinished string in data"))?;
                values.push_back(Value::String(lua.create_string(&data[at..at + len])?));
                size = len + 1;
            }
            _ => format.control(option)?,
        }
        at += size;
    }
    values.push_back(Value::Number((at + 1) as f64));
    Ok(values)
}

/// Reads an integer, lowest byte first.
fn integer(bytes: &[u8], is_signed: bool) -> f64 {
    let bits = bytes.iter().rev().fold(0_u64, |bits, &byte| bits << 8 | u64::from(byte));
    if !is_signed {
        return bits as f64;
    }
    // What is shorter is extended by its sign.
    let shift = 64_usize.saturating_sub(bytes.len() * 8).min(63);
    ((bits << shift).cast_signed() >> shift) as f64
}

fn size(lua: &Lua, args: MultiValue) -> mlua::Result<f64> {
    let mut format = Format::new(lua, &args, "size")?;
    let mut total = 0_usize;
    while let Some((option, size)) = format.next()? {
        total = total.saturating_add(format.padding(total, option, size));
        match (option, size) {
            (b's', _) => return Err(argument(lua, 1, "size", "option 's' has no fixed size")),
            (b'c', 0) => return Err(argument(lua, 1, "size", "option 'c0' has no fixed size")),
            _ if !option.is_ascii_alphanumeric() => format.control(option)?,
            _ => {}
        }
        total = total.saturating_add(size);
    }
    Ok(total as f64)
}
