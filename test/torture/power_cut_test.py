#!/usr/bin/env python3
"""Tests of power cuts: power_cut_test.py PENSTOCK AT_CALL [TEST...].

Model compares the possible images with recordings of a few steps. Share opens some of the images of each operation, All a tenth of them
(`./check full`). Planted proves that the tests can fail: missing syncs, in the program or in the recording, are found.
"""

import dataclasses
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import end_to_end

PROGRAM, AT_CALL = map(os.path.abspath, sys.argv[1:3])
del sys.argv[2]
import faults
import operations
import power_cut_trial
from power_cut import ANY, ORDERED, PAGE, PowerCuts
from recorder import FOLDER, Recording, Step
from stage import Stage

ROOT = HERE.parent.parent
PACKAGE = pathlib.Path(PROGRAM).resolve().parent.parent / "python"
SANITIZED = "ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ
ROOTS = {"out": FOLDER, "temp": FOLDER}
BYTES = {letter: letter.encode() * PAGE for letter in "abc"}


def images(steps, names=ROOTS, files=None, models=(ORDERED, ANY), draws=20):
    """The set of all states of the file, or of the names, in the images."""
    cuts = PowerCuts(Recording(dict(names), files or {}, steps))
    return [({path: FOLDER if what == FOLDER else cuts.content(image, path) for path, what in image.names if "/" in path}, point)
            for point, image in cuts.images(models=models, draws=draws)]


def contents(steps, path="out/a", **options):
    return {found.get(path) for found, _ in images(steps, **options)}


class Model(unittest.TestCase):
    standing = {**ROOTS, "out/a": 7}

    def test_pending_writes_are_there_or_not_or_torn(self):
        found = contents([Step("write", 7, at=0, data=BYTES["b"])], names=self.standing, files={7: BYTES["a"]})
        self.assertLessEqual({BYTES["a"], BYTES["b"]}, found)
        torn = found - {BYTES["a"], BYTES["b"]}
        self.assertTrue(torn)
        for content in torn:
            self.assertRegex(content.decode(), "^(a+b+|b+a+)$")
            self.assertEqual(content.rstrip(content[-1:]).__len__() % 512, 0)

    def test_a_sync_brings_what_was_before_it(self):
        steps = [Step("write", 7, at=0, data=BYTES["b"]), Step("sync", 7), Step("write", 7, at=0, data=BYTES["c"])]
        last = {found["out/a"] for found, point in images(steps, names=self.standing, files={7: BYTES["a"]}) if point == 3}
        self.assertNotIn(b"a"[0], {byte for content in last for byte in content})
        self.assertLessEqual({BYTES["b"], BYTES["c"]}, last)

    def test_a_size_in_front_of_the_data_gives_zeros(self):
        found = contents([Step("write", 7, at=0, data=BYTES["b"])], names=self.standing, files={7: b""})
        self.assertLessEqual({b"", bytes(PAGE), BYTES["b"]}, found)

    def test_each_page_for_itself(self):
        found = contents([Step("write", 7, at=0, data=BYTES["b"] * 2)], names=self.standing, files={7: BYTES["a"] * 2}, draws=60)
        self.assertLessEqual({BYTES["a"] + BYTES["b"], BYTES["b"] + BYTES["a"]}, found)

    def test_a_page_comes_with_what_was_written_to_it_before(self):
        steps = [Step("write", 7, at=0, data=b"b"), Step("write", 7, at=1, data=b"c")]
        found = contents(steps, names=self.standing, files={7: b"aa"}, draws=0)
        self.assertEqual(found, {b"aa", b"ba", b"bc"})

    def test_a_shorter_file_and_a_longer_one(self):
        found = contents([Step("size", 7, size=2), Step("size", 7, size=6)], names=self.standing, files={7: b"aaaa"}, draws=0)
        self.assertLessEqual({b"aaaa", b"aa", b"aa\0\0\0\0"}, found)
        self.assertLessEqual(found, {b"aaaa", b"aa", b"aa\0\0\0\0", b"aaaa\0\0"})

    def test_names_come_in_order_or_in_any(self):
        steps = [Step("link", 7, path="out/a"), Step("link", 8, path="temp/b")]
        names = {model: {tuple(found) for found, _ in images(steps, files={7: b"", 8: b""}, models=(model,))} for model in (ORDERED, ANY)}
        self.assertEqual(names[ORDERED], {(), ("out/a",), ("out/a", "temp/b")})
        self.assertEqual(names[ANY], names[ORDERED] | {("temp/b",)})

    def test_a_sync_of_a_folder_brings_its_names(self):
        steps = [Step("link", 7, path="out/a"), Step("link", 8, path="temp/b"), Step("sync-folder", path="temp")]
        last = [{tuple(found) for found, point in images(steps, files={7: b"", 8: b""}, models=(model,)) if point == 3}
                for model in (ORDERED, ANY)]
        self.assertEqual(last, [{("out/a", "temp/b")}, {("temp/b",), ("out/a", "temp/b")}])

    def test_a_missing_folder_hides_its_files(self):
        steps = [Step("folder", path="temp/f"), Step("link", 7, path="temp/f/a"), Step("sync-folder", path="temp/f")]
        found = {tuple(found) for found, _ in images(steps, files={7: b""}, models=(ANY,))}
        self.assertEqual(found, {(), ("temp/f",), ("temp/f", "temp/f/a")})

    def test_a_name_is_replaced_in_one_step(self):
        steps = [Step("link", 8, path="out/b"), Step("move", path="out/b", to="out/a")]
        found = contents(steps, names={**ROOTS, "out/a": 7}, files={7: b"old", 8: b"new"})
        self.assertEqual(found, {b"old", b"new"})


@unittest.skipIf(SANITIZED, "a sanitizer makes calls of its own")
class Cuts(unittest.TestCase):
    # Shared by all cases: it makes each input once.
    stage = Stage(PROGRAM, AT_CALL, ROOT / "build/python/bin/python", PACKAGE)
    unittest.addModuleCleanup(stage.close)

    def open(self, operation, size, variant, **options):
        if isinstance(operation, str):
            operation = next(one for one in operations.ALL if one.name == operation)
        try:
            cuts = power_cut_trial.Cuts(self.stage, operation, size, variant, **options)
        except faults.Cannot as error:
            self.skipTest(str(error))
        self.addCleanup(cuts.__exit__)
        self.assertEqual(cuts.problem, "")
        return cuts


# The journal of a driver of Ray, from which it resumes.
WRITTEN = operations.Operation(
    "ray-journal", (operations.PYTHON.format("from penstock.ray import storage; storage.write(r'{out}', open(r'{in0}', 'rb').read())"),),
    (operations.words,), lambda data: data, python=True)


class Share(Cuts):
    def images(self, names, size, share, variants=("new", "old")):
        for operation in operations.ALL:
            if operation.name in names and operation.outputs and operation.inputs and not operation.python and size in operation.sizes:
                for variant in set(variants) & set(power_cut_trial.variants(operation)):
                    with self.open(operation, size, variant) as cuts:
                        for image, problem in cuts.trials(share=share, seed=end_to_end.SEED):
                            self.assertEqual(problem, "", power_cut_trial.name_of(operation, size, variant, image))

    def test_all_of_small_outputs(self):
        self.images(("sort-u64", "sort-in-place", "merge", "partition", "group", "join", "cat-file", "convert"), "few", 1)

    def test_some_of_a_sort_that_can_be_resumed(self):
        self.images(("sort-resume",), "large", 0.001, variants=("old",))


    @unittest.skipUnless(any(PACKAGE.glob("penstock/_penstock*.so")), "the package of Python is not built")
    def test_all_of_what_python_writes(self):
        for operation in (WRITTEN, next(one for one in operations.ALL if one.name == "python-table")):
            for variant in power_cut_trial.variants(operation):
                with self.open(operation, "few", variant) as cuts:
                    for image, problem in cuts.trials(seed=end_to_end.SEED, again=operation is not WRITTEN):
                        self.assertEqual(problem, "", power_cut_trial.name_of(operation, "few", variant, image))


class All(Share):
    def test_all_of_small_outputs(self):
        self.images([operation.name for operation in operations.ALL], "small", 1)

    def test_some_of_a_sort_that_can_be_resumed(self):
        self.images(("sort-resume", "sort-resume-lines"), "large", 0.05)


class Planted(Cuts):
    """Missing syncs are found."""

    def found(self, cuts, **bounds):
        return {problem.partition("\n")[0] for _, problem in cuts.trials(draws=2, **bounds) if problem}

    def test_a_file_is_not_brought_to_the_disk(self):
        found = self.found(self.open("sort-u64", "few", "old", forgets=lambda step: step.kind == "sync"))
        self.assertEqual(found, {"out is neither the old nor the new one", "out is not the new one, behind exit code 0"})

    def test_a_name_is_not_brought_to_the_disk(self):
        found = self.found(self.open("sort-u64", "few", "new", forgets=lambda step: step.kind == "sync-folder"))
        self.assertEqual(found, {"out is not the new one, behind exit code 0"})

    def test_the_program_brings_nothing_to_the_disk(self):
        operation = next(one for one in operations.ALL if one.name == "sort-u64")
        operation = dataclasses.replace(operation, name="sort-no-sync", words=(*operation.words, "--no-sync"))
        self.assertIn("out is not the new one, behind exit code 0", self.found(self.open(operation, "few", "old")))

    def test_names_come_before_data(self):
        found = self.found(self.open("partition", "few", "old", forgets=lambda step: step.kind == "sync"))
        self.assertTrue({f"part-{i} is neither the old nor the new one" for i in range(5)} & found, found)

    def test_a_journal_tells_of_what_is_not_on_the_disk(self):
        cuts = self.open("sort-resume", "large", "new", forgets=lambda step: step.kind == "sync" and "/split-" in step.path)
        journals = [number for number, step in enumerate(cuts.model.steps) if step.kind == "sync" and step.path.endswith("/journal")]
        splits = [number for number, step in enumerate(cuts.model.steps) if step.path.rpartition("/")[2].startswith("split-")]
        # After the sync of the journal that records the split.
        told = next(number for number in journals if number > splits[0])
        after = next(point for point in cuts.model.points if point > told)
        problem = next((problem for _, problem in cuts.trials(draws=2, points=[after]) if problem), "")
        self.assertIn("did not come back as they were written", problem)


if __name__ == "__main__":
    print(f"seed {end_to_end.SEED} (PENSTOCK_TEST_SEED)", file=sys.stderr)
    end_to_end.main("power_cut_end_to_end")
