//! Messages about broken recipes.

use super::{GOOD, complaint, write};
use insta::assert_snapshot;

/// The message about the valid recipe with one change.
fn broken(test: &str, from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "the valid recipe has no `{from}`");
    let path = write(test, &[("recipe.toml", &GOOD.replacen(from, to, 1))]);
    complaint(&path, &[])
}

/// The message about the valid recipe with `--set` arguments.
fn set(test: &str, arguments: &[&str]) -> String {
    complaint(&write(test, &[("recipe.toml", GOOD)]), arguments)
}

macro_rules! broken_recipes {
    ($($test:ident: $from:expr => $to:expr;)+) => {
        $(#[test] fn $test() { assert_snapshot!(broken(stringify!($test), $from, $to)); })+
    };
}

broken_recipes! {
    misspelt_setting: "name = \"springs\"" => "name = \"springs\"\nalhpa = 2";
    misspelt_group: "[train]\nepochs = 2" => "[train]\nepochs = 2\n[groups.proxys]\nlr_scale = 2";
    misspelt_table: "[train]" => "[trian]";
    misspelt_component: "\"springs\"" => "\"sprnigs\"";
    unknown_component: "\"springs\"" => "\"magic\"";
    unknown_data_source: "\"strokes\"" => "\"stroke\"";
    component_as_a_list: "[loss]\nname = \"springs\"" => "[[loss]]\nname = \"springs\"";
    number_in_quotes: "epochs = 2" => "epochs = \"2\"";
    fraction_for_a_whole_number: "epochs = 2" => "epochs = 2.0";
    negative_count: "epochs = 2" => "epochs = -1";
    number_out_of_range: "classes = 20" => "classes = 3\nsize = 300";
    not_a_number: "lr = 0.1" => "lr = nan";
    far_too_large: "epochs = 2" => "epochs = 100000000000000000000000000000000000000000000";
    wrong_choice: "name = \"springs\"" => "name = \"springs\"\nmining = \"harder\"";
    missing_setting: "lr = 0.1" => "";
    missing_table: "[loss]\nname = \"springs\"" => "";
    missing_name: "name = \"springs\"" => "alpha = 3";
    setting_of_another_variant: "lr = 0.1" => "lr = 0.1\nbetas = [0.9, 0.99]";
    setting_of_another_table: "epochs = 2" => "epochs = 2\nlr = 0.1";
    unknown_setting_in_a_nested_table: "[loss]" => "[weights]\nname = \"paced\"\nsolver = { name = \"exact\", sweep = 3 }\n[loss]";
    unknown_variant_in_a_nested_table: "[loss]" => "[weights]\nname = \"paced\"\nsolver.name = \"exakt\"\n[loss]";
    untagged_table: "[loss]" => "[weights]\nname = \"paced\"\nlambda = { target_maw = 1.5 }\n[loss]";
    two_problems_at_once: "lr = 0.1" => "lr = \"fast\"\nmomentun = 0.9";
    broken_toml: "lr = 0.1" => "lr = ";
    broken_toml_twice: "lr = 0.1" => "lr = = 0.1\nmomentum 0.9";
    duplicate_key: "lr = 0.1" => "lr = 0.1\nlr = 0.2";
    date_for_a_number: "lr = 0.1" => "lr = 2024-01-01";
    refused_by_the_component: "name = \"springs\"" => "name = \"springs\"\nlow = 0.05";
    default_refused_by_the_component: "name = \"springs\"" => "name = \"springs\"\nhigh = 0.95";
    component_that_panics: "\"springs\"" => "\"stubborn\"";
    setting_of_a_component_without_settings: "\"springs\"" => "\"stubborn\"\nsetting = 1";
    wrong_number_of_elements: "name = \"sgd\"\nlr = 0.1" => "name = \"adam\"\nlr = 0.1\nbetas = [0.9]";
    number_for_a_list: "[train]" => "[eval]\nrecall_at = 1\n[train]";
    zero_neighbours: "[train]" => "[eval]\nrecall_at = [1, 0]\n[train]";
    group_with_a_typo: "[train]" => "[groups.proxies]\nlr_scal = 3\n[train]";
    name_that_is_not_a_folder_name: "seed = 3" => "name = \"../x\"";
    features_with_an_image_backbone: "source = \"strokes\"\nclasses = 20" => "source = \"features\"\npath = \"x\"";
    extends_of_the_wrong_type: "seed = 3" => "extends = [\"recipe.toml\", 3]";
}

#[test]
fn argument_without_a_value() {
    assert_snapshot!(set("argument_without_a_value", &["loss.alpha"]));
}

#[test]
fn argument_with_a_typo() {
    assert_snapshot!(set("argument_with_a_typo", &["loss.alhpa=3", "train.epochs=many"]));
}

#[test]
fn argument_that_is_not_toml() {
    assert_snapshot!(set("argument_that_is_not_toml", &["eval.recall_at=[1, 2"]));
}

#[test]
fn argument_that_selects_another_variant() {
    assert_snapshot!(set("argument_that_selects_another_variant", &["optimizer.name=adam"]));
}

#[test]
fn missing_base() {
    let files = [("recipe.toml", "extends = ['base/stroke.toml']"), ("base/strokes.toml", GOOD)];
    assert_snapshot!(complaint(&write("missing_base", &files), &[]));
}

#[test]
fn cycle_of_bases() {
    let files = [("a.toml", "extends = 'b.toml'"), ("b.toml", "extends = ['./a.toml']")];
    assert_snapshot!(complaint(&write("cycle_of_bases", &files), &[]));
}

#[test]
fn problem_in_a_base_is_shown_there() {
    let base = GOOD.replace("lr = 0.1", "lr = -0.1");
    let files = [("recipe.toml", "extends = 'base.toml'\nnmae = 'x'"), ("base.toml", base.as_str())];
    assert_snapshot!(complaint(&write("problem_in_a_base_is_shown_there", &files), &[]));
}

#[test]
fn recipe_that_does_not_exist() {
    write("recipe_that_does_not_exist", &[("recipe.toml", GOOD)]);
    assert_snapshot!(complaint("recipe_that_does_not_exist/recipes.toml".as_ref(), &[]));
}

#[test]
fn recipe_that_is_a_folder() {
    write("recipe_that_is_a_folder", &[("recipe.toml", GOOD)]);
    assert_snapshot!(complaint("recipe_that_is_a_folder".as_ref(), &[]));
}
