//! The library `bit`: operations on integers of 32 bits, as LuaBitOp has them.

use mlua::{Lua, MultiValue, Table};

use crate::failure;

/// Makes the table `bit`.
pub(crate) fn table(lua: &Lua) -> mlua::Result<Table> {
    let bit = lua.create_table()?;
    fold(lua, &bit, "band", |a, b| a & b)?;
    fold(lua, &bit, "bor", |a, b| a | b)?;
    fold(lua, &bit, "bxor", |a, b| a ^ b)?;
    one(lua, &bit, "tobit", |bits| bits)?;
    one(lua, &bit, "bnot", |bits| !bits)?;
    one(lua, &bit, "bswap", u32::swap_bytes)?;
    shift(lua, &bit, "lshift", |bits, by| bits << by)?;
    shift(lua, &bit, "rshift", |bits, by| bits >> by)?;
    shift(lua, &bit, "arshift", |bits, by| (bits.cast_signed() >> by).cast_unsigned())?;
    shift(lua, &bit, "rol", u32::rotate_left)?;
    shift(lua, &bit, "ror", u32::rotate_right)?;
    let tohex = |lua: &Lua, args: MultiValue| {
        let bits = bits(lua, &args, 0, "tohex")?;
        let digits = if args.len() > 1 { self::bits(lua, &args, 1, "tohex")?.cast_signed() } else { 8 };
        let len = digits.unsigned_abs().min(8) as usize;
        let text = if digits < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
        lua.create_string(&text[8 - len..])
    };
    bit.raw_set("tohex", lua.create_function(tohex)?)?;
    Ok(bit)
}

/// Returns the lower 32 bits of an argument, rounded to an integer.
fn bits(lua: &Lua, args: &MultiValue, index: usize, name: &str) -> mlua::Result<u32> {
    let number = args.get(index).map(|arg| lua.coerce_number(arg.clone())).transpose()?.flatten();
    let number = number.ok_or_else(|| failure::wrong_type(lua, index + 1, name, "number", args.get(index)))?;
    // The sum with this number has the integer in its lower bits.
    Ok((number + 6_755_399_441_055_744.0).to_bits() as u32)
}

fn signed(bits: u32) -> f64 {
    bits.cast_signed().into()
}

fn one(lua: &Lua, bit: &Table, name: &'static str, of: fn(u32) -> u32) -> mlua::Result<()> {
    let run = move |lua: &Lua, args: MultiValue| Ok(signed(of(bits(lua, &args, 0, name)?)));
    bit.raw_set(name, lua.create_function(run)?)
}

fn fold(lua: &Lua, bit: &Table, name: &'static str, of: fn(u32, u32) -> u32) -> mlua::Result<()> {
    let run = move |lua: &Lua, args: MultiValue| {
        let mut all = bits(lua, &args, 0, name)?;
        for index in 1..args.len() {
            all = of(all, bits(lua, &args, index, name)?);
        }
        Ok(signed(all))
    };
    bit.raw_set(name, lua.create_function(run)?)
}

fn shift(lua: &Lua, bit: &Table, name: &'static str, of: fn(u32, u32) -> u32) -> mlua::Result<()> {
    let run =
        move |lua: &Lua, args: MultiValue| Ok(signed(of(bits(lua, &args, 0, name)?, bits(lua, &args, 1, name)? & 31)));
    bit.raw_set(name, lua.create_function(run)?)
}
