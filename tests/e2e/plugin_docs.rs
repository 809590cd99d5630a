//! The pages about plugins are up to date: their code is that of the examples, which other tests
//! build, and their tables match the header.

use crate::support::root;

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("cannot read `{path}`: {e}"))
}

#[test]
fn code_on_the_page_matches_the_examples() {
    let page = read("docs/write-a-loss.md");
    let mut found = 0;
    for part in page.split("<!-- file: ").skip(1) {
        let (path, rest) = part.split_once(" -->\n").expect("a file's name ends");
        let (_, code) = rest.split_once('\n').expect("a block begins");
        let (code, _) = code.split_once("\n```\n").expect("a block ends");
        assert_eq!(code.trim_end(), read(path).trim_end(), "`{path}` on the page is not the file");
        found += 1;
    }
    assert_eq!(found, 3);
}

/// The lines of a text without their indentation.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).collect()
}

#[test]
fn code_on_the_page_about_memories_is_in_the_examples() {
    let page = read("docs/losses-with-a-memory.md");
    for (language, path, expected) in
        [("rust", "examples/teacher-memory/src/lib.rs", 4), ("cpp", "examples/teacher-memory-cpp/memory.cpp", 4)]
    {
        let example = read(path);
        let example = lines(&example);
        let mut blocks = 0;
        for block in page.split(&format!("```{language}\n")).skip(1) {
            let (code, _) = block.split_once("```").expect("a block ends");
            let code = lines(code);
            assert!(example.windows(code.len()).any(|part| part == code), "not in `{path}`: {code:#?}");
            blocks += 1;
        }
        assert_eq!(blocks, expected, "{language}");
    }
}

#[test]
fn the_recipe_on_the_page_matches_the_example() {
    let page = read("docs/write-a-loss.md");
    assert!(page.contains("name = \"circle_rust\"\ngamma = 32"));
    let example = read("examples/circle-rust/src/lib.rs");
    assert!(example.contains("register_loss!(\"circle_rust\"") && example.contains("gamma: f64"));
}

#[test]
fn sizes_and_versions_on_the_page_match_the_header() {
    let (page, header) = (read("docs/abi.md"), read("core/sdk/include/curricle.h"));
    let layout = read("core/sdk/include/curricle_layout.h");
    let asserted: Vec<_> = layout.lines().filter_map(|line| line.strip_prefix("CURRICLE_ASSERT(sizeof(")).collect();
    assert!(asserted.len() >= 24);
    for line in asserted {
        let (name, size) = line.trim_end_matches(");").split_once(") == ").expect("an assertion has two sides");
        assert!(page.contains(&format!("| `{name}` | {size} |")), "`{name}` is {size} bytes");
    }
    assert!(header.contains("#define CURRICLE_ABI_MAJOR 2u") && page.contains("| `abi_major` | 2 |"));
    assert!(header.contains("#define CURRICLE_LIBTORCH \"2.13.0\"") && page.contains("running, 2.13.0"));
}
