//! The published schema of results, against which every result of these tests is checked.

use std::{path::PathBuf, sync::OnceLock};

use jsonschema::Validator;
use serde_json::{Value, json};

pub(crate) fn path() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../docs/schema/loadgen-result.schema.json"].iter().collect()
}

/// Reads the schema as it was published.
pub(crate) fn published() -> Value {
    serde_json::from_slice(&std::fs::read(path()).expect("published")).expect("JSON")
}

/// Makes a schema refuse fields that it does not know. Newer programs may have such fields, this one may not. Settings are spared,
/// of which each command has its own.
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

/// Panics unless a result follows the published schema and has no other fields.
pub(crate) fn check(result: &Value) {
    static CLOSED: OnceLock<Validator> = OnceLock::new();
    let validator = CLOSED.get_or_init(|| jsonschema::validator_for(&closed(published())).expect("a schema"));
    let wrong: Vec<_> =
        validator.iter_errors(result).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{}\n{result:#}", wrong.join("\n"));
}
