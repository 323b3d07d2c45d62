"""A course of one made-up chapter, for the tests of what lessons are built with."""

from __future__ import annotations

from pathlib import Path

from checkers.course import Course

CHECKER = """
from checkers.exercise import Case, Diagnosis, Exercise, Rung


def exercise(name, more):
    return Exercise(
        id=f"ch90.{name}", title=f"Make {name}", points=5, minutes=3, rung=Rung.PYTHON,
        function=name, section="## How to add", cases=(Case("two", {"a": 2}),),
        inputs=lambda case, generator: (case["a"],), oracle=lambda a: a + more,
        hints=("?", "add", "a + 1"), mistakes=(),
        diagnoses=(Diagnosis(says="off by one", reread="## How to add"),),
    )


EXERCISES = (exercise("plus_one", 1), exercise("plus_two", 2))
"""

SOLUTION = '''"""Adds."""

# %% setup
import math

# %% exercise ch90.plus_one
def plus_one(a: int) -> int:
    ### BEGIN SOLUTION add one (1 line)
    return a + 1
    ### END SOLUTION

# %% exercise ch90.plus_two
def plus_two(a: int) -> int:
    ### BEGIN SOLUTION add two (1 line)
    return a + 2
    ### END SOLUTION
'''

LESSON = """---
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# Adding

Takes 6 minutes, needs nothing. `{measured}` is not a role, nor is `` {measured}`x` `` one.

```{setup}
```

## How to add

Add. As in

```python
{unknown}`x` stays, it is code
```

```{exercise} ch90.plus_one
```

Then again.

```{code-cell} python3
print("ordinary")
```

```{exercise} ch90.plus_two
```

## The end

Done.
"""


def write_course(root: Path, lesson: str = LESSON, solution: str = SOLUTION) -> Course:
    """Writes the made-up course under ``root`` and opens it."""
    for name, text in {
        "checkers/chapters/ch90_adding.py": CHECKER,
        "solutions/ch90_adding.py": solution,
        "chapters/ch90_adding/lesson.md": lesson,
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Course(root)
