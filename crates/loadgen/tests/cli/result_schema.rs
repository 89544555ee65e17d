//! The published schema of results: it is that of the types, and tells right results from wrong ones.

use serde_json::{Value, json};

use super::support::{
    loadgen, schema,
    socket_server::{Act, Server, ok},
};

/// Set to write the schema anew after a change of the types.
const UPDATE: &str = "QUINTET_UPDATE_SCHEMAS";

#[test]
fn the_published_schema_is_that_of_the_types() {
    let derived = loadgen::result::schema().to_value();
    if std::env::var_os(UPDATE).is_some() {
        let text = serde_json::to_string_pretty(&derived).expect("JSON") + "\n";
        std::fs::write(schema::path(), text).expect("written");
    }
    let is_published = schema::published() == derived;
    assert!(
        is_published,
        "docs/schema is stale: {UPDATE}=1 cargo test -p loadgen --test cli the_published_schema writes it anew"
    );
}

#[test]
fn the_schema_allows_new_fields_and_finds_wrong_ones() {
    let validator = jsonschema::validator_for(&schema::published()).expect("a schema");
    assert!(jsonschema::meta::is_valid(&schema::published()));
    let server = Server::start(|_| Act::Say(ok("x")));
    let output = loadgen(&["http", "-c", "1", "-n", "3", "--format", "json", &server.url()]);
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    schema::check(&result);
    let with = |pointer: &str, value: Value| {
        let mut changed = result.clone();
        *changed.pointer_mut(pointer).expect(pointer) = value;
        validator.is_valid(&changed)
    };
    assert!(!with("/schema", json!(2)) && !with("/requests", json!(-1)) && !with("/errors", json!({"other": 1})));
    assert!(!with("/duration_s", json!(-1.0)) && !with("/kind", json!("smtp")) && !with("/config/mode", json!("ajar")));
    assert!(!with("/latency_us/p99", json!(null)) && !with("/histogram", json!(null)));
    let mut older = result.clone();
    older.as_object_mut().expect("an object").remove("hits");
    assert!(!validator.is_valid(&older), "every field that this version writes is required");
    let mut newer = result.clone();
    newer["later"] = json!(1);
    assert!(validator.is_valid(&newer) && validator.is_valid(&result));
}
