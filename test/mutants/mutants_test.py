#!/usr/bin/env python3
"""Tests of the mutants of sample.cc: mutants_test.py CXX [TEST...]. Checks the places found, and the changes that its main() notices."""

import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent)]
import end_to_end  # noqa: E402
import places  # noqa: E402

loader = importlib.machinery.SourceFileLoader("mutants", str(HERE / "mutants"))
mutants = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", loader))
loader.exec_module(mutants)

CXX = sys.argv[1]
SAMPLE = HERE / "sample.cc"

# Whether main() notices, by kind and change. A single thread cannot see memory orders.
EXPECTED = {
    ("argument", "n, 2 => 2, n"): True,
    ("arithmetic", "a + b => a - b"): True,
    ("bound", "x < limit => x <= limit"): True,
    ("bound", "n + 1 => n"): True,
    ("call", "count() => (left out)"): True,
    ("call", "publish() => (left out)"): True,
    ("call", "ready.store(1, std::memory_order_release) => (left out)"): False,
    ("condition", "n % 2 != 0 => n % 2 == 0"): True,
    ("condition", "negative => !(negative)"): True,
    ("order", "ready.store(1, std::memory_order_release) => ready.store(1, std::memory_order_relaxed)"): False,
    ("return", "true => false"): True,
    ("return", "false => true"): False,
}


@unittest.skipIf(places.clang is None, "Debian's python3-clang-19 is missing")
class Mutants(unittest.TestCase):
    def found(self):
        return sorted(places.Finder(HERE, {str(SAMPLE)}, set()).find(SAMPLE, []))

    def test_a_source_that_does_not_parse_is_an_error(self):
        # Not SystemExit, after which a pool would wait for its process forever.
        with tempfile.NamedTemporaryFile("w", suffix=".cc") as broken:
            broken.write("int main() { return missing; }")
            broken.flush()
            with self.assertRaises(ValueError):
                places.Finder(HERE, set(), set()).find(broken.name, [])

    def test_plans_of_networks_are_made(self):
        # The source that takes the parser the most steps.
        source = ROOT / "src/sorting/sort/leaf/leaf_avx2.cc"
        places.Finder(ROOT, set(), set()).find(source, [f"-I{ROOT}/src", f"-I{ROOT}/include"])

    def test_places_are_found_and_changes_noticed(self):
        found = self.found()
        folder = tempfile.TemporaryDirectory(prefix="penstock-mutants-")
        self.addCleanup(folder.cleanup)
        folder = pathlib.Path(folder.name)
        self.assertEqual(sorted((p.kind, mutants.change_of(p)) for p in found), sorted(EXPECTED))
        # Places within other places need a program of their own.
        noticed = {}
        for part in ([p for p in found if p.kind != "order"], [p for p in found if p.kind == "order"]):
            numbered = list(enumerate(part, 1))
            text, lines = mutants.mutate(SAMPLE.read_text(), numbered)
            self.assertEqual([place for _, _, place in lines], part)
            source, program = folder / "mutated.cc", folder / "mutated"
            source.write_text(text)
            subprocess.run([CXX, "-std=c++2b", "-include", HERE / "mutants.h", source, HERE / "mutants.cc", "-o", program],
                           check=True)
            test = dict(name="mutated", command=[str(program)])
            self.assertEqual(mutants.try_once(test, 60)[0], None, "with all mutants off")
            reached = folder / "reached"
            reached.write_bytes(bytes(len(part) + 1))
            mutants.try_once(test, 60, PENSTOCK_MUTANTS_REACHED=str(reached))
            for number, place in numbered:
                noticed[place.kind, mutants.change_of(place)] = bool(
                    mutants.try_once(test, 60, PENSTOCK_MUTANT=str(number))[0])
                self.assertEqual(reached.read_bytes()[number] == 1, (place.kind, place.was) != ("return", "false"), place)
        self.assertEqual(noticed, EXPECTED)

    def test_a_draw_is_the_same_each_time_and_none_lies_within_another(self):
        found = [places.Place("src/memory/pool/a.cc", start, start + 15, places.KINDS[start % 3], "a", str(start), "b")
                 for start in range(0, 300, 10)]
        drawn = mutants.draw(found, "7", 9, set())
        self.assertEqual(drawn, mutants.draw(found, "7", 9, set()))
        self.assertEqual(len(drawn), 9)
        self.assertEqual({p.kind for p in drawn}, set(places.KINDS[:3]))
        self.assertNotEqual(drawn, mutants.draw(found, "8", 9, set()))
        inside = sorted(drawn, key=lambda p: p.start)
        self.assertTrue(all(a.end <= b.start for a, b in zip(inside, inside[1:])))
        refused = mutants.key_of(drawn[0])
        self.assertNotIn(refused, map(mutants.key_of, mutants.draw(found, "7", 9, {refused})))


if __name__ == "__main__":
    end_to_end.main("mutants")
