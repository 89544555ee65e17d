//! Names: patterns that stand for several, and the known one that is nearest to an unknown one.

/// `did you mean `uring`? (blocking, epoll, uring)`.
pub(crate) fn hint(given: &str, known: &[&str]) -> String {
    let nearest = known.iter().min_by_key(|name| distance(given, name));
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`? ({})", known.join(", ")),
        None => "there are none".to_owned(),
    }
}

/// True if `text` matches `pattern`, in which `*` stands for any text, the empty one included.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).filter(|&at| rest.is_char_boundary(at)).any(|at| glob(tail, &rest[at..]))
        }),
    }
}

/// Levenshtein distance: insertions, deletions and substitutions that turn one text into the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (line, left) in from.chars().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        for (column, right) in to.chars().enumerate() {
            let substituted = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, matches) in [
            ("*", "", true),
            ("*", "epoll", true),
            ("get-*-c64", "get-128B-c64", true),
            ("get-*-c64", "get-128B-c64-open", false),
            ("*uring", "tokio-uring", true),
            ("uring", "tokio-uring", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
        ] {
            assert_eq!(glob(pattern, text), matches, "{pattern} {text}");
        }
    }

    #[test]
    fn distances_are_those_of_levenshtein() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("uring", "uring"), 0);
    }
}
