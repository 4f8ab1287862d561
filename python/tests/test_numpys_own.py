"""NumPy's own tests of sort and argsort, read from its package, with ours in place of NumPy's.

Their code is compiled anew: a.sort(), a.argsort(), np.sort(a) and np.argsort(a) become calls of the functions below. Complex
numbers and objects, which we refuse, are passed to NumPy after our exception.
"""

import ast
import importlib.util

import numpy as np
import pytest

import penstock

TESTS = {
    "numpy._core.tests.test_multiarray": (
        "test_sort", "test_sort_unsigned", "test_sort_signed", "test_sort_complex", "test_sort_complex_byte_swapping",
        "test_sort_string", "test_sort_object", "test_sort_structured", "test_sort_time", "test_sort_axis", "test_sort_size_0",
        "test_sort_order", "test_argsort", "test_sort_unicode_kind", "test_sort_float", "test_sort_float16", "test_sort_int",
        "test_sort_uint", "test_argsort_float", "test_argsort_int", "test_sort_largearrays", "test_argsort_largearrays",
        "test_sort_degraded", "test_void_sort"),
    "numpy._core.tests.test_datetime": (
        "test_datetime_nat_argsort_stability", "test_timedelta_nat_argsort_stability", "test_datetime_timedelta_sort_nat"),
    "numpy._core.tests.test_regression": (
        "test_sort_bigendian", "test_string_argsort_with_zeros", "test_string_sort_with_zeros", "test_sort_overlap"),
}
served = {"ours": 0, "refused": 0}


def _ours_or_numpys(ours, numpys, a):
    if not isinstance(a, np.ndarray):
        return numpys()
    try:
        result = ours()
    except TypeError as refusal:
        assert str(refusal).startswith("penstock "), refusal
        served["refused"] += 1
        return numpys()
    served["ours"] += 1
    return result


def _sort(a, axis=-1, kind=None, order=None, *, stable=None):
    return _ours_or_numpys(lambda: penstock.sort(a, axis=axis, order=order, stable=True), lambda: a.sort(axis, kind, order), a)


def _argsort(a, axis=-1, kind=None, order=None, *, stable=None):
    if kind is not None and stable is not None:
        return a.argsort(axis, kind, order, stable=stable)  # an error
    return _ours_or_numpys(lambda: penstock.argsort(a, axis=axis, order=order), lambda: a.argsort(axis, kind, order), a)


def _sorted(a, axis=-1, kind=None, order=None, *, stable=None):
    if kind is not None and stable is not None:
        return np.sort(a, axis, kind, order, stable=stable)  # an error
    copy = np.array(a, copy=True, subok=True)
    copy, axis = (copy.ravel(), 0) if axis is None else (copy, axis)
    _sort(copy, axis, kind, order)
    return copy


class _Ours(ast.NodeTransformer):
    """Keeps the tests of these names and other functions, and calls our sort."""

    def __init__(self, names):
        self.names = names

    def visit_FunctionDef(self, node):
        if node.name.startswith("test") and node.name not in self.names:
            return None
        return self.generic_visit(node)

    def visit_If(self, node):
        self.generic_visit(node)
        return node if node.body else None

    def visit_ClassDef(self, node):
        self.generic_visit(node)
        has_tests = any(isinstance(part, ast.FunctionDef) and part.name.startswith("test") for part in node.body)
        return None if node.name.startswith("Test") and not has_tests else node

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("sort", "argsort"):
            of_numpy = isinstance(node.func.value, ast.Name) and node.func.value.id == "np"
            name = {"sort": "_sorted" if of_numpy else "_sort", "argsort": "_argsort"}[node.func.attr]
            node.args = node.args if of_numpy else [node.func.value, *node.args]
            node.func = ast.Name(name, ast.Load())
        return node


def _load(module, names):
    source = importlib.util.find_spec(module).origin
    with open(source) as file:
        tree = _Ours(names).visit(ast.parse(file.read(), source))
    space = {"__name__": module, "__package__": module.rpartition(".")[0], "__file__": source,
             "_sort": _sort, "_argsort": _argsort, "_sorted": _sorted}
    exec(compile(ast.fix_missing_locations(tree), source, "exec"), space)
    found = {name: thing for name, thing in space.items() if name.lower().startswith("test") and getattr(thing, "__module__", "") == module}
    for name, thing in found.items():
        globals()[name if name not in globals() else f"{name}_of_{module.rpartition('.')[2]}"] = thing
    return found


for _module, _names in TESTS.items():
    _found = _load(_module, _names)
    _there = {*_found, *(name for thing in _found.values() for name in dir(thing))}
    assert all(name in _there for name in _names), sorted(set(_names) - _there)


def test_zzz_ours_was_called():
    assert served["ours"] > 1000 and served["refused"] > 0, served
