//! Commands on one value.

use store::{Attributes, Store};

use super::{Call, Outcome};

pub(super) fn get<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let value = call.keys.item(call.args[1]);
    let mut item = value;
    call.reply.value(item.get());
    Ok(())
}

pub(super) fn set<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let value = call.args[2];
    call.item(1).set(value, Attributes::default())?;
    call.reply.ok();
    Ok(())
}

pub(super) fn del<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.args.len() > 2 {
        call.hold_all();
    }
    let removed = (1..call.args.len()).filter(|&index| call.item(index).remove()).count();
    call.reply.count(removed);
    Ok(())
}
