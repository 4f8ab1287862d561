"""Compares every interface with the one table of options (src/interfaces/api/options.def): names, types, defaults and help."""

import inspect
import pathlib
import re
import subprocess

import pytest

import penstock
from penstock import _files, _penstock
from penstock.ray import job

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = _penstock.options()
OWNERS = sorted({row["owner"] for row in ROWS})

# Members that are not options: inputs, outputs and callbacks of a run.
HOOKS = {"sources", "sink", "items", "cancel", "progress", "notice", "option_names"}
# C sets any option by its name, also later ones than its structs.
BY_NAME = "settings"
# Parts of options with a form of their own in C: FilesOptions::device and Aggregates::value.
C_PARTS = {"value_offset", "value_bytes", "value_signed", "value_big_endian", "progress_context", "notice_context"}
C_STRUCTS = {"penstock_files_options": ("FilesOptions", "ItemFormat"), "penstock_sort_files_options": ("SortFilesOptions",),
             "penstock_merge_files_options": ("MergeFilesOptions",), "penstock_partition_files_options": ("PartitionFilesOptions",),
             "penstock_group_files_options": ("GroupFilesOptions",), "penstock_join_files_options": ("JoinFilesOptions",),
             "penstock_join_lines_options": ("JoinLinesOptions",)}
FUNCTIONS = {"SortFilesOptions": (penstock.sort_file, penstock.plan), "MergeFilesOptions": (penstock.merge,),
             "PartitionFilesOptions": (penstock.partition_files,), "GroupFilesOptions": (penstock.group,),
             "JoinFilesOptions": (penstock.join,), "JoinLinesOptions": (penstock.join,)}
COMMANDS = {"ItemFormat": "sort", "FilesOptions": "sort", "SortFilesOptions": "sort", "MergeFilesOptions": "merge",
            "PartitionFilesOptions": "partition", "GroupFilesOptions": "group", "JoinFilesOptions": "join", "JoinLinesOptions": "join"}
# Keywords for several options, or for one with a form of its own.
OWN_KEYWORDS = {"inputs", "output", "left", "right", "options", "on", "how"}


def rows_of(owner):
    return [row for row in ROWS if row["owner"] == owner]


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def body_of(text, name):
    found = re.search(rf"struct {name} (?::[^{{]*)?{{(.*?)\n}};", text, re.S)
    assert found, name
    return without_comments(found[1])


def members_of(body):
    """The names that a struct declares, without functions and the arguments of function pointers."""
    body = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"\1", body)
    return [name for declared in body.split(";") if "(" not in declared.partition("=")[0]
            for name in re.findall(r"(\w+)\s*(?:=[^,]*|\[\d+\])?\s*(?:,|$)", re.sub(r"<[^;=]*>", "", declared).partition("=")[0].strip())]


def headers(*names):
    return "".join((ROOT / "include/penstock" / name).read_text() for name in names)


def test_every_member_of_the_structs_of_cpp_is_in_the_table():
    text = headers("files.h", "source.h")
    nested = {"output_rules": "OutputRules", "source": "SourceOptions", "aggregates": "Aggregates"}
    for owner in OWNERS:
        fields = {row["field"].partition("[")[0] for row in rows_of(owner)}
        for member in members_of(body_of(text, owner)):
            if member in nested:
                fields_there = {field.partition(".")[2] for field in fields if field.startswith(member + ".")}
                assert set(members_of(body_of(text, nested[member]))) - {"window_bytes_max", "filter"} == fields_there, f"{owner}.{member}"
            else:
                assert member in fields | HOOKS, f"{owner}::{member} is not in src/interfaces/api/options.def"


def test_every_member_of_the_structs_of_c_is_in_the_table_and_the_other_way_round():
    text = headers("penstock.h")
    rust = (ROOT / "bindings/rust/penstock-sys/src/bindings.rs").read_text()
    for struct, owners in C_STRUCTS.items():
        members = members_of(body_of(text, struct))
        assert re.findall(r"pub (\w+):", re.search(rf"pub struct {struct} {{(.*?)\n}}", rust, re.S)[1]) == members, struct
        options = {row["c"] for owner in owners for row in rows_of(owner)} - {""}
        assert options <= set(members), struct
        others = {member for member in members if member not in options | HOOKS | C_PARTS | {"size", BY_NAME}}
        assert {re.sub(r"^has_|_count$", "", member) for member in others} <= options | {"sources", BY_NAME}, struct


def test_every_keyword_of_python_is_in_the_table_and_the_other_way_round():
    shared = {row["python"] for owner in ("ItemFormat", "FilesOptions") for row in rows_of(owner)} - {""}
    assert set(_files.FileOptions.__annotations__) == shared | {"progress"}
    for owner, functions in FUNCTIONS.items():
        for function in functions:
            parameters = inspect.signature(function).parameters
            for row in rows_of(owner):
                if not row["python"]:
                    continue
                assert row["python"] in parameters, f"{function.__name__}({row['python']}=)"
                default = parameters[row["python"]].default
                if default is not None:  # "not given"
                    assert (default, type(default)) == (row["default"], type(row["default"])), f"{function.__name__}({row['python']}=)"
    for function in {function for functions in FUNCTIONS.values() for function in functions}:
        known = {row["python"] for owner, functions in FUNCTIONS.items() if function in functions for row in rows_of(owner)}
        assert set(inspect.signature(function).parameters) <= known | OWN_KEYWORDS, function.__name__


def test_the_types_that_the_extension_takes_are_those_of_the_keywords():
    kinds = {"bool": bool, "str": str, "int": int, "int | bool": int}
    for owner in ("ItemFormat", "FilesOptions"):
        for row in rows_of(owner):
            kind = kinds.get(str(_files.FileOptions.__annotations__.get(row["python"])).removeprefix("ForwardRef('").partition("'")[0])
            if kind is not None and row.get("default") is not None:
                assert type(row["default"]) is kind, row["name"]


def test_the_words_of_a_cluster_are_the_options_of_items():
    items = _penstock.FilesOptions().items
    assert list(job.words_of(items)) == [row["name"] for row in rows_of("ItemFormat")]


@pytest.mark.parametrize("owner", OWNERS)
def test_the_command_line_says_what_the_table_says(owner, program):
    text = subprocess.run([program, COMMANDS[owner], "--help-all"], capture_output=True, text=True, check=True).stdout
    helped = re.sub(r"\s+", " ", text)
    for row in rows_of(owner):
        if not row["words"]:
            continue
        for word in row["words"].split(","):
            assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", helped), word
        assert row["help"] in helped, row["words"]
        told = re.search(r"\(default:? ([\w.]+)\)$", row["help"])
        if told and isinstance(row.get("default"), str) and row["default"]:
            assert told[1] == row["default"], row["words"]


@pytest.mark.parametrize("words, mode", [(["--by=a"], _penstock.TABLES), (["--engine=ray"], _penstock.CLUSTER), (["--engine=ray", "--by=a"], _penstock.CLUSTER_TABLES)])
def test_the_command_of_the_package_refuses_what_its_mode_does_not_obey(words, mode, capsys):
    from penstock.__main__ import ROWS as rows
    from penstock.__main__ import main

    modes = _penstock.TABLES | _penstock.CLUSTER | _penstock.CLUSTER_TABLES
    refused = [row for row in rows if row["scope"] & modes and not row["scope"] & mode]
    assert refused or mode == _penstock.CLUSTER
    for row in refused:
        name = next(word for word in (row["words"] or "--" + row["name"]).split(",") if word.startswith("--"))
        assert main(["sort", *words, name if row["kind"] == "bool" else f"{name}=1", "-o", "OUT", "--", "IN"]) == 2
        assert capsys.readouterr().err.startswith(f"penstock sort: {name}: a sort ")
    for row in rows:
        if row["words"] and not row["scope"] & modes:
            with pytest.raises(SystemExit):
                main(["sort", *words, row["words"].split(",")[-1], "-o", "OUT", "--", "IN"])


def test_an_option_that_is_no_value_of_its_list_names_the_others(tmp_path):
    (tmp_path / "in").write_text("b\na\n")
    with pytest.raises(ValueError, match="mechanism=.*mremap"):
        penstock.sort_file(tmp_path / "in", tmp_path / "out", mechanism="by hand")
    with pytest.raises(ValueError, match="compression=.*never"):
        penstock.sort_file(tmp_path / "in", tmp_path / "out", compression="sometimes")


def test_options_of_the_table_take_effect(tmp_path):
    (tmp_path / "in").write_text("b\nA\na\nB\n")
    penstock.sort_file(tmp_path / "in", tmp_path / "out.gz", compressed="gzip", locale="C", mechanism="mremap", compression="always")
    import gzip

    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == b"A\nB\na\nb\n"
