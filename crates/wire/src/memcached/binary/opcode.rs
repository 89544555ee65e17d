//! Commands by their numbers.

macro_rules! opcodes {
    ($($opcode:ident = $number:literal $(/ $quiet:literal)?)+) => {
        /// Command of a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Opcode {
            $($opcode,)+
        }

        impl Opcode {
            pub const ALL: &[Self] = &[$(Self::$opcode,)+];

            /// Returns the command with this number, and true if the number is that of its quiet form, whose usual answer is
            /// not sent.
            #[inline]
            pub fn from_number(number: u8) -> Option<(Self, bool)> {
                match number {
                    $($number => Some((Self::$opcode, false)), $($quiet => Some((Self::$opcode, true)),)?)+
                    _ => None,
                }
            }

            /// Returns the number of the command.
            pub fn number(self) -> u8 {
                match self { $(Self::$opcode => $number,)+ }
            }

            /// Returns the number of the quiet form of the command, if there is one.
            pub fn quiet_number(self) -> Option<u8> {
                match self { $(Self::$opcode => opcodes!(@quiet $($quiet)?),)+ }
            }
        }
    };
    (@quiet) => { None };
    (@quiet $quiet:literal) => { Some($quiet) };
}

// The second number is that of the quiet form.
opcodes! {
    Get = 0x00 / 0x09
    Set = 0x01 / 0x11
    Add = 0x02 / 0x12
    Replace = 0x03 / 0x13
    Delete = 0x04 / 0x14
    Increment = 0x05 / 0x15
    Decrement = 0x06 / 0x16
    Quit = 0x07 / 0x17
    Flush = 0x08 / 0x18
    Noop = 0x0a
    Version = 0x0b
    GetK = 0x0c / 0x0d
    Append = 0x0e / 0x19
    Prepend = 0x0f / 0x1a
    Stat = 0x10
    Verbosity = 0x1b
    Touch = 0x1c
    Gat = 0x1d / 0x1e
    SaslListMechs = 0x20
    SaslAuth = 0x21
    SaslStep = 0x22
    GatK = 0x23 / 0x24
}
