//! Bill of materials (CycloneDX 1.5): the crates that the programs are made of, as Cargo.lock pins them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use matrix::workspace::cargo;

/// Returns the bill of all programs, for a target of rustc's.
pub(super) fn bill(version: &str, target: &str) -> Result<Vec<u8>> {
    let mut command = cargo();
    command.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", target]);
    let output = command.output().context("cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let lock = std::fs::read_to_string(matrix::workspace::root().join("Cargo.lock")).context("Cargo.lock")?;
    let mut text = serde_json::to_vec_pretty(&from_metadata(&metadata, &lock, version)?)?;
    text.push(b'\n');
    Ok(text)
}

fn from_metadata(metadata: &Value, lock: &str, version: &str) -> Result<Value> {
    let packages: BTreeMap<&str, &Value> =
        array(&metadata["packages"]).filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let nodes: BTreeMap<&str, &Value> =
        array(&metadata["resolve"]["nodes"]).filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let is_program = |package: &Value| {
        package["source"].is_null() && servers::programs().iter().any(|name| package["name"] == *name)
    };
    let mut left: Vec<&str> = packages.iter().filter(|(_, package)| is_program(package)).map(|(id, _)| *id).collect();
    ensure!(left.len() == servers::programs().len(), "cargo metadata does not name all programs");
    let mut edges = BTreeMap::new();
    while let Some(id) = left.pop() {
        if edges.contains_key(id) {
            continue;
        }
        let node = nodes.get(id).with_context(|| format!("cargo metadata resolves no {id}"))?;
        // What is needed to build and to test is not in the programs.
        let is_linked = |dependency: &&Value| array(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null());
        let linked = array(&node["deps"]).filter(is_linked).filter_map(|dependency| dependency["pkg"].as_str());
        let linked: BTreeSet<&str> = linked.collect();
        left.extend(&linked);
        edges.insert(id, linked);
    }
    let reference = |id: &str| packages.get(id).map_or_else(|| id.to_owned(), |package| purl(package));
    let components: Vec<_> =
        edges.keys().filter_map(|id| packages.get(id)).map(|package| component(package, lock)).collect();
    let dependencies: Vec<_> = edges
        .iter()
        .map(|(id, linked)| json!({ "ref": reference(id), "dependsOn": linked.iter().map(|id| reference(id)).collect::<Vec<_>>() }))
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "quintet", "version": version, "bom-ref": "quintet" } },
        "components": components,
        "dependencies": dependencies,
    }))
}

fn component(package: &Value, lock: &str) -> Value {
    let is_ours = package["source"].is_null();
    let purl = purl(package);
    let mut component = json!({
        "type": if is_ours { "application" } else { "library" },
        "bom-ref": purl,
        "name": package["name"],
        "version": package["version"],
        "purl": purl,
    });
    if let Some(licence) = package["license"].as_str() {
        // Old crates write a slash for OR.
        component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
    }
    let texts = (package["name"].as_str().unwrap_or_default(), package["version"].as_str().unwrap_or_default());
    if let Some(checksum) = checksum(lock, texts.0, texts.1) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

/// Returns the package URL, which names it everywhere.
fn purl(package: &Value) -> String {
    let [name, version] = ["name", "version"].map(|key| package[key].as_str().unwrap_or_default());
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

/// Returns the checksum of a package's archive.
fn checksum<'l>(lock: &'l str, name: &str, version: &str) -> Option<&'l str> {
    let head = format!("name = \"{name}\"\nversion = \"{version}\"\n");
    let package = lock.split("[[package]]\n").find(|package| package.starts_with(&head))?;
    package.lines().find_map(|line| line.strip_prefix("checksum = \"")?.strip_suffix('"'))
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_named_with_its_checksum_and_nothing_else() {
        let programs = servers::programs();
        let package = |name: &str, source: Value| json!({ "id": name, "name": name, "version": "1.0.0+x", "license": "MIT/Apache-2.0", "source": source });
        let mut packages: Vec<_> = programs.iter().map(|name| package(name, Value::Null)).collect();
        packages.extend(["linked", "deeper", "tests"].map(|name| package(name, json!("registry"))));
        let dependency = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let node = |name: &str, deps: Vec<Value>| json!({ "id": name, "deps": deps });
        let mut nodes: Vec<_> = programs
            .iter()
            .map(|name| node(name, vec![dependency("linked", Value::Null), dependency("tests", json!("dev"))]))
            .collect();
        nodes.extend([
            node("linked", vec![dependency("deeper", Value::Null)]),
            node("deeper", vec![dependency("tests", json!("build"))]),
            node("tests", Vec::new()),
        ]);
        let metadata = json!({ "packages": packages, "resolve": { "nodes": nodes } });
        let lock = "[[package]]\nname = \"linked\"\nversion = \"1.0.0+x\"\nchecksum = \"abc\"\n";
        let bill = from_metadata(&metadata, lock, "1").unwrap();
        let found: BTreeMap<_, _> = array(&bill["components"]).map(|it| (it["name"].as_str().unwrap(), it)).collect();
        assert_eq!(found.len(), programs.len() + 2, "{bill}");
        assert_eq!(found["linked"]["hashes"][0]["content"], "abc");
        assert_eq!(found["linked"]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(found["deeper"]["purl"], "pkg:cargo/deeper@1.0.0%2Bx");
        let kvcache = array(&bill["dependencies"]).find(|it| it["ref"] == "pkg:cargo/kvcache@1.0.0%2Bx").unwrap();
        assert_eq!(kvcache["dependsOn"], json!(["pkg:cargo/linked@1.0.0%2Bx"]));
    }
}
