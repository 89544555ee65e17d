//! Files of `deploy` for containers and clusters, judged by other people's tools: the compose file, the configuration and the alerts of
//! Prometheus, the Helm chart and what it renders. The flags in them are checked by the servers themselves. Nothing of it is run.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use matrix::workspace::{cargo, metadata, root, run_shown};

use super::{Outcome, tools};

/// Servers that the compose file and the chart start.
const SERVERS: [&str; 5] = ["http-server", "zerocopy", "kvcache", "fileserver", "mq-server"];
/// Helm's module, for machines without Helm.
const HELM: &str = "helm.sh/helm/v3/cmd/helm@v3.22.0";
/// Checker that brings the schemas of Kubernetes along.
const KUBERNETES_VALIDATE: &str = "kubernetes-validate==1.37.0";
/// Versions of Kubernetes whose schemas the chart is held against.
const KUBERNETES: [&str; 2] = ["1.30", "1.37"];

pub(super) fn run() -> Result<Outcome> {
    let mut missing = Vec::new();
    let mut build = cargo();
    build.arg("build").current_dir(root());
    for server in SERVERS {
        // The registry has a package called zerocopy, too.
        build.args(["--package", if server == "zerocopy" { "zerocopy@0.1.0" } else { server }, "--bin", server]);
    }
    run_shown(&mut build)?;
    let programs = metadata()?.target_directory.join("debug");
    let deploy = root().join("deploy");
    let compose = deploy.join("compose/compose.yaml");

    match find("promtool") {
        Some(promtool) => check_prometheus(&promtool, &deploy)?,
        None => missing.push("promtool (Debian: prometheus)"),
    }
    match find("docker-compose") {
        Some(program) => {
            output(Command::new(program).arg("-f").arg(&compose).args(["config", "-q"]))?;
            println!("verify: deploy: docker-compose reads compose.yaml");
        }
        None => missing.push("docker-compose"),
    }
    let commands = commands_of_compose(&fs::read_to_string(&compose).with_context(|| compose.display().to_string())?);
    ensure!(commands.len() == SERVERS.len(), "{}: {} commands of our servers", compose.display(), commands.len());
    check_flags(&programs, &commands)?;
    println!("verify: deploy: the servers accept the flags in compose.yaml");

    match (helm()?, validator()?) {
        (Some(helm), Some(validator)) => check_chart(&helm, &validator, &deploy.join("helm/quintet"), &programs)?,
        (helm, validator) => {
            missing.extend(helm.is_none().then_some("helm, or Go to build it"));
            missing.extend(validator.is_none().then_some("python3 with venv, for kubernetes-validate"));
        }
    }
    match missing.is_empty() {
        true => Ok(Outcome::Passed),
        false => Ok(Outcome::Skipped(format!("in part; not installed: {}", missing.join(", ")))),
    }
}

fn check_prometheus(promtool: &Path, deploy: &Path) -> Result<()> {
    output(Command::new(promtool).args(["check", "rules"]).arg(deploy.join("prometheus/rules.yaml")))?;
    output(Command::new(promtool).args(["test", "rules"]).arg(deploy.join("prometheus/rules_test.yaml")))?;
    let config = deploy.join("compose/prometheus.yaml");
    output(Command::new(promtool).args(["check", "config", "--syntax-only"]).arg(config))?;
    println!("verify: deploy: promtool accepts the alerts and prometheus.yaml, and the alerts fire when they have to");
    Ok(())
}

/// Lints the chart, renders it with its own values and with all that it has, and holds the result against the schemas.
fn check_chart(helm: &Path, validator: &Path, chart: &Path, programs: &Path) -> Result<()> {
    let directory = tempfile::tempdir().context("temporary directory")?;
    let everything = chart.join("ci/everything-values.yaml");
    for (name, values) in [("default", None), ("everything", Some(&everything))] {
        let values = values.map(|file| format!("--values={}", file.display()));
        output(
            Command::new(helm).args(["lint", "--strict", "--kube-version", KUBERNETES[0]]).arg(chart).args(&values),
        )?;
        for version in KUBERNETES {
            let mut render = Command::new(helm);
            render.args(["template", "release", "--kube-version", version]).arg(chart).args(&values);
            let rendered = output(&mut render)?;
            let file = directory.path().join(format!("{name}.yaml"));
            fs::write(&file, &rendered).with_context(|| file.display().to_string())?;
            output(Command::new(validator).args(["--strict", "--no-warn", "--quiet", "-k", version]).arg(&file))?;
            check_flags(programs, &commands_of_manifests(&rendered))?;
        }
    }
    // What the schema of the values forbids is refused.
    let mut wrong = Command::new(helm);
    wrong.args(["template", "release", "--kube-version", KUBERNETES[0], "--set", "kvcache.sharding=none"]).arg(chart);
    let refused = wrong.output().context("helm")?;
    ensure!(!refused.status.success(), "helm takes values that values.schema.json forbids");
    println!(
        "verify: deploy: helm lint passes; what is rendered fits the schemas of Kubernetes {}, and the servers accept its flags",
        KUBERNETES.join(" and ")
    );
    Ok(())
}

/// Command line of a server: its name and its arguments.
type CommandLine = (String, Vec<String>);

/// Returns the commands of the services with an image of ours.
fn commands_of_compose(text: &str) -> Vec<CommandLine> {
    let (mut commands, mut service) = (Vec::new(), "");
    for line in text.lines() {
        if let Some(name) =
            line.strip_prefix("  ").and_then(|line| line.strip_suffix(':')).filter(|name| !name.starts_with(' '))
        {
            service = name;
        }
        let list = line.trim().strip_prefix("command: [").and_then(|list| list.strip_suffix(']'));
        if let Some(list) = list.filter(|_| SERVERS.contains(&service)) {
            let args = list.split(", ").map(|arg| arg.trim_matches('"').to_owned());
            commands.push((service.to_owned(), args.collect()));
        }
    }
    commands
}

/// Returns the commands of rendered containers: the items of `args:`, behind the name of the container.
fn commands_of_manifests(text: &str) -> Vec<CommandLine> {
    let mut commands: Vec<CommandLine> = Vec::new();
    let (mut name, mut depth) = ("", None);
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if let Some(server) = line.strip_prefix("name: ").filter(|name| SERVERS.contains(name)) {
            name = server;
        }
        match (depth, line.strip_prefix("- ")) {
            (Some(depth), Some(item)) if indent > depth => {
                if let Some((_, args)) = commands.last_mut() {
                    args.push(item.trim_matches('"').to_owned());
                }
            }
            _ => depth = None,
        }
        if line == "args:" {
            commands.push((name.to_owned(), Vec::new()));
            depth = Some(indent);
        }
    }
    commands
}

/// Has each server check its flags, with directories and a map that are there.
fn check_flags(programs: &Path, commands: &[CommandLine]) -> Result<()> {
    let directory = tempfile::tempdir().context("temporary directory")?;
    let place = directory.path().display().to_string();
    let map = directory.path().join("nodes");
    fs::write(&map, "node.example:6379\n").with_context(|| map.display().to_string())?;
    for (server, args) in commands {
        let mut command = Command::new(programs.join(server));
        command.arg("--check-config");
        for arg in args {
            command.arg(match arg.split_once('=') {
                Some(("--cluster-map", _)) => format!("--cluster-map={}", map.display()),
                Some(("--cluster-announce", _)) => "--cluster-announce=node.example:6379".to_owned(),
                Some(("--snapshot", _)) => format!("--snapshot={place}/keys"),
                Some(_) => arg.clone(),
                None if arg.starts_with('/') && arg != "/quintet" => place.clone(),
                None => arg.clone(),
            });
        }
        output(&mut command)?;
    }
    Ok(())
}

/// Returns Helm, which is built where there is Go alone.
fn helm() -> Result<Option<PathBuf>> {
    let ours = tools::directory()?.join("bin");
    let installed = find("helm").or_else(|| Some(ours.join("helm")).filter(|helm| helm.is_file()));
    let (None, Some(go)) = (&installed, find("go")) else { return Ok(installed) };
    run_shown(Command::new(go).args(["install", HELM]).env("GOBIN", &ours))?;
    Ok(Some(ours.join("helm")))
}

/// Returns the checker of manifests, which is installed into an interpreter of its own.
fn validator() -> Result<Option<PathBuf>> {
    let directory = tools::directory()?.join("deploy");
    let validator = directory.join("bin/kubernetes-validate");
    if validator.is_file() {
        return Ok(Some(validator));
    }
    let Some(python) = find("python3") else { return Ok(None) };
    run_shown(Command::new(python).args(["-m", "venv"]).arg(&directory))?;
    let mut install = Command::new(directory.join("bin/pip"));
    run_shown(install.args(["install", "--quiet", "--disable-pip-version-check", KUBERNETES_VALIDATE]))?;
    Ok(Some(validator))
}

fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|directory| directory.join(program)).find(|candidate| candidate.is_file())
}

/// Runs a program that has to succeed, and returns its output.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
    Ok(stdout.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_compose_files_and_manifests() {
        let compose = "services:\n  kvcache:\n    image: x\n    command: [--listen, \"0.0.0.0:1\", /srv]\n  grafana:\n    command: [--x]\n";
        let wanted =
            |server: &str, args: &[&str]| (server.to_owned(), args.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(commands_of_compose(compose), [wanted("kvcache", &["--listen", "0.0.0.0:1", "/srv"])]);
        let manifest = "containers:\n  - \n    name: zerocopy\n    args:\n      - --listen=a\n      - \"--x\"\n      - /srv\n    ports:\n      - {name: main}\n";
        assert_eq!(commands_of_manifests(manifest), [wanted("zerocopy", &["--listen=a", "--x", "/srv"])]);
    }
}
