//! Stack for values that lie in one another.

/// Bytes of the stack that one step needs at most.
const STEP_BYTES: usize = 64 << 10;
/// Bytes that are added at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Runs something with enough stack for one step: threads of drivers may have little.
pub(crate) fn with_stack<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STEP_BYTES, PIECE_BYTES, step)
}

/// Bytes of the stack that a reply takes whose tables lie in one another as deep as may be, and a command.
const RUN_BYTES: usize = 256 << 10;

/// Runs a script with enough stack.
pub(crate) fn with_stack_of_run<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RUN_BYTES, PIECE_BYTES, run)
}
