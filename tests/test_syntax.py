"""Questions asked of a learner's syntax tree."""

from __future__ import annotations

import ast

import pytest

from checkers.grading import syntax


def tree(source: str) -> ast.Module:
    return ast.parse(source)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch\ntorch.softmax(x, 0)", "torch.softmax"),
        ("import torch as t\nt.softmax(x, 0)", "torch.softmax"),
        ("from torch import softmax as s\ns(x, 0)", "torch.softmax"),
        ("import torch.nn.functional as F\nF.softmax(x)", "F.softmax"),
        ("import torch\ntorch.nn.functional.softmax(x)", "F.softmax"),
        ("from torch.nn import functional\nfunctional.softmax(x)", "torch.nn.functional.softmax"),
        ("soft = torch.softmax\nsoft(x, 0)", "torch.softmax"),
        ("getattr(torch, 'softmax')(x, 0)", "torch.softmax"),
        ("import triton\nm = triton.language\nm.max(x)", "tl.max"),
        ("tl.max(x)", "tl.max"),
        ("x.softmax(-1)", ".softmax"),
        ("torch.randn(3).softmax(-1)", ".softmax"),
        ("torch.Tensor.softmax(x, -1)", ".softmax"),
        ("getattr(x, 'softmax')(-1)", ".softmax"),
        ("f = x.softmax", ".softmax"),
    ],
)
def test_a_name_is_found_however_it_is_spelt(source: str, name: str) -> None:
    assert syntax.uses(tree(source), name)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("'torch.softmax'  # torch.softmax(x)", "torch.softmax"),
        ("def softmax(x): ...\nsoftmax(x)", "torch.softmax"),
        ("import mine\nmine.softmax(x)", "torch.softmax"),
        ("torch.softmax_like(x)", "torch.softmax"),
        ("torch.softmax(x)", ".softmax"),
        ("tl.softmax(x)", ".softmax"),
        ("x.softmax2()", ".softmax"),
    ],
)
def test_a_name_is_not_found_where_it_is_not(source: str, name: str) -> None:
    assert not syntax.uses(tree(source), name)


def test_an_import_is_a_use_of_the_module_and_its_parents() -> None:
    found = syntax.uses(tree("import a\nfrom checkers.grading import oracle\n"), "checkers")
    assert [node.lineno for node in found] == [2]


def test_calls_are_of_exactly_that_function() -> None:
    source = "tl.load(p)\ntl.load(p, mask=m)\ntl.load.x(p)\nrange(3)\nx.sum()\ny.sum\n"
    assert [len(syntax.calls(tree(source), n)) for n in ("tl.load", "range", ".sum")] == [2, 1, 1]


def test_loads_and_stores_by_what_they_are_given() -> None:
    source = (
        "tl.load(a)\n"
        "tl.load(b, mask=m)\n"
        "tl.load(c, m)\n"
        "tl.load(d, mask=m, other=0.0)\n"
        "tl.load(e, m, 0.0)\n"
        "tl.store(f, x)\n"
        "tl.store(g, x, m)\n"
        "tl.store(h, x, mask=m)\n"
    )
    asked = tree(source)
    assert [c.lineno for c in syntax.loads_without_other(asked)] == [2, 3]
    assert [c.lineno for c in syntax.loads_without_mask(asked)] == [1]
    assert [c.lineno for c in syntax.stores_without_mask(asked)] == [6]
    assert syntax.load_without_other(asked) and syntax.store_without_mask(asked)
    assert not syntax.load_without_other(tree("tl.load(a, mask=m, other=0)"))


@pytest.mark.parametrize(
    "infinity",
    ["-float('inf')", "float('-inf')", "-math.inf", "-torch.inf", "float('-infinity')"],
)
def test_minus_infinity_has_many_spellings(infinity: str) -> None:
    predicate = syntax.call_with_keyword("tl.load", "other", float("-inf"))
    assert predicate(tree(f"tl.load(p, mask=m, other={infinity})"))
    assert not predicate(tree("tl.load(p, mask=m, other=0.0)"))


def test_predicates_are_made_of_predicates() -> None:
    source = tree("tl.load(p, m, 0)\ntl.sum(x)")
    zero = syntax.call_with_keyword("tl.load", "other", 0)
    assert zero(source)
    assert syntax.call_with_keyword("tl.load", "other")(source)
    assert syntax.all_of(zero, syntax.no_call("tl.max"), syntax.has_call("tl.sum"))(source)
    assert not syntax.all_of(zero, syntax.has_call("tl.max"))(source)
    assert syntax.any_of(syntax.has_call("tl.max"), zero)(source)
    assert syntax.negated(syntax.has_call("tl.max"))(source)
    assert syntax.call_without_keyword("tl.sum", "axis")(source)


def test_comments_docstrings_and_layout_are_not_code() -> None:
    first = 'def f(x):\n    """Doc."""\n    return (x+1)\n'
    second = "# note\n\ndef f(x):\n\n    return x + 1  # more\n"
    assert syntax.same_code(first, second)
    assert not syntax.same_code(first, first.replace("1", "2"))
    assert not syntax.same_code(first, "def f(x:")


def test_blanks_are_found_with_their_words_and_lines() -> None:
    source = (
        "def f():\n"
        '    raise NotImplementedError("load the row (2 lines)")\n'
        "def g():\n"
        "    if a:\n"
        "        raise NotImplementedError\n"
        '    raise ValueError("fine")\n'
    )
    assert syntax.unfilled_blanks(tree(source)) == [
        syntax.Blank(2, "load the row (2 lines)"),
        syntax.Blank(5, ""),
    ]


def test_what_a_module_binds() -> None:
    source = (
        "import a.b\nfrom c import d as e\nif x:\n    def f(): inner = 1\nelse:\n    g, h = 1, 2\n"
        "try:\n    pass\nexcept E:\n    i = 1\nfor j in y: pass\nwith z as k: pass\nclass L: m = 1\n"
    )
    bound = syntax.top_level_bindings(tree(source))
    assert set(bound) == {"a", "e", "f", "g", "h", "i", "j", "k", "L"}
    assert isinstance(bound["f"], ast.FunctionDef)
