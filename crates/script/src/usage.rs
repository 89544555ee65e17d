//! Use that a compiled script makes of its globals, read from its code: most scripts only look into `KEYS` and `ARGV`, and
//! need no tables of their own for that.

/// Version, format and sizes of types that the code is read in.
const HEADER: &[u8] = b"\x1bLua\x51\x00\x01\x04\x08\x04\x08\x00";
/// Globals by which the table of globals, or code that comes later, can be reached.
const DETOURS: [&[u8]; 3] = [b"_G", b"load", b"loadstring"];
/// Types of constants.
const NIL: u8 = 0;
const BOOLEAN: u8 = 1;
const NUMBER: u8 = 3;
const STRING: u8 = 4;
/// Numbers of operations; between `ADD` and `POW` are those of arithmetic.
const GETUPVAL: u32 = 4;
const GETGLOBAL: u32 = 5;
const GETTABLE: u32 = 6;
const SETGLOBAL: u32 = 7;
const ADD: u32 = 12;
const POW: u32 = 17;
const UNM: u32 = 18;
const LEN: u32 = 20;
const SETLIST: u32 = 34;

/// Use of one of the tables that are made for each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    None,
    /// Its elements are read, and their number. It is in no variable and no argument.
    Read,
    Any,
}

/// Use of the globals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) keys: Access,
    pub(crate) argv: Access,
    /// True if a global may be assigned.
    pub(crate) assigns: bool,
}

impl Usage {
    /// Use by code that is not known.
    pub(crate) const ANY: Self = Self { keys: Access::Any, argv: Access::Any, assigns: true };

    /// Reads the use from a function as `string.dump` has it.
    pub(crate) fn of(dump: &[u8]) -> Self {
        let mut usage = Self { keys: Access::None, argv: Access::None, assigns: false };
        let read = dump.strip_prefix(HEADER).and_then(|rest| Dump { rest }.function(&mut usage));
        if read.is_some() { usage } else { Self::ANY }
    }

    /// Notes that a global is read into a register, with these instructions behind. `None` if it can lead anywhere.
    fn note_read(&mut self, name: &[u8], register: u32, behind: &[[u8; 4]]) -> Option<()> {
        let access = match name {
            b"KEYS" => &mut self.keys,
            b"ARGV" => &mut self.argv,
            name => return (!DETOURS.contains(&name)).then_some(()),
        };
        *access = (*access).max(if is_looked_into(register, behind) { Access::Read } else { Access::Any });
        Some(())
    }
}

/// True if the first of these instructions that uses the table in a register looks into it. Before that an index may be
/// worked out.
fn is_looked_into(register: u32, code: &[[u8; 4]]) -> bool {
    for instruction in code.iter().map(|&bytes| Instruction(u32::from_le_bytes(bytes))) {
        let (b, c) = (instruction.b(), instruction.c());
        match instruction.operation() {
            // The result takes the table's place; otherwise it may be that of a variable.
            GETTABLE | LEN if b == register => return instruction.a() == register,
            GETGLOBAL | GETUPVAL => {}
            LEN | UNM if b != register => {}
            GETTABLE | ADD..=POW if b != register && c != register => {}
            _ => return false,
        }
        if instruction.a() == register {
            return false;
        }
    }
    false
}

/// Instruction of Lua's machine. Operands below 256 are registers.
#[derive(Clone, Copy)]
struct Instruction(u32);

impl Instruction {
    fn operation(self) -> u32 {
        self.0 & 0x3f
    }

    fn a(self) -> u32 {
        self.0 >> 6 & 0xff
    }

    fn b(self) -> u32 {
        self.0 >> 23
    }

    fn c(self) -> u32 {
        self.0 >> 14 & 0x1ff
    }

    /// Returns the number of a constant.
    fn constant(self) -> usize {
        self.0 as usize >> 14
    }
}

/// Rest of a dump. Functions return `None` where it is none of Lua 5.1.
struct Dump<'d> {
    rest: &'d [u8],
}

impl<'d> Dump<'d> {
    fn function(&mut self, usage: &mut Usage) -> Option<()> {
        self.text()?;
        // Two lines, and four numbers of a byte each.
        self.bytes(12)?;
        let code = self.vector(4)?.as_chunks::<4>().0;
        let constants = (0..self.count()?).map(|_| self.constant()).collect::<Option<Vec<_>>>()?;
        let mut rest = code;
        while let Some((&first, behind)) = rest.split_first() {
            rest = behind;
            let instruction = Instruction(u32::from_le_bytes(first));
            match instruction.operation() {
                GETGLOBAL => {
                    let name = constants.get(instruction.constant()).copied().flatten()?;
                    usage.note_read(name, instruction.a(), behind)?;
                }
                SETGLOBAL => usage.assigns = true,
                // The number of a long table's part follows, which is no instruction.
                SETLIST if instruction.c() == 0 => rest = behind.get(1..)?,
                _ => {}
            }
        }
        for _ in 0..self.count()? {
            self.function(usage)?;
        }
        self.skip_debug()
    }

    /// Takes a constant. `None` within: it is no string.
    fn constant(&mut self) -> Option<Option<&'d [u8]>> {
        match self.bytes(1)?[0] {
            NIL => Some(None),
            BOOLEAN => self.bytes(1).map(|_| None),
            NUMBER => self.bytes(8).map(|_| None),
            STRING => self.text().map(Some),
            _ => None,
        }
    }

    /// Takes the lines of instructions, and the names of variables.
    fn skip_debug(&mut self) -> Option<()> {
        self.vector(4)?;
        for _ in 0..self.count()? {
            self.text()?;
            self.bytes(8)?;
        }
        for _ in 0..self.count()? {
            self.text()?;
        }
        Some(())
    }

    fn bytes(&mut self, count: usize) -> Option<&'d [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }

    fn count(&mut self) -> Option<usize> {
        let count = i32::from_le_bytes(self.bytes(4)?.try_into().ok()?);
        usize::try_from(count).ok()
    }

    /// Takes so many items of a size.
    fn vector(&mut self, size: usize) -> Option<&'d [u8]> {
        let count = self.count()?;
        self.bytes(count.checked_mul(size)?)
    }

    /// Takes a string, which ends with a zero unless there is none at all.
    fn text(&mut self) -> Option<&'d [u8]> {
        let size = u64::from_le_bytes(self.bytes(8)?.try_into().ok()?);
        let bytes = self.bytes(usize::try_from(size).ok()?)?;
        Some(bytes.strip_suffix(b"\0").unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use mlua::{Lua, chunk::ChunkMode};

    use super::{Access::*, *};

    fn usage(code: &str) -> (Access, Access, bool) {
        let lua = Lua::new();
        let function = lua.load(code).set_mode(ChunkMode::Text).into_function().unwrap();
        let [stripped, whole] = [true, false].map(|strip| Usage::of(&function.dump(strip)));
        assert_eq!(stripped, whole, "{code}");
        (whole.keys, whole.argv, whole.assigns)
    }

    #[test]
    fn tables_that_are_only_looked_into_are_known() {
        for (code, keys, argv) in [
            ("return 'KEYS', ('x').ARGV", None, None),
            ("return redis.call('GET', KEYS[1])", Read, None),
            ("for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[i * 2]) end", Read, Read),
            ("local n = tonumber(ARGV[#ARGV]) local k = KEYS[n] return function() return KEYS[k] end", Read, Read),
            ("local x = KEYS[1] return #ARGV + x, KEYS.n", Read, Read),
            ("local x, keys = 1, KEYS x = keys[1] return f(keys)", Any, None),
            ("return ARGV[(KEYS[1] + #KEYS) % ARGV[KEYS.n] ^ 2]", Read, Read),
            ("return ARGV[f()], KEYS[-x]", Read, Any),
            ("return unpack(KEYS)", Any, None),
            ("return KEYS", Any, None),
            ("local keys = KEYS return keys[1]", Any, None),
            ("KEYS[1] = ARGV[1]", Any, Read),
            ("return KEYS[1], function() ARGV.x = 1 end", Read, Any),
            ("for _, key in ipairs(KEYS) do f(key) end", Any, None),
            ("return (f() and KEYS or ARGV)[1]", Any, Read),
            ("return KEYS:f(), KEYS == ARGV", Any, Any),
            ("return KEYS[ARGV]", Read, Any),
            ("return {KEYS, [ARGV] = 1}", Any, Any),
        ] {
            assert_eq!(usage(code), (keys, argv, false), "{code}");
        }
    }

    #[test]
    fn code_that_may_reach_the_globals_has_any_use_of_them() {
        for code in [
            "return _G",
            "_G.x = 1",
            "return load(f)",
            "return pcall(loadstring, 'x')",
            "return function() return _G end",
        ] {
            assert_eq!(usage(code), (Any, Any, true), "{code}");
        }
        for (code, assigns) in [
            ("x = 1", true),
            ("function f() end", true),
            ("return function() x = 1 end", true),
            ("local x = 1 x = 2", false),
        ] {
            assert_eq!(usage(code), (None, None, assigns), "{code}");
        }
        // Constants of all kinds, a long table (its count is no instruction), and functions in one another.
        let many = "nil, true, 1.5, 'text', KEYS[1], ".repeat(6000);
        assert_eq!(
            usage(&format!("return function() return function() return {{{many}}} end end")),
            (Read, None, false)
        );
    }

    #[test]
    fn what_is_no_code_of_lua_5_1_has_any_use() {
        let whole =
            Lua::new().load("return KEYS[1], function() return 'x', 2 end").into_function().unwrap().dump(false);
        assert_eq!(Usage::of(&whole).keys, Read);
        for len in 0..whole.len() {
            assert_eq!(Usage::of(&whole[..len]), Usage::ANY, "{len}");
        }
        for at in 0..HEADER.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            assert_eq!(Usage::of(&other), Usage::ANY, "{at}");
        }
    }
}
