"""Finds the places of a source where a small change should make a test fail, and the changed code.

Each kind of mutation is one of the mistakes that people make:

    bound      < and <=, > and >=; + 1 and - 1 that are forgotten
    condition  == and !=, && and ||; a condition that is turned round
    arithmetic + and -
    call       a statement that is a call, left out
    order      a memory order made relaxed, a fence left out
    argument   two arguments of one type, swapped
    return     return true for false, 1 for 0

Code in macros and compile-time code (constants, static_assert, types) are left alone. So are changes that only affect time
(reserved room) or the words of a message; and memory orders that are the same instruction on x86, except in the sources that
test/schedules runs, which knows the difference.
"""

import dataclasses
import pathlib
import re
import sys

sys.path.append("/usr/lib/python3/dist-packages")  # folder of Debian's python3-clang-19
try:
    import clang.cindex
    from clang.cindex import CursorKind as Kind, TypeKind as Type
    if not clang.cindex.Config.loaded:
        clang.cindex.Config.set_library_file("libclang-19.so.1")
except ImportError:
    clang = None

KINDS = ("bound", "condition", "arithmetic", "call", "order", "argument", "return")
OPERATORS = {"<": ("bound", "<="), "<=": ("bound", "<"), ">": ("bound", ">="), ">=": ("bound", ">"),
             "==": ("condition", "!="), "!=": ("condition", "=="), "&&": ("condition", "||"), "||": ("condition", "&&"),
             "+": ("arithmetic", "-"), "-": ("arithmetic", "+")}
RETURNED = {"true": "false", "false": "true", "0": "1", "1": "0"}
ORDER = re.compile(r"(std::)?memory_order_(acquire|release|acq_rel|seq_cst)$")
ATOMIC = re.compile(r"load|store|exchange|fetch_\w+|compare_exchange_\w+")
SYMMETRIC = {"min", "max", "swap", "minmax"}
WORDS = {"format", "failure", "system_error", "snprintf"}
SAVES_TIME = {"reserve", "prefetch", "__builtin_prefetch", "advise_huge"}
ON = "\0"
FLAGS = ["-x", "c++", "-std=c++23", "-resource-dir", "/usr/lib/llvm-19/lib/clang/19", "-w",
         "-fconstexpr-steps=50000000"]  # sorting networks are planned at compile time


@dataclasses.dataclass(frozen=True, order=True)
class Place:
    """The text of a file from `start` to `end`, in bytes. `code` replaces it in the mutated tree, with ON for the switch."""
    file: str
    start: int
    end: int
    kind: str
    was: str
    instead: str
    code: str


class Finder:
    """Finds the places of one translation unit, in the files of `wanted` that are not in `done`. In the files of `scheduled`
    (None: all) each memory order counts."""

    def __init__(self, root, wanted, done, scheduled=None):
        self.root, self.wanted, self.done, self.scheduled = root, wanted, done, scheduled
        self.places = []

    def find(self, source, flags):
        unit = clang.cindex.Index.create().parse(str(source), args=FLAGS + flags)
        errors = [str(d) for d in unit.diagnostics if d.severity >= 3]
        if errors:
            raise ValueError(f"{source}: {errors[0]}")  # not SystemExit: the pool would wait for its process forever
        seen = set()
        for cursor in unit.cursor.get_children():
            file = cursor.location.file and str(pathlib.Path(cursor.location.file.name).resolve())
            if file in self.wanted and file not in self.done:
                seen.add(file)
                self.name = str(pathlib.Path(file).relative_to(self.root))
                self.text = pathlib.Path(file).read_text("latin-1")  # one character per byte
                self.visit(cursor, None)
        self.done |= seen
        return self.places

    def of(self, node):
        return self.text[node.extent.start.offset:node.extent.end.offset]

    def between(self, first, second):
        return self.text[first.extent.end.offset:second.extent.start.offset].strip()

    def behind(self, node):
        return self.text[node.extent.end.offset:].lstrip()[:1]

    def before(self, node):
        return self.text[:node.extent.start.offset].rstrip()[-1:]

    def add(self, kind, start, end, instead, code=None):
        was = self.text[start:end]
        if "#" in was or '"' in was and "\n" in was:  # preprocessor lines, literals over several lines
            return
        code = code or f"({ON} ? ({instead}) : ({was}))"
        self.places.append(Place(self.name, start, end, kind, was, instead, code))

    def visit(self, node, parent):
        kind = node.kind
        if kind in (Kind.STATIC_ASSERT, Kind.ENUM_DECL, Kind.CONCEPT_DECL, Kind.PARM_DECL, Kind.FIELD_DECL,
                    Kind.TYPE_ALIAS_DECL, Kind.TEMPLATE_TYPE_PARAMETER, Kind.TEMPLATE_NON_TYPE_PARAMETER):
            return
        if kind == Kind.VAR_DECL and "constexpr" in self.of(node).split("=")[0].split("{")[0]:
            return
        children = list(node.get_children())
        if kind in (Kind.FUNCTION_DECL, Kind.CXX_METHOD, Kind.FUNCTION_TEMPLATE):  # constraints are not mutated
            children = [child for child in children if not child.kind.is_expression()]
        if kind == Kind.IF_STMT and re.match(r"if\s+constexpr", self.of(node)):
            children = children[1:]
        if kind in (Kind.BINARY_OPERATOR, Kind.CALL_EXPR) and len(children) >= 2:
            self.operator(node, children[0], children[-1])
        if kind in (Kind.IF_STMT, Kind.WHILE_STMT, Kind.DO_STMT, Kind.CONDITIONAL_OPERATOR):
            self.condition(node, children)
        if kind == Kind.CALL_EXPR:
            self.call(node)
        if kind == Kind.COMPOUND_STMT:
            for child in children:
                self.statement(child)
        if kind == Kind.RETURN_STMT and children:
            was = self.of(children[0])
            if was in RETURNED:
                self.add("return", children[0].extent.start.offset, children[0].extent.end.offset, RETURNED[was])
        for child in children[1 if kind == Kind.CASE_STMT else 0:]:
            self.visit(child, node)

    def operator(self, node, left, right):
        sign = self.between(left, right)
        if sign not in OPERATORS or self.of(node) != self.text[left.extent.start.offset:right.extent.end.offset]:
            return
        types = [each.type.get_canonical() for each in (left, right)]
        if sign in "+-" and ("basic_string" in node.type.get_canonical().spelling or all(t.kind == Type.POINTER for t in types)):
            return  # the compiler would refuse it
        start, end = node.extent.start.offset, node.extent.end.offset
        kind, other = OPERATORS[sign]
        if sign in "+-" and self.of(right) == "1":
            self.add("bound", start, end, self.of(left))
        elif sign == "+" and self.of(left) == "1":
            self.add("bound", start, end, self.of(right))
        else:
            self.add(kind, start, end, f"{self.of(left)} {other} {self.of(right)}")

    def condition(self, node, children):
        if re.match(r"if\s+(constexpr|consteval|!)", self.of(node)):
            return
        for child in children:
            if not child.kind.is_expression() or self.of(child) in ("true", "false"):
                continue
            if node.kind == Kind.CONDITIONAL_OPERATOR:
                if child != children[0] or self.behind(child) != "?":
                    continue
            elif self.before(child) not in "(;" or self.behind(child) != ")":
                continue
            inner = list(child.get_children())
            if len(inner) >= 2 and self.between(inner[0], inner[-1]) in OPERATORS:
                continue
            was = self.of(child)
            self.add("condition", child.extent.start.offset, child.extent.end.offset, f"!({was})",
                     f"(static_cast<bool>({was}) != {ON})")
            return

    def call(self, node):
        text = self.of(node)
        arguments = [a for a in node.get_arguments() if a is not None]
        if not text.endswith(")"):
            return
        start = node.extent.start.offset
        orders = [a for a in arguments if ORDER.match(self.of(a))]
        if not self.order_counts(node, text):
            pass
        elif orders and "fence" not in node.spelling:
            weak = text
            for order in reversed(orders):
                weak = (weak[:order.extent.start.offset - start] + "std::memory_order_relaxed" +
                        weak[order.extent.end.offset - start:])
            self.add("order", start, node.extent.end.offset, weak)
        elif ATOMIC.fullmatch(node.spelling) and "memory_order" not in text and node.referenced is not None \
                and "atomic" in node.referenced.semantic_parent.spelling:
            weak = text[:-1] + (", " if not text.endswith("()") else "") + "std::memory_order_relaxed)"
            self.add("order", start, node.extent.end.offset, weak)
        if node.spelling in SYMMETRIC | WORDS:
            return
        for one, two in zip(arguments, arguments[1:]):
            type_of = lambda a: re.sub(r"\bconst\b|&|\s", "", a.type.get_canonical().spelling)
            if type_of(one) != type_of(two) or "dependent" in type_of(one) or self.between(one, two) != ",":
                continue
            a, b = self.of(one), self.of(two)
            if a == b or not a or not b or ORDER.match(a) or a[0] in "[\"" or b[0] in "[\"":
                continue
            self.add("argument", one.extent.start.offset, two.extent.end.offset, f"{b}, {a}",
                     f"{ON} ? ({b}) : ({a}), {ON} ? ({a}) : ({b})")

    def order_counts(self, node, text):
        strongest = "seq_cst" in text or "memory_order" not in text
        return self.scheduled is None or self.name in self.scheduled or strongest and ("fence" in node.spelling or node.spelling == "store")

    def statement(self, node):
        inner = node
        while inner.kind in (Kind.UNEXPOSED_EXPR, Kind.CSTYLE_CAST_EXPR):
            children = list(inner.get_children())
            if not children:
                return
            inner = children[-1]
        text = self.of(node)
        if inner.kind != Kind.CALL_EXPR or inner.spelling.startswith("operator") or not text.endswith(")") \
                or self.behind(node) != ";":
            return
        kind = "order" if "fence" in inner.spelling else "call"
        if kind == "order" and not self.order_counts(inner, text) or inner.spelling in SAVES_TIME:
            return
        self.add(kind, node.extent.start.offset, node.extent.end.offset, "", f"if (!{ON}) {text}")
