//! The published schema of results. Every result that any of these tests gets is checked against it.

use std::sync::OnceLock;

use jsonschema::Validator;
use loadgen::error::ErrorClass;
use serde_json::{Value, json};

fn published() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/loadgen-result.schema.json");
    serde_json::from_slice(&std::fs::read(path).expect("published")).expect("JSON")
}

/// A newer program may say more than the schema knows of, this one may not: every field must be in it.
fn closed(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(object) => {
            object.values_mut().for_each(|value| *value = closed(value.take()));
            let is_described = object.get("properties").is_some_and(|properties| properties.get("mode").is_none());
            if is_described && object.get("type") == Some(&json!("object")) {
                object.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = closed(value.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    schema
}

/// Panics with what is wrong.
pub(crate) fn check(result: &Value) {
    static CLOSED: OnceLock<Validator> = OnceLock::new();
    let validator = CLOSED.get_or_init(|| jsonschema::validator_for(&closed(published())).expect("a schema"));
    let wrong: Vec<_> =
        validator.iter_errors(result).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{}\n{result:#}", wrong.join("\n"));
}

#[test]
fn the_schema_knows_every_error_class_and_no_other() {
    let schema = published();
    let classes = schema["properties"]["errors"]["propertyNames"]["enum"].as_array().expect("an array").clone();
    let mut listed: Vec<_> = classes.iter().map(|class| class.as_str().expect("text")).collect();
    let mut known: Vec<_> = ErrorClass::ALL.iter().map(|class| class.name()).collect();
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
}

#[test]
fn the_published_schema_lets_new_fields_pass_and_finds_wrong_ones() {
    let validator = jsonschema::validator_for(&published()).expect("a schema");
    assert!(jsonschema::meta::is_valid(&published()));
    let server = super::support::socket_server::Server::start(|_| {
        super::support::socket_server::Act::Say(super::support::socket_server::ok("x"))
    });
    let output = super::loadgen(&["http", "-c", "1", "-n", "3", "--format", "json", &server.url()]);
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    check(&result);
    let with = |pointer: &str, value: Value| {
        let mut changed = result.clone();
        *changed.pointer_mut(pointer).expect(pointer) = value;
        validator.is_valid(&changed)
    };
    assert!(!with("/schema", json!(2)) && !with("/requests", json!(-1)) && !with("/errors", json!({"other": 1})));
    assert!(!with("/latency_us/p99", json!(null)) && !with("/histogram", json!(null)));
    let mut newer = result.clone();
    newer["later"] = json!(1);
    assert!(validator.is_valid(&newer) && validator.is_valid(&result));
}
