//! Programs that are linked with musl instead of glibc: ten of the drivers compile so.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use matrix::workspace::first_line;

use crate::verify::is_installed;

/// Compiler of C for musl, which the cc crate looks for.
const COMPILER: &str = "musl-gcc";

/// Returns the target with musl that runs on the same machines as `host`, where its standard library is installed.
///
/// # Errors
/// The standard library is there, and no compiler of C.
pub(crate) fn target(host: &str) -> Result<Option<String>> {
    let Some(target) = host.strip_suffix("-gnu").map(|machine| format!("{machine}-musl")) else { return Ok(None) };
    let toolchain = first_line("rustc", &["--print", "sysroot"]).context("rustc --print sysroot")?;
    if !Path::new(&toolchain).join("lib/rustlib").join(&target).join("lib").is_dir() {
        eprintln!("nothing for musl: its standard library is not installed (rustup target add {target})");
        return Ok(None);
    }
    ensure!(
        is_installed(COMPILER),
        "{target} is installed, and {COMPILER}, which compiles C for it, is not (musl-tools)"
    );
    Ok(Some(target))
}
