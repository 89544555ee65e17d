//! Law about builds: what has been built once stays, whichever command comes next. A dependency that two commands want with
//! different features, or a build script that sees another environment, would have each of them compile for minutes.

use anyhow::{Result, bail};
use matrix::workspace::{cargo, metadata, run_shown};
use serde::Deserialize;

/// Line of `cargo --message-format json`.
#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerArtifact {
        package_id: String,
        fresh: bool,
    },
    #[serde(other)]
    Other,
}

/// Builds the workspace and its tests; then each program alone, what bench-matrix builds, and all again, which must find
/// everything built.
pub(crate) fn check() -> Result<()> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let whole = [words("test --workspace --no-run"), words("build --workspace")];
    for command in &whole {
        run_shown(cargo().args(command))?;
    }
    let packages = metadata()?.packages;
    let programs = packages.iter().filter(|package| package.has_program());
    let alone = programs.map(|package| ["build", "--package", &package.id].map(str::to_owned).to_vec());
    let mut compiled = Vec::new();
    for command in alone.chain([matrix::build_arguments("dev")]).chain(whole) {
        let anew = compiled_by(&command)?;
        if !anew.is_empty() {
            compiled.push(format!("cargo {} compiled {}", command.join(" "), anew.join(", ")));
        }
    }
    match compiled.is_empty() {
        true => Ok(()),
        false => bail!("built once, and compiled again:\n{}", compiled.join("\n")),
    }
}

/// Runs a build and returns the packages that were not built before.
fn compiled_by(command: &[String]) -> Result<Vec<String>> {
    let output = cargo().args(command).args(["--message-format", "json", "--quiet"]).output()?;
    if !output.status.success() {
        bail!("cargo {}: {}", command.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(anew(&String::from_utf8_lossy(&output.stdout)))
}

fn anew(messages: &str) -> Vec<String> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut names: Vec<String> = messages
        .filter_map(|message| match message {
            Message::CompilerArtifact { package_id, fresh: false } => {
                Some(package_id.rsplit(['/', '#']).next().unwrap_or_default().to_owned())
            }
            Message::CompilerArtifact { .. } | Message::Other => None,
        })
        .collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_fresh_is_named() {
        let messages = r#"{"reason":"compiler-artifact","package_id":"registry+https://x/index#ring@0.17.14","fresh":false,"target":{}}
{"reason":"build-script-executed","package_id":"registry+https://x/index#ring@0.17.14"}
{"reason":"compiler-artifact","package_id":"path+file:///x/crates/kvcache#0.1.0","fresh":true}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(anew(messages), ["ring@0.17.14"]);
    }
}
